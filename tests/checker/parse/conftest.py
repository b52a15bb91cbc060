"""Bytes as a File of a tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from checker.parse.reading import File

MakeFile = Callable[..., File]


@pytest.fixture
def as_file(tmp_path: Path) -> MakeFile:
    """``as_file(content, name)``: a file of the tree with this content."""

    def make(content: bytes | str, name: str = "some.txt") -> File:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return File(name, str(path), path.stat().st_size)

    return make
