"""Texts as people's tools leave them: every parser reads them alike, and damage is a fault.

CRLF, a byte order mark and blanks at the ends of lines change nothing; NUL bytes are a fault and
the records around them are read; numbers of thousands of digits end no check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from checker.parse.accuracy_txt import read_accuracy
from checker.parse.detail_file import read_detail
from checker.parse.documents import read_json
from checker.parse.endpoints import read_yaml
from checker.parse.power import read_ptd_log, read_samples
from checker.parse.reading import Fault, File
from checker.parse.summary import read_summary
from checker.parse.user_conf import read_conf
from checker.parse.verify import read_verification
from schemas.load import load_round
from tests.checker.parse.conftest import MakeFile

Read = Callable[[File], tuple[Any, list[Fault]]]


@dataclass(frozen=True)
class Parser:
    """A parser: a text of it line by line, and what a rule sees of it.

    number: a text with a number (``{n}``) that could be of any length. after: what is read of the
    last line, from what `read` gives.
    """

    lines: list[str]
    read: Read
    number: str
    last: Callable[[Any], Any]


def _detail(file: File) -> tuple[Any, list[Fault]]:
    log = read_detail(file)
    values = {key: [entry.value for entry in found] for key, found in log.entries.items()}
    _ = [(log.number(key), log.integer(key)) for key in ("effective_target_qps",) if key in log]
    return values, log.faults


def _summary(file: File) -> tuple[Any, list[Fault]]:
    log = read_summary(file)
    return (log.values, log.errors, log.warnings, log.estimates), log.faults


def _accuracy(file: File) -> tuple[Any, list[Fault]]:
    text = read_accuracy(file, load_round("v6.0").accuracy_patterns)
    return (text.values, text.hashes, text.totals), text.faults


def _verify(file: File) -> tuple[Any, list[Fault]]:
    found = read_verification(file)
    return (found.passes, found.scores, found.counts, found.values), found.faults


def _conf(file: File) -> tuple[Any, list[Fault]]:
    conf = read_conf(file)
    return ([(s.key, s.value, s.number) for s in conf.settings], conf.odd_lines), conf.faults


def _samples(file: File) -> tuple[Any, list[Fault]]:
    log = read_samples(file)
    return ([list(log.times), list(log.watts), list(log.factors)], log.marks), log.faults


def _ptd(file: File) -> tuple[Any, list[Fault]]:
    messages, faults = read_ptd_log(file)
    return [(m.stamp, m.text) for m in messages], faults


def _json(file: File) -> tuple[Any, list[Fault]]:
    document = read_json(file)
    return document.value, document.faults


def _yaml(file: File) -> tuple[Any, list[Fault]]:
    document = read_yaml(file)
    return document.value, document.faults


def _record(key: str, value: object) -> str:
    return f':::MLLOG {{"key": "{key}", "value": {value}, "time_ms": 1.0, "metadata": {{}}}}'


_SPL = "Time,07-23-2024 17:08:0{}.500,Watts,300.0,Volts,230.0,Amps,0.9,PF,{},Mark,s"

PARSERS = {
    "detail": Parser(
        [_record("loadgen_version", '"5.0"'), _record("loaded_qsl_set", "[1, 2]"), _record("num_errors", 7)],
        _detail, _record("effective_target_qps", "{n}").replace("{{", "{").replace("}}", "}"),
        lambda values: values["num_errors"] == [7],
    ),
    "text detail": Parser(
        ['"pid": 1, "tid": 2, "ts": 3ns : Effective Settings:',
         '"pid": 1, "tid": 2, "ts": 4ns : Scenario : Offline',
         '"pid": 1, "tid": 2, "ts": 5ns : target_qps : 7'],
        _detail, '"pid": {n}, "tid": {n}, "ts": {n}ns : Effective Settings:',
        lambda values: values["effective_target_qps"] == [7],
    ),
    "summary": Parser(
        ["Samples per second: 12.5", "SUT name : PySUT", "", "No warnings encountered during test.",
         "2 ERRORS encountered. See detailed log."],
        _summary, "{n} ERRORS encountered", lambda found: found[1] == 2,
    ),
    "accuracy.txt": Parser(
        ["accuracy=76.064%, good=38032, total=50000", "hash=" + "ab" * 32],
        _accuracy, "accuracy={n}%, good={n}, total={n}", lambda found: found[1] == [("ab" * 32, 2)],
    ),
    "verify": Parser(
        ["reference score = 10.5", "test score = 10.25", "num_matches = 7", "TEST PASS"],
        _verify, "reference score = {n}, num_matches = {n}", lambda found: found[0] == [4],
    ),
    "user.conf": Parser(
        ["resnet50.Offline.target_qps = 12.5", "*.Server.min_duration = 600000"],
        _conf, "*.Server.target_qps = {n}", lambda found: found[0][-1][0] == "min_duration",
    ),
    "spl.txt": Parser(
        [_SPL.format(0, "0.96"), _SPL.format(1, "0.97")],
        _samples, _SPL.replace("300.0", "{n}").format(1, "1", n="{n}"),
        lambda found: found[0][2][-1] == 0.97,
    ),
    "ptd_logs.txt": Parser(
        ["Time,07-23-2024 17:08:00.500: ready", "07-23-2024 17:08:01: Go with 7"],
        _ptd, "07-23-2024 17:08:00.500: {n}", lambda found: found[-1][1] == "Go with 7",
    ),
    "json": Parser(["{", '"a": 1,', '"b": 7}'], _json, '{"a": {n}}', lambda found: found["b"] == 7),
    "yaml": Parser(["a: 1", "b: 7"], _yaml, "a: {n}", lambda found: found["b"] == 7),
}  # fmt: skip

EACH = pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)


@EACH
def test_line_ends_marks_and_blanks_change_nothing(parser: Parser, as_file: MakeFile) -> None:
    plain = "\n".join(parser.lines) + "\n"
    good, faults = parser.read(as_file(plain.encode()))
    assert faults == [] and parser.last(good)
    for name, text in {
        "CRLF": plain.replace("\n", "\r\n").encode(),
        "byte order mark": b"\xef\xbb\xbf" + plain.encode(),
        "trailing blanks": plain.replace("\n", " \t \n").encode(),
        "all of them": b"\xef\xbb\xbf" + plain.replace("\n", "  \r\n").encode(),
    }.items():
        assert parser.read(as_file(text)) == (good, []), name


@EACH
def test_nul_bytes_are_a_fault_and_what_surrounds_them_is_read(
    parser: Parser, as_file: MakeFile
) -> None:
    text = ("\n".join(parser.lines[:-1]) + "\n\0\0\0\n" + parser.lines[-1] + "\n").encode()
    found, faults = parser.read(as_file(text))
    where = len(parser.lines)
    assert [(f.line, f.kind) for f in faults] in ([(where, "nul")], [(where, "syntax")])
    last = parser.last
    if parser.read in (_accuracy, _verify):  # these say on which line it was
        return
    assert last(found)


@EACH
@pytest.mark.parametrize("digits", ["9" * 400, "9" * 5000, "-" + "9" * 5000, "1e" + "9" * 400])
def test_no_number_is_too_long(parser: Parser, digits: str, as_file: MakeFile) -> None:
    text = parser.number.replace("{n}", digits)
    parser.read(as_file(f"{parser.lines[0]}\n{text}\n".encode()))
    parser.read(as_file(f"{text}\n".encode()))


@pytest.mark.parametrize(
    "text", ["a: " + "[" * 16_000, "a: " + "{" * 50_000, 'a: !!int ""', "a: !!python/name:os.system x",
             "a: !x 1", "a: 1\n" * 40_000, "- " * 3000 + "a", "a: 2001-99-99", "? " * 5000, "a: 0b2", "a: 1:99999:1"],
    ids=range(11),
)  # fmt: skip
def test_yaml_is_bounded_and_has_no_tags(text: str, as_file: MakeFile) -> None:
    import time

    began = time.monotonic()
    document = read_yaml(as_file(text.encode()))
    assert time.monotonic() - began < 5
    assert (document.value is None) == bool(document.faults)
    if "!" in text or len(text) > 5000:
        assert [fault.kind for fault in document.faults] in (["syntax"], ["too-large"])


def test_yaml_keys_that_come_twice(as_file: MakeFile) -> None:
    document = read_yaml(as_file(b"a: 1\nb:\n  - {c: 2, d: 3, c: 4}\na: [5]\n"))
    assert document.duplicates == [("c", "2", "4"), ("a", "1", "a sequence")]
    assert document.value == {"a": [5], "b": [{"c": 4, "d": 3}]} and document.faults == []


def test_a_text_log_that_is_not_utf8(as_file: MakeFile) -> None:
    lines = [line.encode() for line in PARSERS["text detail"].lines]
    log = read_detail(as_file(b"\n".join([lines[0], b"\xff continued", *lines[1:]])))
    assert [(f.kind, f.line) for f in log.faults] == [("encoding", 2)]
    assert log.get("effective_scenario") == "Offline" and log.get("effective_target_qps") == 7


def test_a_carriage_return_inside_a_conf_is_no_line_end(as_file: MakeFile) -> None:
    """LoadGen reads up to the line feed: everything behind the comment is part of it."""
    conf = read_conf(as_file(b"# settings\r*.Offline.target_qps = 7\r"))
    assert conf.settings == [] and [line for line, _ in conf.odd_lines] == [1]


def test_a_colour_in_the_middle_of_a_score(as_file: MakeFile) -> None:
    """What another program wrote to the terminal: the digits before it are not the score."""
    patterns = load_round("v6.0").accuracy_patterns
    text = read_accuracy(as_file(b"accuracy=44.4\x1b[31merror\x1b[0m12%, good=3\n"), patterns)
    assert [(fault.kind, fault.line) for fault in text.faults] == [
        ("syntax", 1)
    ] and not text.values
