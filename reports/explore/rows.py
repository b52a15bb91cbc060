"""One row a result, over any number of reports: what the explorer and the export show.

Nothing is judged here: verdicts, figures and findings are the reports'. What is added is derived:
canonical names, the number of accelerators, figures per accelerator and per watt, and which results
may be compared at all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from reports import arrange, figures
from schemas.hardware import accelerator, precision, processor
from schemas.report import Report, Result, RunFacts

FINDINGS_PER_ROW = 8


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One result. None: not stated, or not applicable.

    round, report: the round, and the name of the tree it was found in.
    division, category, submitter, system, benchmark, directory, scenario: as in the report; the
    submitter in one spelling for all reports, the scenario in the canonical case.
    status: valid or invalid. availability: available, preview or rdi.
    accelerator: canonical name with form, memory and partition; accelerator_model: without them;
    accelerator_raw: as submitted. accelerators: devices in the whole system; nodes: its nodes.
    processor: canonical name. precision: the number formats of the weights, fewest bits first.
    metric, unit: the published figure. higher_is_better: False for latencies.
    rate: queries, samples or tokens per second; for a latency its inverse. per_accelerator: rate
    divided by accelerators. power, power_unit: the measured figure. per_watt: rate per watt, from
    a power metric in watts; per_joule: queries per joule, from a metric of energy.
    accuracy: the scores as text; accuracy_margin: the smallest distance to a gate, as a fraction.
    ttft_ms, tpot_ms, latency_ms: 99th percentiles that LoadGen measured (latency: the scenario's
    percentile); ttft_limit_ms, tpot_limit_ms, latency_limit_ms: the round's limits.
    comparable: equal for results of one benchmark, scenario, unit, limits and quality target.
    inferred_from: the scenario it was computed from. errors, warnings: findings that concern it.
    path: its folder in the tree. findings: the first few, worst first.
    """

    round: str
    report: str
    division: str
    category: str | None
    submitter: str
    system: str
    benchmark: str
    directory: str
    scenario: str
    status: str
    availability: str | None
    accelerator: str | None
    accelerator_model: str | None
    accelerator_raw: str | None
    vendor: str | None
    accelerators: int | None
    nodes: int | None
    processor: str | None
    precision: str
    framework: str | None
    metric: float | None
    unit: str | None
    higher_is_better: bool
    rate: float | None
    per_accelerator: float | None
    power: float | None
    power_unit: str | None
    per_watt: float | None
    per_joule: float | None
    accuracy: str
    accuracy_margin: float | None
    ttft_ms: float | None
    tpot_ms: float | None
    latency_ms: float | None
    ttft_limit_ms: float | None
    tpot_limit_ms: float | None
    latency_limit_ms: float | None
    comparable: str
    inferred_from: str | None
    errors: int
    warnings: int
    path: str
    findings: list[str]


COLUMNS: tuple[str, ...] = tuple(f.name for f in msgspec.structs.fields(Row))

_JOULES = {"millijoules": 1000.0, "joules": 1.0}


def rows(reports: Sequence[Report]) -> list[Row]:
    """Every result of the reports, in their order."""
    spelled = _spellings(result.submitter for report in reports for result in report.results)
    found = []
    for report in reports:
        attached = arrange.Attached(report)
        for result in report.results:
            findings = [f for f in attached.of(result) if f.waived is None]
            findings.sort(key=lambda f: ("error", "warning", "note").index(f.severity))
            counts = Counter(f.severity for f in findings)
            shown = [f"{f.severity} {f.rule}: {f.message}" for f in findings[:FINDINGS_PER_ROW]]
            if len(findings) > FINDINGS_PER_ROW:
                shown.append(f"{len(findings) - FINDINGS_PER_ROW:,} more in the report")
            found.append(_row(report, result, spelled, counts["error"], counts["warning"], shown))
    return found


