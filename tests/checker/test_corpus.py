"""Published submissions: every verdict, metric, unit, accuracy and power metric as published.

``golden/<round>.jsonl`` holds what the official checker of each round says of them, or what was
published. Rows of which a needed file is absent here are left out (``missing_affects_verdict``);
``valid_pubflags`` counts before ``valid``; a result that was published though it is INVALID by the
rules has ``valid_by_the_rules: false``; ``metric_rounded`` values were published rounded.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from checker.engine import Options, check
from schemas.report import Report, Result, encode
from tests.checker.rules.breaking import not_plain
from tests.corpus import corpus_root, corpus_rounds, golden_of, is_rebuilt, unpacked

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(
        corpus_root() is None, reason="no corpus: set ASSAY_CORPUS to a folder that holds corpus/"
    ),
]

ROUNDS = corpus_rounds(rebuilt=True) or ["none"]
Key = tuple[str, str, str, str, str]


PLACEHOLDERS = {"S110", "S111", "S116", "S125", "A117", "W109", "W123"}
"""Rules whose findings prove nothing on rebuilt trees: of what was left out of them."""

UNEXPLAINED = {
    ("power", "amd_ryzen_workstation-reference-cpu-pytorch-v1.13.1-default_config", "rnnt"),
}
"""Published without a power metric, though their power logs are whole: nobody says why."""


def _proves_nothing(round: str, rule: str) -> bool:
    return is_rebuilt(round) and rule in PLACEHOLDERS


def _golden(name: str) -> dict[Key, dict[str, Any]]:
    """What was published, by result; not where a file that it needs is absent here."""
    rows = {}
    with golden_of(name).open(encoding="utf-8") as stream:
        for line in stream:
            row = json.loads(line)
            if not row["missing_affects_verdict"]:
                rows[
                    _key(
                        *(row[key] for key in ("division", "submitter", "system")),
                        row["benchmark"],
                        row["scenario"],
                    )
                ] = row
    assert len(rows) > 10
    return rows


def _key(division: str, submitter: str, system: str, benchmark: str, scenario: str) -> Key:
    return (division, submitter, system, benchmark, scenario.lower())


def _valid(row: dict[str, Any]) -> bool:
    if row.get("valid_by_the_rules") is False:
        return False
    published = row["valid_pubflags"]
    return bool(row["valid"] if published is None else published)


def _differ(ours: float | None, theirs: float | None, *, rounded: bool = False) -> bool:
    if ours is None or theirs is None:
        return ours is not theirs
    decimals = len(str(theirs).partition(".")[2])
    if rounded and round(ours, decimals) == theirs:
        return False
    return abs(ours - theirs) > (1e-3 if rounded else 1e-6) * abs(theirs)


def _why(report: Report, row: Result) -> list[tuple[str, str]]:
    """What makes a result invalid, but for what a rebuilt tree lacks."""
    return [
        (f.rule, f.message[:160])
        for f in report.findings
        if f.severity == "error"
        and row.key in f.invalidates
        and not _proves_nothing(report.round, f.rule)
    ]


@pytest.mark.parametrize("name", ROUNDS)
def test_as_published(name: str) -> None:
    """One check of the round; every difference is listed under what differs."""
    report = check(unpacked(name), Options(jobs=2))
    rows = {
        _key(r.division, r.submitter, r.system, r.directory, r.scenario): r for r in report.results
    }
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
        why = _why(report, ours)
        assert ours.status == "invalid" or not why
        if (not why) != _valid(row):
            wrong["verdict"].append((key, ours.status, why))
        value, unit = (ours.metric.value, ours.metric.unit) if ours.metric else (None, None)
        rounded = bool(row.get("metric_rounded"))
        if _differ(value, row["metric"], rounded=rounded):
            wrong["metric"].append((key, value, row["metric"]))
        if unit != row["unit"]:
            wrong["unit"].append((key, unit, row["unit"]))
        scores = {score.metric: score.value for score in ours.accuracy}
        for metric, published in (row["accuracy"] or {}).items():
            if published not in (None, "None") and _differ(scores.get(metric), float(published)):
                wrong["accuracy"].append((key, metric, scores.get(metric), published))
        watts, unit = (ours.power.value, ours.power.unit) if ours.power else (None, None)
        if ("power", ours.system, ours.directory) in UNEXPLAINED:
            continue
        if _differ(watts, row.get("power_metric")) or unit != row.get("power_unit"):
            wrong["power"].append((key, watts, unit, row.get("power_metric")))
    for finding in report.findings:
        inside = any(f"{finding.path}/".startswith(f"{path}/") for path in valid)
        if finding.severity == "error" and inside and not _proves_nothing(name, finding.rule):
            # Not even one that leaves the verdict alone.
            wrong["error on a valid result"].append((finding.rule, finding.path, finding.message))
        if finding.rule == "X001":
            wrong["a rule stopped"].append(finding.message)
        if words := not_plain(finding):
            wrong["not in plain words"].append(words)
    assert dict(wrong) == {}
    assert report.round == name, report.round_detected_from


def test_any_number_of_jobs_gives_the_same_bytes() -> None:
    tree = unpacked(ROUNDS[-1])
    assert encode(check(tree, Options(jobs=1))) == encode(check(tree, Options(jobs=2)))
