"""Results that fail: left out with the reason, or moved to the open division on request."""

from __future__ import annotations

import json
from typing import Literal

from assay.prepare.draft import Draft, copied
from assay.prepare.results import document, mapping_of, places
from checker.engine import Options, check_listing
from schemas.report import Report
from schemas.scratch import scratch_folder

Treatment = Literal["keep", "leave-out", "open"]

_RUNS = ("P", "A", "C", "W", "N")
"""Families of rules that judge what was measured: no document can change what they say."""

_PREPARED = ("A108", "A111", "P143")
"""What truncation sees to, after this."""

_SCENARIOS = ("S116", "S117")
_FEW = 4
"""So few results are judged before worker processes have started."""
_ROUNDS = 3
"""When a required scenario went to open, the benchmark's others follow it."""


class AllFail(ValueError):
    """No result would be left; the message says why they fail."""


def treat(draft: Draft, treatment: Treatment) -> None:
    """Leave out every result that fails, or move it to open first and leave it out if it fails there.

    Raises AllFail where none would be left.
    """
    if treatment == "keep":
        return
    if treatment == "open":
        for _ in range(_ROUNDS):
            failing = _failing(draft, _SCENARIOS)
            closed = {key: why for key, why in failing.items() if not key.startswith("open/")}
            if not closed:
                break
            _to_open(draft, closed)
    failing = _failing(draft)
    found = places(draft)
    if failing and set(failing) >= set(found):
        why = next(iter(failing.values()))
        raise AllFail(
            f"every result fails by the rules of {draft.round.name}, the first with {why}; give the round "
            "that they were measured for, or --keep-failed"
        )
    for key, why in failing.items():
        for entry in found[key].entries:
            entry.leave_out(f"the result fails: {why}", why[:4])
        draft.decisions.append(f"{found[key].path} was left out: {why}")
    _systems_without_results(draft, {(found[key].base, found[key].system) for key in failing})


def _failing(draft: Draft, also: tuple[str, ...] = ()) -> dict[str, str]:
    """The keys of results that fail, each with the first rule and its message."""
    known = places(draft)
    with scratch_folder("assay-draft-") as scratch:
        listing = draft.listing(scratch)
        options = Options(
            round=draft.round.name,
            select=(*_RUNS, "X002", *also),
            ignore=_PREPARED,
            jobs=1 if len(known) <= _FEW else None,
        )
        report = check_listing(listing, options)
    return {key: why for key, why in reasons(report).items() if key in known}


def reasons(report: Report) -> dict[str, str]:
    """Why each invalid result is invalid: its first error."""
    found: dict[str, str] = {}
    for finding in report.findings:
        if finding.severity == "error" and finding.waived is None:
            for key in finding.invalidates:
                found.setdefault(key, f"{finding.rule} {finding.message}")
    return {r.key: found[r.key] for r in report.results if r.key in found}


def _to_open(draft: Draft, failing: dict[str, str]) -> None:
    """Move results to the open division, with their system's description and the mapping file."""
    taken = set(draft.paths())
    found = places(draft)
    moved: dict[str, dict[str, str]] = {}
    systems: set[tuple[str, str]] = set()
    for key, why in failing.items():
        place = found[key]
        target = f"open/{place.submitter}"
        directory = place.directory
        while any(
            p.startswith(f"{target}/results/{place.system}/{directory}/{place.folder}/")
            for p in taken
        ):
            directory += "-closed"
        for entry in place.entries:
            parts = entry.parts
            entry.move(
                "/".join([target, *parts[2:4], directory, *parts[5:]]),
                f"it fails in {place.division}: {why}",
                why[:4],
            )
            entry.kind = "open" if entry.kind in ("keep", "move", "infer") else entry.kind
        moved.setdefault(target, {})[directory] = place.benchmark or place.directory
        systems.add((place.base, place.system))
    for base, system in sorted(systems):
        _describe_in_open(draft, base, system)
    for target, names in moved.items():
        _map(draft, target, names)
        _share(draft, target, sorted({base for base, _ in systems if base.endswith(target[4:])}))
    _systems_without_results(draft, systems)


def _describe_in_open(draft: Draft, base: str, system: str) -> None:
    """A copy of the description that says open."""
    path = f"open/{base.split('/')[1]}/systems/{system}.json"
    there = document(draft, f"{base}/systems/{system}.json")
    if path in draft.paths() or there is None or not isinstance(there.value, dict):
        return
    fields = {**there.fields, "division": "open"}
    text = json.dumps(fields, indent=4, ensure_ascii=False) + "\n"
    draft.add(path, text, f"the description of {system}, whose results moved to open", "D101")


def _map(draft: Draft, target: str, names: dict[str, str]) -> None:
    """The mapping file names the benchmark of every folder that moved."""
    pattern = draft.round.aliases.mapping_file
    if pattern is None:
        return
    path = pattern.format(submitter=target.split("/")[1])
    before = mapping_of(draft, target)
    text = json.dumps({**names, **before}, indent=4) + "\n"
    entry = draft.paths().get(path)
    if entry is None:
        draft.add(path, text, "the benchmark of every folder that moved to open", "S112")
    elif not names.items() <= before.items():
        entry.edit(text, "the benchmark of every folder that moved to open", "S112")


def _share(draft: Draft, target: str, bases: list[str]) -> None:
    """What an open submitter needs beside results: code and documentation, copied where it has none."""
    left = {place.base for place in places(draft).values()}
    for base in bases:
        taken = set(draft.paths())
        for entry in draft.below(base) if base not in left else ():
            rest = entry.path[len(base) :]
            if rest.startswith("/systems/") or f"{target}{rest}" in taken:
                entry.leave_out(f"none of its results is left in {base}, and {target} has the file")
            else:
                entry.move(f"{target}{rest}", f"none of its results is left in {base}")
                entry.kind = "open"
        for top in (*draft.round.layout.code, "documentation"):
            if draft.below(f"{target}/{top}"):
                continue
            for entry in draft.below(f"{base}/{top}"):
                path = f"{target}{entry.path[len(base) :]}"
                made = copied(entry, path, f"{top} for the results that moved to open")
                made.kind = "open"
                draft.entries.append(made)


def _systems_without_results(draft: Draft, systems: set[tuple[str, str]]) -> None:
    """The description of a system whose last result went is left out."""
    left = {(place.base, place.system) for place in places(draft).values()}
    for base in {base for base, _ in systems} - {base for base, _ in left}:
        for entry in draft.below(base):
            entry.leave_out("none of its submitter's results is left in the division", "S105")
    for base, system in systems - left:
        for name in (f"{system}.json", f"{system}_power.yaml"):
            described = draft.paths().get(f"{base}/systems/{name}")
            if described is not None:
                described.leave_out("none of the system's results is left", "S106")
