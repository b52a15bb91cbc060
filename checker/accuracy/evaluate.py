"""Score predictions without a LoadGen log: the seed's recipe, with the checker's own code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from checker.accuracy import bleu, detection, top1
from checker.accuracy.gate import Gate
from checker.accuracy.problem import AccuracyError, Problem

Metric = Literal["top1", "map", "bleu"]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A score (percent, or BLEU points) and whether it reaches factor x reference.

    ``target``, ``valid`` and ``margin`` are None when no reference was given. ``detail`` is the
    metric's own score; ``problems`` what was irregular in the data.
    """

    metric: Metric
    score: float
    target: float | None
    valid: bool | None
    margin: float | None
    detail: top1.Top1Score | detection.DetectionScore | bleu.BleuScore
    problems: list[Problem]


def evaluate(
    predictions: Any,
    gold: Any,
    metric: Metric = "top1",
    *,
    reference: float | None = None,
    factor: float = 0.99,
    tokenize: bleu.Tokenize = "auto",
) -> Evaluation:
    """Score predictions against the truth and hold the score against the quality gate.

    - ``top1``: predicted classes, shape (n,), or class scores, shape (n, classes); true classes.
    - ``map``: COCO results or an array (n, 7) as ``detection.score_boxes`` takes; annotations in
      COCO's form: a path or the parsed object.
    - ``bleu``: sentences; reference sentences. ``tokenize`` as in ``bleu.score_texts``.

    ``reference`` is the FP32 model's score in the score's unit (percent; BLEU points), ``factor``
    the benchmark's share of it. A reference in another unit cannot be distinguished from a very low one, so
    one of 1 or less (a fraction) or above 100 is refused. Raises ``AccuracyError`` for it, and when
    the data do not fit the metric.
    """
    if reference is not None and not 1 < reference <= 100:
        unit = "BLEU points" if metric == "bleu" else "percent"
        raise AccuracyError(
            f"reference={reference:g} is not in the score's unit: {unit}, above 1 and at most 100"
        )
    if not 0 < factor <= 1:
        raise AccuracyError(
            f"factor={factor:g} is not a share of the reference: above 0, at most 1"
        )
    detail: top1.Top1Score | detection.DetectionScore | bleu.BleuScore
    if metric == "top1":
        detail = top1.score_labels(predictions, gold)
        score = detail.accuracy
    elif metric == "map":
        detail = detection.score_boxes(predictions, gold)
        score = detail.map
    elif metric == "bleu":
        detail = bleu.score_texts(_texts(predictions), _texts(gold), tokenize=tokenize)
        score = detail.bleu
    else:
        raise AccuracyError(f"metric {metric!r} is not one of top1, map, bleu")
    if reference is None:
        return Evaluation(
            metric=metric,
            score=score,
            target=None,
            valid=None,
            margin=None,
            detail=detail,
            problems=detail.problems,
        )
    verdict = Gate(metric, reference, factor).verdict(score)
    return Evaluation(
        metric=metric,
        score=score,
        target=verdict.target,
        valid=verdict.valid,
        margin=verdict.margin,
        detail=detail,
        problems=detail.problems,
    )


def _texts(source: Any) -> Sequence[str]:
    if isinstance(source, Path):
        return bleu.read_references(source)
    if isinstance(source, (str, bytes, Mapping)) or not all(isinstance(t, str) for t in source):
        raise AccuracyError("BLEU needs a sequence of sentences, or a path to a file of them")
    return list(source)
