"""Family S: names of files and folders, and files that should not be there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checker.discover import canonical_scenario
from checker.model import BenchmarkFolder, Submitter, Tree
from checker.near import nearest
from checker.parse.reading import File, Folder
from checker.rule import ERROR, NOTE, WARNING, Problem, Problems, rule
from checker.rules.structure.entries import case_of, entries, listed, results_at
from checker.wording import number, quantity
from schemas.round import Round

MAX_PATH = 260
"""Longest path in characters that every file system and archive tool can unpack."""

_MAX_BYTES = 50 * 1024 * 1024
"""What later rounds allow, for rounds without a limit of their own."""

_MEDIA_FOLDERS = {"images", "videos"}
_FILE = re.compile(r"\.(?:txt|json|conf|md|ya?ml)$")
_TEST = re.compile(r"TEST\d\d(?:-[AB])?", re.IGNORECASE)
_RUN = re.compile(r"run_\d+")
_AWKWARD = re.compile(r'[\x00-\x1f\x7f\\:*?"<>|]|[. ]$')


def _at(subject: Tree | Submitter, path: str, **more: object) -> Problem:
    """A finding about one entry, with the results that it belongs to."""
    values = {"case": case_of(subject, path), "results": results_at(subject, path), **more}
    return Problem(path=path, **values)  # type: ignore[arg-type]


@rule("S121", ERROR, cases={"code": WARNING})
def no_hidden_names(subject: Tree | Submitter, round: Round) -> Problems:
    """No file or folder has a name that begins with a dot.

    Why: such files are leftovers of editors and operating systems that most tools do not show.
    Fix: git rm -r --cached PATH, then add it to .gitignore.
    Source: submission_rules.adoc, "Directory structure"; the repository's own checks.
    """
    for path, name, _ in entries(subject, round):
        if name.startswith(".") and name not in round.layout.ignored_files:
            yield _at(
                subject,
                path,
                message=f"found {name}; expected no name that begins with a dot",
                found=name,
                fix=f"git rm -r {path}",
            )


@rule("S122", ERROR, cases={"code": WARNING, "submitter": ERROR})
def no_blanks_in_names(subject: Tree | Submitter, round: Round) -> Problems:
    """No file or folder has a blank in its name.

    Why: scripts of reviewers and of the publication fail on blanks.
    Fix: git mv "OLD NAME" NEW_NAME.
    Source: submission_rules.adoc, "Directory structure"; the repository's own checks.
    """
    submitters = {s.path for s in subject.submitters} if isinstance(subject, Tree) else set()
    for path, name, _ in entries(subject, round):
        if " " in name:
            more = {"case": "submitter"} if path in submitters else {}
            yield _at(
                subject,
                path,
                message=f'found "{name}"; expected a name without blanks',
                found=name,
                fix=f'git mv "{path}" "{path[: -len(name)]}{name.replace(" ", "_")}"',
                **more,
            )


@rule("S123", WARNING)
def portable_names(subject: Tree | Submitter, round: Round) -> Problems:
    """Names have only characters that every file system and tool can carry.

    Why: other characters are lost or changed when the tree is packed, published or unpacked.
    Fix: rename with ASCII letters, digits, dot, - and _ only.
    Source: names must survive the published repository on every system.
    """
    for path, name, _ in entries(subject, round):
        if not name.isascii() or _AWKWARD.search(name):
            what = "that some systems do not allow" if name.isascii() else "outside ASCII"
            yield _at(
                subject,
                path,
                message=f"found characters {what}; expected ASCII letters, digits, ., - and _",
                found=name,
                case=None,
            )


@rule("S124", ERROR, cases={"code": WARNING})
def no_caches(subject: Submitter, round: Round) -> Problems:
    """No folder __pycache__ and no compiled Python file is part of the tree.

    Why: caches are made by running the code; they are neither source nor result.
    Fix: git rm -r PATH.
    Source: submission_rules.adoc, "Directory structure"; the repository's own checks.
    """
    for path, name, entry in entries(subject, round):
        compiled = isinstance(entry, File) and name.endswith(".pyc")
        if name == "__pycache__" or (compiled and "/__pycache__/" not in f"/{path}"):
            yield _at(
                subject,
                path,
                message="found compiled Python; expected none",
                found=name,
                fix=f"git rm -r {path}",
            )


@rule("S125", ERROR, cases={"code": WARNING})
def no_empty_folders(subject: Tree | Submitter, round: Round) -> Problems:
    """No folder is empty.

    Why: an empty folder is a leftover, or its files were lost.
    Fix: add the files that belong there, or remove the folder: rmdir FOLDER.
    Source: submission_rules.adoc, "Directory structure"; the repository's own checks.
    """
    for path, _, entry in entries(subject, round):
        if isinstance(entry, Folder) and not (entry.files or entry.folders or entry.faults):
            yield _at(
                subject,
                path,
                message="found an empty folder; expected files",
                fix=f"rmdir {path}, or add the files that belong there",
            )


@rule("S126", ERROR, cases={"no-limit": NOTE})
def file_size(subject: Tree | Submitter, round: Round) -> Problems:
    """No file is larger than the round allows.

    Why: the published repository cannot hold larger files.
    Fix: shorten accuracy logs with assay truncate; keep weights and data outside the tree.
    Source: submission_rules.adoc, "Submission"; the checker of the round.
    """
    limit = round.max_file_bytes or _MAX_BYTES
    for path, name, entry in entries(subject, round):
        if isinstance(entry, File) and entry.size > limit:
            yield _at(
                subject,
                path,
                message=f"found {quantity(entry.size, 'byte')}; expected at most "
                f"{quantity(limit, 'byte')}",
                found=entry.size,
                required=limit,
                case=None if round.max_file_bytes else "no-limit",
                fix="assay truncate TREE"
                if name == "mlperf_log_accuracy.json"
                else f"git rm {path}",
            )


_LINKS = {
    "dangling": "to nothing",
    "escaping": "that leaves the tree",
    "loop": "that points back to itself or to a folder above it",
}


@rule("S127", ERROR, cases={"code": WARNING})
def links_sound(subject: Tree | Submitter, round: Round) -> Problems:
    """Every symbolic link points to something inside the tree.

    Why: what is outside the tree is not submitted, so its reader finds nothing.
    Fix: replace the link with the file or folder that it points to.
    Source: submission_rules.adoc, "Directory structure"; the checker of the round.
    """
    for path, _, entry in entries(subject, round):
        if isinstance(entry, File) and entry.state in _LINKS:
            yield _at(
                subject,
                path,
                message=f"found a symbolic link {_LINKS[entry.state]}; expected a file or folder",
                found=entry.state,
            )


@rule("S128", ERROR, cases={"folder": WARNING})
def regular_files(subject: Tree | Submitter, round: Round) -> Problems:
    """Every entry of the tree is a regular file or a folder that can be read.

    Why: named pipes, sockets and devices hold no data that can be submitted.
    Fix: replace it with the regular file that belongs there, readable by everyone.
    Source: submission_rules.adoc, "Directory structure".
    """
    for path, _, entry in entries(subject, round):
        if isinstance(entry, File) and entry.state in ("special", "unreadable"):
            what = "a pipe, socket or device" if entry.state == "special" else "no permission"
            yield _at(
                subject,
                path,
                message=f"found {what}; expected a regular file that can be read",
                found=entry.state,
                case=None,
            )
        elif (
            isinstance(entry, Folder)
            and entry.files
            and _FILE.search(path.lower())
            and isinstance(subject, Submitter)
            and case_of(subject, path) is None
        ):
            yield _at(
                subject,
                path,
                message="found a folder with the name of a file; expected a regular file",
                found="a folder",
                case="folder",
            )


@rule("S129", WARNING)
def names_differ_beyond_case(subject: Tree | Submitter, round: Round) -> Problems:
    """No two names in one folder differ only in upper and lower case.

    Why: on Windows and macOS one of the two replaces the other when the tree is unpacked.
    Fix: rename or merge one of them.
    Source: names must survive the published repository on every system.
    """
    seen: dict[tuple[str, str], str] = {}
    pairs: list[tuple[str, str]] = []
    for path, name, _ in entries(subject, round):
        other = seen.setdefault((path[: -len(name)], name.casefold()), path)
        if other != path:
            pairs.append((other, path))
    if pairs:
        other, path = pairs[0]
        more = f", and {quantity(len(pairs) - 1, 'more pair')}" if len(pairs) > 1 else ""
        keys = dict.fromkeys(key for pair in pairs for key in results_at(subject, pair[1]))
        text = (
            f"found {other.rsplit('/', 1)[-1]} beside {path.rsplit('/', 1)[-1]}{more}; expected "
            "names that differ in more than case"
        )
        yield Problem(text, path=path, found=pairs[:50], results=tuple(keys), count=len(pairs))


@rule("S130", NOTE)
def path_length(submitter: Submitter, round: Round) -> Problems:
    """No path is longer than 260 characters.

    Why: Windows and some archive tools cannot unpack longer ones.
    Fix: shorten the names of the system or of the folders below it.
    Source: names must survive the published repository on every system.
    """
    long = [path for path, _, _ in entries(submitter, round) if len(path) > MAX_PATH]
    if long:
        worst = max(long, key=len)
        text = (
            f"found {quantity(len(long), 'path')} of up to {quantity(len(worst), 'character')}; "
            f"expected at most {number(MAX_PATH)}"
        )
        yield Problem(text, path=worst, found=len(worst), required=MAX_PATH, count=len(long))


@rule("S132", NOTE, cases={"no folder": WARNING})
def no_extra_files(submitter: Submitter, round: Round) -> Problems:
    """The folders of the runs hold only the files that the rules name.

    Why: reviewers have to find out what other files are for.
    Fix: move them into documentation, or remove them with git rm.
    Source: submission_rules.adoc, "Directory structure": performance and accuracy.
    """
    found: dict[str, list[str]] = {}
    keys: dict[str, None] = {}
    for group in submitter.benchmarks:
        for scenario, key in group.keys.items():
            for folder, extra in _extras(group, scenario, round):
                keys[key] = None
                for name in extra:
                    found.setdefault(name, []).append(f"{folder.path}/{name}")
    if found:
        places = sorted(place for many in found.values() for place in many)
        most = sorted(found, key=lambda name: (-len(found[name]), name))
        yield Problem(
            f"found {listed(most)} in the folders of {quantity(len(keys), 'result')}; expected only "
            "the files that the rules name",
            path=places[0].rstrip("/"),
            found=places[:50],
            results=tuple(keys),
            count=len(places),
        )
    for file, what in _instead_of_folders(submitter, round):
        yield Problem(
            f"found a file named {file.name}; expected a folder with the files of that {what}",
            path=file.path,
            found="a file",
            required="a folder",
            fix="restore the folder, or remove the file: nothing is read from it.",
            case="no folder",
        )


def _instead_of_folders(submitter: Submitter, round: Round) -> Iterator[tuple[File, str]]:
    """Files where the folder of a scenario, a compliance test or a test's run would be, and which it is."""
    for top in ("results", "compliance"):
        folder = submitter.folder.folder(top)
        for system in folder.folders.values() if folder is not None else ():
            for benchmark in system.folders.values():
                for name, file in benchmark.files.items():
                    if canonical_scenario(name, round.aliases) is not None:
                        yield file, "scenario"
                for packed in benchmark.folders.values():
                    scenario = packed.whole()
                    for name, file in scenario.files.items():
                        if _TEST.fullmatch(name):
                            yield file, "test"
                    for name, test in scenario.folders.items():
                        if _TEST.fullmatch(name):
                            yield from _instead_of_runs(test.whole())


