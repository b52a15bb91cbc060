"""A whole reference measurement: the gate first, then the performance, into a submission tree."""

from __future__ import annotations

import contextlib
import itertools
import math
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from runner import compliance, logs
from runner.backends import NETWORKED, preflight
from runner.backends.onnx_session import weight_types
from runner.benchmarks.base import Benchmark, Score
from runner.compliance import ComplianceRun, required_tests, run_test
from runner.datasets.prompts import Questions
from runner.errors import (
    BackendError,
    DatasetError,
    HopelessRun,
    OutputError,
    RunFailed,
    RunnerError,
    SettingsError,
)
from runner.foresight import duration_text
from runner.grading import Grader
from runner.layout import Places, check_name, get_round
from runner.lock import locked
from runner.named import short
from runner.plan import Plan, Rules, verify_round
from runner.preparing import backend_options, fitted, job_of, made_with, place_of, verify_streaming
from runner.progress import Event, Phase, Progress, Silent
from runner.provenance import Provenance
from runner.resume import Finished, finished
from runner.run import DISTURBED, Job, Measurement, measure
from runner.scoring import score as scored
from runner.search import (
    CONTRADICTIONS,
    Found,
    ProbeLog,
    Search,
    confirmations,
    estimate,
    find,
)
from runner.settings import (
    DEFAULT_DURATION_MS,
    RESULTS,
    SERVER_QUERIES,
    RunSettings,
    with_queries,
)
from runner.submission import Paper, refuse_occupied, write_result, write_system
from runner.system import default_system_name, describe_system

Status = Literal["valid", "invalid", "not-compliant", "gate-missed", "failed"]
PERCENTILE = 0.99  # of Server's queries must be in time


@dataclass(frozen=True)
class Outcome:
    """What became of one scenario.

    Attributes:
        status: "valid"; "invalid" (LoadGen says so and it lies in the tree, or the run was
            ended early and does not); "not-compliant" (a compliance test did not pass; it lies
            in the tree, with the texts that say why); "gate-missed" (no performance was
            measured); "failed" (no result, `message` says why).
        division: where the result lies: a missed gate moves it to "open".
        score: the accuracy; None where the accuracy run failed.
        metric, unit: what the scenario is ranked by; None where it was not measured.
        path: the result's folder in the tree, or where the logs of a failed run lie.
        message: why the status is not "valid", one sentence; "" when it is.
    """

    benchmark: str
    scenario: str
    status: Status
    division: str
    score: Score | None = None
    gate: float | None = None
    metric: float | None = None
    unit: str = ""
    path: Path | None = None
    message: str = ""
    accuracy_run: Measurement | None = None
    performance_run: Measurement | None = None
    tests: tuple[ComplianceRun, ...] = ()
    found: Found | None = None


def run_benchmark(plan: Plan, progress: Progress | None = None) -> list[Outcome]:
    """Measure every scenario of the plan: accuracy, then performance if the gate is met.

    Returns:
        One outcome a scenario, in order; a failed scenario does not keep the others from
        running.

    Raises:
        SettingsError, BackendError, DatasetError: it cannot be done; nothing was measured.
        OutputError: before anything ran, or the disk is full; finished scenarios lie in the tree.
        Interrupted: Ctrl-C; finished scenarios lie in the tree, the running one does not.
    """
    return list(iter_benchmark(plan, progress))


