"""A file is replaced at once, also where several processes replace the same one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schemas.writing import new_file, replace_file
from tests.interrupted import interruptions

ROOT = Path(__file__).parents[2]
_MANY = """
import sys
from pathlib import Path
from schemas.writing import replace_file
for _ in range(2000):
    replace_file(Path(sys.argv[1]), sys.argv[2].encode() * 1000, synced=False)
"""


def test_several_processes_replace_one_file(tmp_path: Path) -> None:
    place = tmp_path / "state"
    writers = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", _MANY, str(place), letter],
            env={"PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for letter in "abc"
    ]
    while any(writer.poll() is None for writer in writers):
        if place.exists():
            content = place.read_bytes()
            assert len(content) == 1000 and len(set(content)) == 1
    assert [writer.communicate()[1] for writer in writers] == [""] * 3
    assert list(tmp_path.iterdir()) == [place]


def test_others_take_the_part_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often they do: in the end the part has a name that they do not know."""
    place, link = tmp_path / "state", os.link
    known = tmp_path / ".state.part"

    def taken(source: str, target: Path, **options: Any) -> None:
        if target == known:
            raise FileExistsError
        link(source, target, **options)

    monkeypatch.setattr(os, "link", taken)
    replace_file(place, b"new")
    assert place.read_bytes() == b"new" and list(tmp_path.iterdir()) == [place]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "absent" / "state", b"x")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(params=["without a name", "with a name"])
def _part(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new file has no name until it is complete, where the system can."""
    if request.param == "with a name":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)


@pytest.mark.usefixtures("_part")
def test_replacing_interrupted_at_any_moment(tmp_path: Path) -> None:
    place = tmp_path / "state"
    place.write_bytes(b"old")
    seen = set()
    for interrupted in interruptions(lambda: replace_file(place, b"new")):
        assert list(tmp_path.iterdir()) == [place]
        seen.add((interrupted, place.read_bytes()))
        place.write_bytes(b"old")
    assert seen == {(True, b"old"), (True, b"new"), (False, b"new")}


@pytest.mark.usefixtures("_part")
def test_making_interrupted_at_any_moment(tmp_path: Path) -> None:
    place = tmp_path / "state"

    def make() -> None:
        with new_file(place) as stream:
            stream.write(b"new")

    for interrupted in interruptions(make):
        assert list(tmp_path.iterdir()) in ([], [place]), "nothing but the file itself"
        if place.exists():
            assert place.read_bytes() == b"new"
            place.unlink()
        else:
            assert interrupted


@pytest.mark.usefixtures("_part")
def test_making_over_another_interrupted_at_any_moment(tmp_path: Path) -> None:
    place = tmp_path / "state"
    place.write_bytes(b"another's")

    def make() -> None:
        with pytest.raises(FileExistsError), new_file(place) as stream:
            stream.write(b"new")

    for _ in interruptions(make):
        assert list(tmp_path.iterdir()) == [place]
        assert place.read_bytes() == b"another's"


@pytest.mark.usefixtures("_part")
def test_failing_interrupted_at_any_moment(tmp_path: Path) -> None:
    place = tmp_path / "state"
    place.mkdir()

    def replace() -> None:
        with pytest.raises(IsADirectoryError):
            replace_file(place, b"new")

    for _ in interruptions(replace):
        assert list(tmp_path.iterdir()) == [place]
