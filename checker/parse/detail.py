"""LoadGen's detail log: ``:::MLLOG {json}`` lines, and the plain text of v0.5 and v0.7.

Both forms end as the same `DetailLog` under the later key names, read by `checker.parse.detail_file`. A long list
is decoded only when a rule asks for it.
"""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import msgspec

from checker.parse.reading import Fault, integer_of

_KEEP_PER_KEY = 10_000


class Metadata(msgspec.Struct, gc=False):
    is_error: bool = False
    is_warning: bool = False
    file: str = ""
    line_no: int = 0
    pid: int = 0
    tid: int = 0


UNSET = object()
NULL = msgspec.Raw(b"null")
LONG = 4096
"""Bytes of a list from which on it is not decoded before a rule asks for it."""


class Entry(msgspec.Struct, gc=False):
    """One record of a detail log: LoadGen's JSON object, and where it is.

    line is 1-based; time_ms is LoadGen's own clock, milliseconds since the log began. A long list
    stays ``raw``, with ``decoded`` UNSET, until a rule asks for it. (The two fields that are not in
    the log have names that no log should have.)
    """

    key: str
    decoded: Any = msgspec.field(name="value", default=None)
    time_ms: float = 0.0
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    line: int = msgspec.field(name="(line of the file)", default=0)
    raw: msgspec.Raw = msgspec.field(name="(raw value)", default=NULL)

    @property
    def value(self) -> Any:
        """The logged value; decoded on first use."""
        found = self.decoded
        if found is UNSET:
            found = self.decoded = _decode(self.raw)
            self.raw = NULL
        return found

    @property
    def is_error(self) -> bool:
        """Whether LoadGen wrote it as an error."""
        return self.metadata.is_error

    @property
    def is_warning(self) -> bool:
        """Whether LoadGen wrote it as a warning."""
        return self.metadata.is_warning

    @property
    def source(self) -> str:
        """The LoadGen source file that wrote it."""
        return self.metadata.file

    @property
    def source_line(self) -> int:
        """The line in that file."""
        return self.metadata.line_no

    @property
    def pid(self) -> int:
        """The process that wrote it."""
        return self.metadata.pid

    @property
    def tid(self) -> int:
        """The thread that wrote it."""
        return self.metadata.tid


_value_of = msgspec.json.Decoder().decode
HUGE = 10**300
"""No LoadGen writes a greater integer, and arithmetic with it would raise: it is infinite here."""


