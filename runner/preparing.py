"""What a plan comes to: the fitted benchmark, the model's file, LoadGen jobs, places in the tree."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.backends import BACKENDS, NETWORKED
from runner.benchmarks import get_benchmark, open_benchmark
from runner.benchmarks.base import Benchmark
from runner.errors import SettingsError
from runner.layout import Places, get_round, places
from runner.named import short
from runner.plan import Plan
from runner.provenance import Provenance, provenance, refuse_contradiction
from runner.run import Job
from runner.settings import INTERACTIVE, Mode, RunSettings


def fitted(plan: Plan) -> Benchmark:
    """The plan's benchmark, fitted to the model that will run."""
    plain = get_benchmark(plan.benchmark)
    return open_benchmark(plan.benchmark, model_of(plan, plain), plan.inputs.data)


def model_of(plan: Plan, benchmark: Benchmark) -> Path | None:
    """The file or folder of the model; None for the dummy backend."""
    if plan.inputs.model is not None or plan.execution.backend == "dummy":
        return plan.inputs.model
    precision = plan.inputs.precision or "fp32"
    if plan.execution.backend in NETWORKED and precision not in benchmark.models:
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


def made_with(plan: Plan, benchmark: Benchmark) -> Provenance:
    """What will run, read from its files.

    Raises:
        SettingsError: the precision that was stated is not that of the model.
        BackendError: the model or the data cannot be read.
    """
    model = model_of(plan, benchmark)
    found = provenance(benchmark, model, plan.inputs.data)
    if (
        plan.inputs.model is not None
        and plan.inputs.precision is not None
        and plan.execution.backend != "dummy"
    ):
        refuse_contradiction(plan.inputs.precision, plan.inputs.model, found.weight_types)
    return found


def _converts(plan: Plan, benchmark: Benchmark) -> bool:
    """Whether the backend makes the float16 model from the float32 one."""
    return (
        plan.execution.backend == "tensorrt"
        and plan.inputs.precision in ("fp16", "bf16")
        and plan.inputs.model is None
        and plan.inputs.precision not in benchmark.models
        and "fp32" in benchmark.models
    )


def backend_options(plan: Plan, benchmark: Benchmark) -> dict[str, Any]:
    own = {"precision": plan.inputs.precision} if _converts(plan, benchmark) else {}
    return {
        **benchmark.backend_options.get(plan.execution.backend, {}),
        **own,
        **plan.execution.backend_options,
    }


def job_of(plan: Plan, benchmark: Benchmark, scenario: str, mode: Mode) -> Job:
    model = model_of(plan, benchmark)
    interactive = scenario == INTERACTIVE
    result, scenario = scenario, "Server" if interactive else scenario
    server, rate = scenario == "Server", scenario in ("Server", "Offline")
    settings = RunSettings(
        model=benchmark.loadgen_model + ("-interactive" if interactive else ""),
        scenario=scenario,
        interactive=interactive,
        mode=mode,
        min_duration_ms=plan.load.min_duration_ms,
        min_query_count=plan.load.min_query_count,
        target_latency_ms=plan.rules.target_latency_ms if server else None,
        target_qps=plan.load.target_qps if rate else None,
        expected_latency_ms=None if rate else plan.load.expected_latency_ms,
        user_conf=plan.load.user_conf,
        least_duration_ms=plan.rules.least_duration_ms,
        load=plan.load.share,
        seeds=_seeds(plan),
    )
    return Job(
        benchmark=plan.benchmark,
        settings=replace(settings, **_token_settings(plan, benchmark, result)),
        backend=plan.execution.backend,
        backend_options=backend_options(plan, benchmark),
        model=str(model) if model else None,
        data=str(plan.inputs.data) if plan.inputs.data else None,
        use=mode,
        batch_size=plan.execution.max_batch if server else plan.execution.batch_size,
        performance_sample_count=plan.rules.performance_sample_count,
        workers=plan.execution.workers,
        batch_deadline_us=plan.execution.batch_deadline_us,
        early_stop=plan.conduct.early_stop,
        energy=plan.conduct.energy,
        stall_timeout_s=plan.conduct.stall_timeout_s,
        warm_up_s=plan.load.warm_up_s,
        cpus=plan.execution.cpus,
        profile=plan.execution.profile,
    )


def _token_settings(plan: Plan, benchmark: Benchmark, scenario: str) -> dict[str, Any]:
    """What the round says of a language benchmark, in the words of `RunSettings`; {} for others.

    LoadGen's own configuration has it for the benchmarks of its own round alone, and by names of
    its own.
    """
    if benchmark.generation is None:
        return {}
    task = get_round(plan.rules.round).benchmarks.get(plan.rules.task or benchmark.name)
    limits = task.scenarios.get(scenario) if task is not None else None
    if limits is None:
        return {"token_latencies": True}
    found: dict[str, Any] = {
        "token_latencies": limits.token_latencies,
        "equal_issue": limits.equal_issue,
    }
    if scenario in ("Server", INTERACTIVE):
        found |= {"ttft_ms": limits.ttft_ms, "tpot_ms": limits.tpot_ms}
    if scenario == "Offline" and plan.load.min_query_count is None:
        found["min_query_count"] = limits.min_samples_per_query
    return found


def verify_streaming(plan: Plan, benchmark: Benchmark) -> None:
    """Raises SettingsError where tokens are wanted of a backend that streams none, or the reverse."""
    backend = plan.execution.backend
    streams, wanted = backend == "openai", benchmark.generation is not None
    if streams != wanted and backend in BACKENDS:
        raise SettingsError(
            f"found backend {backend} for {benchmark.name}; expected "
            f"{'one that streams tokens: openai' if wanted else 'another than openai'}."
        )


def _seeds(plan: Plan) -> tuple[int, int, int] | None:
    """The round's seeds: LoadGen has those of its own round built in."""
    if plan.rules.round is None:
        return None
    seeds = get_round(plan.rules.round).seeds
    return int(seeds.qsl_rng_seed), int(seeds.sample_index_rng_seed), int(seeds.schedule_rng_seed)


def place_of(plan: Plan, division: str, system: str, benchmark: Benchmark, scenario: str) -> Places:
    task = plan.rules.task or benchmark.name
    directory = task
    if division == "open" and plan.rules.renamed:
        # A name of its own, so that nobody takes it for the round's benchmark.
        directory = f"{benchmark.name}-as-{task}"
    implementation = re.sub(r"[^A-Za-z0-9]+", "-", short(plan.execution.backend)).strip("-")
    return places(
        get_round(plan.rules.round),
        plan.tree.out,
        division,
        plan.tree.submitter,
        system,
        directory,
        scenario,
        implementation,
    )
