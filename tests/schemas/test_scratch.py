"""A temporary folder is gone however its block ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas import scratch
from schemas.machine import MachineFault
from schemas.scratch import scratch_folder
from tests.interrupted import interruptions

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def _interrupting(call: Callable[..., Any]) -> Callable[..., Any]:
    """As when a signal comes while the system makes the call: it is done, and then raises."""
    left = [1]

    def interrupted(*arguments: Any, **options: Any) -> Any:
        result = call(*arguments, **options)
        if left:
            left.pop()
            raise KeyboardInterrupt
        return result

    return interrupted


@pytest.mark.parametrize("name", ["mkdir", "open", "rmdir", "close"])
def test_interrupted_in_a_system_call(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, name, _interrupting(getattr(os, name)))
    with pytest.raises(KeyboardInterrupt), scratch_folder("mine-") as place:
        (place / "below").mkdir()
        (place / "below" / "file").write_text("x")
    assert list(folder.iterdir()) == []


def test_of_a_killed_process(folder: Path) -> None:
    """The next one removes it, and none that is in use or of another name."""
    code = (
        "import os, sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "from schemas.scratch import scratch_folder\n"
        "with scratch_folder('mine-') as place:\n"
        "    (place / 'file').write_text('x'); print(place, flush=True); sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    place = Path(process.stdout.readline().strip())
    (folder / "other-1").mkdir()
    with scratch_folder("mine-") as mine:
        assert place.exists() and mine != place and mine.stat().st_mode & 0o777 == 0o700
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (place / "file").exists()
    with scratch_folder("mine-"):
        assert not place.exists()
    assert [p.name for p in folder.iterdir()] == ["other-1"]


def test_removed_by_another_process_before_it_is_locked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = scratch._locked
    seen: list[Path] = []

    def late(place: Path) -> int | None:
        lock = real(place)
        if not seen:
            place.rmdir()
        seen.append(place)
        return lock

    monkeypatch.setattr(scratch, "_locked", late)
    with scratch_folder("mine-") as place:
        assert place.is_dir() and len(seen) == 2


def test_no_room(folder: Path) -> None:
    folder.rmdir()
    with pytest.raises(MachineFault, match="no temporary folder can be made"), scratch_folder("m-"):
        pass


def test_interrupted_at_any_moment(folder: Path) -> None:
    def use() -> None:
        with scratch_folder("mine-") as place:
            (place / "file").write_text("x")

    for _ in interruptions(use):
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize("given", ["TMPDIR", "TMP", "one that is not there"])
def test_where_it_is_found_out(given: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    if given.isupper():
        monkeypatch.setenv(given, str(folder))
    else:
        monkeypatch.setenv("TMPDIR", str(folder / "absent"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    expected = Path(tempfile.gettempdir())
    for _ in interruptions(scratch.temporary_folder):
        assert list(folder.iterdir()) == []
        monkeypatch.setattr(tempfile, "tempdir", None)
    assert scratch.temporary_folder() == expected == Path(tempfile.gettempdir())
