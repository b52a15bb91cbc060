"""Results that the round computes from others: scenarios by its formulas, -99 from -99.9.

An inferred result is a copy of the result it is computed from. The checker knows a scenario's by the
log, which is of another scenario; the README of a copy for a lower accuracy target names its origin.
"""

from __future__ import annotations

from pathlib import Path

from assay.prepare.draft import Draft, Entry, copied
from assay.prepare.layouts import document_of
from assay.prepare.results import Place, places, system_of
from checker.model import demands_of
from schemas.round import Category, Inference

_HIGH, _LOW = "-99.9", "-99"


def infer(draft: Draft, *, beyond: bool = False) -> None:
    """Add every result that the round allows to infer and that is not there.

    ``beyond``: in the open division also scenarios that the benchmark does not have in the round.
    """
    _scenarios(draft, beyond)
    _lower_targets(draft)


def _lower_targets(draft: Draft) -> None:
    found = places(draft)
    there: dict[tuple[str, str, str], set[str]] = {}
    for place in found.values():
        if place.benchmark is not None and place.scenario is not None:
            key = (place.base, place.system, place.benchmark)
            there.setdefault(key, set()).add(place.scenario)
    for place in list(found.values()):
        high = place.benchmark or ""
        low = high.removesuffix(_HIGH) + _LOW
        if place.division == "open" or place.directory != high or place.scenario is None:
            continue  # open has no accuracy targets
        if not high.endswith(_HIGH) or low not in draft.round.benchmarks:
            continue
        has = there.get((place.base, place.system, low), set())
        category = system_of(draft, place.base, place.system).category
        demands = demands_of(draft.round.benchmarks[low], category)
        if demands is None or place.scenario in has or place.scenario not in demands.allowed:
            continue
        if not _complete(demands, has | there[place.base, place.system, high]):
            continue
        reason = f"{low} may be inferred from {high}: its accuracy target is lower"
        _copy(draft, place, low, place.folder, reason)
        _copy_code(draft, place.base, high, low, reason)


def _complete(demands: Category, scenarios: set[str]) -> bool:
    """Whether the scenarios are all that a benchmark must have: half a benchmark cannot be submitted."""
    return set(demands.required) <= scenarios and all(
        set(choice) & scenarios for choice in demands.one_of
    )


def _copy_code(draft: Draft, base: str, high: str, low: str, reason: str) -> None:
    for code in draft.round.layout.code:
        if draft.below(f"{base}/{code}/{low}"):
            continue
        for entry in draft.below(f"{base}/{code}/{high}"):
            rest = entry.path[len(f"{base}/{code}/{high}") :]
            draft.entries.append(copied(entry, f"{base}/{code}/{low}{rest}", reason))


def _scenarios(draft: Draft, beyond: bool) -> None:
    found = places(draft)
    present: dict[tuple[str, str, str], dict[str, Place]] = {}
    for place in found.values():
        if place.benchmark is not None and place.scenario is not None:
            group = present.setdefault((place.base, place.system, place.directory), {})
            group.setdefault(place.scenario, place)
    for (base, system, _), scenarios in sorted(present.items()):
        category = system_of(draft, base, system).category
        for formula in draft.round.inference:
            source = scenarios.get(formula.source)
            if source is None or formula.target in scenarios or category is None:
                continue
            if not set(category.split(",")) & set(formula.categories):
                continue
            demands = demands_of(draft.round.benchmarks[source.benchmark or ""], category)
            allowed = set(demands.allowed) if demands is not None else set()
            free = beyond and base.startswith("open/")
            if not (free or {formula.source, formula.target} <= allowed):
                continue
            if _usable(draft, source, formula):
                folder = _like(formula.target, source.folder)
                reason = f"{formula.target} may be inferred from {formula.source} by {formula.key}"
                scenarios[formula.target] = _copy(draft, source, source.directory, folder, reason)


def _like(scenario: str, folder: str) -> str:
    """The scenario in the case that the source's folder has."""
    return scenario.lower() if folder.islower() else scenario


def _usable(draft: Draft, source: Place, formula: Inference) -> bool:
    """Whether the log is of the formula's scenario and holds what the formula needs."""
    log = source.detail()
    if log is None or log.text("effective_scenario") != formula.source:
        return False
    value = log.number(formula.key)
    if value is None or not value > 0:
        draft.decisions.append(
            f"{source.path}: {formula.target} cannot be inferred: its log has no {formula.key} above 0; "
            "run longer, or measure the scenario itself"
        )
        return False
    return True


def _copy(draft: Draft, source: Place, directory: str, folder: str, reason: str) -> Place:
    """Copy a result's files to another benchmark's or scenario's folder."""
    target = Place(
        division=source.division,
        submitter=source.submitter,
        system=source.system,
        directory=directory,
        folder=folder,
        benchmark=source.benchmark,
        scenario=None,
    )
    taken = draft.paths()
    names = [e.name for e in source.entries if len(e.parts) == 7 and e.parts[2] == "measurements"]
    measured = document_of(names, source.system, source.folder)
    for entry in list(source.entries):
        parts = entry.parts
        name = parts[-1]
        if parts[2] == "measurements" and name == measured:
            name = _renamed(name, source.folder, folder)
        path = "/".join([*parts[:4], directory, folder, *parts[6:-1], name])
        if path in taken:
            continue
        made = copied(entry, path, reason)
        if name == "README.md" and len(parts) == 7:
            made.content = _marked(entry, source, reason)
        draft.entries.append(made)
        target.entries.append(made)
    return target


def _renamed(name: str, old: str, new: str) -> str:
    """A measurements document for another scenario: ``_SingleStream.json`` is ``_Offline.json``."""
    stem = name[:-5]
    if stem.lower().endswith(f"_{old.lower()}"):
        return f"{stem[: -len(old)]}{new}.json"
    return name


def _marked(entry: Entry, source: Place, reason: str) -> str | None:
    """The README of an inferred result says what it is; None (no change) where it cannot be read."""
    text = entry.content
    if text is None and entry.source is not None:
        try:
            text = Path(entry.source.real).read_bytes().decode("utf-8", "surrogateescape")
        except OSError:
            return None
    if not text:
        return None
    where = f"{source.system}/{source.directory}/{source.folder}"
    return f"{text.rstrip()}\n\nInferred: this result is a copy of {where}. {reason[0].upper()}{reason[1:]}.\n"
