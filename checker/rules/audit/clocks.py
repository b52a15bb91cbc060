"""Family R: rates, latencies and durations against a second clock."""

from __future__ import annotations

import math

from checker import loadgen_keys as keys
from checker.audit import figures
from checker.audit.evidence import evidence
from checker.model import MeasuredRun, Result
from checker.parse.detail import DetailLog
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, Problems, given, rule
from checker.rules.audit.found import QUOTIENT, contradiction, json_log, measured_log, whole_sets
from checker.wording import number, quantity, rounded
from schemas.round import Round

_CLOCK_NS = 5e6
"""power_begin and power_end are written in whole milliseconds, a little outside the run."""


@rule("R103", ERROR, needs="detail")
def offline_rate_by_clock(run: MeasuredRun, round: Round) -> Problems:
    """Offline's rate times the time between power_begin and power_end is the number of samples.

    Why: the system clock measured the same run a second time, apart from the latencies.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen loadgen.cc (power_begin, power_end) and results.cc (samples per second).
    """
    look = measured_log(run, "Offline")
    rate = given(look.number("result_samples_per_second") or None)
    per_query = given(look.integer("generated_samples_per_query") or None)
    seconds = given(run.lasted or None)
    look.text("power_begin"), look.text("power_end")
    if seconds <= 0:
        raise NotJudged
    wanted = set(whole_sets(look.detail, per_query))
    total = look.integer("result_query_count")
    if total and total > 1:
        wanted.add(total)
    room = rate * (0.020 + 5e-5 * seconds) + 1
    if not any(abs(rate * seconds - samples) <= room for samples in wanted):
        samples = min(wanted, key=lambda n: abs(rate * seconds - n))
        formula = f"{number(samples)} samples / {seconds:,.3f} s between power_begin and power_end"
        yield contradiction(
            run, look, "result_samples_per_second", rate, samples / seconds, formula
        )


@rule("R104", ERROR, needs="detail")
def single_stream_by_clock(run: MeasuredRun, round: Round) -> Problems:
    """SingleStream's latencies and rate fit into the time between power_begin and power_end.

    Why: queries run one after the other, so their latencies add up to the run's time.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: mean latency, rate with overhead; loadgen.cc: power interval.
    """
    look = measured_log(run, "SingleStream")
    count = given(look.integer("result_query_count") or None)
    mean = given(look.number("result_mean_latency_ns"))
    longest = given(look.number("result_max_latency_ns"))
    rate = look.number("result_qps_with_loadgen_overhead")
    seconds = given(run.lasted)
    look.text("power_begin"), look.text("power_end")
    lasted = seconds * 1e9
    total = mean * count
    if total > lasted + _CLOCK_NS * 4 + QUOTIENT * lasted + count:
        formula = f"{seconds:,.3f} s between power_begin and power_end / {number(count)} queries (at most)"
        yield contradiction(run, look, "result_mean_latency_ns", mean, lasted / count, formula)
    if rate:
        issued = (count - 1) * 1e9 / rate
        room = longest + _CLOCK_NS * 4 + QUOTIENT * lasted + 0.002 * lasted
        if abs(lasted - issued) > room:
            formula = f"({number(count)} queries - 1) / {seconds:,.3f} s between power_begin and power_end"
            yield contradiction(
                run, look, "result_qps_with_loadgen_overhead", rate, (count - 1) / seconds, formula
            )


