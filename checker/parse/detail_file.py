"""Reads a detail log: ``:::MLLOG {json}`` lines, and the plain text of v0.5 and v0.7.

Both forms end as the same `DetailLog` under the later key names. This is the hot path of a check: lines are
decoded by msgspec with the value left raw. Source of the format: LoadGen ``logging.cc``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from checker.parse.detail import UNSET, DetailLog, Entry, add, entry_of
from checker.parse.reading import MAX_LINE_BYTES, Fault, File, Unreadable, read_bytes, read_lines

MARKER = b":::MLLOG "
_SET = "loaded_qsl_set"
_SET_HEAD = b'{"key": "loaded_qsl_set", "value": '
_NEXT = b"\n" + MARKER
_SET_START = _NEXT + _SET_HEAD
_SET_TAIL = b', "time_ms":'
_STRUCTURE = b"n[{"
_LONG = 4096
_WHOLE_FILE = 48 * 1024 * 1024
_MAX_FAULTS = 5
_decoder = msgspec.json.Decoder(Entry)


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
            Fault(file.path, kind, f"the file {what}", 1, "use the detail log that LoadGen wrote")
        )
    return log


_PLAIN_VALUES = ("effective_", "requested_", "result_", "generated_")


def _refuse_structures(log: DetailLog) -> None:
    """A setting or a result that is null, a list or an object is a Fault, whoever asks for it; so is
    a loaded set that is no list."""
    for key, found in log.entries.items():
        if key.startswith(_PLAIN_VALUES):
            entry = found[-1]
            if entry.decoded is UNSET:
                odd = memoryview(entry.raw)[0] in _STRUCTURE
            else:
                odd = entry.decoded is None or isinstance(entry.decoded, list | dict)
            if odd:
                log.refuse(key, "a plain value")
            elif key.startswith("generated_"):
                log.number(key)
    for entry in log.entries.get(_SET, ())[-1:]:
        kept = memoryview(entry.raw)[:1] if entry.decoded is UNSET else b""
        if kept != b"[" and not isinstance(entry.decoded, list):
            log.refuse(_SET, "a list of samples")


def _read_whole(log: DetailLog, data: bytes) -> bool:
    """Decode a sound MLLOG file in one call; False (nothing kept) when any line is odd.

    Nine tenths of a log's bytes are sample indices (``loaded_qsl_set``) that few rules look at:
    they are cut out unread and decoded when asked for.
    """
    if not data.startswith(MARKER):
        return False
    body, cut = _without_sets(data)
    body = body.removesuffix(b"\n")
    if body.endswith(b"\r"):
        return False
    joined = body[len(MARKER) :].replace(_NEXT, b"\n")
    lines = joined.count(b"\n") + 1
    if len(body) - len(joined) != lines * len(MARKER):
        return False
    try:
        records = _decoder.decode_lines(joined)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    if len(records) != lines:
        return False
    for index, raw, count in cut:
        records[index].raw = raw
        log.lengths[index + 1] = count
    entries = log.entries
    pids = log.pids
    # What `add` does, written out: this loop sees every record of every log.
    for number, record in enumerate(records, 1):
        record.line = number
        if record.decoded is not UNSET:
            record.decoded = UNSET
        metadata = record.metadata
        found = entries.get(record.key)
        if found is None and not metadata.is_error:
            entries[record.key] = [record]
            pids.add(metadata.pid)
        else:
            add(log, record)
    pids.discard(0)
    log.lines = len(records)
    return True


def _without_sets(data: bytes) -> tuple[bytes, list[tuple[int, msgspec.Raw, int]]]:
    """The log with each long ``loaded_qsl_set`` written as 0; the sets, by record, with their length."""
    start = data.find(_SET_START)
    if start < 0:
        return data, []
    pieces: list[bytes] = []
    cut: list[tuple[int, msgspec.Raw, int]] = []
    done = records = 0
    while start >= 0:
        begin = start + len(_SET_START)
        end = data.find(b"\n", begin)
        at = data.rfind(_SET_TAIL, begin, end if end >= 0 else len(data))
        raw, count = _recent(data, begin, at) if at - begin > _LONG else (b"", None)
        if count is not None:
            pieces += data[done:begin], b"0"
            records += pieces[-2].count(_NEXT)
            cut.append((records, msgspec.Raw(raw), count))
            done = begin = at
        start = data.find(_SET_START, begin)
    return b"".join([*pieces, data[done:]]), cut


_known: tuple[tuple[bytes, int | None], ...] = ()


def _recent(data: bytes, begin: int, end: int) -> tuple[bytes, int | None]:
    """The set between two places of a log, and its length (see `_indices`). The runs of one result
    load the same set: comparing it with the last ones is faster than checking it again, or than a
    hash or a copy of it."""
    global _known  # replaced as a whole: threads may lose what another has added, nothing else
    for known in _known:
        if len(known[0]) == end - begin and data.startswith(known[0], begin):
            return known
    raw = data[begin:end]
    found = raw, _indices(raw)
    _known = (found, *_known[:3])
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
        record = _decoder.decode(memoryview(line)[len(MARKER) :])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        entry = _slow_record(log, number, line[len(MARKER) :])
        if entry is None:
            return
    else:
        record.line = number
        record.decoded = UNSET
        entry = record
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
        event_type=str(value.get("event_type", "")),
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
            log.path,
            "syntax",
            f"line {number} {what}: {shown!r}",
            number,
            "use the detail log as LoadGen wrote it; do not edit or truncate it",
        )
    )
