"""Family R, within one run: what LoadGen computed, computed again from the log's other numbers."""

from __future__ import annotations

import datetime
import functools
import itertools
import math
import re
from collections.abc import Iterator
from typing import TypeGuard

from checker.audit.evidence import PERCENTS, Confidence, Look, counted, evidence, near
from checker.compliance.audit import audit_config_read
from checker.consistency import same_value
from checker.early_stopping import (
    discarded_count,
    estimate_index,
    minimum_queries,
    parse,
    server_met,
)
from checker.model import AccuracyRun, ComplianceRun, PerformanceRun, Result, Run
from checker.parse.detail import DetailLog, Entry
from checker.parse.power import seconds_of
from checker.parse.reading import Unreadable, sha256_of
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, rule
from checker.wording import milliseconds, number, pair, quantity, shown
from schemas import round_names
from schemas.load import load_round
from schemas.round import Round

_REL = 1e-5
QUOTIENT = 2e-5
"""LoadGen prints doubles with six significant digits; a quotient of two such needs twice that."""
_CLOCK_NS = 5e6
"""power_begin and power_end are written in whole milliseconds, a little outside the run."""
_WRAP = 2**64
_HOUR = 3600.0
_CORE = (
    "/loadgen.cc", "/results.cc", "/logging.cc", "/early_stopping.cc",
    "/issue_query_controller.cc", "/test_settings_internal.cc",
)  # fmt: skip


def _log(run: Run) -> DetailLog:
    """The run's log of the JSON form; ranging runs and plain-text logs are not judged."""
    detail = run.detail
    if detail is None or not detail or detail.format != "mllog" or run.kind == "ranging":
        raise NotJudged
    return detail


def measured_log(run: Run, *scenarios: str) -> Look:
    """The log of a run that measured performance, in one of the scenarios (any, if none named)."""
    detail = _log(run)
    if run.mode not in ("PerformanceOnly", "SubmissionRun"):
        raise NotJudged
    if scenarios and run.scenario not in scenarios:
        raise NotJudged
    return Look(detail)


def _early_stopping(look: Look) -> tuple[int, float]:
    """Query count and percentile of a run whose LoadGen has early stopping."""
    count = look.integer("result_query_count")
    percentile = look.number("effective_target_latency_percentile")
    if count is None or percentile is None or not 0 < percentile < 1 or count < 1:
        raise NotJudged
    if "early_stopping_met" not in look.detail:
        raise NotJudged
    return count, percentile


def _contradiction(
    run: Run,
    look: Look,
    key: str,
    found: object,
    required: object,
    formula: str,
    confidence: Confidence = "high",
    **more: object,
) -> Problem:
    texts = _texts(found, required)
    return Problem(
        f"found {key} {texts[0]}; expected {texts[1]}, from {formula}", path=run.detail_path,
        line=look.detail.line(key), found=found, required=required,
        evidence=look.evidence(formula, confidence, **more),
    )  # fmt: skip


def _texts(found: object, expected: object) -> tuple[str, str]:
    """Two values as words, with as many digits as it takes to tell them apart."""
    if _is_number(found) and _is_number(expected):
        return pair(found, expected)
    first, second = (v if isinstance(v, str) else shown(v) for v in (found, expected))
    return first, second


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- verdicts computed again (F-01) --------------------------------------------------------------


