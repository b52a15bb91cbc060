"""``assay run`` and ``assay demo``: measuring, with progress on standard error."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.progress import Line

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
            left = f", {event.remaining_s:.0f} s left" if event.remaining_s is not None else ""
            self.line.show(
                f"{where}: {event.samples} samples, {event.rate:.1f}/s, {event.elapsed_s:.0f} s{left}"
            )
        elif event.phase in ("ready", "warning", "failed"):
            self.line.clear()
            self.say(f"{where}: {event.message}" if event.message else f"{where}: {event.phase}")
        elif event.phase == "done":
            self.line.clear()
        else:
            self.line.show(f"{where}: {event.phase} {event.message}", force=True)


def _round_and_benchmark(name: str, asked: str | None) -> tuple[Round, Benchmark | None]:
    from assay.cli import Usage
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


def plan_of(options: argparse.Namespace) -> tuple[Plan, Round]:
    """The measurement that the command line asks for, with its round's gate and durations."""
    from assay.cli import Usage
    from runner import SCENARIOS, Plan

    round, benchmark = _round_and_benchmark(options.benchmark, options.round)
    wanted = options.scenario or [
        s for s in SCENARIOS if benchmark is None or s in benchmark.scenarios
    ]
    by_low = {s.lower(): s for s in SCENARIOS}
    scenarios = []
    for text in wanted:
        for name in text.split(","):
            if name.strip().lower() not in by_low:
                raise Usage(f"unknown scenario {name!r}; the scenarios are {', '.join(SCENARIOS)}")
            scenarios.append(by_low[name.strip().lower()])
    rules = [benchmark.scenarios[s] for s in scenarios if benchmark and s in benchmark.scenarios]
    least = max((r.min_duration_ms for r in rules), default=0)
    gate = benchmark.accuracy[0].bound if benchmark is not None and benchmark.accuracy else None
    target = next((r.target_latency_ns for r in rules if r.target_latency_ns), None)
    backend_options: dict[str, Any] = {}
    if options.threads:
        backend_options["threads"] = options.threads
    if options.provider:
        backend_options["providers"] = tuple(options.provider)
    try:
        conf = options.user_conf.read_text(encoding="utf-8") if options.user_conf else ""
    except (OSError, UnicodeDecodeError) as error:
        raise Usage(f"--user-conf {options.user_conf}: {error}") from error
    duration = int(options.min_duration * 1000) if options.min_duration is not None else None
    plan = Plan(
        options.benchmark,
        out=options.out,
        scenarios=tuple(dict.fromkeys(scenarios)),
        division=options.division,
        submitter=options.submitter,
        system=options.system,
        backend=options.backend,
        backend_options=backend_options,
        precision=options.precision,
        model=options.model,
        data=options.data,
        gate=gate if options.division == "closed" else None,
        min_duration_ms=duration if duration is not None else (least or None),
        least_duration_ms=least if options.division == "closed" else 0,
        target_latency_ms=target / 1e6 if target else None,
        target_qps=options.target_qps,
        user_conf=conf,
        measure_anyway=options.measure_anyway,
        overwrite=options.overwrite,
    )
    return plan, round


def _measured(plan: Plan, listener: Listener, write: Write, say: Write) -> list[Outcome]:
    from assay.cli import Usage
    from runner import RunnerError, run_benchmark

    try:
        return run_benchmark(plan, listener)
    except RunnerError as error:
        raise Usage(str(error)) from error
    finally:
        listener.line.clear()


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
    """Run ``assay run``: 0 every scenario valid, 1 some not, 130 interrupted."""
    from assay.cli import EXIT_ERRORS, EXIT_OK

    plan, round = plan_of(options)
    outcomes = _measured(plan, Listener(say, enabled=not options.no_progress), write, say)
    write(_lines(outcomes))
    say(f"written to {options.out}; check it with: assay check {options.out} --round {round.name}")
    return EXIT_OK if all(o.status == "valid" for o in outcomes) else EXIT_ERRORS


def demo(options: argparse.Namespace, write: Write, say: Write) -> int:
    """Run ``assay demo``: measure, check and report the embedded benchmark."""
    import assay
    import reports
    from assay.cli import EXIT_ERRORS, EXIT_OK, Usage, exit_status
    from checker.engine import Options, check
    from schemas import load_round

    began = time.monotonic()
    out: Path = options.out
    tree = out / "submission"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Usage(f"--out {out} cannot be made: {error.strerror}") from error
    run_options = argparse.Namespace(
        benchmark="digits", round="demo", scenario=None, division="closed", threads=None, provider=None,
        user_conf=None, min_duration=None, out=tree, submitter="Assay", system=None,
        backend="onnxruntime", precision="fp32", model=None, data=None, target_qps=None,
        measure_anyway=False, overwrite=True,
    )  # fmt: skip
    plan, _round = plan_of(run_options)
    outcomes = _measured(plan, Listener(say, enabled=not options.no_progress), write, say)
    report = check(tree, Options(round="demo"), version=str(assay.__version__))
    saved = {"report.json": "json", "report.html": "html"}
    for name, format in saved.items():
        rendered = reports.render(report, format)
        data = (
            rendered
            if isinstance(rendered, bytes)
            else rendered.encode("utf-8", "backslashreplace")
        )
        (out / name).write_bytes(data)
    write(_lines(outcomes))
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
