"""accuracy.txt: every value of every metric, the hash, and nothing that is neither."""

from __future__ import annotations

import math

import pytest

from checker.parse.accuracy_txt import read_accuracy
from schemas.load import load_round, round_names
from schemas.round import Gate
from tests.checker.parse.conftest import MakeFile
from tests.trees import accuracy_lines, metric_values

V60 = load_round("v6.0").accuracy_patterns


@pytest.mark.parametrize("round", round_names())
def test_every_metric_of_a_round_is_read(round: str, as_file: MakeFile) -> None:
    data = load_round(round)
    for name, about in data.benchmarks.items():
        for gates in (about.accuracy, *about.accuracy_by_scenario.values()):
            values = metric_values(gates, about.accuracy_limits)
            text = "\n".join(["noise", *accuracy_lines(values, 1000), "hash=" + "ab" * 32]) + "\n"
            found = read_accuracy(as_file(text), data.accuracy_patterns)
            for metric, value in values.items():
                reported = found.values[metric]
                assert len(reported) == 1, (name, metric)
                assert abs(reported[0].value - value) <= 0.06, (name, metric)
                assert reported[0].line >= 2 and float(reported[0].text) == reported[0].value
            assert [h for h, _ in found.hashes] == ["ab" * 32] and found.faults == []


def test_first_last_and_totals(as_file: MakeFile) -> None:
    text = "accuracy=76.1%, good=1, total=50\naccuracy=76.2%, good=1, total=60\nhash: abc\n  hash=def\n"
    found = read_accuracy(as_file(text), V60)
    first, last = found.first("acc"), found.last("acc")
    assert first is not None and last is not None
    assert (first.value, first.line, last.value, last.line) == (76.1, 1, 76.2, 2)
    assert found.totals == [(50, 1), (60, 2)] and found.hashes == [("abc", 3), ("def", 4)]
    assert found.first("F1") is None


@pytest.mark.parametrize(
    ("text", "value"), [("nan", math.nan), ("inf", math.inf), ("-inf", -math.inf), ("1e2", 100.0)]
)
def test_odd_numbers(text: str, value: float, as_file: MakeFile) -> None:
    found = read_accuracy(as_file(f"accuracy={text}%\n"), V60).first("acc")
    assert found is not None
    assert found.value == value or (math.isnan(found.value) and math.isnan(value))


def test_long_lines_and_many_values(as_file: MakeFile) -> None:
    text = (
        "progress " * 100_000
        + "\n"
        + "accuracy=1.0%\n" * 1000
        + "accuracy=2.0%\n"
        + "hash=a\n" * 100
    )
    found = read_accuracy(as_file(text), V60)
    assert len(found.values["acc"]) == 200 and len(found.hashes) == 20
    last = found.last("acc")
    assert last is not None and last.value == 2.0


def test_encodings(as_file: MakeFile) -> None:
    found = read_accuracy(as_file(b"\xef\xbb\xbfaccuracy=76.1%\r\n\xff\xfe\r\nhash=ab\r\n"), V60)
    assert found.first("acc") is not None and found.hashes == [("ab", 3)]
    assert [(f.kind, f.line) for f in found.faults] == [("encoding", 2)]


def test_empty(as_file: MakeFile) -> None:
    assert [f.kind for f in read_accuracy(as_file(b""), V60).faults] == ["empty"]


def test_values_stay_inside_what_was_asked() -> None:
    gates = [Gate("acc", 76.46, 0.99), Gate("F1", 90.0, 0.999)]
    values = metric_values(gates, [Gate("F1", 91.0)])
    assert values["acc"] >= 75.6954 and 89.91 <= values["F1"] <= 91.0
