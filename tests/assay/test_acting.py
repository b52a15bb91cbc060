"""A new tree is complete or not there, and nothing is left beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from assay.prepare.acting import CannotAct, create, under_construction
from tests.interrupted import interruptions


def test_interrupted_at_any_moment(tmp_path: Path) -> None:
    new = tmp_path / "new"
    seen = set()
    for interrupted in interruptions(lambda: create({"a/b": "text"}, new)):
        complete = new.exists()
        seen.add((interrupted, complete))
        if complete:
            assert (new / "a" / "b").read_text() == "text"
            (new / "a" / "b").unlink()
            (new / "a").rmdir()
            new.rmdir()
        assert list(tmp_path.iterdir()) == []
    assert seen == {(True, False), (True, True), (False, True)}


def test_what_a_killed_process_left_is_removed_first(tmp_path: Path) -> None:
    part = tmp_path / ".new.assay-part"
    part.mkdir()
    (part / "half").write_text("x")
    (tmp_path / ".new.assay-part.lock").write_text("process 1, since 2026-01-01 00:00:00\n")
    create({"a": "text"}, tmp_path / "new")
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*")) == [
        "new",
        "new/a",
    ]


def test_another_process_prepares_the_same(tmp_path: Path) -> None:
    new = tmp_path / "new"
    text = r"another process is preparing the same NEW \(process \d+, since [-0-9]+ [:0-9]+\)"
    with under_construction(new) as part:
        (part / "file").write_text("x")
        with pytest.raises(CannotAct, match=re.compile(text)):
            create({"a": "text"}, new)
        assert (part / "file").exists()
