"""Reads a detail log: ``:::MLLOG {json}`` lines, and the plain text of v0.5 and v0.7.

Both forms end as the same `DetailLog` under the later key names. This is the hot path of a check: a sound log is
decoded by msgspec in one call, but for its long lists of samples, which are cut out. Source of the format:
LoadGen ``logging.cc``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import msgspec

from checker.parse.detail import (
    HUGE,
    LONG,
    NULL,
    UNSET,
    DetailLog,
    Entry,
    Metadata,
    add,
    count_of_indices,
    entry_of,
)
from checker.parse.documents import no_characters
from checker.parse.reading import (
    MAX_LINE_BYTES,
    Fault,
    File,
    Unreadable,
    number_of,
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
_WHOLE_FILE = 48 * 1024 * 1024
_START = 64 * 1024
_MAX_FAULTS = 5
_DIGITS = 300


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


_PLAIN_TYPES = frozenset({int, float, str, bool})
_PLAIN_VALUES = (
    "effective_", "requested_", "result_", "generated_", "early_stopping_", "loadgen_", "power_",
    "logger_", "num_errors", "sut_name", "qsl_", "test_datetime",
)  # fmt: skip
_SHA1 = "loadgen_file_sha1"
_GENERATED = (
    "generated_query_count",
    "generated_samples_per_query",
    "generated_query_duration",
)
_MESSAGES = ("generic_message", "warning_generic_message", "error_runtime", "error_invalid_config")


def _refuse_structures(log: DetailLog) -> None:
    """A setting or a result that is null, a list or an object is a Fault, whoever asks for it; so are
    a loaded set that is not a list and a message that is not text."""
    for key, value in log.last.items():
        if type(value) not in _PLAIN_TYPES and key.startswith(_PLAIN_VALUES) and key != _SHA1:
            value = log.get(key)
            if value is None or isinstance(value, list | dict):
                log.refuse(key, "a plain value")
    for key in _GENERATED:
        for entry in log.entries.get(key, ()):
            value = entry.value
            text = isinstance(value, str) and number_of(value[:LONG]) is not None
            if type(value) not in (int, float) and not text:
                log.refuse(key, "a number", entry)
    for key in _MESSAGES:
        for entry in log.entries.get(key, ()):
            if not isinstance(entry.value, str):
                log.refuse(key, "text", entry)
    if not isinstance(log.last.get(_SHA1, {}), dict) and not isinstance(log.get(_SHA1), dict):
        log.refuse(_SHA1, "an object with the hash of each file")
    for entry in log.entries.get(_SET, ()):
        if entry.line not in log.lengths and not _is_set(entry):
            log.refuse(_SET, "a list of sample indices", entry)


def _is_set(entry: Entry) -> bool:
    """Whether a loaded set that was not cut out of its log is a list of whole numbers."""
    if entry.decoded is UNSET and count_of_indices(bytes(entry.raw)) is not None:
        return True
    found = entry.value
    return isinstance(found, list) and all(type(index) is int for index in found)


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
    if len(records) != len(lines) or not _fields_once(joined, records):
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


_QUOTES = 32
"""Quotation marks of a record as LoadGen writes it, without those of its value."""
_ESCAPES = frozenset(b'"/nrt')


def _fields_once(text: bytes, records: list[Entry]) -> bool:
    """Whether every record has each field once, and no text holds an escape for a character that
    nobody could see; False where that takes a closer look.

    JSON readers take the last of two fields without a word. A second one has quotation marks: they
    are counted, which takes a tenth of the time of reading.
    """
    escaped = 0
    if b"\\" in text:  # rare, and looking for it is ten times as fast as splitting
        pieces = text.split(b"\\")
        if any(not piece or piece[0] not in _ESCAPES for piece in pieces[1:]):
            return False
        escaped = sum(piece[0] == 0x22 for piece in pieces[1:])
    kinds = [type(record.decoded) for record in records]
    texts = kinds.count(str)
    if dict in kinds:  # the hashes of LoadGen's files
        texts += 2 * len(records[kinds.index(dict)].decoded)
    return text.count(b'"') == _QUOTES * len(records) + 2 * texts + escaped


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
    can be cut out (see `count_of_indices`).

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
    raw = data[begin:at] if at - begin > LONG else b""
    count = count_of_indices(raw)
    if count is None:
        return None
    if sum(len(kept) for kept, _ in list(_known.values())) + len(raw) > _KEPT_BYTES:
        _known.clear()
    found = _known[head] = (raw, count)
    return found


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
        quotes = _QUOTES + (2 if memoryview(record.value)[0] == 0x22 else 0)
        if line.count(b'"') != quotes or b"\\" in line:
            try:
                _look_closer(log, number, line[len(MARKER) :])
            except (ValueError, RecursionError):
                _fault(log, number, "nests values too deep", line[len(MARKER) :])
        entry = Entry(
            record.key,
            UNSET,
            record.time_ms,
            record.metadata,
            number,
            record.value,
        )
    add(log, entry)


def _look_closer(log: DetailLog, number: int, text: bytes) -> Any:
    """What a line holds as plain JSON; a repeated field and an escape for a character that does not exist
    are Faults. Raises ValueError, RecursionError."""
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            twice.append(next(key for n, (key, _) in enumerate(pairs) if key in dict(pairs[:n])))
        return found

    value = json.loads(text, object_pairs_hook=once, parse_int=_whole)
    if twice:
        _fault(log, number, f"has {twice[0][:60]!r} twice", text)
    if b"\\u" in text:
        log.faults += no_characters(log.path, text.decode("utf-8", "replace"), value, line=number)
    return value


def _whole(digits: str) -> float:
    """An integer; infinite where LoadGen cannot have written it."""
    return int(digits) if len(digits) <= _DIGITS else float(digits)


def _slow_record(log: DetailLog, number: int, text: bytes) -> Entry | None:
    """Decode a line that strict JSON refuses: NaN and Infinity are what LoadGen may print."""
    try:
        value = _look_closer(log, number, text)
    except (ValueError, RecursionError):
        note = "is cut off or not JSON"
        if len(text) >= MAX_LINE_BYTES - len(MARKER):
            note = f"is longer than {MAX_LINE_BYTES} bytes"
        _fault(log, number, note, text)
        return None
    if not isinstance(value, dict) or not isinstance(value.get("key"), str):
        _fault(log, number, "is not a record with a key", text)
        return None
    meta = value.get("metadata", {})
    time = value.get("time_ms", 0.0)
    odd = _odd_field(time, meta)
    if odd:
        _fault(log, number, f"has {odd} of another type than LoadGen writes", text)
    meta = meta if isinstance(meta, dict) else {}

    def whole(name: str) -> int:
        found = meta.get(name)
        return found if isinstance(found, int) else 0

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


_TYPES = {
    "is_error": bool, "is_warning": bool, "file": str, "line_no": int, "pid": int, "tid": int,
}  # fmt: skip


def _odd_field(time: Any, meta: Any) -> str | None:
    """The name of a field beside the value that cannot be used as it is."""
    if type(time) not in (int, float) or not abs(time) < 1e300:
        return "time_ms"
    if not isinstance(meta, dict):
        return "metadata"
    return next((n for n, kind in _TYPES.items() if type(meta.get(n, kind())) is not kind), None)


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
