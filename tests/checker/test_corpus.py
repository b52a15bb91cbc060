"""Published submissions: every verdict, metric, unit, accuracy and power metric as published.

``golden/<round>.jsonl`` holds what the official checker of each round says of them.
"""

from __future__ import annotations

import json
from collections import defaultdict
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


def _golden(name: str) -> dict[Key, dict[str, Any]]:
    """What the official checker said, by result; not where a file that it needs is absent here."""
    root = corpus_root()
    assert root is not None
    rows = {}
    with (root / "golden" / f"{name}.jsonl").open(encoding="utf-8") as stream:
        for line in stream:
            row = json.loads(line)
            if not row["missing_affects_verdict"]:
                keys = ("division", "submitter", "system", "benchmark", "scenario")
                rows[tuple(row[key] for key in keys)] = row
    assert len(rows) > 10
    return rows


def _valid(row: dict[str, Any]) -> bool:
    published = row["valid_pubflags"]
    return bool(row["valid"] if published is None else published)


def _differ(ours: float | None, theirs: float | None) -> bool:
    if ours is None or theirs is None:
        return ours is not theirs
    return abs(ours - theirs) > 1e-6 * abs(theirs)


def _why(report: Report, row: Result) -> list[tuple[str, str]]:
    errors = [f for f in report.findings if f.severity == "error"]
    return [(f.rule, f.message[:160]) for f in errors if (f.path or "").startswith(row.path)][:3]


@pytest.mark.parametrize("name", ROUNDS)
def test_as_published(name: str) -> None:
    """One check of the round; every difference is listed under what differs."""
    report = check(unpacked(name), Options(jobs=2))
    rows = {(r.division, r.submitter, r.system, r.directory, r.scenario): r for r in report.results}
    golden = _golden(name)
    wrong: defaultdict[str, list[Any]] = defaultdict(list)
    valid = set()
    for key, row in golden.items():
        ours = rows.get(key)
        if ours is None:
            wrong["not found"].append(key)
            continue
        if _valid(row):
            valid.add(ours.path)
        if (ours.status == "valid") != _valid(row):
            wrong["verdict"].append((key, ours.status, _why(report, ours)))
        value, unit = (ours.metric.value, ours.metric.unit) if ours.metric else (None, None)
        if _differ(value, row["metric"]):
            wrong["metric"].append((key, value, row["metric"]))
        if unit != row["unit"]:
            wrong["unit"].append((key, unit, row["unit"]))
        scores = {score.metric: score.value for score in ours.accuracy}
        for metric, published in (row["accuracy"] or {}).items():
            if published not in (None, "None") and _differ(scores.get(metric), float(published)):
                wrong["accuracy"].append((key, metric, scores.get(metric), published))
        watts, unit = (ours.power.value, ours.power.unit) if ours.power else (None, None)
        if _differ(watts, row.get("power_metric")) or unit != row.get("power_unit"):
            wrong["power"].append((key, watts, unit, row.get("power_metric")))
    for finding in report.findings:
        inside = any(f"{finding.path}/".startswith(f"{path}/") for path in valid)
        if finding.severity == "error" and inside:
            # Not even one that leaves the verdict alone.
            wrong["error on a valid result"].append((finding.rule, finding.path, finding.message))
        if finding.rule == "X001":
            wrong["a rule stopped"].append(finding.message)
    assert dict(wrong) == {}
    assert report.round == name, report.round_detected_from


def test_any_number_of_jobs_gives_the_same_bytes() -> None:
    tree = unpacked(ROUNDS[-1])
    assert encode(check(tree, Options(jobs=1))) == encode(check(tree, Options(jobs=2)))
