"""Family R: figures of one log, or of one result, that bind each other.

A cheat changes one figure and leaves its relatives. Each rule states its formula, its bounds and the
distribution that they were taken from; where the rounds that were not used for a bound contain an
exception, the rule is a warning.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from checker import loadgen_keys as keys
from checker.audit.evidence import evidence
from checker.consistency import exact_tokens_per_sample
from checker.model import ComplianceRun, PerformanceRun, Result
from checker.parse.detail import DetailLog
from checker.rule import ERROR, WARNING, NotJudged, Problem, rule
from checker.rules.audit_run import QUOTIENT, measured_log
from checker.wording import number, quantity, rounded
from schemas.round import Round

FIRST_TOKEN_MEAN = "result_first_token_mean_latency_ns"
PER_TOKEN_MEAN = "result_time_to_output_token_mean"
MEAN_LATENCY = "result_mean_latency_ns"

_LEAST_QUERIES = 500
"""Fewer queries than this do not make a distribution."""


_TOKEN_TIME = (0.93, 1.03)


@rule("R132", WARNING, cases={"impossible": ERROR})
def token_times_add_up(
    run: PerformanceRun | ComplianceRun, round: Round, detail: DetailLog
) -> Iterator[Problem]:
    """Mean latency is mean time to first token plus the mean time of the other tokens.

    (mean latency - mean TTFT) / (mean TPOT x (tokens per sample - 1)) is 0.96 to 1.01 in 85 runs of
    500 and more queries of v4.1 to v6.1, but for one of deepseek-r1 (0.84), whose answers differ
    most in length. Outside 0.5 to 2 it is an error.

    Why: the three means are of the same queries; one that is changed alone no longer fits.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: latency, TTFT and TPOT of every query; published v4.1 to v6.1.
    """
    look = measured_log(run, "Server")
    count = look.integer(keys.QUERY_COUNT)
    tokens = exact_tokens_per_sample(detail)
    mean, first = look.number(MEAN_LATENCY), look.number(FIRST_TOKEN_MEAN)
    each = look.number(PER_TOKEN_MEAN)
    if None in (count, tokens, mean, first, each):
        raise NotJudged
    assert count is not None and tokens is not None and each is not None
    assert mean is not None and first is not None
    if count < _LEAST_QUERIES or tokens <= 1 or each <= 0:
        raise NotJudged
    ratio = (mean - first) / (each * (tokens - 1))
    low, high = _TOKEN_TIME
    if not low <= ratio <= high:
        yield Problem(
            f"mean latency less mean TTFT is {number(ratio)} times mean TPOT x (tokens per sample - "
            f"1); expected {low:g} to {high:g}",
            path=run.detail_path,
            line=detail.line(PER_TOKEN_MEAN),
            found=float(f"{ratio:.5g}"),
            required=[low, high],
            case=None if 0.5 <= ratio <= 2 else "impossible",
            evidence=look.evidence(
                "(mean latency - mean TTFT) / (mean TPOT x (tokens per sample - 1))",
                "moderate",
                tokens_per_sample=float(f"{tokens:.8g}"),
            ),
        )


@rule("R133", ERROR)
def token_throughput_follows(
    run: PerformanceRun | ComplianceRun, round: Round, detail: DetailLog
) -> Iterator[Problem]:
    """Token throughput is tokens per sample over mean latency.

    Equal to 1e-4, the six digits that LoadGen prints, in all 123 Server runs of v4.1 to v6.1.

    Why: LoadGen divides the same tokens once by the run's time and once by the latencies.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: result_token_throughput; published v4.1 to v6.1.
    """
    look = measured_log(run, "Server")
    tokens = exact_tokens_per_sample(detail)
    stated = look.number(keys.TOKEN_THROUGHPUT)
    mean = look.number(MEAN_LATENCY)
    look.number(keys.COMPLETED_TOKENS_PER_SECOND), look.number(keys.COMPLETED_SAMPLES_PER_SECOND)
    if not tokens or not stated or not mean:
        raise NotJudged
    expected = tokens / mean
    if abs(stated / expected - 1) > 5 * QUOTIENT:
        yield Problem(
            f"{keys.TOKEN_THROUGHPUT} is {quantity(stated * 1e9, 'tokens/s')} per query; the token "
            f"rate, the sample rate and the mean latency give {quantity(expected * 1e9, 'tokens/s')}",
            path=run.detail_path,
            line=detail.line(keys.TOKEN_THROUGHPUT),
            found=stated,
            required=float(f"{expected:.6g}"),
            evidence=look.evidence(
                "token rate / sample rate / mean latency = token throughput", "certain"
            ),
        )


_CLOCK_ROOM_S = (-0.05, 30.0)


@rule("R134", WARNING, cases={"stretched": ERROR})
def clocks_of_one_run(
    run: PerformanceRun | ComplianceRun, round: Round, detail: DetailLog
) -> Iterator[Problem]:
    """The log's own clock and the wall clock measured the same time.

    time_ms(power_end) - time_ms(generated_query_count) - (power_end - power_begin) is -0.0005 to
    8.5 s in all performance and compliance runs of v0.5 to v6.1: the log's clock starts a little earlier, while samples load.

    Why: a run whose duration was stretched or cut in one clock shows it in the other.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen loadgen.cc: power_begin, power_end; logging.cc: time_ms; published rounds.
    """
    if detail.format != "mllog" or run.kind == "ranging" or run.lasted is None:
        raise NotJudged
    begin, end = detail.entry(keys.GENERATED_QUERY_COUNT), detail.entry(keys.POWER_END)
    if begin is None or end is None:
        raise NotJudged
    inside = (end.time_ms - begin.time_ms) / 1000
    difference = inside - run.lasted
    low, high = _CLOCK_ROOM_S
    if not low <= difference <= high:
        yield Problem(
            f"the log's clock ran {quantity(rounded(inside), 's')} from "
            f"{keys.GENERATED_QUERY_COUNT} to power_end, power_begin and power_end are "
            f"{quantity(rounded(run.lasted), 's')} apart; expected {low:g} to {high:g} s more",
            path=run.detail_path,
            line=end.line,
            found=rounded(difference),
            required=[low, high],
            case="stretched" if abs(difference) > 0.02 * run.lasted + 1 else None,
            evidence=evidence(
                "time_ms(power_end) - time_ms(generated_query_count) - (power_end - power_begin)",
                "high",
                {
                    "time_ms(power_end)": end.time_ms,
                    "time_ms(generated_query_count)": begin.time_ms,
                    "power_end - power_begin, s": run.lasted,
                },
                {keys.POWER_END: end.line, keys.GENERATED_QUERY_COUNT: begin.line},
            ),
        )


_BUSY = {"SingleStream": 0.85, "MultiStream": 0.4}


@rule("R135", ERROR, cases={"multistream": WARNING})
def queries_fill_the_run(
    run: PerformanceRun | ComplianceRun, round: Round, detail: DetailLog
) -> Iterator[Problem]:
    """In SingleStream and MultiStream the queries' latencies fill the run.

    queries x mean latency / (power_end - power_begin) is 0.92 to 1.00 in 204 SingleStream runs and
    0.56 to 1.00 in 110 MultiStream runs of v0.5 to v6.1.

    Why: one query follows the other; a run that is longer than its queries was stretched, or its
    latencies were lowered.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen issue_query_controller: the next query is issued on completion; published rounds.
    """
    if run.scenario not in _BUSY:
        raise NotJudged
    look = measured_log(run)
    count, mean = look.integer(keys.QUERY_COUNT), look.number(MEAN_LATENCY)
    if not count or not mean or not run.lasted or run.lasted < 5:
        raise NotJudged
    share = count * mean / 1e9 / run.lasted
    least = _BUSY[run.scenario]
    if share < least:
        yield Problem(
            f"{quantity(count, 'query')} with a mean latency of {quantity(mean / 1e6, 'ms')} fill "
            f"{share:.1%} of {quantity(rounded(run.lasted), 's')} between power_begin and "
            f"power_end; expected at least {least:.0%}",
            path=run.detail_path,
            line=detail.line(MEAN_LATENCY),
            found=float(f"{share:.4g}"),
            required=least,
            case="multistream" if run.scenario == "MultiStream" else None,
            evidence=look.evidence(
                "queries x mean latency / (power_end - power_begin)",
                "high",
                **{"power_end - power_begin, s": run.lasted},
            ),
        )


_TAIL_ROOM = (-1.0, 0.5)


@rule("R136", WARNING, cases={"far": ERROR})
def overlatency_fits_tail(
    run: PerformanceRun | ComplianceRun, round: Round, detail: DetailLog
) -> Iterator[Problem]:
    """The share of queries over the latency limit lies where the tail between p99 and p99.9 puts it.

    log10 of (share found / share expected) is -0.59 to 0.09 in 62 Server runs of v0.5 to v6.1 whose
    limit lies between p99 and p99.9; the tail is taken as a straight line in log10.

    Why: lowered latencies move the percentiles but not the count, or the other way round.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: overlatency_query_count; published rounds.
    """
    look = measured_log(run, "Server")
    count, over = look.integer(keys.QUERY_COUNT), look.integer(keys.OVERLATENCY_COUNT)
    limit = look.number(keys.TARGET_LATENCY)
    p99 = look.number("result_99.00_percentile_latency_ns")
    p999 = look.number("result_99.90_percentile_latency_ns")
    if None in (count, over, limit, p99, p999):
        raise NotJudged
    assert count is not None and over is not None and limit is not None
    assert p99 is not None and p999 is not None
    if count < 10_000 or p999 <= p99:
        raise NotJudged
    share = over / count
    if limit <= p99 or limit >= p999:
        # Outside the two percentiles only the side is known.
        wrong = share < 0.0099 if limit < p99 else share > 0.00101
        distance, expected = math.inf, "at least 1%" if limit < p99 else "at most 0.1%"
    else:
        expected_share = 10 ** (-2 - (limit - p99) / (p999 - p99))
        distance = math.log10(max(share, 0.1 / count) / expected_share)
        low, high = _TAIL_ROOM
        wrong = not low <= distance <= high
        expected = f"about {expected_share:.3%}"
    if wrong:
        yield Problem(
            f"{quantity(over, 'query')} of {number(count)} ({share:.3%}) are over the limit of "
            f"{quantity(limit / 1e6, 'ms')}; with p99 {quantity(p99 / 1e6, 'ms')} and p99.9 "
            f"{quantity(p999 / 1e6, 'ms')} expected {expected}",
            path=run.detail_path,
            line=detail.line(keys.OVERLATENCY_COUNT),
            found=float(f"{share:.4g}"),
            required=expected,
            case="far" if abs(distance) > 2 else None,
            evidence=look.evidence(
                "log10(share over the limit) against the line from p99 to p99.9", "moderate"
            ),
        )


_STEP = (0.05, 300.0)


@rule("R137", WARNING)
def percentiles_in_proportion(
    run: PerformanceRun | ComplianceRun, round: Round, detail: DetailLog
) -> Iterator[Problem]:
    """The step from p97 to p99 is in proportion to the step from p95 to p97.

    (p99 - p97) / (p97 - p95) is 0.10 to 62 in 585 runs of 1,000 and more queries of v0.5 to v6.1.

    Why: one percentile that is lowered alone leaves a step that no distribution has.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: percentiles; published rounds.
    """
    look = measured_log(run, "SingleStream", "MultiStream", "Server")
    count = look.integer(keys.QUERY_COUNT)
    p95, p97, p99 = (
        look.number(f"result_{p}_percentile_latency_ns") for p in ("95.00", "97.00", "99.00")
    )
    if count is None or count < 1000 or p95 is None or p97 is None or p99 is None or p97 <= p95:
        raise NotJudged
    ratio = (p99 - p97) / (p97 - p95)
    low, high = _STEP
    if not low <= ratio <= high:
        yield Problem(
            f"the step from p97 to p99 is {number(ratio)} times the step from p95 to p97; expected "
            f"{low:g} to {high:g}",
            path=run.detail_path,
            line=detail.line("result_99.00_percentile_latency_ns"),
            found=float(f"{ratio:.4g}"),
            required=[low, high],
            evidence=look.evidence("(p99 - p97) / (p97 - p95)", "moderate"),
        )


_SECOND_STOPWATCH = (0.88, 1.5)


@rule("R138", WARNING, needs={"measured": "performance.detail", "accuracy": "accuracy.detail"})
def accuracy_run_as_stopwatch(
    result: Result, round: Round, measured: DetailLog, accuracy: DetailLog
) -> Iterator[Problem]:
    """The accuracy run's last loaded set takes as long as the performance run's latencies say.

    interval / (queries x mean latency of the performance run) is 0.92 to 1.09 where the queries take
    50 ms or more and the set 30 s or more, but for two of 15 results of v0.7 to v6.1: a small board
    (1.49) and samples that differ in size (1.44). So few results do not make an error.

    Why: a log that is scaled as a whole is consistent with itself, but not with the accuracy run.
    Fix: make both runs with the same build and the same settings.
    Source: LoadGen: loaded_qsl_set, power_end; published rounds.
    """
    run, other = result.performance, result.accuracy
    if run is None or other is None or other.mode != "AccuracyOnly":
        raise NotJudged
    if run.scenario not in ("SingleStream", "MultiStream") or other.scenario != run.scenario:
        raise NotJudged
    if result.inferred_from is not None or measured.format != "mllog":
        raise NotJudged
    mean = measured.number(MEAN_LATENCY)
    end, loaded = accuracy.entry(keys.POWER_END), accuracy.entry(keys.LOADED_SET)
    per_query = measured.number(keys.SAMPLES_PER_QUERY) if run.scenario == "MultiStream" else 1
    if not mean or mean < 5e7 or end is None or loaded is None or not per_query:
        raise NotJudged
    samples = loaded.value
    if not isinstance(samples, list) or len(samples) < 200:
        raise NotJudged
    seconds = (end.time_ms - loaded.time_ms) / 1000
    queries = math.ceil(len(samples) / per_query)
    if seconds < 30:
        raise NotJudged
    ratio = seconds * 1e9 / (queries * mean)
    low, high = _SECOND_STOPWATCH
    if not low <= ratio <= high:
        yield Problem(
            f"the accuracy run took {quantity(rounded(seconds), 's')} for {number(queries)} "
            f"queries, {number(ratio)} times what the performance run's mean latency of "
            f"{quantity(mean / 1e6, 'ms')} gives; expected {low:g} to {high:g} times",
            path=run.detail_path,
            line=measured.line(MEAN_LATENCY),
            found=float(f"{ratio:.4g}"),
            required=[low, high],
            evidence=evidence(
                "(time_ms(power_end) - time_ms(last loaded_qsl_set)) / (queries x mean latency)",
                "moderate",
                {"seconds": seconds, "queries": queries, MEAN_LATENCY: mean},
                {keys.POWER_END: end.line, keys.LOADED_SET: loaded.line},
            ),
        )
