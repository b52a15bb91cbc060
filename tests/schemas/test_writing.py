"""A file is replaced at once, also where several processes replace the same one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from schemas.writing import replace_file

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


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "absent" / "state", b"x")
    assert list(tmp_path.iterdir()) == []
