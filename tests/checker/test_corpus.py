"""Published submissions: every verdict, metric, unit, accuracy and power metric as published.

``golden/<round>.jsonl`` holds what the official checker of each round says of them.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from checker.engine import Options, check
from schemas.report import Report, Result, encode
from tests.corpus import corpus_root, corpus_rounds, unpacked

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(
        corpus_root() is None, reason="no corpus: set ASSAY_CORPUS to a folder that holds corpus/"
    ),
]

ROUNDS = corpus_rounds() or ["none"]
Key = tuple[str, str, str, str, str]


@functools.cache
def _report(name: str) -> Report:
    return check(unpacked(name), Options(jobs=2))


@functools.cache
def _golden(name: str) -> dict[Key, dict[str, Any]]:
    """What the official checker said, by result; not where a file that it needs is absent here."""
    root = corpus_root()
    assert root is not None
    rows = {}
    with (root / "golden" / f"{name}.jsonl").open(encoding="utf-8") as stream:
        for line in stream:
            row = json.loads(line)
            if not row["missing_affects_verdict"]:
                key = (
                    row["division"],
                    row["submitter"],
                    row["system"],
                    row["benchmark"],
                    row["scenario"],
                )
                rows[key] = row
    assert len(rows) > 10
    return rows


def _rows(name: str) -> dict[Key, Result]:
    return {
        (r.division, r.submitter, r.system, r.directory, r.scenario): r
        for r in _report(name).results
    }


def _valid(row: dict[str, Any]) -> bool:
    published = row["valid_pubflags"]
    return bool(row["valid"] if published is None else published)


def _differ(ours: float | None, theirs: float | None) -> bool:
    if ours is None or theirs is None:
        return ours is not theirs
    return abs(ours - theirs) > 1e-6 * abs(theirs)


@pytest.mark.parametrize("name", ROUNDS)
def test_round_is_recognised(name: str) -> None:
    assert _report(name).round == name


@pytest.mark.parametrize("name", ROUNDS)
def test_every_published_result_is_found(name: str) -> None:
    assert set(_golden(name)) - set(_rows(name)) == set()


@pytest.mark.parametrize("name", ROUNDS)
def test_verdicts(name: str) -> None:
    rows = _rows(name)
    wrong = []
    for key, row in _golden(name).items():
        ours = rows[key]
        if (ours.status == "valid") != _valid(row):
            told = [
                (f.rule, f.message[:160]) for f in _report(name).findings
                if f.severity == "error" and (f.path or "").startswith(ours.path)
            ]  # fmt: skip
            wrong.append((key, ours.status, told[:3]))
    assert wrong == []


@pytest.mark.parametrize("name", ROUNDS)
def test_metrics_and_units(name: str) -> None:
    rows = _rows(name)
    wrong = []
    for key, row in _golden(name).items():
        metric = rows[key].metric
        value, unit = (metric.value, metric.unit) if metric else (None, None)
        if _differ(value, row["metric"]) or unit != row["unit"]:
            wrong.append((key, value, unit, row["metric"], row["unit"]))
    assert wrong == []


@pytest.mark.parametrize("name", ROUNDS)
def test_accuracy(name: str) -> None:
    rows = _rows(name)
    wrong = []
    for key, row in _golden(name).items():
        ours = {score.metric: score.value for score in rows[key].accuracy}
        for metric, value in (row["accuracy"] or {}).items():
            if value in (None, "None"):
                continue
            if _differ(ours.get(metric), float(value)):
                wrong.append((key, metric, ours.get(metric), value))
    assert wrong == []


@pytest.mark.parametrize("name", ROUNDS)
def test_power_metrics(name: str) -> None:
    rows = _rows(name)
    wrong = []
    for key, row in _golden(name).items():
        power = rows[key].power
        unit = power.unit if power else None
        if _differ(power.value if power else None, row.get("power_metric")) or unit != row.get(
            "power_unit"
        ):
            wrong.append((key, power, row.get("power_metric"), row.get("power_unit")))
    assert wrong == []


@pytest.mark.parametrize("name", ROUNDS)
def test_no_error_on_what_was_published_as_valid(name: str) -> None:
    """Not even one that leaves the verdict alone: nothing of a valid result's own is an error."""
    rows = _rows(name)
    valid = {rows[key].path for key, row in _golden(name).items() if _valid(row)}
    wrong = [
        (f.rule, f.path, f.message[:160]) for f in _report(name).findings
        if f.severity == "error" and any(f"{f.path}/".startswith(f"{path}/") for path in valid)
    ]  # fmt: skip
    assert wrong == []


@pytest.mark.parametrize("name", ROUNDS)
def test_no_rule_stopped(name: str) -> None:
    assert [f.message for f in _report(name).findings if f.rule == "X001"] == []


def test_any_number_of_jobs_gives_the_same_bytes() -> None:
    name = ROUNDS[-1]
    assert encode(check(unpacked(name), Options(jobs=1))) == encode(_report(name))
