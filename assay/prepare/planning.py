"""From a tree to a plan, one chore after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.prepare import conflicts, describe, failures, infer, junk, layouts, names, shorten
from assay.prepare.draft import Draft
from assay.prepare.plan import Plan
from checker.discover import UNKNOWN, locate
from checker.parse.reading import Folder, list_tree
from schemas.load import load_round

CHORES = ("junk", "names", "layout", "describe", "infer", "failed", "truncate")
"""Every kind of chore, in the order in which they are done; each can be skipped."""


class NoTree(ValueError):
    """TREE is not something a submission can be made from; the message says what is missing."""


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What a plan is made for.

    division, submitter, system: where TREE belongs, if it is less than a whole submission. skip: chores
    that are left out. infer_beyond: in open also scenarios that the benchmark does not have. failed: what
    becomes of results that fail. exclude: patterns in .gitignore's syntax. record: an earlier plan whose
    moves are undone.
    """

    round: str
    division: str | None = None
    submitter: str | None = None
    system: str | None = None
    skip: frozenset[str] = frozenset()
    infer_beyond: bool = False
    failed: failures.Treatment = "leave-out"
    exclude: Sequence[str] = ()
    record: Plan | None = None


def plan(tree: Path, wishes: Wishes) -> Plan:
    """What a prepared tree would hold, and why. Reads TREE, writes nothing.

    Raises NoTree, failures.AllFail, schemas.UnknownRound, and junk.NoPathspec.
    """
    if not tree.is_dir():
        raise NoTree(f"{tree}: not a folder")
    listing = list_tree(tree)
    return drafted(tree, listing, wishes).plan(tree.name or str(tree.resolve().name))


def drafted(tree: Path, listing: Folder, wishes: Wishes) -> Draft:
    """The draft of a listed tree after every chore. Raises as `plan` does."""
    draft = Draft.of(listing, load_round(wishes.round), _prefix(tree, listing, wishes))
    junk.exclude(draft, wishes.exclude)
    if wishes.record is not None:
        layouts.as_recorded(draft, wishes.record)
    if "junk" not in wishes.skip:
        junk.take_out(draft)
        junk.too_large(draft)
    if "names" not in wishes.skip:
        names.spell(draft)
        if "junk" not in wishes.skip:
            junk.take_out(draft)  # what is in documentation may have been in docs
    conflicts.settle(draft)
    if "layout" not in wishes.skip:
        layouts.convert(draft)
        conflicts.settle(draft)
    if "junk" not in wishes.skip:
        junk.stray_files(draft)
    divisions = draft.round.divisions
    if not any(e.parts[0] in divisions and len(e.parts) > 3 for e in draft.kept()):
        raise NoTree(f"{tree}: found no submission; expected closed, open or network in it")
    if "describe" not in wishes.skip:
        describe.describe(draft)
    if "infer" not in wishes.skip:
        infer.infer(draft, beyond=wishes.infer_beyond)
    if "failed" not in wishes.skip:
        failures.treat(draft, wishes.failed)
    if "truncate" not in wishes.skip:
        shorten.shorten(draft)
    return draft


def _prefix(tree: Path, listing: Folder, wishes: Wishes) -> str:
    """The folders of a submission that TREE, being a part of one, is in: as wished, or by the names
    of its parent folders."""
    place = locate(tree, listing)
    lower = {name.lower() for name in listing.folders}
    wished = wishes.division or wishes.submitter or wishes.system
    if lower & {"closed", "open", "network"}:
        if wished:
            raise NoTree(
                f"{tree}: found a whole submission; --division and --submitter place a part of one"
            )
        return ""
    scope: str = "submitter" if lower & {"results", "systems"} else place.scope
    parts = {"submitter": 0, "system": 1, "benchmark": 2, "result": 3}.get(scope)
    if parts is None and wishes.system:
        parts = 1
    if parts is None and not wished:
        return ""  # a folder around the tree, perhaps
    division = wishes.division or place.division
    submitter = wishes.submitter or place.submitter
    if UNKNOWN in (division, submitter):
        raise NoTree(f"{tree} is a part of a submission: give --division and --submitter")
    system = wishes.system or place.system
    names = [system, place.benchmark, place.scenario][: parts or 0]
    if parts is None:
        raise NoTree(f"{tree}: found no results; expected <benchmark>/<scenario>/performance in it")
    if UNKNOWN in names:
        raise NoTree(f"{tree}: give --system; its parent folders must name benchmark and scenario")
    return "/".join([division, submitter, *(["results", *names] if names else []), ""])
