"""A whole reference measurement: the gate first, then the performance, into a submission tree."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from runner import compliance, logs
from runner.backends import preflight
from runner.benchmarks import get_benchmark, open_benchmark
from runner.benchmarks.base import Benchmark, Score
from runner.compliance import ComplianceRun, required_tests, run_test
from runner.datasets import Dataset
from runner.errors import (
    BackendError,
    DatasetError,
    HopelessRun,
    OutputError,
    RunFailed,
    RunnerError,
    SettingsError,
)
from runner.layout import Places, check_name, get_round, places
from runner.lock import locked
from runner.named import short
from runner.progress import Event, Phase, Progress, Silent
from runner.provenance import Provenance, provenance, refuse_contradiction
from runner.run import DISTURBED, Job, Measurement, measure
from runner.search import (
    CONTRADICTIONS,
    Found,
    ProbeLog,
    Search,
    confirmations,
    estimate,
    find,
)
from runner.settings import DEFAULT_DURATION_MS, SCENARIOS, Mode, RunSettings, loadgen_minimum
from runner.submission import Paper, refuse_occupied, write_result, write_system
from runner.system import default_system_name, describe_system

Status = Literal["valid", "invalid", "not-compliant", "gate-missed", "failed"]
PERCENTILE = 0.99  # of Server's queries must be in time
LOADGEN_FEW = 100  # samples of an Offline query, of a model that LoadGen does not know
START_S = 1.5  # what every run takes beside LoadGen: process, model, data, warm-up


@dataclass(frozen=True)
class Plan:
    """What to measure and where to put it.

    Attributes:
        benchmark: a name of the registry, or `module:NAME`.
        out: the submission tree; created, or added to.
        scenarios: any of `SCENARIOS`, in the order to run them.
        division: "closed", "open" or "network".
        submitter, system: folder names; the system's is made from the processor if None.
        system_type, status: for the system description.
        backend: "onnxruntime", "dummy" or `module:Class`; `backend_options` override what the
            benchmark suggests.
        precision: which of the benchmark's models (None: fp32); `model` names another file in its
            place, whose weights must then be of this type (None: any).
        data: the data set's folder or file; None for the benchmark's default.
        gate: least accuracy, in the metric's unit; None: no gate.
        min_duration_ms, min_query_count: None leaves them to LoadGen (600,000 ms).
        least_duration_ms: the round's minimum, for the lint of `user_conf`.
        target_latency_ms: Server's limit, for benchmarks that LoadGen does not know.
        target_qps, expected_latency_ms: None: from a warm-up.
        user_conf: text of a user.conf to start from.
        performance_sample_count: None: the benchmark's.
        batch_size, max_batch: samples in one inference, in Offline and at most in Server; None:
            the benchmark's.
        load: share of the warm-up's one-by-one rate that Server is asked for.
        measure_anyway: measure performance although the gate was missed; the result then goes
            into the open division.
        overwrite: replace older results of the same names.
        attempts: how often a performance run is made that was INVALID by a hint of the warm-up,
            and a compliance test that differed by its speed alone.
        round: whose layout, and whose compliance tests; None: the newest.
        task: the round's benchmark that this one is, or is scored as in the open division; None:
            the benchmark's own name.
        renamed: whether it is only scored as that benchmark: its folder then has a name of its own.
        compliance: run the compliance tests that the round asks for.
        search: how to search for the load (`--find-qps`); None: no search.
        workers, batch_deadline_us, early_stop, stall_timeout_s: see `runner.run.Job`.
        command: the command line, to be shown in the README.
    """

    benchmark: str
    out: Path
    scenarios: tuple[str, ...] = SCENARIOS
    division: str = "closed"
    submitter: str = "Assay"
    system: str | None = None
    system_type: str = "datacenter,edge"
    status: str = "rdi"
    backend: str = "onnxruntime"
    backend_options: Mapping[str, Any] = field(default_factory=dict)
    precision: str | None = None
    model: Path | None = None
    data: Path | None = None
    gate: float | None = None
    min_duration_ms: int | None = None
    min_query_count: int | None = None
    least_duration_ms: int = 0
    target_latency_ms: float | None = None
    target_qps: float | None = None
    expected_latency_ms: float | None = None
    user_conf: str = ""
    performance_sample_count: int | None = None
    batch_size: int | None = None
    max_batch: int | None = None
    load: float = 0.25
    measure_anyway: bool = False
    overwrite: bool = False
    attempts: int = 3
    round: str | None = None
    task: str | None = None
    renamed: bool = False
    compliance: bool = False
    search: Search | None = None
    workers: int = 1
    batch_deadline_us: float = 0.0
    early_stop: bool = True
    stall_timeout_s: float = 60.0
    command: str = ""


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
    benchmark = _benchmark(plan)
    system = check_name(plan.system or default_system_name(short(plan.backend)), "system")
    if not plan.scenarios:
        raise SettingsError(f"found no scenario; asked for some of {', '.join(SCENARIOS)}.")
    for what, path in (("model", plan.model), ("data set", plan.data)):
        if path is not None and not path.exists():
            raise SettingsError(f"found no {what} at {path}; asked for a file or folder there.")
    known = get_round(plan.round).system_description.system_type
    if not known:
        raise SettingsError(
            f"round {get_round(plan.round).name} has no system types, and the installed LoadGen "
            "writes other logs; the runner writes trees of v1.0 and later."
        )
    if plan.system_type not in known:
        raise SettingsError(
            f"found system type {plan.system_type!r}; asked for one of {', '.join(map(repr, known))}."
        )
    made_with = _made_with(plan, benchmark)
    preflight(plan.backend, _backend_options(plan, benchmark))
    divisions = {plan.division, "open"} if plan.measure_anyway else {plan.division}
    for scenario in plan.scenarios:
        _job(plan, benchmark, scenario, "performance").settings.conf()
        if plan.compliance:
            required_tests(get_round(plan.round), plan.task or benchmark.name, scenario)
        for division in divisions:
            _places(plan, division, system, benchmark, scenario)
    _open_dataset(plan, benchmark)
    listener = progress or Silent()
    with locked(plan.out):
        for scenario, division in itertools.product(plan.scenarios, sorted(divisions)):
            place = _places(plan, division, system, benchmark, scenario).result
            if not plan.overwrite:
                refuse_occupied(place)
        runs = _runs_folder(plan.out)
        try:
            for scenario in plan.scenarios:
                yield _Scenario(
                    plan, benchmark, system, scenario, runs / scenario, listener, made_with
                ).run()
        finally:
            _remove_empty(runs)


def _places(plan: Plan, division: str, system: str, benchmark: Benchmark, scenario: str) -> Places:
    task = plan.task or benchmark.name
    directory = task
    if division == "open" and plan.renamed:
        # A name of its own, so that nobody takes it for the round's benchmark.
        directory = f"{benchmark.name}-as-{task}"
    implementation = re.sub(r"[^A-Za-z0-9]+", "-", short(plan.backend)).strip("-")
    return places(
        get_round(plan.round),
        plan.out,
        division,
        plan.submitter,
        system,
        directory,
        scenario,
        implementation,
    )


def foresee(plan: Plan) -> str:
    """What the plan will take, before anything is known of the machine's speed; one line."""
    benchmark = _benchmark(plan)
    least = most = 0.0
    parts = []
    runs = tests = 0
    for scenario in plan.scenarios:
        settings = _job(plan, benchmark, scenario, "performance").settings
        given = settings.given()
        full = given.get("min_duration", DEFAULT_DURATION_MS) / 1000
        queries = given.get("min_query_count", loadgen_minimum(settings.model, scenario)[1])
        if scenario == "Server" and given.get("target_qps"):
            full = max(full, queries / given["target_qps"])
        elif scenario == "Offline" and queries > LOADGEN_FEW:
            # How long they take depends on the machine alone, not on target_qps.
            parts.append(f"{queries:,.0f} samples or more in Offline, however long they take")
        low, high = START_S, START_S
        if plan.search is not None:
            search = estimate(plan.search, scenario, full)
            low, high = low + search[0], high + search[1]
        else:
            low, high = low + full + START_S, high + plan.attempts * (full + START_S)
        if plan.compliance:
            asked = required_tests(get_round(plan.round), plan.task or benchmark.name, scenario)
            tests += len(asked)
            low += len(asked) * (full + START_S)
            high += plan.attempts * len(asked) * (full + START_S)
        runs += 2
        least, most = least + low, most + high
    parts.insert(0, f"{runs} runs (accuracy and performance)")
    if tests:
        parts.append(f"{tests} compliance tests")
    if plan.search is not None:
        parts.append("a search for the load each")
    size = 0
    for tensor in benchmark.inputs:
        bits = re.search(r"\d+$", tensor.dtype)
        values = math.prod(n for n in tensor.shape if n is not None)
        size += values * (int(bits[0]) if bits else 8) // 8
    held = (plan.performance_sample_count or benchmark.performance_sample_count) * size
    return (
        f"{', '.join(plan.scenarios)}: {', '.join(parts)}; at least {duration_text(least)} and "
        f"the accuracy runs' own time, up to {duration_text(most)} if all is repeated; "
        f"{held / 1e6:.0f} MB of samples in memory"
    )


