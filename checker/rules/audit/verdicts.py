"""Family R: LoadGen's verdicts, and what it generated, computed again from its settings and counts."""

from __future__ import annotations

import math
import re

from checker.audit.evidence import Look, evidence, near
from checker.compliance.audit import audit_config_read
from checker.model import AccuracyRun, LoggedRun, MeasuredRun, PerformanceRun, Run
from checker.rule import ERROR, WARNING, NotJudged, Problem, Problems, given, rule
from checker.rules.audit.found import (
    QUOTIENT,
    REL,
    as_words,
    contradiction,
    json_log,
    measured_log,
    whole_sets,
)
from schemas.round import Round


@rule("R101", ERROR, needs="detail")
def min_queries_follow(run: MeasuredRun, round: Round) -> Problems:
    """Whether the minimum of queries was met follows from the counts in the log.

    Why: LoadGen computes the verdict from the counts; where they disagree, one was changed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: queries >= min_query_count and samples >= min_sample_count.
    """
    look = measured_log(run)
    count = look.integer("result_query_count")
    stated = look.boolean("result_min_queries_met")
    least = look.integer("effective_min_query_count")
    samples = look.integer("effective_min_sample_count")
    per_query = look.integer("generated_samples_per_query")
    if None in (count, stated, least, per_query):
        raise NotJudged
    assert count is not None and least is not None and per_query is not None
    met = count >= least and (samples is None or count * per_query >= samples)
    if met != stated:
        formula = "queries >= min_query_count and queries * samples per query >= min_sample_count"
        yield contradiction(run, look, "result_min_queries_met", stated, met, formula)


@rule("R102", ERROR, needs="detail", cases={"multistream": ERROR})
def min_duration_follows(run: MeasuredRun, round: Round) -> Problems:
    """Whether the minimum duration was met follows from the rates or latencies in the log.

    Why: LoadGen computes the verdict from the times; where they disagree, one was changed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: the longest latency (Offline) or the time of the last query.
    """
    look = measured_log(run)
    stated = given(look.boolean("result_min_duration_met"))
    least = given(look.number("effective_min_duration_ms"))
    count = given(look.integer("result_query_count"))
    lasted: float | None = None
    if run.scenario == "Offline":
        lasted, formula = (
            look.number("result_max_latency_ns"),
            "the longest latency >= min_duration",
        )
    elif run.scenario == "Server":
        rate = look.number("result_scheduled_samples_per_sec")
        lasted = (count - 1) * 1e9 / rate if rate else None
        formula = "(queries - 1) / scheduled rate >= min_duration"
    elif run.scenario == "SingleStream":
        rate = look.number("result_qps_with_loadgen_overhead")
        lasted = (count - 1) * 1e9 / rate if rate else None
        formula = "(queries - 1) / rate with overhead >= min_duration"
    else:
        seconds = run.lasted
        lasted = seconds * 1e9 if seconds is not None else None
        formula = "power_end - power_begin >= min_duration"
    if lasted is None or abs(lasted / 1e6 - least) <= 5 + QUOTIENT * least:
        raise NotJudged
    met = lasted / 1e6 >= least
    # MultiStream's clock runs on until the last answer came.
    if met != stated and not (run.scenario == "MultiStream" and met):
        yield contradiction(
            run,
            look,
            "result_min_duration_met",
            stated,
            met,
            formula,
            case="multistream" if run.scenario == "MultiStream" else None,
            lasted_ms=float(f"{lasted / 1e6:.10g}"),
        )


@rule("R106", ERROR, needs="detail")
def constraints_follow(run: MeasuredRun, round: Round) -> Problems:
    """Whether Server's latency constraint was met follows from the percentiles in the log.

    Why: LoadGen computes the verdict from them; where they disagree, one was changed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: PerfConstraintsMet.
    """
    look = measured_log(run, "Server")
    stated = given(look.boolean("result_perf_constraints_met"))
    if look.boolean("requested_use_token_latencies"):
        pairs = [
            ("result_first_token_99.00_percentile_latency_ns", "requested_server_ttft_latency"),
            ("result_time_per_output_token_99.00_percentile_ns", "requested_server_tpot_latency"),
        ]
    else:
        percent = look.number("effective_target_latency_percentile")
        if percent is None:
            raise NotJudged
        pairs = [
            (f"result_{percent * 100:.2f}_percentile_latency_ns", "effective_target_latency_ns")
        ]
    met = True
    for measured, bound in pairs:
        value, limit = look.number(measured), look.number(bound)
        if value is None or limit is None:
            raise NotJudged
        met = met and value <= limit
    if met != stated:
        formula = " and ".join(f"{measured} <= {bound}" for measured, bound in pairs)
        yield contradiction(run, look, "result_perf_constraints_met", stated, met, formula)


_DERIVED = {"target_qps", "min_query_count", "target_duration_ms", "samples_per_query"}


