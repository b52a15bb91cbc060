"""A tree is held against a manifest file by file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from checker.manifest import compare
from checker.parse.reading import list_tree
from schemas.manifest import Manifest, Packed


def test_differences_are_named(tmp_path: Path) -> None:
    """X009: files that are missing, new or changed; one finding for each kind."""
    for name in ("a", "b", "c", "e"):
        (tmp_path / name).write_text(name)
    listed = [
        Packed(name, 1, hashlib.sha256(name.encode()).hexdigest()) for name in ("a", "b", "d")
    ]
    listed[1] = Packed("b", 1, "0" * 64)
    manifest = Manifest(archive="s", sha256="", bytes=0, round="demo", checked=True, files=listed)
    found = list(compare(list_tree(tmp_path), manifest))
    assert json.dumps([(f.rule, f.path, f.found, f.count) for f in found]) == json.dumps(
        [("X009", "d", ["d"], 1), ("X009", "c", ["c", "e"], 2), ("X009", "b", ["b"], 1)]
    )
    assert found[1].message == (
        "found 2 files that the manifest does not have; expected the tree that was packed"
    )
