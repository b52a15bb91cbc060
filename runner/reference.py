"""A whole reference measurement: the gate first, then the performance, into a submission tree."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from runner.benchmarks import get_benchmark
from runner.benchmarks.base import Benchmark, Score
from runner.errors import OutputError, RunnerError, SettingsError
from runner.progress import Event, Progress, Silent
from runner.run import Job, Measurement, measure
from runner.settings import SCENARIOS, Mode, RunSettings
from runner.submission import (
    check_name,
    home,
    refuse_occupied,
    result_folder,
    write_result,
    write_system,
)
from runner.system import default_system_name, describe_system

Status = Literal["valid", "invalid", "gate-missed", "failed"]


@dataclass(frozen=True)
class Plan:
    """What to measure and where to put it.

    Attributes:
        benchmark: a name of the registry, or `module:NAME`.
        out: the submission tree; created, or added to.
        scenarios: any of `SCENARIOS`, in the order to run them.
        division: "closed" or "open".
        submitter, system: folder names; the system's is made from the processor if None.
        system_type, status: for the system description.
        backend: "onnxruntime", "dummy" or `module:Class`; `backend_options` override what the
            benchmark suggests.
        precision: which of the benchmark's models; `model` names another file in its place.
        data: the data set's folder or file; None for the benchmark's default.
        gate: least accuracy, in the metric's unit; None: no gate.
        min_duration_ms, min_query_count: None leaves them to LoadGen (600,000 ms).
        least_duration_ms: the round's minimum, for the lint of `user_conf`.
        target_latency_ms: Server's limit, for benchmarks that LoadGen does not know.
        target_qps, expected_latency_ms: None: from a warm-up.
        user_conf: text of a user.conf to start from.
        performance_sample_count, batch_size: None: the benchmark's.
        load: share of the warm-up's one-by-one rate that Server is asked for.
        measure_anyway: measure performance although the gate was missed; the result then goes
            into the open division.
        overwrite: replace older results of the same names.
        attempts: how often a performance run is made that was INVALID by a hint of the warm-up.
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
    precision: str = "fp32"
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
    load: float = 0.25
    measure_anyway: bool = False
    overwrite: bool = False
    attempts: int = 3


