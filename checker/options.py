"""What one call of check or audit was asked to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from checker.archive import Limits
from checker.parse.reading import Folder, list_tree
from schemas.manifest import Manifest
from schemas.report import Report, Selection

if TYPE_CHECKING:
    from checker.cache import Cache

Progress = Callable[[int, int], None]


class Options(msgspec.Struct, frozen=True):
    """What to check and how. select and ignore hold rule ids, names or family letters.

    since: an earlier round's report to compare an audit's results with. unpack: how much of an
    archive may be unpacked. cache: where what an earlier check found is looked up and kept; nowhere
    where --data is given or TREE is an archive. manifest: what the tree must hold. fresh: workers of
    a very large tree are started afresh, which imports the program's main module again: for commands.
    listing: what lists a folder. meanwhile: called while workers are busy, once for each tree.
    """

    round: str | None = None
    divisions: frozenset[str] | None = None
    submitters: frozenset[str] | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    waivers: Path | None = None
    jobs: int | None = None
    audit: bool = False
    data: dict[str, str] = {}
    benchmark: str | None = None
    scenario: str | None = None
    since: Report | None = None
    unpack: Limits | None = None
    cache: Cache | None = None
    manifest: Manifest | None = None
    fresh: bool = False
    listing: Callable[[Path], Folder] = list_tree
    meanwhile: Callable[[], None] = lambda: None

    @property
    def selection(self) -> Selection | None:
        """What the check is narrowed to, as the report states it; None for all rules and results."""
        if not (self.select or self.ignore or self.submitters or self.divisions):
            return None
        return Selection(
            select=tuple(self.select),
            ignore=tuple(self.ignore),
            submitters=tuple(sorted(self.submitters or ())),
            divisions=tuple(sorted(self.divisions or ())),
            round=self.round,
        )
