"""What to measure, under which rules, and where to put it.

A `Plan` says everything.  `plan_for` makes one by a round's rules: its accuracy gate, durations,
latency limit and samples in memory; `plan_of` makes it from a run file.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runner.affinity import parse_cpus
from runner.backends import BACKENDS, NETWORKED
from runner.benchmarks import get_benchmark
from runner.errors import SettingsError
from runner.layout import get_round, newest_round
from runner.search import Search
from runner.settings import RESULTS, SCENARIOS, parse_user_conf
from schemas import Round, UnknownRound, load_round, round_names
from schemas import run_file as files
from schemas.names import benchmark_name
from schemas.round import Benchmark as RoundBenchmark
from schemas.round import Scenario
from schemas.run_file import BadRunFile, RunFile


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The submission tree and the names in it.

    Attributes:
        out: the tree; created, or added to.
        division: "closed", "open" or "network".
        submitter, system: folder names; the system's is made from the processor if None.
        system_type, status: for the system description.
        overwrite: replace older results of the same names.
        resume: keep scenarios that were finished with the same settings.
    """

    out: Path
    division: str = "closed"
    submitter: str = "Assay"
    system: str | None = None
    system_type: str = "datacenter,edge"
    status: str = "rdi"
    overwrite: bool = False
    resume: bool = False

    def __post_init__(self) -> None:
        if self.out.name in ("", ".."):  # what is beside it needs a name to begin with
            object.__setattr__(self, "out", self.out.resolve())
        if not self.out.name:
            raise SettingsError(f"found tree {self.out}; expected a folder below it.")


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What runs, and on what.

    Attributes:
        precision: which of the benchmark's models (None: fp32); `model` names another file in its
            place, whose weights must then be of this type (None: any).
        data: the data set's folder or file; None for the benchmark's default.
    """

    model: Path | None = None
    precision: str | None = None
    data: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Load:
    """How much load, for how long.

    Attributes:
        min_duration_ms, min_query_count: None leaves them to the round, or to LoadGen (600,000 ms).
        target_qps, expected_latency_ms: None: from a warm-up.
        user_conf: text of a user.conf to start from; `user_conf_name`: how messages call it.
        share: of the warm-up's one-by-one rate that Server is asked for.
        warm_up_s: how long to warm up, at least, before LoadGen begins.
    """

    min_duration_ms: int | None = None
    min_query_count: int | None = None
    target_qps: float | None = None
    expected_latency_ms: float | None = None
    user_conf: str = ""
    user_conf_name: str = "user.conf"
    share: float = 0.25
    warm_up_s: float = 0.3


@dataclass(frozen=True, kw_only=True)
class Execution:
    """What executes the model, and how.

    Attributes:
        backend: a name of the registry, or one of your own (see `runner.named`).
        backend_options: override what the benchmark suggests.
        batch_size, max_batch: samples in one inference, in Offline and at most in Server; None:
            the benchmark's.
        workers, batch_deadline_us, cpus, profile: see `runner.run.Job`.
    """

    backend: str = "onnxruntime"
    backend_options: Mapping[str, Any] = field(default_factory=dict)
    workers: int = 1
    batch_size: int | None = None
    max_batch: int | None = None
    batch_deadline_us: float = 0.0
    cpus: tuple[int, ...] = ()
    profile: bool = False


@dataclass(frozen=True, kw_only=True)
class Conduct:
    """What belongs to a measurement beside its two runs.

    Attributes:
        compliance: run the compliance tests that the round asks for.
        grader: command that runs the code in answers (see `runner.grading`); None: nothing does.
        measure_anyway: measure performance although the gate was missed; the result then goes into
            the open division.
        search: how to search for the load (`--find-qps`); None: no search.
        attempts: how often a performance run is made that was INVALID by a hint of the warm-up, and
            a compliance test that differed by its speed alone.
        early_stop, energy, stall_timeout_s: see `runner.run.Job`.
    """

    compliance: bool = False
    grader: str | None = None
    measure_anyway: bool = False
    search: Search | None = None
    attempts: int = 3
    early_stop: bool = True
    energy: bool = False
    stall_timeout_s: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the round requires of this benchmark; `plan_for` finds it.

    Attributes:
        round: whose layout, seeds and compliance tests; None: the newest, with LoadGen's seeds.
        task: the round's benchmark that this one is, or is scored as in the open division; None:
            the benchmark's own name.
        renamed: whether it is only scored as that benchmark: its folder then has its own name.
        gate: least accuracy, in the metric's unit; None: no gate.
        other_gates: bounds on further metrics that a benchmark's score has: name, least, greatest.
        least_duration_ms: the round's minimum, for the lint of a user.conf.
        target_latency_ms: Server's limit, for benchmarks that LoadGen does not know.
        performance_sample_count: None: the benchmark's.
    """

    round: str | None = None
    task: str | None = None
    renamed: bool = False
    gate: float | None = None
    other_gates: tuple[tuple[str, float, float], ...] = ()
    least_duration_ms: int = 0
    target_latency_ms: float | None = None
    performance_sample_count: int | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A measurement.

    Attributes:
        benchmark: a name of the registry, or one of your own (see `runner.named`).
        scenarios: any of `runner.settings.RESULTS`, in the order to run them.
        command: the command line, for the README; `run_file`: the text of the run file that says
            the same, for the README and to resume by.
    """

    benchmark: str
    tree: Tree
    scenarios: tuple[str, ...] = SCENARIOS
    inputs: Inputs = Inputs()
    load: Load = Load()
    execution: Execution = Execution()
    conduct: Conduct = Conduct()
    rules: Rules = Rules()
    command: str = ""
    run_file: str = ""


def plan_for(
    round: str | None,
    benchmark: str,
    *,
    tree: Tree,
    scenarios: Iterable[str] = (),
    scored_as: str | None = None,
    inputs: Inputs | None = None,
    load: Load | None = None,
    execution: Execution | None = None,
    conduct: Conduct | None = None,
) -> Plan:
    """A measurement by the rules of a round.

    Args:
        round: None: the newest that has the benchmark.
        benchmark: a name of the registry, or one of your own.
        scenarios: none: all that the round has for it.
        scored_as: open division: the round's benchmark that stands for this one.

    Raises:
        SettingsError: a name is unknown, or settings contradict one another or the round.
    """
    load, execution, conduct = load or Load(), execution or Execution(), conduct or Conduct()
    own = get_benchmark(benchmark)
    if scored_as is not None and tree.division != "open":
        raise SettingsError("--as belongs to --division open: a closed result is its own benchmark")
    if conduct.search is not None and load.target_qps is not None:
        raise SettingsError(
            "--find-qps looks for the rate that --target-qps sets; give one of them"
        )
    rules, known = _rules(round or (newest_round() if scored_as else None), scored_as or own.name)
    verify_round(rules, tree.system_type)
    task = next((name for name, b in rules.benchmarks.items() if b is known), None)
    if scored_as is not None and task is None:
        raise SettingsError(
            f"--as {scored_as}: round {rules.name} has no such benchmark; it has "
            f"{', '.join(rules.benchmarks)}"
        )
    if conduct.compliance and known is None:
        raise SettingsError(f"--compliance: round {rules.name} does not know {own.name}; see --as")
    chosen = _scenarios(scenarios, known)
    wanted = [known.scenarios[s] for s in chosen if known is not None and s in known.scenarios]
    least = max((limits.min_duration_ms for limits in wanted), default=0)
    closed = tree.division in ("closed", "network")
    target_ms = _server_limit_ms(wanted)
    if known is not None and known.conf_model == own.loadgen_model:
        target_ms = None  # LoadGen's own configuration has it
    parse_user_conf(
        load.user_conf,
        name=load.user_conf_name,
        least_duration_ms=least if closed else 0,
        server_limit_allowed=target_ms is not None,
    )
    count = known.performance_sample_count if known is not None else None
    return Plan(
        benchmark=benchmark,
        tree=tree,
        scenarios=chosen,
        inputs=inputs or Inputs(),
        load=replace(load, min_duration_ms=load.min_duration_ms or least or None),
        execution=execution,
        conduct=conduct,
        rules=Rules(
            round=rules.name,
            task=task,
            renamed=scored_as is not None,
            gate=known.accuracy[0].bound if closed and known and known.accuracy else None,
            other_gates=_other_gates(known) if closed and known else (),
            least_duration_ms=least if closed else 0,
            target_latency_ms=target_ms,
            performance_sample_count=(
                max(own.performance_sample_count, count or 0) if known is not None else None
            ),
        ),
    )


def _other_gates(known: RoundBenchmark) -> tuple[tuple[str, float, float], ...]:
    """Bounds on all metrics but the first."""
    first = known.accuracy[0].metric if known.accuracy else ""
    low = {gate.metric: gate.bound for gate in known.accuracy}
    high = {gate.metric: gate.bound for gate in known.accuracy_limits}
    names = dict.fromkeys((*low, *high))
    return tuple(
        (name, low.get(name, -math.inf), high.get(name, math.inf))
        for name in names
        if name != first
    )


def verify_round(round: Round, system_type: str) -> None:
    """See that the runner can write a tree of this round, for such a system.

    Raises:
        SettingsError: it cannot.
    """
    known = round.system_description.system_type
    if not known:
        raise SettingsError(
            f"round {round.name} has no system types, and the installed LoadGen writes other logs; the "
            "runner writes trees of v1.0 and later."
        )
    if system_type not in known:
        raise SettingsError(
            f"found system type {system_type!r}; expected one of {', '.join(map(repr, known))}."
        )


def _rules(name: str | None, benchmark: str) -> tuple[Round, RoundBenchmark | None]:
    """The round, and the benchmark's rules in it where it has any."""
    if name is not None:
        try:
            round = load_round(name)
        except UnknownRound as error:
            raise SettingsError(str(error)) from error
        return round, round.benchmarks.get(benchmark_name(benchmark, round, {}, "closed") or "")
    for candidate in reversed(round_names()):
        round = load_round(candidate)
        known = benchmark_name(benchmark, round, {}, "closed")
        if known is not None:
            return round, round.benchmarks[known]
    return get_round(None), None


