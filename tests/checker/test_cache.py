"""A check with a cache says what a check without one says, and reads only what changed."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from assay.cli import main
from checker import cache as caching
from checker import unit
from checker.cache import Cache, clear
from checker.engine import Options, audit, check
from schemas.report import encode
from tests.conftest import Grow
from tests.trees import GoodTree, good_tree

EDGE: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "edge"}


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files may be remembered at once; the tests' own are new."""
    monkeypatch.setattr(caching, "SETTLED_NS", -1_000_000_000_000)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the results that were read."""
    real = unit.load_result
    seen: list[str] = []

    def load(plan: Any, round: Any) -> Any:
        seen.append(plan.key)
        return real(plan, round)

    monkeypatch.setattr(unit, "load_result", load)
    return seen


def _two_systems(folder: Path) -> GoodTree:
    tree = good_tree(folder, **EDGE)
    good_tree(folder, **EDGE, system="box2", into=tree)
    tree.set_log(tree.result("Offline").detail, "result_validity", "INVALID")
    (tree.root / "stray.txt").write_text("x")
    return tree


def _check(tree: GoodTree, folder: Path, **options: Any) -> tuple[bytes, Cache]:
    cache = Cache(folder)
    return encode(check(tree.root, Options(jobs=1, cache=cache, **options))), cache


def test_warm_says_what_cold_says(tmp_path: Path, settled: None, read: list[str]) -> None:
    """Nothing unchanged is read; after an edit, its result alone; after a new name, nothing old."""
    tree = _two_systems(tmp_path)
    plain = encode(check(tree.root, Options(jobs=1)))
    read.clear()
    assert _check(tree, tmp_path / "cache")[0] == plain and len(read) == 6
    read.clear()
    warm, cache = _check(tree, tmp_path / "cache")
    assert warm == plain and read == [] and cache.notes == []
    assert cache.found == 6 + 2  # results, the submitter, the tree
    tree.set_log(tree.result("Offline").detail, "result_validity", "VALID")
    edited, _ = _check(tree, tmp_path / "cache")
    assert [key.split("/")[2:] for key in read] == [["box1", "digits", "Offline"]]
    assert edited == encode(check(tree.root, Options(jobs=1))) != plain


def test_every_kind_of_change_is_seen(tmp_path: Path, settled: None, read: list[str]) -> None:
    """Same size and times set back; a file more; a system's description; a link instead."""
    tree = _two_systems(tmp_path)
    _check(tree, tmp_path / "cache")
    place = tree.root / tree.system_path
    before = place.stat()
    content = place.read_bytes()
    place.write_bytes(content.replace(b'"', b"'", 1))
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    read.clear()
    assert _check(tree, tmp_path / "cache")[0] == encode(check(tree.root, Options(jobs=1)))
    assert len({key for key in read if "/box1/" in key}) == 3
    place.write_bytes(content)
    extra = tree.root / tree.relative(tree.result("Offline").path) / "extra.txt"
    extra.write_text("x")
    assert _check(tree, tmp_path / "cache")[0] == encode(check(tree.root, Options(jobs=1)))
    extra.unlink()
    extra.symlink_to(place)
    assert _check(tree, tmp_path / "cache")[0] == encode(check(tree.root, Options(jobs=1)))