@dataclass(frozen=True)
class Outcome:
    """What became of one scenario.

    Attributes:
        status: "valid"; "invalid" (LoadGen says so; it lies in the tree); "gate-missed" (no
            performance was measured); "failed" (no result, `message` says why).
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


def run_benchmark(plan: Plan, progress: Progress | None = None) -> list[Outcome]:
    """Measure every scenario of the plan: accuracy, then performance if the gate is met.

    Returns:
        One outcome a scenario, in order; a failed scenario does not keep the others from
        running.

    Raises:
        SettingsError, OutputError: before anything ran.
        Interrupted: Ctrl-C; finished scenarios lie in the tree, the running one does not.
    """
    return list(iter_benchmark(plan, progress))


def iter_benchmark(plan: Plan, progress: Progress | None = None) -> Iterator[Outcome]:
    """As `run_benchmark`, each outcome as it comes."""
    benchmark = get_benchmark(plan.benchmark)
    system = check_name(plan.system or default_system_name(plan.backend), "system")
    if not plan.scenarios:
        raise SettingsError(f"found no scenario; asked for some of {', '.join(SCENARIOS)}.")
    divisions = {plan.division, "open"} if plan.measure_anyway else {plan.division}
    for scenario in plan.scenarios:
        _job(plan, benchmark, scenario, "performance").settings.conf()
        for division in divisions:
            place = result_folder(
                home(plan.out, division, plan.submitter), system, benchmark, scenario
            )
            if not plan.overwrite:
                refuse_occupied(place)
    runs = _runs_folder(plan.out)
    listener = progress or Silent()
    try:
        for scenario in plan.scenarios:
            yield _scenario(plan, benchmark, system, scenario, runs / scenario, listener)
    finally:
        _remove_empty(runs)


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


def _job(plan: Plan, benchmark: Benchmark, scenario: str, mode: Mode) -> Job:
    model: Path | None = plan.model
    if model is None and plan.backend != "dummy":
        if plan.precision not in benchmark.models:
            raise SettingsError(
                f"found precision {plan.precision!r}; {benchmark.name} comes as "
                f"{', '.join(benchmark.models)}. Choose one, or name a model file."
            )
        model = benchmark.models[plan.precision]
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
        ),
        backend=plan.backend,
        backend_options={
            **benchmark.backend_options.get(plan.backend, {}),
            **plan.backend_options,
        },
        model=str(model) if model else None,
        data=str(plan.data) if plan.data else None,
        batch_size=plan.batch_size,
        performance_sample_count=plan.performance_sample_count,
    )


def _scenario(
    plan: Plan,
    benchmark: Benchmark,
    system: str,
    scenario: str,
    runs: Path,
    listener: Progress,
) -> Outcome:
    outcome = Outcome(benchmark.name, scenario, "failed", plan.division, gate=plan.gate)
    try:
        accuracy = measure(_job(plan, benchmark, scenario, "accuracy"), runs / "accuracy", listener)
        outcome = replace(outcome, accuracy_run=accuracy, path=accuracy.folder)
        if not accuracy.valid:
            return replace(outcome, message="; ".join(accuracy.reasons))
        dataset = benchmark.make_dataset(plan.data)
        score = benchmark.score(accuracy.folder / "mlperf_log_accuracy.json", dataset)
        outcome = replace(outcome, score=score)
        notes: tuple[str, ...] = ()
        if plan.gate is not None and not score.value >= plan.gate:
            missed = (
                f"found {score.metric} = {score.value:.6g}; asked for at least {plan.gate:.6g} "
                f"({plan.gate - score.value:.3g} short)"
            )
            if not plan.measure_anyway:
                return replace(
                    outcome,
                    status="gate-missed",
                    message=f"{missed}; the performance was not measured.",
                )
            outcome = replace(outcome, division="open")
            notes = (f"The accuracy gate was missed: {missed}; no closed-division result.",)
        performance = _performance(plan, benchmark, scenario, runs, listener)
        folder = home(plan.out, outcome.division, plan.submitter)
        path = write_result(
            folder,
            system,
            benchmark,
            accuracy,
            performance,
            score,
            precision=plan.precision if plan.backend != "dummy" else "none",
            notes=notes,
            overwrite=plan.overwrite,
        )
        _describe(plan, outcome.division, system, folder, performance)
        return replace(
            outcome,
            status="valid" if performance.valid else "invalid",
            metric=performance.metric,
            unit=performance.unit,
            path=path,
            message="; ".join((*notes, *performance.reasons)),
            performance_run=replace(performance, folder=path / "performance" / "run_1"),
            accuracy_run=replace(accuracy, folder=path / "accuracy"),
        )
    except RunnerError as error:
        return replace(outcome, status="failed", message=str(error), path=runs)


def _describe(
    plan: Plan, division: str, system: str, folder: Path, performance: Measurement
) -> None:
    path = folder / "systems" / f"{system}.json"
    if path.exists() and not plan.overwrite:
        return  # a submitter may have completed it by hand since
    framework = performance.framework
    write_system(
        folder,
        system,
        describe_system(
            system_name=system,
            submitter=plan.submitter,
            division=division,
            framework=framework,
            system_type=plan.system_type,
            status=plan.status,
            uses_accelerator="CUDA" in framework or "Tensorrt" in framework,
            storage=folder,
        ),
    )


def _performance(
    plan: Plan, benchmark: Benchmark, scenario: str, runs: Path, listener: Progress
) -> Measurement:
    """The performance run, again where only a hint of ours made it INVALID."""
    job = _job(plan, benchmark, scenario, "performance")
    for attempt in range(1, plan.attempts + 1):
        folder = runs / ("performance" if attempt == 1 else f"performance-{attempt}")
        result = measure(job, folder, listener)
        better = None if result.valid else better_hint(result)
        if better is None or attempt == plan.attempts:
            return result
        settings, why = better
        listener.on_event(
            Event("warning", benchmark.name, scenario, "performance", f"{why}; repeating the run")
        )
        shutil.rmtree(folder, ignore_errors=True)
        job = replace(job, settings=settings)
    raise SettingsError(f"found attempts={plan.attempts}; asked for 1 or more.")


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