def rules_of(benchmark: str, round: str | None = None) -> tuple[Round, RoundBenchmark | None]:
    """The round whose rules apply to a benchmark, and those rules; None where it has none.

    Raises:
        SettingsError: no such round.
    """
    return _rules(round, get_benchmark(benchmark).name)


def _scenarios(wanted: Iterable[str], known: RoundBenchmark | None) -> tuple[str, ...]:
    names = list(wanted) or [
        s for s in RESULTS if (s in SCENARIOS if known is None else s in known.scenarios)
    ]
    by_low = {s.lower(): s for s in RESULTS}
    unknown = [name for name in names if name.lower() not in by_low]
    if unknown:
        raise SettingsError(f"found scenario {unknown[0]!r}; expected one of {', '.join(RESULTS)}")
    return tuple(dict.fromkeys(by_low[name.lower()] for name in names))


def _server_limit_ms(wanted: list[Scenario]) -> float | None:
    limit = next((s.target_latency_ns for s in wanted if s.target_latency_ns), None)
    return limit / 1e6 if limit else None


def read_run_file(config: Path | None = None, **options: Any) -> RunFile:
    """A run file, with single settings changed.

    Args:
        config: None: all defaults.  Relative paths in it are relative to its folder.
        options: settings by name, whatever table they are in: `out`, `target_qps`, `scored_as`.

    Raises:
        SettingsError: the file cannot be read, a setting is unknown, or a value cannot be.
    """
    run_file, name = RunFile(), "settings"
    try:
        if config is not None:
            name = str(config)
            run_file = _below(files.read(config.read_text(encoding="utf-8")), config.parent)
        given = {
            key: str(value) if isinstance(value, Path) else value for key, value in options.items()
        }
        return files.with_options(run_file, given) if given else run_file
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--config {config}: {_why(error)}") from error
    except BadRunFile as error:
        raise SettingsError(f"{name}: {error}") from error


