"""The replay against the real LoadGen: every scenario, mode and way of choosing samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checker.replay import (
    Agreement,
    check_loaded_set,
    check_query_order,
    check_sampling,
    check_schedule,
    matching_builds,
    query_plan,
    sample_indices,
)
from checker.replay.compare import Disagreement, logged_sets

from .loadgen_run import SEEDS, RealRun, run

SCENARIOS = ["SingleStream", "MultiStream", "Server", "Offline"]
# Data set size and memory size: all in memory, several sets, more memory than data.
SIZES = [(100, 100), (97, 40), (50, 80)]
PACE: dict[str, Any] = {
    "min_duration_ms": 60,
    "min_query_count": 130,
    "server_target_qps": 4321.5,
    "offline_expected_qps": 5000,
    "single_stream_expected_latency_ns": 90_000,
    "multi_stream_expected_latency_ns": 700_000,
    "multi_stream_samples_per_query": 7,
}


def assert_agrees(real: RealRun) -> None:
    facts = real.facts
    loaded = check_loaded_set(facts, real.sets)
    assert isinstance(loaded, Agreement), loaded
    schedule = check_schedule(facts, real.sets, real.counts, real.durations)
    assert isinstance(schedule, Agreement), schedule
    library = matching_builds(facts, real.sets)[0].library
    start = 0
    for samples, spq in zip(
        logged_sets(facts, real.sets), real.values["generated_samples_per_query"], strict=True
    ):
        plan = query_plan(facts, samples)
        assert plan.samples_per_query == spq
        # A run may end before it has issued all that it generated, never after.
        seen = real.issued[start : start + plan.sample_count]
        expected = sample_indices(facts, samples, np.arange(len(seen)), library)
        assert expected.tolist() == list(seen)
        start += plan.sample_count
    assert len(real.issued) <= start
    if real.records:
        order = check_query_order(facts, real.sets, real.records)
        assert isinstance(order, Agreement), order
        assert order.checked == len(real.records)


@pytest.mark.parametrize("permutation", [False, True])
@pytest.mark.parametrize(("total", "loaded"), SIZES)
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"performance_issue_unique": True},
        {"performance_issue_same": True, "performance_issue_same_index": 3},
    ],
    ids=["any", "unique", "same"],
)
def test_performance_run(
    tmp_path: Path,
    scenario: str,
    total: int,
    loaded: int,
    choice: dict[str, Any],
    permutation: bool,
) -> None:
    if "performance_issue_unique" in choice and (
        (scenario == "MultiStream" and permutation) or (scenario == "Offline" and loaded > total)
    ):
        pytest.skip("LoadGen itself reads past the end of its list here")
    real = run(
        tmp_path,
        scenario,
        total=total,
        loaded=loaded,
        sample_concatenate_permutation=permutation,
        **PACE,
        **choice,
    )
    assert_agrees(real)


@pytest.mark.parametrize("permutation", [False, True])
@pytest.mark.parametrize(("total", "loaded"), SIZES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_accuracy_run(
    tmp_path: Path, scenario: str, total: int, loaded: int, permutation: bool
) -> None:
    real = run(
        tmp_path,
        scenario,
        accuracy=True,
        total=total,
        loaded=loaded,
        sample_concatenate_permutation=permutation,
        **PACE,
    )
    assert len(real.records) >= total
    assert_agrees(real)


@pytest.mark.parametrize("permutation", [False, True])
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize(
    "share", [{"accuracy_log_sampling_target": 50}, {"accuracy_log_probability": 0.1}]
)
def test_sampled_accuracy(
    tmp_path: Path, scenario: str, permutation: bool, share: dict[str, Any]
) -> None:
    real = run(tmp_path, scenario, sample_concatenate_permutation=permutation, **PACE, **share)
    seq_ids = [seq_id for seq_id, _ in real.records]
    assert seq_ids
    facts, issued = real.facts, len(real.issued)
    assert isinstance(check_sampling(facts, seq_ids, issued=issued), Agreement)
    assert isinstance(check_sampling(facts, seq_ids), Agreement)
    assert_agrees(real)
    missing = check_sampling(facts, seq_ids[1:], issued=issued)
    assert isinstance(missing, Disagreement)
    assert str(seq_ids[0]) in missing.expected
    other = next(seq_id for seq_id in range(issued) if seq_id not in set(seq_ids))
    extra = check_sampling(facts, [*seq_ids, other])
    assert isinstance(extra, Disagreement)
    assert str(other) in extra.found


@pytest.mark.parametrize("seed", [0, 1, 5489, 2**32 - 1, 2**32 + 7, 2**64 - 1])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_other_seeds(tmp_path: Path, scenario: str, seed: int) -> None:
    seeds: dict[str, Any] = dict.fromkeys(SEEDS, seed)
    assert_agrees(run(tmp_path, scenario, total=301, loaded=301, **PACE, **seeds))


@pytest.mark.parametrize("total", [1, 2, 3, 4, 65535, 65536, 70000])
def test_data_set_sizes(tmp_path: Path, total: int) -> None:
    # The shuffle changes its way at 65536 samples.
    real = run(tmp_path, "SingleStream", total=total, loaded=total, **PACE)
    assert_agrees(real)


def test_rate_that_is_printed_rounded(tmp_path: Path) -> None:
    pace = PACE | {"server_target_qps": 4321.56789}
    real = run(tmp_path, "Server", **pace)
    assert real.facts.target_qps == 4321.57
    found = check_schedule(real.facts, real.sets, real.counts, real.durations)
    assert isinstance(found, Agreement)
    assert found.how != "exact"


@pytest.mark.parametrize("scenario", ["SingleStream", "MultiStream"])
def test_latency_that_is_printed_rounded(tmp_path: Path, scenario: str) -> None:
    pace = PACE | {
        "single_stream_expected_latency_ns": 91234567,
        "multi_stream_expected_latency_ns": 91234567,
        "min_duration_ms": 0,
    }
    real = run(tmp_path, scenario, **pace)
    assert_agrees(real)


def test_forgeries_are_seen(tmp_path: Path) -> None:
    real = run(tmp_path, "Server", accuracy=True, **PACE)
    facts = real.facts
    swapped = [[real.sets[0][1], real.sets[0][0], *real.sets[0][2:]]]
    assert isinstance(check_loaded_set(facts, swapped), Disagreement)
    assert isinstance(check_loaded_set(facts, [real.sets[0][:-1]]), Disagreement)
    assert isinstance(check_loaded_set(facts, real.sets * 2), Disagreement)
    late = check_schedule(facts, real.sets, real.counts, [real.durations[0] + 10**6])
    assert isinstance(late, Disagreement)
    more = check_schedule(facts, real.sets, [real.counts[0] + 1], real.durations)
    assert isinstance(more, Disagreement)
    (a, x), (b, y), *rest = real.records
    crossed = check_query_order(facts, real.sets, [(a, y), (b, x), *rest])
    assert isinstance(crossed, Disagreement)
    assert "2 of" in crossed.where
    beyond = check_query_order(facts, real.sets, [*real.records, (len(real.records), 0)])
    assert isinstance(beyond, Disagreement)
