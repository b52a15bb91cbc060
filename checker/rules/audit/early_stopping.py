"""Family R: early stopping, computed again from the query count and the percentiles."""

from __future__ import annotations

import math

from checker import loadgen_keys as keys
from checker.audit.evidence import PERCENTS, Look
from checker.early_stopping import (
    discarded_count,
    estimate_index,
    minimum_queries,
    parse,
    server_met,
)
from checker.model import MeasuredRun
from checker.rule import ERROR, WARNING, NotJudged, Problems, given, rule
from checker.rules.audit.found import contradiction, measured_log
from checker.wording import milliseconds, number
from schemas.round import Round


def _early_stopping(look: Look) -> tuple[int, float]:
    """Query count and percentile of a run whose LoadGen has early stopping."""
    count = given(look.integer("result_query_count"))
    percentile = given(look.number("effective_target_latency_percentile"))
    if not 0 < percentile < 1 or count < 1:
        raise NotJudged
    if "early_stopping_met" not in look.detail:
        raise NotJudged
    return count, percentile


@rule("R107", ERROR, needs="detail")
def early_stopping_text(run: MeasuredRun, round: Round) -> Problems:
    """LoadGen's early-stopping text agrees with the number of queries, the estimates and the verdict.

    Why: how many of the slowest queries may be left out is a number of the binomial distribution.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen early_stopping.cc: I_p(h, t + 1) <= 0.01; inference_rules.adoc, "Early stopping".
    """
    look = measured_log(run, "SingleStream", "MultiStream", "Server")
    count, percentile = _early_stopping(look)
    if run.scenario == "Server":
        yield from _server_text(run, look)
        return
    for key in ("early_stopping_result", "early_stopping_ttft_result"):
        said = look.text(key)
        if not said or look.detail.format != "mllog":
            continue
        text = parse(look.detail.text(key) or "")
        if text.processed is not None and text.processed != count:
            yield contradiction(
                run, look, key, text.processed, count, "result_query_count", "certain"
            )
        expected = discarded_count(count, percentile)
        if text.discarded is not None and text.discarded != expected:
            formula = f"the largest t with I_{percentile:g}(n - t, t + 1) <= 0.01, minus 1, for n = {number(count)}"
            yield contradiction(run, look, key, text.discarded, expected, formula, "certain")
        estimates = [
            value
            for name in ("early_stopping_latency_ss", "early_stopping_latency_ms")
            if (value := look.integer(name))
        ]
        for percent, estimate in text.estimates:
            if estimates and estimate not in estimates:
                formula = f"the estimate logged for the {percent:g}th percentile"
                yield contradiction(run, look, key, estimate, estimates[0], formula, "certain")


def _server_text(run: MeasuredRun, look: Look) -> Problems:
    """Server's text says in words what early_stopping_met says."""
    met, said = look.boolean("early_stopping_met"), look.text("early_stopping_result")
    if met is None or not said:
        raise NotJudged
    if ("Run successful" in said) != met:
        yield contradiction(
            run,
            look,
            "early_stopping_result",
            said.strip()[:80],
            "* Run successful." if met else "a text that says what is missing",
            "early_stopping_met",
            "certain",
        )


