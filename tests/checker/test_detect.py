"""Which round a tree is from."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from checker.detect import detect_round
from checker.parse.reading import list_tree
from schemas.load import load_round, round_names
from tests.conftest import Grow
from tests.trees import DETAIL, GoodTree


def _tree(grow: Grow, round: str) -> GoodTree:
    known = load_round(round).benchmarks
    return grow(
        round=round,
        benchmark="digits"
        if round == "demo"
        else "resnet"
        if "resnet" in known
        else next(iter(known)),
        scenarios=["Offline"],
    )


@pytest.mark.parametrize("round", round_names())
def test_every_round_is_recognised(round: str, grow: Grow) -> None:
    tree = _tree(grow, round)
    found = detect_round(list_tree(tree.root))
    assert (found.name, found.sure) == (round, True)
    assert "seeds" in found.reason


@pytest.mark.parametrize("round", ["v6.0", "v4.1", "v2.1"])
def test_by_version_when_no_seed_is_known(round: str, grow: Grow) -> None:
    tree = _tree(grow, round)
    for place in tree.root.rglob(DETAIL):
        for key in ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"):
            tree.set_log(place, f"effective_{key}", 0)
    found = detect_round(list_tree(tree.root))
    assert found.name == round and "version" in found.reason


def test_most_logs_decide(grow: Grow) -> None:
    tree = grow(round="v6.0", benchmark="yolo-99", category="edge")
    tree.set_log(tree.result("Offline").detail, "effective_qsl_rng_seed", 1)
    assert detect_round(list_tree(tree.root)).name == "v6.0"


def test_no_log_at_all(grow: Grow) -> None:
    """The layout still tells new from old, and says that it is a guess."""
    for round, expected in (("v6.0", round_names()[-2]), ("v5.1", "v5.1")):
        tree = _tree(grow, round)
        for place in list(tree.root.rglob("performance")) + list(tree.root.rglob("accuracy")):
            shutil.rmtree(place)
        found = detect_round(list_tree(tree.root))
        assert (found.name, found.sure) == (expected, False)


def test_empty(tmp_path: Any) -> None:
    found = detect_round(list_tree(tmp_path))
    assert found.name == round_names()[-2] and not found.sure and "assumed" in found.reason


def test_damaged_logs(grow: Grow) -> None:
    tree = _tree(grow, "v6.0")
    for number, place in enumerate(sorted(tree.root.rglob(DETAIL))):
        place.write_bytes([b"", b"\x00" * 50, b"[]"][number % 3])
    assert not detect_round(list_tree(tree.root)).sure
    assert tree.check().failed


def test_report_says_why(grow: Grow) -> None:
    report = _tree(grow, "v6.0").check()
    assert (
        report.round == "v6.0"
        and report.round_detected_from == "seeds of 1 of 1 LoadGen logs looked at"
    )


def test_a_look_that_fails_ends_no_check(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OverflowError("int too large")

    monkeypatch.setattr("checker.detect.read_start", fail)
    found = detect_round(list_tree(_tree(grow, "v6.0").root))
    assert not found.sure and found.name == [n for n in round_names() if load_round(n).official][-1]
    assert "OverflowError" in found.reason
