"""TEST01 for models that do not answer bit by bit the same: their accuracies are compared.

Source: the round's TEST01, the fallback with ``baseline_accuracy.txt`` and
``compliance_accuracy.txt``: the accuracy of the sampled answers of both runs.
"""

from __future__ import annotations

import math

import msgspec

from checker.parse.accuracy_txt import AccuracyText
from schemas.round import Benchmark, Round

_STRICT = 0.1
_DEFAULT = 1.0


class Delta(msgspec.Struct, frozen=True):
    """One accuracy metric over the same samples in both runs. ``percent``: how far apart."""

    metric: str
    baseline: float
    compliance: float
    percent: float
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the two accuracies are near enough; NaN never is."""
        return self.percent <= self.limit


def limit_percent(
    round: Round, test: str, name: str | None, benchmark: Benchmark | None, metric: str
) -> float:
    """The greatest difference allowed, percent: the benchmark's own for the metric, 0.1 for the
    benchmarks of the 99.9% target, else the round's."""
    if benchmark is not None and metric in benchmark.test01_delta_percent:
        return benchmark.test01_delta_percent[metric]
    if name is not None and "99.9" in name:
        return _STRICT
    rules = round.compliance.get(test)
    given = rules.accuracy_delta_percent if rules is not None else None
    return given if given is not None else _DEFAULT


def deltas(
    baseline: AccuracyText,
    compliance: AccuracyText,
    round: Round,
    name: str | None,
    benchmark: Benchmark | None,
    test: str = "TEST01",
) -> list[Delta]:
    """Every accuracy metric of the benchmark that both texts state; [] when there is none."""
    wanted = list(dict.fromkeys(gate.metric for gate in benchmark.accuracy)) if benchmark else []
    names = wanted or sorted(set(baseline.values) & set(compliance.values))
    found = []
    for metric in names:
        first, second = baseline.last(metric), compliance.last(metric)
        if first is None or second is None:
            continue
        limit = limit_percent(round, test, name, benchmark, metric)
        percent = _percent(first.value, second.value)
        found.append(
            Delta(
                metric=metric,
                baseline=first.value,
                compliance=second.value,
                percent=percent,
                limit=limit,
            )
        )
    return found


def _percent(baseline: float, compliance: float) -> float:
    if not (math.isfinite(baseline) and math.isfinite(compliance)):
        return math.nan
    if baseline == compliance:
        return 0.0
    if compliance == 0:
        return math.inf
    return abs(1 - baseline / compliance) * 100
