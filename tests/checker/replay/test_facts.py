"""Facts from the values of a log, and what happens when they are not there."""

from __future__ import annotations

from typing import Any

import pytest

from checker.replay import (
    Generation,
    MissingFact,
    NotReplayed,
    RunFacts,
    check_loaded_set,
    check_query_order,
    check_sampling,
    check_schedule,
    generation_of,
)
from checker.replay.compare import Agreement
from checker.replay.queries import expected_sets, query_plan
from checker.replay.shuffle import Library

VALUES: dict[str, Any] = {
    "loadgen_version": "5.1.0 @ 50de99161e",
    "qsl_reported_total_count": 50,
    "effective_scenario": "Server",
    "effective_test_mode": "PerformanceOnly",
    "effective_samples_per_query": 1,
    "effective_target_qps": 1000,
    "effective_target_duration_ms": 100,
    "effective_min_duration_ms": 100,
    "effective_min_query_count": 10,
    "effective_min_sample_count": 10,
    "effective_qsl_rng_seed": 1,
    "effective_sample_index_rng_seed": 2,
    "effective_schedule_rng_seed": 3,
    "effective_performance_sample_count": 50,
    "effective_sample_concatenate_permutation": False,
}


@pytest.mark.parametrize(
    ("version", "generation"),
    [
        (".5a1 @ 6958607d52", Generation.V1),
        ("1.1 @ ed7044310a", Generation.V1),
        ("2.0 @ 0ec69f587d", Generation.V2_0),
        ("2.1 @ NA", Generation.V2_1),
        ("3.1 @ NA", Generation.V2_1),
        ("4.0 @ 7fc059bf91", Generation.V4),
        ("5.0.25 @ 5232291860", Generation.V5),
        ("6.0.17 @ d6147c7eb7", Generation.V5),
        ("10.2", Generation.V5),
    ],
)
def test_generation(version: str, generation: Generation) -> None:
    assert generation_of(version) is generation
    assert generation_of(version, "no such hash") is generation


def test_the_source_says_more_than_the_version() -> None:
    source = "6650091ba7a918f343b06eb7a5aa540eae87275f"
    assert generation_of("9.9", source) is Generation.V4
    values = VALUES | {"loadgen_file_sha1": {"/loadgen.cc": source}}
    assert RunFacts.from_log(values).generation is Generation.V4


def test_facts() -> None:
    facts = RunFacts.from_log(VALUES)
    assert facts.generation is Generation.V5
    assert not facts.accuracy
    assert facts.target_qps == 1000.0
    assert facts.expected_latency_ns is None
    assert facts.permutation is False
    without = {k: v for k, v in VALUES.items() if "permutation" not in k}
    assert RunFacts.from_log(without).permutation is None


@pytest.mark.parametrize(
    "key", [key for key in VALUES if "permutation" not in key and "min_sample" not in key]
)
@pytest.mark.parametrize("value", [None, -3, [], True])
def test_missing_or_odd_values(key: str, value: object) -> None:
    if isinstance(value, int) and key == "effective_target_qps" and value is not True:
        pytest.skip("a negative rate is a fact; the schedule refuses it")
    with pytest.raises(MissingFact) as error:
        RunFacts.from_log(VALUES | {key: value})
    assert error.value.key == key
    assert key in str(error.value)


@pytest.mark.parametrize("mode", ["SubmissionRun", "FindPeakPerformance"])
def test_modes_of_several_passes(mode: str) -> None:
    with pytest.raises(MissingFact):
        RunFacts.from_log(VALUES | {"effective_test_mode": mode})