def iter_benchmark(plan: Plan, progress: Progress | None = None) -> Iterator[Outcome]:
    """As `run_benchmark`, each outcome as it comes."""
    benchmark = fitted(plan)
    system = check_name(
        plan.tree.system or default_system_name(short(plan.execution.backend)), "system"
    )
    if not plan.scenarios:
        raise SettingsError(f"found no scenario; expected some of {', '.join(RESULTS)}.")
    for what, path in (("model", plan.inputs.model), ("data set", plan.inputs.data)):
        if path is not None and not path.exists():
            raise SettingsError(f"found no {what} at {path}; expected a file or folder there.")
    verify_round(get_round(plan.rules.round), plan.tree.system_type)
    made = made_with(plan, benchmark)
    verify_streaming(plan, benchmark)
    if plan.conduct.grader is not None:
        Grader(plan.conduct.grader)
    preflight(plan.execution.backend, backend_options(plan, benchmark))
    divisions = (
        {plan.tree.division, "open"} if plan.conduct.measure_anyway else {plan.tree.division}
    )
    for scenario in plan.scenarios:
        job_of(plan, benchmark, scenario, "performance").settings.conf()
        if plan.conduct.compliance:
            required_tests(get_round(plan.rules.round), plan.rules.task or benchmark.name, scenario)
        for division in divisions:
            place_of(plan, division, system, benchmark, scenario)
    for use in _uses(plan, benchmark):  # what is missing is said once, before anything runs
        dataset = benchmark.dataset_for(use, plan.inputs.data)
        scored = use != "performance" or "accuracy" not in benchmark.other_datasets
        if scored and benchmark.verify_scoring is not None:
            benchmark.verify_scoring(dataset)
        if plan.conduct.grader is not None and not isinstance(dataset, Questions):
            raise SettingsError(
                f"--grader is for benchmarks whose answers are code; {benchmark.name} has none."
            )
    listener = progress or Silent()
    with locked(plan.tree.out):
        kept: dict[str, Outcome] = {}
        for scenario, division in itertools.product(plan.scenarios, sorted(divisions)):
            place = place_of(plan, division, system, benchmark, scenario)
            if plan.tree.resume:
                found = finished(place, plan, made, scenario)
                if found is not None:
                    kept[scenario] = _kept(benchmark, scenario, division, place, plan, found)
            elif not plan.tree.overwrite:
                refuse_occupied(place.result)
        runs = _runs_folder(plan.tree.out)
        try:
            for scenario in plan.scenarios:
                if scenario in kept:
                    yield kept[scenario]
                    continue
                yield _Scenario(
                    plan=plan,
                    benchmark=benchmark,
                    system=system,
                    scenario=scenario,
                    runs=runs / scenario,
                    listener=listener,
                    made_with=made,
                ).run()
        finally:
            _remove_empty(runs)


def _uses(plan: Plan, benchmark: Benchmark) -> Iterator[str]:
    """The runs of a plan that have a data set of their own, and the performance run."""
    yield "performance"
    tests: set[str] = set()
    if plan.conduct.compliance:
        round, task = get_round(plan.rules.round), plan.rules.task or benchmark.name
        tests = {test for s in plan.scenarios for test in required_tests(round, task, s)}
    yield from (use for use in benchmark.other_datasets if use in {"accuracy", *tests})


def missed_gate(rules: Rules, score: Score) -> str:
    """Which of the round's bounds a score misses, in words; "" where it meets them all."""
    missed = []
    if rules.gate is not None and not score.value >= rules.gate:
        missed.append(
            f"{score.metric} = {score.value:.6g}; expected at least {rules.gate:.6g} "
            f"({rules.gate - score.value:.3g} short)"
        )
    for metric, low, high in rules.other_gates:
        value = score.others.get(metric)
        if value is not None and not low <= value <= high:
            bounds = [f"at least {low:,.6g}"] * (low > -math.inf)
            bounds += [f"at most {high:,.6g}"] * (high < math.inf)
            missed.append(f"{metric} = {value:,.6g}; expected {' and '.join(bounds)}")
    return f"found {', and '.join(missed)}" if missed else ""


def _kept(
    benchmark: Benchmark,
    scenario: str,
    division: str,
    place: Places,
    plan: Plan,
    found: tuple[Finished, Score | None, float | None, str],
) -> Outcome:
    """The outcome of a scenario that was measured before."""
    status, score, metric, unit = found
    return Outcome(
        benchmark=benchmark.name,
        scenario=scenario,
        status=status,
        division=division,
        score=score,
        gate=plan.rules.gate,
        metric=metric,
        unit=unit,
        path=place.result,
        message="measured before, kept",
    )


