"""accuracy.txt: every value of every metric, the hash, and nothing that is neither."""

from __future__ import annotations

import math

import pytest

from checker.parse.accuracy_txt import read_accuracy
from schemas.load import load_round, round_names
from schemas.round import Gate
from tests.checker.parse.conftest import MakeFile
from tests.trees import accuracy_lines, metric_values, printed

V60 = load_round("v6.0").accuracy_patterns


@pytest.mark.parametrize("round", round_names())
def test_every_metric_of_a_round_is_read(round: str, as_file: MakeFile) -> None:
    data = load_round(round)
    for name, about in data.benchmarks.items():
        for gates in (about.accuracy, *about.accuracy_by_scenario.values()):
            values = metric_values(printed(data, gates), printed(data, about.accuracy_limits))
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
    gates = [Gate("acc", 76.46, "percent", 0.99), Gate("F1", 90.0, "percent", 0.999)]
    values = metric_values(gates, [Gate("F1", 91.0, "percent")])
    assert values["acc"] >= 75.6954 and 89.91 <= values["F1"] <= 91.0


@pytest.mark.parametrize("text", ["accuracy=76,064%", "accuracy=1,234.5%"])
def test_a_decimal_comma_is_a_fault_and_not_a_number(text: str, as_file: MakeFile) -> None:
    found = read_accuracy(as_file(f"{text}, good=38032, total=50000\n".encode()), V60)
    assert found.values == {}
    assert [(f.kind, f.line) for f in found.faults] == [("syntax", 1)]
    assert text.removeprefix("accuracy=").removesuffix("%") in found.faults[0].message


def test_numpys_wrapping_does_not_matter(as_file: MakeFile) -> None:
    text = "{'rouge1': np.float64(44.4), 'rouge2': 22.1, 'gen_len': np.int64(8178793)}\n"
    found = read_accuracy(as_file(text.encode()), V60)
    assert {name: values[0].value for name, values in found.values.items()} == {
        "ROUGE1": 44.4,
        "ROUGE2": 22.1,
        "GEN_LEN": 8178793.0,
    }


def test_what_a_text_states_twice(as_file: MakeFile) -> None:
    lines = [
        "accuracy=76.064%, good=38032, total=50000",
        "Accuracy: mean = 0.9350, kidney = 0.7898, tumor = 0.8624",
        "Word Error Rate: 7.429705292114816%, accuracy=92.57029470788518%",
        "accuracy=5%, good=1, total=0",
    ]
    found = read_accuracy(as_file("\n".join(lines).encode()), V60)
    assert [(d.value, round(d.implied, 6)) for d in found.derived] == [
        (76.064, 76.064),
        (0.935, 0.8261),
        (92.57029470788518, 92.570295),
    ]
