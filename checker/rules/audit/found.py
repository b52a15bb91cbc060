"""What the rules of one log share: which logs they read, and how they state a contradiction."""

from __future__ import annotations

import datetime
import math
from typing import TypeGuard

from checker.audit.evidence import Confidence, Look
from checker.model import Run
from checker.parse.detail import DetailLog
from checker.rule import NotJudged, Problem, given
from checker.wording import pair, shown

REL = 1e-5


QUOTIENT = 2e-5
"""LoadGen prints doubles with six significant digits; a quotient of two such needs twice that."""


def json_log(run: Run) -> DetailLog:
    """The run's log of the JSON form; ranging runs and plain-text logs are not judged."""
    detail = given(run.detail or None)
    if detail.format != "mllog" or run.kind == "ranging":
        raise NotJudged
    return detail


def measured_log(run: Run, *scenarios: str) -> Look:
    """The log of a run that measured performance, in one of the scenarios (any, if none named)."""
    detail = json_log(run)
    if run.mode not in ("PerformanceOnly", "SubmissionRun"):
        raise NotJudged
    if scenarios and run.scenario not in scenarios:
        raise NotJudged
    return Look(detail)


def contradiction(
    run: Run,
    look: Look,
    key: str,
    found: object,
    required: object,
    formula: str,
    confidence: Confidence = "high",
    *,
    case: str | None = None,
    **more: object,
) -> Problem:
    texts = as_words(found, required)
    return Problem(
        f"found {key} {texts[0]}; expected {texts[1]}, from {formula}",
        path=run.detail_path,
        line=look.detail.line(key),
        found=found,
        required=required,
        case=case,
        evidence=look.evidence(formula, confidence, **more),
    )


def as_words(found: object, expected: object) -> tuple[str, str]:
    """Two values as words, with as many digits as it takes to tell them apart."""
    if _is_number(found) and _is_number(expected):
        return pair(found, expected)
    first, second = (v if isinstance(v, str) else shown(v) for v in (found, expected))
    return first, second


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def whole_sets(detail: DetailLog, per_query: int) -> list[int]:
    """The samples of Offline's query as logged and padded: LoadGen before 5.0 logs them unpadded."""
    loaded = detail.length("loaded_qsl_set")
    found = [per_query]
    if loaded:
        found.append(math.ceil(per_query / loaded) * loaded)
    return found


HOUR = 3600.0


def utc(text: str | None) -> datetime.datetime | None:
    """An ISO time of LoadGen; without a zone it is UTC."""
    if text is None:
        return None
    try:
        found = datetime.datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)


def dated(run: Run) -> tuple[DetailLog, datetime.datetime]:
    detail = json_log(run)
    when = given(utc(detail.text("test_datetime")))
    return detail, when
