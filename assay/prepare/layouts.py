"""From one layout to another: measurements and compliance beside the results or inside them, code or src.

Up to v5.1 ``measurements/`` and ``compliance/`` are beside ``results/``, and a result's document is called
``<system>_<implementation>_<scenario>.json``; from v6.0 all of it is inside the result's folder and called
``measurements.json``. What a round has is in its layout.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from fnmatch import fnmatchcase

from assay.prepare.draft import Draft, Entry
from assay.prepare.plan import Plan
from schemas.load import load_round, round_names
from schemas.round import Layout

_TEST = re.compile(r"TEST\d\d", re.IGNORECASE)
_DOCUMENT = "measurements.json"
_BESIDE = ("measurements", "compliance")


def convert(draft: Draft) -> None:
    """Give every file of a result the place that the round's layout has for it."""
    layout = draft.round.layout
    submitters = {tuple(e.parts[:2]) for e in draft.kept() if len(e.parts) > 3}
    for division, submitter in sorted(submitters):
        base = f"{division}/{submitter}"
        _code(draft, base, layout)
        tops = draft.children().get(base, set())
        beside = set(_BESIDE) & tops
        if _inside(layout) and beside:
            _into_results(draft, base)
        elif not _inside(layout):
            _beside_results(draft, base, layout)
            _document_names(draft, base)


def _inside(layout: Layout) -> bool:
    return layout.measurements == layout.results


def beside_patterns() -> list[str]:
    """How the measurements document is called in the newest round that has it beside the results."""
    for name in reversed(round_names()):
        layout = load_round(name).layout
        if not _inside(layout):
            return layout.measurements_file
    return []


def _code(draft: Draft, base: str, layout: Layout) -> None:
    tops = draft.children().get(base, set())
    if set(layout.code) & tops:
        return
    other = next((n for n in ("code", "src") if n in tops), None)
    if other is not None:
        for entry in draft.below(f"{base}/{other}"):
            rest = entry.path[len(base) + len(other) + 2 :]
            name = layout.code[0]
            entry.move(f"{base}/{name}/{rest}", f"{draft.round.name} calls {other} {name}", "S108")


def document_of(names: Iterable[str], system: str, scenario: str) -> str | None:
    """Which file of a folder beside the results is its measurements document."""
    ordered = sorted(names)
    for pattern in beside_patterns():
        low = pattern.format(system=_escaped(system), scenario=scenario).lower()
        found = next((n for n in ordered if fnmatchcase(n.lower(), low)), None)
        if found is not None:
            return found
    return None


