"""Assay: submission checker, results auditing toolkit and reference runner for MLPerf Inference.

``assay.check(tree)`` returns a report; ``assay.render(report, "html")`` shows it. Everything
heavy is imported where it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checker.accuracy.evaluate import Evaluation
    from runner import Outcome, Plan, Progress
    from schemas.report import Report
    from schemas.round import Round

__version__ = "0.2.0"

__all__ = ["__version__", "audit", "check", "evaluate", "load_round", "render", "run"]


def check(tree: str, **options: Any) -> Report:
    """Check a submission tree, one part of it, or an archive.

    ``options`` are the fields of `checker.engine.Options` (round, divisions, submitters, select,
    ignore, waivers, jobs). Raises FileNotFoundError, schemas.UnknownRound,
    checker.rules.UnknownRule or checker.waivers.BadWaivers; never for what the tree holds.
    """
    from checker.engine import Options
    from checker.engine import check as run_check

    return run_check(tree, Options(**options), version=__version__)


def audit(*trees: str, **options: Any) -> Report:
    """As `check`, plus the audit rules of family R, over one tree or several.

    ``options`` are those of `check`, and ``since``: an earlier round's report to compare with.
    """
    from checker.engine import Options
    from checker.engine import audit as run_audit

    return run_audit(list(trees), Options(audit=True, **options), version=__version__)


def render(report: Report, format: str, **options: Any) -> str | bytes:
    """A report in one of the formats of `reports.FORMATS`."""
    import reports

    return reports.render(report, format, **options)


def evaluate(predictions: Any, gold: Any, metric: str = "top1", **options: Any) -> Evaluation:
    """Score predictions against the truth and hold the score against the quality gate.

    The checker's own metrics for people who have predictions and no LoadGen log: ``metric`` is
    ``top1``, ``map`` or ``bleu``; options are ``reference``, ``factor`` (0.99) and ``tokenize``.
    Returns score, target, valid and margin; see `checker.accuracy.evaluate.evaluate`.
    """
    from checker.accuracy.evaluate import evaluate as score

    return score(predictions, gold, metric, **options)  # type: ignore[arg-type]


def load_round(name: str) -> Round:
    """The rules of a round as data, e.g. ``load_round("6.1")``."""
    from schemas import load_round as load

    return load(name)


def run(
    benchmark: str | Plan | None = None,
    *,
    config: str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> list[Outcome]:
    """Measure a benchmark as ``assay run`` does: by the gate and the durations of its round.

    ``settings`` are those of a run file, whatever table they are in: ``out``, ``scenarios``,
    ``target_qps``, ``min_duration`` …; ``config`` names a run file that they change. A `runner.Plan`
    is taken as it is. Returns an outcome a scenario; raises runner.SettingsError and other
    runner.RunnerError where it cannot be done.
    """
    from pathlib import Path

    import runner

    if isinstance(benchmark, runner.Plan):
        if settings or config is not None:
            raise runner.SettingsError("a Plan says everything; give it alone, or settings alone")
        return runner.run_benchmark(benchmark, progress)
    if benchmark is not None:
        settings["benchmark"] = benchmark
    run_file = runner.read_run_file(Path(config) if config is not None else None, **settings)
    return runner.run_benchmark(runner.plan_of(run_file), progress)