def test_nothing_to_compare_is_not_agreement() -> None:
    facts = RunFacts.from_log(VALUES)
    assert isinstance(check_loaded_set(facts, []), NotReplayed)
    assert isinstance(check_schedule(facts, [[1]], [], []), NotReplayed)
    assert isinstance(check_query_order(facts, [[1]], []), NotReplayed)
    assert isinstance(check_sampling(facts, []), NotReplayed)
    assert isinstance(check_query_order(facts, [[3, 1]], [(0, 1)]), NotReplayed)
    nothing = RunFacts.from_log(VALUES | {"effective_performance_sample_count": 0})
    assert isinstance(check_loaded_set(nothing, [[0]]), NotReplayed)
    backwards = RunFacts.from_log(VALUES | {"effective_target_qps": -1})
    assert isinstance(check_schedule(backwards, [list(range(50))], [1], [1]), NotReplayed)
    long = check_schedule(facts, [list(range(50))], [1], [1], limit=10)
    assert isinstance(long, NotReplayed)
    assert isinstance(check_query_order(facts, [[1]], [(99, 1)], limit=10), NotReplayed)
    assert isinstance(check_sampling(facts, [99], limit=10), NotReplayed)


def test_a_log_that_does_not_show_its_sets() -> None:
    facts = RunFacts.from_log(
        VALUES | {"effective_test_mode": "AccuracyOnly", "loadgen_version": ".5a1 @ x"}
    )
    plan = query_plan(facts, expected_sets(facts, 50, Library.GNU_4)[0])
    found = check_schedule(facts, [], [plan.query_count], [plan.duration_ns])
    assert isinstance(found, Agreement)


def test_equal_issue_that_the_log_does_not_mention() -> None:
    values = {k: v for k, v in VALUES.items() if "permutation" not in k}
    values["loadgen_version"] = "4.0 @ x"
    facts = RunFacts.from_log(values)
    sets = [samples.samples.tolist() for samples in expected_sets(facts, 50, Library.GNU_11)]
    for permutation in (False, True):
        key = "effective_sample_concatenate_permutation"
        sure = RunFacts.from_log(values | {key: permutation})
        plan = query_plan(sure, expected_sets(sure, 50, Library.GNU_11)[0])
        found = check_schedule(facts, sets, [plan.query_count], [plan.duration_ns])
        assert isinstance(found, Agreement)


@pytest.mark.parametrize(
    "key",
    [
        "qsl_reported_total_count",
        "effective_performance_sample_count",
        "effective_samples_per_query",
    ],
)
@pytest.mark.parametrize("value", [0, 10**15])
def test_numbers_that_no_run_has(key: str, value: int) -> None:
    if value == 0 and key == "qsl_reported_total_count":
        pytest.skip("compared as it is")
    facts = RunFacts.from_log(VALUES | {key: value})
    assert isinstance(check_loaded_set(facts, [[1]]), NotReplayed)
    assert isinstance(check_schedule(facts, [[1]], [1], [1]), NotReplayed)
    assert isinstance(check_query_order(facts, [[1]], [(0, 1)]), NotReplayed)


def test_a_minimum_that_no_run_has() -> None:
    facts = RunFacts.from_log(VALUES | {"effective_min_query_count": 10**15})
    sets = [samples.samples.tolist() for samples in expected_sets(facts, 50, Library.GNU_11)]
    assert isinstance(check_loaded_set(facts, sets), Agreement)
    assert isinstance(check_schedule(facts, sets, [1], [1]), NotReplayed)
    assert isinstance(check_query_order(facts, sets, [(0, 1)]), NotReplayed)


@pytest.mark.parametrize("logged", [[[]], [["x"]], [[10**30]], [[[1], [2, 3]]]])
def test_loaded_sets_that_are_none(logged: Any) -> None:
    facts = RunFacts.from_log(VALUES)
    assert isinstance(check_loaded_set(facts, logged), NotReplayed)
    assert isinstance(check_schedule(facts, logged, [1], [1]), NotReplayed)
    assert isinstance(check_query_order(facts, logged, [(0, 1)]), NotReplayed)


def test_a_sample_to_repeat_that_is_not_loaded() -> None:
    facts = RunFacts.from_log(
        VALUES
        | {
            "effective_performance_issue_same": True,
            "effective_performance_issue_same_index": 50,
        }
    )
    sets = [samples.samples.tolist() for samples in expected_sets(facts, 50, Library.GNU_11)]
    assert isinstance(check_query_order(facts, sets, [(0, 1)]), NotReplayed)
