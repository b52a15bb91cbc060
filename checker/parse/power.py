"""The files of a power measurement: spl.txt samples, PTDaemon's log, client and server records."""

from __future__ import annotations

import functools
import hashlib
import re
from array import array
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from checker.parse.documents import Document, read_json
from checker.parse.reading import Fault, File, Folder, Unreadable, read_bytes, read_lines

if TYPE_CHECKING:
    from checker.parse.detail import DetailLog
    from schemas.round import Round

_MINUTE = re.compile(r"^(\d\d)-(\d\d)-(\d{4}) (\d\d):(\d\d):$")
_SECOND = re.compile(r"(\d\d)(?:\.\d{1,6})?$")
_MAX_SAMPLES = 5_000_000
_MAX_MESSAGES = 100_000
_MAX_MARKS = 20
_MAX_HASHED = 64 * 1024 * 1024


def seconds_of(stamp: str) -> float | None:
    """``MM-DD-YYYY hh:mm:ss.mmm`` as seconds since 1970 UTC; None when it is no such time."""
    stamp = stamp.strip()
    minute = _minute(stamp[:17])
    found = _SECOND.match(stamp, 17)
    if minute is None or found is None or int(found.group(1)) > 59:
        return None
    return minute + float(found.group(0))


@functools.lru_cache(maxsize=4096)
def _minute(text: str) -> float | None:
    """Seconds since 1970 of ``MM-DD-YYYY hh:mm:``; a log of one sample a second asks sixty times."""
    found = _MINUTE.match(text)
    if found is None:
        return None
    month, day, year, hour, minute = (int(part) for part in found.groups())
    try:
        return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()
    except ValueError:
        return None