def _escaped(text: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", text)


def _into_results(draft: Draft, base: str) -> None:
    results = {
        (p[3].lower(), p[4].lower(), p[5].lower()): p[3:6]
        for p in (e.parts for e in draft.below(f"{base}/results"))
        if len(p) > 6
    }
    folders: dict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for top in _BESIDE:
        for entry in draft.below(f"{base}/{top}"):
            folders[tuple(entry.parts[2:6] if len(entry.parts) > 6 else entry.parts[2:-1])].append(
                entry
            )
    taken = draft.paths()
    for folder, entries in sorted(folders.items()):
        top, names = folder[0], list(folder[1:])
        if len(names) == 3:
            found = results.get((names[0].lower(), names[1].lower(), names[2].lower()))
            if found is None:
                draft.decisions.append(
                    f"{base}/{'/'.join(folder)}: no result of that name; left where it was"
                )
                continue
            names = found
        elif not any(key[: len(names)] == tuple(n.lower() for n in names) for key in results):
            draft.decisions.append(
                f"{base}/{'/'.join(folder)}: no result below it; left where it was"
            )
            continue
        document = None
        if top == "measurements" and len(names) == 3:
            here = [e.name for e in entries if len(e.parts) == 7]
            document = _DOCUMENT if _DOCUMENT in here else document_of(here, names[0], names[2])
        for entry in entries:
            rest = entry.parts[3 + len(names) :]
            if rest == [document]:
                rest = [_DOCUMENT]
            path = "/".join([base, "results", *names, *rest])
            if path in taken and taken[path] is not entry:
                stem, dot, suffix = rest[-1].rpartition(".")
                path = "/".join(
                    [
                        base,
                        "results",
                        *names,
                        *rest[:-1],
                        f"{stem or suffix}.{top}{dot}{suffix if stem else ''}",
                    ]
                )
            entry.move(path, f"{draft.round.name} has {top} inside the results", "S104")


def _beside_results(draft: Draft, base: str, layout: Layout) -> None:
    has = {
        (p[2], *(n.lower() for n in p[3:6]))
        for top in _BESIDE
        for p in (e.parts for e in draft.below(f"{base}/{top}"))
        if len(p) > 6
    }
    for entry in draft.below(f"{base}/results"):
        parts = entry.parts
        place = tuple(name.lower() for name in parts[3:6])
        names = dict(zip(("system", "benchmark", "scenario"), parts[3:6], strict=False))
        names.update(division=parts[0], submitter=parts[1])
        test = len(parts) > 7 and _TEST.fullmatch(parts[6]) is not None
        if ("compliance" if test else "measurements", *place) in has:
            continue
        if test and layout.compliance:
            folder = layout.compliance.format(**names)
            entry.move(
                "/".join([folder, *parts[6:]]),
                f"{draft.round.name} has compliance beside the results",
                "C101",
            )
        elif len(parts) == 7 and entry.name not in layout.endpoints.values():
            name = parts[6]
            if name == _DOCUMENT:
                name = _old_name(draft, base, names, layout)
            folder = layout.measurements.format(**names)
            entry.move(
                f"{folder}/{name}",
                f"{draft.round.name} has measurements beside the results",
                "M101",
            )


def _old_name(draft: Draft, base: str, names: dict[str, str], layout: Layout) -> str:
    """``<system>_<implementation>_<scenario>.json``, the implementation as the code has it."""
    code = draft.children().get(f"{base}/{layout.code[0]}/{names['benchmark']}", set())
    folders = [n for n in code if "." not in n]
    middle = f"{folders[0]}_" if len(folders) == 1 else ""
    return f"{names['system']}_{middle}{names['scenario']}.json"


def _document_names(draft: Draft, base: str) -> None:
    """The scenario in a document's name is spelled as its folder."""
    folders: dict[str, list[Entry]] = defaultdict(list)
    for entry in draft.below(f"{base}/measurements"):
        if len(entry.parts) == 7:
            folders[entry.path.rpartition("/")[0]].append(entry)
    for folder, entries in folders.items():
        parts = folder.split("/")
        name = document_of([e.name for e in entries], parts[3], parts[5])
        source = next((e for e in entries if e.name == name), None)
        if source is None and len(found := [e for e in entries if e.name.endswith(".json")]) == 1:
            # The system's folder has another name than it had.
            source = found[0]
            low = source.name[:-5].lower()
            if not low.endswith(f"_{parts[5].lower()}"):
                source.move(
                    f"{folder}/{parts[3]}_{parts[5]}.json",
                    "a document begins with its system's name",
                    "M101",
                )
                continue
        if source is None:
            continue
        stem, scenario = source.name[:-5], parts[5]
        if stem.lower().endswith(f"_{scenario.lower()}") and not stem.endswith(f"_{scenario}"):
            source.move(
                f"{folder}/{stem[: -len(scenario)]}{scenario}.json",
                f"the scenario is spelled {scenario}",
                "M101",
            )


def as_recorded(draft: Draft, record: Plan) -> None:
    """Give files the paths that an earlier plan took them from."""
    before = {
        step.destination: step.path
        for step in record.steps
        if step.destination
        and step.path
        and step.kind in ("keep", "move", "truncate", "hash", "edit")
    }
    for entry in draft.kept():
        path = before.get(entry.path)
        if path is not None:
            entry.move(path, "its path in the earlier plan")
            entry.fixed = True
