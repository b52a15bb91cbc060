"""What a run's logs say of its latencies, as charts: percentiles, and how it went over time."""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import UnsetType

from reports import arrange, figures, margins
from reports.charts import Axis, Bound, Chart, Series, linear, log, logarithmic
from reports.pictures import percentiles
from schemas.report import Result, RunFacts
from schemas.timeline import Interval, Timeline

_KINDS = {
    "latency": "Query latency",
    "ttft": "Time to first token",
    "tpot": "Time per output token",
}
_WIDE = 20  # percentiles so far apart are drawn on a logarithmic axis
_FAR = 4  # times the longest latency: a limit above that is stated, not drawn
_LENGTHS = ((1, "s"), (60, "min"), (3600, "h"))


def charts_of(result: Result, run: RunFacts, timeline: Timeline | None = None) -> list[Chart]:
    """Percentiles of each kind of latency that the log has; then the run over time, where it is known.

    The limit and its percentile are drawn where they apply, else the percentile that a stream scenario
    is ranked by.
    """
    if timeline is None and not isinstance(run.timeline, UnsetType):
        timeline = run.timeline
    scenario = run.scenario or result.scenario
    name = f"{arrange.benchmark_of(result)}, {arrange.scenario_of(result)}"
    bounds = margins.bounds(result, run)
    charts = []
    for kind, title in _KINDS.items():
        values = percentiles(margins.times(run, kind))
        if values:
            ranked = _ranked(result, scenario) if kind == "latency" else None
            charts.append(
                _percentiles(f"{name}: {title.lower()}", title, values, bounds.get(kind), ranked)
            )
    if timeline is not None and timeline.intervals:
        of = "ttft" if timeline.of == "first tokens" else "latency"
        charts += _over_time(name, timeline, bounds.get(of))
    return charts


def _ranked(result: Result, scenario: str) -> float | None:
    """The percentile that decides in a stream scenario, in percent."""
    if result.limits is None or not scenario.casefold().endswith("stream"):
        return None
    return margins.percent(result.limits.percentile)


def _nines(percentile: float) -> float:
    """A percentile's place: as far from 90 to 99 as from 99 to 99.9."""
    return -math.log10(max(1 - percentile / 100, 1e-6))


def _percentiles(
    title: str,
    what: str,
    values: list[tuple[float, float]],
    bound: margins.Bound | None,
    ranked: float | None,
) -> Chart:
    scale, unit = _unit(max(value for _, value in values) / 1e9)
    shown = [(p, value / 1e9 * scale) for p, value in values]
    limit = bound.limit / 1e9 * scale if bound is not None else None
    judged = bound.percentile if bound is not None else ranked
    heights = [y for _, y in shown] + ([limit] if limit is not None else [])
    least = min((y for y in heights if y > 0), default=1.0)
    place: Callable[[float], float] = float
    if max(heights) > _WIDE * least:
        y, place = logarithmic(f"{what} ({unit}, logarithmic)", heights, figures.number), log
    else:
        y = linear(f"{what} ({unit})", heights, figures.number)
    bounds = []
    if judged is not None:
        bounds.append(Bound(label=f"p{judged:g}", x=_nines(judged)))
    if limit is not None:
        bounds.append(Bound(label=f"limit {_number(limit)} {unit}", y=place(limit)))
    marks = sorted({p for p, _ in shown} | ({judged} if judged is not None else set()))
    words = ", ".join(f"p{p:g} {_number(value)} {unit}" for p, value in shown)
    return Chart(
        title=title,
        x=Axis(
            label="percentile",
            low=_nines(marks[0]) - 0.08,
            high=_nines(marks[-1]) + 0.12,
            ticks=tuple((_nines(p), f"{p:g}") for p in marks),
        ),
        y=y,
        series=(
            Series(name=what, points=tuple((_nines(p), place(v)) for p, v in shown), dots=True),
        ),
        bounds=tuple(bounds),
        words=f"{title}: {words}{_limit_words(limit, unit, judged)}.",
    )


def _limit_words(limit: float | None, unit: str, judged: float | None) -> str:
    return "" if limit is None else f"; the limit is {_number(limit)} {unit} at p{judged:g}"


def _number(value: float) -> str:
    return figures.number(float(f"{value:.4g}"))


def _unit(seconds: float) -> tuple[float, str]:
    """What a time in seconds is multiplied with, and the unit that this gives."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size:
            return 1 / size, unit
    return 1e9, "ns"


def _over_time(name: str, timeline: Timeline, bound: margins.Bound | None) -> list[Chart]:
    intervals = timeline.intervals
    end = intervals[-1].end_s
    size, unit = next((s, u) for s, u in reversed(_LENGTHS) if end >= 3 * s or s == 1)
    x = linear(f"time ({unit})", [0.0, end / size], figures.number)
    return [
        *_latency_over_time(name, timeline, bound, x, size),
        _rate_over_time(name, intervals, x, size),
    ]


def _latency_over_time(
    name: str, timeline: Timeline, bound: margins.Bound | None, x: Axis, size: float
) -> list[Chart]:
    known: dict[str, list[tuple[float, float]]] = {}
    for each in timeline.intervals:
        for label, value in (("mean", each.mean_s), ("median", each.median_s), ("p99", each.p99_s)):
            if value is not None:
                known.setdefault(label, []).append((each.end_s / size, value))
    if not known:
        return []
    limit = bound.limit / 1e9 if bound is not None else None
    heights = [value for points in known.values() for _, value in points]
    scale, unit = _unit(max(heights))
    shown = [value * scale for value in heights]
    what = "time to first token" if timeline.of == "first tokens" else "latency"
    label = f"{what} ({unit})"
    if limit is not None and limit > _FAR * max(heights):
        # Drawn, it would leave nothing to be seen of the latencies.
        label, limit = f"{what} ({unit}; limit {_number(limit * scale)})", None
    elif limit is not None:
        shown.append(limit * scale)
    return [
        Chart(
            title=f"{name}: {what} over time",
            x=x,
            y=linear(label, shown, figures.number),
            series=tuple(
                Series(name=label, points=tuple((at, value * scale) for at, value in points))
                for label, points in known.items()
            ),
            bounds=(Bound(label=f"limit {_number(limit * scale)} {unit}", y=limit * scale),)
            if limit is not None
            else (),
            words=f"{name}: {what} over time, between {_number(min(heights) * scale)} and "
            f"{_number(max(heights) * scale)} {unit}.",
        )
    ]


def _rate_over_time(name: str, intervals: list[Interval], x: Axis, size: float) -> Chart:
    before, points = 0.0, []
    for each in intervals:
        if each.end_s > before:
            points.append((each.end_s / size, each.samples / (each.end_s - before)))
        before = each.end_s
    rates = [rate for _, rate in points]
    return Chart(
        title=f"{name}: samples answered over time",
        x=x,
        y=linear("samples/s", rates, figures.number),
        series=(Series(name="samples/s", points=tuple(points)),),
        words=f"{name}: samples answered over time, between {_number(min(rates, default=0.0))} and "
        f"{_number(max(rates, default=0.0))} a second.",
    )
