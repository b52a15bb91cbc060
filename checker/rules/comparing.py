"""What rules of several families share: one value of a log held against what is expected of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from checker import loadgen_keys as keys
from checker.model import Run
from checker.parse.detail import DetailLog
from checker.parse.documents import Document
from checker.rule import Problem, Problems
from checker.wording import pair, quantity, shown
from schemas.round import Round

UNCOMMITTED = "Loadgen built with uncommitted changes"
WHOLE_LOG = "use the detail log as LoadGen wrote it"


def is_uncommitted(key: str, text: str) -> bool:
    """Whether an error record says that LoadGen was built from a changed checkout."""
    return key == keys.ERROR_UNCOMMITTED or UNCOMMITTED in text


def at(
    run: Run, key: str, message: str, found: object = None, required: object = None, **more: Any
) -> Problem:
    """A problem with one value of a run's detail log, at its line."""
    line = run.detail.line(key) if run.detail is not None else None
    return Problem(message, found=found, required=required, path=run.detail_path, line=line, **more)


def stated_in(
    document: Document,
    key: str,
    message: str,
    found: object = None,
    required: object = None,
    **more: Any,
) -> Problem:
    """A problem with what a document states under a key, at its line."""
    line = document.line_of(key)
    return Problem(message, found=found, required=required, path=document.path, line=line, **more)


def compare_setting(
    run: Run,
    detail: DetailLog,
    key: str,
    *,
    least: float | None = None,
    most: float | None = None,
    exactly: object = None,
    unit: str = "",
    scale: float = 1.0,
    what: str = "",
    fix: str | None = None,
) -> Problems:
    """Hold one value of the detail log against a minimum, a maximum or an exact value.

    unit: as messages show it, where the log's value is divided by ``scale`` (1e6 for ns as ms).
    what: words for the value, beside its key. A value that is absent or unusable is a problem.
    """
    exact = isinstance(exactly, bool)
    value = detail.boolean(key) if exact else detail.number(key)
    required = next(limit for limit in (least, most, exactly) if limit is not None)
    bound = "at least " if least is not None else "at most " if most is not None else ""
    name = f"{what} ({key})" if what else key
    if value is None:
        limit = shown(required) if exact else quantity(required / scale, unit)  # type: ignore[operator]
        text = f"{name} is {shown(detail.get(key))}; expected {bound}{limit}"
        yield at(run, key, text, detail.get(key), required, fix=fix or WHOLE_LOG)
        return
    if least is not None:
        good = value >= least
    elif most is not None:
        good = value <= most
    else:
        good = value == exactly
    if good:
        return
    if exact:
        found, limit = shown(value), shown(required)
    else:
        found, limit = pair(value / scale, required / scale, unit)  # type: ignore[operator]
    text = f"{name} is {found}; expected {bound}{limit}"
    yield at(run, key, text, value, required, **({"fix": fix} if fix else {}))


def seed_problems(run: Run, round: Round, detail: DetailLog) -> Problems:
    """Every effective seed of a run that is not the round's."""
    for name in keys.SEEDS:
        required: str = getattr(round.seeds, name)
        key = keys.effective(name)
        value = detail.integer(key)
        if str(value) == required:
            continue
        hint = "; the official configuration was not loaded" if value == 0 else ""
        text = f"{key} is {'absent' if value is None else value}; expected {required}{hint}"
        yield at(run, key, text, None if value is None else str(value), required)


def loadgen_errors(detail: DetailLog, round: Round) -> Iterator[tuple[str, str, int]]:
    """Key, text and line of every error record that counts in the round."""
    for entry in detail.errors:
        text = str(entry.value)
        ignored = any(known in text for known in round.loadgen.ignored_errors)
        if not ignored and not is_uncommitted(entry.key, text):
            yield entry.key, text, entry.line
