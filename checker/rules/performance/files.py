"""Family P: the performance run's files and folders, and the scenario they hold."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checker import loadgen_keys as keys
from checker import metrics
from checker.early_stopping import parse
from checker.model import (
    AccuracyRun,
    ComplianceRun,
    PerformanceRun,
    PoweredRun,
    RangingRun,
    Result,
    Run,
)
from checker.parse.detail import DetailLog
from checker.parse.reading import File, Folder
from checker.parse.summary import SummaryLog
from checker.rule import ERROR, WARNING, NotJudged, Problem, Problems, rule
from checker.rules.comparing import at
from checker.wording import listed, quantity, shown
from schemas.round import Round, Scenario

_LOGS = ("mlperf_log_detail.txt", "mlperf_log_summary.txt")


@rule("P101", ERROR, needs=("complete", "uses_loadgen"))
def performance_log_present(result: Result, round: Round) -> Problems:
    """The performance run has a detail log.

    Why: it is the measurement; without it there is no result.
    Fix: put LoadGen's mlperf_log_detail.txt and mlperf_log_summary.txt into performance/run_1.
    Source: submission_rules.adoc, "Directory structure": performance/run_1.
    """
    folder = result.folder.folder("performance")
    if folder is None:
        text = "found no folder performance/; expected performance/run_1 with LoadGen's logs"
        yield Problem(text, path=result.path, required="performance/run_1")
        return
    if not result.runs:
        names = sorted(folder.folders)
        text = (
            f"found {listed(names) if names else 'no folder'} in performance/; expected run_1 with "
            "LoadGen's logs"
        )
        yield Problem(text, names, "run_1", folder.path)
    for run in result.runs:
        if run.detail is None:
            yield Problem("the run has no mlperf_log_detail.txt", path=run.detail_path)


@rule("P110", ERROR, needs={"run": "performance", "detail": "performance.detail"})
def scenario_matches(
    result: Result, round: Round, run: PerformanceRun, detail: DetailLog
) -> Problems:
    """The log is of the folder's scenario, or of one that the round lets it be inferred from.

    Why: a number measured in one scenario means nothing in another.
    Fix: move the run to the folder of the scenario that was run, or run the missing scenario.
    Source: inference_rules.adoc, "Scenarios"; the round's inference rules.
    """
    if not result.complete:
        # A run folder of its own is of the scenario that its log names.
        raise NotJudged
    ran = run.scenario
    if ran is None:
        text = f"{keys.SCENARIO} is absent; expected {result.loadgen_scenario}"
        yield at(run, keys.SCENARIO, text, None, result.scenario)
        return
    if result.scenario is None:
        # An unknown folder is reported by the structure rules.
        raise NotJudged
    if result.inferred_from is None:
        return
    formula = metrics.inference_for(result)
    if formula is None:
        text = (
            f"{keys.SCENARIO} is {ran}; expected {result.loadgen_scenario}: {round.name} does not "
            f"infer {result.scenario} from {ran}"
        )
        yield at(run, keys.SCENARIO, text, ran, result.loadgen_scenario)
        return
    category = result.category
    if formula.categories and category and not {*category.split(",")} & {*formula.categories}:
        text = (
            f"{result.scenario} is inferred from {ran} on a {category} system; {round.name} allows "
            f"this on {listed(formula.categories)} systems"
        )
        yield at(run, keys.SCENARIO, text, category, formula.categories)


@rule("P130", ERROR)
def summary_present(run: PerformanceRun, round: Round) -> Problems:
    """The performance run has a summary log.

    Why: it is one of the two required logs, and what reviewers read.
    Fix: put LoadGen's mlperf_log_summary.txt beside mlperf_log_detail.txt.
    Source: submission_rules.adoc, "Directory structure": performance/run_1.
    """
    if run.summary is None:
        yield Problem("the run has no mlperf_log_summary.txt", path=run.summary_path)


@rule("P137", ERROR, needs=("complete", "uses_loadgen"))
def run_count(
    result: Result, round: Round, rules: Scenario, runs: list[PerformanceRun]
) -> Problems:
    """The folder holds as many runs as the scenario requires.

    Why: v0.5 and v0.7 require five Server runs; later rounds one.
    Fix: add the missing run_N folders.
    Source: inference_rules.adoc of the round, "Scenarios": number of runs.
    """
    # Only a folder spelled exactly as the scenario was held to five runs.
    wanted = rules.runs if result.scenario_folder == result.scenario else 1
    first = runs[0]
    if len(runs) < wanted:
        text = (
            f"found {quantity(len(runs), 'performance run')}; {result.scenario} requires {wanted}"
        )
        yield Problem(text, len(runs), wanted, f"{result.path}/performance")
    elif first.index != 1:
        text = f"found the performance run in {first.path.rsplit('/', 1)[-1]}; expected run_1"
        yield Problem(text, first.index, 1, first.path)


@rule("P138", WARNING)
def no_extra_runs(result: Result, round: Round, extra_runs: list[str]) -> Problems:
    """The folder holds no run beyond those that the scenario requires.

    Why: only the required runs count; with others, a reader cannot see which one was meant.
    Fix: remove the run folders that are not part of the submission.
    Source: submission_rules.adoc, "Directory structure": performance/run_1.
    """
    for path in extra_runs:
        yield Problem("this run is beyond those that the scenario requires; not checked", path=path)


@rule("P141", ERROR, needs="result.complete")
def performance_files(run: PerformanceRun, round: Round, folder: Folder) -> Problems:
    """Beside its two logs, the run's folder holds every other file that the round requires.

    Why: v0.5 requires the performance run's accuracy log too, and a power run needs spl.txt.
    Fix: put the file that LoadGen or the power client wrote into the run's folder.
    Source: submission_rules.adoc of the round, "Directory structure".
    """
    layout = round.layout
    wanted = layout.power_run if run.result.power_folder is not None else layout.performance
    for name in wanted.required:
        if name not in folder.files and name not in _LOGS:
            yield Problem(f"the run has no {name}", path=f"{run.path}/{name}", required=name)


@rule("P143", WARNING, needs={"log": "logged_answers"})
def performance_accuracy_log_small(run: PerformanceRun, round: Round, log: File) -> Problems:
    """An accuracy log beside the performance run is no larger than the round publishes.

    Why: a performance run logs no answers, or the few that a test samples.
    Fix: remove mlperf_log_accuracy.json from performance/run_1, or run `assay truncate`.
    Source: submission_rules.adoc, "Truncation of accuracy logs".
    """
    limit = round.accuracy_log.max_bytes
    if limit is not None and log.size > limit:
        text = (
            f"the file has {quantity(log.size, 'byte')}; expected at most {quantity(limit, 'byte')}"
        )
        yield Problem(text, log.size, limit, log.path)


@rule("P147", ERROR, cases={"compliance": ERROR, "lines": WARNING})
def summary_whole(
    run: PerformanceRun | AccuracyRun | ComplianceRun | RangingRun,
    round: Round,
    summary: SummaryLog,
    detail: DetailLog | None = None,
) -> Problems:
    """The summary log is complete: every value once, and LoadGen's counts of warnings and errors at its end.

    Why: a summary that ends earlier is truncated, and LoadGen's errors may be what is missing.
    Fix: use the summary log as LoadGen wrote it.
    Source: LoadGen logging.cc: every run ends with its counts of warnings and errors; results.cc and
        test_settings_internal.cc: results and settings.
    """
    if any(fault.kind != "unusable" for fault in summary.faults):
        return
    if summary.errors is None:
        yield Problem(
            "the summary ends before LoadGen's count of errors; it is truncated",
            path=run.summary_path,
            line=summary.lines,
            required="No errors encountered during test.",
            case="compliance" if isinstance(run, ComplianceRun) else None,
            damage=True,
        )
        return
    if detail is not None and run.mode == "PerformanceOnly":
        if summary.titles != 1:
            found = quantity(summary.titles, "title") if summary.titles else "no title"
            yield Problem(
                f"found {found}; expected one line MLPerf Results Summary, with which LoadGen begins",
                found=summary.titles,
                path=run.summary_path,
                required="MLPerf Results Summary",
                case="lines",
            )
        missing = [key for key in _printed(run, detail) if key not in summary.values]
        per_query = keys.QUERY_LATENCY.minimum in detail
        headline = run.scenario == "SingleStream" or (run.scenario == "MultiStream" and per_query)
        if headline and summary.headline_percentile is None:
            missing.append("the percentile latency that is the result")
        printed = {percent for percent, _, _ in summary.estimates}
        for key in (keys.EARLY_STOPPING_RESULT, keys.EARLY_STOPPING_TTFT, keys.EARLY_STOPPING_TPOT):
            # LoadGen of v4.0 prints none of a language model.
            text = detail.text(key) if key in detail and summary.estimating else None
            for percent, _ in parse(text or "").estimates:
                if percent not in printed:
                    missing.append(f"the estimate of the {percent:g}th percentile")
        if missing:
            text = f"found no line for {listed(missing)}; expected each value that LoadGen prints"
            yield Problem(
                text, path=run.summary_path, required=missing[:50], case="lines", count=len(missing)
            )
    if summary.warnings is None:
        yield Problem(
            "found no count of warnings; expected the line that LoadGen writes before its count of errors",
            path=run.summary_path,
            required="No warnings encountered during test.",
            case="lines",
        )
    for key, first, again, line in summary.repeated[:1]:
        yield Problem(
            f"found {key} twice, as {shown(first)} and as {shown(again)}; expected one value",
            found=again,
            required=first,
            path=run.summary_path,
            line=line,
            case="lines",
            count=len(summary.repeated),
        )


_SETTINGS = (
    "scenario", "test_mode", "samples_per_query", "target_qps", "max_async_queries", "min_duration_ms",
    "max_duration_ms", "min_query_count", "max_query_count", *keys.SEEDS, "accuracy_log_rng_seed",
    "accuracy_log_probability", "accuracy_log_sampling_target", "print_timestamps",
    "performance_issue_unique", "performance_issue_same", "performance_issue_same_index",
    "performance_sample_count", "accuracy_sample_count",
)  # fmt: skip
_RESULTS = (
    keys.SUT_NAME, keys.VALIDITY, keys.MIN_DURATION_MET, keys.MIN_QUERIES_MET,
    keys.EARLY_STOPPING_MET, keys.CONSTRAINTS_MET, keys.SAMPLES_PER_SECOND, keys.TOKENS_PER_SECOND,
    keys.SCHEDULED_SAMPLES_PER_SECOND, keys.COMPLETED_SAMPLES_PER_SECOND, keys.QPS_WITH_OVERHEAD,
    keys.QPS_WITHOUT_OVERHEAD, keys.TTFT_LIMIT, keys.TPOT_LIMIT,
)  # fmt: skip
_ALWAYS = (*map(keys.effective, _SETTINGS), *_RESULTS)
_ONLY_PRINTED = {
    None: (keys.VALIDITY, keys.MIN_DURATION_MET, keys.MIN_QUERIES_MET),
    "Offline": (keys.SAMPLES_PER_SECOND,),
    "Server": (keys.SCHEDULED_SAMPLES_PER_SECOND, keys.CONSTRAINTS_MET),
    "SingleStream": (keys.QPS_WITH_OVERHEAD, keys.QPS_WITHOUT_OVERHEAD),
    "MultiStream": (keys.CONSTRAINTS_MET,),
}
"""Results that a text log (up to v0.7) leaves to its summary, by scenario."""


def _printed(run: Run, detail: DetailLog) -> Iterator[str]:
    """What LoadGen prints into the summary of a performance run: most of it is in its detail log."""
    text = detail.format == "text"
    wanted = {*_ONLY_PRINTED[None], *_ONLY_PRINTED.get(run.scenario or "", ())} if text else set()
    per_query = keys.QUERY_LATENCY.minimum in detail
    for key in _ALWAYS:
        if key in detail or key in wanted:
            yield key
    for family in keys.LATENCIES:
        if family is not keys.LATENCY or not per_query:
            for key in (*family.rising, family.mean):
                if key in detail or (text and family is keys.LATENCY):
                    yield key


_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?")
_FIRST_COUNT = (5, 0, 21)
"""The oldest LoadGen of whose published logs all state the number of errors; none of 5.0.15 does."""


def _counts_errors(version: str | None) -> bool:
    """Whether LoadGen logs the number of errors."""
    found = _VERSION.match(version or "")
    return found is not None and tuple(int(part or 0) for part in found.groups()) >= _FIRST_COUNT


@rule("P165", WARNING)
def detail_log_whole(
    run: PerformanceRun | AccuracyRun | ComplianceRun | RangingRun,
    round: Round,
    detail: DetailLog,
    mode: str | None = None,
) -> Problems:
    """The detail log is complete and of one run: it holds its scenario and mode, the end of the
    measured phase and, of a performance run, its last results; every setting and result once.

    Why: a log that ends earlier is truncated, and LoadGen's errors may be what is missing. Of a value
        that is there twice, nobody knows which one is the run's.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen loadgen.cc and results.cc: power_begin and power_end of every run, then percentiles
        up to the 99.9th; num_errors from 5.0.21 on.
    """
    unset = [key for key in (keys.SCENARIO, keys.TEST_MODE) if key not in detail]
    # P110 and A113 name those of the others.
    if unset and isinstance(run, ComplianceRun | RangingRun):
        yield Problem(
            f"found no {listed(unset)}; expected all settings of the run",
            path=run.detail_path,
            required=unset,
            damage=True,
        )
    wanted = [keys.POWER_BEGIN, keys.POWER_END]
    if mode == "PerformanceOnly" and detail.format != "text":
        if _counts_errors(run.loadgen_version):
            wanted.append(keys.NUM_ERRORS)
        families = (keys.LATENCY, keys.QUERY_LATENCY)
        if not any(family.at(99.9) in detail for family in families):
            wanted.append(keys.LATENCY.at(99.9))
    missing = [key for key in wanted if key not in detail]
    if missing:
        text = f"found no {listed(missing)}; expected a log that ends as LoadGen ends it"
        yield Problem(text, path=run.detail_path, line=detail.lines, required=missing, damage=True)
    again = [
        key
        for key, found in detail.entries.items()
        if len(found) > 1
        and key.startswith(_ONCE)
        and key not in _SEVERAL
        # P123 names different values of these runs.
        and not (isinstance(run, PoweredRun) and any(e.value != found[0].value for e in found))
    ]
    if again and mode != "FindPeakPerformance":
        first, second = (f"{entry.line:,}" for entry in detail.all(again[0])[:2])
        text = (
            f"found {again[0]} on lines {first} and {second}; expected it once, in a log of one run"
        )
        yield Problem(
            text,
            path=run.detail_path,
            line=detail.all(again[0])[1].line,
            found=again[:50],
            count=len(again),
        )


_ONCE = ("effective_", "requested_", "result_", "test_datetime", "loadgen_version", "sut_name")
_SEVERAL = frozenset({"result_invalid_reason"})
"""LoadGen writes one for each reason."""
