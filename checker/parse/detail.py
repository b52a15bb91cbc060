"""LoadGen's detail log: ``:::MLLOG {json}`` lines, and the plain text of v0.5 and v0.7.

Both forms end as the same `DetailLog` under the later key names. This is the hot path of a
check: lines are decoded by msgspec with the value left raw, and a value is decoded only when a
rule asks for it. Source of the format: LoadGen ``logging.cc``; of the names: facts of real logs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from checker.parse.reading import (
    MAX_LINE_BYTES,
    Fault,
    File,
    Unreadable,
    read_bytes,
    read_lines,
)

MARKER = b":::MLLOG "
_KEEP_PER_KEY = 10_000
_WHOLE_FILE = 48 * 1024 * 1024
_MAX_FAULTS = 5


class _Metadata(msgspec.Struct):
    is_error: bool = False
    is_warning: bool = False
    file: str = ""
    line_no: int = 0
    pid: int = 0
    tid: int = 0


class _Record(msgspec.Struct):
    key: str
    value: msgspec.Raw = msgspec.Raw(b"null")
    time_ms: float = 0.0
    event_type: str = ""
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_decoder = msgspec.json.Decoder(_Record)
_SET_HEAD = MARKER + b'{"key": "loaded_qsl_set", "value": '
_SET_TAIL = b', "time_ms":'
_LONG = 4096
_UNSET = object()


class Entry:
    """One record of a detail log.

    line is 1-based; time_ms is LoadGen's own clock, milliseconds since the log began.
    """

    __slots__ = (
        "_raw", "_value", "event_type", "is_error", "is_warning", "key", "line", "pid",
        "source", "source_line", "tid", "time_ms",
    )  # fmt: skip

    def __init__(
        self,
        key: str,
        line: int,
        *,
        value: Any = _UNSET,
        raw: msgspec.Raw | None = None,
        time_ms: float = 0.0,
        event_type: str = "",
        is_error: bool = False,
        is_warning: bool = False,
        source: str = "",
        source_line: int = 0,
        pid: int = 0,
        tid: int = 0,
    ) -> None:
        self.key = key
        self.line = line
        self._value = value
        self._raw = raw
        self.time_ms = time_ms
        self.event_type = event_type
        self.is_error = is_error
        self.is_warning = is_warning
        self.source = source
        self.source_line = source_line
        self.pid = pid
        self.tid = tid

    @property
    def value(self) -> Any:
        """The logged value; decoded on first use."""
        if self._value is _UNSET:
            raw = bytes(self._raw) if self._raw is not None else b"null"
            try:
                self._value = msgspec.json.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                try:
                    self._value = json.loads(raw)
                except (ValueError, RecursionError):
                    self._value = raw.decode("utf-8", "backslashreplace")
            self._raw = None
        return self._value


@dataclass(slots=True)
class DetailLog:
    """All records of one detail log, by key, in the order they were written."""

    path: str
    format: str = "mllog"
    entries: dict[str, list[Entry]] = field(default_factory=dict)
    errors: list[Entry] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    lines: int = 0
    size: int = 0
    error_count: int = 0
    pids: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.entries)

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def entry(self, key: str) -> Entry | None:
        """The last record of this key (results are written once; settings once)."""
        found = self.entries.get(key)
        return found[-1] if found else None

    def all(self, key: str) -> list[Entry]:
        """Every record of this key."""
        return self.entries.get(key, [])

    def get(self, key: str) -> Any:
        """The last value of this key, None when it was not logged."""
        found = self.entries.get(key)
        return found[-1].value if found else None

    def line(self, key: str) -> int | None:
        """The line of the last record of this key."""
        found = self.entries.get(key)
        return found[-1].line if found else None

    def number(self, key: str) -> float | None:
        """The last value as a number; None when absent or not a number (a boolean is none).

        Infinity and NaN are returned as they are: to judge them is a rule's work.
        """
        value = self.get(key)
        if isinstance(value, bool):
            return None
        if isinstance(value, int | float):
            try:
                return float(value)
            except OverflowError:
                return math.inf if value > 0 else -math.inf
        if isinstance(value, str):
            try:
                return float(value)
            except ValueError:
                return None
        return None

    def integer(self, key: str) -> int | None:
        """The last value as an integer, exact for 64-bit values; None when it is none."""
        value = self.get(key)
        if isinstance(value, bool):
            return None
        if isinstance(value, int):
            return value
        if isinstance(value, float) and math.isfinite(value) and value == int(value):
            return int(value)
        if isinstance(value, str):
            text = value.strip()
            if text.lstrip("+-").isdigit() and len(text) < 40:
                return int(text)
        return None

    def text(self, key: str) -> str | None:
        """The last value as text, None when it is no string."""
        value = self.get(key)
        return value if isinstance(value, str) else None

    def boolean(self, key: str) -> bool | None:
        """The last value as a boolean; 0/1 and "true"/"false" count; None when it is none."""
        value = self.get(key)
        if isinstance(value, bool):
            return value
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
        if isinstance(value, str):
            return {"true": True, "1": True, "false": False, "0": False}.get(value.strip().lower())
        return None


def read_detail(file: File) -> DetailLog:
    """Read one detail log of either format. Never raises; problems are in ``faults``."""
    log = DetailLog(file.path, size=file.size)
    try:
        if file.size <= _WHOLE_FILE:
            data = read_bytes(file, _WHOLE_FILE)
            lines: Iterator[bytes] = iter(data.split(b"\n"))
        else:
            lines = read_lines(file)
        _read_lines(log, lines)
    except Unreadable as error:
        log.faults.append(error.fault)
        return log
    if not log.entries and not log.faults:
        kind = "empty" if file.size == 0 else "syntax"
        what = "is empty" if file.size == 0 else "holds no LoadGen record"
        log.faults.append(
            Fault(
                file.path, kind, f"{file.path} {what}", 1, "use the detail log that LoadGen wrote"
            )
        )
    return log


def _read_lines(log: DetailLog, lines: Iterator[bytes]) -> None:
    number = 0
    first = b""
    pending: list[bytes] = []
    for line in lines:
        number += 1
        stripped = line.strip()
        if stripped.startswith(b"\xef\xbb\xbf"):
            stripped = stripped[3:]
        if stripped:
            first = stripped
            pending.append(stripped)
            break
    if first.startswith(b'"pid"'):
        from checker.parse.detail_text import read_text_log

        log.format = "text"
        log.lines = read_text_log(log, number, first, lines)
        return
    if pending:
        _mllog_line(log, number, first)
    for line in lines:
        number += 1
        if line:
            _mllog_line(log, number, line)
    log.lines = number


def _mllog_line(log: DetailLog, number: int, line: bytes) -> None:
    if not line.startswith(MARKER):
        stripped = line.strip()
        if not stripped:
            return
        if not stripped.startswith(MARKER):
            _fault(log, number, "does not begin with ':::MLLOG'", stripped)
            return
        line = stripped
    if len(line) > _LONG and line.startswith(_SET_HEAD):
        # Nine tenths of a log's bytes are sample indices that few rules look at: they are cut
        # out unread and decoded when asked for.
        at = line.rfind(_SET_TAIL)
        if at > 0 and line[at - 1 : at] == b"]":
            short = _short_record(line, at)
            if short is not None:
                add(log, _entry(short, number, msgspec.Raw(line[len(_SET_HEAD) : at])))
                return
    try:
        record = _decoder.decode(memoryview(line)[len(MARKER) :])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        entry = _slow_record(log, number, line[len(MARKER) :])
        if entry is None:
            return
    else:
        entry = _entry(record, number, record.value)
    add(log, entry)


def _entry(record: _Record, number: int, raw: msgspec.Raw) -> Entry:
    meta = record.metadata
    return Entry(
        record.key, number, raw=raw, time_ms=record.time_ms, event_type=record.event_type,
        is_error=meta.is_error, is_warning=meta.is_warning, source=meta.file,
        source_line=meta.line_no, pid=meta.pid, tid=meta.tid,
    )  # fmt: skip


def _short_record(line: bytes, at: int) -> _Record | None:
    try:
        return _decoder.decode(b'{"key": "loaded_qsl_set", "value": 0' + line[at:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def add(log: DetailLog, entry: Entry) -> None:
    """Keep one record, within the bound on how many of one key are kept."""
    found = log.entries.get(entry.key)
    if found is None:
        log.entries[entry.key] = [entry]
    elif len(found) < _KEEP_PER_KEY:
        found.append(entry)
    else:
        found[-1] = entry
    if entry.is_error:
        log.error_count += 1
        if len(log.errors) < 100:
            log.errors.append(entry)
    if entry.pid:
        log.pids.add(entry.pid)


def _slow_record(log: DetailLog, number: int, text: bytes) -> Entry | None:
    """Decode a line that strict JSON refuses: NaN and Infinity are what LoadGen may print."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        note = "is cut off or not JSON"
        if len(text) >= MAX_LINE_BYTES - len(MARKER):
            note = f"is longer than {MAX_LINE_BYTES} bytes"
        _fault(log, number, note, text)
        return None
    if not isinstance(value, dict) or not isinstance(value.get("key"), str):
        _fault(log, number, "is no record with a key", text)
        return None
    meta = value.get("metadata")
    meta = meta if isinstance(meta, dict) else {}

    def whole(name: str) -> int:
        found = meta.get(name)
        return found if isinstance(found, int) else 0

    time = value.get("time_ms")
    return Entry(
        value["key"], number, value=value.get("value"),
        time_ms=float(time) if isinstance(time, int | float) and abs(time) < 1e300 else 0.0,
        event_type=str(value.get("event_type", "")), is_error=meta.get("is_error") is True,
        is_warning=meta.get("is_warning") is True, source=str(meta.get("file", "")),
        source_line=whole("line_no"), pid=whole("pid"), tid=whole("tid"),
    )  # fmt: skip


def _fault(log: DetailLog, number: int, what: str, text: bytes) -> None:
    if len(log.faults) >= _MAX_FAULTS:
        return
    shown = text[:60].decode("utf-8", "backslashreplace")
    log.faults.append(
        Fault(log.path, "syntax", f"{log.path} line {number} {what}: {shown!r}", number,
              "use the detail log as LoadGen wrote it; do not edit or truncate it")
    )  # fmt: skip
