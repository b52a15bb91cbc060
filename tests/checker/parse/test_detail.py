"""LoadGen's detail log: every record once, exact values, damage told with its line."""

from __future__ import annotations

import json
import math

import pytest

from checker.parse import detail
from checker.parse import detail_file as module
from checker.parse.detail import DetailLog
from checker.parse.detail_file import read_detail
from tests.checker.parse.conftest import MakeFile
from tests.conftest import Grow
from tests.trees import MARKER


def record(key: str, value: object, **metadata: object) -> str:
    about = {
        "is_error": False,
        "is_warning": False,
        "file": "a.cc",
        "line_no": 7,
        "pid": 3,
        "tid": 4,
    }
    return MARKER + json.dumps(
        {
            "key": key,
            "value": value,
            "time_ms": 1.5,
            "namespace": "mlperf::logging",
            "event_type": "POINT_IN_TIME",
            "metadata": {**about, **metadata},
        }
    )


def test_values_and_lines(as_file: MakeFile) -> None:
    text = "\n".join(
        [record("a", 1), record("b", 2.5), record("a", "x"), record("c", [1, 2]), record("d", None)]
    )
    log = read_detail(as_file(text + "\n"))
    assert log.faults == [] and log.format == "mllog" and log.lines == 5
    assert (log.get("a"), log.line("a")) == ("x", 3)
    assert [e.value for e in log.all("a")] == [1, "x"]
    assert log.get("b") == 2.5 and log.get("c") == [1, 2]
    assert "d" in log and log.get("d") is None and log.get("nothing") is None
    entry = log.entry("b")
    assert entry is not None
    assert (entry.source, entry.source_line, entry.pid, entry.tid, entry.time_ms) == (
        "a.cc",
        7,
        3,
        4,
        1.5,
    )


def test_big_integers_are_exact(as_file: MakeFile) -> None:
    log = read_detail(as_file(record("seed", 14276810075590677512) + "\n"))
    assert log.integer("seed") == 14276810075590677512


@pytest.mark.parametrize(
    ("value", "number", "integer", "boolean"),
    [
        (1, 1.0, 1, True), (0, 0.0, 0, False), (2, 2.0, 2, None), (1.0, 1.0, 1, None),
        (1.5, 1.5, None, None), (True, None, None, True), (False, None, None, False),
        ("12", 12.0, 12, None), (" 12 ", 12.0, 12, None), ("true", None, None, True),
        ("x", None, None, None), (None, None, None, None), ([], None, None, None),
        ({}, None, None, None), (1e300, 1e300, int(1e300), None), (10**400, math.inf, None, None),
        ("nan", math.nan, None, None), ("9" * 50, float("9" * 50), None, None),
    ],
)  # fmt: skip
def test_typed_values(
    value: object,
    number: float | None,
    integer: int | None,
    boolean: bool | None,
    as_file: MakeFile,
) -> None:
    log = read_detail(as_file(record("k", value) + "\n"))
    found = log.number("k")
    assert found == number or (
        found is not None and number is not None and math.isnan(found) and math.isnan(number)
    )
    assert log.integer("k") == integer
    assert log.boolean("k") is boolean
    assert log.text("k") == (value if isinstance(value, str) else None)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_what_loadgen_prints_for_no_number(value: str, as_file: MakeFile) -> None:
    log = read_detail(
        as_file(record("k", "@").replace('"@"', value) + "\n" + record("l", 1) + "\n")
    )
    assert log.faults == []
    number = log.number("k")
    assert number is not None and not math.isfinite(number)
    assert log.get("l") == 1


def test_errors_and_warnings(as_file: MakeFile) -> None:
    text = [record("a", 1), record("e", "bad", is_error=True), record("w", "hm", is_warning=True)]
    log = read_detail(as_file("\n".join(text)))
    assert [(e.key, e.value, e.line) for e in log.errors] == [("e", "bad", 2)]
    assert log.error_count == 1 and log.pids == {3}
    assert [e.is_warning for e in log.all("w")] == [True]


def test_many_of_one_key_are_bounded(as_file: MakeFile) -> None:
    count = detail._KEEP_PER_KEY + 50
    text = "\n".join(record("e", i, is_error=True) for i in range(count))
    log = read_detail(as_file(text))
    assert len(log.all("e")) == detail._KEEP_PER_KEY
    assert log.get("e") == count - 1 and log.error_count == count and len(log.errors) == 100


