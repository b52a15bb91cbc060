"""``assay run``, ``quantize`` and ``demo``: measuring, with progress on standard error."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from assay.progress import Line
from assay.run_parser import add_run_options

if TYPE_CHECKING:
    from runner import Outcome, Plan
    from runner.progress import Event
    from schemas.run_file import RunFile

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
    from runner.foresight import duration_text

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


# An option of the command to the setting of a run file, where the names differ.
_SETTINGS = {
    "scenario": "scenarios", "task": "scored_as", "url": "urls", "provider": "providers",
    "backend_option": "backend_options",
}  # fmt: skip
_NOT_SETTINGS = frozenset(
    ("command", "handler", "version", "config", "save_config", "dry_run", "no_progress")
)


def settings_of(options: argparse.Namespace) -> RunFile:
    """The run file that the command line means: what `--config` says, changed by its options.

    Raises:
        Usage: an option or the file cannot be.
    """
    from assay.status import Usage
    from runner import SettingsError
    from runner.plan import read_run_file

    given = {
        _SETTINGS.get(name, name): value
        for name, value in vars(options).items()
        if value is not None and name not in _NOT_SETTINGS
    }
    if "scenarios" in given:
        names = [name.strip() for text in given["scenarios"] for name in text.split(",")]
        given["scenarios"] = _scenarios(names)
    if "backend_options" in given:
        given["backend_options"] = dict(given["backend_options"])
    if "spinning" in given:
        given["spinning"] = given["spinning"] == "on"
    try:
        return read_run_file(options.config, **given)
    except SettingsError as error:
        raise Usage(str(error)) from error


def _scenarios(names: list[str]) -> list[str]:
    """As they are spelled in a run file."""
    from assay.status import Usage
    from runner.settings import RESULTS

    by_low = {s.lower(): s for s in RESULTS}
    for name in names:
        if name.lower() not in by_low:
            raise Usage(f"unknown scenario {name!r}; the scenarios are {', '.join(RESULTS)}")
    return list(dict.fromkeys(by_low[name.lower()] for name in names))


def plan_of(options: argparse.Namespace, arguments: list[str] | None = None) -> Plan:
    """The measurement that the command line asks for, by its round's rules.

    Raises:
        Usage: it cannot be made.
    """
    from assay.status import Usage
    from runner import RunnerError
    from runner.plan import plan_of as made

    try:
        plan = made(settings_of(options))
    except RunnerError as error:
        raise Usage(str(error)) from error
    return replace(plan, command=shlex.join(["assay", *arguments]) if arguments else "")


def _save(run_file: RunFile, path: Path) -> None:
    """Write the run file, its paths as they are from its folder."""
    from assay.status import Usage
    from checker.writing import write_file
    from runner.plan import relative_to
    from schemas.run_file import write

    text = write(relative_to(run_file, path.parent))
    try:
        write_file(path, f"# assay run --config {path.name}\n{text}".encode())
    except OSError as error:
        raise Usage(f"--save-config {path} cannot be written: {error.strerror}") from error


def _measured(plan: Plan, listener: Listener, write: Write, say: Write) -> list[Outcome]:
    """Run the plan; every outcome is written as it comes, so that Ctrl-C loses none."""
    from assay.status import Usage
    from runner import RunnerError, iter_benchmark

    outcomes: list[Outcome] = []

    def kept() -> str:
        count = sum(1 for o in outcomes if o.status in ("valid", "invalid", "not-compliant"))
        return f"{count} finished scenario{'' if count == 1 else 's'} in {plan.tree.out}"

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
            f"is in {plan.tree.out}.runs"
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
    from runner import RunnerError, cautions, foresee

    plan = plan_of(options, sys.argv[1:] if sys.argv[1:2] == ["run"] else None)
    try:
        say(f"{plan.benchmark} by the rules of round {plan.rules.round}: {foresee(plan)}")
    except RunnerError as error:
        raise Usage(str(error)) from error
    for warning in cautions(plan):
        say(f"note: {warning}")
    if options.save_config is not None:
        _save(settings_of(options), options.save_config)
    if options.dry_run:
        return EXIT_OK
    outcomes = _measured(plan, Listener(say, enabled=not options.no_progress), write, say)
    if any(o.status in ("valid", "invalid", "not-compliant") for o in outcomes):
        say(
            f"written to {plan.tree.out}; check it with: assay check {plan.tree.out} "
            f"--round {plan.rules.round}"
        )
    return EXIT_OK if all(o.status == "valid" for o in outcomes) else EXIT_ERRORS


def quantize(options: argparse.Namespace, write: Write, say: Write) -> int:
    """Run ``assay quantize``: 0 the gate is met, 1 it is missed, 2 it cannot be done."""
    from assay.status import EXIT_ERRORS, EXIT_OK, Usage
    from runner import RunnerError
    from runner.plan import rules_of
    from runner.quantize import quantize as make

    line = Line(enabled=not options.no_progress)
    try:
        round, benchmark = rules_of(options.benchmark, options.round)
        gate = benchmark.accuracy[0].bound if benchmark is not None and benchmark.accuracy else None
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
    plan = plan_of(run_options)
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
