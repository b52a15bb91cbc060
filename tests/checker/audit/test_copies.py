"""Copies of logs: one finding for each pair of runs or systems, and never one against the genuine log."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from schemas.report import Finding
from tests.conftest import Grow
from tests.trees import DETAIL, SUMMARY, GoodTree, good_tree

EDGE: dict[str, Any] = {"benchmark": "yolo-99", "category": "edge"}
FAMILY = ("R301", "R302", "R303", "R307", "R308", "P149", "C124")


def _another(tree: GoodTree, **named: str) -> GoodTree:
    other = good_tree(tree.root.parent, into=tree, **(EDGE | named))
    # Made logs are alike; those of another system are not.
    for number, scenario in enumerate(other.scenarios):
        place = other.result(scenario)
        logs = [place.detail, *(tree.root / place.path).rglob(f"TEST*/performance/run_1/{DETAIL}")]
        for log in logs:
            mean = tree.get_log(log, "result_mean_latency_ns")
            tree.set_log(log, "result_mean_latency_ns", mean + 1_000 + number)
    return other


def _give(source: GoodTree, target: GoodTree, *scenarios: str) -> None:
    for scenario in scenarios:
        for name in (DETAIL, SUMMARY):
            folder = target.result(scenario).performance
            shutil.copyfile(source.result(scenario).performance / name, folder / name)


def _of_family(tree: GoodTree, **options: Any) -> list[Finding]:
    options = {"select": FAMILY} | options
    return [f for f in tree.check(audit=True, **options).findings if f.rule in FAMILY]


def test_two_systems_with_one_log_are_one_finding_of_the_check(grow: Grow) -> None:
    tree = grow(**EDGE)
    other = _another(tree, system="box2")
    _give(tree, other, "Offline", "SingleStream")
    (finding,) = _of_family(tree)
    assert (finding.rule, finding.count, finding.path) == ("P149", 2, "closed/Acme/results")
    assert finding.subject.system is None and len(finding.results) == 4


def test_of_two_systems_with_one_log_the_one_that_contradicts_its_place_is_named(
    grow: Grow,
) -> None:
    tree = grow(**EDGE)
    other = _another(tree, system="box2")
    for name in (DETAIL, SUMMARY):
        shutil.copyfile(
            tree.result("Offline").performance / name,
            other.result("SingleStream").performance / name,
        )
    (finding,) = [f for f in tree.check().findings if f.rule == "P149"]
    assert finding.path == tree.relative(other.result("SingleStream").detail)
    assert finding.subject.system == "box2" and "those of box2 contradict" in finding.message
    assert {key.split("/")[2] for key in finding.results} == {"box2"}


@pytest.mark.parametrize("chosen", ["R", "R301"])
def test_rules_of_the_audit_alone_are_not_silent(grow: Grow, chosen: str) -> None:
    tree = grow(**EDGE)
    other = _another(tree, system="box2")
    _give(tree, other, "Offline", "SingleStream")
    (finding,) = _of_family(tree, select=(chosen,))
    assert (finding.rule, finding.severity, finding.count) == ("R301", "error", 2)
    assert finding.path == "closed/Acme/results"
    assert {str(path).split("/")[3] for path in finding.found} == {"box1", "box2"}
    assert set(finding.invalidates) == set(finding.results) and len(finding.results) == 4


def test_two_submitters_are_named_and_none_is_made_invalid(grow: Grow) -> None:
    tree = grow(**EDGE)
    other = _another(tree, submitter="Bravo")
    _give(tree, other, "Offline")
    (finding,) = _of_family(tree, select=("R301",))
    assert finding.path == "closed" and len(finding.results) == 2
    assert finding.invalidates == ()


def test_a_changed_copy_is_named_by_the_strongest_relation(grow: Grow) -> None:
    tree = grow(**EDGE)
    other = _another(tree, system="box2")
    _give(tree, other, "Offline")
    log = other.result("Offline").detail
    tree.set_log(log, "test_datetime", "2026-02-03T04:05:06Z")
    found = {finding.rule for finding in _of_family(tree, select=("R",))}
    assert found == {"R303"}
    tree.set_log(log, "result_min_latency_ns", 12)
    found = {finding.rule for finding in _of_family(tree, select=("R",))}
    assert found == {"R302"}


def test_the_log_that_contradicts_its_place_is_the_copy(grow: Grow) -> None:
    tree = grow(**EDGE)
    place = tree.result("Offline")
    shutil.copyfile(place.detail, place.accuracy_detail)
    (finding,) = _of_family(tree, select=("R",))
    assert finding.path == tree.relative(place.accuracy_detail)
    # Of two systems with one log the one whose log contradicts itself is the copy, whatever its name.
    tree = grow(**EDGE)
    other = _another(tree, system="box2")
    _give(other, tree, "SingleStream")
    changed = tree.result("SingleStream").detail
    tree.set_log(changed, "effective_qsl_rng_seed", 1)
    (finding,) = _of_family(tree, select=("R",))
    assert finding.path == tree.relative(changed) and "R111" in finding.message
    assert finding.results == finding.invalidates == ("closed/Acme/box1/yolo-99/SingleStream",)


def test_accuracy_targets_may_share_a_run(grow: Grow) -> None:
    tree = grow(**EDGE)
    twin = _another(tree, benchmark="yolo-95")
    _give(tree, twin, "Offline")
    assert _of_family(tree, select=("R301",)) == []


def test_a_test_that_is_the_submitted_run_is_told_once(grow: Grow) -> None:
    tree = grow(**EDGE)
    place = tree.result("Offline")
    target = place.compliance("TEST01") / "performance/run_1" / DETAIL
    shutil.copyfile(place.detail, target)
    (finding,) = _of_family(tree)
    assert finding.rule == "C124"
    (finding,) = _of_family(tree, select=("R301",))
    assert finding.path == tree.relative(target)


def test_paths_of_a_finding_are_words(grow: Grow) -> None:
    tree = grow(**EDGE)
    other = _another(tree, system="box2")
    _give(tree, other, "Offline", "SingleStream")
    (finding,) = _of_family(tree, select=("R301",))
    assert finding.evidence is not None
    places = [Path(str(v)).name for k, v in finding.evidence.items() if re.fullmatch(r"log \d", k)]
    assert places == [DETAIL, DETAIL]
    assert "and in 1 other pair of logs of the two systems" in finding.message


def test_a_summary_of_another_system_where_detail_logs_hold_no_results(grow: Grow) -> None:
    """As of v0.5's LoadGen."""
    kind: dict[str, Any] = {"round": "v0.5", "benchmark": "resnet", "scenarios": ["Offline"]}
    tree = grow(**kind, text=True)
    other = good_tree(tree.root.parent, into=tree, system="box2", text=True, **kind)
    place = other.result("Offline").summary
    text = place.read_text()
    place.write_text(re.sub(r"(Mean latency \(ns\) *: )", r"\g<1>1", text))
    assert _of_family(tree) == []
    shutil.copyfile(tree.result("Offline").summary, place)
    (finding,) = _of_family(tree)
    assert finding.rule == "R302"
