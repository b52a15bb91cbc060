"""Whether a tree is the one that was packed: every file held against the manifest."""

from __future__ import annotations

from collections.abc import Iterator

from checker.clean import clean
from checker.parse.reading import Folder, Unreadable, sha256_of
from checker.wording import quantity
from schemas.manifest import Manifest
from schemas.report import Finding

_SHOWN = 50


def compare(listing: Folder, manifest: Manifest) -> Iterator[Finding]:
    """A finding for what is missing, for what is new and for each file that differs."""
    there = {file.path: file for file in listing.all_files()}
    stated = {packed.path: packed for packed in manifest.files}
    missing, extra = sorted(stated.keys() - there.keys()), sorted(there.keys() - stated.keys())
    if missing:
        yield _finding(missing, f"{quantity(len(missing), 'file')} of the manifest missing")
    if extra:
        yield _finding(extra, f"{quantity(len(extra), 'file')} that the manifest does not have")
    changed = []
    for path in sorted(stated.keys() & there.keys()):
        try:
            same = there[path].size == stated[path].bytes
            same = same and sha256_of(there[path]) == stated[path].sha256.lower()
        except Unreadable:
            same = False
        if not same:
            changed.append(path)
    if changed:
        text = f"{quantity(len(changed), 'file')} with another size or SHA-256 than in the manifest"
        yield _finding(changed, text)


def _finding(paths: list[str], message: str) -> Finding:
    return Finding(
        rule="X009",
        name="manifest-differs",
        severity="error",
        message=f"found {message}; expected the tree that was packed",
        path=clean(paths[0], 1000),
        found=[clean(path, 1000) for path in paths[:_SHOWN]],
        fix="get the archive again, or pack the tree again with assay pack",
        count=len(paths),
    )
