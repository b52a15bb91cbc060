"""From a listing to a plan: which submitters, systems, benchmarks and results a tree holds.

Nothing is parsed here but the open division's model mapping; nothing is judged. A plan holds
only what a worker needs for one result, so that it can be sent to another process or machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import msgspec

from checker.clean import clean
from checker.model import DIVISIONS, SCENARIOS, BenchmarkFolder, Submitter, System, Tree
from checker.near import nearest
from checker.parse.documents import read_json
from checker.parse.reading import File, Folder
from schemas.names import benchmark_name
from schemas.round import Aliases, Round

Scope = Literal["tree", "division", "submitter", "system", "benchmark", "result", "run"]

UNKNOWN = "unknown"
_LOGS = {"mlperf_log_detail.txt", "mlperf_log_summary.txt"}
_RESULT_FOLDERS = {"performance", "accuracy"}


class ResultPlan(msgspec.Struct):
    """One result to judge: names, folders and files, nothing read yet."""

    key: str
    division: str
    submitter: str
    system: str
    directory: str
    scenario_folder: str
    path: str
    name: str | None
    scenario: str | None
    folder: Folder
    scope: str
    system_path: str
    system_file: File | None
    measurement_path: str
    measurement_folder: Folder | None
    compliance_path: str | None
    compliance_folder: Folder | None

    def whole(self) -> ResultPlan:
        """The plan with folders that are not packed; one that has two parts stays one."""
        own = self.folder.whole()

        def of(folder: Folder | None) -> Folder | None:
            return own if folder is self.folder else folder and folder.whole()

        return msgspec.structs.replace(
            self,
            folder=own,
            measurement_folder=of(self.measurement_folder),
            compliance_folder=of(self.compliance_folder),
        )


class Plan(msgspec.Struct):
    """All work in a tree. ``tree`` holds the submitters and their systems (descriptions unread).

    other_submitters: those that were not selected. keys: those of the results.
    """

    tree: Tree
    results: list[ResultPlan] = []
    system_files: dict[tuple[str, str, str], File | None] = {}
    other_submitters: list[str] = []
    keys: set[str] = set()

    def forget(self) -> None:
        """Give up the listing, which takes most of a large tree's memory; names and keys are kept."""
        self.tree.root = Folder("")
        for submitter in self.tree.submitters:
            submitter.folder = self.tree.root
            submitter.benchmarks = []


class Place(msgspec.Struct, frozen=True):
    """Names that TREE's own parent folders give when TREE is only a part of a submission."""

    scope: Scope
    division: str = UNKNOWN
    submitter: str = UNKNOWN
    system: str = UNKNOWN
    benchmark: str = UNKNOWN
    scenario: str = UNKNOWN
    tail: tuple[str, ...] = ("performance", "run_1")


def locate(root: Path, listing: Folder) -> Place:
    """What TREE is, from what it contains and from the names of the folders it is in."""
    whole = root.resolve() if ".." in root.parts else root.absolute()
    names = [part for part in whole.parts if part not in ("/", os.sep)]
    lower = {name.lower() for name in listing.folders}
    if set(listing.folders) & set(DIVISIONS):
        return Place("tree")
    at = _anchor(names)
    if at is not None:
        division, submitter, rest = at
        if not submitter:
            return Place("division", division)
        if rest[:1] == ["results"]:
            parts = rest[1:]
            place: dict[str, Any] = dict(
                zip(("system", "benchmark", "scenario"), parts, strict=False)
            )
            if len(parts) == 1:
                return msgspec.structs.replace(Place("system", division, submitter), **place)
            if len(parts) == 2:
                return msgspec.structs.replace(Place("benchmark", division, submitter), **place)
            if len(parts) == 3:
                return msgspec.structs.replace(Place("result", division, submitter), **place)
            if len(parts) > 3 and _LOGS & set(listing.files):
                return msgspec.structs.replace(
                    Place("run", division, submitter, tail=tuple(parts[3:])), **place
                )
        elif not rest:
            return Place("submitter", division, submitter)
    if _LOGS & set(listing.files):
        tail = ("accuracy",) if "accuracy.txt" in listing.files else ("performance", "run_1")
        return Place("run", tail=tail)
    if {"results"} & lower and ({"systems"} & lower or _has_result(listing.folder("results"), 3)):
        return Place("submitter", submitter=names[-1] if names else UNKNOWN)
    if _has_result(listing, 0):
        return msgspec.structs.replace(Place("result"), **_named(names, 3))
    if _has_result(listing, 1):
        return msgspec.structs.replace(Place("benchmark"), **_named(names, 2))
    if _has_result(listing, 2):
        return msgspec.structs.replace(Place("system"), **_named(names, 1))
    if _has_result(listing, 5):
        return Place("division", division=UNKNOWN)
    return Place("tree")