def _open_dataset(plan: Plan, benchmark: Benchmark) -> None:
    """What is missing is said once, before anything runs.

    Raises:
        DatasetError: the data set is absent or incomplete.
    """
    benchmark.make_dataset(plan.data)


def sample_count(plan: Plan) -> int:
    """Samples of the plan's data set.

    Raises:
        DatasetError: it cannot be opened.
    """
    return len(_benchmark(plan).make_dataset(plan.data))


def duration_text(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


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


def _benchmark(plan: Plan) -> Benchmark:
    """The plan's benchmark, fitted to the model that will run."""
    plain = get_benchmark(plan.benchmark)
    return open_benchmark(plan.benchmark, _model(plan, plain), plan.data)


def _model(plan: Plan, benchmark: Benchmark) -> Path | None:
    """The file or folder of the model; None for the dummy backend."""
    if plan.model is not None or plan.backend == "dummy":
        return plan.model
    precision = plan.precision or "fp32"
    if plan.backend == "kserve" and precision not in benchmark.models:
        return None  # the model lies on the server
    if _converts(plan, benchmark):
        return benchmark.models["fp32"]
    if precision not in benchmark.models:
        raise SettingsError(
            f"found precision {precision!r}; {benchmark.name} comes as "
            f"{', '.join(benchmark.models)}. Choose one, or give a model file with --model."
            if benchmark.models
            else f"{benchmark.name} comes without a model; give one with --model FILE."
        )
    return benchmark.models[precision]


def _made_with(plan: Plan, benchmark: Benchmark) -> Provenance:
    """What will run, read from its files.

    Raises:
        SettingsError: the precision that was stated is not that of the model.
        BackendError: the model or the data cannot be read.
    """
    model = _model(plan, benchmark)
    made_with = provenance(benchmark, model, plan.data)
    if plan.model is not None and plan.precision is not None and plan.backend != "dummy":
        refuse_contradiction(plan.precision, plan.model, made_with.weight_types)
    return made_with


def _converts(plan: Plan, benchmark: Benchmark) -> bool:
    """Whether the backend makes the float16 model from the float32 one."""
    return (
        plan.backend == "tensorrt"
        and plan.precision == "fp16"
        and plan.model is None
        and "fp16" not in benchmark.models
        and "fp32" in benchmark.models
    )


def _backend_options(plan: Plan, benchmark: Benchmark) -> dict[str, Any]:
    own = {"precision": "fp16"} if _converts(plan, benchmark) else {}
    return {**benchmark.backend_options.get(plan.backend, {}), **own, **plan.backend_options}


def _job(plan: Plan, benchmark: Benchmark, scenario: str, mode: Mode) -> Job:
    model = _model(plan, benchmark)
    server, rate = scenario == "Server", scenario in ("Server", "Offline")
    return Job(
        benchmark=plan.benchmark,
        settings=RunSettings(
            model=benchmark.loadgen_model,
            scenario=scenario,
            mode=mode,
            min_duration_ms=plan.min_duration_ms,
            min_query_count=plan.min_query_count,
            target_latency_ms=plan.target_latency_ms if server else None,
            target_qps=plan.target_qps if rate else None,
            expected_latency_ms=None if rate else plan.expected_latency_ms,
            user_conf=plan.user_conf,
            least_duration_ms=plan.least_duration_ms,
            load=plan.load,
            seeds=_seeds(plan),
        ),
        backend=plan.backend,
        backend_options=_backend_options(plan, benchmark),
        model=str(model) if model else None,
        data=str(plan.data) if plan.data else None,
        batch_size=plan.max_batch if server else plan.batch_size,
        performance_sample_count=plan.performance_sample_count,
        workers=plan.workers,
        batch_deadline_us=plan.batch_deadline_us,
        early_stop=plan.early_stop,
        stall_timeout_s=plan.stall_timeout_s,
    )


def _seeds(plan: Plan) -> tuple[int, int, int] | None:
    """The round's seeds: LoadGen has those of its own round built in."""
    if plan.round is None:
        return None
    seeds = get_round(plan.round).seeds
    return int(seeds.qsl_rng_seed), int(seeds.sample_index_rng_seed), int(seeds.schedule_rng_seed)


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
        self.found: Found | None = None

    def precision(self) -> str:
        """Weight data types that ran, with commas; "none" for the dummy backend."""
        plan = self.plan
        if plan.backend == "dummy":
            return "none"
        types = self.made_with.weight_types
        if _backend_options(plan, self.benchmark).get("precision") == "fp16":
            types = tuple(sorted({"fp16" if t == "fp32" else t for t in types}))
        return ", ".join(types) or (plan.precision or "fp32").split("-")[0]

    def advice(self) -> str:
        """What a missed gate may come from."""
        used, others = self.benchmark.preparation, self.benchmark.alternatives
        said = f" Preprocessing used: {used}." if used else ""
        return f"{said} Other models of this benchmark need: {others}." if others else said

    def say(self, text: str, phase: Phase = "warning") -> None:
        self.listener.on_event(
            Event(phase, self.benchmark.name, self.scenario, "performance", text)
        )

    def run(self) -> Outcome:
        """Everything; what went wrong is in the outcome."""
        plan = self.plan
        outcome = Outcome(
            self.benchmark.name, self.scenario, "failed", plan.division, gate=plan.gate
        )
        try:
            job = _job(plan, self.benchmark, self.scenario, "accuracy")
            accuracy = measure(job, self.runs / "accuracy", self.listener)
            outcome = replace(outcome, accuracy_run=accuracy, path=accuracy.folder)
            if not accuracy.valid:
                return replace(outcome, message="; ".join(accuracy.reasons))
            dataset = self.benchmark.make_dataset(plan.data)
            score = self.benchmark.score(accuracy.folder / logs.ACCURACY, dataset)
            outcome = replace(outcome, score=score)
            if plan.gate is not None and not score.value >= plan.gate:
                missed = (
                    f"found {score.metric} = {score.value:.6g}; asked for at least "
                    f"{plan.gate:.6g} ({plan.gate - score.value:.3g} short)"
                )
                if not plan.measure_anyway:
                    return replace(
                        outcome,
                        status="gate-missed",
                        message=f"{missed}; the performance was not measured.{self.advice()}",
                    )
                outcome = replace(outcome, division="open")
                self.notes.append(
                    f"The accuracy gate was missed: {missed}; no closed-division result."
                )
            gate_notes = tuple(self.notes)
            performance = self.measured()
            tests: tuple[ComplianceRun, ...] = ()
            if plan.compliance and performance.valid:
                performance, tests = self.comply(performance, accuracy, dataset)
            path = self.write(outcome.division, accuracy, performance, score, tests)
            failed = compliance.summary(tests)
            if plan.compliance and not performance.valid:
                failed = "the compliance tests were not run, because the run is not VALID"
            status: Status = "valid" if performance.valid else "invalid"
            return replace(
                outcome,
                status="not-compliant" if performance.valid and failed else status,
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
        job = _job(plan, self.benchmark, self.scenario, "performance")
        if plan.search is None:
            return self.performance(job)
        full = job.settings.given().get("min_duration", DEFAULT_DURATION_MS) / 1000
        if self.scenario != "Server":  # whose search says it once it knows the rate
            low, high = estimate(plan.search, self.scenario, full)
            self.say(
                f"the search takes about {duration_text(low)} with its full run, at most "
                f"{duration_text(high)}",
                "search",
            )
        log = ProbeLog(
            plan.out.with_name(plan.out.name + ".search")
            / f"{self.benchmark.name}-{self.scenario}.jsonl",
            self.signature(job),
        )
        found = find(
            plan.search,
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
        return self.confirm(plan.search, job, found, log)

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
            "search": asdict(self.plan.search) if self.plan.search else None,
            "system": self.system,
        }

    def confirm(self, search: Search, job: Job, found: Found, log: ProbeLog) -> Measurement:
        """Full runs at the value found and, where they are not VALID, on the safer side of it."""
        last: Measurement | None = None
        hopeless: HopelessRun | None = None
        length = job.settings.given().get("min_duration", DEFAULT_DURATION_MS) / 1000
        disturbed = found.disturbed
        for number, value in enumerate(confirmations(search, found, self.scenario), 1):
            if number > 1 and time.monotonic() + length > found.deadline:
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
                f"{job.settings.model}.{self.scenario}.{found.key} = {value:g}\n"
            )
            own = job.settings.user_conf.rstrip("\n")
            settings = replace(
                job.settings, user_conf=f"{own}\n{text}" if own else text, target_qps=None
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
                "confirmation", value=value, valid=last.valid, metric=last.metric,
                reason="; ".join(last.reasons),
            )  # fmt: skip
            disturbed = max(disturbed, last.disturbed)
            said = "VALID" if last.valid else f"not VALID ({'; '.join(last.reasons)})"
            self.say(f"the full run at {value:g} is {said}", "search")
            if last.valid:
                log.note("confirmed", value=value, metric=last.metric)
                self.notes.append(f"The load was searched: {found.text}.")
                return last
        if last is not None and last.folder.exists():
            return last
        raise hopeless or RunFailed("the search allows no full run; asked for 1 or more.")

    def performance(self, job: Job) -> Measurement:
        """The performance run, again where only a hint of ours made it INVALID."""
        plan, folder = self.plan, self.runs / "performance"
        for attempt in range(1, plan.attempts + 1):
            shutil.rmtree(folder, ignore_errors=True)
            better: tuple[RunSettings, str] | None
            try:
                result = measure(job, folder, self.listener)
            except HopelessRun as error:
                better = hint_after(error, job.settings)
                if better is None or attempt == plan.attempts:
                    raise
            else:
                better = None if result.valid else better_hint(result)
                if better is None or attempt == plan.attempts:
                    return result
            settings, why = better
            self.say(f"{why}; repeating the run")
            job = replace(job, settings=settings)
        raise SettingsError(f"found attempts={plan.attempts}; asked for 1 or more.")

    def comply(
        self, performance: Measurement, accuracy: Measurement, dataset: Dataset
    ) -> tuple[Measurement, tuple[ComplianceRun, ...]]:
        """The compliance tests; again where the speed alone differed, which noise does too."""
        plan, round = self.plan, get_round(self.plan.round)
        task = plan.task or self.benchmark.name
        names = required_tests(round, task, self.scenario)
        done: dict[str, ComplianceRun] = {}
        for attempt in range(1, plan.attempts + 1):
            for name in names:
                if name in done and done[name].passed is True:
                    continue
                done[name] = run_test(
                    name, round, task, performance.job, self.runs, performance, accuracy,
                    self.benchmark, dataset, self.listener,
                )  # fmt: skip
            failed = [test for test in done.values() if test.passed is not True]
            if not failed or attempt == plan.attempts or not all(t.by_speed for t in failed):
                break
            why = compliance.summary(failed)
            self.notes.append(f"Made again, since only the speed differed: {why}.")
            if attempt == plan.attempts - 1:
                # Perhaps it was the submitted run that was disturbed.
                self.say(f"{why}; repeating the performance run and its tests")
                job = performance.job
                if plan.search is None:
                    job = _job(plan, self.benchmark, self.scenario, "performance")
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
    ) -> Path:
        """The result into the tree, and the system's description if there is none."""
        plan = self.plan
        target = _places(plan, division, self.system, self.benchmark, self.scenario)
        if not target.system.exists() or plan.overwrite:
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
                task=plan.task,
                round=plan.round or "",
            ),
            tests,
            overwrite=plan.overwrite,
        )

    def describe(self, division: str, target: Places, framework: str) -> None:
        plan = self.plan
        remote, network = False, {}
        if plan.backend == "kserve":
            from runner.backends.kserve import is_remote, network_fields

            options = _backend_options(plan, self.benchmark)
            remote = is_remote(options)
            if division == "network":
                network = network_fields(options, plan.workers)
        write_system(
            target.system,
            describe_system(
                system_name=self.system,
                submitter=plan.submitter,
                division=division,
                framework=framework,
                system_type=plan.system_type,
                status=plan.status,
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
        return replace(settings, target_qps=0.4 * asked), str(error)
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
        return (
            replace(settings, target_qps=1.3 * result.metric),
            "the run ended before its minimum duration",
        )
    late = not detail.get("result_perf_constraints_met", True) or not detail.get(
        "early_stopping_met", True
    )
    asked = detail.get("effective_target_qps")
    if scenario == "Server" and late and isinstance(asked, (int, float)):
        return (
            replace(settings, target_qps=0.4 * asked),
            f"too many queries were late at {asked:g} a second",
        )
    return None
