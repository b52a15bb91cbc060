"""Family S: the folders of a tree and of a submitter."""

from __future__ import annotations

from checker.model import Submitter, Tree
from checker.near import hint, nearest
from checker.parse.reading import Folder
from checker.rule import ERROR, NOTE, WARNING, Problem, Problems, rule
from checker.rules.structure.entries import divisions_of, listed
from schemas.round import Round

_DOCUMENT_SUFFIXES = (".md", ".pdf")
_ENTRY_SLIPS = {"result", "system", "measurement", "docs", "doc", "codes", "source", "sources"}


@rule("S101", ERROR, cases={"other": WARNING}, needs={"stray": "stray_divisions"})
def division_known(tree: Tree, round: Round, stray: list[str]) -> Problems:
    """The top level holds only the folders of divisions, spelled as in the rules.

    Why: a folder with another name is not read, so a whole submission can be lost unnoticed.
    Fix: rename the folder to closed, open or network, or remove it: git rm -r FOLDER.
    Source: submission_rules.adoc, "Directory structure": division.
    """
    for name in stray:
        if name in round.layout.top_level_ignored or name.startswith("."):
            continue
        folder = tree.root.folders[name]
        near = nearest(name, round.divisions, 0.7)
        holds = any(f.folder("results") or f.folder("systems") for f in folder.folders.values())
        yield Problem(
            f"found the folder {name}, which was not checked; expected "
            f"{listed(round.divisions)}{hint(near)}",
            path=folder.path or name,
            found=name,
            required=near or round.divisions,
            case=None if near or holds else "other",
            fix=f"git mv {name} {near}" if near else None,
        )


@rule("S102", WARNING)
def root_files(tree: Tree, round: Round) -> Problems:
    """The only files at the top level are documents (*.md, *.pdf).

    Why: any other file there belongs to no submitter and is often packed by mistake.
    Fix: move the file into its submitter's folder, or remove it: git rm FILE.
    Source: submission_rules.adoc, "Directory structure".
    """
    allowed = {*round.layout.top_level_ignored, *round.layout.ignored_files}
    for name in sorted(tree.root.files) if tree.scope == "tree" else ():
        document = name.lower().endswith(_DOCUMENT_SUFFIXES)
        if name not in allowed and not name.startswith(".") and not document:
            yield Problem(
                "found this file at the top level; expected only *.md and *.pdf",
                path=name,
                found=name,
                required="*.md, *.pdf",
                fix=f"git rm {name}, or move it into its submitter's folder",
            )


@rule("S103", ERROR, cases={"document": WARNING})
def division_files(tree: Tree, round: Round) -> Problems:
    """There are no files directly in a division's folder.

    Why: what is outside the submitters' folders belongs to nobody and is not read.
    Fix: move the file into its submitter's folder, or remove it: git rm FILE.
    Source: submission_rules.adoc, "Directory structure".
    """
    known = divisions_of(tree, round) if tree.scope in ("tree", "division") else []
    for division in known:
        for name, file in sorted(tree.root.folders[division].files.items()):
            if name not in round.layout.ignored_files and not name.startswith("."):
                yield Problem(
                    "found this file in the division's folder; expected only submitters' folders",
                    path=file.path,
                    found=name,
                    case="document" if name.lower().endswith(_DOCUMENT_SUFFIXES) else None,
                    fix=f"git rm {file.path}, or move it into its submitter's folder",
                )