def _named(names: list[str], count: int) -> dict[str, Any]:
    found = names[-count:]
    return dict(zip(("system", "benchmark", "scenario")[: len(found)], found, strict=True))


def _anchor(names: list[str]) -> tuple[str, str, list[str]] | None:
    """The last ``<division>/<submitter>/results`` or trailing ``<division>[/<submitter>]``."""
    for index in range(len(names) - 1, -1, -1):
        if names[index] in DIVISIONS:
            rest = names[index + 1 :]
            if not rest:
                return names[index], "", []
            if len(rest) == 1 or rest[1] == "results":
                return names[index], rest[0], rest[1:]
    return None


def _has_result(folder: Folder | None, depth: int) -> bool:
    if folder is None:
        return False
    if depth == 0:
        return any(
            name.lower() in _RESULT_FOLDERS and any(_LOGS & set(f.files) for f in below.walk())
            for name, below in folder.folders.items()
        )
    return any(_has_result(child, depth - 1) for child in folder.folders.values())


def in_place(listing: Folder, place: Place) -> Folder:
    """``listing`` hung below the folders it would stand in, so that one discovery serves all.

    The paths of what is listed stay relative to TREE.
    """
    chain = {
        "tree": [],
        "division": [place.division],
        "submitter": [place.division, place.submitter],
        "system": [place.division, place.submitter, "results", place.system],
        "benchmark": [place.division, place.submitter, "results", place.system, place.benchmark],
        "result": [
            place.division,
            place.submitter,
            "results",
            place.system,
            place.benchmark,
            place.scenario,
        ],
        "run": [
            place.division,
            place.submitter,
            "results",
            place.system,
            place.benchmark,
            place.scenario,
            *place.tail,
        ],
    }[place.scope]
    here = listing
    for name in reversed(chain):
        here = Folder("", folders={name: here})
    return here


def canonical_scenario(name: str, aliases: Aliases) -> str | None:
    """The scenario a folder's name means, in any case; None when it means none."""
    low = name.lower()
    for known in SCENARIOS:
        if low == known.lower():
            return known
    return {k.lower(): v for k, v in aliases.scenarios.items()}.get(low)


def discover(
    listing: Folder,
    round: Round,
    place: Place,
    *,
    divisions: frozenset[str] | None = None,
    submitters: frozenset[str] | None = None,
) -> Plan:
    """Everything there is to judge in a listing, in the order of names."""
    root = in_place(listing, place)
    tree = Tree(root, place.scope)
    plan = Plan(tree)
    for division in sorted(root.folders):
        known = division in round.divisions or place.scope != "tree"
        if not known:
            tree.stray_divisions.append(division)
            continue
        if divisions is not None and division not in divisions:
            continue
        for name in sorted(root.folders[division].folders):
            if submitters is not None and name not in submitters:
                if name not in plan.other_submitters:
                    plan.other_submitters.append(name)
                continue
            _submitter(plan, root.folders[division].folders[name], division, name, round, place)
    return plan


def _submitter(
    plan: Plan, folder: Folder, division: str, name: str, round: Round, place: Place
) -> None:
    complete = place.scope in ("tree", "division", "submitter")
    path = folder.path or ("." if place.scope == "submitter" else f"{division}/{name}")
    submitter = Submitter(
        division=division, name=name, path=path, folder=folder, round=round, complete=complete
    )
    plan.tree.submitters.append(submitter)
    mapping: dict[str, str] = {}
    mapping_name = round.aliases.mapping_file
    if mapping_name:
        file = folder.files.get(mapping_name.rsplit("/", 1)[-1])
        if file is not None:
            submitter.mapping = read_json(file)
            mapping = {str(k): str(v) for k, v in submitter.mapping.fields.items()}
    systems_folder = folder.folder("systems")
    described: dict[str, File] = {}
    if systems_folder is not None:
        for file_name, file in sorted(systems_folder.files.items()):
            if file_name.endswith(".json"):
                described[file_name.removesuffix(".json")] = file
    results = folder.folder("results")
    tried = results.folders if results is not None else {}
    base = folder.path
    for system_name in sorted(set(described) | set(tried)):
        file = described.get(system_name)
        path = file.path if file is not None else _below(base, f"systems/{system_name}.json")
        system = System(
            division, name, system_name, path, has_results=system_name in tried, complete=complete
        )
        if systems_folder is not None:
            system.power_document = systems_folder.files.get(f"{system_name}_power.yaml")
        submitter.systems.append(system)
        plan.system_files[division, name, system_name] = file
        if system_name in tried:
            submitter.result_systems.append(system_name)
            _system(plan, submitter, tried[system_name], system, file, mapping, round, place)
            if file is None:
                system.meant = nearest(system_name, set(described) - set(tried), 0.9)


