"""Reads a detail log: ``:::MLLOG {json}`` lines, and the plain text of v0.5 and v0.7.

Both forms end as the same `DetailLog` under the later key names. This is the hot path of a check: a sound log is
decoded by msgspec in one call, but for its long lists of samples, which are cut out. Source of the format:
LoadGen ``logging.cc``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import msgspec

from checker.parse.detail import HUGE, NULL, UNSET, DetailLog, Entry, Metadata, add, entry_of
from checker.parse.reading import (
    MAX_LINE_BYTES,
    Fault,
    File,
    Unreadable,
    read_bytes,
    read_first,
    read_lines,
)

MARKER = b":::MLLOG "
_SET = "loaded_qsl_set"
_SET_HEAD = b'{"key": "loaded_qsl_set", "value": '
_SET_START = b"\n" + MARKER + _SET_HEAD
_BETWEEN = b"}\n" + MARKER + b"{"
_SET_TAIL = b', "time_ms":'
_LONG = 4096
_WHOLE_FILE = 48 * 1024 * 1024
_START = 64 * 1024
_MAX_FAULTS = 5


class _Line(msgspec.Struct, gc=False):
    """One record of a log that is read line by line: its value may be megabytes, and stays raw."""

    key: str
    value: msgspec.Raw = NULL
    time_ms: float = 0.0
    metadata: Metadata = msgspec.field(default_factory=Metadata)


_records = msgspec.json.Decoder(Entry)
_one_line = msgspec.json.Decoder(_Line)


def read_detail(file: File) -> DetailLog:
    """Read one detail log of either format. Never raises; problems are in ``faults``."""
    log = DetailLog(file.path, size=file.size)
    try:
        if file.size <= _WHOLE_FILE:
            data = read_bytes(file, _WHOLE_FILE)
            if _read_whole(log, data):
                _refuse_structures(log)
                return log
            lines: Iterator[bytes] = iter(data.removesuffix(b"\n").split(b"\n"))
        else:
            lines = read_lines(file)
        _read_lines(log, lines)
        _refuse_structures(log)
    except Unreadable as error:
        log.faults.append(error.fault)
        return log
    if not log.entries and not log.faults:
        kind = "empty" if file.size == 0 else "syntax"
        what = "is empty" if file.size == 0 else "holds no LoadGen record"
        log.faults.append(
            Fault(
                path=file.path,
                kind=kind,
                message=f"the file {what}",
                line=1,
                fix="use the detail log that LoadGen wrote",
            )
        )
    return log


def read_start(file: File, keys: tuple[str, ...]) -> DetailLog:
    """The beginning of a detail log, where LoadGen writes its version and the settings, all of it
    where one of ``keys`` is not there. Never raises."""
    if file.size > _START:
        log = DetailLog(file.path, size=file.size)
        try:
            data = read_first(file, _START)
        except Unreadable as error:
            log.faults.append(error.fault)
            return log
        data = data[: data.rfind(b"\n") + 1]
        if not _read_whole(log, data):
            _read_lines(log, iter(data.split(b"\n")))
        if all(key in log for key in keys):
            return log
    return read_detail(file)


_PLAIN_VALUES = ("effective_", "requested_", "result_", "generated_")


def _refuse_structures(log: DetailLog) -> None:
    """A setting or a result that is null, a list or an object is a Fault, whoever asks for it; so is
    a loaded set that is not a list."""
    for key, value in log.last.items():
        if key.startswith(_PLAIN_VALUES):
            if value is UNSET:
                odd = memoryview(log.entries[key][-1].raw)[0] in b"n[{"
            else:
                odd = value is None or isinstance(value, list | dict)
            if odd:
                log.refuse(key, "a plain value")
            elif key.startswith("generated_"):
                log.number(key)
    if _SET in log.entries:
        entry = log.entries[_SET][-1]
        kept = memoryview(entry.raw)[:1] if entry.decoded is UNSET else b""
        if kept != b"[" and not isinstance(entry.decoded, list):
            log.refuse(_SET, "a list of samples")


def _read_whole(log: DetailLog, data: bytes) -> bool:
    """Decode a sound MLLOG file in one call; False (nothing kept) when any line is odd.

    Nine tenths of a log's bytes are sample indices (``loaded_qsl_set``) that few rules look at:
    they are cut out unread and decoded on demand.
    """
    if not data.startswith(MARKER):
        return False
    body, sets = _without_sets(data)
    # Lines are split where one object ends and the next begins, so that no record of two lines can
    # pass for one.
    lines = body.split(_BETWEEN)
    lines[0] = lines[0][len(MARKER) :]
    lines[-1] = lines[-1].removesuffix(b"\n")
    joined = b"}\n{".join(lines)
    if joined.count(b"\n") != len(lines) - 1 or joined.endswith(b"\r"):
        return False
    try:
        records = _records.decode_lines(joined)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    if len(records) != len(lines):
        return False
    loaded = [record for record in records if record.key == _SET] if sets else []
    if len(loaded) != len(sets):
        return False
    for record, cut in zip(loaded, sets, strict=True):
        if cut is not None and record.decoded != 0:  # a second value in the same record
            return False
    entries, last, pids = log.entries, log.last, log.pids
    # What `add` does, written out: this loop sees every record of every log.
    for number, record in enumerate(records, 1):
        record.line = number
        if record.raw is not NULL:
            record.raw = NULL
        value = record.decoded
        if type(value) is int and abs(value) > HUGE:
            record.decoded = value = math.inf if value > 0 else -math.inf
        metadata = record.metadata
        key = record.key
        if key not in entries and not metadata.is_error:
            entries[key] = [record]
            last[key] = value
            pids.add(metadata.pid)
        else:
            add(log, record)
    pids.discard(0)
    log.lines = len(records)
    for record, cut in zip(loaded, sets, strict=True):
        if cut is not None:
            record.raw, record.decoded = msgspec.Raw(cut[0]), UNSET
            log.lengths[record.line] = cut[1]
        last[_SET] = record.decoded
    return True


def _without_sets(data: bytes) -> tuple[bytes, list[tuple[bytes, int] | None]]:
    """The log with each long ``loaded_qsl_set`` written as 0; all sets in the order of the log, each
    with its length, None for one that was left where it was."""
    start = data.find(_SET_START)
    pieces: list[bytes] = []
    sets: list[tuple[bytes, int] | None] = []
    done = 0
    while start >= 0:
        begin = start + len(_SET_START)
        found = _set_at(data, begin)
        sets.append(found)
        if found is not None:
            pieces += data[done:begin], b"0"
            done = begin = begin + len(found[0])
        start = data.find(_SET_START, begin)
    return (b"".join([*pieces, data[done:]]) if pieces else data), sets


_HEAD = 64
_KEPT_BYTES = 16 * 1024 * 1024
_known: dict[bytes, tuple[bytes, int]] = {}


def _set_at(data: bytes, begin: int) -> tuple[bytes, int] | None:
    """The long set that begins at a place of a log, with its length; None where there is none that
    can be cut out (see `_indices`).

    Runs of one benchmark load few different sets: comparing a set with the last one that began alike
    is faster than looking for its end and checking it again.
    """
    head = data[begin : begin + _HEAD]
    known = _known.get(head)  # threads may lose what another has added, nothing else
    if (
        known is not None
        and data.startswith(known[0], begin)
        and data.startswith(_SET_TAIL, begin + len(known[0]))
    ):
        return known
    end = data.find(b"\n", begin)
    at = data.rfind(_SET_TAIL, begin, end if end >= 0 else len(data))
    raw = data[begin:at] if at - begin > _LONG else b""
    count = _indices(raw)
    if count is None:
        return None
    if sum(len(kept) for kept, _ in list(_known.values())) + len(raw) > _KEPT_BYTES:
        _known.clear()
    found = _known[head] = (raw, count)
    return found


def _indices(raw: bytes) -> int | None:
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
    try:
        record = _one_line.decode(memoryview(line)[len(MARKER) :])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        entry = _slow_record(log, number, line[len(MARKER) :])
        if entry is None:
            return
    else:
        entry = Entry(
            record.key,
            UNSET,
            record.time_ms,
            record.metadata,
            number,
            record.value,
        )
    add(log, entry)


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
        _fault(log, number, "is not a record with a key", text)
        return None
    meta = value.get("metadata")
    meta = meta if isinstance(meta, dict) else {}

    def whole(name: str) -> int:
        found = meta.get(name)
        return found if isinstance(found, int) else 0

    time = value.get("time_ms")
    return entry_of(
        value["key"],
        number,
        value=value.get("value"),
        time_ms=float(time) if isinstance(time, int | float) and abs(time) < 1e300 else 0.0,
        is_error=meta.get("is_error") is True,
        is_warning=meta.get("is_warning") is True,
        source=str(meta.get("file", "")),
        source_line=whole("line_no"),
        pid=whole("pid"),
        tid=whole("tid"),
    )


def _fault(log: DetailLog, number: int, what: str, text: bytes) -> None:
    if len(log.faults) >= _MAX_FAULTS:
        return
    shown = text[:60].decode("utf-8", "backslashreplace")
    log.faults.append(
        Fault(
            path=log.path,
            kind="syntax",
            message=f"line {number} {what}: {shown!r}",
            line=number,
            fix="use the detail log as LoadGen wrote it; do not edit or truncate it",
        )
    )
