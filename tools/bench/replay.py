"""Time the replay: a million-query Server schedule, and all checks of one whole log.

Run it by hand: ``python -m tools.bench.replay``. It is no test: a loaded machine would fail it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from checker.replay import (
    Library,
    RunFacts,
    check_loaded_set,
    check_query_order,
    check_sampling,
    check_schedule,
    query_plan,
    rate_for,
    sample_indices,
    sampling_probability,
    sampling_values,
    server_schedule,
)
from checker.replay.queries import _whole_order, expected_sets

_SEED = 16159082839903944936


def _best(work: Callable[[], object], rounds: int = 5) -> float:
    """The shortest of several timings, in ms."""
    times = []
    for _ in range(rounds):
        _whole_order.cache_clear()
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def _log(scenario: str, permutation: bool, qps: float) -> dict[str, object]:
    offline = scenario == "Offline"
    return {
        "loadgen_version": "6.0.17 @ d6147c7eb7",
        "qsl_reported_total_count": 24576,
        "effective_scenario": scenario,
        "effective_test_mode": "PerformanceOnly",
        "effective_samples_per_query": int(660 * qps) if offline else 1,
        "effective_target_qps": qps,
        "effective_target_duration_ms": 0 if offline else 600_000,
        "effective_min_duration_ms": 600_000,
        "effective_min_query_count": 1 if offline else 270_336,
        "effective_min_sample_count": int(660 * qps) if offline else 270_336,
        "effective_qsl_rng_seed": 2085463073848966840,
        "effective_sample_index_rng_seed": 2747215439041700203,
        "effective_schedule_rng_seed": _SEED,
        "effective_accuracy_log_rng_seed": 720381539243781796,
        "effective_accuracy_log_sampling_target": 4096,
        "effective_performance_sample_count": 24576,
        "effective_sample_concatenate_permutation": permutation,
    }


def _whole_log(scenario: str, permutation: bool, qps: float) -> tuple[int, float]:
    facts = RunFacts.from_log(_log(scenario, permutation, qps))
    loaded = expected_sets(facts, facts.total_count, Library.GNU_11)[0]
    plan = query_plan(facts, loaded)
    every = sampling_values(facts, np.arange(plan.sample_count))
    picked = np.flatnonzero(every <= sampling_probability(facts))
    indices = sample_indices(facts, loaded, picked, Library.GNU_11)
    records = list(zip(picked.tolist(), indices.tolist(), strict=True))
    sets = [loaded.samples.tolist()]

    def check() -> None:
        check_loaded_set(facts, sets)
        check_schedule(facts, sets, [plan.query_count], [plan.duration_ns])
        check_query_order(facts, sets, records)
        check_sampling(facts, picked.tolist(), issued=plan.sample_count)

    return plan.sample_count, _best(check, 3)


def main() -> None:
    """Print one line for each measurement."""
    qps = 1_000_000 / 600
    schedule = server_schedule(_SEED, qps, 600 * 10**9, 270_336)
    spent = _best(lambda: server_schedule(_SEED, qps, 600 * 10**9, 270_336))
    print(f"Server schedule, {schedule.query_count} queries: {spent:.0f} ms")
    printed = float(f"{qps:.6g}")
    spent = _best(lambda: rate_for(_SEED, printed, schedule.query_count, schedule.duration_ns))
    print(f"the same, solving for the hidden digits of the rate: {spent:.0f} ms")
    for scenario in ("Server", "Offline"):
        for permutation in (False, True):
            samples, spent = _whole_log(scenario, permutation, qps)
            mode = "equal-issue" if permutation else "usual"
            print(f"whole log, {scenario}, {mode}, {samples} samples: {spent:.0f} ms")


if __name__ == "__main__":
    main()
