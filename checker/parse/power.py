"""The files of a power measurement: spl.txt samples, PTDaemon's log, client and server records."""

from __future__ import annotations

import functools
import hashlib
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from checker.parse.documents import Document, read_json
from checker.parse.reading import (
    Fault,
    File,
    Folder,
    Unreadable,
    number_of,
    read_bytes,
    sound_lines,
    text_lines,
)

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
    """``MM-DD-YYYY hh:mm:ss.mmm`` as seconds since 1970 UTC; None when it is not a time of that form."""
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


def _doubles() -> array[float]:
    return array("d")


class Readings(msgspec.Struct):
    """What an analyser read, one value a sample; NaN where the line does not state it.

    watts, volts, amps: in W, V, A; factors: power factors.
    """

    watts: array[float] = msgspec.field(default_factory=_doubles)
    volts: array[float] = msgspec.field(default_factory=_doubles)
    amps: array[float] = msgspec.field(default_factory=_doubles)
    factors: array[float] = msgspec.field(default_factory=_doubles)


class SampleLog(Readings, kw_only=True):
    """spl.txt: one sample a line, about one a second.

    The log's own readings are the totals, which are published; channels: those of each channel
    (``Ch1``), or analyser, by the name it has in the file, as long as the totals. times: seconds
    since 1970 in the clock of the file; lines: 1-based line of each sample; marks: the sessions
    that the samples are marked with and how many each has.
    """

    path: str
    times: array[float] = msgspec.field(default_factory=_doubles)
    lines: array[int] = msgspec.field(default_factory=lambda: array("L"))
    channels: dict[str, Readings] = {}
    marks: dict[str, int] = {}
    faults: list[Fault] = []

    def between(self, begin: float, end: float) -> list[int]:
        """The indices of the samples strictly between two times (seconds since 1970)."""
        return [i for i, time in enumerate(self.times) if begin < time < end]


class Message(msgspec.Struct):
    """One line of ptd_logs.txt: its time as written, its text."""

    stamp: str
    text: str
    line: int


class PowerLogs(msgspec.Struct):
    """Everything of one power run.

    begin, end: LoadGen's interval in the samples' clock, seconds since 1970; logged_begin,
    logged_end: the same as LoadGen logged it. hashes: name inside ``performance/`` -> SHA-1 of the
    file as it is and with CRLF line ends, for the run's files and those of ``power/``; twice the first
    where it is the recorded one.
    """

    path: str
    files: dict[str, File]
    samples: SampleLog | None = None
    server: Document | None = None
    client: Document | None = None
    ptd: list[Message] = []
    ptd_path: str | None = None
    begin: float | None = None
    end: float | None = None
    logged_begin: float | None = None
    logged_end: float | None = None
    hashes: dict[str, tuple[str, str]] = {}
    faults: list[Fault] = []
    drop_zero_watts: bool = True

    @property
    def watts(self) -> list[float]:
        """The watts inside the interval that the published average takes: every finite one, or
        the positive ones where the round leaves the others out (``drop_zero_watts``)."""
        if self.samples is None:
            return []
        inside = (self.samples.watts[i] for i in self.inside)
        if self.drop_zero_watts:
            return [watts for watts in inside if watts > 0]
        return [watts for watts in inside if math.isfinite(watts)]

    @property
    def inside(self) -> list[int]:
        """The indices of the samples strictly inside LoadGen's interval."""
        if self.samples is None or self.begin is None or self.end is None:
            return []
        return self.samples.between(self.begin, self.end)

    @property
    def average_watts(self) -> float | None:
        """Mean watts inside the interval; None when no sample counts."""
        watts = self.watts
        return sum(watts) / len(watts) if watts else None


_CHANNEL = re.compile(r"ch\d{1,3}", re.IGNORECASE)
_COLUMNS = {"watts": "watts", "volts": "volts", "amps": "amps", "pf": "factors"}
_MAX_CHANNELS = 64