def _below(base: str, path: str) -> str:
    return f"{base}/{path}" if base else path


def _system(
    plan: Plan,
    submitter: Submitter,
    folder: Folder,
    system: System,
    system_file: File | None,
    mapping: dict[str, str],
    round: Round,
    place: Place,
) -> None:
    _copies(submitter, folder, system.name)
    keys: list[str] = []
    for directory in sorted(folder.folders):
        below = folder.folders[directory]
        name = benchmark_name(directory, round, mapping, submitter.division)
        group = BenchmarkFolder(
            division=submitter.division,
            submitter=submitter.name,
            system=system.name,
            directory=directory,
            path=below.path or directory,
            name=name,
            benchmark=round.benchmarks.get(name) if name else None,
            category=None,
            folder=below,
            complete=place.scope not in ("result", "run"),
        )
        for other in submitter.benchmarks:
            if name is not None and (other.system, other.name) == (system.name, name):
                other.twins.append(group.path)
                group.twins.append(other.path)
        submitter.benchmarks.append(group)
        for scenario_folder in sorted(below.folders):
            here = below.folders[scenario_folder]
            scenario = canonical_scenario(scenario_folder, round.aliases)
            if scenario is None and place.scope != "run" and not _looks_like_result(here):
                group.unknown_scenarios.append(scenario_folder)
                continue
            if scenario is not None:
                group.scenarios.setdefault(scenario, scenario_folder)
            else:
                group.unknown_scenarios.append(scenario_folder)
            parts = {
                "division": submitter.division, "submitter": submitter.name,
                "system": system.name, "benchmark": directory, "scenario": scenario_folder,
            }  # fmt: skip
            measurement_path, measurement_folder = _beside(
                plan.tree.root, round.layout.measurements, parts, here, submitter
            )
            compliance_path, compliance_folder = _beside(
                plan.tree.root, round.layout.compliance, parts, here, submitter
            )
            key = clean("/".join(parts.values()), 4096)
            if key in plan.keys:
                # Names that cannot be printed may look alike once they can.
                key = f"{key}#{len(plan.keys)}"
            plan.keys.add(key)
            group.keys[scenario_folder] = key
            keys.append(key)
            plan.results.append(
                ResultPlan(
                    key=key,
                    division=submitter.division,
                    submitter=submitter.name,
                    system=system.name,
                    directory=directory,
                    scenario_folder=scenario_folder,
                    path=here.path,
                    name=name,
                    scenario=scenario,
                    folder=here,
                    scope=place.scope,
                    system_path=system.path,
                    system_file=system_file,
                    measurement_path=measurement_path or here.path,
                    measurement_folder=measurement_folder,
                    compliance_path=compliance_path,
                    compliance_folder=compliance_folder,
                )
            )
    system.results = tuple(keys)


def _copies(submitter: Submitter, folder: Folder, system: str) -> None:
    """Read descriptions of the system that lie among its results (some submitters copy them)."""
    if not submitter.complete:
        return
    for here in folder.walk():
        file = here.files.get(f"{system}.json")
        if file is not None and here.path.count("/") <= folder.path.count("/") + 2:
            submitter.copies.append((system, read_json(file)))


def _looks_like_result(folder: Folder) -> bool:
    return bool({n.lower() for n in folder.folders} & _RESULT_FOLDERS)


def _beside(
    root: Folder, pattern: str | None, parts: dict[str, str], own: Folder, submitter: Submitter
) -> tuple[str | None, Folder | None]:
    """The folder that a layout pattern names for one result, and the path it should have.

    Names below the submitter are matched without regard to case: published trees spell the
    scenario differently in results/ and in measurements/.
    """
    if not pattern:
        return None, None
    if pattern == "{division}/{submitter}/results/{system}/{benchmark}/{scenario}":
        return own.path, own
    if not submitter.complete:
        return None, None
    names = [piece.format(**parts) for piece in pattern.split("/")]
    found = root.folder(*names[:2])
    found = found.folder(*names[2:]) if found is not None else None
    expected = _below(submitter.folder.path, "/".join(names[2:]))
    return (found.path if found is not None else expected), found
