"""Two runs never write into one tree at the same time."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner import OutputError
from runner.lock import locked
from tests.interrupted import interruptions

HOLD = (
    "import sys; from pathlib import Path; from runner.lock import locked\n"
    "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
)


def test_another_run_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    out = tmp_path / "tree"
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(out)],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        assert first.stdout is not None and first.stdout.readline() == "held\n"
        with pytest.raises(OutputError, match=rf"another run .*process {first.pid}, since"):
            locked(out).__enter__()
        first.kill()  # it cannot clean up; the kernel does
    with locked(out):
        assert (tmp_path / "tree.lock").exists()
        with locked(tmp_path / "other"):
            pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["flock", "ftruncate"])
def test_a_signal_while_the_file_is_taken_leaves_none(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = fcntl if name == "flock" else os
    real = getattr(module, name)

    def stopped(*arguments: int) -> None:
        monkeypatch.setattr(module, name, real)
        real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, name, stopped)
    with pytest.raises(KeyboardInterrupt), locked(tmp_path / "tree"):
        pass
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path / "tree"):
        pass


def _many(out: Path, taken: str, turns: int) -> None:
    for _ in range(turns):
        try:
            with locked(out):
                # Two at a time would find the other's file.
                Path(taken).touch(exist_ok=False)
                Path(taken).unlink()
        except OutputError:
            continue


def test_a_lock_that_is_removed_lets_nobody_in_twice(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("fork")
    taken = str(tmp_path / "taken")
    all_of_them = [
        spawn.Process(target=_many, args=(tmp_path / "tree", taken, 300)) for _ in range(4)
    ]
    for process in all_of_them:
        process.start()
    for process in all_of_them:
        process.join(60)
    assert [process.exitcode for process in all_of_them] == [0] * 4


def test_interrupted_at_any_moment(tmp_path: Path) -> None:
    out = tmp_path / "tree"

    def hold() -> None:
        with locked(out):
            out.mkdir()
            out.rmdir()

    for _ in interruptions(hold):
        assert [p for p in tmp_path.iterdir() if p != out] == []
        if out.exists():
            out.rmdir()


def test_interrupted_while_another_run_holds_it(tmp_path: Path) -> None:
    out = tmp_path / "tree"

    def wait() -> None:
        with pytest.raises(OutputError), locked(out):
            pass

    with locked(out):
        for _ in interruptions(wait):
            assert list(tmp_path.iterdir()) == [tmp_path / "tree.lock"]
