"""How the accuracy run was made: mode, scenario, seeds, and on the whole data set."""

from __future__ import annotations

from checker.model import AccuracyRun
from checker.parse.detail import DetailLog
from checker.rule import ERROR, WARNING, Problem, Problems, rule
from checker.rules.comparing import at, seed_problems
from schemas.round import Benchmark, Round

_COUNT = "effective_accuracy_sample_count"
_TOTAL = "qsl_reported_total_count"


@rule(
    "A112",
    ERROR,
    cases={"performance run": ERROR},
    needs={"benchmark": "result.benchmark", "size": "result.benchmark.dataset.size"},
)
def dataset_covered(
    run: AccuracyRun, round: Round, detail: DetailLog, benchmark: Benchmark, size: int
) -> Problems:
    """The accuracy run covered the whole data set.

    Why: accuracy on a part of the data set says nothing about the target.
    Fix: let the QSL report the data set's size and run again.
    Source: inference_rules.adoc, "Benchmarks": data set; LoadGen's qsl_reported_total_count.
    """
    enough = benchmark.dataset.least(run.result.scenario) or size
    counts = {key: detail.integer(key) for key in (_COUNT, _TOTAL)}
    if all(count is None for count in counts.values()):
        yield Problem(
            f"found no {_TOTAL}; expected {size:,} samples", required=size, path=run.detail_path
        )
    elif run.mode == "PerformanceOnly":
        message = (
            f"found a performance run, which answers whatever LoadGen draws; expected all {size:,} "
            "samples of the data set"
        )
        yield at(run, "effective_test_mode", message, run.mode, size, case="performance run")
    else:
        short = [(key, n) for key, n in counts.items() if n is not None and n < enough]
        for key, count in short[:1]:
            text = f"found {key} {count:,}; expected {enough:,}, the whole data set"
            yield Problem(text, count, enough, path=run.detail_path, line=detail.line(key))


@rule("A113", ERROR)
def accuracy_mode(run: AccuracyRun, round: Round, detail: DetailLog) -> Problems:
    """The accuracy run was made in accuracy mode.

    Why: performance mode logs no answers, or only some.
    Fix: run LoadGen with TestMode.AccuracyOnly for accuracy/.
    Source: inference_rules.adoc, "LoadGen": modes of operation.
    """
    if run.mode not in ("AccuracyOnly", "SubmissionRun"):
        text = f"found test mode {run.mode or '(not logged)'}; expected AccuracyOnly"
        yield at(run, "effective_test_mode", text, run.mode, "AccuracyOnly")


@rule("A114", WARNING)
def accuracy_seeds(run: AccuracyRun, round: Round, detail: DetailLog) -> Problems:
    """The accuracy run used the round's announced seeds.

    Why: other seeds show that the official configuration was not loaded.
    Fix: use the LoadGen release of the round and run again.
    Source: mlperf.conf of the round; published accuracy logs with seeds 0 exist, so this only warns.
    """
    yield from seed_problems(run, round, detail)


@rule("A115", WARNING, needs={"expected": "result.scenario"})
def accuracy_scenario(
    run: AccuracyRun, round: Round, detail: DetailLog, scenario: str, expected: str
) -> Problems:
    """The accuracy run was made in the performance run's scenario.

    Why: batching and scheduling differ between scenarios, and with them the answers can.
    Fix: run accuracy in the scenario of the folder.
    Source: submission_rules.adoc, "Directory structure": one accuracy run a scenario.
    """
    result = run.result
    if scenario not in {result.loadgen_scenario, result.inferred_from, expected}:
        text = f"found an accuracy run in {scenario}; expected {expected}, as the folder says"
        yield at(run, "effective_scenario", text, scenario, result.loadgen_scenario)