@rule("R105", ERROR, needs="detail")
def server_by_clock(run: MeasuredRun, round: Round) -> Problems:
    """Server's schedule and completion times enclose the time between power_begin and power_end.

    Why: the run lasts from the first query to the last answer, by the system clock too.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: scheduled and completed rates; loadgen.cc: power interval.
    """
    look = measured_log(run, "Server")
    count = given(look.integer("result_query_count") or None)
    scheduled = given(look.number("result_scheduled_samples_per_sec") or None)
    completed = look.number("result_completed_samples_per_sec")
    longest = given(look.number("result_max_latency_ns"))
    seconds = given(run.lasted)
    look.text("power_begin"), look.text("power_end")
    if count < 2:
        raise NotJudged
    span = (count - 1) / scheduled
    room = 0.02 + 5e-5 * seconds
    if seconds < span - room or seconds > span + longest / 1e9 + room:
        formula = (
            f"({number(count)} queries - 1) / {seconds:,.3f} s between power_begin and power_end, "
            f"minus at most the longest latency of {quantity(longest / 1e9, 's')}"
        )
        yield contradiction(
            run, look, "result_scheduled_samples_per_sec", scheduled, (count - 1) / seconds, formula
        )
    if completed:
        done = (count - 1) / completed
        if done > seconds + room or done < span - room:
            yield contradiction(
                run,
                look,
                "result_completed_samples_per_sec",
                completed,
                (count - 1) / seconds,
                f"({number(count)} queries - 1) / {seconds:,.3f} s between power_begin and power_end "
                "(at least)",
            )


@rule("R129", NOTE, needs="detail")
def rate_as_scheduled(run: MeasuredRun, round: Round) -> Problems:
    """Server's scheduled rate is its target rate, within statistical error.

    Why: arrivals are random, and over n queries their rate varies by about 1 / sqrt(n).
    Fix: nothing; R205 compares the rate with the replayed schedule, which is exact.
    Source: LoadGen loadgen.cc: exponential waiting times; five standard deviations are granted.
    """
    look = measured_log(run, "Server")
    count = given(look.integer("result_query_count") or None)
    scheduled, target = (
        look.number("result_scheduled_samples_per_sec"),
        look.number("effective_target_qps"),
    )
    if not scheduled or not target or count < 2:
        raise NotJudged
    allowed = 5 / math.sqrt(count)
    if abs(scheduled / target - 1) > allowed:
        formula = f"the target rate (within {quantity(allowed * 100, '%', digits=2)})"
        yield contradiction(
            run, look, "result_scheduled_samples_per_sec", scheduled, target, formula, "low"
        )


@rule("R130", NOTE, needs="detail")
def clock_remarks(run: MeasuredRun, round: Round) -> Problems:
    """LoadGen's own comparison of its two clocks found no drift.

    Why: latencies are only as good as the clock that measured them.
    Fix: measure on a system with a stable clock source.
    Source: LoadGen loadgen.cc: its warning when the performance and wall clocks differ by 0.1%.
    """
    detail = json_log(run)
    for entry in [*detail.all("warning_generic_message"), *detail.all("error_runtime")]:
        text = str(entry.value)
        if "PerfClock" in text or "system_clock" in text:
            yield Problem(
                f"found that LoadGen reported clock drift; expected no such warning: {text[:200]}",
                path=run.detail_path,
                line=entry.line,
                found=text[:200],
                evidence=evidence(
                    "no record names the clocks", "moderate", {}, {entry.key: entry.line}
                ),
            )
            return


@rule("R134", WARNING, cases={"stretched": ERROR})
def clocks_of_one_run(run: MeasuredRun, round: Round, detail: DetailLog) -> Problems:
    """The log's own clock and the wall clock measured the same time.

    time_ms(power_end) - time_ms(generated_query_count) - (power_end - power_begin) is -0.0005 to
    8.5 s in all performance and compliance runs of v0.5 to v6.1: the log's clock starts a little earlier, while samples load.

    Why: a run whose duration was stretched or cut in one clock shows it in the other.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen loadgen.cc: power_begin, power_end; logging.cc: time_ms; published rounds.
    """
    figure = figures.CLOCKS
    difference, lasted = figures.clock_difference(run), run.lasted
    begin, end = detail.entry(keys.GENERATED_QUERY_COUNT), detail.entry(keys.POWER_END)
    if difference is None or lasted is None or begin is None or end is None:
        raise NotJudged
    if not figure.holds(difference):
        yield Problem(
            f"found {quantity(rounded(lasted + difference), 's')} from {keys.GENERATED_QUERY_COUNT} to "
            f"power_end by the log's clock; expected {figure.low:g} to {figure.high:g} s more than the "
            f"{quantity(rounded(lasted), 's')} between power_begin and power_end",
            path=run.detail_path,
            line=end.line,
            found=rounded(difference),
            required=[figure.low, figure.high],
            case="stretched" if abs(difference) > 0.02 * lasted + 1 else None,
            evidence=evidence(
                figure.formula,
                "high",
                {
                    "time_ms(power_end)": end.time_ms,
                    "time_ms(generated_query_count)": begin.time_ms,
                    "power_end - power_begin, s": lasted,
                },
                {keys.POWER_END: end.line, keys.GENERATED_QUERY_COUNT: begin.line},
            ),
        )


