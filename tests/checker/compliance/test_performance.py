"""TEST01, TEST04, TEST05: the two runs' scores."""

from __future__ import annotations

import pytest

from checker.compliance import performance
from checker.parse.detail import DetailLog, add, entry_of


def detail(**values: float) -> DetailLog:
    log = DetailLog("mlperf_log_detail.txt")
    for number, (key, value) in enumerate(values.items(), 1):
        add(log, entry_of(key.replace("__", "."), number, value=value))
    return log


@pytest.mark.parametrize(
    ("test", "reference", "tested", "passed"),
    [
        ("TEST01", 100.0, 109.9, True), ("TEST01", 100.0, 110.1, False),
        ("TEST01", 100.0, 90.1, True), ("TEST01", 100.0, 89.0, False),
        ("TEST04", 100.0, 50.0, True), ("TEST04", 100.0, 109.0, True),
        ("TEST04", 100.0, 111.0, False), ("TEST04-A", 100.0, 111.0, False),
        ("TEST01", 100.0, float("inf"), False), ("TEST01", 100.0, float("nan"), None),
        ("TEST01", 0.0, 10.0, None),
    ],
)  # fmt: skip
def test_offline(test: str, reference: float, tested: float, passed: bool | None) -> None:
    found = performance.compare(
        detail(result_samples_per_second=reference),
        detail(result_samples_per_second=tested),
        test,
        "Offline",
    )
    assert (None if found is None else found.passed) is passed


def test_latencies_of_test04_are_reciprocals() -> None:
    slow, fast = detail(early_stopping_latency_ss=4e6), detail(early_stopping_latency_ss=1e6)
    assert performance.compare(fast, slow, "TEST04", "SingleStream").passed is True  # type: ignore[union-attr]
    found = performance.compare(slow, fast, "TEST04", "SingleStream")
    assert found is not None and found.passed is False
    assert (found.reference, found.test, found.unit) == (250.0, 1000.0, "samples/s")


def test_latencies_of_test01_are_compared_as_they_are() -> None:
    found = performance.compare(
        detail(early_stopping_latency_ms=4e6),
        detail(early_stopping_latency_ms=4.1e6),
        "TEST01",
        "MultiStream",
    )
    assert found is not None and found.passed and (found.unit, found.ratio) == ("ns", 1.025)


@pytest.mark.parametrize(
    ("scenario", "key", "reference", "tolerance"),
    [
        ("SingleStream", "early_stopping_latency_ss", 200_000.0, 0.2),
        ("SingleStream", "early_stopping_latency_ss", 200_001.0, 0.1),
        ("MultiStream", "early_stopping_latency_ms", 1_600_000.0, 0.2),
        ("MultiStream", "early_stopping_latency_ms", 1_600_001.0, 0.1),
    ],
)
def test_low_latencies_have_more_room(
    scenario: str, key: str, reference: float, tolerance: float
) -> None:
    main = detail(**{key: reference})
    found = performance.compare(main, main, "TEST01", scenario)
    assert found is not None and found.tolerance == tolerance


def test_one_key_for_both() -> None:
    """A log without early stopping is compared by the percentile that both have."""
    old = detail(result_90__00_percentile_latency_ns=1e6)
    new = detail(early_stopping_latency_ss=2e6, result_90__00_percentile_latency_ns=1.05e6)
    found = performance.compare(old, new, "TEST05", "SingleStream", 0.05)
    assert found is not None and found.passed
    assert found.key == "result_90.00_percentile_latency_ns"


def test_case_116_server_is_known() -> None:
    main = detail(result_completed_samples_per_sec=100.0)
    found = performance.compare(main, main, "TEST05", "Server")
    assert found is not None and found.passed


def test_no_score_no_comparison() -> None:
    assert performance.compare(detail(), detail(), "TEST01", "Offline") is None
    assert performance.compare(detail(), detail(), "TEST01", "Nowhere") is None
