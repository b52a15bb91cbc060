"""The scores: stated, possible, on the right scale, without contradiction, and high enough."""

from __future__ import annotations

import math

import msgspec

from checker import metrics
from checker.model import AccuracyRun, Result
from checker.parse.accuracy_txt import AccuracyText, Derived
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, Problems, rule
from checker.wording import number, pair
from schemas.report import AccuracyScore
from schemas.round import Round
from schemas.units import greatest

_SCALE = 100.0
"""The factor between a fraction and a percentage."""

_NEAR = 2.0
"""A score within this factor of 100 (or 1/100) times its reference is on another scale."""

_MAX_SHOWN = 20


def _where(result: Result, metric: str) -> tuple[str, int | None]:
    """The file and line that state a score."""
    run = result.accuracy
    if run is not None and run.text is not None:
        value = metrics.reported(run.text, metric, result.round)
        return run.text_path, value.line if value is not None else None
    if result.endpoints is None:
        return result.path, None
    return f"{result.path}/{result.round.layout.endpoints.get('accuracy', 'accuracy')}", None


def _unit(score: AccuracyScore) -> str:
    return {"percent": "%", "tokens": " tokens", "characters": " characters"}.get(
        score.unit or "", ""
    )


@rule("A103", ERROR, cases={"in part": ERROR}, needs={"lines": "text.lines"})
def accuracy_metric_readable(
    run: AccuracyRun, round: Round, text: AccuracyText, lines: int
) -> Problems:
    """accuracy.txt reports every metric of the benchmark.

    Why: a target that cannot be compared is not reached; an open result must state its accuracy too.
    Fix: save the whole output of the benchmark's accuracy script.
    Source: inference_rules.adoc, "Benchmarks": quality; open division: accuracy is reported.
    """
    if not lines:
        raise NotJudged
    wanted = list(dict.fromkeys(g.metric for g in [*run.result.gates, *run.result.limits]))
    missing = [metric for metric in wanted if not text.values.get(metric)]
    there = ", ".join(sorted(text.values)) or "no metric of the round"
    if run.result.benchmark is None and not text.values:
        yield Problem(f"found {there}; expected the accuracy", path=text.path)
    elif missing:
        yield Problem(
            f"found {there}; expected also {', '.join(missing)}"
            if text.values
            else f"found {there}; expected {', '.join(missing)}",
            sorted(text.values),
            wanted,
            path=text.path,
            case="in part" if len(missing) < len(wanted) else None,
        )


@rule("A104", ERROR, divisions=("closed", "network"))
def accuracy_gate(result: Result, round: Round) -> Problems:
    """Every accuracy metric reaches its target.

    Why: performance may not be bought with quality.
    Fix: raise the model's accuracy, or submit the result in the open division.
    Source: inference_rules.adoc, "Benchmarks": quality target, a factor of the reference model's.
    """
    yield from _below(result)


@rule("A125", NOTE, divisions=("open",))
def open_accuracy_below_target(result: Result, round: Round) -> Problems:
    """An open result whose accuracy is below the closed division's target says so.

    Why: a reader who compares it with closed results should know that the model answers worse.
    Fix: nothing, where that is meant; the accuracy is published beside the result.
    Source: inference_rules.adoc, "Open division": any quality, reported.
    """
    below = list(_below(result))
    if below:
        both = "; ".join(one.message.removeprefix("found ") for one in below)
        yield msgspec.structs.replace(below[0], message=f"found {both}", count=len(below))


def _below(result: Result) -> Problems:
    lower, _ = metrics.bounds_of(result)
    for score in metrics.accuracy_of(result):
        gate = lower.get(score.metric)
        if gate is None or not math.isfinite(score.value) or score.value >= gate.bound:
            continue
        found, expected = pair(score.value, gate.bound)
        factor = f"{number(gate.factor)} × " if gate.factor else ""
        path, line = _where(result, score.metric)
        text = (
            f"found {score.metric} {found}{_unit(score)}; expected at least {expected}{_unit(score)}"
            + (f" ({factor}{number(gate.reference)})" if factor else "")
        )
        yield Problem(text, score.value, gate.bound, path=path, line=line)


@rule("A105", ERROR, divisions=("closed", "network"), cases={"entropy": ERROR})
def accuracy_limit(result: Result, round: Round) -> Problems:
    """No accuracy metric exceeds its upper bound.

    Why: a longer or different output than the reference's is another workload.
    Fix: use the benchmark's generation settings, or submit the result in the open division.
    Source: inference_rules.adoc, "Benchmarks": upper bounds on output length, image metrics, entropy.
    """
    for score in metrics.accuracy_of(result):
        if score.limit is None or not math.isfinite(score.value) or score.value <= score.limit:
            continue
        found, expected = pair(score.value, score.limit)
        path, line = _where(result, score.metric)
        yield Problem(
            f"found {score.metric} {found}{_unit(score)}; expected at most {expected}{_unit(score)}",
            score.value,
            score.limit,
            path=path,
            line=line,
            case="entropy" if score.metric.endswith("_NE") else None,
        )


