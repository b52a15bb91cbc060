"""The numbers a round publishes for a result: performance, accuracy and power."""

from __future__ import annotations

import functools
import math

from checker.model import AccuracyRun, PerformanceRun, Result, Run
from checker.parse.accuracy_txt import AccuracyText, Reported
from checker.parse.detail import DetailLog
from schemas.report import AccuracyScore, Limits, Metric, RunFacts
from schemas.round import Gate, Inference, Round, Scenario
from schemas.units import convert, quantity


def inference_for(result: Result) -> Inference | None:
    """The round's formula for a result whose log is of another scenario; None when it has none."""
    source = result.inferred_from
    if source is None:
        return None
    for formula in result.round.inference:
        if formula.source == source and formula.target == result.scenario:
            return formula
    return None


def scenario_rules(result: Result, scenario: str | None) -> Scenario | None:
    """A benchmark's limits in a scenario, of which only metric and units may be used.

    Where the round does not know an open model (or a run folder's benchmark), or does not list the
    scenario for it, those of the first benchmark that has the scenario without token limits.
    """
    rules = result.rules_of(scenario)
    if rules is not None or (result.benchmark is not None and result.division != "open"):
        return rules
    if scenario is None or (result.division != "open" and result.scope != "run"):
        return None
    for benchmark in result.round.benchmarks.values():
        rules = benchmark.scenarios.get(scenario)
        if rules is not None and not rules.token_latencies:
            return rules
    return None


def metric_of(result: Result) -> Metric | None:
    """The performance metric as the round publishes it; None when the log does not hold it.

    NaN and infinity are given as they stand: rules judge them.
    """
    if result.endpoints is not None:
        return _endpoints_metric(result)
    run = _published_run(result)
    if run is None or run.detail is None:
        return None
    formula = inference_for(result)
    rules = scenario_rules(result, result.scenario)
    if formula is not None:
        value = run.detail.number(formula.key)
        if value is None:
            return None
        if formula.inverse:
            value = formula.scale / value if value else math.inf
        else:
            value = scaled(value, formula.scale)
        unit = rules.metric.unit if rules is not None else ""
        return Metric(formula.key, value, unit)
    if result.inferred_from is not None:
        # A log of another scenario with no formula: its own metric, which a rule then refuses.
        rules = scenario_rules(result, result.inferred_from)
    if rules is None:
        return None
    value = run.detail.number(rules.metric.key)
    if value is None:
        return None
    return Metric(rules.metric.key, scaled(value, rules.metric.scale), rules.metric.unit)


def scaled(value: float, scale: float) -> float:
    """``value * scale``; for a scale such as 1e-6 by division, as the rounds publish it (the
    product differs from the quotient in the last digit)."""
    inverse = 1 / scale if scale else 0.0
    if 0 < scale < 1 and abs(inverse - round(inverse)) < 1e-6 * inverse:
        return value / round(inverse)
    return value * scale


def _published_run(result: Result) -> PerformanceRun | None:
    """The run whose number is published: the last of several Server runs (v0.5, v0.7)."""
    return result.runs[-1] if result.runs else None


def _endpoints_metric(result: Result) -> Metric | None:
    """The number that the round publishes of an endpoints result.

    Latency scenarios: the mean latency is published, though the rules' text asks for a
    percentile; a rule says so where it matters.
    """
    endpoints = result.endpoints
    rules = result.rules
    if endpoints is None or rules is None:
        return None
    key, unit = rules.metric.key, rules.metric.unit
    if result.scenario in ("SingleStream", "MultiStream"):
        value = endpoints.number("latency", "avg")
        return (
            None
            if value is None
            else Metric("latency.avg", scaled(value, rules.metric.scale), unit)
        )
    name = "tps" if "token" in key else "qps"
    value = endpoints.number(name)
    return None if value is None else Metric(name, value, unit)


def reported(text: AccuracyText, metric: str, round: Round) -> Reported | None:
    """The value that counts where accuracy.txt prints one metric several times.

    Rounds say ``first``, or ``last`` (the last one before both hash and value were known).
    """
    found = text.values.get(metric)
    if not found:
        return None
    if round.accuracy_value == "first":
        return found[0]
    hash_line = text.hashes[0][1] if text.hashes else found[-1].line
    stop = max(hash_line, found[0].line)
    return [r for r in found if r.line <= stop][-1]


