"""What the rules about files and folders go through: the entries that one thing owns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from checker import wording
from checker.model import Submitter, Tree
from checker.parse.reading import File, Folder
from schemas.round import Round

_SUBMITTED = {"systems", "results", "measurements", "compliance", "documentation"}


def listed(names: Iterable[str], limit: int = 12) -> str:
    """Names as one text, the first ``limit`` of them."""
    return wording.listed(list(names), limit=limit)


def entries(subject: Tree | Submitter, round: Round) -> Iterable[tuple[str, str, File | Folder]]:
    """(path, name, entry) of what one thing owns: the tree its two upper levels, a submitter
    everything below its own folder."""
    return subject.entries if isinstance(subject, Submitter) else _upper(subject, round)


def _upper(subject: Tree, round: Round) -> Iterator[tuple[str, str, File | Folder]]:
    folders = [subject.root] if subject.scope == "tree" else []
    if subject.scope in ("tree", "division"):
        known = divisions_of(subject, round)
        folders += [f for name, f in sorted(subject.root.folders.items()) if name in known]
    for here in folders:
        ignored = round.layout.top_level_ignored if here is subject.root else []
        everything: list[tuple[str, File | Folder]] = [*here.folders.items(), *here.files.items()]
        for name, entry in sorted(everything, key=lambda e: e[0]):
            if entry.path and name not in ignored:
                yield entry.path, name, entry


def divisions_of(tree: Tree, round: Round) -> list[str]:
    """The names of the tree's folders that are divisions."""
    return [name for name in tree.root.folders if tree.scope != "tree" or name in round.divisions]


def _inside(path: str, folder: Folder) -> list[str]:
    return (path[len(folder.path) + 1 :] if folder.path else path).split("/")


def case_of(subject: Tree | Submitter, path: str) -> str | None:
    """``code`` for what is the submitter's own (code, the top level), where order is advice."""
    if isinstance(subject, Tree):
        return None if "/" in path or subject.scope == "division" else "code"
    return None if _inside(path, subject.folder)[0].lower() in _SUBMITTED else "code"


def results_at(subject: Tree | Submitter, path: str) -> tuple[str, ...]:
    """The keys of the results that a file or folder of a submitter belongs to."""
    if isinstance(subject, Tree):
        return ()
    top, *names = _inside(path, subject.folder)
    if top not in ("results", "measurements", "compliance") or not names:
        return ()
    names += ["", ""]
    return tuple(
        key
        for group in subject.benchmarks
        if group.system == names[0] and names[1] in ("", group.directory)
        for folder, key in group.keys.items()
        if names[2].lower() in ("", folder.lower())
    )
