"""Measuring as commands show it: progress on standard error, every outcome as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.progress import Line
from assay.status import Usage
from assay.terminal import say, write

if TYPE_CHECKING:
    from runner import Outcome, Plan
    from runner.progress import Event


class Listener:
    """Shows a run's events: one rewritten line in a terminal, one line a run elsewhere."""

    def __init__(self, *, enabled: bool = True) -> None:
        self.line = Line(enabled=enabled)
        self.enabled = enabled

    def on_event(self, event: Event) -> None:
        """Show one event; a warning also where no progress is shown."""
        if not self.enabled and event.phase != "warning":
            return
        where = f"{event.benchmark} {event.scenario} {event.mode}"
        if event.phase == "running":
            self.line.show(f"{where}: {_numbers(event)}")
        elif event.phase in ("ready", "warning", "search", "note"):
            self.line.clear()
            say(f"{where}: {event.message}" if event.message else f"{where}: {event.phase}")
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


def measured(plan: Plan, listener: Listener) -> list[Outcome]:
    """Run the plan; every outcome is written as it comes, so that Ctrl-C loses none."""
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
        if o.metric is None and o.path is not None and o.path.exists():
            lines.append(f"    Nothing of it is in the tree; what the runs left is in {o.path}")
    return "\n".join(lines) + "\n"
