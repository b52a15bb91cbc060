"""A good submission of any round, benchmark, category and scenario has no finding at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from schemas.load import load_round, round_names
from tests.trees import GoodTree, good_tree

CASES = [
    pytest.param(round, benchmark, id=f"{round}-{benchmark}")
    for round in round_names()
    for benchmark in load_round(round).benchmarks
]


def _assert_good(tree: GoodTree) -> None:
    report = tree.check()
    told = [f"{f.rule} {f.path}: {f.message}" for f in report.findings]
    assert told == []
    assert report.round == tree.round.name, report.round_detected_from
    assert report.summary.valid == len(report.results) == len(tree.scenarios)
    for row in report.results:
        rules = tree.round.benchmarks[row.benchmark or ""].scenarios[row.scenario]
        assert row.metric is not None and row.metric.value > 0
        assert (row.metric.name, row.metric.unit) == (rules.metric.key, rules.metric.unit)
        assert row.accuracy and all(s.passed is not False for s in row.accuracy)
        assert row.rules_applied >= 40


@pytest.mark.parametrize(("round", "benchmark"), CASES)
def test_good_tree(round: str, benchmark: str, tmp_path: Path) -> None:
    """Every category, with every scenario that may be submitted; in the newest rounds also systems
    of both categories, with the required scenarios."""
    for name, category in load_round(round).benchmarks[benchmark].categories.items():
        if "," in name and round in round_names()[:-3]:
            continue
        place = "datacenter" if name == "none" else name
        scenarios = None if "," in name else category.allowed
        try:
            _assert_good(
                good_tree(
                    tmp_path / place,
                    round=round,
                    benchmark=benchmark,
                    category=place,
                    scenarios=scenarios,
                )
            )
        finally:
            shutil.rmtree(tmp_path / place, ignore_errors=True)


@pytest.mark.parametrize(
    ("round", "benchmark"),
    [
        pytest.param(name, benchmark, id=f"{name}-{benchmark}")
        for name in ("v0.5", "v0.7")
        for benchmark in load_round(name).benchmarks
    ],
)
def test_good_tree_with_text_logs(round: str, benchmark: str, tmp_path: Path) -> None:
    """The plain text logs of the first rounds, whose results stand in the summary alone."""
    for name, category in load_round(round).benchmarks[benchmark].categories.items():
        place = "datacenter" if name == "none" else name
        tree = good_tree(
            tmp_path / place,
            round=round,
            benchmark=benchmark,
            category=place,
            text=True,
            scenarios=category.allowed,
        )
        _assert_good(tree)
        shutil.rmtree(tmp_path / place)


WITH_POWER = [name for name in round_names() if load_round(name).layout.power.required]


@pytest.mark.parametrize("round", WITH_POWER)
def test_good_tree_with_power(round: str, tmp_path: Path) -> None:
    benchmark = "digits" if round == "demo" else "resnet"
    tree = good_tree(tmp_path, round=round, benchmark=benchmark, power=True)
    _assert_good(tree)
    rows = tree.check().results
    for row in rows:
        rules = tree.round.benchmarks[benchmark].scenarios[row.scenario]
        assert row.power is not None and row.power.value > 0
        assert row.power.unit == rules.power_unit


@pytest.mark.parametrize(
    "round", [name for name in round_names() if "network" in load_round(name).divisions]
)
def test_good_network_tree(round: str, tmp_path: Path) -> None:
    known = load_round(round).benchmarks
    benchmark = next(
        name
        for name, about in known.items()
        if "datacenter" in about.categories and "Server" in about.categories["datacenter"].allowed
    )
    _assert_good(
        good_tree(
            tmp_path, round=round, benchmark=benchmark, category="datacenter", division="network"
        )
    )


@pytest.mark.parametrize("round", round_names())
def test_good_open_tree(round: str, tmp_path: Path) -> None:
    benchmark = "digits" if round == "demo" else "resnet"
    _assert_good(
        good_tree(
            tmp_path, round=round, benchmark=benchmark, division="open", scenarios=["Offline"]
        )
    )


def test_several_benchmarks_and_systems(tmp_path: Path) -> None:
    """Trees grow: results of several systems in one tree keep out of each other's way."""
    tree = good_tree(tmp_path, benchmark="yolo-99", directory="yolo-99")
    good_tree(tmp_path, benchmark="whisper", system="box2", into=tree)
    good_tree(tmp_path, benchmark="resnet", directory="resnet50", system="box3", into=tree)
    good_tree(tmp_path, benchmark="yolo-95", submitter="Bolt", system="box1", into=tree)
    report = tree.check()
    assert [f"{f.rule} {f.path}: {f.message}" for f in report.findings] == []
    assert {(r.submitter, r.system, r.benchmark, r.directory) for r in report.results} == {
        ("Acme", "box1", "yolo-99", "yolo-99"),
        ("Acme", "box2", "whisper", "whisper"),
        ("Acme", "box3", "resnet", "resnet50"),
        ("Bolt", "box1", "yolo-95", "yolo-95"),
    }
    assert len(report.results) == 10