def score_unit(result: Result, metric: str) -> str | None:
    """The unit in which a result's accuracy.txt or accuracy_results.json states a metric."""
    if result.endpoints is not None and metric not in _COUNTED:
        benchmark = result.benchmark
        if benchmark is not None and benchmark.endpoints_unit is not None:
            return benchmark.endpoints_unit
        return next((g.unit for g in (*result.gates, *result.limits) if g.metric == metric), None)
    return result.round.accuracy_units.get(metric)


_COUNTED = ("TOKENS_PER_SAMPLE", "GEN_LEN")


# What several rules ask of one result is computed once.
@functools.lru_cache(maxsize=1)
def bounds_of(result: Result) -> tuple[dict[str, Gate], dict[str, Gate]]:
    """The lower and the upper bounds by metric, each in the unit of the score it is held against."""

    def stated(gates: list[Gate]) -> dict[str, Gate]:
        return {
            gate.metric: gate.in_unit(score_unit(result, gate.metric) or gate.unit)
            for gate in gates
        }

    return stated(result.gates), stated(result.limits)


@functools.lru_cache(maxsize=1)
def accuracy_of(result: Result) -> tuple[AccuracyScore, ...]:
    """Every accuracy metric of the benchmark that accuracy.txt (or the endpoints) reports.

    A score is given as it is stated; its reference and bounds are in the score's unit.
    """
    gates, limits = bounds_of(result)
    order = result.benchmark.accuracy_order if result.benchmark is not None else []
    printed: dict[str, str] = {}
    gated = result.division != "open"
    scores = []
    if result.endpoints is not None:
        values = endpoints_scores(result)
    else:
        run = result.accuracy
        if run is None or run.text is None:
            return ()
        names = list(dict.fromkeys([*order, *gates, *limits]))
        if result.benchmark is None:
            names = sorted(run.text.values)
        values = {}
        for name in names:
            value = reported(run.text, name, result.round)
            if value is not None:
                values[name] = value.value
                printed[name] = value.text
    for name, number in values.items():
        gate, limit = gates.get(name), limits.get(name)
        passed = passes(number, gate, limit) if gated and (gate or limit) else None
        scores.append(
            AccuracyScore(
                metric=name,
                value=number,
                target=gate.bound if gate else None,
                limit=limit.bound if limit else None,
                reference=gate.reference if gate else None,
                factor=gate.factor if gate else None,
                passed=passed,
                printed=printed.get(name),
                unit=score_unit(result, name),
            )
        )
    return tuple(scores)


def passes(value: float, gate: Gate | None, limit: Gate | None) -> bool:
    """Whether a metric is inside its bounds, which are in its unit. NaN and infinity never are."""
    if not math.isfinite(value):
        return False
    if gate is not None and value < gate.bound:
        return False
    return limit is None or value <= limit.bound


def endpoints_scores(result: Result) -> dict[str, float]:
    """accuracy_results.json's scores under the benchmark's metric names."""
    endpoints = result.endpoints
    if endpoints is None or endpoints.accuracy is None:
        return {}
    names = [gate.metric for gate in result.gates] or ["score"]
    entries = endpoints.accuracy.fields.get("accuracy_scores")
    found: dict[str, float] = {}
    if isinstance(entries, dict):
        entries = list(entries.values())
    for entry in entries if isinstance(entries, list) else []:
        score = entry.get("score") if isinstance(entry, dict) else None
        if isinstance(score, dict):
            lowered = {str(k).lower(): v for k, v in score.items()}
            for name in names:
                value = lowered.get(name.lower())
                if isinstance(value, int | float) and not isinstance(value, bool):
                    found.setdefault(name, float(value))
        elif isinstance(score, int | float) and not isinstance(score, bool):
            found.setdefault(names[0], float(score))
    if not found:
        value = endpoints.accuracy.fields.get("average_accuracy")
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[names[0]] = float(value)
    if "TOKENS_PER_SAMPLE" in names:
        # The performance report counts output tokens; accuracy_results.json does not.
        mean = endpoints.number("output_sequence_lengths", "avg")
        if mean is not None:
            found["TOKENS_PER_SAMPLE"] = mean
    return found