@rule("R108", ERROR, needs="detail")
def early_stopping_estimate(run: MeasuredRun, round: Round) -> Problems:
    """An early-stopping estimate lies between the two logged percentiles that enclose its rank.

    Why: it is one of the sorted latencies, and its rank is known.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen early_stopping.cc and results.cc: sorted[n - t]; percentiles are sorted[n * p].
    """
    look = measured_log(run, "SingleStream", "MultiStream")
    count, percentile = _early_stopping(look)
    if run.scenario == "MultiStream":
        families = [("result_{}_percentile_per_query_latency_ns", "result_{}_query_latency_ns")]
        estimates = [("early_stopping_latency_ms", percentile)]
    elif look.boolean("requested_use_token_latencies"):
        families = [
            ("result_first_token_{}_percentile_latency_ns", "result_first_token_{}_latency_ns")
        ]
        estimates = [("early_stopping_latency_ss", percentile)]
    else:
        families = [("result_{}_percentile_latency_ns", "result_{}_latency_ns")]
        estimates = [("early_stopping_latency_ss", percentile), ("early_stopping_latency_ms", 0.99)]
    template, ends = families[0]
    known: list[tuple[int, str, float]] = []
    for percent in PERCENTS:
        key = template.format(percent)
        value = look.detail.number(key)
        if value is not None and math.isfinite(value):
            known.append((min(int(count * float(percent) / 100), count - 1), key, value))
    for end, rank in (("min", 0), ("max", count - 1)):
        value = look.detail.number(ends.format(end))
        if value is not None and math.isfinite(value):
            known.append((rank, ends.format(end), value))
    for key, share in estimates:
        estimate = look.number(key)
        at = estimate_index(count, share)
        if not estimate or at is None:
            continue
        below = max((k for k in known if k[0] <= at), default=None, key=lambda k: (k[0], k[2]))
        above = min((k for k in known if k[0] >= at), default=None, key=lambda k: (k[0], -k[2]))
        wrong = None
        if below is not None and estimate < below[2]:
            wrong = below
        elif above is not None and estimate > above[2]:
            wrong = above
        if wrong is not None:
            look.number(wrong[1])
            side = "at least" if wrong is below else "at most"
            formula = f"rank {number(at)} of {number(count)} latencies, {side} {wrong[1]} (rank {number(wrong[0])})"
            yield contradiction(run, look, key, estimate, wrong[2], formula)


@rule("R109", ERROR, needs="detail")
def early_stopping_server(run: MeasuredRun, round: Round) -> Problems:
    """Server's early stopping, the queries over the latency limit and the percentiles agree.

    Why: three records state how many queries were too slow, and must agree.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen early_stopping.cc and results.cc: result_overlatency_query_count.
    """
    look = measured_log(run, "Server")
    if look.boolean("requested_use_token_latencies"):
        raise NotJudged
    count, percentile = _early_stopping(look)
    over = given(look.integer("result_overlatency_query_count"))
    target = given(look.number("effective_target_latency_ns"))
    stated = given(look.boolean("early_stopping_met"))
    if not 0 <= over <= count:
        raise NotJudged
    met = server_met(count, over, percentile)
    if met != stated:
        formula = f"{number(over)} of {number(count)} queries over the latency limit (I_{percentile:g}(n - t, t + 1) <= 0.01)"
        yield contradiction(run, look, "early_stopping_met", stated, met, formula, "certain")
    longest = look.number(keys.LATENCY.maximum)
    if longest is not None and (longest > target) != (over > 0):
        yield contradiction(
            run,
            look,
            "result_overlatency_query_count",
            over,
            "> 0" if longest > target else 0,
            f"the longest latency of {milliseconds(longest)} and the latency limit of {milliseconds(target)}",
        )
        return
    for percent in PERCENTS:
        key = f"result_{percent}_percentile_latency_ns"
        value = look.detail.number(key)
        if value is None or not math.isfinite(value):
            continue
        rank = min(int(count * float(percent) / 100), count - 1)
        slow = count - rank
        if (value > target and over < slow) or (value <= target and over > slow - 1):
            look.number(key)
            bound = f"at least {number(slow)}" if value > target else f"at most {number(slow - 1)}"
            formula = (
                f"{key} ({milliseconds(value)}, rank {number(rank)}) and the latency limit of "
                f"{milliseconds(target)}: {bound} queries over it"
            )
            yield contradiction(run, look, "result_overlatency_query_count", over, slow, formula)
            return


@rule("R110", WARNING, needs="detail")
def early_stopping_second(run: MeasuredRun, round: Round) -> Problems:
    """SingleStream's 99th percentile estimate is 0 exactly when there are under 662 queries.

    Why: LoadGen makes no estimate below that count, and always makes one from there on.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: early_stopping_latency_ms; early stopping at confidence 0.99.
    """
    look = measured_log(run, "SingleStream")
    count, _ = _early_stopping(look)
    estimate = given(look.integer("early_stopping_latency_ms"))
    if look.boolean("requested_use_token_latencies"):
        raise NotJudged
    least = minimum_queries(0.99)
    if (estimate == 0) != (count < least):
        yield contradiction(
            run,
            look,
            "early_stopping_latency_ms",
            estimate,
            "0" if count < least else "> 0",
            f"{number(count)} queries, where an estimate needs {number(least)}",
            "certain",
        )
