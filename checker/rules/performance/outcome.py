"""Family P: what happened in the performance run: its end, its errors, its latencies, its result."""

from __future__ import annotations

import math
import re

from checker import loadgen_keys as keys
from checker import metrics
from checker.early_stopping import minimum_queries
from checker.model import AccuracyRun, PerformanceRun, RangingRun, Result
from checker.parse.detail import DetailLog
from checker.rule import ERROR, WARNING, NotJudged, Problem, Problems, given, rule
from checker.rules.comparing import at, compare_setting, loadgen_errors
from checker.wording import quantity, shown
from schemas.round import Round, Scenario

_ESTIMATED = {"SingleStream": 0.9, "MultiStream": 0.99}
"""The percentile that early stopping estimates."""
_TOKEN_COUNT_FIX = (
    "report every first token (FirstTokenComplete) once, and every answer's number of output tokens "
    "(n_tokens of QuerySampleResponse, 2 or more), then run again"
)


@rule("P102", ERROR)
def run_valid(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """LoadGen called the run VALID.

    Why: an INVALID run missed its duration, its query count or its latency bound.
    Fix: follow the recommendations at the end of mlperf_log_summary.txt and run again.
    Source: inference_rules.adoc, "LoadGen": a run must be valid to be submitted.
    """
    validity = detail.text(keys.VALIDITY)
    if validity is None:
        text = f"{keys.VALIDITY} is absent; expected VALID: the run did not finish"
        yield at(run, keys.VALIDITY, text, None, "VALID")
    elif validity != "VALID":
        hints = run.summary.recommendations if run.summary is not None else []
        why = detail.text(keys.INVALID_REASON) or "; ".join(hints)
        text = f"{keys.VALIDITY} is {validity}; expected VALID" + (f" ({why})" if why else "")
        yield at(run, keys.VALIDITY, text, validity, "VALID")


@rule("P103", ERROR, cases={"ranging": WARNING})
def no_loadgen_errors(
    run: PerformanceRun | AccuracyRun | RangingRun, round: Round, detail: DetailLog
) -> Problems:
    """LoadGen recorded no error in the run.

    Why: an error record means that LoadGen could not run the test as it was set up.
    Fix: read the error's text in the log, fix its cause and run again.
    Source: inference_rules.adoc, "LoadGen"; the log's records with is_error.
    """
    groups: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for key, text, line in loadgen_errors(detail, round):
        groups.setdefault((key, re.sub(r"\d+", "#", text)), []).append((text, line))
    # Only the first records are kept; the true number is counted as they are read.
    unseen = detail.error_count - len(detail.errors)
    for (key, _), found in groups.items():
        count = len(found) + (unseen if len(groups) == 1 else 0)
        text, line = found[0]
        tokens = "token" in text.lower()
        times = f"{quantity(count, 'error record')}, the first: " if count > 1 else ""
        yield Problem(
            f"LoadGen recorded an error in the {run.kind} run: {times}{key}: {text[:300]}",
            found=text[:300],
            required="no error record",
            path=run.detail_path,
            line=line,
            fix=_TOKEN_COUNT_FIX if tokens else None,
            case="ranging" if isinstance(run, RangingRun) else None,
            count=count,
        )


@rule("P105", ERROR)
def query_count_reached(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """The run issued as many queries as it was set to.

    Why: a setting shows what was intended, only the count shows what happened.
    Fix: run again without max_query_count and let the run end by itself.
    Source: inference_rules.adoc, "Scenarios"; LoadGen's result_query_count and result_min_queries_met.
    """
    met = detail.boolean(keys.MIN_QUERIES_MET)
    if met is False:
        text = f"{keys.MIN_QUERIES_MET} is false; expected true: too few queries were issued"
        yield at(run, keys.MIN_QUERIES_MET, text, False, True)
    count, least = detail.integer(keys.QUERY_COUNT), detail.integer(keys.MIN_QUERY_COUNT)
    if count is None or least is None:
        return
    if run.scenario == "Offline":
        # Offline issues one query that holds all samples.
        samples = detail.integer(keys.MIN_SAMPLE_COUNT) or least
        per_query = detail.integer(keys.GENERATED_SAMPLES_PER_QUERY) or 1
        short = max(count, count * per_query) < min(least, samples)
    else:
        short = count < least and met is not True
    if short:
        text = (
            f"{keys.QUERY_COUNT} is {quantity(count, 'query')}; expected at least {quantity(least)}, "
            "as the run was set to"
        )
        yield at(run, keys.QUERY_COUNT, text, count, least)


@rule("P107", ERROR)
def duration_reached(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """The run lasted as long as it was set to.

    Why: a setting shows what was intended, only the clock shows what happened.
    Fix: raise the expected load (target_qps or the latency hint) so that LoadGen generates enough
        queries, and run again.
    Source: inference_rules.adoc, "Scenarios"; LoadGen's result_min_duration_met and power interval.
    """
    if detail.boolean(keys.MIN_DURATION_MET) is False:
        text = f"{keys.MIN_DURATION_MET} is false; expected true: the run was too short"
        yield at(run, keys.MIN_DURATION_MET, text, False, True)
    least, lasted = detail.number(keys.MIN_DURATION_MS), run.lasted
    if least is None or lasted is None or not math.isfinite(least):
        return
    # Server ends when its last query was scheduled; one query's latency and the clock's
    # milliseconds are the room that a run needs.
    slack = 50.0 + 0.002 * least
    if run.scenario == "Server":
        slack += (detail.number(keys.LATENCY.maximum) or 0) / 1e6 + least * 0.02
    if lasted * 1000 + slack < least:
        text = (
            f"the run lasted {quantity(lasted, 's')} ({keys.POWER_BEGIN} to {keys.POWER_END}); "
            f"expected at least {quantity(least / 1000, 's')}, as it was set to"
        )
        yield at(run, keys.POWER_END, text, lasted, least / 1000)


@rule("P114", ERROR, needs="limits.early_stopping")
def early_stopping(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """LoadGen's early-stopping criterion was met.

    Why: it replaces a fixed number of queries: the tail is known at 99% confidence.
    Fix: run longer, or lower the load so that fewer queries miss the latency bound.
    Source: inference_rules.adoc, "Early stopping".
    """
    met = detail.boolean(keys.EARLY_STOPPING_MET)
    if met is None:
        text = f"{keys.EARLY_STOPPING_MET} is absent; expected true"
        yield at(run, keys.EARLY_STOPPING_MET, text, None, True)
    elif not met:
        reasons = [
            detail.text(key) or ""
            for key in (
                keys.EARLY_STOPPING_RESULT,
                keys.EARLY_STOPPING_TTFT,
                keys.EARLY_STOPPING_TPOT,
            )
        ]
        why = " ".join(" ".join(reasons).split())[:300]
        text = f"{keys.EARLY_STOPPING_MET} is false; expected true" + (f" ({why})" if why else "")
        yield at(run, keys.EARLY_STOPPING_MET, text, False, True)


@rule("P115", ERROR, needs={"applies": "limits.early_stopping"})
def early_stopping_minimum(
    run: PerformanceRun, round: Round, detail: DetailLog, limits: Scenario, applies: bool
) -> Problems:
    """The run processed the fewest queries from which early stopping can estimate its percentile.

    Why: below 64 (90th percentile) or 662 queries (99th) there is no estimate at 99% confidence.
    Fix: run longer.
    Source: inference_rules.adoc, "Early stopping": the table of query counts.
    """
    estimated = given(_ESTIMATED.get(run.scenario or ""))
    count = given(detail.integer(keys.QUERY_COUNT))
    if run.scenario == "SingleStream" and (limits.percentile or 0) > estimated:
        raise NotJudged
    needed = minimum_queries(estimated)
    if count < needed:
        text = (
            f"{keys.QUERY_COUNT} is {quantity(count, 'query')}; expected at least {needed} for early "
            f"stopping in {run.scenario}"
        )
        yield at(run, keys.QUERY_COUNT, text, count, needed)


@rule(
    "P117",
    ERROR,
    needs={"most": "limits.target_latency_ns"},
    only={"scenario": "Server", "limits.token_latencies": False},
)
def latency_within_limit(
    run: PerformanceRun, round: Round, detail: DetailLog, limits: Scenario, most: int
) -> Problems:
    """The measured tail latency is within the round's bound.

    Why: the Server result is the load at which the tail stays below the bound.
    Fix: lower target_qps and run again.
    Source: inference_rules.adoc, "Benchmarks": server latency constraint at the 99th percentile.
    """
    if not most:
        raise NotJudged
    percent = (limits.percentile or 0.99) * 100
    yield from compare_setting(
        run,
        detail,
        keys.LATENCY.at(percent),
        most=most,
        unit="ms",
        scale=1e6,
        what=f"the {percent:g}th percentile latency",
    )


def _token_limit(
    run: PerformanceRun, detail: DetailLog, limit_ms: float, setting: str, family: keys.Latencies
) -> Problems:
    if run.scenario != "Server":
        raise NotJudged
    most = limit_ms * 1e6
    folder = run.result.scenario
    if setting in detail:
        yield from compare_setting(
            run,
            detail,
            setting,
            most=most,
            unit="ms",
            scale=1e6,
            what=f"the {family.name} bound of {folder}",
            fix="use the round's LoadGen with the benchmark's own name (for Interactive the name "
            "ends in -interactive) and run again",
        )
    yield from compare_setting(
        run,
        detail,
        family.at(99),
        most=most,
        unit="ms",
        scale=1e6,
        what=f"the 99th percentile {family.name} of {folder}",
        fix="lower target_qps and run again",
    )


@rule("P119", ERROR, needs={"most": "limits.ttft_ms"})
def time_to_first_token(
    run: PerformanceRun, round: Round, detail: DetailLog, most: float
) -> Problems:
    """Time to first token, as set and as measured, is within the limit of the folder's scenario.

    Why: Interactive results have tighter limits than Server results; LoadGen calls both Server.
    Fix: lower target_qps and run again.
    Source: inference_rules.adoc, "Benchmarks": TTFT at the 99th percentile.
    """
    yield from _token_limit(run, detail, most, keys.TTFT_LIMIT, keys.FIRST_TOKEN)


@rule("P120", ERROR, needs={"most": "limits.tpot_ms"})
def time_per_output_token(
    run: PerformanceRun, round: Round, detail: DetailLog, most: float
) -> Problems:
    """Time per output token, as set and as measured, is within the limit of the folder's scenario.

    Why: Interactive results have tighter limits than Server results; LoadGen calls both Server.
    Fix: lower target_qps and run again.
    Source: inference_rules.adoc, "Benchmarks": TPOT at the 99th percentile.
    """
    yield from _token_limit(run, detail, most, keys.TPOT_LIMIT, keys.PER_TOKEN)


_NEVER = -(2.0**62)
"""LoadGen begins with its lowest number, which stays where a first token was never reported."""


@rule("P144", ERROR)
def token_latencies_positive(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """No time to first token is zero or negative, and no time per output token is negative.

    Why: LoadGen computes such times when a first token was not reported or a token count is 0 or 1;
        it calls the run VALID all the same, and a negative time passes every limit.
    Fix: report every first token (FirstTokenComplete) once, and every answer's number of output
        tokens (n_tokens of QuerySampleResponse), then run again.
    Source: LoadGen results.cc: TTFT is counted from the scheduled time; TPOT is (latency - TTFT) /
        (n_tokens - 1).
    """
    for family, least in ((keys.FIRST_TOKEN, 1), (keys.PER_TOKEN, 0)):
        figures = (family.minimum, family.mean, *family.percentiles, family.maximum)
        values = {key: detail.number(key) for key in figures if key in detail}
        low = {key: value for key, value in values.items() if value is not None and value < least}
        if low:
            key, value = next(iter(low.items()))
            shown_value = "not a time" if value <= _NEVER else quantity(value, "ns")
            expected = "more than 0 ns" if least else "0 ns or more"
            text = f"{key} ({family.name}) is {shown_value}; expected {expected}"
            yield at(run, key, text, value, f">= {least}", count=len(low))
            return  # a time per output token follows from the first token's


@rule("P122", ERROR)
def metric_sound(result: Result, round: Round) -> Problems:
    """The published number is there, finite and greater than zero.

    Why: a result without a number, or with NaN, infinity, zero or less, is not a measurement.
    Fix: run again; use the detail log as LoadGen wrote it.
    Source: inference_rules.adoc, "Scenarios": metric of each scenario.
    """
    run, endpoints = result.performance, result.endpoints
    if (run is None or not run.detail) and (endpoints is None or endpoints.summary is None):
        # The missing document or log is a finding of its own.
        raise NotJudged
    rules = given(metrics.scenario_rules(result, result.scenario))
    path = run.detail_path if run is not None else None
    if endpoints is not None and endpoints.summary is not None:
        path = endpoints.summary.path
    metric = metrics.metric_of(result)
    if metric is None:
        key = rules.metric.key
        found = run.detail.get(key) if run is not None and run.detail is not None else None
        yield Problem(
            f"the result ({key}) is {shown(found)}; expected a number above 0", None, key, path
        )
    elif not math.isfinite(metric.value) or metric.value <= 0:
        line = run.detail.line(metric.name) if run is not None and run.detail is not None else None
        text = (
            f"the result ({metric.name}) is {quantity(metric.value)} {metric.unit}; expected a finite "
            "number above 0"
        )
        yield Problem(text, found=metric.value, required="> 0", path=path, line=line)