@rule("R101", ERROR, needs="detail")
def min_queries_follow(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
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
        yield _contradiction(
            run, look, "result_min_queries_met", stated, met,
            "queries >= min_query_count and queries * samples per query >= min_sample_count",
        )  # fmt: skip


@rule("R102", ERROR, needs="detail")
def min_duration_follows(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """Whether the minimum duration was met follows from the rates or latencies in the log.

    Why: LoadGen computes the verdict from the times; where they disagree, one was changed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: the longest latency (Offline) or the time of the last query.
    """
    look = measured_log(run)
    stated = look.boolean("result_min_duration_met")
    least = look.number("effective_min_duration_ms")
    count = look.integer("result_query_count")
    if stated is None or least is None or count is None:
        raise NotJudged
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
        if not round.number or round.number < (2, 0):
            raise NotJudged
    if lasted is None or abs(lasted / 1e6 - least) <= 5 + QUOTIENT * least:
        raise NotJudged
    met = lasted / 1e6 >= least
    # MultiStream's clock runs on until the last answer came.
    if met != stated and not (run.scenario == "MultiStream" and met):
        yield _contradiction(
            run, look, "result_min_duration_met", stated, met, formula,
            lasted_ms=float(f"{lasted / 1e6:.10g}"),
        )  # fmt: skip


@rule("R103", ERROR, needs="detail")
def offline_rate_by_clock(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """Offline's rate times the time between power_begin and power_end is the number of samples.

    Why: the system clock measured the same run a second time, apart from the latencies.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen loadgen.cc (power_begin, power_end) and results.cc (samples per second).
    """
    look = measured_log(run, "Offline")
    rate = look.number("result_samples_per_second")
    per_query = look.integer("generated_samples_per_query")
    seconds = run.lasted
    look.text("power_begin"), look.text("power_end")
    if not rate or not per_query or not seconds or seconds <= 0:
        raise NotJudged
    wanted = set(_padded(look.detail, per_query))
    total = look.integer("result_query_count")
    if total and total > 1:
        wanted.add(total)
    room = rate * (0.020 + 5e-5 * seconds) + 1
    if not any(abs(rate * seconds - samples) <= room for samples in wanted):
        samples = min(wanted, key=lambda n: abs(rate * seconds - n))
        yield _contradiction(
            run, look, "result_samples_per_second", rate, samples / seconds,
            f"{number(samples)} samples / {seconds:,.3f} s between power_begin and power_end",
        )  # fmt: skip


def _padded(detail: DetailLog, per_query: int) -> list[int]:
    """The samples of Offline's query as logged and padded: LoadGen before 5.0 logs them unpadded."""
    loaded = detail.length("loaded_qsl_set")
    found = [per_query]
    if loaded:
        found.append(math.ceil(per_query / loaded) * loaded)
    return found


@rule("R104", ERROR, needs="detail")
def single_stream_by_clock(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """SingleStream's latencies and rate fit into the time between power_begin and power_end.

    Why: queries run one after the other, so their latencies add up to the run's time.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: mean latency, rate with overhead; loadgen.cc: power interval.
    """
    look = measured_log(run, "SingleStream")
    count = look.integer("result_query_count")
    mean = look.number("result_mean_latency_ns")
    longest = look.number("result_max_latency_ns")
    rate = look.number("result_qps_with_loadgen_overhead")
    seconds = run.lasted
    look.text("power_begin"), look.text("power_end")
    if not count or mean is None or longest is None or seconds is None:
        raise NotJudged
    lasted = seconds * 1e9
    total = mean * count
    if total > lasted + _CLOCK_NS * 4 + QUOTIENT * lasted + count:
        yield _contradiction(
            run, look, "result_mean_latency_ns", mean, lasted / count,
            f"{seconds:,.3f} s between power_begin and power_end / {number(count)} queries (at most)",
        )  # fmt: skip
    if rate:
        issued = (count - 1) * 1e9 / rate
        room = longest + _CLOCK_NS * 4 + QUOTIENT * lasted + 0.002 * lasted
        if abs(lasted - issued) > room:
            yield _contradiction(
                run, look, "result_qps_with_loadgen_overhead", rate, (count - 1) / seconds,
                f"({number(count)} queries - 1) / {seconds:,.3f} s between power_begin and power_end",
            )  # fmt: skip


@rule("R105", ERROR, needs="detail")
def server_by_clock(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """Server's schedule and completion times enclose the time between power_begin and power_end.

    Why: the run lasts from the first query to the last answer, by the system clock too.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: scheduled and completed rates; loadgen.cc: power interval.
    """
    look = measured_log(run, "Server")
    count = look.integer("result_query_count")
    scheduled = look.number("result_scheduled_samples_per_sec")
    completed = look.number("result_completed_samples_per_sec")
    longest = look.number("result_max_latency_ns")
    seconds = run.lasted
    look.text("power_begin"), look.text("power_end")
    if not count or count < 2 or not scheduled or longest is None or seconds is None:
        raise NotJudged
    span = (count - 1) / scheduled
    room = 0.02 + 5e-5 * seconds
    if seconds < span - room or seconds > span + longest / 1e9 + room:
        yield _contradiction(
            run, look, "result_scheduled_samples_per_sec", scheduled, (count - 1) / seconds,
            f"({number(count)} queries - 1) / {seconds:,.3f} s between power_begin and power_end, "
            f"minus at most the longest latency of {quantity(longest / 1e9, 's')}",
        )  # fmt: skip
    if completed:
        done = (count - 1) / completed
        if done > seconds + room or done < span - room:
            yield _contradiction(
                run, look, "result_completed_samples_per_sec", completed, (count - 1) / seconds,
                f"({number(count)} queries - 1) / {seconds:,.3f} s between power_begin and power_end "
                "(at least)",
            )  # fmt: skip


@rule("R106", ERROR, needs="detail")
def constraints_follow(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """Whether Server's latency constraint was met follows from the percentiles in the log.

    Why: LoadGen computes the verdict from them; where they disagree, one was changed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: PerfConstraintsMet.
    """
    look = measured_log(run, "Server")
    stated = look.boolean("result_perf_constraints_met")
    if stated is None:
        raise NotJudged
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
        yield _contradiction(
            run, look, "result_perf_constraints_met", stated, met,
            " and ".join(f"{measured} <= {bound}" for measured, bound in pairs),
        )  # fmt: skip


# --- early stopping (F-02) ------------------------------------------------------------------------


@rule("R107", ERROR, needs="detail")
def early_stopping_text(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """LoadGen's early-stopping text agrees with the number of queries and the logged estimates.

    Why: how many of the slowest queries may be left out is a number of the binomial distribution.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen early_stopping.cc: I_p(h, t + 1) <= 0.01; inference_rules.adoc, "Early stopping".
    """
    look = measured_log(run, "SingleStream", "MultiStream")
    count, percentile = _early_stopping(look)
    for key in ("early_stopping_result", "early_stopping_ttft_result"):
        said = look.text(key)
        if not said or look.detail.format != "mllog":
            continue
        text = parse(look.detail.text(key) or "")
        if text.processed is not None and text.processed != count:
            yield _contradiction(
                run, look, key, text.processed, count, "result_query_count", "certain"
            )
        expected = discarded_count(count, percentile)
        if text.discarded is not None and text.discarded != expected:
            yield _contradiction(
                run, look, key, text.discarded, expected,
                f"the largest t with I_{percentile:g}(n - t, t + 1) <= 0.01, minus 1, for n = {number(count)}",
                "certain",
            )  # fmt: skip
        estimates = [
            value for name in ("early_stopping_latency_ss", "early_stopping_latency_ms")
            if (value := look.integer(name))
        ]  # fmt: skip
        for percent, estimate in text.estimates:
            if estimates and estimate not in estimates:
                yield _contradiction(
                    run, look, key, estimate, estimates[0],
                    f"the estimate logged for the {percent:g}th percentile",
                    "certain",
                )  # fmt: skip


@rule("R108", ERROR, needs="detail")
def early_stopping_estimate(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
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
            yield _contradiction(
                run, look, key, estimate, wrong[2],
                f"rank {number(at)} of {number(count)} latencies, {side} {wrong[1]} (rank {number(wrong[0])})",
            )  # fmt: skip


@rule("R109", ERROR, needs="detail")
def early_stopping_server(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """Server's early stopping, the queries over the latency limit and the percentiles agree.

    Why: three records state how many queries were too slow, and must agree.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen early_stopping.cc and results.cc: result_overlatency_query_count.
    """
    look = measured_log(run, "Server")
    if look.boolean("requested_use_token_latencies"):
        raise NotJudged
    count, percentile = _early_stopping(look)
    over = look.integer("result_overlatency_query_count")
    target = look.number("effective_target_latency_ns")
    stated = look.boolean("early_stopping_met")
    if over is None or target is None or stated is None or not 0 <= over <= count:
        raise NotJudged
    met = server_met(count, over, percentile)
    if met != stated:
        yield _contradiction(
            run, look, "early_stopping_met", stated, met,
            f"{number(over)} of {number(count)} queries over the latency limit (I_{percentile:g}(n - t, t + 1) <= 0.01)",
            "certain",
        )  # fmt: skip
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
            yield _contradiction(
                run, look, "result_overlatency_query_count", over, slow,
                f"{key} ({milliseconds(value)}, rank {number(rank)}) and the latency limit of "
                f"{milliseconds(target)}: {bound} queries over it",
            )  # fmt: skip
            return


@rule("R110", WARNING, needs="detail")
def early_stopping_second(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """SingleStream's 99th percentile estimate is 0 exactly when there are under 662 queries.

    Why: LoadGen makes no estimate below that count, and always makes one from there on.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: early_stopping_latency_ms; early stopping at confidence 0.99.
    """
    look = measured_log(run, "SingleStream")
    count, _ = _early_stopping(look)
    estimate = look.integer("early_stopping_latency_ms")
    if estimate is None or look.boolean("requested_use_token_latencies"):
        raise NotJudged
    least = minimum_queries(0.99)
    if (estimate == 0) != (count < least):
        yield _contradiction(
            run, look, "early_stopping_latency_ms", estimate, "0" if count < least else "> 0",
            f"{number(count)} queries, where an estimate needs {number(least)}", "certain",
        )  # fmt: skip


# --- settings (F-04) ------------------------------------------------------------------------------

_DERIVED = {"target_qps", "min_query_count", "target_duration_ms", "samples_per_query"}


@rule("R111", ERROR, needs="detail")
def settings_as_requested(
    run: PerformanceRun | ComplianceRun | AccuracyRun, round: Round
) -> Iterator[Problem]:
    """A setting that LoadGen only copies has the same value as requested.

    Why: LoadGen copies it; a difference means that one of the two lines was changed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen test_settings_internal.cc.
    """
    look = Look(_log(run))
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
                f"found {key} {_texts(used, wanted)[0]}; expected {_texts(used, wanted)[1]}, from {asked} on "
                f"line {look.detail.line(asked)}",
                path=run.detail_path, line=look.detail.line(key), found=used, required=wanted,
                evidence=evidence(
                    f"{key} = {asked}", "high", {key: used, asked: wanted},
                    {k: line for k in (key, asked) if (line := look.detail.line(k))},
                ),
            )  # fmt: skip
    yield from _server_rate(run, look)


def _server_rate(run: Run, look: Look) -> Iterator[Problem]:
    if run.scenario != "Server":
        return
    used, asked = look.number("effective_target_qps"), look.number("requested_server_target_qps")
    if used is not None and asked is not None and not near(used, asked):
        yield _contradiction(
            run, look, "effective_target_qps", used, asked, "requested_server_target_qps"
        )


@rule("R112", ERROR, needs="detail")
def target_duration_follows(
    run: PerformanceRun | ComplianceRun | AccuracyRun, round: Round
) -> Iterator[Problem]:
    """The target duration is the minimum duration, and 0 in Offline.

    Why: LoadGen takes both from one setting; a difference means that a line was changed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen test_settings_internal.cc.
    """
    look = Look(_log(run))
    target = look.number("effective_target_duration_ms")
    least = look.number("effective_min_duration_ms")
    if target is None or least is None or run.scenario is None or run.scenario == "MultiStreamFree":
        raise NotJudged
    if run.scenario == "MultiStream" and round.number < (2, 0):
        raise NotJudged
    expected = 0.0 if run.scenario == "Offline" else least
    if target != expected:
        yield _contradiction(
            run, look, "effective_target_duration_ms", target, expected,
            "the scenario (Offline has no target duration)" if run.scenario == "Offline"
            else "effective_min_duration_ms",
        )  # fmt: skip


@rule("R113", ERROR, needs="detail")
def offline_samples_follow(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """Offline's number of samples follows from expected rate, duration and minimum query count.

    Why: LoadGen computes it from them; where they disagree, one was changed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen test_settings_internal.cc: max(min_query_count, 1.1 * min_duration * rate).
    """
    look = measured_log(run, "Offline")
    samples = look.integer("effective_samples_per_query")
    rate = look.number("requested_offline_expected_qps")
    least = look.integer("requested_min_query_count")
    duration = look.number("requested_min_duration_ms")
    if samples is None or rate is None or least is None or duration is None:
        raise NotJudged
    if look.boolean("effective_performance_issue_unique") or look.boolean(
        "effective_performance_issue_same"
    ):
        raise NotJudged
    wanted = 1.1 * duration / 1000 * rate
    if not math.isfinite(wanted):
        raise NotJudged
    expected = max(least, math.floor(wanted))
    if not near(samples, expected, _REL, 1.5):
        yield _contradiction(
            run, look, "effective_samples_per_query", samples, expected,
            "max(min_query_count, 1.1 * min_duration * expected rate)",
        )  # fmt: skip


@rule("R114", ERROR, needs="detail")
def offline_padding_follows(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """Offline generated the samples it was set to, rounded up to whole sets with equal issue.

    Why: with equal issue every loaded sample is issued equally often.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen loadgen.cc, GenerateQueries: sample_concatenate_permutation.
    """
    look = measured_log(run, "Offline")
    samples = look.integer("effective_samples_per_query")
    generated = look.integer("generated_samples_per_query")
    if samples is None or generated is None:
        raise NotJudged
    allowed = {samples}
    if look.boolean("effective_sample_concatenate_permutation"):
        padded = _padded(look.detail, samples)
        version = tuple(int(p) for p in re.findall(r"\d+", run.loadgen_version or "0")[:2])
        allowed = set(padded) if version < (5, 0) else {padded[-1]}
    if generated not in allowed:
        yield _contradiction(
            run, look, "generated_samples_per_query", generated, max(allowed),
            "effective_samples_per_query, rounded up to a multiple of the loaded set", "certain",
        )  # fmt: skip


@rule("R115", WARNING, needs="detail")
def no_audit_config(run: PerformanceRun | AccuracyRun, round: Round) -> Iterator[Problem]:
    """LoadGen found no audit.config when the submitted run was made.

    Why: audit.config is a compliance test's: with it the run is that test.
    Where no setting of a test is in effect (P124 says) the run may still be a plain one.
    Fix: remove audit.config from the working directory and run again.
    Source: LoadGen loadgen.cc: its warning when it reads audit.config.
    """
    detail = _log(run)
    if not audit_config_read(detail):
        return
    for entry in [*detail.all("warning_generic_message"), *detail.all("generic_message")]:
        if "audit.config" in str(entry.value):
            yield Problem(
                f"found that LoadGen read an audit.config in the {run.kind} run; expected none in a "
                f"submitted run: {str(entry.value)[:200]}",
                path=run.detail_path, line=entry.line, found=str(entry.value)[:200],
                required="no audit.config",
                evidence=evidence(
                    "no record names audit.config", "high", {entry.key: str(entry.value)[:200]},
                    {entry.key: entry.line},
                ),
            )  # fmt: skip
            return


# --- one build, one run, one process (F-09, F-13, F-14) ----------------------------------------


def sources_of(detail: DetailLog) -> dict[str, str]:
    """SHA-1 of LoadGen's core sources as the log states them; {} where it does not."""
    value = detail.get("loadgen_file_sha1")
    if not isinstance(value, dict):
        return {}
    return {name: str(value[name]) for name in _CORE if name in value}


@rule("R116", WARNING, needs="detail")
def same_sources(run: AccuracyRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """The run was made with the LoadGen sources and the order mode of the performance run.

    Why: runs of one result should come from one build.
    Fix: make all runs of a result with one LoadGen.
    Source: LoadGen: loadgen_file_sha1; inference_rules.adoc, "LoadGen".
    """
    main = run.result.performance
    detail = _log(run)
    if main is None or main.detail is None or not main.detail:
        raise NotJudged
    mine, theirs = sources_of(detail), sources_of(main.detail)
    other = [name for name in mine if name in theirs and mine[name] != theirs[name]]
    if other:
        name = other[0]
        yield Problem(
            f"found SHA-1 {mine[name]} of LoadGen's {name[1:]}; expected {theirs[name]}, as in the "
            f"performance run ({len(other)} of {len(mine)} core sources differ)",
            path=run.detail_path, line=detail.line("loadgen_file_sha1"), found=mine[name],
            required=theirs[name],
            evidence=evidence(
                "the core sources of both runs have the same SHA-1", "moderate",
                {"differing sources": ", ".join(n[1:] for n in other),
                 "this run": run.loadgen_version, "performance run": main.loadgen_version},
                {run.detail_path: detail.line("loadgen_file_sha1") or 0,
                 main.detail_path: main.detail.line("loadgen_file_sha1") or 0},
            ),
        )  # fmt: skip
    key = "effective_sample_concatenate_permutation"
    ours, first = detail.boolean(key), main.detail.boolean(key)
    if isinstance(run, AccuracyRun) and None not in (ours, first) and ours != first:
        yield Problem(
            f"found {key} {shown(ours)}; expected {shown(first)}, as in the performance run",
            path=run.detail_path, line=detail.line(key), found=ours, required=first,
            evidence=evidence("one value in both runs", "moderate", {"this run": ours, "performance run": first}),
        )  # fmt: skip


def _utc(text: str | None) -> datetime.datetime | None:
    """An ISO time of LoadGen; without a zone it is UTC."""
    if text is None:
        return None
    try:
        found = datetime.datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)


def _date(text: str | None) -> datetime.datetime | None:
    return _utc(text) if text else None


def _dated(run: Run) -> tuple[DetailLog, datetime.datetime]:
    detail = _log(run)
    when = _utc(detail.text("test_datetime"))
    if when is None:
        raise NotJudged
    return detail, when


@functools.cache
def _seeds_known_from(number: tuple[int, ...]) -> datetime.datetime | None:
    """No run with a round's seeds can be older: the deadline of the round before."""
    rounds = [load_round(name) for name in round_names()]
    before = [one for one in rounds if one.number and one.number < number]
    last = max(before, key=lambda r: r.number, default=None)
    return _date(last.deadline) if last is not None else None


@rule("R117", WARNING, needs="detail")
def date_in_round(
    run: PerformanceRun | ComplianceRun | AccuracyRun, round: Round
) -> Iterator[Problem]:
    """The run's date lies between the round before and the publication of its own.

    Why: the round's seeds were not known before, and a published run was made before publication.
    Fix: use the log as LoadGen wrote it; set the system's clock before a run.
    Source: LoadGen: test_datetime; the round's dates.
    """
    detail, when = _dated(run)
    latest, earliest = _date(round.published), _seeds_known_from(round.number)
    deadline = _date(round.deadline)
    if not round.official or latest is None:
        raise NotJudged
    day = when.date().isoformat()
    wrong = None
    if when > latest + datetime.timedelta(days=1):
        wrong = f"after {round.name} was published on {latest.date().isoformat()}"
    elif earliest is not None and when < earliest:
        wrong = f"before the deadline of the round before, {earliest.date().isoformat()}"
    if wrong:
        yield Problem(
            f"found test_datetime {day}, {wrong}; expected a date within the round", path=run.detail_path,
            line=detail.line("test_datetime"), found=day,
            required=f"{earliest.date().isoformat() if earliest else '…'} to {latest.date().isoformat()}",
            evidence=evidence(
                "deadline of the round before <= test_datetime <= publication", "high",
                {"test_datetime": detail.text("test_datetime"),
                 "deadline": deadline.date().isoformat() if deadline else None,
                 "published": latest.date().isoformat()},
                {"test_datetime": detail.line("test_datetime") or 0},
            ),
        )  # fmt: skip


@rule("R118", WARNING, needs="detail")
def run_after_build(
    run: PerformanceRun | ComplianceRun | AccuracyRun, round: Round
) -> Iterator[Problem]:
    """The run is not older than the LoadGen it was made with.

    Why: a program cannot run before it is built. Fourteen hours are allowed for clocks that
    report local time as UTC.
    Fix: use the log as LoadGen wrote it; set the system's clock before a run.
    Source: LoadGen: test_datetime and loadgen_build_date_utc.
    """
    detail, when = _dated(run)
    built = _utc(detail.text("loadgen_build_date_utc"))
    if built is None:
        raise NotJudged
    hours = (built - when).total_seconds() / _HOUR
    if hours > 14:
        look = Look(detail)
        look.text("test_datetime"), look.text("loadgen_build_date_utc")
        yield Problem(
            f"found test_datetime {when.isoformat()}; expected it after LoadGen's build, which is "
            f"{hours:,.1f} h later ({built.isoformat(timespec='seconds')})",
            path=run.detail_path, line=detail.line("test_datetime"), found=when.isoformat(),
            required=f">= {built.isoformat(timespec='seconds')}",
            evidence=look.evidence("test_datetime >= loadgen_build_date_utc - 14 h", "high"),
        )  # fmt: skip


@rule("R119", ERROR, needs="detail")
def build_after_commit(
    run: PerformanceRun | ComplianceRun | AccuracyRun, round: Round
) -> Iterator[Problem]:
    """LoadGen was not built before the commit it says it was built from.

    Why: a build cannot contain a later commit.
    Fix: use the log as LoadGen wrote it.
    Source: LoadGen: loadgen_build_date_utc and loadgen_git_commit_date.
    """
    detail = _log(run)
    built = _utc(detail.text("loadgen_build_date_utc"))
    committed = _utc(detail.text("loadgen_git_commit_date"))
    if built is None or committed is None:
        raise NotJudged
    hours = (committed - built).total_seconds() / _HOUR
    if hours > 14:
        look = Look(detail)
        look.text("loadgen_build_date_utc"), look.text("loadgen_git_commit_date")
        yield Problem(
            f"found LoadGen built at {built.isoformat(timespec='seconds')}; expected it after its commit, "
            f"which is {hours:,.1f} h later ({committed.isoformat()})",
            path=run.detail_path, line=detail.line("loadgen_build_date_utc"),
            found=built.isoformat(timespec="seconds"), required=f">= {committed.isoformat()}",
            evidence=look.evidence("loadgen_build_date_utc >= loadgen_git_commit_date - 14 h", "high"),
        )  # fmt: skip


@rule("R120", WARNING, needs="detail")
def log_clocks_agree(
    run: PerformanceRun | ComplianceRun | AccuracyRun, round: Round
) -> Iterator[Problem]:
    """The three clocks of a log agree: date of the test, power interval and time_ms.

    Why: the log's beginning plus its running time is its end, whatever time zone the dates are in.
    Fix: use the log as LoadGen wrote it.
    Source: LoadGen: test_datetime, time_ms, power_end; zones differ by multiples of 15 minutes.
    """
    detail, when = _dated(run)
    entry = detail.entry("power_end")
    ended = seconds_of(str(entry.value)) if entry is not None else None
    if entry is None or ended is None or not 0 <= entry.time_ms < 1e11:
        raise NotJudged
    off = when.timestamp() + entry.time_ms / 1000 - ended
    quarter = 900.0
    rest = (off + quarter / 2) % quarter - quarter / 2
    # The record can be written a while after the time that it states; it cannot be written before.
    if abs(rest) > 120 or abs(off) > 27 * _HOUR:
        look = Look(detail)
        look.text("test_datetime"), look.text("power_end")
        yield Problem(
            f"found power_end {entry.value}, {abs(off):,.1f} s {'before' if off > 0 else 'after'} the time at which it was "
            f"written ({when.isoformat()} + {entry.time_ms / 1000:,.3f} s); expected the same time, whole "
            "quarter hours of a time zone aside",
            path=run.detail_path, line=entry.line, found=float(f"{off:.1f}"), required="a multiple of 900 s",
            evidence=look.evidence(
                "test_datetime + time_ms of power_end - power_end is a whole number of quarter hours "
                "(+-120 s) within a day", "moderate", time_ms=entry.time_ms,
            ),
        )  # fmt: skip


def _in_order(detail: DetailLog) -> list[Entry]:
    return sorted((e for found in detail.entries.values() for e in found), key=lambda e: e.line)


@rule("R121", ERROR, needs="detail")
def one_process(
    run: PerformanceRun | ComplianceRun | AccuracyRun, round: Round
) -> Iterator[Problem]:
    """Every record of a log was written by one process.

    Why: a run is one process; two process ids mean that logs were joined or lines changed.
    Fix: use the log of one run as LoadGen wrote it.
    Source: LoadGen logging.cc: pid in every record.
    """
    detail = _log(run)
    if len(detail.pids) < 2:
        return
    entries = [e for e in _in_order(detail) if e.pid]
    first = entries[0]
    other = next(e for e in entries if e.pid != first.pid)
    yield Problem(
        f"found records of {len(detail.pids)} processes: pid {first.pid} on line {first.line}, "
        f"{other.pid} on line {other.line}; expected one",
        path=run.detail_path, line=other.line, found=sorted(detail.pids)[:10], required="one pid",
        evidence=evidence(
            "one pid in all records", "certain",
            {"first pid": first.pid, "other pid": other.pid,
             "records of the other": sum(e.pid == other.pid for e in entries),
             "records": len(entries)},
            {"first": first.line, "other": other.line},
        ),
    )  # fmt: skip


@rule("R122", ERROR, needs="detail")
def threads_of_one_process(
    run: PerformanceRun | ComplianceRun | AccuracyRun, round: Round
) -> Iterator[Problem]:
    """Every thread of a log belongs to one process.

    Why: a thread id belongs to one process at a time; the same id under two processes means that
    lines of two logs were mixed.
    Fix: use the log of one run as LoadGen wrote it.
    Source: LoadGen logging.cc: pid and tid in every record; Linux: the main thread's tid is the pid.
    """
    detail = _log(run)
    owner: dict[int, Entry] = {}
    for entry in _in_order(detail):
        if not entry.tid or not entry.pid:
            continue
        first = owner.setdefault(entry.tid, entry)
        if first.pid != entry.pid:
            yield Problem(
                f"found thread {entry.tid} in process {entry.pid}; expected process {first.pid}, as on line "
                f"{first.line}",
                path=run.detail_path, line=entry.line, found=entry.pid, required=first.pid,
                evidence=evidence(
                    "one pid for each tid", "certain",
                    {"tid": entry.tid, "pid": first.pid, "other pid": entry.pid},
                    {"first": first.line, "other": entry.line},
                ),
            )  # fmt: skip
            return


@rule("R123", ERROR, needs="detail")
def time_rises(
    run: PerformanceRun | ComplianceRun | AccuracyRun, round: Round
) -> Iterator[Problem]:
    """The records of a log are in the order of their times.

    Why: LoadGen sorts records by time before it writes them.
    Fix: use the log of one run as LoadGen wrote it.
    Source: LoadGen logging.cc: time_ms; no record falls behind in any published log of v1.0 to v6.0.
    """
    detail = _log(run)
    last: Entry | None = None
    for entry in _in_order(detail):
        # Unsigned times of a negative delta wrap around.
        if entry.time_ms >= 1e11:
            continue
        if last is not None and entry.time_ms < last.time_ms:
            yield Problem(
                f"found {entry.key} at {pair(entry.time_ms, last.time_ms, 'ms')[0]}; expected "
                f"{pair(entry.time_ms, last.time_ms, 'ms')[1]} or later, the time of {last.key} on line {last.line}",
                path=run.detail_path, line=entry.line, found=entry.time_ms,
                required=f">= {last.time_ms:g}",
                evidence=evidence(
                    "time_ms never falls from line to line", "high",
                    {f"{last.key} (ms)": last.time_ms, f"{entry.key} (ms)": entry.time_ms},
                    {last.key: last.line, entry.key: entry.line},
                ),
            )  # fmt: skip
            return
        last = entry


# --- latencies among themselves (F-15) -----------------------------------------------------------


@rule("R124", ERROR, needs="detail")
def first_token_within_latency(
    run: PerformanceRun | ComplianceRun, round: Round
) -> Iterator[Problem]:
    """A percentile of the time to first token is not above that of the whole latency.

    Why: the first token of an answer comes before its last.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: first-token and sample latencies of the same queries.
    """
    look = measured_log(run)
    if not look.boolean("requested_use_token_latencies"):
        raise NotJudged
    pairs = [
        (f"result_first_token_{p}_percentile_latency_ns", f"result_{p}_percentile_latency_ns")
        for p in PERCENTS
    ]
    pairs += [
        (f"result_first_token_{e}_latency_ns", f"result_{e}_latency_ns") for e in ("min", "max")
    ]
    for token, whole in pairs:
        first, last = look.detail.number(token), look.detail.number(whole)
        if first is not None and last is not None and first > last:
            look.number(token), look.number(whole)
            yield _contradiction(run, look, token, first, last, f"{whole} (at most)")
            return


_SHARES = (0.5, 0.4, 0.05, 0.02, 0.02, 0.009, 0.001)
_FAMILIES = (
    ("result_{}_percentile_latency_ns", "result_{}_latency_ns"),
    ("result_{}_percentile_per_query_latency_ns", "result_{}_query_latency_ns"),
    ("result_first_token_{}_percentile_latency_ns", "result_first_token_{}_latency_ns"),
    ("result_time_per_output_token_{}_percentile_ns", "result_time_to_output_token_{}"),
)


@rule("R125", ERROR, needs="detail")
def mean_within_percentiles(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """The mean latency lies within the bounds that its percentiles leave.

    Why: the percentiles say how many latencies lie between which bounds, and so bound the mean.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc. Its sum of Offline's latencies can wrap around at 2^64 ns: such
    means are tried with every whole wrap added.
    """
    look = measured_log(run)
    queries = counted(look.detail, "result_query_count") or 0
    per_query = counted(look.detail, "generated_samples_per_query") or 1
    for template, ends in _FAMILIES:
        values = [look.detail.number(ends.format("min"))]
        values += [look.detail.number(template.format(p)) for p in PERCENTS]
        values.append(look.detail.number(ends.format("max")))
        key = ends.format("mean")
        mean = look.detail.number(key)
        if mean is None or any(v is None or not math.isfinite(v) for v in values):
            continue
        bounds = [v for v in values if v is not None]
        if any(a > b for a, b in itertools.pairwise(bounds)):
            continue
        n = queries if "query" in ends else max(queries * per_query, 1)
        if run.scenario == "Offline":
            n = max(per_query, queries)
        room = 0.002 * bounds[-1] + 8 * bounds[-1] / max(n, 1)
        low = sum(s * v for s, v in zip(_SHARES, bounds, strict=False)) - room
        high = sum(s * v for s, v in zip(_SHARES, bounds[1:], strict=False)) + room
        if _wrapped_into(mean, low, high, n):
            continue
        look.number(key)
        for p in PERCENTS:
            look.number(template.format(p))
        bound = low if mean < low else high
        yield _contradiction(
            run, look, key, mean, bound,
            f"the percentiles, which bound the mean to {milliseconds(low)} to {milliseconds(high)}",
        )  # fmt: skip


def _wrapped_into(mean: float, low: float, high: float, n: int) -> bool:
    if low <= mean <= high:
        return True
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(mean)):
        return True
    wrap = _WRAP / max(n, 1)
    return math.ceil((low - mean) / wrap) <= math.floor((high - mean) / wrap)


# --- the summary, and tokens (F-06, F-16) --------------------------------------------------------


@rule("R126", ERROR, needs=("detail", "summary"))
def summary_remainder(
    run: PerformanceRun | ComplianceRun | AccuracyRun, round: Round
) -> Iterator[Problem]:
    """Headline, estimates and error count in the summary match the detail log.

    Why: LoadGen writes both from the same numbers; a difference means one is edited or of another
    run.
    Fix: put the two logs of one and the same run into the folder.
    Source: LoadGen results.cc: headline percentile, early-stopping text, error count.
    """
    detail = _log(run)
    summary = run.summary
    if summary is None:
        raise NotJudged
    if summary.headline_percentile is not None:
        percent, value, line = summary.headline_percentile
        keys = [
            f"result_{percent:.2f}_percentile_per_query_latency_ns",
            f"result_{percent:.2f}_percentile_latency_ns",
        ]
        known = {key: logged for key in keys if (logged := detail.number(key)) is not None}
        if known and value not in known.values():
            key, logged = next(iter(known.items()))
            yield _differs(
                run, line, f"the {percent:g}th percentile latency (ns)", value, key, logged
            )
    estimates: dict[float, set[float]] = {}
    for key in (
        "early_stopping_result",
        "early_stopping_ttft_result",
        "early_stopping_tpot_result",
    ):
        for percent, estimate in parse(detail.text(key) or "").estimates:
            estimates.setdefault(percent, set()).add(estimate)
    for percent, value, line in summary.estimates:
        if percent in estimates and value not in estimates[percent]:
            yield _differs(
                run, line, f"the early-stopping estimate of the {percent:g}th percentile (ns)", value,
                "early_stopping_result", min(estimates[percent]),
            )  # fmt: skip
    if (
        summary.errors is not None
        and "num_errors" in detail
        and summary.errors != detail.integer("num_errors")
    ):
        yield _differs(
            run,
            None,
            "the number of errors",
            summary.errors,
            "num_errors",
            detail.get("num_errors"),
        )


def _differs(
    run: Run, line: int | None, what: str, printed: object, key: str, logged: object
) -> Problem:
    detail = run.detail
    at = detail.line(key) if detail is not None else None
    texts = _texts(printed, logged)
    return Problem(
        f"found {what} {texts[0]}; expected {texts[1]}, from {key} in the detail log"
        f"{f' (line {at})' if at else ''}",
        path=run.summary_path, line=line, found=printed, required=logged,
        evidence=evidence(
            "the summary repeats the detail log", "high", {"summary": printed, "detail log": logged},
            {"summary": line or 0, "detail log": at or 0},
        ),
    )  # fmt: skip


@rule("R127", ERROR, needs=("detail", "summary"))
def summary_alone(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """The numbers in the summary agree with each other.

    Why: the rate of a run determines its latencies, in the summary as in the detail log.
    Fix: use the summary log as LoadGen wrote it.
    Source: LoadGen results.cc: samples / longest latency, 1e9 / mean latency, percentiles in order.
    """
    summary = run.summary
    measured_log(run)
    if summary is None or run.detail is None:
        raise NotJudged

    def stated(key: str) -> float | None:
        value = summary.get(key)
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if plain and math.isfinite(value) else None

    if run.scenario == "Offline":
        rate, longest = stated("result_samples_per_second"), stated("result_max_latency_ns")
        samples = counted(run.detail, "generated_samples_per_query")
        if rate and longest and samples:
            allowed = [*_padded(run.detail, samples)]
            total = counted(run.detail, "result_query_count")
            if total and total > 1:
                allowed.append(total)
            if not any(same_value(n * 1e9 / longest, rate) for n in allowed):
                yield _alone(run, "result_samples_per_second", rate, samples * 1e9 / longest,
                             f"{number(samples)} samples / the longest latency of {quantity(longest / 1e9, 's')}")  # fmt: skip
    elif run.scenario == "SingleStream":
        rate, mean = stated("result_qps_without_loadgen_overhead"), stated("result_mean_latency_ns")
        if rate and mean and not same_value(1e9 / mean, rate):
            yield _alone(
                run, "result_qps_without_loadgen_overhead", rate, 1e9 / mean, "1e9 / mean latency"
            )
    elif run.scenario == "Server":
        done, due = (
            stated("result_completed_samples_per_sec"),
            stated("result_scheduled_samples_per_sec"),
        )
        if done and due and done > due * (1 + QUOTIENT) + 0.01:
            yield _alone(
                run, "result_completed_samples_per_sec", done, due, "the scheduled rate (at most)"
            )
    for template, ends in _FAMILIES:
        last: tuple[str, float] | None = None
        keys = [ends.format("min"), *(template.format(p) for p in PERCENTS), ends.format("max")]
        for key in keys:
            value = stated(key)
            if value is None:
                continue
            if last is not None and value < last[1]:
                yield _alone(run, key, value, last[1], f"{last[0]} (at least)")
                break
            last = (key, value)


def _alone(run: Run, key: str, found: float, computed: float, formula: str) -> Problem:
    line = run.summary.line(key) if run.summary is not None else None
    texts = pair(found, computed)
    return Problem(
        f"found {key} {texts[0]}; expected {texts[1]}, from {formula}",
        path=run.summary_path, line=line, found=found, required=computed,
        evidence=evidence(formula, "high", {key: found, "computed": computed}, {key: line or 0}),
    )  # fmt: skip


@rule("R128", WARNING, needs="accuracy.text")
def tokens_per_sample(result: Result, round: Round) -> Iterator[Problem]:
    """The performance run gave as many tokens per sample as the accuracy run.

    Why: shorter answers are faster; both runs must be made with the same output lengths.
    Fix: make both runs with the same build and the same limits on output length.
    Source: LoadGen: token and sample rates; accuracy.txt: tokens per sample.
    """
    run, text = result.performance, result.accuracy.text if result.accuracy is not None else None
    if run is None or text is None or result.inferred_from is not None:
        raise NotJudged
    gates = {gate.metric for gate in [*result.gates, *result.limits]}
    stated = text.first("TOKENS_PER_SAMPLE") if "TOKENS_PER_SAMPLE" in gates else None
    if stated is None or not stated.value:
        raise NotJudged
    look = measured_log(run, "Offline", "Server")
    tokens = look.number(
        "result_tokens_per_second"
        if run.scenario == "Offline"
        else "result_completed_tokens_per_second"
    )
    samples = look.number(
        "result_samples_per_second"
        if run.scenario == "Offline"
        else "result_completed_samples_per_sec"
    )
    if not tokens or not samples:
        raise NotJudged
    measured = tokens / samples
    if abs(measured / stated.value - 1) > 0.05:
        key = (
            "result_tokens_per_second"
            if run.scenario == "Offline"
            else "result_completed_tokens_per_second"
        )
        yield Problem(
            f"found {number(measured)} tokens per sample; expected {number(stated.value)} within 5%, as in "
            f"accuracy.txt (line {stated.line})",
            path=run.detail_path, line=look.detail.line(key), found=float(f"{measured:.6g}"),
            required=stated.value,
            evidence=look.evidence(
                "token rate / sample rate = tokens per sample in accuracy.txt, within 5 %", "high",
                **{"accuracy.txt": stated.value, "accuracy.txt line": stated.line},
            ),
        )  # fmt: skip


@rule("R129", NOTE, needs="detail")
def rate_as_scheduled(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """Server's scheduled rate is its target rate, within statistical error.

    Why: arrivals are random, and over n queries their rate varies by about 1 / sqrt(n).
    Fix: nothing; R205 compares the rate with the replayed schedule, which is exact.
    Source: LoadGen loadgen.cc: exponential waiting times; five standard deviations are granted.
    """
    look = measured_log(run, "Server")
    count = look.integer("result_query_count")
    scheduled, target = (
        look.number("result_scheduled_samples_per_sec"),
        look.number("effective_target_qps"),
    )
    if not count or not scheduled or not target or count < 2:
        raise NotJudged
    allowed = 5 / math.sqrt(count)
    if abs(scheduled / target - 1) > allowed:
        yield _contradiction(
            run, look, "result_scheduled_samples_per_sec", scheduled, target,
            f"the target rate (within {quantity(allowed * 100, '%', digits=2)})", "low",
        )  # fmt: skip


@rule("R130", NOTE, needs="detail")
def clock_remarks(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """LoadGen's own comparison of its two clocks found no drift.

    Why: latencies are only as good as the clock that measured them.
    Fix: measure on a system with a stable clock source.
    Source: LoadGen loadgen.cc: its warning when the performance and wall clocks differ by 0.1 %.
    """
    detail = _log(run)
    for entry in [*detail.all("warning_generic_message"), *detail.all("error_runtime")]:
        text = str(entry.value)
        if "PerfClock" in text or "system_clock" in text:
            yield Problem(
                f"found that LoadGen reported clock drift; expected no such warning: {text[:200]}", path=run.detail_path,
                line=entry.line, found=text[:200],
                evidence=evidence("no record names the clocks", "moderate", {}, {entry.key: entry.line}),
            )  # fmt: skip
            return


@rule("R131", WARNING, needs=("log_file", "text"))
def hash_of_whole_log(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """The hash in accuracy.txt is that of the accuracy log, where the log is whole.

    Why: it binds the metric to the answers that it was computed from.
    Fix: run `assay truncate` on the whole accuracy log, and publish what it wrote.
    Source: submission_rules.adoc, "Truncation of accuracy logs": SHA-256 of the whole log.
    """
    file, text = run.log_file, run.text
    if file is None or text is None or not text.hashes or file.state != "file" or file.size < 16:
        raise NotJudged
    if file.size > _HASHED_BYTES or _truncated(run):
        raise NotJudged
    try:
        found = sha256_of(file)
    except Unreadable as error:
        raise NotJudged from error
    if found not in {value.lower() for value, _ in text.hashes}:
        value, line = text.hashes[-1]
        yield Problem(
            f"found hash={value}; expected {found}, the SHA-256 of the accuracy log beside it",
            path=text.path, line=line, found=value, required=found,
            evidence=evidence(
                "SHA-256 of the accuracy log = hash in accuracy.txt", "moderate",
                {"accuracy.txt": value, "accuracy log": found, "bytes": file.size}, {"hash": line},
            ),
        )  # fmt: skip


_HASHED_BYTES = 1 << 30


def _truncated(run: AccuracyRun) -> bool:
    from checker.audit.replayed import read_records

    return run.log_file is None or read_records(run.log_file).cut