@pytest.mark.parametrize(
    ("damage", "line", "words"),
    [
        ("not a record", 2, "does not begin with"),
        (MARKER + '{"key": "b", "val', 2, "cut off or not JSON"),
        (MARKER + '{"value": 1}', 2, "not a record with a key"),
        (MARKER + '{"key": 5, "value": 1}', 2, "not a record with a key"),
        (MARKER + "[1, 2]", 2, "not a record with a key"),
        (MARKER + "[" * 100_000, 2, "cut off or not JSON"),
        (":::MLLOG", 2, "does not begin with"),
        ("\x00\x01\x02", 2, "does not begin with"),
    ],
)
def test_damaged_lines(damage: str, line: int, words: str, as_file: MakeFile) -> None:
    log = read_detail(as_file("\n".join([record("a", 1), damage, record("c", 3)]) + "\n"))
    assert [(f.line, f.kind) for f in log.faults] == [(line, "syntax")]
    assert words in log.faults[0].message and log.faults[0].fix
    assert log.get("a") == 1 and log.get("c") == 3 and log.line("c") == 3


def test_a_record_of_two_lines_is_none(as_file: MakeFile) -> None:
    """Two lines that are two records only together are two faults, not two records."""
    log = read_detail(
        as_file(MARKER + '{"key": "a"\n' + MARKER + ', "value": 1}{"key": "b", "value": 2}\n')
    )
    assert [(f.line, f.kind) for f in log.faults] == [(1, "syntax"), (2, "syntax")]
    assert not log


@pytest.mark.parametrize(("written", "value"), [("++16", None), ("²", None), (" +16 ", 16)])
def test_integers_as_text(written: str, value: int | None, as_file: MakeFile) -> None:
    log = read_detail(as_file(record("effective_min_query_count", written)))
    assert log.integer("effective_min_query_count") == value
    assert bool(log.faults) == (value is None)


def test_few_faults_of_many(as_file: MakeFile) -> None:
    log = read_detail(as_file("rubbish\n" * 10_000))
    assert len(log.faults) == module._MAX_FAULTS and not log


def test_bytes_that_are_no_text(as_file: MakeFile) -> None:
    line = record("b", "x").encode().replace(b'"x"', b'"\xff\xfe"')
    log = read_detail(
        as_file(record("a", 1).encode() + b"\n" + line + b"\n" + record("c", 3).encode())
    )
    assert log.get("a") == 1 and log.get("c") == 3
    assert log.faults or isinstance(log.get("b"), str)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"   ", b"\xef\xbb\xbf"])
def test_empty(content: bytes, as_file: MakeFile) -> None:
    log = read_detail(as_file(content))
    assert not log and log.faults


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.replace(b"\n", b"\r\n"), lambda b: b"\xef\xbb\xbf" + b, lambda b: b"\n\n" + b,
        lambda b: b.rstrip(b"\n"), lambda b: b.replace(b"\n", b"\n\n"), lambda b: b"  " + b,
    ],
    ids=["CRLF", "BOM", "leading", "no end", "blank", "indented"],
)  # fmt: skip
def test_harmless_forms(change: object, grow: Grow, as_file: MakeFile) -> None:
    """The same log in another form has the same records."""
    tree = grow(round="demo", benchmark="digits", category="datacenter")
    data = tree.result("Server").detail.read_bytes()
    plain, changed = read_detail(as_file(data, "a")), read_detail(as_file(change(data), "b"))  # type: ignore[operator]
    assert changed.faults == []
    assert contents(changed) == contents(plain)


def contents(log: DetailLog) -> dict[str, list[object]]:
    """Every record's key and values."""
    return {key: [repr(e.value) for e in entries] for key, entries in log.entries.items()}


def test_the_fast_way_and_the_careful_way_agree(grow: Grow, as_file: MakeFile) -> None:
    """A sound log is decoded in one call; line by line it must come to the same."""
    tree = grow(benchmark="llama2-70b-99", category="datacenter")
    for place in (tree.result("Server").detail, tree.result("Offline").accuracy_detail):
        data = place.read_bytes()
        fast, careful = DetailLog("a"), DetailLog("a")
        assert module._read_whole(fast, data)
        module._read_lines(careful, iter(data.split(b"\n")))
        assert contents(fast) == contents(careful) and careful.faults == []
        for key, entries in fast.entries.items():
            assert [e.line for e in entries] == [e.line for e in careful.entries[key]]
        assert fast.pids == careful.pids