@rule("R135", ERROR, cases={"multistream": WARNING})
def queries_fill_the_run(run: MeasuredRun, round: Round, detail: DetailLog) -> Problems:
    """In SingleStream and MultiStream the queries' latencies fill the run.

    queries x mean latency / (power_end - power_begin) is 0.92 to 1.00 in 204 SingleStream runs and
    0.56 to 1.00 in 110 MultiStream runs of v0.5 to v6.1.

    Why: one query follows the other; a run that is longer than its queries was stretched, or its
    latencies were lowered.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen issue_query_controller: the next query is issued on completion; published rounds.
    """
    look = measured_log(run, "SingleStream", "MultiStream")
    single = run.scenario == "SingleStream"
    figure = figures.SINGLE_STREAM_BUSY if single else figures.MULTI_STREAM_BUSY
    share = given((figures.single_stream_busy if single else figures.multi_stream_busy)(run, look))
    count, mean = look.integer(keys.QUERY_COUNT), look.number(keys.LATENCY.mean)
    if count is None or mean is None or run.lasted is None:
        raise NotJudged
    if not figure.holds(share):
        yield Problem(
            f"found {quantity(count, 'query')} with a mean latency of {quantity(mean / 1e6, 'ms')} in "
            f"{quantity(rounded(run.lasted), 's')} between power_begin and power_end, {share:.1%} of "
            f"that time; expected at least {figure.low:.0%}",
            path=run.detail_path,
            line=detail.line(keys.LATENCY.mean),
            found=float(f"{share:.4g}"),
            required=figure.low,
            case=None if single else "multistream",
            evidence=look.evidence(
                figure.formula, "high", **{"power_end - power_begin, s": run.lasted}
            ),
        )


@rule("R138", WARNING, needs={"measured": "performance.detail", "accuracy": "accuracy.detail"})
def accuracy_run_as_stopwatch(
    result: Result, round: Round, measured: DetailLog, accuracy: DetailLog
) -> Problems:
    """The accuracy run's last loaded set takes as long as the performance run's latencies say.

    interval / (queries x mean latency of the performance run) is 0.92 to 1.09 where the queries take
    50 ms or more and the set 30 s or more, but for two of 15 results of v0.7 to v6.1: a small board
    (1.49) and samples that differ in size (1.44). So few results do not make an error.

    Why: a log that is scaled as a whole is consistent with itself, but not with the accuracy run.
    Fix: make both runs with the same build and the same settings.
    Source: LoadGen: loaded_qsl_set, power_end; published rounds.
    """
    figure = figures.STOPWATCH
    found = given(figures.stopwatch(result))
    end, loaded = accuracy.entry(keys.POWER_END), accuracy.entry(keys.LOADED_SET)
    if end is None or loaded is None:
        raise NotJudged
    if not figure.holds(found.ratio):
        yield Problem(
            f"found {quantity(rounded(found.seconds), 's')} for the {quantity(found.queries, 'query')} "
            f"of the accuracy run's last loaded set, {number(found.ratio)} times as long as the "
            f"performance run's mean latency of {quantity(found.mean / 1e6, 'ms')} gives; expected "
            f"{figure.low:g} to {figure.high:g} times",
            path=measured.path,
            line=measured.line(keys.LATENCY.mean),
            found=float(f"{found.ratio:.4g}"),
            required=[figure.low, figure.high],
            evidence=evidence(
                figure.formula,
                "moderate",
                {"seconds": found.seconds, "queries": found.queries, keys.LATENCY.mean: found.mean},
                {keys.POWER_END: end.line, keys.LOADED_SET: loaded.line},
            ),
        )
