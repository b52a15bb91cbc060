"""TEST01, TEST04 and TEST05: is the test run as fast as the submitted run?

The numbers are taken from the detail logs, never from prose, so wording changes of the summary
do not matter. Latencies are compared as they are in TEST01 and TEST05; TEST04 asks whether the
same sample over and over is *faster*, so there a latency counts as its reciprocal, per second.

Source: the round's compliance tests TEST01, TEST04 (TEST04-A and TEST04-B before v2.1), TEST05.
"""

from __future__ import annotations

import math

import msgspec

from checker.parse.detail import DetailLog
from checker.wording import number, rounded
from schemas.round import Round

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
_RATE = 1e5
"""No single stream is faster than this, per second; a greater score is a latency in ns."""
_LATENCY = ("SingleStream", "MultiStream")


class Comparison(msgspec.Struct, frozen=True):
    """Two scores of one kind. ``reference`` and ``test`` are in ns or samples per second.

    one_sided: whether only one direction fails: a faster test in TEST04, a slower one in TEST05.
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
        if self.test_name == "TEST05":
            faster = self.test < self.reference if self.is_latency else self.test > self.reference
            return faster or abs(self.test - self.reference) <= self.tolerance * self.reference
        if self.one_sided:
            return self.test <= self.reference * (1 + self.tolerance)
        return abs(self.test - self.reference) <= self.tolerance * self.reference

    @property
    def is_latency(self) -> bool:
        """Whether a greater score is slower."""
        return self.scenario in _LATENCY and not self.test_name.startswith("TEST04")

    @property
    def is_pair(self) -> bool:
        """Whether the reference is TEST04-A and the test TEST04-B."""
        return self.test_name == "TEST04-A"

    @property
    def allowed(self) -> str:
        """What the test allows, as a reader says it."""
        percent = f"{number(self.tolerance * 100)}%"
        if self.test_name == "TEST05":
            return f"at most {percent} slower"
        return f"at most {percent} faster" if self.one_sided else f"within {percent}"

    def describe(self) -> str:
        """Both scores and what is allowed."""
        first, second = (
            ("TEST04-A", "TEST04-B") if self.is_pair else ("the submitted run", self.test_name)
        )
        return (
            f"found {number(self.test)} {self.unit} in {second} and {number(self.reference)} "
            f"{self.unit} in {first} ({self.key}): {number(rounded(self.ratio))} times; expected {self.allowed}"
        )

    @property
    def unit(self) -> str:
        """The unit of the two scores."""
        return "ns" if self.is_latency else "samples/s"


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
        cached = test_name.startswith("TEST04")
        one_sided = cached or test_name == "TEST05"
        if cached and scenario in _LATENCY:
            reference, measured = 1e9 / reference, 1e9 / measured
        return Comparison(
            test_name=test_name,
            scenario=scenario,
            key=key,
            reference=reference,
            test=measured,
            tolerance=tolerance,
            one_sided=one_sided,
        )
    return None


def of_test(
    round: Round,
    test_name: str,
    scenario: str | None,
    main: DetailLog | None,
    tested: DetailLog | None,
) -> Comparison | None:
    """`compare` with the round's tolerances; None also where a log is not there."""
    rules = round.compliance.get(test_name)
    if rules is None or not main or not tested or scenario is None:
        return None
    tolerance = 0.10 if rules.performance_tolerance is None else rules.performance_tolerance
    return compare(main, tested, test_name, scenario, tolerance, rules.low_latency_tolerance)


def of_scores(
    round: Round, test_name: str, scenario: str, reference: float, test: float
) -> Comparison | None:
    """The scores that a text states, with the round's tolerances; None: the round has no such test.

    TEST04 states latencies per second, as they are compared; before v2.1 it stated them in ns.
    """
    rules = round.compliance.get(test_name)
    if rules is None:
        return None
    tolerance = 0.10 if rules.performance_tolerance is None else rules.performance_tolerance
    cached = test_name.startswith("TEST04")
    limit = LOW_LATENCY_NS.get(scenario)
    low = rules.low_latency_tolerance
    if cached and scenario in _LATENCY and min(reference, test) > _RATE:
        reference, test = 1e9 / reference, 1e9 / test
    latency = 1e9 / reference if cached and reference > 0 else reference
    if low is not None and limit is not None and latency <= limit:
        tolerance = low
    one_sided = cached or test_name == "TEST05"
    return Comparison(
        test_name=test_name,
        scenario=scenario,
        key="stated",
        reference=reference,
        test=test,
        tolerance=tolerance,
        one_sided=one_sided,
    )
