"""TEST01, TEST04 and TEST05: is the test run as fast as the submitted run?

The numbers are taken from the detail logs, never from prose, so wording changes of the summary
do not matter. Latencies are compared as they are in TEST01 and TEST05; TEST04 asks whether the
same sample over and over is *faster*, so there a latency counts as its reciprocal, per second.

Source: the round's compliance tests TEST01, TEST04 (TEST04-A and TEST04-B before v2.1), TEST05.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from checker.parse.detail import DetailLog

LOW_LATENCY_NS = {"SingleStream": 200_000.0, "MultiStream": 1_600_000.0}
"""References below which timing noise is granted the wider tolerance, ns."""

_KEYS: dict[str, tuple[str, ...]] = {
    "SingleStream": ("early_stopping_latency_ss", "result_90.00_percentile_latency_ns"),
    "MultiStream": (
        "early_stopping_latency_ms",
        "result_99.00_percentile_per_query_latency_ns",
        "result_99.00_percentile_latency_ns",
    ),
    "Server": ("result_completed_samples_per_sec", "result_scheduled_samples_per_sec"),
    "Offline": ("result_samples_per_second",),
}
_LATENCY = ("SingleStream", "MultiStream")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two scores of one kind. ``reference`` and ``test`` are in ns or samples per second.

    ratio: how fast the test run is against the reference, 1.1 is 10 % faster; one_sided: whether
    only a faster test fails.
    """

    test_name: str
    scenario: str
    key: str
    reference: float
    test: float
    tolerance: float
    one_sided: bool

    @property
    def ratio(self) -> float:
        """Test over reference as printed (for latencies a greater value is slower)."""
        return self.test / self.reference if self.reference else math.inf

    @property
    def passed(self) -> bool:
        """Whether the test's score is within the tolerance."""
        if not (math.isfinite(self.reference) and math.isfinite(self.test)):
            return False
        if self.reference <= 0 or self.test <= 0:
            return False
        if self.one_sided:
            return self.test <= self.reference * (1 + self.tolerance)
        return abs(self.test - self.reference) <= self.tolerance * self.reference

    @property
    def unit(self) -> str:
        """The unit of the two scores."""
        return "ns" if self.scenario in _LATENCY and not self.one_sided else "samples/s"


def score(
    detail: DetailLog, scenario: str, keys: tuple[str, ...] | None = None
) -> tuple[str, float] | None:
    """The number a run is compared by, with its key; None when the log has none above 0."""
    for key in keys or _KEYS.get(scenario, ()):
        value = detail.number(key)
        if value is not None and value > 0:
            return key, value
    return None


def compare(
    main: DetailLog,
    test: DetailLog,
    test_name: str,
    scenario: str,
    tolerance: float = 0.10,
    low_latency_tolerance: float | None = 0.20,
) -> Comparison | None:
    """Compare a test's performance run with the submitted one; None when a number is not there.

    For TEST04-A the two logs are those of TEST04-A and TEST04-B. The key is the first of the
    scenario's that both logs have.
    """
    for key in _KEYS.get(scenario, ()):
        first, second = score(main, scenario, (key,)), score(test, scenario, (key,))
        if first is None or second is None:
            continue
        reference, measured = first[1], second[1]
        limit = LOW_LATENCY_NS.get(scenario)
        if low_latency_tolerance is not None and limit is not None and reference <= limit:
            tolerance = low_latency_tolerance
        one_sided = test_name.startswith("TEST04")
        if one_sided and scenario in _LATENCY:
            reference, measured = 1e9 / reference, 1e9 / measured
        return Comparison(test_name, scenario, key, reference, measured, tolerance, one_sided)
    return None