@dataclass(slots=True)
class SampleLog:
    """spl.txt: one sample a line, about one a second.

    times: seconds since 1970 in the clock of the file; watts, volts, amps, factors: as written
    (NaN where a field is missing); lines: 1-based line of each sample; marks: the sessions that
    the samples are marked with and how many each has.
    """

    path: str
    times: array[float] = field(default_factory=lambda: array("d"))
    watts: array[float] = field(default_factory=lambda: array("d"))
    volts: array[float] = field(default_factory=lambda: array("d"))
    amps: array[float] = field(default_factory=lambda: array("d"))
    factors: array[float] = field(default_factory=lambda: array("d"))
    lines: array[int] = field(default_factory=lambda: array("L"))
    marks: dict[str, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def between(self, begin: float, end: float) -> list[int]:
        """The indices of the samples strictly between two times (seconds since 1970)."""
        return [i for i, time in enumerate(self.times) if begin < time < end]


@dataclass(slots=True)
class Message:
    """One line of ptd_logs.txt: its time as written, its text."""

    stamp: str
    text: str
    line: int


@dataclass(slots=True)
class PowerLogs:
    """Everything of one power run.

    begin, end: LoadGen's interval in the samples' clock, seconds since 1970; logged_begin,
    logged_end: the same as LoadGen logged it. hashes: name inside ``performance/`` -> SHA-1 of the
    file as it is and with CRLF line ends, for the run's files and those of ``power/``.
    """

    path: str
    files: dict[str, File]
    samples: SampleLog | None = None
    server: Document | None = None
    client: Document | None = None
    ptd: list[Message] = field(default_factory=list)
    ptd_path: str | None = None
    begin: float | None = None
    end: float | None = None
    logged_begin: float | None = None
    logged_end: float | None = None
    hashes: dict[str, tuple[str, str]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    @property
    def watts(self) -> list[float]:
        """The positive watts inside the interval, as the published average takes them."""
        if self.samples is None or self.begin is None or self.end is None:
            return []
        return [
            self.samples.watts[i]
            for i in self.samples.between(self.begin, self.end)
            if self.samples.watts[i] > 0
        ]

    @property
    def inside(self) -> list[int]:
        """The indices of the samples strictly inside LoadGen's interval."""
        if self.samples is None or self.begin is None or self.end is None:
            return []
        return self.samples.between(self.begin, self.end)

    @property
    def average_watts(self) -> float | None:
        """Mean watts inside the interval; None when there is no positive sample in it."""
        watts = self.watts
        return sum(watts) / len(watts) if watts else None


def read_samples(file: File) -> SampleLog:
    """Read spl.txt. Never raises; a line that is no sample is a Fault (blank lines are not)."""
    log = SampleLog(file.path)
    number = 0
    heads: dict[tuple[str, ...], list[str]] = {}
    try:
        for raw in read_lines(file):
            number += 1
            if not raw.strip() or number > _MAX_SAMPLES:
                continue
            fields = raw.decode("utf-8", "backslashreplace").split(",")
            head = tuple(fields[::2])
            names = heads.get(head)
            if names is None:
                names = heads[head] = [name.strip().lower() for name in head]
                if len(heads) > _MAX_MARKS:
                    heads.clear()
            named = dict(zip(names, fields[1::2], strict=False))
            time = seconds_of(named.get("time", ""))
            if time is None:
                if len(log.faults) < 5:
                    log.faults.append(
                        Fault(file.path, "syntax", f"{file.path} line {number} is no power sample",
                              number, "use spl.txt as PTDaemon's client wrote it")
                    )  # fmt: skip
                continue
            log.times.append(time)
            for name, into in (
                ("watts", log.watts),
                ("volts", log.volts),
                ("amps", log.amps),
                ("pf", log.factors),
            ):
                into.append(_float(named.get(name)))
            log.lines.append(number)
            mark = named.get("mark", "").strip()
            if mark in log.marks or len(log.marks) < _MAX_MARKS:
                log.marks[mark] = log.marks.get(mark, 0) + 1
    except Unreadable as error:
        log.faults.append(error.fault)
    if number == 0 and not log.faults:
        log.faults.append(Fault(file.path, "empty", f"{file.path} is empty", 1))
    return log


def _float(text: str | None) -> float:
    try:
        return float(text) if text is not None else float("nan")
    except ValueError:
        return float("nan")


_PTD = re.compile(
    r"^(?:Time,)?(?P<stamp>\d\d-\d\d-\d{4} \d\d:\d\d:\d\d(?:\.\d{1,6})?)[,:]?\s+(?P<text>.*)$"
)


def read_ptd_log(file: File) -> tuple[list[Message], list[Fault]]:
    """Read ptd_logs.txt: its messages with their times as written."""
    messages: list[Message] = []
    faults: list[Fault] = []
    try:
        for number, raw in enumerate(read_lines(file), 1):
            if not raw.strip() or len(messages) >= _MAX_MESSAGES:
                continue
            text = raw[:2000].decode("utf-8", "backslashreplace")
            found = _PTD.match(text)
            messages.append(
                Message(found["stamp"].strip(), found["text"], number)
                if found
                else Message("", text, number)
            )
    except Unreadable as error:
        faults.append(error.fault)
    return messages, faults


def read_power(
    run_folder: Folder | None, power_folder: Folder | None, detail: DetailLog | None, round: Round
) -> PowerLogs:
    """Read the power files of one run; what is missing stays None."""
    path = (
        power_folder.path if power_folder is not None else (run_folder.path if run_folder else "")
    )
    logs = PowerLogs(path, dict(power_folder.files) if power_folder is not None else {})
    if run_folder is not None and "spl.txt" in run_folder.files:
        logs.samples = read_samples(run_folder.files["spl.txt"])
        logs.faults.extend(logs.samples.faults)
    if power_folder is not None:
        for name in ("server", "client"):
            file = power_folder.files.get(f"{name}.json")
            if file is not None:
                document = read_json(file)
                setattr(logs, name, document)
                logs.faults.extend(document.faults)
        file = power_folder.files.get("ptd_logs.txt")
        if file is not None:
            logs.ptd_path = file.path
            logs.ptd, faults = read_ptd_log(file)
            logs.faults.extend(faults)
    if detail is not None:
        begin, end = detail.text("power_begin"), detail.text("power_end")
        shift = 0.0 if round.power.clock_is_utc else _zone_shift(logs)
        if begin is not None:
            logs.logged_begin = seconds_of(begin)
            logs.begin = logs.logged_begin + shift if logs.logged_begin is not None else None
        if end is not None:
            logs.logged_end = seconds_of(end)
            logs.end = logs.logged_end + shift if logs.logged_end is not None else None
    for folder in (run_folder, power_folder):
        for name, file in sorted(folder.files.items()) if folder is not None else ():
            digests = _digests(file) if file.size <= _MAX_HASHED else None
            if digests is not None and folder is not None:
                logs.hashes[f"{folder.name}/{name}"] = digests
    return logs


def _digests(file: File) -> tuple[str, str] | None:
    try:
        data = read_bytes(file, _MAX_HASHED)
    except Unreadable:
        return None
    as_is = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    windows = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return as_is, hashlib.sha1(windows, usedforsecurity=False).hexdigest()


def _zone_shift(logs: PowerLogs) -> float:
    """How far the meter's clock zone is from LoadGen's, seconds (rounds that log local time)."""

    def zone(document: Document | None) -> float:
        value = document.fields.get("timezone") if document is not None else None
        return (
            float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
        )

    return zone(logs.client) - zone(logs.server)