def _decode(raw: msgspec.Raw) -> Any:
    try:
        value = _value_of(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = bytes(raw)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text.decode("utf-8", "backslashreplace")
    if isinstance(value, int) and abs(value) > HUGE:
        return math.inf if value > 0 else -math.inf
    return value


def entry_of(
    key: str,
    line: int,
    *,
    value: Any = None,
    time_ms: float = 0.0,
    is_error: bool = False,
    is_warning: bool = False,
    source: str = "",
    source_line: int = 0,
    pid: int = 0,
    tid: int = 0,
) -> Entry:
    """A record made from values: of a text log, of a summary, of a line that strict JSON refuses."""
    metadata = Metadata(is_error, is_warning, source, source_line, pid, tid)
    return Entry(key, value, time_ms, metadata, line)


def count_of_indices(raw: bytes) -> int | None:
    """The length of a list of whole numbers as LoadGen writes it; None: something else.

    What is left without digits must be the brackets and separators of one spelling, and no
    separator may follow another.
    """
    if not (raw[:1] == b"[" and raw[-1:] == b"]" and raw[1:2].isdigit() and raw[-2:-1].isdigit()):
        return None
    left = raw.translate(None, b"0123456789")
    separator = b", " if left[2:3] == b" " else b","
    count = (len(left) - 2) // len(separator)
    if left != b"[" + separator * count + b"]" or separator + separator[:1] in raw:
        return None
    return count + 1


_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class DetailLog(msgspec.Struct):
    """All records of one detail log, by key, in the order they were written.

    last: the last value of each key, as `Entry.decoded` has it.
    """

    path: str
    format: str = "mllog"
    entries: dict[str, list[Entry]] = {}
    last: dict[str, Any] = {}
    errors: list[Entry] = []
    faults: list[Fault] = []
    lines: int = 0
    size: int = 0
    error_count: int = 0
    pids: set[int] = set()
    lengths: dict[int, int] = {}
    unusable: set[str] = set()

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
        value = self.last.get(key)
        if value is UNSET:
            value = self.last[key] = self.entries[key][-1].value
        return value

    def line(self, key: str) -> int | None:
        """The line of the last record of this key."""
        found = self.entries.get(key)
        return found[-1].line if found else None

    def number(self, key: str) -> float | None:
        """The last value as a number; None when absent or not a number (a boolean is none).

        Infinity and NaN are returned as they are: to judge them is a rule's work.
        """
        value = self.get(key)
        if type(value) is float:
            return value
        if value is None and key not in self.last:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                return math.inf if value > 0 else -math.inf
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                return float(value)
        self.refuse(key, "a number")
        return None

    def integer(self, key: str) -> int | None:
        """The last value as an integer, exact for 64-bit values; None when it is none."""
        value = self.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, float) and math.isfinite(value) and value == int(value):
            return int(value)
        if isinstance(value, str):
            found = integer_of(value) if len(value) < 40 else None
            if found is not None:
                return found
        self.refuse(key, "a whole number")
        return None

    def length(self, key: str) -> int | None:
        """The length of the last value, which is not decoded for it where it was counted before.

        None when it is not a list.
        """
        entry = self.entry(key)
        if entry is None:
            return None
        if entry.line in self.lengths:
            return self.lengths[entry.line]
        return len(entry.value) if isinstance(entry.value, list) else None

    def text(self, key: str) -> str | None:
        """The last value as text, None when it is not a string."""
        value = self.get(key)
        if isinstance(value, str):
            return value
        if value is not None or key in self.last:
            self.refuse(key, "text")
        return None

    def boolean(self, key: str) -> bool | None:
        """The last value as a boolean; 0/1 and "true"/"false" count; None when it is none."""
        value = self.get(key)
        if isinstance(value, bool):
            return value
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
        if isinstance(value, str):
            known = _BOOLEANS.get(value.strip().lower())
            if known is not None:
                return known
        self.refuse(key, "true or false")
        return None

    def refuse(self, key: str, expected: str, entry: Entry | None = None) -> None:
        """A record (the last one) whose value cannot be used is a fault, never just absent."""
        entry = entry or self.entry(key)
        if entry is None or key in self.unusable:
            return
        self.unusable.add(key)
        self.faults.append(
            Fault(
                path=self.path,
                kind="unusable",
                message=f"found {_named(entry.value)} as the value of {key}; expected {expected}",
                line=entry.line,
                fix="use the detail log as LoadGen wrote it",
                pointer=key,
            )
        )


def _named(value: Any) -> str:
    if isinstance(value, list | dict):
        kind = "list" if isinstance(value, list) else "object"
        return f"an empty {kind}" if not value else "a list" if kind == "list" else "an object"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{value!s:.60}" or "no text"


def add(log: DetailLog, entry: Entry) -> None:
    """Keep one record, within the bound on how many of one key are kept."""
    log.last[entry.key] = entry.decoded
    found = log.entries.get(entry.key)
    if found is None:
        log.entries[entry.key] = [entry]
    elif len(found) < _KEEP_PER_KEY:
        found.append(entry)
    else:
        found[-1] = entry
    metadata = entry.metadata
    if metadata.is_error:
        log.error_count += 1
        if len(log.errors) < 100:
            log.errors.append(entry)
    if metadata.pid:
        log.pids.add(metadata.pid)
