"""``assay run``, ``quantize`` and ``demo``: measuring, with progress on standard error."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.progress import Line
from assay.run_parser import add_run_options

if TYPE_CHECKING:
    from runner import Outcome, Plan
    from runner.progress import Event
    from schemas.round import Benchmark, Round

Write = Callable[[str], None]


class Listener:
    """Shows a run's events: one rewritten line in a terminal, one line a run elsewhere."""

    def __init__(self, say: Write, *, enabled: bool = True) -> None:
        self.line = Line(enabled=enabled)
        self.say = say
        self.enabled = enabled

    def on_event(self, event: Event) -> None:
        """Show one event."""
        if not self.enabled:
            return
        where = f"{event.benchmark} {event.scenario} {event.mode}"
        if event.phase == "running":
            self.line.show(f"{where}: {_numbers(event)}")
        elif event.phase in ("ready", "warning", "search"):
            self.line.clear()
            self.say(f"{where}: {event.message}" if event.message else f"{where}: {event.phase}")
        elif event.phase in ("done", "failed"):  # a failure's reason is the outcome's
            self.line.clear()
        else:
            self.line.show(f"{where}: {event.phase} {event.message}", force=True)


def _numbers(event: Event) -> str:
    """How far a run is, in the width of a terminal."""
    from runner.reference import duration_text

    parts = [f"{event.samples:,} samples", f"{event.rate:,.6g}/s"]
    if event.latency_ms is not None:
        kind = "p99" if event.scenario == "Server" else "mean"
        parts.append(f"{kind} {event.latency_ms:.3g} ms")
    if event.scenario == "Server" and event.mode != "accuracy":
        parts.append(f"{event.late:,} late, {event.waiting:,} waiting")
    parts.append(f"{event.elapsed_s:.0f} s")
    if event.remaining_s is not None:
        parts.append(f"{duration_text(event.remaining_s)} left")
    return ", ".join(parts)


def _round_and_benchmark(name: str, asked: str | None) -> tuple[Round, Benchmark | None]:
    from assay.status import Usage
    from checker.discover import benchmark_name
    from schemas import UnknownRound, load_round, round_names

    if asked is not None:
        try:
            round = load_round(asked)
        except UnknownRound as error:
            raise Usage(str(error)) from error
        known = benchmark_name(name, round, {}, "closed")
        return round, round.benchmarks.get(known or "")
    for candidate in reversed(round_names()):
        round = load_round(candidate)
        known = benchmark_name(name, round, {}, "closed")
        if known is not None:
            return round, round.benchmarks[known]
    return load_round(round_names()[-1]), None


def _scenarios(asked: list[str] | None, benchmark: Benchmark | None) -> tuple[str, ...]:
    from assay.status import Usage
    from runner import SCENARIOS

    wanted = asked or [s for s in SCENARIOS if benchmark is None or s in benchmark.scenarios]
    by_low = {s.lower(): s for s in SCENARIOS}
    found = []
    for text in wanted:
        for name in text.split(","):
            if name.strip().lower() not in by_low:
                raise Usage(f"unknown scenario {name!r}; the scenarios are {', '.join(SCENARIOS)}")
            found.append(by_low[name.strip().lower()])
    return tuple(dict.fromkeys(found))


def _user_conf(path: Path | None, least_ms: int, server_limit: bool) -> str:
    """A user.conf's text, linted under its own name."""
    from assay.status import Usage
    from runner import SettingsError, parse_user_conf

    if path is None:
        return ""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Usage(f"--user-conf {path}: {error}") from error
    try:
        parse_user_conf(
            text, name=str(path), least_duration_ms=least_ms, server_limit_allowed=server_limit
        )
    except SettingsError as error:
        raise Usage(str(error)) from error
    return text


