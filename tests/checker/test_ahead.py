"""A listing that another process made is the one that this process would have made."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from checker import ahead
from checker.parse import reading
from checker.parse.reading import Folder, list_tree

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="nothing is listed ahead on other systems"
)


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests' own threads, and one core, would keep it from beginning.
    monkeypatch.setattr(ahead, "_useful", lambda: True)


def _tree(root: Path) -> Path:
    for name in ("closed/A/results/x", "closed/A/Results", "open/ü"):
        (root / name).mkdir(parents=True)
    (root / "closed/A/results/x/log.txt").write_text("one\n")
    (root / "closed/A/results/x/again.txt").symlink_to("log.txt")
    (root / "closed/A/results/x/away.txt").symlink_to("/etc/hostname")
    (root / "closed/A/results/x/gone.txt").symlink_to("nothing")
    (root / "closed/A/latest").symlink_to("results")
    (root / "open/ü/loop").symlink_to("..")
    os.mkfifo(root / "open/pipe")
    return root


def _all(folder: Folder) -> object:
    below = {name: _all(child) for name, child in folder.folders.items()}
    return folder.path, folder.link, list(folder.files.items()), folder.faults, list(below.items())


def _not_listed_here(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Where this process lists a tree itself after all."""
    here: list[Path] = []

    def noted(root: Path) -> Folder:
        here.append(root)
        return list_tree(root)

    monkeypatch.setattr(ahead, "list_tree", noted)
    return here


def test_the_same_listing_of_each_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = _tree(tmp_path / "one"), _tree(tmp_path / "two")
    (two / "more").mkdir()
    with ahead.listed_ahead([f"{one}/", str(two)]) as listing:
        here = _not_listed_here(monkeypatch)
        found = [_all(listing(root)) for root in (one, two)]
    assert here == []
    assert found == [_all(list_tree(one)), _all(list_tree(two))]


def test_a_tree_is_listed_once_and_then_again(tmp_path: Path) -> None:
    tree = _tree(tmp_path / "tree")
    with ahead.listed_ahead([str(tree)]) as listing:
        listing(tree)
        (tree / "new.txt").write_text("")
        assert "new.txt" in listing(tree).files


def test_a_name_that_is_no_text_is_listed_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = _tree(tmp_path / "tree")
    with open(os.fsencode(tree) + b"/\xff.txt", "w"):
        pass
    with ahead.listed_ahead([str(tree)]) as listing:
        here = _not_listed_here(monkeypatch)
        assert _all(listing(tree)) == _all(list_tree(tree))
    assert here == [tree]


def test_a_very_large_tree_is_listed_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = _tree(tmp_path / "tree")
    monkeypatch.setattr(reading, "LARGE", 5)
    with ahead.listed_ahead([str(tree)]) as listing:
        here = _not_listed_here(monkeypatch)
        listing(tree)
    assert here == [tree]


def test_the_other_process_may_die(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = _tree(tmp_path / "tree")
    children: list[int] = []
    fork = os.fork

    def noted() -> int:
        child = fork()
        if child:
            children.append(child)
            os.kill(child, signal.SIGKILL)
        return child

    monkeypatch.setattr(os, "fork", noted)
    with ahead.listed_ahead([str(tree)]) as listing:
        assert _all(listing(tree)) == _all(list_tree(tree))
    with pytest.raises(ChildProcessError):
        os.waitpid(children[0], os.WNOHANG)


def test_nothing_is_left_of_a_check_that_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = _tree(tmp_path / "tree")
    monkeypatch.setattr(ahead, "_flatten", lambda *_: time.sleep(60))
    before = time.monotonic()
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    others = set(children.read_text().split())
    with pytest.raises(KeyboardInterrupt), ahead.listed_ahead([str(tree)]):
        assert set(children.read_text().split()) > others
        raise KeyboardInterrupt
    assert set(children.read_text().split()) <= others
    assert time.monotonic() - before < 30


def test_a_signal_while_the_pipe_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, close = _tree(tmp_path / "tree"), os.close

    def stopped(number: int) -> None:
        close(number)
        monkeypatch.setattr(os, "close", close)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), ahead.listed_ahead([str(tree)]) as listing:
        monkeypatch.setattr(os, "close", stopped)
        listing(tree)


@pytest.mark.parametrize("what", ["pipe", "fork"])
def test_where_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    tree = _tree(tmp_path / "tree")

    def none_left() -> int:
        raise OSError(11, "Resource temporarily unavailable")

    gc.collect()  # what earlier tests left is closed now, not meanwhile
    descriptors = sorted(Path("/proc/self/fd").iterdir())
    monkeypatch.setattr(os, what, none_left)
    with ahead.listed_ahead([str(tree)]) as listing:
        assert _all(listing(tree)) == _all(list_tree(tree))
    assert sorted(Path("/proc/self/fd").iterdir()) == descriptors
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