def test_long_logs_are_streamed(as_file: MakeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(record(f"k{i}", i) for i in range(100)) + "\n"
    whole = read_detail(as_file(text))
    monkeypatch.setattr(module, "_WHOLE_FILE", 1000)
    streamed = read_detail(as_file(text))
    assert contents(streamed) == contents(whole) and streamed.faults == []


ODD_RECORDS = {
    "generic_message": (
        ("null", "found null as the value of generic_message; expected text"),
        ('"\\u0000"', "line 2 holds NUL bytes"),
        ('"a\\u0000b"', "line 2 holds NUL bytes"),
        ('"\\ud800"', "found half a character (\\ud800 to \\udfff alone)"),
        ("{}", "found an empty object as the value of generic_message; expected text"),
        ("7", "found 7 as the value of generic_message; expected text"),
    ),
    "loadgen_version": (
        ("null", "found null as the value of loadgen_version; expected a plain value"),
        ("[[]]", "found a list as the value of loadgen_version; expected a plain value"),
    ),
    "loadgen_file_sha1": (
        ("true", "found true as the value of loadgen_file_sha1; expected an object with the hash of each file"),
    ),
    "loaded_qsl_set": (
        ("[" * 900 + "]" * 900, "found a list as the value of loaded_qsl_set; expected a list of sample indices"),
        ("[1, 2.5]", "found a list as the value of loaded_qsl_set; expected a list of sample indices"),
        ("{}", "found an empty object as the value of loaded_qsl_set; expected a list of sample indices"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("key", ODD_RECORDS)
def test_a_record_that_no_reader_could_use_is_a_fault(key: str, as_file: MakeFile) -> None:
    """In a message of several too, and whoever asks for it."""
    after = record("generic_message", "Starting accuracy mode")
    for value, message in ODD_RECORDS[key]:
        odd = record(key, "@").replace('"@"', value)
        log = read_detail(as_file("\n".join([record("a", 1), odd, after]) + "\n"))
        assert [(f.message, f.line) for f in log.faults] == [(message, 2)]


def test_a_field_twice_is_a_fault(as_file: MakeFile) -> None:
    """JSON readers take the last, people the first; however it is written."""
    sound = record("result_validity", "VALID")
    for twice, key in (
        (sound.replace('"value": "VALID"', '"value": "INVALID", "value": "VALID"'), "value"),
        (sound.replace('"value": "VALID"', '"value" :1,"value": "VALID"'), "value"),
        (sound.replace('"value"', '"val\\u0075e": 1, "value"'), "value"),
        (sound.replace('"is_error"', '"is_error": true, "is_error"'), "is_error"),
        (
            record("loadgen_file_sha1", {"a": "1"}).replace('"a"', '"a": "2", "a"'),
            "a",
        ),
    ):
        text = "\n".join([record("a", 'said "so"'), twice, record("b", "x\ny")]) + "\n"
        log = read_detail(as_file(text))
        assert [(f.kind, f.line) for f in log.faults] == [("syntax", 2)], twice
        assert f"line 2 has {key!r} twice" in log.faults[0].message
        assert len(log.entries) == 3, "the rest is read"


def test_a_field_of_another_type_is_a_fault(as_file: MakeFile) -> None:
    """An error is not one because its mark cannot be read."""
    for change in (
        record("error_runtime", "no", is_error=None),
        record("error_runtime", "no", is_error="true"),
        record("error_runtime", "no", pid="7"),
        record("error_runtime", "no").replace('"time_ms": 1.5', '"time_ms": null'),
        record("error_runtime", "no").replace('"time_ms": 1.5', '"time_ms": NaN'),
        record("error_runtime", "no").replace('"metadata": {', '"metadata": [], "other": {'),
    ):
        log = read_detail(as_file(change + "\n"))
        assert [(f.kind, f.line) for f in log.faults] == [("syntax", 1)], change
        assert "of another type than LoadGen writes" in log.faults[0].message
