"""Accuracy computed again while a tree is checked, for benchmarks whose ground truth is given."""

from __future__ import annotations

from checker.model import Recomputed, Result


def recompute_accuracy(result: Result, data: dict[str, str]) -> None:
    """Score the result's accuracy log and keep the scores beside accuracy.txt's values.

    ``data`` holds paths by benchmark (the round's name or the folder's); "" is the folder with
    whole logs. Never raises: what cannot be computed is said in the run's ``recomputed``.
    """
    run = result.accuracy
    truth = data.get(result.name or "", data.get(result.directory)) if result.name else None
    if run is None or run.log_file is None or truth is None or run.log_file.state != "file":
        return
    from checker.accuracy import registry
    from checker.accuracy.problem import AccuracyError

    try:
        again = registry.score(
            run.log_file.real, result.name or result.directory, truth, backup=data.get("") or None
        )
    except (AccuracyError, OSError, ValueError, MemoryError) as error:
        run.recomputed = Recomputed({}, problem=str(error)[:500])
        return
    problem = None if again.scores else "; ".join(again.notes)[:500] or "the log gives no score"
    run.recomputed = Recomputed(
        scores=again.scores,
        problem=problem,
        notes=tuple(again.notes),
        log=str(again.log),
        hash_agrees=again.hash_agrees,
    )