def power_of(result: Result) -> Metric | None:
    """The power metric: average watts, or energy per query where the round's unit says so."""
    run = result.performance
    if run is None or run.power is None or run.detail is None or result.power_folder is None:
        return None
    average = run.power.average_watts
    rules = scenario_rules(result, result.scenario)
    unit = rules.power_unit if rules is not None else None
    if average is None or unit is None:
        return None
    if quantity(unit) == "power":
        return Metric("average_watts", average, unit)
    begin, end = run.power.begin, run.power.end
    count = _energy_divisor(result, run.detail)
    if begin is None or end is None or not count:
        return None
    joules = average * (end - begin) / count
    if result.inferred_from == "SingleStream" and result.scenario == "MultiStream":
        joules *= 8
    return Metric("energy_per_query", convert(joules, "J", unit), unit)


def _energy_divisor(result: Result, detail: DetailLog) -> float | None:
    """By how many queries, or samples, a round divides the energy; None where the log lacks it.

    Up to v1.1 LoadGen did not log how many queries it had issued: a single stream's count is its
    rate times the measured time, as those rounds published it.
    """
    if result.round.power.energy_per == "query":
        return detail.number("result_query_count")
    if result.scenario == "MultiStream":
        queries = detail.number("generated_query_count")
        samples = detail.number("generated_samples_per_query")
        return queries * samples if queries is not None and samples is not None else None
    rate, run = detail.number("result_qps_with_loadgen_overhead"), result.performance
    power = run.power if run is not None else None
    if rate is None or power is None or power.begin is None or power.end is None:
        return None
    return rate * (power.end - power.begin)


def limits_of(result: Result) -> Limits | None:
    """The round's limits for a reader of the report."""
    rules = result.rules
    if rules is None:
        return None
    return Limits(
        target_latency_ns=rules.target_latency_ns,
        ttft_ms=rules.ttft_ms,
        tpot_ms=rules.tpot_ms,
        min_duration_ms=rules.min_duration_ms,
        min_query_count=rules.min_query_count,
        min_samples_per_query=rules.min_samples_per_query,
        percentile=rules.percentile,
    )


_PERCENTS = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
_SETTINGS = (
    "effective_target_qps", "effective_min_duration_ms", "effective_min_query_count",
    "effective_samples_per_query", "effective_target_latency_ns", "requested_server_ttft_latency",
    "requested_server_tpot_latency", "effective_performance_sample_count",
    "effective_sample_concatenate_permutation",
)  # fmt: skip


def facts_of(result: Result) -> list[RunFacts]:
    """What a reader wants to see of each run of a result."""
    runs: list[PerformanceRun | AccuracyRun] = [*result.runs]
    if result.accuracy is not None:
        runs.append(result.accuracy)
    facts = []
    for run in runs:
        detail = run.detail
        if detail is None or not detail:
            continue

        latency = _numbers(detail, "result_{}_percentile_per_query_latency_ns") or _numbers(
            detail, "result_{}_percentile_latency_ns"
        )
        facts.append(
            RunFacts(
                kind=run.kind,
                path=run.path,
                started=detail.text("test_datetime"),
                duration_s=_seconds(run),
                loadgen_version=run.loadgen_version,
                scenario=run.scenario,
                mode=run.mode,
                validity=detail.text("result_validity"),
                query_count=detail.integer("result_query_count"),
                latency_ns=latency,
                ttft_ns=_numbers(detail, "result_first_token_{}_percentile_latency_ns"),
                tpot_ns=_numbers(detail, "result_time_per_output_token_{}_percentile_ns"),
                settings={
                    k.removeprefix("effective_"): detail.get(k) for k in _SETTINGS if k in detail
                },
            )
        )
    for test in result.tests.values():
        run_ = test.run
        if run_ is None or run_.detail is None or not run_.detail:
            continue
        facts.append(
            RunFacts(
                kind=test.name,
                path=run_.path,
                started=run_.detail.text("test_datetime"),
                duration_s=_seconds(run_),
                loadgen_version=run_.loadgen_version,
                scenario=run_.scenario,
                mode=run_.mode,
                validity=run_.detail.text("result_validity"),
                query_count=run_.detail.integer("result_query_count"),
            )
        )
    return facts


def _numbers(detail: DetailLog, template: str) -> dict[str, float]:
    """Every finite value of a family of percentiles, by percent."""
    values = {percent: detail.number(key) for percent, key in _keys(template) if key in detail}
    return {p: v for p, v in values.items() if v is not None and math.isfinite(v)}


@functools.cache
def _keys(template: str) -> tuple[tuple[str, str], ...]:
    return tuple((percent, template.format(percent)) for percent in _PERCENTS)


def _seconds(run: Run) -> float | None:
    lasted = run.lasted
    return None if lasted is None else round(lasted, 3)