class _Layout(msgspec.Struct, frozen=True):
    """Where the fields of a sample stand in its line: every line of a file has the same.

    names: (position, word) of every word that is not a value; columns: (channel, quantity, position
    of its value), channel "" for the totals.
    """

    fields: int
    names: tuple[tuple[int, str], ...]
    time: int | None
    mark: int | None
    columns: tuple[tuple[str, str, int], ...]

    def fits(self, fields: list[str]) -> bool:
        """Whether a line has this layout."""
        return len(fields) == self.fields and all(fields[at] == word for at, word in self.names)


def _layout(fields: list[str]) -> _Layout:
    """The layout of one line: ``name,value`` pairs; a lone ``Ch1`` begins a channel's pairs."""
    names: list[tuple[int, str]] = []
    columns: list[tuple[str, str, int]] = []
    places: dict[str, int] = {}
    channels: list[str] = []
    channel, at = "", 0
    while at < len(fields):
        word = fields[at].strip()
        names.append((at, fields[at]))
        if _CHANNEL.fullmatch(word):
            # Two analysers may both call their channel Ch1.
            again = sum(name == word or name.startswith(f"{word} (") for name in channels)
            channel = f"{word} ({again + 1})" if again else word
            channels.append(channel)
            at += 1
            continue
        if at + 1 < len(fields):
            quantity = _COLUMNS.get(word.lower())
            if quantity is not None and len(channels) <= _MAX_CHANNELS:
                columns.append((channel, quantity, at + 1))
            elif word.lower() in ("time", "mark"):
                places.setdefault(word.lower(), at + 1)
        at += 2
    first: dict[tuple[str, str], int] = {}
    for name, quantity, place in columns:
        first.setdefault((name, quantity), place)
    return _Layout(
        fields=len(fields),
        names=tuple(names),
        time=places.get("time"),
        mark=places.get("mark"),
        columns=tuple((name, quantity, place) for (name, quantity), place in first.items()),
    )


@functools.lru_cache(maxsize=16)
def _line_of(layout: _Layout) -> re.Pattern[str]:
    """A line of this layout with nothing unusual in it: its groups are, in the order of the fields,
    the time (minute and seconds), the mark and the numbers."""
    words = dict(layout.names)
    numbers = {place for _, _, place in layout.columns}
    fields = []
    for at in range(layout.fields):
        if at == layout.time:
            fields.append(r"(\d\d-\d\d-\d{4} \d\d:\d\d:)([0-5]\d(?:\.\d{1,6})?)")
        elif at in numbers:
            fields.append(r"([-+]?\d{1,20}(?:\.\d{1,20})?)")
        elif at == layout.mark:
            fields.append(r"([^,\n]*)")
        else:
            fields.append(re.escape(words[at]) if at in words else r"[^,\n]*")
    return re.compile("^" + ",".join(fields) + "$", re.MULTILINE | re.ASCII)


def _columns_at_once(log: SampleLog, lines: list[str]) -> bool:
    """Read a file whose lines all have one layout and usual values, column by column, in half of the
    time; False, and nothing read, where one has not."""
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    lines = lines[:end]
    layout = _layout(lines[0].split(",")) if lines else None
    if layout is None or layout.time is None or not layout.columns:
        return False
    found = _line_of(layout).findall("\n".join(lines))
    if len(found) != len(lines):
        return False
    columns = dict(zip(sorted(_groups(layout)), zip(*found, strict=True), strict=True))
    minutes = [_minute(text) for text in columns[layout.time, 0]]
    marks = Counter(map(str.strip, columns[layout.mark, 0])) if layout.mark is not None else {}
    if len(marks) > _MAX_MARKS or any(minute is None for minute in minutes):
        return False
    seconds = map(float, columns[layout.time, 1])
    log.times.extend(m + s for m, s in zip(minutes, seconds, strict=True) if m is not None)
    log.lines.extend(range(1, len(lines) + 1))
    log.marks.update(marks or {"": len(lines)})
    for name, quantity, place in layout.columns:
        readings = log if not name else log.channels.setdefault(name, Readings())
        getattr(readings, quantity).extend(map(float, columns[place, 0]))
    return True