def test_options_and_program_are_part_of_the_key(
    tmp_path: Path, settled: None, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = _two_systems(tmp_path)
    _check(tree, tmp_path / "cache")
    for options in ({"ignore": ("P102",)}, {"audit": True}, {"round": "v6.0"}):
        read.clear()
        made, _ = _check(tree, tmp_path / "cache", **options)
        assert len(read) == 6
        assert made == encode(check(tree.root, Options(jobs=1, **options)))
    read.clear()
    monkeypatch.setattr(caching, "program_mark", lambda: b"another version")
    _check(tree, tmp_path / "cache")
    assert len(read) == 6


def test_an_audit_is_remembered_with_its_traces(
    tmp_path: Path, settled: None, read: list[str]
) -> None:
    """Two copies of one tree: what is found between them does not need their logs again."""
    one, two = _two_systems(tmp_path / "one"), _two_systems(tmp_path / "two")
    roots = [one.root, two.root]
    plain = encode(audit(roots, Options(jobs=1, audit=True)))
    for expected in (12, 0):
        read.clear()
        made = audit(roots, Options(jobs=1, audit=True, cache=Cache(tmp_path / "cache")))
        assert encode(made) == plain and len(read) == expected


@pytest.mark.parametrize("damage", ["cut", "turned", "emptied", "other"])
def test_a_damaged_cache_is_ignored(tmp_path: Path, settled: None, damage: str) -> None:
    tree = _two_systems(tmp_path)
    plain, _ = _check(tree, tmp_path / "cache")
    files = list((tmp_path / "cache").iterdir())
    assert len(files) == 4
    for file in files:
        data = file.read_bytes()
        changed = {
            "cut": data[:-20],
            "turned": data[:100] + bytes([data[100] ^ 1]) + data[101:],
            "emptied": b"",
            "other": b"\x92" * 5000,
        }[damage]
        file.write_bytes(changed)
    again, cache = _check(tree, tmp_path / "cache")
    assert again == plain and len(cache.notes) == 1 and "damaged" in cache.notes[0]
    healed, cache = _check(tree, tmp_path / "cache")
    assert healed == plain and cache.notes == [] and cache.found == 8


def test_a_cache_that_cannot_be_written(tmp_path: Path, settled: None) -> None:
    tree = _two_systems(tmp_path)
    (tmp_path / "cache").write_text("a file where the folder should be")
    made, cache = _check(tree, tmp_path / "cache")
    assert made == encode(check(tree.root, Options(jobs=1)))
    assert len(cache.notes) == 1 and "cannot be written" in cache.notes[0]


def test_files_that_just_changed_are_read_again(
    tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within two seconds a file may change twice and keep its times."""
    assert caching.SETTLED_NS == 2_000_000_000
    # However long the tree and the first check take, they count as just now.
    monkeypatch.setattr(caching, "SETTLED_NS", 3_600_000_000_000)
    tree = _two_systems(tmp_path)
    _check(tree, tmp_path / "cache")
    read.clear()
    _check(tree, tmp_path / "cache")
    assert len(read) == 6


def test_the_size_is_bounded(
    tmp_path: Path, settled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = _two_systems(tmp_path)
    _check(tree, tmp_path / "cache")
    size = sum(f.stat().st_size for f in (tmp_path / "cache").iterdir())
    monkeypatch.setattr(caching, "MAX_BYTES", size // 2)
    (tree.root / "more.txt").write_text("x")
    _check(tree, tmp_path / "cache")
    assert sum(f.stat().st_size for f in (tmp_path / "cache").iterdir()) <= size // 2
    assert clear(tmp_path / "cache")[0] >= 1 and not list((tmp_path / "cache").iterdir())


def test_several_checks_share_a_cache(tmp_path: Path, settled: None) -> None:
    """Threads stand for processes: files are replaced whole, so readers see old or new."""
    tree = _two_systems(tmp_path)
    plain = encode(check(tree.root, Options(jobs=1)))
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: _check(tree, tmp_path / "cache"), range(12)))
    assert {data for data, _ in made} == {plain}
    assert [cache.notes for _, cache in made if cache.notes] == []
    assert not [f for f in (tmp_path / "cache").iterdir() if f.name.startswith(".")]


def test_command_line(
    grow: Grow,
    settled: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tree = grow(**EDGE)
    command = ["check", str(tree.root), "--format", "json", "--jobs", "1"]
    assert main([*command, "--no-cache"]) == 0
    plain = capsys.readouterr().out
    assert not list(tmp_path.rglob("assay"))
    for _ in range(2):
        assert main(command) == 0
        assert capsys.readouterr() == (plain, "")
    assert main(["cache", "clear"]) == 0
    out = capsys.readouterr().out
    assert str(tmp_path) in out and "3 files" in out
    assert main(["cache", "clear"]) == 0 and "0 files" in capsys.readouterr().out
