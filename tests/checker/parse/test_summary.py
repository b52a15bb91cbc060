"""The summary log: every line that has a record in the detail log, under the record's key."""

from __future__ import annotations

import pytest

from checker.consistency import same_value
from checker.parse.summary import read_summary
from tests.checker.parse.conftest import MakeFile
from tests.conftest import Grow

TREES = [
    {"benchmark": "yolo-99", "category": "edge"},
    {"benchmark": "llama2-70b-99", "category": "datacenter"},
    {"round": "v1.0", "benchmark": "resnet", "category": "edge", "scenarios": ["MultiStream"]},
]


@pytest.mark.parametrize("options", TREES)
def test_summary_says_what_the_detail_says(
    options: dict[str, object], grow: Grow, as_file: MakeFile
) -> None:
    tree = grow(**options)
    for scenario in tree.scenarios:
        place = tree.result(scenario)
        summary = read_summary(as_file(place.summary.read_bytes()))
        assert summary.faults == [] and summary.repeated == []
        assert (summary.errors, summary.warnings) == (0, 0)
        assert len(summary.values) >= 25
        for key, (value, line) in summary.values.items():
            assert same_value(tree.get_log(place.detail, key), value), key
            assert line > 0
        assert summary.get("result_validity") == "VALID"
        assert summary.get("effective_scenario") == tree.get_log(place.detail, "effective_scenario")


def test_early_stopping_and_headline(grow: Grow, as_file: MakeFile) -> None:
    tree = grow(benchmark="yolo-99", category="edge")
    place = tree.result("SingleStream")
    summary = read_summary(as_file(place.summary.read_bytes()))
    assert [(p, e) for p, e, _ in summary.estimates] == [
        (90.0, tree.get_log(place.detail, "early_stopping_latency_ss")),
        (99.0, tree.get_log(place.detail, "early_stopping_latency_ms")),
    ]
    assert summary.headline_percentile is not None
    assert summary.headline_percentile[:2] == (
        90.0,
        tree.get_log(place.detail, "result_90.00_percentile_latency_ns"),
    )


def test_counts_and_recommendations(as_file: MakeFile) -> None:
    text = (
        "Result is : INVALID\nRecommendations:\n * Increase expected QPS.\n * Run longer.\n\n"
        "3 warnings encountered. See detailed log.\n\n2 ERRORS encountered. See detailed log.\n"
    )
    summary = read_summary(as_file(text))
    assert summary.recommendations == ["Increase expected QPS.", "Run longer."]
    assert (summary.warnings, summary.errors) == (3, 2)


def test_contradicting_lines_are_kept(as_file: MakeFile) -> None:
    summary = read_summary(as_file("Result is : VALID\nResult is : INVALID\n"))
    assert summary.repeated == [("result_validity", "VALID", "INVALID", 2)]


@pytest.mark.parametrize("content", [b"", b"\n", b"nothing of LoadGen's\n", b"[]", b"\x00" * 100])
def test_no_summary(content: bytes, as_file: MakeFile) -> None:
    assert read_summary(as_file(content)).faults


def test_estimates_below_recommendations(as_file: MakeFile) -> None:
    """Of an invalid run LoadGen prints both, without a line between them."""
    text = (
        "Result is : INVALID\nRecommendations:\n * Run longer.\nEarly Stopping Result:\n"
        " * Early stopping 90th percentile estimate: 1819210\n"
    )
    log = read_summary(as_file(text))
    assert log.recommendations == ["Run longer."] and log.estimating
    assert log.estimates == [(90.0, 1819210, 5)]
