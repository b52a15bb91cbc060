"""`assay fix`: what a machine can fix is fixed in place, and undone byte by byte."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay import cli
from assay.prepare.acting import CannotAct
from assay.prepare.fixing import FIXES, carry_out, plan, undo, undo_of
from checker.engine import Options, check
from checker.rules import find_facts
from tests.assay.test_kills import MOMENTS, SIGNALS, Victim
from tests.assay.test_prepare import MESSES, hashes
from tests.conftest import Grow
from tests.trees import GoodTree, good_tree


def state(root: Path) -> dict[str, str]:
    """Files with their hashes, links with their targets, folders."""
    found = hashes(root)
    for place in root.rglob("*"):
        name = place.relative_to(root).as_posix()
        if place.is_symlink():
            found[name] = f"-> {place.readlink()}"
        elif place.is_dir():
            found[name] = "folder"
    return found


@pytest.fixture(scope="module")
def good() -> Iterator[GoodTree]:
    with tempfile.TemporaryDirectory() as top:
        yield good_tree(Path(top), round="v6.0", benchmark="resnet")


@pytest.mark.parametrize("name", MESSES)
def test_each_mess_is_fixed_and_undone(good: GoodTree, tmp_path: Path, name: str) -> None:
    root = tmp_path / "submission"
    shutil.copytree(good.root, root, symlinks=True)
    tree = GoodTree(root, good.round, good.names)
    MESSES[name](tree)
    before = state(root)
    first = check(root, Options(round="v6.0", jobs=1))
    made = plan(root, first)
    broken = {f.rule for f in first.findings if f.severity == "error"}
    place = carry_out(made, root)
    after = check(root, Options(round="v6.0", jobs=1))
    assert [(f.rule, f.message) for f in after.findings if f.severity == "error"] == []
    gone = broken - {f.rule for f in after.findings}
    assert gone <= set(FIXES), "what can be fixed is listed"
    assert undo(root, place) == []
    assert state(root) == before


def test_only_what_was_selected(good: GoodTree, tmp_path: Path) -> None:
    root = tmp_path / "submission"
    shutil.copytree(good.root, root)
    tree = GoodTree(root, good.round, good.names)
    for name in ("finder", "python", "hidden"):
        MESSES[name](tree)
    report = check(root, Options(round="v6.0", jobs=1))
    one = plan(root, report, select={"S124"})
    assert [s.rules for s in one.steps] == [("S124",)]
    other = plan(root, report, paths=["*/.secret"])
    assert [s.path for s in other.steps] == [f"{tree.base}/documentation/.secret"]


def test_a_good_tree_has_nothing_to_fix(good: GoodTree) -> None:
    report = check(good.root, Options(round="v6.0", jobs=1))
    assert plan(good.root, report).steps == []


def test_what_was_changed_since_is_not_undone(good: GoodTree, tmp_path: Path) -> None:
    root = tmp_path / "submission"
    shutil.copytree(good.root, root)
    tree = GoodTree(root, good.round, good.names)
    tree.edit_json(
        tree.system_path, lambda fields: {k: v for k, v in fields.items() if k != "cooling"}
    )
    place = carry_out(plan(root, check(root, Options(round="v6.0", jobs=1))), root)
    tree.append(tree.system_path, "\n")
    before = state(root)
    assert undo(root, place) == [
        f"{tree.system_path} was changed since it was fixed; put it aside and undo again"
    ]
    assert state(root) == before
    with pytest.raises(CannotAct, match="not an undo folder"):
        undo(root, tmp_path)


def test_the_command(good: GoodTree, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "submission"
    shutil.copytree(good.root, root)
    MESSES["docs"](GoodTree(root, good.round, good.names))
    before = state(root)
    command = ["fix", str(root), "--round", "v6.0"]
    assert cli.main([*command, "--dry-run"]) == 0
    assert "the folder docs is called documentation" in capsys.readouterr().out
    assert state(root) == before
    assert cli.main([*command, "--select", "P104"]) == 2
    assert "P104 cannot be fixed mechanically" in capsys.readouterr().err
    place = undo_of(root)
    assert cli.main(command) == 0
    assert f"--undo {place}" in capsys.readouterr().out
    assert cli.main(["fix", str(root), "--undo", str(place)]) == 0
    assert state(root) == before


def test_rules_say_whether_they_can_be_fixed(capsys: pytest.CaptureFixture[str]) -> None:
    assert {find_facts(rule).id for rule in FIXES} == set(FIXES)
    assert cli.main(["rules", "S124"]) == 0
    assert "\nassay fix: the file is taken out\n" in capsys.readouterr().out
    assert cli.main(["rules", "P104"]) == 0
    assert "\nassay fix: no, a person has to fix it\n" in capsys.readouterr().out


def test_killed_at_any_moment_it_can_be_undone(grow: Grow, tmp_path: Path) -> None:
    master = grow(round="demo", benchmark="digits", category="datacenter")
    for name in ("Performance", "result", "hidden", "finder"):
        MESSES[name](master)
    place = tmp_path / "out"
    place.mkdir()
    root = place / "submission"
    shutil.copytree(master.root, root)
    before = state(root)
    victim = Victim(tmp_path / "scratch", "fix", str(root), "--round", "demo")
    length = victim.run()
    assert state(root) != before
    chance = random.Random(5)
    for number in SIGNALS:
        for _ in range(MOMENTS):
            shutil.rmtree(place)
            place.mkdir()
            shutil.copytree(master.root, root)
            victim.kill(number, chance.uniform(length * 0.3, length * 1.05))
            undone = place / "submission.undo-1"
            if undone.exists():
                assert undo(root, undone) == []
            assert state(root) == before
