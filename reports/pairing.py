"""Which system of one report is which of another: by name, else by what it is made of.

Between rounds a submitter renames systems. Two of the same submitter and division with the same
accelerator, number of accelerators, nodes and weights are taken for the same system, where that is
not ambiguous; a pair says how it was found.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import msgspec

from reports.explore.rows import Row, rows
from schemas.report import Report

System = tuple[str, str, str]
"""Division, submitter, system."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A system under its old and its new name. shared: results that both have."""

    division: str
    submitter: str
    old: str
    new: str
    built_of: str
    shared: int


def renamed(old: Report, new: Report) -> list[Pair]:
    """Systems of ``new`` whose name ``old`` does not have, with the system they seem to be."""
    before, after = _systems(rows([old])), _systems(rows([new]))
    lost = {key: members for key, members in before.items() if key not in after}
    candidates = []
    for key, members in after.items():
        if key in before:
            continue
        for other, theirs in lost.items():
            if key[:2] != other[:2] or _built(members) != _built(theirs):
                continue
            if not _precisions(members) & _precisions(theirs):
                continue
            shared = len(_tasks(members) & _tasks(theirs))
            likeness = difflib.SequenceMatcher(None, key[2], other[2]).ratio()
            if shared:
                candidates.append((shared, likeness, other, key))
    pairs = []
    used: set[System] = set()
    for shared, _, was, now in sorted(candidates, key=lambda c: (-c[0], -c[1], c[2], c[3])):
        if was in used or now in used:
            continue
        used |= {was, now}
        pairs.append(
            Pair(
                division=now[0],
                submitter=after[now][0].submitter,
                old=before[was][0].system,
                new=after[now][0].system,
                built_of=" × ".join(str(part) for part in _built(after[now])[:2] if part),
                shared=shared,
            )
        )
    return sorted(pairs, key=lambda pair: (pair.division, pair.submitter, pair.new))


def _systems(members: Sequence[Row]) -> dict[System, list[Row]]:
    found: dict[System, list[Row]] = {}
    for row in members:
        submitter = "".join(row.submitter.casefold().split())
        found.setdefault((row.division, submitter, row.system), []).append(row)
    return found


def _built(members: Sequence[Row]) -> tuple[object, ...]:
    """What a system is made of. One without accelerators is known by its processor."""
    first = members[0]
    return first.accelerators, first.accelerator or first.processor, first.nodes


def _precisions(members: Sequence[Row]) -> set[str]:
    return {part for row in members for part in row.precision.split("+")}


def _tasks(members: Sequence[Row]) -> set[tuple[str, str]]:
    return {(row.benchmark, row.scenario) for row in members}