def _paths(run_file: RunFile) -> dict[str, str]:
    """The settings that name files or folders."""
    named = {
        "out": run_file.tree.out,
        "model": run_file.model.model,
        "data": run_file.model.data,
        "user_conf": run_file.load.user_conf,
        "engine": run_file.execution.engine,
    }
    own = {"benchmark": run_file.benchmark, "backend": run_file.execution.backend or ""}
    files_of_own = {k: text for k, text in own.items() if text.rpartition(":")[0].endswith(".py")}
    return {name: path for name, path in {**named, **files_of_own}.items() if path is not None}


def _below(run_file: RunFile, folder: Path) -> RunFile:
    """The same with its paths, which are relative to that folder, as they are from the current one."""
    return files.with_options(
        run_file, {name: str(folder / path) for name, path in _paths(run_file).items()}
    )


def relative_to(run_file: RunFile, folder: Path) -> RunFile:
    """The same with its paths as they are from a folder."""
    return files.with_options(
        run_file,
        {
            name: path if Path(path).is_absolute() else os.path.relpath(path, folder)
            for name, path in _paths(run_file).items()
        },
    )


def plan_of(run_file: RunFile) -> Plan:
    """The measurement that a run file describes, by the rules of its round.

    Raises:
        SettingsError: see `plan_for`; also where no tree is named.
        BackendError: a server's address cannot be one.
    """
    tree, model, load = run_file.tree, run_file.model, run_file.load
    conduct, execution = run_file.conduct, run_file.execution
    if tree.out is None:
        raise SettingsError("found no submission tree; give --out FOLDER")
    plan = plan_for(
        tree.round,
        run_file.benchmark,
        scenarios=run_file.scenarios,
        scored_as=run_file.scored_as,
        tree=Tree(
            out=Path(tree.out),
            division=tree.division,
            submitter=tree.submitter,
            system=tree.system,
            system_type=tree.system_type,
            overwrite=tree.overwrite,
            resume=tree.resume,
        ),
        inputs=Inputs(
            model=Path(model.model) if model.model else None,
            precision=model.precision,
            data=Path(model.data) if model.data else None,
        ),
        load=Load(
            min_duration_ms=max(1, round(load.min_duration * 1000)) if load.min_duration else None,
            target_qps=load.target_qps,
            user_conf=_user_conf(load.user_conf),
            user_conf_name=load.user_conf or "user.conf",
            warm_up_s=load.warm_up,
        ),
        execution=_execution(execution, tree, run_file.benchmark),
        conduct=Conduct(
            compliance=conduct.compliance,
            grader=conduct.grader,
            measure_anyway=conduct.measure_anyway,
            search=(
                Search(load.probe_duration, max(load.tolerance / 100, 0.001), load.margin / 100)
                if load.find_qps
                else None
            ),
            early_stop=conduct.early_stop,
            energy=conduct.energy,
            stall_timeout_s=conduct.stall_timeout,
        ),
    )
    return replace(plan, run_file=files.write(run_file))