@rule("S104", NOTE, cases={"misspelt": WARNING, "earlier-layout": WARNING}, needs="complete")
def submitter_entries(submitter: Submitter, round: Round) -> Problems:
    """A submitter's folder holds only the folders that the rules name.

    Why: folders with other names are not read.
    Fix: rename a misspelt folder; move other material into documentation or the code folder.
    Source: submission_rules.adoc, "Directory structure".
    """
    folder = submitter.folder
    expected = list(dict.fromkeys([*round.layout.submitter_entries, *round.layout.code]))
    extra = []
    for name, below in sorted(folder.folders.items()):
        if name in expected or name.startswith("."):
            continue
        near = nearest(name, expected, 0.85)
        if near is None and name.lower() in _ENTRY_SLIPS:
            near = nearest(name, expected, 0.5)
        if near == "results" and folder.folder("results") is None:
            continue  # results-present names it
        if near is not None:
            # Assay reads systems, results, ... in any case; the official checker does not.
            read = name.lower() == near.lower() and near not in folder.folders
            yield Problem(
                f"found the folder {name}; expected {near}"
                if read
                else f"found the folder {name}, which is not read; did you mean {near}?",
                path=below.path,
                found=name,
                required=near,
                case="misspelt",
                fix=f"git mv {below.path} {below.path[: -len(name)]}{near}",
            )
        elif name in ("measurements", "compliance"):
            yield Problem(
                f"found the folder {name} of the layout before v6.0, which is not read; expected "
                f"its files beside the results",
                path=below.path,
                found=name,
                required=round.layout.measurements,
                case="earlier-layout",
            )
        else:
            extra.append(name)
    if extra:
        text = f"found {listed(extra)}; expected only {listed(expected)}"
        yield Problem(text, found=extra[:50], required=expected, count=len(extra))


@rule("S105", ERROR, needs="complete")
def results_present(submitter: Submitter, round: Round) -> Problems:
    """A submitter's folder has a folder results with at least one system in it.

    Why: without results there is nothing to submit.
    Fix: put the results into results/<system>/<benchmark>/<scenario>.
    Source: submission_rules.adoc, "Directory structure": results.
    """
    folder = submitter.folder
    results = folder.folder("results")
    if results is None:
        near = nearest("results", folder.folders, 0.7)
        yield Problem(
            f"found no folder results{hint(near)}",
            found=sorted(folder.folders)[:20],
            required="results",
            fix=f"git mv {submitter.path}/{near} {submitter.path}/results" if near else None,
        )
    elif not results.folders:
        text = "found no system's folder; expected results/<system>/<benchmark>/<scenario>"
        yield Problem(text, path=results.path, required="<system>")


@rule("S106", WARNING, needs="complete")
def system_has_results(submitter: Submitter, round: Round) -> Problems:
    """Every described system has results.

    Why: a description without results is a leftover, or its results are under another name.
    Fix: git rm systems/SYSTEM.json, or give the folder in results the same name.
    Source: submission_rules.adoc, "Directory structure": systems and results have one name.
    """
    # description-present names both sides of a near miss.
    meant = {system.meant for system in submitter.systems}
    unused = [
        system
        for system in submitter.systems
        if system.document is not None and not system.has_results and system.name not in meant
    ]
    if unused:
        names = [system.name for system in unused]
        shown = f"{len(unused)} systems" if len(unused) > 1 else "a system"
        yield Problem(
            f"found {shown} without results: {listed(names, 4)}; expected results/<system> for each",
            path=unused[0].path,
            found=names,
            required="results/<system>",
            fix="git rm " + " ".join(system.path for system in unused[:20]),
            count=len(unused),
        )


@rule("S107", WARNING, needs="complete")
def no_orphans(submitter: Submitter, round: Round) -> Problems:
    """Every folder in measurements and compliance belongs to a result.

    Why: leftovers of withdrawn results confuse, or the result's folder has another name.
    Fix: git rm -r FOLDER, or give it the name of the result's folder.
    Source: submission_rules.adoc, "Directory structure": measurements, compliance.
    """
    folder = submitter.folder
    results = folder.folder("results")
    patterns = [p.split("/") for p in (round.layout.measurements, round.layout.compliance) if p]
    for name in dict.fromkeys(p[2] for p in patterns if len(p) == 6 and p[2] != "results"):
        here = folder.folder(name)
        if here is not None and results is not None:
            yield from _orphans(here, results, 3)


def _orphans(here: Folder, results: Folder, depth: int) -> Problems:
    for name, below in sorted(here.folders.items()):
        twin = results.folder(name)
        if twin is None:
            near = nearest(name, set(results.folders) - set(here.folders), 0.9)
            yield Problem(
                f"found no result for this folder; expected {results.path}/{name}{hint(near)}",
                path=below.path,
                found=name,
                required=f"{results.path}/{name}",
                fix=f"git mv {below.path} {here.path}/{near}"
                if near
                else f"git rm -r {below.path}",
            )
        elif depth > 1:
            yield from _orphans(below, twin, depth - 1)


