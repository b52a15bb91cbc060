"""Family P: the performance run's files and folders, and the scenario they hold."""

from __future__ import annotations

from collections.abc import Iterator

from checker import loadgen_keys as keys
from checker import metrics
from checker.model import AccuracyRun, ComplianceRun, PerformanceRun, RangingRun, Result
from checker.parse.detail import DetailLog
from checker.parse.reading import File, Folder
from checker.parse.summary import SummaryLog
from checker.rule import ERROR, WARNING, NotJudged, Problem, rule
from checker.rules.comparing import at
from checker.wording import listed, quantity
from schemas.round import Round, Scenario

_LOGS = ("mlperf_log_detail.txt", "mlperf_log_summary.txt")


@rule("P101", ERROR, needs=("complete", "uses_loadgen"))
def performance_log_present(result: Result, round: Round) -> Iterator[Problem]:
    """The performance run has a detail log.

    Why: it is the measurement; without it there is no result.
    Fix: put LoadGen's mlperf_log_detail.txt and mlperf_log_summary.txt into performance/run_1.
    Source: submission_rules.adoc, "Directory structure": performance/run_1.
    """
    folder = result.folder.folder("performance")
    if folder is None:
        yield Problem(
            "found no folder performance/; expected performance/run_1 with LoadGen's logs",
            path=result.path,
            required="performance/run_1",
        )
        return
    if not result.runs:
        names = sorted(folder.folders)
        yield Problem(
            f"found {listed(names) if names else 'no folder'} in performance/; expected run_1 with "
            "LoadGen's logs",
            names,
            "run_1",
            folder.path,
        )
    for run in result.runs:
        if run.detail is None:
            yield Problem("the run has no mlperf_log_detail.txt", path=run.detail_path)


@rule("P110", ERROR, needs={"run": "performance", "detail": "performance.detail"})
def scenario_matches(
    result: Result, round: Round, run: PerformanceRun, detail: DetailLog
) -> Iterator[Problem]:
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
def summary_present(run: PerformanceRun, round: Round) -> Iterator[Problem]:
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
) -> Iterator[Problem]:
    """The folder holds as many runs as the scenario requires.

    Why: v0.5 and v0.7 require five Server runs; later rounds one.
    Fix: add the missing run_N folders.
    Source: inference_rules.adoc of the round, "Scenarios": number of runs.
    """
    # Only a folder spelled exactly as the scenario was held to five runs.
    wanted = rules.runs if result.scenario_folder == result.scenario else 1
    first = runs[0]
    if len(runs) < wanted:
        yield Problem(
            f"found {quantity(len(runs), 'performance run')}; {result.scenario} requires {wanted}",
            len(runs),
            wanted,
            f"{result.path}/performance",
        )
    elif first.index != 1:
        yield Problem(
            f"found the performance run in {first.path.rsplit('/', 1)[-1]}; expected run_1",
            first.index,
            1,
            first.path,
        )


@rule("P138", WARNING)
def no_extra_runs(result: Result, round: Round, extra_runs: list[str]) -> Iterator[Problem]:
    """The folder holds no run beyond those that the scenario requires.

    Why: only the required runs count; with others, a reader cannot see which one was meant.
    Fix: remove the run folders that are not part of the submission.
    Source: submission_rules.adoc, "Directory structure": performance/run_1.
    """
    for path in extra_runs:
        yield Problem("this run is beyond those that the scenario requires; not checked", path=path)


@rule("P141", ERROR, needs="result.complete")
def performance_files(run: PerformanceRun, round: Round, folder: Folder) -> Iterator[Problem]:
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
def performance_accuracy_log_small(
    run: PerformanceRun, round: Round, log: File
) -> Iterator[Problem]:
    """An accuracy log beside the performance run is no larger than the round publishes.

    Why: a performance run logs no answers, or the few that a test samples.
    Fix: remove mlperf_log_accuracy.json from performance/run_1, or run `assay truncate`.
    Source: submission_rules.adoc, "Truncation of accuracy logs".
    """
    limit = round.accuracy_log.max_bytes
    if limit is not None and log.size > limit:
        yield Problem(
            f"the file has {quantity(log.size, 'byte')}; expected at most {quantity(limit, 'byte')}",
            log.size,
            limit,
            log.path,
        )


@rule("P147", ERROR, cases={"compliance": ERROR})
def summary_whole(
    run: PerformanceRun | AccuracyRun | ComplianceRun | RangingRun,
    round: Round,
    summary: SummaryLog,
) -> Iterator[Problem]:
    """The summary log is complete: it ends with LoadGen's count of errors.

    Why: a summary that ends earlier is truncated, and LoadGen's errors may be what is missing.
    Fix: use the summary log as LoadGen wrote it.
    Source: LoadGen logging.cc: every run ends with its counts of warnings and errors.
    """
    if summary.errors is None and not summary.faults:
        yield Problem(
            "the summary ends before LoadGen's count of errors; it is truncated",
            path=run.summary_path,
            line=summary.lines,
            required="No errors encountered during test.",
            case="compliance" if isinstance(run, ComplianceRun) else None,
        )
