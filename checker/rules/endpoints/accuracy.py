"""Endpoints results: every accuracy score is there and usable."""

from __future__ import annotations

import math
from typing import Any

from checker import metrics
from checker.model import Result
from checker.parse.documents import Document
from checker.parse.endpoints import Endpoints, as_number
from checker.rule import ERROR, WARNING, Problem, Problems, rule
from checker.wording import number, quantity
from schemas.round import Benchmark, Round


@rule("A151", ERROR, needs={"accuracy": "endpoints.accuracy"})
def endpoints_accuracy_complete(
    result: Result, round: Round, accuracy: Document, benchmark: Benchmark
) -> Problems:
    """The accuracy report scores every sample that the scenario requires.

    Why: a score over a part of the data set does not show that the target is reached.
    Fix: let the accuracy run end and score every answer.
    Source: accuracy_results.json: complete, total_samples (unit_samples, num_repeats times),
        response_counts; the official checker of v6.1: samples of each scenario.
    """
    entries = accuracy.fields.get("accuracy_scores")
    counts = []
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if not isinstance(entry, dict) or entry.get("dataset_type") == "performance":
            continue
        if entry.get("complete") is False:
            yield Problem(
                f"accuracy_scores[{index}].complete is false; expected true",
                path=accuracy.path,
                pointer=f"/accuracy_scores/{index}/complete",
                found=False,
                required=True,
            )
        responses = entry.get("response_counts")
        missing = as_number(responses.get("missing")) if isinstance(responses, dict) else None
        if missing:
            yield Problem(
                f"found {quantity(missing, 'missing answer')} in accuracy_scores[{index}]; expected 0",
                path=accuracy.path,
                pointer=f"/accuracy_scores/{index}/response_counts/missing",
                found=missing,
                required=0,
            )
        scored = _scored(entry)
        if scored is not None:
            counts.append(scored)
    expected = benchmark.dataset.least(result.scenario)
    if expected is None or accuracy.value is None:
        return
    if not sum(counts) >= expected:
        yield Problem(
            f"found {quantity(sum(counts), 'scored sample')}; expected at least {number(expected)}",
            path=accuracy.path,
            pointer="/accuracy_scores",
            found=sum(counts),
            required=expected,
        )


def _scored(entry: dict[str, Any]) -> float | None:
    """How many samples an entry scores: its total, but no more than its unit times its repeats."""
    unit, total = as_number(entry.get("unit_samples")), as_number(entry.get("total_samples"))
    repeats = as_number(entry.get("num_repeats", 1))
    stated = [total] if total is not None else []
    if unit is not None and repeats is not None:
        stated.append(unit * repeats)
    return min(stated, default=None)


@rule("A152", ERROR, cases={"no-token-count": WARNING}, needs={"accuracy": "endpoints.accuracy"})
def endpoints_accuracy_sound(
    result: Result, round: Round, endpoints: Endpoints, accuracy: Document, benchmark: Benchmark
) -> Problems:
    """The accuracy report holds a finite score for every metric of the benchmark.

    Why: a target that cannot be compared is not reached.
    Fix: score the answers with the benchmark's evaluation and save its report.
    Source: accuracy_results.json: accuracy_scores[].score.
    """
    scores = metrics.endpoints_scores(result)
    for gate in result.gates:
        value = scores.get(gate.metric)
        counted = gate.metric == "TOKENS_PER_SAMPLE"
        if counted and value is None and endpoints.summary is None:
            # The performance report counts tokens; that it is missing is P151.
            continue
        if value is None:
            yield Problem(
                f"found no {gate.metric}; expected a score for every metric of the benchmark",
                path=accuracy.path,
                found=sorted(scores),
                required=gate.metric,
                case="no-token-count" if counted else None,
            )
        elif not math.isfinite(value) or value < 0:
            text = f"{gate.metric} is {number(value)}; expected a finite number, 0 or more"
            yield Problem(text, path=accuracy.path, found=str(value), required=">= 0")


@rule("A153", WARNING, needs={"accuracy": "endpoints.accuracy"})
def endpoints_average_agrees(result: Result, round: Round, accuracy: Document) -> Problems:
    """The average and each overall score are within the scores that they are made of.

    Why: an average outside of its parts was not computed from them.
    Fix: use accuracy_results.json as the endpoints client wrote it.
    Source: accuracy_results.json: average_accuracy, accuracy_scores[].score and
        breakdown.subset_scores.
    """
    entries = accuracy.fields.get("accuracy_scores")
    scores = []
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if not isinstance(entry, dict) or entry.get("dataset_type") == "performance":
            continue
        score, breakdown = as_number(entry.get("score")), entry.get("breakdown")
        if score is None:
            continue
        scores.append(score)
        parts = breakdown.get("subset_scores") if isinstance(breakdown, dict) else None
        numbers = [as_number(value) for value in parts.values()] if isinstance(parts, dict) else []
        place = f"accuracy_scores[{index}]"
        yield from _outside(
            accuracy,
            f"/accuracy_scores/{index}/score",
            f"the score of {place}",
            score,
            [value for value in numbers if value is not None],
        )
    average = as_number(accuracy.fields.get("average_accuracy"))
    if average is not None:
        yield from _outside(accuracy, "/average_accuracy", "average_accuracy", average, scores)


def _outside(
    accuracy: Document, pointer: str, name: str, value: float, parts: list[float]
) -> Problems:
    # The parts are rounded to two places, the whole is not; some clients state it as a fraction of
    # one beside parts in percent.
    inside = (
        [min(parts) - 0.01 <= scale * value <= max(parts) + 0.01 for scale in (1, 100)]
        if parts
        else []
    )
    if inside and not any(inside):
        low, high = number(min(parts)), number(max(parts))
        bounds = low if low == high else f"{low} to {high}"
        text = f"{name} is {number(value)}; expected {bounds}, as the scores it is made of"
        yield Problem(text, path=accuracy.path, pointer=pointer, found=value, required=bounds)