def _row(
    report: Report,
    result: Result,
    spelled: dict[str, str],
    errors: int,
    warnings: int,
    findings: list[str],
) -> Row:
    described = result.system_description
    memory = described.get("accelerator_memory_capacity")
    device = accelerator(_text(described.get("accelerator_model_name")) or "", _text(memory))
    host = processor(_text(described.get("host_processor_model_name")) or "")
    nodes = _whole(described.get("number_of_nodes"))
    each = _whole(described.get("accelerators_per_node"))
    count = device.count if device is not None else None
    if count is None and device is not None and nodes and each:
        count = nodes * each
    run = next((r for r in result.runs if r.kind == "performance"), None)
    metric = result.metric
    unit = metric.unit if metric is not None else None
    value = metric.value if metric is not None else None
    latency = figures.latency_unit(unit)
    rate = value
    if latency is not None and value is not None:
        rate = (1000.0 if latency == "ms" else 1.0) / value if value > 0 else None
    watts, joules = _power(result)
    limits = result.limits
    comparing = [
        result.benchmark or result.directory,
        arrange.scenario_of(result),
        "latency" if latency is not None else _unit_kind(unit),
        *(
            f"{g.metric} {g.factor or 1:g} × {g.reference:g}"
            for g in result.accuracy
            if g.reference
        ),
    ]
    bound = None
    if limits is not None:
        comparing += [f"TTFT {limits.ttft_ms:g} ms"] if limits.ttft_ms else []
        comparing += [f"TPOT {limits.tpot_ms:g} ms"] if limits.tpot_ms else []
        if limits.target_latency_ns and not limits.ttft_ms:
            bound = limits.target_latency_ns / 1e6
            comparing.append(f"latency {bound:g} ms")
    return Row(
        round=report.round or "unknown",
        report=report.tree,
        division=result.division,
        category=result.category,
        submitter=spelled[_folded(result.submitter)],
        system=result.system,
        benchmark=result.benchmark or result.directory,
        directory=result.directory,
        scenario=arrange.scenario_of(result),
        status=result.status,
        availability=_availability(described.get("status")),
        accelerator=device.label if device is not None else None,
        accelerator_model=device.name if device is not None else None,
        accelerator_raw=device.raw if device is not None else None,
        vendor=device.vendor if device is not None else None,
        accelerators=count,
        nodes=nodes,
        processor=host.name if host is not None else None,
        precision=precision(result.weight_data_types or ""),
        framework=_text(described.get("framework")),
        metric=value,
        unit=unit,
        higher_is_better=latency is None,
        rate=rate,
        per_accelerator=_ratio(rate, count if device is not None and not device.mixed else None),
        power=result.power.value if result.power is not None else None,
        power_unit=result.power.unit if result.power is not None else None,
        per_watt=_ratio(rate, watts),
        per_joule=_ratio(1.0, joules),
        accuracy=", ".join(f"{g.metric} {figures.number(g.value)}" for g in result.accuracy),
        accuracy_margin=_margin(result),
        ttft_ms=_p99(run.ttft_ns if run is not None else {}),
        tpot_ms=_p99(run.tpot_ns if run is not None else {}),
        latency_ms=_tail(run, limits.percentile if limits is not None else None),
        ttft_limit_ms=limits.ttft_ms if limits is not None else None,
        tpot_limit_ms=limits.tpot_ms if limits is not None else None,
        latency_limit_ms=bound,
        comparable=" · ".join(comparing),
        inferred_from=result.inferred_from,
        errors=errors,
        warnings=warnings,
        path=result.path,
        findings=findings,
    )


def _folded(name: str) -> str:
    return "".join(name.casefold().split())


def _spellings(names: Iterable[str]) -> dict[str, str]:
    """For each submitter the spelling that occurs most often."""
    counts: dict[str, Counter[str]] = {}
    for name in names:
        counts.setdefault(_folded(name), Counter())[name] += 1
    return {
        key: min(spelled, key=lambda name: (-spelled[name], name))
        for key, spelled in counts.items()
    }


def _text(value: object) -> str | None:
    return str(value).strip()[:300] or None if value is not None else None


def _whole(value: object) -> int | None:
    number = figures.as_number(value)
    return int(number) if number is not None and 0 < number < 1e7 else None


def _availability(value: object) -> str | None:
    text = (_text(value) or "").lower()
    if text.startswith(("research", "rdi")):
        return "rdi"
    return text.split()[0] if text else None


def _unit_kind(unit: str | None) -> str:
    """Units of different rounds that count the same thing, by one name."""
    text = (unit or "").lower()
    return {"qps": "queries/s"}.get(text, text)


def _ratio(value: float | None, by: float | None) -> float | None:
    if value is None or not by or not math.isfinite(value):
        return None
    return value / by


def _power(result: Result) -> tuple[float | None, float | None]:
    """Watts and joules a query, of which at most one was measured."""
    if result.power is None or result.power.value <= 0:
        return None, None
    unit = result.power.unit.lower()
    if unit == "watts":
        return result.power.value, None
    return None, result.power.value / _JOULES[unit] if unit in _JOULES else None


def _margin(result: Result) -> float | None:
    """The smallest distance to a gate, as a fraction of it; negative where a gate is missed."""
    margins = [(g.value - g.target) / g.target for g in result.accuracy if g.target]
    margins += [(g.limit - g.value) / g.limit for g in result.accuracy if g.limit]
    return min(margins, default=None)


def _p99(values: dict[str, float]) -> float | None:
    for key, value in values.items():
        if figures.percentile(key) == 99.0:
            return value / 1e6
    return None


def _tail(run: RunFacts | None, percentile: float | None) -> float | None:
    if run is None:
        return None
    wanted = 100 * (percentile or 0.99)
    for key, value in run.latency_ns.items():
        found = figures.percentile(key)
        if found is not None and math.isclose(found, wanted):
            return value / 1e6
    return None
