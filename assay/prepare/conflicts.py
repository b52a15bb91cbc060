"""Two files for one place: the same bytes are one file, two results of one name are a person's decision."""

from __future__ import annotations

import re
from collections import defaultdict

from assay.prepare.draft import RESULT_TOPS, Draft, Entry, same_bytes

_BELOW = re.compile(r"performance|accuracy|test[\s_.-]*\d\d")
"""What is below a result's folder."""


def settle(draft: Draft) -> None:
    """See that every path of the new tree has one file.

    Where two folders became one and hold different files of one name, the one whose name was right,
    or comes first, stays whole and the other is left out whole: a run is never mixed from two.
    """
    by_path: dict[str, list[Entry]] = defaultdict(list)
    for entry in draft.kept():
        by_path[entry.path].append(entry)
    losers: dict[tuple[str, str], str] = {}
    for path in sorted(by_path):
        first, *others = sorted(by_path[path], key=_preference)
        for other in others:
            if same_bytes(first, other):
                other.leave_out(f"the same bytes as {_origin(first)}")
                continue
            unit, place = _unit(path), _source_unit(other)
            if unit is None or place == _source_unit(first):
                other.leave_out(f"another file is at {path}: {_origin(first)}")
                draft.decisions.append(
                    f"{_origin(other)} and {_origin(first)} differ and both belong at {path}; "
                    "the second is in the new tree"
                )
            else:
                losers.setdefault((unit, place), _source_unit(first))
    for (unit, place), winner in losers.items():
        draft.decisions.append(
            f"{place} and {winner} differ and both are {unit}; the second is in the new tree: remove "
            "one of them, or give it a system of its own"
        )
        for entry in draft.kept():
            if entry.path.startswith(f"{unit}/") and _source_unit(entry) == place:
                entry.leave_out(f"another result is at {unit}: {winner}", "S120")


def _preference(entry: Entry) -> tuple[bool, str]:
    """First what has the right name already, then the order of names."""
    origin = _origin(entry)
    return origin != entry.path, origin


def _origin(entry: Entry) -> str:
    return entry.source.path if entry.source is not None else entry.path


def _unit(path: str) -> str | None:
    """The result that a path belongs to."""
    parts = path.split("/")
    return "/".join(parts[:6]) if len(parts) > 6 and parts[2] in RESULT_TOPS else None


def _source_unit(entry: Entry) -> str:
    """The folder in TREE that is, or became, the entry's result folder."""
    parts = _origin(entry).split("/")
    for depth, name in enumerate(parts):
        if depth and _BELOW.fullmatch(name.lower()):
            return "/".join(parts[:depth])
    return "/".join(parts[:-1])