def _groups(layout: _Layout) -> Iterator[tuple[int, int]]:
    """The groups of `_line_of`: the field's position, and which of its groups."""
    if layout.time is not None:
        yield layout.time, 0
        yield layout.time, 1
    if layout.mark is not None:
        yield layout.mark, 0
    yield from {(place, 0) for _, _, place in layout.columns}


def read_samples(file: File) -> SampleLog:
    """Read spl.txt. Never raises; a line that is not a sample is a Fault (blank lines are not).

    A line is ``Time,T,Watts,W,Volts,V,Amps,A,PF,P,Mark,M`` and, of a meter with several channels
    or of several analysers, ``Ch1,Watts,…`` once for each. The first Watts are the total.
    """
    log = SampleLog(path=file.path)
    number = 0
    layout: _Layout | None = None
    try:
        lines = sound_lines(file)
        if lines is not None and _columns_at_once(log, lines):
            return _even(log)
        # What was read is not read again.
        numbered = text_lines(file, log.faults) if lines is None else enumerate(lines, 1)
        for number, line in numbered:
            if number > _MAX_SAMPLES:
                break
            if not line:
                continue
            fields = line.split(",")
            if layout is None or not layout.fits(fields):
                layout = _layout(fields)
            time = seconds_of(fields[layout.time]) if layout.time is not None else None
            if time is None:
                if len(log.faults) < 5:
                    log.faults.append(
                        Fault(
                            path=file.path,
                            kind="syntax",
                            message=f"line {number} is not a power sample",
                            line=number,
                            fix="use spl.txt as PTDaemon's client wrote it",
                        )
                    )
                continue
            log.times.append(time)
            log.lines.append(number)
            for name, quantity, place in layout.columns:
                readings = log if not name else log.channels.setdefault(name, Readings())
                column: array[float] = getattr(readings, quantity)
                value = number_of(fields[place])
                while len(column) < len(log.times) - 1:
                    column.append(math.nan)
                column.append(math.nan if value is None else value)
            mark = fields[layout.mark].strip() if layout.mark is not None else ""
            if mark in log.marks or len(log.marks) < _MAX_MARKS:
                log.marks[mark] = log.marks.get(mark, 0) + 1
    except Unreadable as error:
        log.faults.append(error.fault)
    if number == 0 and not log.faults:
        log.faults.append(Fault(file.path, "empty", "the file is empty", 1))
    return _even(log)


def _even(log: SampleLog) -> SampleLog:
    """The log with all columns as long as its times."""
    for readings in (log, *log.channels.values()):
        for quantity in _COLUMNS.values():
            column = getattr(readings, quantity)
            column.extend([math.nan] * (len(log.times) - len(column)))
    return log


_PTD = re.compile(
    r"^(?:Time,)?(?P<stamp>\d\d-\d\d-\d{4} \d\d:\d\d:\d\d(?:\.\d{1,6})?)[,:]?\s+(?P<text>.*)$"
)


def read_ptd_log(file: File) -> tuple[list[Message], list[Fault]]:
    """Read ptd_logs.txt: its messages with their times as written."""
    messages: list[Message] = []
    faults: list[Fault] = []
    try:
        for number, text in text_lines(file, faults, limit=2000):
            if not text:
                continue
            if len(messages) >= _MAX_MESSAGES:
                break
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
    logs.drop_zero_watts = round.power.drop_zero_watts
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
    recorded: dict[Any, Any] = {}
    for record in (logs.client, logs.server):
        table = record.fields.get("results") if record is not None else None
        recorded.update(table if isinstance(table, dict) else {})
    for folder in (run_folder, power_folder):
        for name, file in sorted(folder.files.items()) if folder is not None else ():
            if folder is None or file.size > _MAX_HASHED:
                continue
            where = f"{folder.name}/{name}"
            digests = _digests(file, str(recorded.get(where)).lower())
            if digests is not None:
                logs.hashes[where] = digests
    return logs


def _digests(file: File, recorded: str) -> tuple[str, str] | None:
    try:
        data = read_bytes(file, _MAX_HASHED)
    except Unreadable:
        return None
    as_is = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    if as_is == recorded:  # then nobody asks what its line ends would change
        return as_is, as_is
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
