"""Mechanical fixes of findings in the tree itself: a plan first, and an undo folder that restores it.

A fix is a step of `prepare` that answers a finding of the check. Everything that is moved, changed or
taken out goes through the undo folder beside the tree, whose journal is complete before the first file
is touched: whatever ends the process, `undo` puts every file back.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec

from assay.prepare.acting import CannotAct, content_of, take_place, under_construction
from assay.prepare.plan import Plan, Step
from assay.prepare.planning import Wishes, drafted
from checker.parse.reading import File, list_tree
from schemas.report import Report

FORMAT = "assay-undo"
FORMAT_VERSION = 1
_JOURNAL = "undo.json"
_CHORES: Final = frozenset({"infer", "failed"})
"""What decides about results, and is therefore not a fix."""

FIXES: Final[dict[str, str]] = {
    "A101": "where the folder has another name",
    "A102": "where the file or its folder has another name",
    "A108": "the hash of the whole log is added",
    "A110": "where the folder has another name",
    "A111": "the log is truncated; the whole one is in the undo folder",
    "A118": "where the folder has another name",
    "C101": "where the folder has another name",
    "C102": "where a folder has another name",
    "D101": "where another description is meant; otherwise one is made, to be filled in",
    "D103": "a misspelt field is renamed, a missing one added, to be filled in",
    "M101": "where a folder has another name; otherwise a document is made, to be filled in",
    "M108": "where the name has another case; a user.conf is made from the log's settings",
    "P101": "where the logs are in performance itself or in a run's folder of another name",
    "P130": "as P101",
    "P143": "the log is truncated; the whole one is in the undo folder",
    "S101": "the folder is renamed",
    "S103": "the file is taken out",
    "S104": "the folder is renamed, or its files are moved to where the round has them",
    "S105": "where results has another name",
    "S108": "where the code has another name",
    "S112": "where the name differs in case or separators only",
    "S113": "where the folder's name, or its place, is another",
    "S114": "where the name differs in case or separators only",
    "S115": "as S114",
    "S116": "where the scenario's folder has another name",
    "S121": "the file is taken out",
    "S122": "the blank becomes _, outside the code",
    "S124": "the file is taken out",
    "S125": "the folder is removed",
    "S126": "the file is taken out, unless it is a log",
    "S127": "the link is taken out",
    "S137": "the folder is renamed, or the logs are moved to run_1",
    "X003": "where a division's folder has another name, or is inside another",
}
"""Rules whose findings can be fixed mechanically, with when or how."""


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo folder restores.

    steps: in the order in which they were done. written: SHA-256 of every text or shortened log that
    was written, by its path. folders: those that were removed because they were empty.
    """

    format: str = FORMAT
    format_version: int = FORMAT_VERSION
    steps: list[Step]
    written: dict[str, str]
    folders: list[str]


def plan(
    tree: Path, report: Report, *, select: Collection[str] = (), paths: Collection[str] = ()
) -> Plan:
    """The steps that answer findings of a report of ``tree``.

    select: only of these rules. paths: only files that match one of these patterns. Raises
    planning.NoTree.
    """
    wanted = {finding.rule for finding in report.findings if finding.waived is None}
    if select:
        wanted &= set(select)
    round = report.round or ""
    everything = drafted(tree, list_tree(tree), Wishes(round=round, skip=_CHORES)).plan(tree.name)
    steps = []
    for step in everything.changes():
        rules = tuple(rule for rule in step.rules if rule in wanted)
        if not rules:
            continue
        place = step.path or step.destination or ""
        if paths and not any(fnmatchcase(place, pattern) for pattern in paths):
            continue
        steps.append(msgspec.structs.replace(step, rules=rules, backup=None))
    return msgspec.structs.replace(everything, steps=steps)


def undo_of(tree: Path) -> Path:
    """Where the next undo folder of a tree goes: beside it, under a name that is free."""
    whole = tree.resolve()
    for number in range(1, 1000):
        place = whole.with_name(f"{whole.name}.undo-{number}")
        if not os.path.lexists(place):
            return place
    raise CannotAct(f"{whole}.undo-999 exists; remove older undo folders")


def carry_out(made: Plan, tree: Path) -> Path:
    """Fix the tree in place. Returns the undo folder. Raises CannotAct and OSError."""
    files = {file.path: file for file in list_tree(tree).all_files()}
    empty = [s for s in made.steps if s.path not in files and s.kind == "leave-out"]
    steps = [s for s in made.steps if s not in empty]
    _check(steps, files, tree)
    place = undo_of(tree)
    written: dict[str, str] = {}
    with under_construction(place) as part:
        (part / "taken").mkdir()
        (part / "new").mkdir()
        for number, step in enumerate(steps):
            data = content_of(step, files)
            if data is not None and step.destination is not None:
                (part / "new" / str(number)).write_bytes(data)
                written[step.destination] = hashlib.sha256(data).hexdigest()
        folders = [s.path for s in empty if s.path is not None]
        journal = Journal(steps=steps, written=written, folders=folders)
        (part / _JOURNAL).write_bytes(msgspec.json.format(msgspec.json.encode(journal), indent=1))
        take_place(part, place)
    for number, step in enumerate(steps):
        _take(step, tree, place, number)
    for number, step in enumerate(steps):
        _put(step, tree, place, number)
    for folder in folders:
        with contextlib.suppress(OSError):
            (tree / folder).rmdir()
    for step in steps:
        _remove_empty(tree, step.path)
    return place