@rule("A106", ERROR)
def accuracy_metric_sound(run: AccuracyRun, round: Round, text: AccuracyText) -> Problems:
    """Accuracy metrics are finite and not negative.

    Why: NaN or infinity compares with no target; it comes from a broken evaluation.
    Fix: correct the evaluation and run the accuracy script again.
    Source: inference_rules.adoc, "Benchmarks": quality.
    """
    names = {g.metric for g in [*run.result.gates, *run.result.limits]} or set(text.values)
    for name in sorted(names):
        for value in text.values.get(name, [])[:_MAX_SHOWN]:
            if not math.isfinite(value.value) or value.value < 0:
                message = f"found {name} {value.text}; expected a finite number, 0 or more"
                yield Problem(message, value.text, ">= 0", path=text.path, line=value.line)


@rule("A107", ERROR, cases={"same side": WARNING})
def accuracy_values_agree(run: AccuracyRun, round: Round, text: AccuracyText) -> Problems:
    """Where accuracy.txt states a metric more than once, the values agree.

    Why: with two values a reader cannot know which one is the result's.
    Fix: save the output of one evaluation only.
    Source: accuracy scripts print each metric once.
    """
    gates, limits = metrics.bounds_of(run.result)
    for name in sorted(set(gates) | set(limits)):
        values = [v for v in text.values.get(name, []) if math.isfinite(v.value)]
        counted = metrics.reported(text, name, round)
        other = next((v for v in values if counted and v.value != counted.value), None)
        if counted is None or other is None:
            continue
        verdicts = {metrics.passes(v.value, gates.get(name), limits.get(name)) for v in values}
        yield Problem(
            f"found {name} {counted.text} on line {counted.line:,} and {other.text} on line "
            f"{other.line:,}; expected one value"
            + (": one of them reaches the target" if len(verdicts) > 1 else ""),
            [counted.value, other.value],
            "one value",
            path=text.path,
            line=other.line,
            # Values on both sides of the target leave the verdict open.
            case="same side" if len(verdicts) == 1 else None,
        )


@rule("A122", ERROR, cases={"open": WARNING})
def accuracy_scale(result: Result, round: Round) -> Problems:
    """A score is on its reference's scale, and no share is above 100%.

    Why: a percentage held against a fraction passes every target, whatever the model answered.
    Fix: state the score as the benchmark's accuracy script prints it.
    Source: the accuracy scripts' units; no published score is about 100 times its reference.
    """
    lower, upper = metrics.bounds_of(result)
    for score in metrics.accuracy_of(result):
        if not math.isfinite(score.value) or score.value <= 0:
            continue
        path, line = _where(result, score.metric)
        most = greatest(score.unit) if score.unit is not None else None
        gate = lower.get(score.metric) or upper.get(score.metric)
        ratio = score.value / gate.reference if gate is not None else 1.0
        apart = max(ratio, 1 / ratio) if ratio else math.inf
        reference = number(gate.reference) if gate is not None else ""
        if most is not None and score.value > most:
            text = (
                f"found {score.metric} {number(score.value)}; expected at most {number(most)}, for "
                f"it is a {score.unit}" + (f" (reference {reference})" if reference else "")
            )
            yield Problem(text, score.value, f"<= {most:g}", path=path, line=line)
        elif _SCALE / _NEAR <= apart <= _SCALE * _NEAR:
            much = "100 times" if ratio > 1 else "a hundredth of"
            yield Problem(
                f"found {score.metric} {number(score.value)}, about {much} its reference {reference}; "
                f"expected {score.unit or 'the same unit'}",
                score.value,
                gate.reference if gate is not None else None,
                path=path,
                line=line,
                case="open" if result.division == "open" else None,
            )


@rule("A123", WARNING, cases={"impossible": ERROR}, needs={"derived": "text.derived"})
def accuracy_text_consistent(run: AccuracyRun, round: Round, derived: list[Derived]) -> Problems:
    """What accuracy.txt states twice agrees: counts and their ratio, parts and their mean.

    Why: the script computes one from the other; where they disagree, one of them was typed.
    Fix: save the accuracy script's output as it is.
    Source: the accuracy scripts: accuracy = good / total; mean of the regions; 100 % - WER; mAP is
    COCO's average precision; tokens_per_sample = gen_tok_len / gen_num; F1 is at least exact match.
    """
    for found in derived:
        apart = found.value - found.implied
        if apart > found.exact or (not found.at_most and -apart > found.exact):
            most = "at most " if found.at_most else ""
            yield Problem(
                f"found {found.name} {found.stated}; expected {most}{number(found.implied)}, from "
                f"{found.how}",
                found.value,
                found.implied,
                path=run.text_path,
                line=found.line,
                case="impossible"
                if found.greatest is not None and found.implied > found.greatest
                else None,
            )
        elif found.greatest is not None and found.implied > found.greatest:
            yield Problem(
                f"found {found.how}, more than all; expected at most {number(found.greatest)} %",
                found.implied,
                found.greatest,
                path=run.text_path,
                line=found.line,
                case="impossible",
            )
