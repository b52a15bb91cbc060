"""Family A, the scores themselves: possible values, the right scale, no contradiction."""

from __future__ import annotations

import math
from collections.abc import Iterator

from checker import metrics
from checker.model import AccuracyRun, Result
from checker.parse.accuracy_txt import Derived
from checker.rule import ERROR, WARNING, Problem, rule
from schemas.report import AccuracyScore
from schemas.round import Round
from schemas.units import greatest

_SCALE = 100.0
"""What lies between a fraction and a percentage."""

_NEAR = 2.0
"""A score within this factor of 100 (or 1/100) times its reference is on another scale."""


def _where(result: Result, score: AccuracyScore) -> tuple[str, int | None]:
    """The file and line that state a score."""
    run = result.accuracy
    if run is None or run.text is None:
        name = result.round.layout.endpoints.get("accuracy", "accuracy")
        return f"{result.path}/{name}", None
    value = metrics.reported(run.text, score.metric, result.round)
    return run.text_path, value.line if value is not None else None


@rule("A122", ERROR, cases={"open": WARNING})
def accuracy_scale(result: Result, round: Round) -> Iterator[Problem]:
    """A score is on its reference's scale, and no share is above 100 %.

    Why: a percentage held against a fraction passes every gate, whatever the model answered.
    Fix: state the score as the benchmark's accuracy script prints it.
    Source: the accuracy scripts' units; no published score is about 100 times its reference.
    """
    lower, upper = metrics.bounds_of(result)
    for score in metrics.accuracy_of(result):
        if not math.isfinite(score.value) or score.value <= 0:
            continue
        path, line = _where(result, score)
        most = greatest(score.unit) if score.unit is not None else None
        gate = lower.get(score.metric) or upper.get(score.metric)
        ratio = score.value / gate.reference if gate is not None else 1.0
        apart = max(ratio, 1 / ratio)
        reference = f"{gate.reference:,.6g}" if gate is not None else ""
        if most is not None and score.value > most:
            yield Problem(
                f"found {score.metric} {score.value:,.6g}; expected at most {most:g}, for it is a "
                f"{score.unit}" + (f" (reference {reference})" if reference else ""),
                path=path,
                line=line,
                found=score.value,
                required=f"<= {most:g}",
            )
        elif _SCALE / _NEAR <= apart <= _SCALE * _NEAR:
            much = "100 times" if ratio > 1 else "a hundredth of"
            yield Problem(
                f"found {score.metric} {score.value:,.6g}, about {much} its reference {reference}; "
                f"expected {score.unit or 'the same unit'}",
                path=path,
                line=line,
                found=score.value,
                required=gate.reference if gate is not None else None,
                case="open" if result.division == "open" else None,
            )


@rule("A123", WARNING, needs={"derived": "text.derived"})
def accuracy_text_consistent(
    run: AccuracyRun, round: Round, derived: list[Derived]
) -> Iterator[Problem]:
    """What accuracy.txt states twice agrees: counts and their ratio, parts and their mean.

    Why: the script computes one from the other; where they disagree, one of them was typed.
    Fix: save the accuracy script's output as it is.
    Source: the accuracy scripts: accuracy = good / total; mean of kidney and tumor; 100 % - WER.
    """
    for found in derived:
        if abs(found.value - found.implied) > found.exact:
            yield Problem(
                f"accuracy is stated as {found.stated}; {found.how} gives {found.implied:.6g}",
                path=run.text_path,
                line=found.line,
                found=found.value,
                required=found.implied,
            )