@rule("S108", ERROR, needs="complete")
def code_present(submitter: Submitter, round: Round) -> Problems:
    """A submitter's folder has the folder with the code.

    Why: a result that nobody can reproduce cannot be reviewed.
    Fix: add the folder with the code of every benchmark, or a README that says where it is.
    Source: submission_rules.adoc, "Directory structure": code (src from v6.0).
    """
    folder, names = submitter.folder, round.layout.code
    if any(name in folder.folders for name in names):
        return
    other = next((n for n in ("src", "code") if n not in names and n in folder.folders), None)
    where = f", but {other}, the name in other rounds" if other else ""
    yield Problem(
        f"found no folder {listed(names)}{where}",
        found=sorted(folder.folders)[:20],
        required=names,
        fix=f"git mv {submitter.path}/{other} {submitter.path}/{names[0]}" if other else None,
    )


@rule("S109", WARNING, needs="complete")
def code_not_empty(submitter: Submitter, round: Round) -> Problems:
    """The folder with the code holds files.

    Why: an empty folder is not code.
    Fix: add the code of every benchmark, or a README that says where it is.
    Source: submission_rules.adoc, "Source code requirements".
    """
    for name in round.layout.code:
        code = submitter.folder.folders.get(name)
        if code is not None and next((f for f in code.all_files() if f.size), None) is None:
            yield Problem("found only empty files; expected the code", path=code.path)


@rule("S133", WARNING, needs={"systems": "result_systems"})
def system_folder_filled(submitter: Submitter, round: Round, systems: list[str]) -> Problems:
    """Every system's folder in results holds benchmarks.

    Why: a system without a result is a leftover, or its results were lost.
    Fix: add the results, or remove the folder and the system's description with git rm -r.
    Source: submission_rules.adoc, "Directory structure": results.
    """
    results = submitter.folder.folder("results")
    used = {group.system for group in submitter.benchmarks}
    for name in systems if results is not None and submitter.complete else ():
        folder = results.folders[name] if results is not None else Folder("")
        if name not in used and (folder.files or folder.faults):
            yield Problem(
                "found no benchmark's folder; expected at least one",
                path=folder.path,
                fix=f"git rm -r {folder.path}, or add the results",
            )


@rule("S136", NOTE, needs="complete")
def systems_folder(submitter: Submitter, round: Round) -> Problems:
    """The folder systems holds only the systems' descriptions.

    Why: other files and folders there are not read.
    Fix: move them into documentation, or remove them with git rm.
    Source: submission_rules.adoc, "Directory structure": systems.
    """
    systems = submitter.folder.folder("systems")
    if systems is None:
        return
    ends = (".json", "_power.yaml") if round.layout.nameplate_power else (".json",)
    extra = sorted(f"{name}/" for name in systems.folders)
    extra += sorted(name for name in systems.files if not name.endswith(ends) and name[:1] != ".")
    if extra:
        text = f"found {listed(extra)}; expected only <system>.json"
        yield Problem(
            text, path=systems.path, found=extra[:50], required="<system>.json", count=len(extra)
        )


@rule("S131", WARNING)
def submitter_spelling(tree: Tree, round: Round) -> Problems:
    """A submitter's name is spelled the same in all divisions.

    Why: two spellings are two submitters in the published tables.
    Fix: rename one of the folders with git mv.
    Source: submission_rules.adoc, "Directory structure": submitter.
    """
    known: dict[str, Submitter] = {}
    for submitter in tree.submitters:
        plain = "".join(c for c in submitter.name.casefold() if c not in " _.-\t")
        first = known.setdefault(plain, submitter)
        if first.name != submitter.name:
            yield Problem(
                f"found the spelling {submitter.name}; expected {first.name}, as in {first.path}",
                path=submitter.path,
                found=submitter.name,
                required=first.name,
                results=submitter.results,
                fix=f"git mv {submitter.path} {submitter.division}/{first.name}",
            )
