"""From a listing to results: what TREE is, which benchmark a folder means, what lies beside."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from checker.discover import Place, canonical_scenario, discover, locate
from checker.engine import Options, check
from checker.parse.reading import list_tree
from schemas.load import load_round
from schemas.names import benchmark_name
from tests.conftest import Grow
from tests.trees import DETAIL, GoodTree, good_tree

DEMO: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "datacenter"}
V60 = load_round("v6.0")


@pytest.mark.parametrize(
    ("directory", "division", "mapping", "expected"),
    [
        ("resnet", "closed", {}, "resnet"), ("resnet50", "closed", {}, "resnet"),
        ("mobilenet", "closed", {}, "resnet"), ("my-resnet50-int8", "closed", {}, "resnet"),
        ("llama3_1-405b", "closed", {}, "llama3.1-405b"), ("bert-99.9", "closed", {}, "bert-99.9"),
        ("bert-99", "closed", {}, "bert-99"), ("nonsense", "closed", {}, None), ("", "closed", {}, None),
        ("tiny", "open", {"tiny": "resnet"}, "resnet"), ("tiny", "closed", {"tiny": "resnet"}, None),
        ("tiny", "open", {"tiny": "resnet50"}, "resnet"), ("tiny", "open", {"tiny": "unknown"}, None),
        ("resnet", "open", {"resnet": "bert-99"}, "resnet"), ("ResNet", "closed", {}, None),
    ],
)  # fmt: skip
def test_benchmark_names(
    directory: str, division: str, mapping: dict[str, str], expected: str | None
) -> None:
    assert benchmark_name(directory, V60, mapping, division) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Offline", "Offline"), ("offline", "Offline"), ("OFFLINE", "Offline"),
        ("SingleStream", "SingleStream"), ("singlestream", "SingleStream"),
        ("interactive", "Interactive"), ("single_stream", None), ("performance", None), ("", None),
    ],
)  # fmt: skip
def test_scenario_names(name: str, expected: str | None) -> None:
    assert canonical_scenario(name, V60.aliases) == expected


def _scope(tree: GoodTree, scope: str) -> Path:
    place = tree.result("Server")
    return {
        "tree": tree.root,
        "division": tree.root / "closed",
        "submitter": tree.root / tree.base,
        "system": tree.root / tree.base / "results/box1",
        "benchmark": (tree.root / place.path).parent,
        "result": tree.root / place.path,
        "run": place.performance,
    }[scope]


SCOPES = ["tree", "division", "submitter", "system", "benchmark", "result", "run"]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("round", ["demo", "v5.1"])
def test_part_of_a_tree(scope: str, round: str, grow: Grow) -> None:
    """A part checked where it stands keeps its names and has no finding of what lies outside."""
    options = (
        DEMO
        if round == "demo"
        else {"round": "v5.1", "benchmark": "retinanet", "category": "datacenter"}
    )
    tree = grow(**options)
    report = check(_scope(tree, scope), Options(jobs=1, round=round))
    assert [
        f"{f.rule} {f.path}: {f.message}" for f in report.findings if f.severity != "note"
    ] == []
    assert report.scope == scope
    assert bool(report.not_checked) == (scope != "tree")
    rows = [(r.division, r.submitter, r.system, r.benchmark, r.scenario) for r in report.results]
    name = options["benchmark"]
    expected = [("closed", "Acme", "box1", name, s) for s in ("Offline", "Server")]
    assert rows == (expected[1:] if scope in ("result", "run") else expected)
    assert all(r.metric is not None for r in report.results)


@pytest.mark.parametrize("scope", SCOPES[2:])
def test_part_that_was_taken_out(scope: str, grow: Grow, tmp_path: Path) -> None:
    """Copied out of its tree, a part is judged by what it holds; unknown names are said to be so."""
    tree = grow(**DEMO)
    # A result is named by the two folders it stands in, a benchmark by its own folder's name.
    part = tmp_path / "elsewhere/digits" / _scope(tree, scope).name
    shutil.copytree(_scope(tree, scope), part)
    report = check(part, Options(jobs=1, round="demo"))
    errors = [f"{f.rule} {f.path}: {f.message}" for f in report.findings if f.severity == "error"]
    assert errors == []
    assert report.scope == scope
    assert len(report.results) == (1 if scope in ("result", "run") else 2)


def test_run_alone_with_its_benchmark_said(grow: Grow, tmp_path: Path) -> None:
    """X008: a run folder of no known benchmark says that no limits were applied; --benchmark and
    --scenario apply them."""
    tree = grow(**DEMO)
    tree.set_log(tree.result("Server").detail, "effective_min_duration_ms", 1)
    tree.set_summary(tree.result("Server").summary, "min_duration (ms)", 1)
    run = tmp_path / "run_1"
    shutil.copytree(tree.result("Server").performance, run)
    alone = check(run, Options(jobs=1, round="demo"))
    assert [(f.rule, f.severity) for f in alone.findings] == [("X008", "warning")]
    told = check(run, Options(jobs=1, round="demo", benchmark="digits", scenario="Server"))
    assert [(f.rule, f.path) for f in told.findings] == [("P106", DETAIL)]


@pytest.mark.parametrize("scope", ["benchmark", "result", "run"])
def test_a_part_is_judged(scope: str, grow: Grow) -> None:
    tree = grow(**DEMO)
    tree.set_log(tree.result("Server").detail, "effective_min_duration_ms", 1)
    report = check(_scope(tree, scope), Options(jobs=1))
    found = [f for f in report.findings if f.rule == "P106"]
    assert len(found) == 1 and report.failed
    assert (_scope(tree, scope) / (found[0].path or "")).is_file(), "the path is relative to TREE"


def test_measurements_in_another_case(grow: Grow) -> None:
    """results/…/Offline and measurements/…/offline belong together, as in published trees."""
    tree = grow(round="v5.1", benchmark="retinanet", category="datacenter")
    place = tree.result("Offline").measurements
    place.rename(place.parent / "offline")
    compliance = tree.result("Offline").compliance_root
    assert compliance is not None
    compliance.rename(compliance.parent / "offline")
    assert tree.findings() == []


def test_scenario_folders_in_any_case(grow: Grow) -> None:
    tree = grow(**DEMO)
    place = tree.root / tree.result("Offline").path
    place.rename(place.parent / "offline")
    report = tree.check()
    assert [f for f in report.findings if f.severity == "error"] == []
    assert {r.scenario for r in report.results} == {"offline", "Server"}
    assert report.summary.valid == 2


def test_open_division_mapping(tmp_path: Path) -> None:
    tree = good_tree(
        tmp_path,
        benchmark="yolo-99",
        category="edge",
        division="open",
        directory="my-detector",
        scenarios=["Offline"],
    )
    assert [r.benchmark for r in tree.check().results] == [None]
    tree.write(f"{tree.base}/model_mapping.json", json.dumps({"my-detector": "yolo-99"}))
    report = tree.check()
    assert [(r.benchmark, r.directory, r.status) for r in report.results] == [
        ("yolo-99", "my-detector", "valid")
    ]


def test_plan_of_odd_trees(grow: Grow) -> None:
    """Stray divisions, systems without results, results without a system, unknown folders."""
    tree = grow(**DEMO)
    tree.write("clsoed/X/results/s/b/Offline/x", b"")
    tree.write(f"{tree.base}/systems/unused.json", b"{}")
    tree.write(f"{tree.base}/results/box9/digits/Offline/performance/run_1/x", b"")
    tree.write(f"{tree.base}/results/box1/digits/Offlien/accuracy/x", b"")
    tree.write(f"{tree.base}/results/box1/digits/plots/x.png", b"")
    listing = list_tree(tree.root)
    plan = discover(listing, tree.round, locate(tree.root, listing))
    assert plan.tree.stray_divisions == ["clsoed"]
    submitter = plan.tree.submitters[0]
    assert [(s.name, s.has_results) for s in submitter.systems] == [
        ("box1", True),
        ("box9", True),
        ("unused", False),
    ]
    assert plan.system_files["closed", "Acme", "box9"] is None
    assert [(r.system, r.scenario_folder, r.scenario) for r in plan.results] == [
        ("box1", "Offlien", None),
        ("box1", "Offline", "Offline"),
        ("box1", "Server", "Server"),
        ("box9", "Offline", "Offline"),
    ]
    group = next(g for g in submitter.benchmarks if g.system == "box1")
    assert group.unknown_scenarios == ["Offlien", "plots"] or group.unknown_scenarios == [
        "plots",
        "Offlien",
    ]


def test_locate_of_nothing(tmp_path: Path) -> None:
    assert locate(tmp_path, list_tree(tmp_path)) == Place("tree")
