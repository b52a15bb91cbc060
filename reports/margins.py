"""How near each result is to what bounds it: accuracy gates, latency, TTFT and TPOT limits.

A bound counts only where it applies: a gate where the division has one, a latency limit in runs under
LoadGen's Server scenario and not where token times are limited instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from reports import arrange, figures
from schemas.report import Report, Result, RunFacts

_TOKEN_PERCENTILE = 99.0
_UNDER_SERVER = ("server", "interactive")


@dataclass(frozen=True)
class Bound:
    """One limit on a percentile of a run's times, in ns; ``percentile`` in percent."""

    limit: float
    percentile: float


def percent(fraction: float | None) -> float | None:
    """A percentile in percent: a round states a fraction, logs state percent."""
    return None if fraction is None else round(fraction * 100 if fraction <= 1 else fraction, 4)


def bounds(result: Result, run: RunFacts) -> dict[str, Bound]:
    """The limits that apply to a run's times, by kind: ``latency``, ``ttft``, ``tpot``."""
    limits = result.limits
    scenario = (run.scenario or result.scenario).casefold()
    if limits is None or scenario not in _UNDER_SERVER or run.kind == "accuracy":
        return {}
    found = {}
    if limits.ttft_ms:
        found["ttft"] = Bound(limits.ttft_ms * 1e6, _TOKEN_PERCENTILE)
    if limits.tpot_ms:
        found["tpot"] = Bound(limits.tpot_ms * 1e6, _TOKEN_PERCENTILE)
    if limits.target_latency_ns and not found:
        at = percent(limits.percentile) or _TOKEN_PERCENTILE
        found["latency"] = Bound(float(limits.target_latency_ns), at)
    return found


def times(run: RunFacts, kind: str) -> dict[str, float]:
    """A run's percentiles, minimum, mean and maximum of ``latency``, ``ttft`` or ``tpot``, in ns."""
    return {"latency": run.latency_ns, "ttft": run.ttft_ns, "tpot": run.tpot_ns}[kind]


def at_percentile(values: dict[str, float], wanted: float) -> float | None:
    """The value at a percentile, or None where the run does not state it."""
    for key, value in values.items():
        found = figures.percentile(key)
        if found is not None and math.isclose(found, wanted):
            return value if math.isfinite(value) else None
    return None


@dataclass(frozen=True)
class Margin:
    """One result against one bound.

    ``share``: for times, value / limit (over 1: too slow). For accuracy, the distance to the nearer
    gate as a fraction of the gate (below 0: missed). ``fails``: on the wrong side.
    """

    result: Result
    share: float
    fails: bool
    value: str
    bound: str


@dataclass
class Row:
    """The margins of one benchmark and scenario (times), or of one benchmark and metric (accuracy)."""

    benchmark: str
    what: str
    margins: list[Margin] = field(default_factory=list)

    @property
    def failing(self) -> int:
        """How many results are on the wrong side."""
        return sum(margin.fails for margin in self.margins)


@dataclass(frozen=True)
class Picture:
    """All rows of one kind: ``accuracy``, ``latency``, ``ttft`` or ``tpot``."""

    kind: str
    rows: list[Row]

    def nearest(self, row: Row) -> Margin:
        """The result that is nearest to its bound, or farthest beyond it."""
        return (min if self.kind == "accuracy" else max)(row.margins, key=lambda m: m.share)


def _accuracy(result: Result) -> Iterator[tuple[str, Margin]]:
    for score in result.accuracy:
        distance = arrange.margin(score)
        if not arrange.gated(score) or distance is None or not math.isfinite(distance):
            continue
        # The gate decides, not the sign: a score that equals its gate after rounding has passed.
        fails = score.passed is False
        yield (
            score.metric,
            Margin(
                result=result,
                share=distance,
                fails=fails,
                value=figures.number(score.value),
                bound=arrange.gate_text(score),
            ),
        )


def _times(result: Result) -> Iterator[tuple[str, Margin]]:
    for run in result.runs:
        if run.kind != "performance":
            continue
        for kind, bound in bounds(result, run).items():
            value = at_percentile(times(run, kind), bound.percentile)
            if value is not None and value >= 0:
                yield (
                    kind,
                    Margin(
                        result=result,
                        share=value / bound.limit,
                        fails=value > bound.limit,
                        value=f"{figures.nanoseconds(value)} at p{bound.percentile:g}",
                        bound=f"≤ {figures.nanoseconds(bound.limit)}",
                    ),
                )


def pictures(report: Report) -> list[Picture]:
    """What can be drawn of a report: accuracy, then latency, TTFT and TPOT, each where it has rows."""
    rows: dict[str, dict[tuple[str, str], Row]] = {}

    def add(kind: str, benchmark: str, what: str, margin: Margin) -> None:
        row = rows.setdefault(kind, {}).setdefault((benchmark, what), Row(benchmark, what))
        row.margins.append(margin)

    for result in report.results:
        benchmark = arrange.benchmark_of(result)
        for metric, margin in _accuracy(result):
            add("accuracy", benchmark, metric, margin)
        for kind, margin in _times(result):
            add(kind, benchmark, arrange.scenario_of(result), margin)
    return [
        Picture(kind, [rows[kind][key] for key in sorted(rows[kind])])
        for kind in ("accuracy", "latency", "ttft", "tpot")
        if kind in rows
    ]
