"""Which scenarios of a plan were finished before, by a run with the same settings.

A result's README holds the run file that measured it and the SHA-256 of model and data.  Only where
all of them are the same does the result belong to the measurement that goes on.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, cast, get_args

from runner import logs
from runner.benchmarks.base import Score
from runner.errors import OutputError, RunFailed
from runner.layout import Places
from runner.plan import Plan
from runner.provenance import Provenance
from runner.submission import Stated, read_readme

Finished = Literal["valid", "invalid", "not-compliant"]
# What does not change a result: where it goes, how the run was watched, and the names of files whose
# content is compared.
_FREE = frozenset({
    "scenarios", "tree.out", "tree.overwrite", "tree.resume", "conduct.early-stop",
    "conduct.energy", "conduct.stall-timeout", "model.model", "model.data", "load.user-conf",
})  # fmt: skip


def finished(
    place: Places, plan: Plan, made_with: Provenance, scenario: str
) -> tuple[Finished, Score | None, float | None, str] | None:
    """Status, accuracy, metric and unit of a finished scenario; None where there is none.

    Raises:
        OutputError: a result is there that other settings measured, or that is damaged.
    """
    if not place.result.exists():
        return None
    stated = read_readme(place.measurements)
    different = list(_different(stated, plan, made_with))
    if plan.load.user_conf.rstrip("\n") not in _text(place.measurements / "user.conf"):
        different.append("another user.conf")
    if different:
        raise OutputError(
            f"{place.result}: found a result of other settings ({'; '.join(different)}); move it "
            "away, choose another --out, or measure it again with --overwrite."
        )
    status = stated.rows.get("Outcome", "")
    if status not in get_args(Finished):
        raise OutputError(
            f"{place.measurements}/README.md: found no outcome; expected a line of it."
        )
    try:
        detail, _ = logs.read_detail(place.result / "performance" / "run_1" / logs.DETAIL)
        line = (place.result / "accuracy" / "accuracy.txt").read_text("utf-8").splitlines()[0]
    except (RunFailed, OSError, UnicodeDecodeError, IndexError) as error:
        raise OutputError(
            f"{place.result}: found a damaged result ({error}); move it away or measure it again "
            "with --overwrite."
        ) from error
    metric, unit = logs.metric(detail, "Server" if scenario == "Interactive" else scenario)
    name, _, number = stated.rows.get("Accuracy", "").partition(" = ")
    try:
        score = Score(name, float(number), line)
    except ValueError:
        score = None
    return cast("Finished", status), score, metric, unit


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OutputError(f"{path}: cannot be read ({error}).") from error


def _different(stated: Stated, plan: Plan, made_with: Provenance) -> Iterator[str]:
    """What the result was measured with that this plan does not say."""
    if not stated.run_file or not plan.run_file:
        yield "its README holds no run file to compare with"
        return
    try:
        theirs = dict(_flat(tomllib.loads(stated.run_file)))
    except tomllib.TOMLDecodeError as error:
        yield f"its run file cannot be read: {error}"
        return
    ours = dict(_flat(tomllib.loads(plan.run_file)))
    for key in sorted(theirs.keys() | ours.keys()):
        if key not in _FREE and theirs.get(key) != ours.get(key):
            yield f"{key} {_said(theirs, key)}; expected {_said(ours, key)}"
    for title, expected in (
        ("SHA-256 of the model", made_with.model_sha256),
        ("SHA-256 of the data", made_with.data_sha256),
    ):
        if stated.rows.get(title, "") != expected:
            yield f"another {title}"


def _said(settings: dict[str, Any], key: str) -> str:
    return str(settings[key]) if key in settings else "by default"


def _flat(table: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