def _backend_options(options: argparse.Namespace) -> dict[str, Any]:
    given: dict[str, Any] = {
        "url": list(options.url) or None,
        "threads": options.threads,
        "providers": list(options.provider) if options.provider else None,
        "spinning": None if options.spinning is None else options.spinning == "on",
        "optimization": options.graph_optimization,
        "io_binding": options.io_binding or None,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    return {**chosen, **dict(options.backend_option)}


def _is_remote(urls: list[str]) -> bool:
    from assay.status import Usage
    from runner import BackendError
    from runner.backends.kserve import is_remote

    try:
        return is_remote({"url": urls})
    except BackendError as error:
        raise Usage(str(error)) from error


def plan_of(options: argparse.Namespace, arguments: list[str] | None = None) -> tuple[Plan, Round]:
    """The measurement that the command line asks for, with its round's gate and durations."""
    from assay.status import Usage
    from runner import Plan, Search, SettingsError, get_benchmark
    from runner.layout import newest_round

    try:
        own = get_benchmark(options.benchmark)
        if options.task is not None and options.division != "open":
            raise Usage("--as belongs to --division open: a closed result is its own benchmark")
        round, benchmark = _round_and_benchmark(
            options.task or own.name, options.round or (newest_round() if options.task else None)
        )
        task = next((n for n, b in round.benchmarks.items() if b is benchmark), None)
        if options.task is not None and task is None:
            raise Usage(
                f"--as {options.task}: round {round.name} has no such benchmark; it has "
                f"{', '.join(round.benchmarks)}"
            )
        if options.compliance and benchmark is None:
            raise Usage(f"--compliance: round {round.name} does not know {own.name}; see --as")
        scenarios = _scenarios(options.scenario, benchmark)
        asked = [
            benchmark.scenarios[s] for s in scenarios if benchmark and s in benchmark.scenarios
        ]
        least = max((r.min_duration_ms for r in asked), default=0)
        gate = benchmark.accuracy[0].bound if benchmark is not None and benchmark.accuracy else None
        target = next((r.target_latency_ns for r in asked if r.target_latency_ns), None)
        if benchmark is not None and benchmark.conf_model == own.loadgen_model:
            target = None  # LoadGen's own configuration has it
        closed = options.division in ("closed", "network")
        behind = options.backend == "kserve"
        if options.url and not behind:
            raise Usage("--url belongs to --backend kserve")
        if behind and not options.system and _is_remote(options.url):
            raise Usage("--system NAME is needed: the servers are not this machine")
        if options.division == "network" and not behind:
            raise Usage("--division network needs a system behind a network: --backend kserve")
        duration = int(options.min_duration * 1000) if options.min_duration is not None else None
        plan = Plan(
            options.benchmark,
            out=options.out,
            scenarios=scenarios,
            division=options.division,
            submitter=options.submitter,
            system=options.system,
            system_type=options.system_type,
            backend=options.backend,
            backend_options=_backend_options(options),
            precision=options.precision,
            model=options.model,
            data=options.data,
            gate=gate if closed else None,
            min_duration_ms=duration if duration is not None else (least or None),
            least_duration_ms=least if closed else 0,
            target_latency_ms=target / 1e6 if target else None,
            target_qps=options.target_qps,
            user_conf=_user_conf(options.user_conf, least if closed else 0, target is not None),
            measure_anyway=options.measure_anyway,
            overwrite=options.overwrite,
            round=round.name,
            task=task,
            renamed=options.task is not None,
            performance_sample_count=(
                max(own.performance_sample_count, benchmark.performance_sample_count or 0)
                if benchmark is not None
                else None
            ),
            compliance=options.compliance,
            search=(
                Search(options.probe_duration, max(options.tolerance, 0.001), options.margin)
                if options.find_qps
                else None
            ),
            workers=options.workers or (8 * max(1, len(options.url)) if behind else 1),
            batch_size=options.batch,
            # A server makes its own batches; what dispatches to it should not.
            max_batch=options.max_batch or (1 if behind else None),
            batch_deadline_us=options.batch_deadline_us,
            early_stop=not options.no_early_stop,
            stall_timeout_s=options.stall_timeout,
            command=shlex.join(["assay", *arguments]) if arguments else "",
        )
    except SettingsError as error:
        raise Usage(str(error)) from error
    if plan.search is not None and plan.target_qps is not None:
        raise Usage("--find-qps looks for the rate that --target-qps sets; give one of them")
    return plan, round


def _measured(plan: Plan, listener: Listener, write: Write, say: Write) -> list[Outcome]:
    """Run the plan; every outcome is written as it comes, so that Ctrl-C loses none."""
    from assay.status import Usage
    from runner import RunnerError, iter_benchmark

    outcomes: list[Outcome] = []

    def kept() -> str:
        count = sum(1 for o in outcomes if o.status in ("valid", "invalid", "not-compliant"))
        return f"{count} finished scenario{'' if count == 1 else 's'} in {plan.out}"

    try:
        for outcome in iter_benchmark(plan, listener):
            listener.line.clear()
            outcomes.append(outcome)
            write(_lines([outcome]))
    except RunnerError as error:
        raise Usage(f"{error}{f' Kept: {kept()}.' if outcomes else ''}") from error
    except KeyboardInterrupt:
        listener.line.clear()
        say(
            f"interrupted; kept: {kept()}. Nothing is claimed of the scenario that ran; what it left "
            f"is in {plan.out}.runs"
        )
        raise
    finally:
        listener.line.clear()
    return outcomes


def _lines(outcomes: list[Outcome]) -> str:
    lines = []
    for o in outcomes:
        accuracy = (
            f"{o.score.metric} {o.score.value:.5g}" if o.score is not None else "accuracy not known"
        )
        gate = f" (gate {o.gate:.5g})" if o.gate is not None else ""
        metric = f"{o.metric:,.6g} {o.unit}" if o.metric is not None else "not measured"
        lines.append(f"{o.benchmark} {o.scenario:<12} {o.status:<11} {metric}; {accuracy}{gate}")
        if o.message:
            lines.append(f"    {o.message}")
    return "\n".join(lines) + "\n"


def run(options: argparse.Namespace, write: Write, say: Write) -> int:
    """Run ``assay run``: 0 every scenario valid, 1 some not, 2 cannot be done, 130 interrupted."""
    from assay.status import EXIT_ERRORS, EXIT_OK, Usage
    from runner import RunnerError, foresee

    plan, round = plan_of(options, sys.argv[1:] if sys.argv[1:2] == ["run"] else None)
    try:
        say(f"{plan.benchmark} by the rules of round {round.name}: {foresee(plan)}")
    except RunnerError as error:
        raise Usage(str(error)) from error
    for warning in _cautions(plan, round):
        say(f"note: {warning}")
    if options.dry_run:
        return EXIT_OK
    outcomes = _measured(plan, Listener(say, enabled=not options.no_progress), write, say)
    if any(o.status in ("valid", "invalid", "not-compliant") for o in outcomes):
        say(
            f"written to {options.out}; check it with: assay check {options.out} "
            f"--round {round.name}"
        )
    return EXIT_OK if all(o.status == "valid" for o in outcomes) else EXIT_ERRORS


def _cautions(plan: Plan, round: Round) -> list[str]:
    """What will keep the result from being accepted, said before hours are spent on it."""
    found = []
    rules = round.benchmarks.get(plan.task or plan.benchmark)
    if rules is None:
        found.append(
            f"round {round.name} does not know {plan.benchmark}: see --as, --division open"
        )
        return found
    found += _other_name(plan, round, rules)
    if rules.categories and plan.system_type not in rules.categories:
        found.append(
            f"{plan.task} is not a benchmark of {plan.system_type} systems in round {round.name}; "
            f"expected --system-type {' or '.join(rules.categories)}"
        )
    elif "datacenter" in plan.system_type and not {"datacenter", "none"} & set(rules.categories):
        found.append(
            f"{plan.task} is not in the datacenter suite of round {round.name}: the result counts "
            "for edge only"
        )
    if plan.backend == "kserve":
        found.append(
            "this machine cannot see what the system under test is made of: fill in its description; "
            "where number_of_nodes or accelerators_per_node is not a number, the official checker of "
            "v6.1 ends with a traceback"
        )
    dataset = rules.dataset
    stated = any(dataset.least(scenario) is not None for scenario in plan.scenarios)
    count = _sample_count(plan) if stated else None
    for scenario in plan.scenarios:
        asked = rules.scenarios.get(scenario)
        if asked is None:
            found.append(f"{scenario} is not a scenario of {plan.task} in round {round.name}")
            continue
        if plan.min_duration_ms is not None and plan.min_duration_ms < asked.min_duration_ms:
            found.append(
                f"{scenario} runs for {plan.min_duration_ms / 1000:g} s; the round requires "
                f"{asked.min_duration_ms / 1000:g} s, so no check will accept it"
            )
        least = dataset.least(scenario)
        if count is not None and least is not None and count < least:
            found.append(
                f"{scenario} has {count} samples; round {round.name} asks for {least} of "
                f"{plan.task or plan.benchmark}, so that no check will accept it: see --data"
            )
        if asked.compliance and not plan.compliance and plan.division != "open":
            found.append(
                f"{scenario} needs {', '.join(asked.compliance)} in the {plan.division} division: "
                "add --compliance"
            )
    return found


def _other_name(plan: Plan, round: Round, rules: Benchmark) -> list[str]:
    """A benchmark that the round scores as another one: said, with its own reference."""
    from runner import get_benchmark
    from schemas import load_round, round_names

    own = get_benchmark(plan.benchmark).name
    if plan.renamed or plan.task in (None, own) or not rules.accuracy or plan.division == "open":
        return []
    gate = rules.accuracy[0]
    text = f"round {round.name} scores {own} as {plan.task}: {gate.metric} of at least {gate.bound:.5g}"
    for name in reversed(round_names()):
        known = load_round(name).benchmarks.get(own)
        if known is not None and known.accuracy and known.accuracy[0].reference < gate.bound:
            return [
                f"{text}, which its own reference of round {name}, {known.accuracy[0].reference:.5g}, "
                "cannot meet: see --division open"
            ]
    return [text] if own not in plan.task and plan.task not in own else []


def _sample_count(plan: Plan) -> int | None:
    """None where the data set cannot be opened: the run will say why."""
    from runner import RunnerError, sample_count

    try:
        return sample_count(plan)
    except RunnerError:
        return None


def quantize(options: argparse.Namespace, write: Write, say: Write) -> int:
    """Run ``assay quantize``: 0 the gate is met, 1 it is missed, 2 it cannot be done."""
    from assay.status import EXIT_ERRORS, EXIT_OK, Usage
    from runner import RunnerError
    from runner.quantize import quantize as make

    round, benchmark = _round_and_benchmark(options.benchmark, options.round)
    gate = benchmark.accuracy[0].bound if benchmark is not None and benchmark.accuracy else None
    line = Line(enabled=not options.no_progress)
    try:
        made = make(
            options.model,
            options.benchmark,
            options.out,
            calibration=options.calibration,
            calibration_list=options.calibration_list,
            op_types=tuple(t.strip() for t in (options.op_types or "").split(",") if t.strip()),
            exclude=tuple(options.exclude),
            method=options.method,
            reduce_range=options.reduce_range,
            data=options.data,
            overwrite=options.overwrite,
            say=lambda text: line.show(text, force=True),
        )
    except RunnerError as error:
        raise Usage(str(error)) from error
    finally:
        line.clear()
    write(made.text(gate, round.name if gate is not None else None))
    return EXIT_OK if gate is None or made.after.value >= gate else EXIT_ERRORS


def demo(options: argparse.Namespace, write: Write, say: Write) -> int:
    """Run ``assay demo``: measure, check and report the embedded benchmark."""
    import assay
    import reports
    from assay.status import EXIT_ERRORS, EXIT_OK, Usage, exit_status
    from checker.engine import Options, check
    from checker.writing import write_file
    from schemas import load_round

    began = time.monotonic()
    out: Path = options.out
    tree = out / "submission"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Usage(f"--out {out} cannot be made: {error.strerror}") from error
    parser = argparse.ArgumentParser()
    add_run_options(parser)
    run_options = parser.parse_args(
        ["--out", str(tree), "--round", "demo", "--compliance", "--overwrite"]
    )
    plan, _round = plan_of(run_options)
    outcomes = _measured(plan, Listener(say, enabled=not options.no_progress), write, say)
    if not tree.exists():
        write(f"Nothing could be measured; what the runs left is in {tree}.runs\n")
        return EXIT_ERRORS
    report = check(tree, Options(round="demo"), version=str(assay.__version__))
    saved = {"report.json": "json", "report.html": "html"}
    for name, format in saved.items():
        rendered = reports.render(report, format)
        data = (
            rendered
            if isinstance(rendered, bytes)
            else rendered.encode("utf-8", "backslashreplace")
        )
        write_file(out / name, data)
    text = reports.render(report, "terminal", quiet=True)
    write(text if isinstance(text, str) else text.decode())
    title = load_round("demo").title
    write(
        f"\n{title}: this is no MLPerf result.\nSubmission tree: {tree}\nJSON report:     {out / 'report.json'}\n"
        f"HTML report:     {(out / 'report.html').resolve()}\nTook {time.monotonic() - began:.0f} s.\n"
    )
    if any(o.status != "valid" for o in outcomes):
        return EXIT_ERRORS
    return exit_status(report) or EXIT_OK
