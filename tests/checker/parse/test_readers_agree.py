"""The quick readers of logs and the plain ones say the same of sound and of damaged logs."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checker.accuracy import log as accuracy_log
from checker.parse import (
    accuracy_txt,
    detail,
    detail_file,
    detail_text,
    power,
    reading,
    summary,
    verify,
)
from checker.parse.reading import File
from schemas.load import load_round, round_names
from tests.checker.parse.test_fuzz import _DETAIL, _TEXT, PARSERS, _parse, mutated

_SET = b":::MLLOG " + detail_file._SET_HEAD
_LONG_SET = b"[" + b", ".join(b"%d" % n for n in range(40)) + b"]"
_REST = (
    b', "time_ms": 1.5, "namespace": "mlperf::logging", "event_type": "POINT_IN_TIME", '
    b'"metadata": {"is_error": false, "is_warning": false, "file": "logging.cc", "line_no": 7, '
    b'"pid": 12, "tid": 12}}'
)
_LINES = _DETAIL.splitlines()
_WITH_SET = b"\n".join([*_LINES[:5], _SET + _LONG_SET + _REST, *_LINES[5:]]) + b"\n"
_COMPACT = _WITH_SET.replace(_LONG_SET, _LONG_SET.replace(b" ", b""))

EXAMPLES = max(300, settings.default.max_examples)
"""`make nightly`: 10,000."""

SETS = st.sampled_from(
    [
        _LONG_SET,
        _LONG_SET.replace(b"17, ", b"17, , ", 1),
        _LONG_SET.replace(b"17, 18", b"17 18", 1),
        _LONG_SET.replace(b"17, ", b"17,", 1),
        _LONG_SET.replace(b"17", b"1\x007", 1),
        _LONG_SET.replace(b"17", b"[17]", 1),
        _LONG_SET.replace(b"[0", b"0[", 1),
        _LONG_SET.replace(b"[0, ", b"[, ", 1),
        _LONG_SET.replace(b"39]", b"]", 1),
        _LONG_SET.replace(b"39]", b"39]]", 1),
        _LONG_SET.replace(b"17", b'17"', 1),
        _LONG_SET.replace(b"17", b"17e2", 1),
        _LONG_SET.replace(b"17", b"-17", 1),
        _LONG_SET[:-1],
        b"[" * 50 + b"]" * 50,
        b'"' + b"x" * 50 + b'"',
        b"0",
    ]
)


@contextmanager
def _replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def _told(log: detail.DetailLog) -> Any:
    """Everything that a rule can see of a detail log."""
    return (
        {
            key: [
                (
                    e.value,
                    e.line,
                    e.time_ms,
                    e.is_error,
                    e.is_warning,
                    e.source,
                    e.source_line,
                    e.pid,
                )
                for e in entries
            ]
            for key, entries in log.entries.items()
        },
        [(e.key, e.line) for e in log.errors],
        log.error_count,
        log.faults,
        log.lines,
        log.pids,
        log.format,
        {key: log.length(key) for key in log.entries},
    )


@pytest.fixture(autouse=True, scope="module")
def short_sets() -> Iterator[None]:
    """Sets count as long from 16 bytes on, so that what fails can be read."""
    with _replaced(detail_file, "LONG", 16):
        yield


def _same_detail(content: bytes) -> None:
    quick = repr(_told(_parse(detail_file.read_detail, content)))
    with _replaced(detail_file, "_read_whole", lambda log, data: False):
        plain = repr(_told(_parse(detail_file.read_detail, content)))
    assert quick == plain


@pytest.mark.parametrize("content", [_WITH_SET, _COMPACT, _WITH_SET * 2, _DETAIL])
def test_sound_logs_are_read_the_quick_way(content: bytes) -> None:
    log = detail.DetailLog("f")
    assert detail_file._read_whole(log, content)
    _same_detail(content)
    if content != _DETAIL:
        assert log.lengths[6] == 40
        assert all(entry.decoded is detail.UNSET for entry in log.entries["loaded_qsl_set"])


@settings(max_examples=EXAMPLES)
@given(mutated(_WITH_SET))
@example(_WITH_SET.replace(b"\n", b"\r\n"))
@example(b"\xef\xbb\xbf" + _WITH_SET)
@example(_WITH_SET.decode().encode("utf-16"))
@example(b':::MLLOG {"key": "a"\n:::MLLOG , "value": 1}{"key": "b"}\n')
@example(_WITH_SET.replace(b', "time_ms"', b', "value": 5, "time_ms"'))
@example(_WITH_SET.replace(_REST, _REST.replace(b', "namespace"', b', "value": 5, "namespace"')))
@example(b':::MLLOG {"key": "a", "value": 1%s}\n' % (b"0" * 400))
@example(b':::MLLOG {"key": "a", "(raw value)": [1], "(line of the file)": 9}\n')
def test_damaged_detail_logs(content: bytes) -> None:
    _same_detail(content)


@settings(max_examples=EXAMPLES)
@given(SETS, SETS)
def test_damaged_sets(one: bytes, two: bytes) -> None:
    lines = [*_LINES[:5], _SET + one + _REST, *_LINES[5:9], _SET + two + _REST, *_LINES[9:]]
    _same_detail(b"\n".join(lines) + b"\n")


@settings(max_examples=EXAMPLES)
@given(mutated(_TEXT))
@example(_TEXT)
@example(_TEXT.replace(b"[0,", b"[0 "))
@example(_TEXT.replace(b"[0,", b"[0,,"))
@example(_TEXT.replace(b"[0,", b"[0, "))
def test_damaged_sets_of_text_logs(content: bytes) -> None:
    with _replaced(detail_text, "LONG", 16):
        log = _parse(detail_file.read_detail, content)
        if content == _TEXT:
            assert log.entries["loaded_qsl_set"][0].decoded is detail.UNSET
        quick = repr(_told(log))
    assert quick == repr(_told(_parse(detail_file.read_detail, content)))


_RECORD = b'{ "seq_id" : %d, "qsl_idx" : %d, "data" : "%s" },\n'
_TOKENS = (
    b'{ "seq_id" : %d, "qsl_idx" : %d, "data" : "%s", "token_data" : "0B000000", '
    b'"token_count" : 2 },\n'
)
_ACCURACY = (
    b"[\n"
    + b"".join(
        (_RECORD if n % 3 else _TOKENS) % (n, 40 - n, b"0B000000%02X000000" % n) for n in range(40)
    )
    + b"]\n"
)


class _Never:
    """A pattern that matches nowhere."""

    match: Callable[..., None] = staticmethod(re.compile(b"(?!)").match)  # type: ignore[assignment]


def _records(content: bytes) -> Any:
    reader = accuracy_log.LogReader(io.BytesIO(content), chunk=512)
    return list(reader), reader.problems, reader.truncated, reader.records


@settings(max_examples=EXAMPLES)
@given(mutated(_ACCURACY))
@example(_ACCURACY)
@example(_ACCURACY[:900] + accuracy_log.GAP + _ACCURACY[-700:])
def test_accuracy_logs(content: bytes) -> None:
    quick = _records(content)
    with _replaced(accuracy_log, "_BEFORE_DATA", _Never()):
        assert _records(content) == quick


_PLAIN: dict[str, list[tuple[Any, str, Any]]] = {
    "summary": [(summary, "_SPECIAL", re.compile("")), (summary, "_LABEL", -1)],
    "accuracy.txt": [(accuracy_txt, "_words", lambda pattern: ("",)), (reading, "_AT_ONCE", -1)],
    "spl.txt": [(power._Layout, "fits", lambda *_: False), (reading, "_AT_ONCE", -1)],
    "ptd_logs.txt": [(reading, "_AT_ONCE", -1)],
}
"""What takes the shortcuts out of a reader: every line is then looked at with everything there is."""


@pytest.mark.parametrize("kind", _PLAIN)
@settings(max_examples=EXAMPLES)
@given(st.data())
def test_damaged_texts(kind: str, data: st.DataObject) -> None:
    parser, sound = PARSERS[kind]
    content = data.draw(mutated(sound * 2))
    encoding = data.draw(st.sampled_from(["utf-8"] * 5 + ["utf-8-sig", "utf-16", "latin-1"]))
    content = content.decode("latin-1").encode(encoding) if encoding != "utf-8" else content
    quick = repr(_parse(parser, content))
    accuracy_txt._metrics.cache_clear()
    with ExitStack() as replaced:
        for module, name, value in _PLAIN[kind]:
            replaced.enter_context(_replaced(module, name, value))
        plain = repr(_parse(parser, content))
    accuracy_txt._metrics.cache_clear()
    assert quick == plain


_PATTERNS = sorted({p for r in round_names() for p in load_round(r).accuracy_patterns.values()})


@pytest.mark.parametrize("pattern", _PATTERNS)
@settings(max_examples=EXAMPLES)
@given(st.data())
def test_words_of_accuracy_patterns(pattern: str, data: st.DataObject) -> None:
    """Whatever a pattern matches holds one of the words that are looked for first."""
    text = data.draw(st.from_regex(pattern))
    words = accuracy_txt._words(pattern)
    assert all(words)
    assert any(word in text for word in words)


@settings(max_examples=EXAMPLES)
@given(st.from_regex(verify._SCORE), st.from_regex(verify._CHECK), st.from_regex(verify._ENTRIES))
def test_words_of_verification_texts(score: str, check: str, entries: str) -> None:
    """As above, of the texts that compliance scripts write."""
    assert "score" in score.casefold()
    assert "pass:" in check.casefold()
    assert "num_" in entries


def test_a_file_is_needed_for_nothing(tmp_path: Any) -> None:
    """A log that is not there is a fault, whichever way it would be read."""
    assert detail_file.read_detail(File("x", str(tmp_path / "none"), 5)).faults[0].kind == "missing"