def _instead_of_runs(test: Folder) -> Iterator[tuple[File, str]]:
    """Of a compliance test; a result without its runs lacks files, which other rules report."""
    performance = test.folders.get("performance")
    for name, file in test.files.items():
        if name in ("accuracy", "performance"):
            yield file, "test"
    for name, file in performance.files.items() if performance is not None else ():
        if _RUN.fullmatch(name):
            yield file, "run"


def _extras(
    group: BenchmarkFolder, scenario: str, round: Round
) -> Iterator[tuple[Folder, list[str]]]:
    """The folders of a result's runs that hold more than the rules name, and what that is."""
    here = group.folder.folders.get(scenario) if group.folder is not None else None
    layout = round.layout
    always = {"mlperf_log_accuracy.json", "mlperf_log_trace.json", *layout.ignored_files}
    documents = {path.rsplit("/", 1)[-1] for path in layout.endpoints.values()}
    always |= documents
    performance = here.folder("performance") if here is not None else None
    runs = [
        below
        for name, below in sorted(performance.folders.items() if performance is not None else ())
        if name.lower() == "ranging" or _RUN.fullmatch(name.lower())
    ]
    accuracy = here.folder("accuracy") if here is not None else None
    for folder, lists in [
        *((run, [layout.performance, layout.power_run]) for run in runs),
        *([(accuracy, [layout.accuracy])] if accuracy is not None else []),
    ]:
        allowed = always | {n for files in lists for n in [*files.required, *files.optional]}
        extra = sorted(
            name
            for name in folder.files
            # What has nearly an endpoints document's name is a finding of its own (P151).
            if name not in allowed and nearest(name, documents, 0.85) is None
        )
        extra += sorted(f"{n}/" for n in folder.folders if n.lower() not in _MEDIA_FOLDERS)
        if extra:
            yield folder, extra