def _runs_folder(out: Path) -> Path:
    """Where runs live until they are results: beside the tree, never inside."""
    number = 1
    while True:
        suffix = ".runs" if number == 1 else f".runs-{number}"
        folder = out.with_name(out.name + suffix)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
            if number > 1000:
                raise OutputError(
                    f"{folder}: found a thousand folders of earlier runs; remove some."
                ) from None
            continue
        except OSError as error:
            raise OutputError(
                f"{out}: cannot be written ({error.strerror or error}); choose a folder whose "
                "parent is writable."
            ) from error
        return folder


def _remove_empty(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            with contextlib.suppress(OSError):
                path.rmdir()
    with contextlib.suppress(OSError):
        folder.rmdir()


class _Scenario:
    """One scenario of a plan, from the accuracy run to the result in the tree."""

    def __init__(
        self,
        plan: Plan,
        benchmark: Benchmark,
        system: str,
        scenario: str,
        runs: Path,
        listener: Progress,
        made_with: Provenance,
    ) -> None:
        self.made_with = made_with
        self.plan, self.benchmark, self.system, self.scenario = plan, benchmark, system, scenario
        self.runs, self.listener = runs, listener
        self.notes: list[str] = []
        unseen = plan.execution.backend in NETWORKED and not made_with.weight_types
        if unseen and not plan.inputs.precision:
            self.notes.append(
                "the data type of the server's weights is not known here: the measurements state "
                f"{self.precision()}. Give --precision, or correct weight_data_types there"
            )
        self.found: Found | None = None

    def precision(self) -> str:
        """Weight data types that ran, with commas; "none" for the dummy backend."""
        plan = self.plan
        if plan.execution.backend == "dummy":
            return "none"
        types = self.made_with.weight_types
        options = backend_options(plan, self.benchmark)
        made = options.get("precision")
        if plan.execution.backend == "onnxruntime" and "fp32" in types:
            # TensorRT chooses among them, layer by layer.
            types = tuple(sorted({*types, *weight_types(options)}))
        if made in ("fp16", "bf16", "int8", "fp8"):
            types = tuple(sorted({made if t == "fp32" else t for t in types}))
        return ", ".join(types) or (plan.inputs.precision or "fp32").split("-")[0]

    def advice(self) -> str:
        """What a missed gate may come from."""
        used, others = self.benchmark.preparation, self.benchmark.alternatives
        said = f" Preprocessing used: {used}." if used else ""
        return f"{said} Other models of this benchmark need: {others}." if others else said

    def say(self, text: str, phase: Phase = "warning") -> None:
        self.listener.on_event(
            Event(
                phase=phase,
                benchmark=self.benchmark.name,
                scenario=self.scenario,
                mode="performance",
                message=text,
            )
        )

    def run(self) -> Outcome:
        """Everything; what went wrong is in the outcome."""
        plan = self.plan
        outcome = Outcome(
            self.benchmark.name, self.scenario, "failed", plan.tree.division, gate=plan.rules.gate
        )
        try:
            job = job_of(plan, self.benchmark, self.scenario, "accuracy")
            accuracy = measure(job, self.runs / "accuracy", self.listener)
            outcome = replace(outcome, accuracy_run=accuracy, path=accuracy.folder)
            if not accuracy.valid:
                return replace(outcome, message="; ".join(accuracy.reasons))
            score = scored(job, accuracy.folder / logs.ACCURACY, plan.conduct.grader)
            outcome = replace(outcome, score=score)
            missed = missed_gate(plan.rules, score)
            if missed:
                if not plan.conduct.measure_anyway:
                    return replace(
                        outcome,
                        status="gate-missed",
                        message=f"{missed}; the performance was not measured."
                        f"{''.join(f' {note}.' for note in score.notes)}{self.advice()}",
                    )
                outcome = replace(outcome, division="open")
                self.notes.append(
                    f"The accuracy gate was missed: {missed}; no closed-division result."
                )
            gate_notes = tuple(self.notes)
            self.notes += score.notes
            performance = self.measured()
            tests: tuple[ComplianceRun, ...] = ()
            if plan.conduct.compliance and performance.valid:
                performance, tests = self.comply(performance, accuracy)
            failed = compliance.summary(tests)
            if plan.conduct.compliance and not performance.valid:
                failed = "the compliance tests were not run, because the run is not VALID"
            status: Finished = "valid" if performance.valid else "invalid"
            if performance.valid and failed:
                status = "not-compliant"
            path = self.write(outcome.division, accuracy, performance, score, tests, status)
            return replace(
                outcome,
                status=status,
                metric=performance.metric,
                unit=performance.unit,
                path=path,
                message="; ".join((*gate_notes, *performance.reasons, *([failed] * bool(failed)))),
                performance_run=replace(performance, folder=path / "performance" / "run_1"),
                accuracy_run=replace(accuracy, folder=path / "accuracy"),
                tests=tests,
                found=self.found,
            )
        except HopelessRun as error:
            return replace(
                outcome, status="invalid", message=str(error), path=self.runs, found=self.found
            )
        except RunnerError as error:
            # What fails before the first run, or for want of space, fails in each scenario.
            unable = isinstance(error, (BackendError, DatasetError)) and not outcome.accuracy_run
            if unable or isinstance(error, OutputError):
                raise
            return replace(
                outcome, status="failed", message=str(error), path=self.runs, found=self.found
            )

    def measured(self) -> Measurement:
        """The performance run: with a searched load, or as asked."""
        plan = self.plan
        job = job_of(plan, self.benchmark, self.scenario, "performance")
        if plan.conduct.search is None:
            return self.performance(job)
        full = job.settings.given().get("min_duration", DEFAULT_DURATION_MS) / 1000
        if job.settings.scenario != "Server":  # whose search says it once it knows the rate
            low, high = estimate(plan.conduct.search, job.settings.scenario, full)
            self.say(
                f"the search takes about {duration_text(low)} with its full run, at most "
                f"{duration_text(high)}",
                "search",
            )
        log = ProbeLog(
            plan.tree.out.with_name(plan.tree.out.name + ".search")
            / f"{self.benchmark.name}-{self.scenario}.jsonl",
            self.signature(job),
        )
        found = find(
            plan.conduct.search,
            job,
            self.runs,
            log,
            self.listener,
            lambda text: self.say(text, "search"),
            PERCENTILE,
            full,
        )
        self.found = found
        self.say(found.text, "search")
        return self.confirm(plan.conduct.search, job, found, log)

    def signature(self, job: Job) -> dict[str, Any]:
        """What the probes of a search depend on."""
        model = Path(job.model) if job.model else None
        settings = job.settings
        return {
            "benchmark": self.benchmark.name,
            "scenario": self.scenario,
            "backend": job.backend,
            "backend_options": dict(job.backend_options),
            "model": [model.name, model.stat().st_size] if model and model.exists() else None,
            "batch_size": job.batch_size,
            "workers": job.workers,
            "batch_deadline_us": job.batch_deadline_us,
            "target_latency_ms": settings.target_latency_ms,
            "user_conf": settings.user_conf,
            "search": asdict(self.plan.conduct.search) if self.plan.conduct.search else None,
            "system": self.system,
        }

    def confirm(self, search: Search, job: Job, found: Found, log: ProbeLog) -> Measurement:
        """Full runs at the value found and, where they are not VALID, on the safer side of it."""
        last: Measurement | None = None
        hopeless: HopelessRun | None = None
        length = job.settings.given().get("min_duration", DEFAULT_DURATION_MS) / 1000
        disturbed, server = found.disturbed, job.settings.scenario == "Server"
        for number, value in enumerate(confirmations(search, found, job.settings.scenario), 1):
            own = job.settings.user_conf.rstrip("\n")
            settings = with_queries(job.settings, value, math.inf)
            needed = settings.given().get("min_query_count", 0) / value if server else 0.0
            if number > 1 and time.monotonic() + max(length, needed) > found.deadline:
                self.say("the time announced for the search is over", "search")
                break
            if number > CONTRADICTIONS and disturbed >= DISTURBED:
                raise RunFailed(
                    f"machine disturbed: full runs below the {found.best:g} that short runs carried "
                    f"are not VALID, while other processes kept this one waiting for a processor "
                    f"{disturbed:.0%} of the time. Search again on a quiet machine, or give "
                    "--target-qps."
                )
            text = (
                f"# {found.key} was found by a search: {found.text}.\n"
                f"# Full run {number} of at most {search.confirmations}.\n"
                f"{job.settings.model}.{job.settings.scenario}.{found.key} = {value:g}\n"
            )
            settings = replace(
                settings, user_conf=f"{own}\n{text}" if own else text, target_qps=None
            )
            folder = self.runs / "performance"
            shutil.rmtree(folder, ignore_errors=True)
            try:
                last = measure(replace(job, settings=settings), folder, self.listener)
            except HopelessRun as error:
                hopeless = error
                disturbed = max(disturbed, error.disturbed)
                log.note("confirmation", value=value, valid=False, reason=str(error))
                self.say(f"the full run at {value:g} could not become VALID", "search")
                continue
            log.note(
                "confirmation",
                value=value,
                valid=last.valid,
                metric=last.metric,
                reason="; ".join(last.reasons),
            )
            disturbed = max(disturbed, last.disturbed)
            said = "VALID" if last.valid else f"not VALID ({'; '.join(last.reasons)})"
            self.say(f"the full run at {value:g} is {said}", "search")
            if last.valid:
                log.note("confirmed", value=value, metric=last.metric)
                self.notes.append(f"The load was searched: {found.text}.")
                return last
        if last is not None and last.folder.exists():
            return last
        raise hopeless or RunFailed("the search allows no full run; expected 1 or more.")

    def performance(self, job: Job) -> Measurement:
        """The performance run, again where only a hint of ours made it INVALID."""
        plan, folder = self.plan, self.runs / "performance"
        for attempt in range(1, plan.conduct.attempts + 1):
            shutil.rmtree(folder, ignore_errors=True)
            better: tuple[RunSettings, str] | None
            try:
                result = measure(job, folder, self.listener)
            except HopelessRun as error:
                better = hint_after(error, job.settings)
                if better is None or attempt == plan.conduct.attempts:
                    raise
            else:
                better = None if result.valid else better_hint(result)
                if better is None or attempt == plan.conduct.attempts:
                    return result
            settings, why = better
            self.say(f"{why}; repeating the run")
            job = replace(job, settings=settings)
        raise SettingsError(f"found attempts={plan.conduct.attempts}; expected 1 or more.")

    def comply(
        self, performance: Measurement, accuracy: Measurement
    ) -> tuple[Measurement, tuple[ComplianceRun, ...]]:
        """The compliance tests; again where the speed alone differed, which noise does too."""
        plan, round = self.plan, get_round(self.plan.rules.round)
        task = plan.rules.task or self.benchmark.name
        names = required_tests(round, task, self.scenario)
        done: dict[str, ComplianceRun] = {}
        for attempt in range(1, plan.conduct.attempts + 1):
            for name in names:
                if name in done and done[name].passed is True:
                    continue
                done[name] = run_test(
                    name,
                    round,
                    task,
                    performance.job,
                    self.runs,
                    performance,
                    accuracy,
                    self.listener,
                    plan.conduct.grader,
                )
            failed = [test for test in done.values() if test.passed is not True]
            if (
                not failed
                or attempt == plan.conduct.attempts
                or not all(t.by_speed for t in failed)
            ):
                break
            why = compliance.summary(failed)
            self.notes.append(f"Made again, since only the speed differed: {why}.")
            if attempt == plan.conduct.attempts - 1:
                # Perhaps it was the submitted run that was disturbed.
                self.say(f"{why}; repeating the performance run and its tests")
                job = performance.job
                if plan.conduct.search is None:
                    job = job_of(plan, self.benchmark, self.scenario, "performance")
                performance = self.performance(job)
                done.clear()
                if not performance.valid:
                    break
            else:
                self.say(f"{why}; repeating the test")
        return performance, tuple(done[name] for name in names if name in done)

    def write(
        self,
        division: str,
        accuracy: Measurement,
        performance: Measurement,
        score: Score,
        tests: tuple[ComplianceRun, ...],
        outcome: Finished,
    ) -> Path:
        """The result into the tree, and the system's description if there is none."""
        plan = self.plan
        target = place_of(plan, division, self.system, self.benchmark, self.scenario)
        if not target.system.exists() or plan.tree.overwrite:
            # Else left alone: a submitter may have completed it by hand since.
            self.describe(division, target, performance.framework)
        return write_result(
            target,
            self.benchmark,
            accuracy,
            performance,
            score,
            Paper(
                precision=self.precision(),
                made_with=self.made_with,
                notes=tuple(self.notes),
                command=plan.command,
                task=plan.rules.task,
                round=plan.rules.round or "",
                run_file=plan.run_file,
                outcome=outcome,
            ),
            tests,
            overwrite=plan.tree.overwrite,
        )

    def describe(self, division: str, target: Places, framework: str) -> None:
        plan = self.plan
        remote, network = False, {}
        options = backend_options(plan, self.benchmark)
        if plan.execution.backend in NETWORKED and options.get("url"):
            from runner.backends import kserve, openai

            remote = kserve.is_remote(options)
            if division == "network":
                kind = openai if plan.execution.backend == "openai" else kserve
                network = kind.network_fields(options, plan.execution.workers)
        write_system(
            target.system,
            describe_system(
                system_name=self.system,
                submitter=plan.tree.submitter,
                division=division,
                framework=framework,
                system_type=plan.tree.system_type,
                status=plan.tree.status,
                uses_accelerator="CUDA" in framework or "ensorR" in framework,
                storage=target.home,
                remote=remote,
                network=network,
            ),
        )


def hint_after(error: HopelessRun, settings: RunSettings) -> tuple[RunSettings, str] | None:
    """As `better_hint`, for a run that was ended early."""
    asked = error.values.get("target_qps")
    if "target_qps" in settings.given() or not asked:
        return None
    if settings.scenario == "Server":
        return with_queries(replace(settings, target_qps=0.4 * asked), 0.4 * asked), str(error)
    if not error.rate:
        return None
    return replace(settings, target_qps=1.3 * error.rate), str(error)


def better_hint(result: Measurement) -> tuple[RunSettings, str] | None:
    """What to ask for next after an INVALID run, where the reason was our own guess.

    Returns:
        New settings and the reason in words; None where the user had set the value, or where
        another value would not help.
    """
    settings, detail = result.job.settings, result.detail
    given = settings.given()
    scenario = settings.scenario
    short = detail.get("result_min_duration_met") is False
    if scenario in ("SingleStream", "MultiStream"):
        mean = detail.get("result_mean_latency_ns")
        if short and "target_latency" not in given and isinstance(mean, (int, float)) and mean:
            hint = 0.5 * mean / 1e6
            return replace(settings, expected_latency_ms=hint), "LoadGen ran out of queries"
        return None
    if "target_qps" in given:
        return None
    if scenario == "Offline" and short and result.metric:
        # The metric of a language benchmark is of tokens.
        rate = detail.get("result_samples_per_second") or result.metric
        return (
            replace(settings, target_qps=1.3 * float(rate)),
            "the run ended before its minimum duration",
        )
    if settings.token_latencies and "min_query_count" not in given:
        # LoadGen says nothing of its reasons then: the tail is in time, and too few queries show it.
        few = detail.get("early_stopping_met") is False and _tokens_in_time(settings, detail)
        count = detail.get("result_query_count")
        if few and isinstance(count, int):
            settings = replace(settings, min_query_count=max(2 * count, SERVER_QUERIES))
            return settings, f"{count:,} queries were too few to tell"
    late = not detail.get("result_perf_constraints_met", True) or not detail.get(
        "early_stopping_met", True
    )
    asked = detail.get("effective_target_qps")
    if scenario == "Server" and late and isinstance(asked, (int, float)):
        return (
            with_queries(replace(settings, target_qps=0.4 * asked), 0.4 * asked),
            f"too many queries were late at {asked:g} a second",
        )
    return None


def _tokens_in_time(settings: RunSettings, detail: Mapping[str, Any]) -> bool:
    """Whether both 99th percentiles are below their limits."""
    for key, limit in (
        ("result_first_token_99.00_percentile_latency_ns", settings.ttft_ms),
        ("result_time_per_output_token_99.00_percentile_ns", settings.tpot_ms),
    ):
        value = detail.get(key)
        if limit is None or not isinstance(value, (int, float)) or value >= limit * 1e6:
            return False
    return True