@rule("R111", ERROR, needs="detail")
def settings_as_requested(run: LoggedRun, round: Round) -> Problems:
    """A setting that LoadGen only copies has the same value as requested.

    Why: LoadGen copies it; a difference means that one of the two lines was changed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen test_settings_internal.cc.
    """
    look = Look(json_log(run))
    for key in look.detail.entries:
        if not key.startswith("effective_"):
            continue
        name = key.removeprefix("effective_")
        asked = f"requested_{name}"
        if name in _DERIVED or asked not in look.detail:
            continue
        used, wanted = look.detail.get(key), look.detail.get(asked)
        if used != wanted:
            yield Problem(
                f"found {key} {as_words(used, wanted)[0]}; expected {as_words(used, wanted)[1]}, from {asked} on "
                f"line {look.detail.line(asked)}",
                path=run.detail_path,
                line=look.detail.line(key),
                found=used,
                required=wanted,
                evidence=evidence(
                    f"{key} = {asked}",
                    "high",
                    {key: used, asked: wanted},
                    {k: line for k in (key, asked) if (line := look.detail.line(k))},
                ),
            )
    yield from _server_rate(run, look)


def _server_rate(run: Run, look: Look) -> Problems:
    if run.scenario != "Server":
        return
    used, asked = look.number("effective_target_qps"), look.number("requested_server_target_qps")
    if used is not None and asked is not None and not near(used, asked):
        yield contradiction(
            run, look, "effective_target_qps", used, asked, "requested_server_target_qps"
        )


@rule("R112", ERROR, needs="detail", cases={"multistream": ERROR})
def target_duration_follows(run: LoggedRun, round: Round) -> Problems:
    """The target duration is the minimum duration, and 0 in Offline.

    Why: LoadGen takes both from one setting; a difference means that a line was changed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen test_settings_internal.cc.
    """
    look = Look(json_log(run))
    target = given(look.number("effective_target_duration_ms"))
    least = given(look.number("effective_min_duration_ms"))
    if run.scenario is None or run.scenario == "MultiStreamFree":
        raise NotJudged
    expected = 0.0 if run.scenario == "Offline" else least
    if target != expected:
        yield contradiction(
            run,
            look,
            "effective_target_duration_ms",
            target,
            expected,
            "the scenario (Offline has no target duration)"
            if run.scenario == "Offline"
            else "effective_min_duration_ms",
            case="multistream" if run.scenario == "MultiStream" else None,
        )


@rule("R113", ERROR, needs="detail")
def offline_samples_follow(run: MeasuredRun, round: Round) -> Problems:
    """Offline's number of samples follows from expected rate, duration and minimum query count.

    Why: LoadGen computes it from them; where they disagree, one was changed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen test_settings_internal.cc: max(min_query_count, 1.1 * min_duration * rate).
    """
    look = measured_log(run, "Offline")
    samples = given(look.integer("effective_samples_per_query"))
    rate = given(look.number("requested_offline_expected_qps"))
    least = given(look.integer("requested_min_query_count"))
    duration = given(look.number("requested_min_duration_ms"))
    if look.boolean("effective_performance_issue_unique") or look.boolean(
        "effective_performance_issue_same"
    ):
        raise NotJudged
    wanted = 1.1 * duration / 1000 * rate
    if not math.isfinite(wanted):
        raise NotJudged
    expected = max(least, math.floor(wanted))
    if not near(samples, expected, REL, 1.5):
        formula = "max(min_query_count, 1.1 * min_duration * expected rate)"
        yield contradiction(run, look, "effective_samples_per_query", samples, expected, formula)


@rule("R114", ERROR, needs="detail")
def offline_padding_follows(run: MeasuredRun, round: Round) -> Problems:
    """Offline generated the samples it was set to, rounded up to whole sets with equal issue.

    Why: with equal issue every loaded sample is issued equally often.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen loadgen.cc, GenerateQueries: sample_concatenate_permutation.
    """
    look = measured_log(run, "Offline")
    samples = given(look.integer("effective_samples_per_query"))
    generated = given(look.integer("generated_samples_per_query"))
    allowed = {samples}
    if look.boolean("effective_sample_concatenate_permutation"):
        padded = whole_sets(look.detail, samples)
        version = tuple(int(p) for p in re.findall(r"\d+", run.loadgen_version or "0")[:2])
        allowed = set(padded) if version < (5, 0) else {padded[-1]}
    if generated not in allowed:
        formula = "effective_samples_per_query, rounded up to a multiple of the loaded set"
        yield contradiction(
            run, look, "generated_samples_per_query", generated, max(allowed), formula, "certain"
        )


@rule("R115", WARNING, needs="detail")
def no_audit_config(run: PerformanceRun | AccuracyRun, round: Round) -> Problems:
    """LoadGen found no audit.config when the submitted run was made.

    Why: audit.config is a compliance test's: with it the run is that test.
    Where no setting of a test is in effect (P124 says) the run may still be a plain one.
    Fix: remove audit.config from the working directory and run again.
    Source: LoadGen loadgen.cc: its warning when it reads audit.config.
    """
    detail = json_log(run)
    if not audit_config_read(detail):
        return
    for entry in [*detail.all("warning_generic_message"), *detail.all("generic_message")]:
        if "audit.config" in str(entry.value):
            yield Problem(
                f"found that LoadGen read an audit.config in the {run.kind} run; expected none in a "
                f"submitted run: {str(entry.value)[:200]}",
                path=run.detail_path,
                line=entry.line,
                found=str(entry.value)[:200],
                required="no audit.config",
                evidence=evidence(
                    "no record names audit.config",
                    "high",
                    {entry.key: str(entry.value)[:200]},
                    {entry.key: entry.line},
                ),
            )
            return
