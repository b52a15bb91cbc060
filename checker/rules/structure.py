"""Family S: the tree itself: folders, names, files that should or should not be there."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice

from checker.discover import canonical_scenario
from checker.model import (
    SCENARIOS,
    AccuracyRun,
    BenchmarkFolder,
    PerformanceRun,
    Result,
    Submitter,
    System,
    Tree,
    demands_of,
)
from checker.parse.documents import Document
from checker.parse.reading import File, Folder
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, rule
from schemas.report import Severity
from schemas.round import Round

MAX_PATH = 260
"""Longest path in characters that every file system and archive tool can unpack."""

MAX_NAME = 100
MAX_HINTS = 200
"""So many names, of at most so many characters, are compared with known ones: in a hostile
document there may be a million."""

_STRICT = {"systems", "results", "measurements", "compliance", "documentation"}
_DOCUMENT_SUFFIXES = (".md", ".pdf")
_MEDIA_FOLDERS = {"images", "videos"}
_ENTRY_SLIPS = {"result", "system", "measurement", "docs", "doc", "codes", "source", "sources"}
_AWKWARD = re.compile(r'[\x00-\x1f\x7f\\:*?"<>|]|[. ]$')


def nearest(name: str, known: Iterable[str], cutoff: float = 0.75) -> str | None:
    """The known name that was probably meant; None when none is near."""
    if len(name) > MAX_NAME:
        return None
    plain = {re.sub(r"[\s_.-]+", "_", k.casefold()): k for k in sorted(known)}
    asked = re.sub(r"[\s_.-]+", "_", name.strip().casefold())
    if asked in plain:
        return plain[asked]
    found = difflib.get_close_matches(asked, plain, 1, cutoff)
    return plain[found[0]] if found else None


def listed(names: Iterable[str], limit: int = 12) -> str:
    """Names as one text, the first ``limit`` of them."""
    every = list(names)
    text = ", ".join(every[:limit])
    return f"{text} and {len(every) - limit} more" if len(every) > limit else text


def _inside(path: str, folder: Folder) -> str:
    """``path`` relative to a folder that holds it."""
    return path[len(folder.path) + 1 :] if folder.path else path


def _entries(subject: Tree | Submitter, round: Round) -> Iterator[tuple[str, str, File | Folder]]:
    """(path, name, entry) of what one thing owns: the tree its two upper levels, a submitter
    everything below its own folder."""
    if isinstance(subject, Submitter):
        for here in subject.folder.walk():
            for name in sorted(here.folders):
                if here.folders[name].path:
                    yield here.folders[name].path, name, here.folders[name]
            for name in sorted(here.files):
                yield here.files[name].path, name, here.files[name]
        return
    folders = []
    if subject.scope == "tree":
        folders.append(subject.root)
    if subject.scope in ("tree", "division"):
        folders.extend(
            f for n, f in sorted(subject.root.folders.items()) if n in _divisions(subject, round)
        )
    for folder in folders:
        everything: list[tuple[str, File | Folder]] = [
            *folder.folders.items(),
            *folder.files.items(),
        ]
        for name, entry in sorted(everything, key=lambda e: e[0]):
            if entry.path and not (
                folder is subject.root and name in round.layout.top_level_ignored
            ):
                yield entry.path, name, entry


def _divisions(tree: Tree, round: Round) -> list[str]:
    return [name for name in tree.root.folders if tree.scope != "tree" or name in round.divisions]


def _degree(subject: Tree | Submitter, path: str) -> Severity | None:
    """Code belongs to the submitter: what is untidy there is a warning at most."""
    if isinstance(subject, Tree):
        return None if "/" in path or subject.scope == "division" else WARNING
    return None if _inside(path, subject.folder).split("/")[0].lower() in _STRICT else WARNING


@rule("S101", ERROR)
def division_known(tree: Tree, round: Round) -> Iterator[Problem]:
    """The tree's top level holds division folders only, spelled as the rules spell them.

    Why: a folder with another name is not looked at, so a whole submission may be lost unnoticed.
    Fix: rename the folder to closed, open or network, or take it out of the tree.
    Source: submission_rules.adoc, "Directory structure": division.
    """
    if tree.scope != "tree":
        raise NotJudged
    allowed = listed(round.divisions)
    for name in tree.stray_divisions:
        if name in round.layout.top_level_ignored or name.startswith("."):
            continue
        folder = tree.root.folders[name]
        near = nearest(name, round.divisions, 0.7)
        holds = any(f.folder("results") or f.folder("systems") for f in folder.folders.values())
        hint = f"; did you mean {near}?" if near else ""
        yield Problem(
            f"{name}/ is no division of {round.name} and was not checked; divisions are "
            f"{allowed}{hint}",
            path=folder.path or name, found=name, required=near or allowed,
            severity=None if near or holds else WARNING,
        )  # fmt: skip


@rule("S102", WARNING)
def root_files(tree: Tree, round: Round) -> Iterator[Problem]:
    """No file but documents (*.md, *.pdf) lies at the tree's top level.

    Why: a stray file there belongs to no submitter and is often packed by mistake.
    Fix: move the file below its submitter's folder or take it out of the tree.
    Source: submission_rules.adoc, "Directory structure".
    """
    if tree.scope != "tree":
        raise NotJudged
    for name in sorted(tree.root.files):
        ignored = name in round.layout.top_level_ignored or name in round.layout.ignored_files
        if not (ignored or name.startswith(".") or name.lower().endswith(_DOCUMENT_SUFFIXES)):
            yield Problem(
                f"{name} lies at the top level; only *.md and *.pdf are expected there", path=name,
                found=name, required="*.md, *.pdf",
            )  # fmt: skip


@rule("S103", ERROR)
def division_files(tree: Tree, round: Round) -> Iterator[Problem]:
    """No file lies directly in a division's folder.

    Why: what lies outside a submitter's folder belongs to nobody and is not looked at.
    Fix: move the file below its submitter's folder or take it out of the tree.
    Source: submission_rules.adoc, "Directory structure".
    """
    if tree.scope not in ("tree", "division"):
        raise NotJudged
    for division in _divisions(tree, round):
        for name, file in sorted(tree.root.folders[division].files.items()):
            if name in round.layout.ignored_files or name.startswith("."):
                continue
            yield Problem(
                f"{file.path} lies directly in the division's folder; only submitters' folders are "
                "expected there",
                path=file.path, found=name,
                severity=WARNING if name.lower().endswith(_DOCUMENT_SUFFIXES) else None,
            )  # fmt: skip


def _submitter(submitter: Submitter) -> Folder:
    if not submitter.complete:
        raise NotJudged
    return submitter.folder


@rule("S104", NOTE)
def submitter_entries(submitter: Submitter, round: Round) -> Iterator[Problem]:
    """A submitter's folder holds the folders that the rules name.

    Why: what stands in a folder with another name is not looked at.
    Fix: rename a misspelt folder; move other material below documentation or the code folder.
    Source: submission_rules.adoc, "Directory structure".
    """
    folder = _submitter(submitter)
    expected = list(dict.fromkeys([*round.layout.submitter_entries, *round.layout.code]))
    extra = []
    for name, below in sorted(folder.folders.items()):
        if name in expected or name.startswith("."):
            continue
        near = nearest(name, expected, 0.85)
        if near is None and name.lower() in _ENTRY_SLIPS:
            near = nearest(name, expected, 0.5)
        if near is not None:
            yield Problem(
                f"{below.path} is not one of the folders that are looked at; did you mean {near}?",
                path=below.path, found=name, required=near, severity=WARNING,
            )  # fmt: skip
        elif name in ("measurements", "compliance"):
            yield Problem(
                f"{below.path} belongs to the layout before v6.0 and is not looked at; "
                f"{round.name} keeps these files beside the results",
                path=below.path, found=name, required=round.layout.measurements, severity=WARNING,
            )  # fmt: skip
        else:
            extra.append(name)
    if extra:
        yield Problem(
            f"{listed(extra)} in {submitter.path}: not among the folders that the rules name "
            f"({listed(expected)})",
            path=submitter.path, found=extra[:50], required=expected,
        )  # fmt: skip


@rule("S105", ERROR)
def results_present(submitter: Submitter, round: Round) -> Iterator[Problem]:
    """A submitter's folder has results/ with at least one system in it.

    Why: without results there is nothing to submit.
    Fix: put the results into results/<system>/<benchmark>/<scenario>.
    Source: submission_rules.adoc, "Directory structure": results.
    """
    folder = _submitter(submitter)
    results = folder.folder("results")
    if results is None:
        near = nearest("results", folder.folders, 0.7)
        hint = f"; did you mean {near}/?" if near else ""
        yield Problem(
            f"{submitter.path} has no folder results/{hint}", path=submitter.path,
            found=sorted(folder.folders)[:20], required="results/",
        )  # fmt: skip
    elif not results.folders:
        yield Problem(
            f"{results.path} holds no system's folder", path=results.path, required="<system>/"
        )


@rule("S106", WARNING)
def system_has_results(system: System, round: Round) -> Iterator[Problem]:
    """Every described system has results.

    Why: a description without results is a leftover, or the results carry another name.
    Fix: remove systems/<system>.json, or give the results' folder the same name.
    Source: submission_rules.adoc, "Directory structure": systems and results belong together.
    """
    if not system.complete or system.document is None:
        raise NotJudged
    if not system.has_results:
        yield Problem(
            f"{system.path} describes a system that has no folder results/{system.name}",
            found=system.name, required=f"results/{system.name}",
        )  # fmt: skip


@rule("S107", WARNING)
def no_orphans(submitter: Submitter, round: Round) -> Iterator[Problem]:
    """Every folder of measurements/ and compliance/ belongs to a result.

    Why: leftovers of withdrawn results confuse, or the result's folder carries another name.
    Fix: remove the folder, or give it and the result's folder the same names.
    Source: submission_rules.adoc, "Directory structure": measurements, compliance.
    """
    folder = _submitter(submitter)
    results = folder.folder("results")
    patterns = [p for p in (round.layout.measurements, round.layout.compliance) if p]
    names = [p.split("/")[2] for p in patterns if len(p.split("/")) == 6]
    for name in dict.fromkeys(n for n in names if n != "results"):
        here = folder.folder(name)
        if here is not None and results is not None:
            yield from _orphans(here, results, 3)


def _orphans(here: Folder, results: Folder, depth: int) -> Iterator[Problem]:
    for name, below in sorted(here.folders.items()):
        twin = results.folder(name)
        if twin is None:
            yield Problem(
                f"{below.path} belongs to no result: there is no {results.path}/{name}",
                path=below.path, found=name, required=f"{results.path}/{name}",
            )  # fmt: skip
        elif depth > 1:
            yield from _orphans(below, twin, depth - 1)


@rule("S108", ERROR)
def code_present(submitter: Submitter, round: Round) -> Iterator[Problem]:
    """A submitter's folder has the folder with the code.

    Why: a result that nobody can reproduce cannot be reviewed.
    Fix: put the code of every benchmark, or a README that says where it is, into that folder.
    Source: submission_rules.adoc, "Directory structure": code (src from v6.0).
    """
    folder = _submitter(submitter)
    names = round.layout.code
    if not any(name in folder.folders for name in names):
        other = [n for n in ("src", "code") if n not in names and n in folder.folders]
        hint = f"; {other[0]}/ is the name of another round" if other else ""
        yield Problem(
            f"{submitter.path} has no folder {' or '.join(names)}/{hint}", path=submitter.path,
            found=sorted(folder.folders)[:20], required=names,
        )  # fmt: skip


@rule("S109", WARNING)
def code_not_empty(submitter: Submitter, round: Round) -> Iterator[Problem]:
    """The folder with the code holds files.

    Why: an empty folder is no code.
    Fix: put the code of every benchmark, or a README that says where it is, into that folder.
    Source: submission_rules.adoc, "Source code requirements".
    """
    folder = _submitter(submitter)
    for name in round.layout.code:
        code = folder.folders.get(name)
        if code is not None and next((f for f in code.all_files() if f.size), None) is None:
            yield Problem(f"{code.path} holds no file with anything in it", path=code.path)


@rule("S110", ERROR, divisions=("closed", "network"))
def calibration_document(submitter: Submitter, round: Round) -> Iterator[Problem]:
    """A document says how the model was calibrated or quantised.

    Why: reviewers must see that only the given calibration data was used.
    Fix: write calibration.md, in the submitter's folder or in documentation/; if nothing was
        calibrated, let it say so.
    Source: inference_rules.adoc, "Quantization": the calibration procedure is described.
    """
    folder = _submitter(submitter)
    wanted = [p.split("/", 2)[2] for p in round.layout.calibration]
    if wanted:
        files = [file for name in wanted if (file := folder.file_at(name)) is not None]
        if not files:
            yield Problem(
                f"{submitter.path} has neither {' nor '.join(wanted)}", path=submitter.path,
                required=wanted,
            )  # fmt: skip
        elif all(file.size == 0 for file in files):
            yield Problem(
                f"{files[0].path} is empty", path=files[0].path, found=0, severity=WARNING
            )
        return
    for here in folder.walk():
        if any("calibration" in name.lower() for name in [*here.files, *here.folders]):
            return
    yield Problem(
        f"{submitter.path} holds no document on calibration", path=submitter.path,
        required="calibration.md", severity=WARNING,
    )  # fmt: skip


@rule("S111", NOTE, divisions=("closed", "network"))
def documentation_present(submitter: Submitter, round: Round) -> Iterator[Problem]:
    """A submitter's folder has documentation/; of datacenter systems also on bandwidth.

    Why: readers look for how the system was set up and whether its network could carry the load.
    Fix: add documentation/ with calibration and, for datacenter systems, bandwidth.
    Source: submission_rules.adoc, "Directory structure": documentation; inference_rules.adoc,
        datacenter bandwidth (from v4.0).
    """
    folder = _submitter(submitter)
    if round.layout.documentation is None:
        raise NotJudged
    documentation = folder.folder("documentation")
    if documentation is None:
        yield Problem(
            f"{submitter.path} has no folder documentation/", path=submitter.path,
            required="documentation/",
        )  # fmt: skip
    elif not any("bandwidth" in file.name.lower() for file in documentation.all_files()) and any(
        "datacenter" in (system.category or "")
        for system in submitter.systems
        if system.has_results
    ):
        yield Problem(
            f"{documentation.path} holds no document on the bandwidth of the datacenter systems",
            path=documentation.path, required="bandwidth.md",
        )  # fmt: skip


@rule("S112", ERROR)
def benchmark_known(result: Result, round: Round) -> Iterator[Problem]:
    """A result's benchmark folder is named after a benchmark of the round.

    Why: the limits and the metric of a result are those of its benchmark.
    Fix: give the folder the round's name; in the open division name the benchmark of a model of
        your own in model_mapping.json.
    Source: submission_rules.adoc, "Directory structure": benchmark names.
    """
    if result.name is not None or result.scope == "run":
        raise NotJudged
    yield _unknown_benchmark(
        result.directory, result.division, round, f"{result.path} was not judged: "
    )


def _unknown_benchmark(directory: str, division: str, round: Round, start: str = "") -> Problem:
    near = nearest(directory, [*round.benchmarks, *round.aliases.exact], 0.6)
    hint = f"; did you mean {near}?" if near else ""
    names = sorted(round.benchmarks)
    mapping = round.aliases.mapping_file
    if division == "open" and mapping:
        file = mapping.rsplit("/", 1)[-1]
        return Problem(
            f"{start}{directory} is no benchmark of {round.name}, and no {file} says which one it "
            f"stands for; benchmarks are {listed(names, 40)}{hint}",
            found=directory, required=names,
            fix=f'add "{directory}": "<benchmark>" to {file} in the submitter\'s folder',
        )  # fmt: skip
    return Problem(
        f"{start}{directory} is no benchmark of {round.name}; benchmarks are "
        f"{listed(names, 40)}{hint}",
        found=directory, required=names, severity=WARNING if division == "open" else None,
    )  # fmt: skip


@rule("S113", ERROR)
def benchmark_folder(group: BenchmarkFolder, round: Round) -> Iterator[Problem]:
    """Below a system's results there are folders of benchmarks only.

    Why: another folder there is either a leftover or a result that nobody will find.
    Fix: take the folder out of results/, or give it the benchmark's name.
    Source: submission_rules.adoc, "Directory structure": results.
    """
    if not group.complete or group.name is not None:
        raise NotJudged
    # A folder with results in it is reported once for each of them, by benchmark-known.
    if not group.scenarios and not _has_result(group):
        problem = _unknown_benchmark(group.directory, group.division, round)
        yield Problem(
            f"{group.path} holds no result: {problem.message}", found=group.directory,
            required=problem.required, severity=WARNING if group.division == "open" else None,
        )  # fmt: skip


def _has_result(group: BenchmarkFolder) -> bool:
    folder = group.folder
    return folder is not None and any(
        {name.lower() for name in below.folders} & {"performance", "accuracy"}
        for below in folder.folders.values()
    )


@rule("S114", ERROR)
def scenario_known(result: Result, round: Round) -> Iterator[Problem]:
    """A result's folder is named after a scenario.

    Why: the limits and the metric of a result are those of its scenario.
    Fix: rename the folder to the scenario that was run.
    Source: inference_rules.adoc, "Scenarios".
    """
    if result.scope == "run":
        raise NotJudged
    if result.scenario is None:
        near = nearest(result.scenario_folder, SCENARIOS, 0.6)
        hint = f"; did you mean {near}?" if near else ""
        yield Problem(
            f"{result.scenario_folder} is no scenario, so {result.path} was not judged; scenarios "
            f"are {listed(SCENARIOS)}{hint}",
            found=result.scenario_folder, required=list(SCENARIOS),
        )  # fmt: skip


@rule("S115", ERROR, invalidates=False)
def scenario_folder(group: BenchmarkFolder, round: Round) -> Iterator[Problem]:
    """Below a benchmark there are folders of scenarios only.

    Why: another folder there is either a leftover or a result that nobody will find.
    Fix: take the folder out of results/, or give it the scenario's name.
    Source: submission_rules.adoc, "Directory structure": results.
    """
    if not group.complete or group.folder is None:
        raise NotJudged
    for name in group.unknown_scenarios:
        below = group.folder.folders.get(name)
        if below is None or {n.lower() for n in below.folders} & {"performance", "accuracy"}:
            continue
        near = nearest(name, SCENARIOS)
        hint = f"; did you mean {near}?" if near else ""
        yield Problem(
            f"{below.path} is no scenario's folder; scenarios are {listed(SCENARIOS)}{hint}",
            path=below.path, found=name, required=list(SCENARIOS),
            severity=WARNING if group.division == "open" else None,
        )  # fmt: skip


@rule("S116", ERROR, divisions=("closed", "network"), needs="demands")
def required_scenarios(group: BenchmarkFolder, round: Round) -> Iterator[Problem]:
    """Every scenario that the benchmark requires in the system's category is there.

    Why: a benchmark counts in the closed division only with all its required scenarios.
    Fix: add the missing scenario's result, or submit the benchmark in the open division.
    Source: inference_rules.adoc, "Benchmarks": required scenarios of each category.
    """
    demands = group.demands
    if demands is None or not group.complete:
        raise NotJudged
    missing = [name for name in demands.required if name not in group.scenarios]
    if missing:
        found = sorted(group.scenarios)
        yield Problem(
            f"{group.path} has {listed(found) or 'no scenario'}; {group.name} requires "
            f"{listed(demands.required)}{_category(group.category)}; missing: {listed(missing)}. "
            "The scenarios that are there would be valid in the open division",
            found=found, required=demands.required,
        )  # fmt: skip


def _category(category: str | None) -> str:
    return f" in category {category}" if category else ""


@rule("S117", ERROR, divisions=("closed", "network"), needs="demands")
def one_of_scenarios(group: BenchmarkFolder, round: Round) -> Iterator[Problem]:
    """Of scenarios that may stand for each other at least one is there.

    Why: benchmarks with an Interactive scenario require Server or Interactive.
    Fix: add the result of one of them, or submit the benchmark in the open division.
    Source: inference_rules.adoc, "Benchmarks": required scenarios of each category.
    """
    demands = group.demands
    if demands is None or not group.complete:
        raise NotJudged
    for choice in demands.one_of:
        if not set(choice) & set(group.scenarios):
            yield Problem(
                f"{group.path} has {listed(sorted(group.scenarios)) or 'no scenario'}; "
                f"{group.name} requires {' or '.join(choice)}{_category(group.category)}. The "
                "scenarios that are there would be valid in the open division",
                found=sorted(group.scenarios), required=choice,
            )  # fmt: skip


@rule("S118", ERROR, divisions=("closed", "network"), needs=("benchmark", "scenario"))
def scenario_allowed(result: Result, round: Round) -> Iterator[Problem]:
    """A result's scenario is one that the benchmark has in the system's category.

    Why: for another scenario the round sets no limits that the result could be held to.
    Fix: take the result out, or submit it in the open division.
    Source: inference_rules.adoc, "Benchmarks": required and optional scenarios.
    """
    demands = demands_of(result.benchmark, result.category)
    if demands is None or result.scope == "run":
        raise NotJudged
    if result.scenario not in demands.allowed:
        yield Problem(
            f"{result.name} has no {result.scenario} scenario{_category(result.category)}; it has "
            f"{listed(demands.allowed)}",
            found=result.scenario, required=demands.allowed,
        )  # fmt: skip


@rule("S119", ERROR, divisions=("closed", "network"), needs=("benchmark", "category"))
def benchmark_in_category(result: Result, round: Round) -> Iterator[Problem]:
    """The benchmark belongs to the category (datacenter, edge) of the system.

    Why: each category has its own suite of benchmarks.
    Fix: correct system_type, take the result out, or submit it in the open division.
    Source: inference_rules.adoc, "Benchmarks": suites.
    """
    if demands_of(result.benchmark, result.category) is None:
        names = sorted(n for n, b in round.benchmarks.items() if demands_of(b, result.category))
        yield Problem(
            f"{result.name} is not in the {result.category} suite of {round.name}; allowed are "
            f"{listed(names, 40)}",
            found=result.name, required=names,
        )  # fmt: skip


@rule("S120", ERROR, divisions=("closed", "network"))
def one_folder_per_benchmark(group: BenchmarkFolder, round: Round) -> Iterator[Problem]:
    """A system has one folder for each benchmark, and it one for each scenario.

    Why: of two results for one cell of the table nobody can say which one counts.
    Fix: remove one of the folders, or describe the second setup as a system of its own.
    Source: submission_rules.adoc, "Directory structure": results.
    """
    earlier = [path for path in group.twins if path < group.path]
    if earlier:
        yield Problem(
            f"{group.path} and {listed(earlier)} both mean {group.name}",
            found=[*earlier, group.path],
            required="one folder",
        )  # fmt: skip
    folder = group.folder
    if not group.complete or folder is None:
        return
    meant: dict[str, list[str]] = defaultdict(list)
    for name in sorted(folder.folders):
        scenario = canonical_scenario(name, round.aliases)
        if scenario is not None:
            meant[scenario].append(folder.folders[name].path)
    for scenario, paths in meant.items():
        if len(paths) > 1:
            yield Problem(
                f"{listed(paths)} all mean {scenario}", path=paths[-1], found=paths,
                required="one folder",
                results=tuple(k for name, k in group.keys.items()
                              if canonical_scenario(name, round.aliases) == scenario),
            )  # fmt: skip


@rule("S121", ERROR)
def no_hidden_names(subject: Tree | Submitter, round: Round) -> Iterator[Problem]:
    """No file or folder has a name that begins with a dot.

    Why: such files are editors' and systems' leftovers that most tools do not show.
    Fix: remove the file or folder.
    Source: submission_rules.adoc, "Directory structure"; the repository's own checks.
    """
    for path, name, _ in _entries(subject, round):
        if name.startswith(".") and name not in round.layout.ignored_files:
            yield Problem(
                f"{path} begins with a dot", path=path, found=name, severity=_degree(subject, path),
            )  # fmt: skip


@rule("S122", ERROR)
def no_blanks_in_names(subject: Tree | Submitter, round: Round) -> Iterator[Problem]:
    """No file or folder has a blank in its name.

    Why: scripts of reviewers and of the publication stumble over blanks.
    Fix: replace the blank by _ or -.
    Source: submission_rules.adoc, "Directory structure"; the repository's own checks.
    """
    for path, name, _ in _entries(subject, round):
        if " " in name:
            yield Problem(
                f"{path} has a blank in its name", path=path, found=name,
                severity=_degree(subject, path),
            )  # fmt: skip


@rule("S123", WARNING)
def portable_names(subject: Tree | Submitter, round: Round) -> Iterator[Problem]:
    """Names are made of characters that every file system and tool can carry.

    Why: other characters are lost or changed when the tree is packed, published or unpacked.
    Fix: rename with ASCII letters, digits, dot, - and _ only.
    Source: names must survive the published repository on every system.
    """
    for path, name, _ in _entries(subject, round):
        if not name.isascii():
            yield Problem(
                f"{path} has a name with other than ASCII characters", path=path, found=name
            )
        elif _AWKWARD.search(name):
            yield Problem(
                f"{path} has a name with characters that some systems do not allow", path=path,
                found=name,
            )  # fmt: skip


@rule("S124", ERROR)
def no_caches(subject: Submitter, round: Round) -> Iterator[Problem]:
    """No folder __pycache__ and no compiled Python file is part of the tree.

    Why: caches are made by running the code; they are neither source nor result.
    Fix: remove them.
    Source: submission_rules.adoc, "Directory structure"; the repository's own checks.
    """
    for path, name, entry in _entries(subject, round):
        inside = "/__pycache__/" in f"/{path}"
        if name == "__pycache__" or (
            isinstance(entry, File) and name.endswith(".pyc") and not inside
        ):
            yield Problem(
                f"{path} is a cache of Python", path=path, found=name,
                severity=_degree(subject, path),
            )  # fmt: skip


@rule("S125", ERROR)
def no_empty_folders(subject: Tree | Submitter, round: Round) -> Iterator[Problem]:
    """No folder is empty.

    Why: an empty folder is either a leftover or a result whose files were lost.
    Fix: put the files that belong there into the folder, or remove it.
    Source: submission_rules.adoc, "Directory structure"; the repository's own checks.
    """
    for path, _, entry in _entries(subject, round):
        if isinstance(entry, Folder) and not (entry.files or entry.folders or entry.faults):
            yield Problem(f"{path} is empty", path=path, severity=_degree(subject, path))


@rule("S126", ERROR)
def file_size(subject: Tree | Submitter, round: Round) -> Iterator[Problem]:
    """No file is larger than the round allows.

    Why: the published repository cannot hold larger files.
    Fix: shorten accuracy logs with `assay truncate`; keep weights and data outside the tree.
    Source: submission_rules.adoc, "Submission"; the checker of the round.
    """
    limit = round.max_file_bytes
    if limit is None:
        raise NotJudged
    for path, _, entry in _entries(subject, round):
        if isinstance(entry, File) and entry.size > limit:
            yield Problem(
                f"{path} is {entry.size} bytes, at most {limit} bytes are allowed", path=path,
                found=entry.size, required=limit,
            )  # fmt: skip


_LINKS = {
    "dangling": "is a symbolic link to nothing",
    "escaping": "is a symbolic link that leaves the tree",
    "loop": "is a symbolic link that points back to itself or to a folder above it",
}


@rule("S127", ERROR)
def links_sound(subject: Tree | Submitter, round: Round) -> Iterator[Problem]:
    """Every symbolic link points to something inside the tree.

    Why: what lies outside the tree is not submitted; the reader of the tree finds nothing.
    Fix: replace the link by the file or folder that it was meant to show.
    Source: submission_rules.adoc, "Directory structure"; the checker of the round.
    """
    for path, _, entry in _entries(subject, round):
        if isinstance(entry, File) and entry.state in _LINKS:
            yield Problem(
                f"{path} {_LINKS[entry.state]}", path=path, found=entry.state,
                severity=_degree(subject, path),
            )  # fmt: skip


@rule("S128", ERROR)
def regular_files(subject: Tree | Submitter, round: Round) -> Iterator[Problem]:
    """Every entry of the tree is a regular file or a folder that can be read.

    Why: named pipes, sockets and devices hold no data that could be submitted.
    Fix: replace it by the regular file that belongs there, readable for everybody.
    Source: submission_rules.adoc, "Directory structure".
    """
    for path, _, entry in _entries(subject, round):
        if isinstance(entry, File) and entry.state in ("special", "unreadable"):
            what = "is not a regular file" if entry.state == "special" else "cannot be looked at"
            yield Problem(f"{path} {what}", path=path, found=entry.state)


@rule("S129", WARNING)
def names_differ_beyond_case(subject: Tree | Submitter, round: Round) -> Iterator[Problem]:
    """No two names in one folder differ in upper and lower case only.

    Why: on Windows and macOS one of the two replaces the other when the tree is unpacked.
    Fix: rename or merge one of them.
    Source: names must survive the published repository on every system.
    """
    seen: dict[tuple[str, str], str] = {}
    for path, name, _ in _entries(subject, round):
        key = (path[: -len(name)], name.casefold())
        other = seen.setdefault(key, path)
        if other != path:
            yield Problem(
                f"{path} and {other} differ in upper and lower case only", path=path,
                found=[other, path],
            )  # fmt: skip


@rule("S130", NOTE)
def path_length(submitter: Submitter, round: Round) -> Iterator[Problem]:
    """No path is longer than 260 characters.

    Why: Windows and some archive tools cannot unpack longer ones.
    Fix: shorten the names of the system or of the folders below it.
    Source: names must survive the published repository on every system.
    """
    long = [path for path, _, _ in _entries(submitter, round) if len(path) > MAX_PATH]
    if long:
        worst = max(long, key=len)
        yield Problem(
            f"{len(long)} paths are longer than {MAX_PATH} characters; the longest has "
            f"{len(worst)}",
            path=worst, found=len(worst), required=MAX_PATH,
        )  # fmt: skip


@rule("S131", WARNING)
def submitter_spelling(tree: Tree, round: Round) -> Iterator[Problem]:
    """A submitter's name is spelled the same in all divisions.

    Why: two spellings are two submitters in the published tables.
    Fix: rename one of the folders.
    Source: submission_rules.adoc, "Directory structure": submitter.
    """
    known: dict[str, tuple[str, str]] = {}
    for submitter in tree.submitters:
        plain = re.sub(r"[\s_.-]+", "", submitter.name.casefold())
        name, path = known.setdefault(plain, (submitter.name, submitter.path))
        if name != submitter.name:
            yield Problem(
                f"{submitter.path} and {path} are spelled differently", path=submitter.path,
                found=submitter.name, required=name,
            )  # fmt: skip


@rule("S132", WARNING, needs="folder")
def no_extra_files(run: PerformanceRun | AccuracyRun, round: Round) -> Iterator[Problem]:
    """The folders of the runs hold the files that the rules name, and no others.

    Why: further files let a reader wonder what they are for.
    Fix: remove them, or move them to the documentation.
    Source: submission_rules.adoc, "Directory structure": performance and accuracy.
    """
    folder = run.folder
    if folder is None or run.kind not in ("performance", "accuracy", "ranging"):
        raise NotJudged
    layout = round.layout
    lists = [layout.accuracy] if run.kind == "accuracy" else [layout.performance, layout.power_run]
    allowed = {name for files in lists for name in [*files.required, *files.optional]}
    allowed |= {"mlperf_log_accuracy.json", "mlperf_log_trace.json", *layout.ignored_files}
    if run.result.endpoints is not None:
        allowed |= {path.rsplit("/", 1)[-1] for path in layout.endpoints.values()}
    extra = sorted(name for name in folder.files if name not in allowed)
    if folder.name.lower() != "performance":
        extra += sorted(f"{name}/" for name in folder.folders if name.lower() not in _MEDIA_FOLDERS)
    if extra:
        yield Problem(
            f"{folder.path or '.'} also holds {listed(extra)}", path=folder.path or ".",
            found=extra[:50],
            required=sorted(allowed),
        )  # fmt: skip


@rule("S133", WARNING)
def system_folder_filled(submitter: Submitter, round: Round) -> Iterator[Problem]:
    """Every system's folder in results/ holds benchmarks.

    Why: a system without a result is a leftover, or its results were lost.
    Fix: add the results, or remove the folder and the system's description.
    Source: submission_rules.adoc, "Directory structure": results.
    """
    results = _submitter(submitter).folder("results")
    if results is None:
        raise NotJudged
    used = {group.system for group in submitter.benchmarks}
    for name in submitter.result_systems:
        if name not in used and (results.folders[name].files or results.folders[name].faults):
            path = results.folders[name].path
            yield Problem(f"{path} holds no benchmark's folder", path=path)


@rule("S134", WARNING, divisions=("open",), needs="mapping")
def mapping_sound(submitter: Submitter, round: Round) -> Iterator[Problem]:
    """The model mapping names folders that exist and benchmarks of the round.

    Why: what it maps wrongly is judged by no benchmark's rules.
    Fix: let every entry read "<folder's name>": "<benchmark of the round>".
    Source: submission_rules.adoc, open division: model_mapping.json.
    """
    mapping = submitter.mapping
    if mapping is None or mapping.value is None:
        raise NotJudged
    if not isinstance(mapping.value, dict):
        yield Problem(
            f"{mapping.path} is not an object of folder names and benchmarks", path=mapping.path,
            found=type(mapping.value).__name__, required="object",
        )  # fmt: skip
        return
    folders = {group.directory for group in submitter.benchmarks}
    known = [*round.benchmarks, *round.aliases.exact]
    for key, target in islice(mapping.value.items(), MAX_HINTS):
        if not isinstance(target, str) or target not in known:
            near = nearest(str(target), known, 0.6)
            hint = f"; did you mean {near}?" if near else ""
            yield Problem(
                f"{mapping.path} maps {key} to {str(target)[:100]!r}, which is no benchmark of "
                f"{round.name}{hint}",
                path=mapping.path, line=mapping.line_of(key), pointer=f"/{key}", found=target,
                required=sorted(round.benchmarks),
            )  # fmt: skip
        elif key not in folders:
            near = nearest(key, folders, 0.95)
            hint = f"; did you mean {near}?" if near else ""
            yield Problem(
                f"{mapping.path} maps {key}, and there is no such folder in results/{hint}",
                path=mapping.path, line=mapping.line_of(key), pointer=f"/{key}", found=key,
                required=sorted(folders)[:50], severity=None if near else NOTE,
            )  # fmt: skip
        elif key in round.benchmarks and target != key:
            yield Problem(
                f"{mapping.path} maps {key}, which is a benchmark of {round.name}, to {target}; "
                "the entry has no effect",
                path=mapping.path, line=mapping.line_of(key), pointer=f"/{key}", found=target,
                required=key,
            )  # fmt: skip


@rule("S135", WARNING)
def no_duplicate_keys(subject: System | Submitter | Result, round: Round) -> Iterator[Problem]:
    """No key stands twice in one object of a JSON document.

    Why: readers take the last, some tools the first; the document says two things at once.
    Fix: remove one of the two entries.
    Source: RFC 8259, section 4: names within an object should be unique.
    """
    documents: list[Document | None]
    if isinstance(subject, System):
        documents = [subject.document]
    elif isinstance(subject, Submitter):
        documents = [subject.mapping]
    else:
        documents = [subject.measurements]
    for document in documents:
        if document is None:
            continue
        for key, first, last in document.duplicates:
            yield Problem(
                f"{key} stands twice in {document.path}: {str(first)[:80]!r} and "
                f"{str(last)[:80]!r}",
                path=document.path, line=document.line_of(key), pointer=f"/{key}",
                found=[first, last], required="once",
            )  # fmt: skip


@rule("S136", NOTE)
def systems_folder(submitter: Submitter, round: Round) -> Iterator[Problem]:
    """systems/ holds the systems' descriptions and nothing else.

    Why: other files and folders there are not looked at.
    Fix: move them to the documentation, or remove them.
    Source: submission_rules.adoc, "Directory structure": systems.
    """
    systems = _submitter(submitter).folder("systems")
    if systems is None:
        raise NotJudged
    ends = (".json", "_power.yaml") if round.layout.nameplate_power else (".json",)
    extra = sorted(f"{name}/" for name in systems.folders)
    extra += sorted(name for name in systems.files if not name.endswith(ends) and name[:1] != ".")
    if extra:
        yield Problem(
            f"{systems.path} also holds {listed(extra)}", path=systems.path, found=extra[:50],
            required="<system>.json",
        )  # fmt: skip
