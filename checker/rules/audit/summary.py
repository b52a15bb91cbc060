"""Family R: the summary log against the detail log, and against itself."""

from __future__ import annotations

import math

from checker import loadgen_keys as keys
from checker.audit.evidence import counted, evidence
from checker.consistency import same_value
from checker.early_stopping import parse
from checker.model import LoggedRun, MeasuredRun, Run
from checker.rule import ERROR, NotJudged, Problem, Problems, given, rule
from checker.rules.audit.found import QUOTIENT, as_words, json_log, measured_log, whole_sets
from checker.wording import number, pair, quantity
from schemas.round import Round


@rule("R126", ERROR, needs=("detail", "summary"))
def summary_remainder(run: LoggedRun, round: Round) -> Problems:
    """Headline, estimates and error count in the summary match the detail log.

    Why: LoadGen writes both from the same numbers; a difference means one is edited or of another
    run.
    Fix: put the two logs of one and the same run into the folder.
    Source: LoadGen results.cc: headline percentile, early-stopping text, error count.
    """
    detail = json_log(run)
    summary = given(run.summary)
    if summary.headline_percentile is not None:
        percent, value, line = summary.headline_percentile
        names = [
            f"result_{percent:.2f}_percentile_per_query_latency_ns",
            f"result_{percent:.2f}_percentile_latency_ns",
        ]
        known = {key: logged for key in names if (logged := detail.number(key)) is not None}
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
                run,
                line,
                f"the early-stopping estimate of the {percent:g}th percentile (ns)",
                value,
                "early_stopping_result",
                min(estimates[percent]),
            )
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
    texts = as_words(printed, logged)
    return Problem(
        f"found {what} {texts[0]}; expected {texts[1]}, from {key} in the detail log"
        f"{f' (line {at})' if at else ''}",
        path=run.summary_path,
        line=line,
        found=printed,
        required=logged,
        evidence=evidence(
            "the summary repeats the detail log",
            "high",
            {"summary": printed, "detail log": logged},
            {"summary": line or 0, "detail log": at or 0},
        ),
    )


@rule("R127", ERROR, needs=("detail", "summary"))
def summary_alone(run: MeasuredRun, round: Round) -> Problems:
    """The numbers in the summary agree with each other.

    Why: the rate of a run determines its latencies, in the summary as in the detail log.
    Fix: use the summary log as LoadGen wrote it.
    Source: LoadGen results.cc: samples / longest latency, 1e9 / mean latency, percentiles in order.
    """
    summary = given(run.summary)
    measured_log(run)
    if run.detail is None:
        raise NotJudged

    def stated(key: str) -> float | None:
        value = summary.get(key)
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if plain and math.isfinite(value) else None

    if run.scenario == "Offline":
        rate, longest = stated("result_samples_per_second"), stated("result_max_latency_ns")
        samples = counted(run.detail, "generated_samples_per_query")
        if rate and longest and samples:
            allowed = [*whole_sets(run.detail, samples)]
            total = counted(run.detail, "result_query_count")
            if total and total > 1:
                allowed.append(total)
            if not any(same_value(n * 1e9 / longest, rate) for n in allowed):
                formula = f"{number(samples)} samples / the longest latency of {quantity(longest / 1e9, 's')}"
                yield _alone(
                    run, "result_samples_per_second", rate, samples * 1e9 / longest, formula
                )
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
    for family in keys.LATENCIES:
        last: tuple[str, float] | None = None
        for key in family.rising:
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
        path=run.summary_path,
        line=line,
        found=found,
        required=computed,
        evidence=evidence(formula, "high", {key: found, "computed": computed}, {key: line or 0}),
    )