def _user_conf(path: str | None) -> str:
    if path is None:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--user-conf {path}: {_why(error)}") from error


def _why(error: Exception) -> str:
    """Why a file cannot be read, without its name."""
    if isinstance(error, UnicodeDecodeError):
        return f"found byte {error.object[error.start]:#04x} at {error.start:,}; expected UTF-8"
    return f"cannot be read ({getattr(error, 'strerror', None) or error})"


def _workers(backend: str, urls: int) -> int:
    """Requests at once where nobody says: a server of language models batches many of them."""
    if backend == "openai":
        return 256 * urls or 32
    return 8 * max(1, urls) if backend == "kserve" else 1


def _execution(table: files.ExecutionTable, tree: files.TreeTable, benchmark: str) -> Execution:
    """With what a server behind a network needs.

    Raises:
        SettingsError: options that belong to another backend.
        BackendError: a server's address cannot be one.
    """
    generation = get_benchmark(benchmark).generation
    backend = table.backend or ("openai" if generation is not None else "onnxruntime")
    behind = backend in NETWORKED
    if table.urls and not behind:
        raise SettingsError("--url belongs to --backend kserve or openai")
    if tree.division == "network" and not behind:
        raise SettingsError(
            "--division network needs a system behind a network: --backend kserve or openai"
        )
    embedded = generation is not None and generation.server is not None and not table.urls
    if behind and not embedded and not tree.system:
        from runner.backends.kserve import is_remote

        if is_remote({"url": table.urls}):
            raise SettingsError("--system NAME is needed: the servers are not this machine")
    runtime = backend == "onnxruntime"
    for option, set_ in (
        ("--provider-option", table.provider_options),
        ("--session-config", table.session_config),
        ("--inter-op-threads", table.inter_op_threads),
        ("--profile", table.profile),
    ):
        if set_ and not runtime and backend in BACKENDS:
            raise SettingsError(f"{option} belongs to --backend onnxruntime, not to {backend}")
    cpus = parse_cpus(table.cpus) if table.cpus else ()
    # ONNX Runtime's own choice of threads binds each to a core, whichever this process may use.
    threads = table.threads or (len(cpus) if cpus and runtime else None)
    options = {
        "url": table.urls or None,
        "threads": threads,
        "providers": table.providers or None,
        "spinning": table.spinning,
        "optimization": table.graph_optimization,
        "io_binding": table.io_binding or None,
        "provider_options": table.provider_options or None,
        "session_config": table.session_config or None,
        "inter_op_threads": table.inter_op_threads,
        "devices": table.devices or None,
        "engine": table.engine,
    }
    given = {name: value for name, value in options.items() if value is not None}
    return Execution(
        backend=backend,
        backend_options={**given, **table.backend_options},
        # TensorRT's backend shares work out to its devices by itself.
        workers=table.workers
        or (len(table.devices) if runtime else 0)
        or _workers(backend, len(table.urls)),
        batch_size=table.batch,
        # A server makes its own batches; what dispatches to it should not.
        max_batch=table.max_batch or (1 if behind else None),
        batch_deadline_us=table.batch_deadline_us,
        cpus=cpus,
        profile=table.profile,
    )
