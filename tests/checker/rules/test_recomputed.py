"""Rules about the accuracy log itself: recomputed accuracy, and logs that are too large."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from checker.engine import Options, check
from tests.conftest import Grow
from tests.trees import GoodTree

RESNET = {"round": "v6.0", "benchmark": "resnet", "category": "edge"}
LOG = "accuracy/mlperf_log_accuracy.json"


def _log(tree: GoodTree, truth: Path, *, right: int) -> None:
    """A whole log of a hundred answers of which ``right`` are those of the truth."""
    labels = [n % 1000 for n in range(100)]
    truth.write_text("".join(f"i{i}.jpg {n}\n" for i, n in enumerate(labels)))
    rows = [
        f'{{ "seq_id" : {i}, "qsl_idx" : {i}, "data" : "{struct.pack("<i", n if i < right else 999).hex()}" }}'
        for i, n in enumerate(labels)
    ]
    place = tree.result("Offline")
    Path(place.accuracy_log).write_text("[\n" + ",\n".join(rows) + "\n]\n")


def _second_system(tree: GoodTree) -> None:
    """The same results once more, under another system's name."""
    base = tree.root / "closed/Acme"
    shutil.copytree(base / "results/box1", base / "results/box2")
    shutil.copy(base / "systems/box1.json", base / "systems/box2.json")


BREAKS: dict[str, list[Callable[[GoodTree], object]]] = {
    "P149": [_second_system],
    "A119": [lambda tree: None],
    "P143": [
        lambda tree: tree.write(
            tree.result("Offline").performance / "mlperf_log_accuracy.json", b"x" * 20_000
        )
    ],
}


def _found(tree: GoodTree, truth: Path, **options: object) -> list[tuple[str, str]]:
    data = {"resnet": str(truth)} if truth.exists() else {}
    report = check(tree.root, Options(jobs=1, data=data, **options))  # type: ignore[arg-type]
    return [(f.rule, f.severity) for f in report.findings if f.severity != "note"]


@pytest.mark.parametrize(("right", "expected"), [(100, []), (60, [("A119", "error")])])
def test_stated_accuracy_is_that_of_the_log(
    grow: Grow, tmp_path: Path, right: int, expected: list[tuple[str, str]]
) -> None:
    tree = grow(**RESNET)
    truth = tmp_path / "val_map.txt"
    _log(tree, truth, right=right)
    text = Path(tree.result("Offline").accuracy_text)
    whole = hashlib.sha256(Path(tree.result("Offline").accuracy_log).read_bytes()).hexdigest()
    text.write_text(f"accuracy=100.000%, good=100, total=100\nhash={whole}\n")
    assert _found(tree, truth, select=("A119",)) == expected


def test_another_hash_is_said(grow: Grow, tmp_path: Path) -> None:
    tree = grow(**RESNET)
    truth = tmp_path / "val_map.txt"
    _log(tree, truth, right=100)
    text = Path(tree.result("Offline").accuracy_text)
    text.write_text(f"accuracy=100.000%, good=100, total=100\nhash={'ab' * 32}\n")
    assert _found(tree, truth, select=("A119",)) == [("A119", "error")]


def test_large_log_beside_the_performance_run(grow: Grow, tmp_path: Path) -> None:
    tree = grow(**RESNET)
    assert tree.findings() == []
    BREAKS["P143"][0](tree)
    place = tree.result("Offline").path
    path = f"{place}/performance/run_1/mlperf_log_accuracy.json"
    assert tree.findings() == [("P143", path)]


def test_case_059_the_same_logs_under_two_systems(grow: Grow, tmp_path: Path) -> None:
    """One finding for the pair; a warning where one submitter describes one machine twice."""
    tree = grow(**RESNET)
    BREAKS["P149"][0](tree)
    report = tree.check()
    (found,) = [f for f in report.findings if f.rule == "P149"]
    assert (found.severity, found.count) == ("warning", len(report.results) // 2)
    assert set(found.results) == {r.key for r in report.results}
    assert {r.status for r in report.results} == {"valid"}


def test_shared_logs_of_other_hardware_are_an_error_in_audit(grow: Grow) -> None:
    tree = grow(**RESNET)
    BREAKS["P149"][0](tree)
    other = tree.root / "closed/Acme/systems/box2.json"
    fields = json.loads(other.read_text())
    fields["accelerator_model_name"] = "Another 9000"
    other.write_text(json.dumps(fields))
    severities = {
        audit: [f.severity for f in tree.check(audit=audit).findings if f.rule == "P149"]
        for audit in (False, True)
    }
    assert severities == {False: ["warning"], True: ["error"]}
