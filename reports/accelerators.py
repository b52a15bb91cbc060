"""Throughput per accelerator, by accelerator model and weight precision.

Derived here, from the system description; not an MLPerf metric. Latencies are left out: more
accelerators do not divide them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from reports import arrange, figures
from schemas.hardware import accelerator, precision
from schemas.report import Report, Result


@dataclass(frozen=True)
class Each:
    """One valid result's throughput divided by its number of accelerators."""

    value: float
    count: float
    result: Result


@dataclass
class Kind:
    """The results of one accelerator model and weight precision, best first."""

    accelerator: str
    precision: str
    results: list[Each] = field(default_factory=list)

    @property
    def best(self) -> Each:
        """The result with the most throughput per accelerator."""
        return self.results[0]


@dataclass
class Comparison:
    """One benchmark, scenario and division: every kind of accelerator, best first."""

    division: str
    benchmark: str
    scenario: str
    unit: str
    kinds: list[Kind] = field(default_factory=list)

    @property
    def values(self) -> list[float]:
        """Throughput per accelerator of every result."""
        return [each.value for kind in self.kinds for each in kind.results]

    @property
    def systems(self) -> int:
        """How many results are compared."""
        return sum(len(kind.results) for kind in self.kinds)


def comparisons(report: Report) -> list[Comparison]:
    """Every benchmark, scenario and division of which at least two systems can be compared."""
    groups: dict[tuple[str, str, str, str], dict[tuple[str, str], Kind]] = {}
    for result in report.results:
        metric, count = result.metric, arrange.accelerators(result)
        if result.status != "valid" or metric is None or not count or not metric.value > 0:
            continue
        if not metric.unit.endswith("/s") or not math.isfinite(metric.value):
            continue
        group = (
            result.division,
            arrange.benchmark_of(result),
            arrange.scenario_of(result),
            metric.unit,
        )
        model = _model(result)
        if model is None:
            continue
        key = (model, precision(result.weight_data_types or ""))
        kind = groups.setdefault(group, {}).setdefault(key, Kind(*key))
        kind.results.append(Each(metric.value / count, count, result))
    found = []
    for group in sorted(groups):
        kinds = list(groups[group].values())
        for kind in kinds:
            kind.results.sort(key=lambda each: (-each.value, each.result.key))
        kinds.sort(key=lambda kind: (-kind.best.value, kind.accelerator, kind.precision))
        made = Comparison(*group, kinds)
        if made.systems > 1:
            found.append(made)
    return found


def _model(result: Result) -> str | None:
    """The accelerator by its canonical name with form and memory, or as the description has it.

    None where a system has several models: its throughput belongs to none of them.
    """
    described = result.system_description
    device = accelerator(
        figures.shown(described.get("accelerator_model_name")),
        figures.shown(described.get("accelerator_memory_capacity")) or None,
    )
    if device is None:
        return "accelerator not stated"
    return None if device.mixed else device.label