def _check(steps: list[Step], files: dict[str, File], tree: Path) -> None:
    leaving = {step.path for step in steps if step.path is not None}
    for step in steps:
        if step.path is not None:
            file = files[step.path]
            if file.size != step.size:
                raise CannotAct(f"{step.path} changed since the plan was made; plan again")
            place = tree / step.path
            if not os.path.lexists(place) or os.path.realpath(place.parent) != str(
                tree.resolve() / Path(step.path).parent
            ):
                raise CannotAct(f"{step.path} is in a linked folder, or its name is not text")
        target = step.destination
        if target is not None and os.path.lexists(tree / target) and target not in leaving:
            raise CannotAct(f"{target} is there already; fix that by hand first")


def _taken(step: Step, place: Path, number: int) -> Path:
    return place / "taken" / f"{number}"


def _take(step: Step, tree: Path, place: Path, number: int) -> None:
    """The old file goes to the undo folder."""
    if step.path is not None:
        (tree / step.path).rename(_taken(step, place, number))


def _put(step: Step, tree: Path, place: Path, number: int) -> None:
    """The new file goes to its place."""
    if step.destination is None:
        return
    target = tree / step.destination
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(target):
        raise CannotAct(f"{step.destination} was made meanwhile; assay fix --undo {place}")
    fresh = place / "new" / str(number)
    if fresh.exists():
        fresh.rename(target)
    elif step.path is not None:
        _taken(step, place, number).rename(target)


def _remove_empty(tree: Path, path: str | None) -> None:
    """Folders that a step left empty."""
    here = (tree / path).parent if path is not None else tree
    while here != tree:
        try:
            here.rmdir()
        except FileNotFoundError:
            pass  # ended between the making of a folder and that of the next one in it
        except OSError:
            return
        here = here.parent


def undo(tree: Path, place: Path) -> list[str]:
    """Put everything back that a fix did, also one that was killed. Returns what was left alone, and
    why: files that were changed since. Raises CannotAct."""
    try:
        journal = msgspec.json.decode((place / _JOURNAL).read_bytes(), type=Journal)
    except (OSError, msgspec.DecodeError) as error:
        raise CannotAct(f"{place} is not an undo folder of assay fix: {error}") from error
    if journal.format != FORMAT or journal.format_version != FORMAT_VERSION:
        raise CannotAct(
            f"{place}: found {journal.format} {journal.format_version}; expected {FORMAT}"
        )
    notes = list(_changed(tree, place, journal))
    if notes:
        return notes
    steps = list(enumerate(journal.steps))
    # First everything that is in the new place goes, so that old names are free.
    for number, step in steps:
        if step.destination is None or not _placed(step, tree, place, number):
            continue
        target = tree / step.destination
        if step.destination in journal.written:
            target.rename(place / "new" / str(number))
        else:
            target.rename(_taken(step, place, number))
    for number, step in steps:
        old = _taken(step, place, number)
        if step.path is not None and os.path.lexists(old):
            (tree / step.path).parent.mkdir(parents=True, exist_ok=True)
            old.rename(tree / step.path)
    for step in journal.steps:
        _remove_empty(tree, step.destination)
    for folder in journal.folders:
        (tree / folder).mkdir(parents=True, exist_ok=True)
    return []


def _placed(step: Step, tree: Path, place: Path, number: int) -> bool:
    """Whether the step's new file is in its place."""
    fresh, old = place / "new" / str(number), _taken(step, place, number)
    if step.destination is None or not os.path.lexists(tree / step.destination):
        return False
    if step.content is not None or step.kind in ("truncate", "hash"):
        return not fresh.exists()
    # A moved file is either still where it was, or in the undo folder, or here.
    return not os.path.lexists(old) and (
        step.path == step.destination or step.path is None or not _still(step, tree)
    )


def _still(step: Step, tree: Path) -> bool:
    """Whether a file that was to be moved is where it was."""
    return (
        step.path is not None
        and step.path != step.destination
        and os.path.lexists(tree / step.path)
    )


def _changed(tree: Path, place: Path, journal: Journal) -> Iterator[str]:
    """What a person changed since: undoing it would lose that."""
    for number, step in enumerate(journal.steps):
        target = step.destination
        if (
            target is None
            or target not in journal.written
            or not _placed(step, tree, place, number)
        ):
            continue
        data = (tree / target).read_bytes()
        if hashlib.sha256(data).hexdigest() != journal.written[target]:
            yield f"{target} was changed since it was fixed; put it aside and undo again"
