"""A tree on its way to a plan: every file with the path it shall have. Nothing here touches a disk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from assay.prepare.plan import Kind, Plan, Step
from checker.parse.reading import CHUNK, File, Folder
from schemas.round import Round

LOGS = frozenset(
    {
        "mlperf_log_detail.txt", "mlperf_log_summary.txt", "mlperf_log_accuracy.json",
        "mlperf_log_trace.json", "spl.txt", "ptd_logs.txt", "accuracy.txt",
    }
)  # fmt: skip
"""Files whose every byte is in the new tree or in the backup."""

RESULT_TOPS = ("results", "measurements", "compliance")


@dataclass(slots=True)
class Entry:
    """One file: where it is (``source``; None for a text of ours) and the path it shall have.

    content replaces what the source holds. out: it is left out. fixed: its path is final.
    """

    path: str
    source: File | None
    kind: Kind = "keep"
    reasons: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    content: str | None = None
    log: str | None = None
    out: bool = False
    fixed: bool = False

    @property
    def parts(self) -> list[str]:
        """The path's names."""
        return self.path.split("/")

    @property
    def name(self) -> str:
        """The last of them."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def is_log(self) -> bool:
        """Whether it holds what a run wrote."""
        name = self.source.name if self.source is not None else self.name
        return name in LOGS or name.lower().startswith("mlperf_log_")

    def move(self, path: str, reason: str, *rules: str) -> None:
        """Give it another path."""
        if path != self.path and not self.fixed:
            self.path = path
            self._because(reason, rules)
            if self.kind == "keep":
                self.kind = "move"

    def leave_out(self, reason: str, *rules: str) -> None:
        """Take it out of the new tree."""
        self.out = True
        self.kind = "leave-out"
        self.reasons = [reason]
        self.rules = list(rules)

    def edit(self, content: str, reason: str, *rules: str) -> None:
        """Replace its text."""
        self.content = content
        self.kind = "write" if self.source is None else "edit"
        self._because(reason, rules)

    def _because(self, reason: str, rules: Iterable[str]) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)
        self.rules.extend(rule for rule in rules if rule not in self.rules)


@dataclass(slots=True)
class Draft:
    """All entries of a tree, those that are left out too.

    empty: folders without files, which a new tree does not get. decisions: what only a person can
    decide or write.
    """

    round: Round
    entries: list[Entry]
    empty: list[str] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, listing: Folder, round: Round, prefix: str = "") -> Draft:
        """Every file of a listed tree; ``prefix``: the folders of a submission that it belongs in."""
        draft = cls(round, [])
        for folder in listing.walk():
            for fault in folder.faults:
                draft.decisions.append(f"{fault.path}: {fault.message}")
            if folder.path and not folder.files and not folder.folders and not folder.faults:
                draft.empty.append(folder.path)
            for file in folder.files.values():
                entry = Entry(f"{prefix}{file.path}", file)
                if prefix:
                    entry.kind = "move"
                    entry.reasons.append(f"{prefix.rstrip('/')} is where it belongs")
                if file.state != "file":
                    entry.leave_out(_STATES.get(file.state, "it cannot be read"), "S127", "S128")
                elif file.link:
                    entry.reasons.append("a symbolic link is replaced with the file itself")
                    entry.kind = "move"
                draft.entries.append(entry)
        return draft

    def kept(self) -> Iterator[Entry]:
        """The entries of the new tree."""
        return (entry for entry in self.entries if not entry.out)

    def paths(self) -> dict[str, Entry]:
        """The entries of the new tree by their path; of two with one path the first."""
        found: dict[str, Entry] = {}
        for entry in self.kept():
            found.setdefault(entry.path, entry)
        return found

    def below(self, prefix: str) -> list[Entry]:
        """The entries of the new tree below a folder."""
        return [e for e in self.kept() if e.path.startswith(f"{prefix}/")]

    def children(self) -> dict[str, set[str]]:
        """The names in every folder of the new tree."""
        found: dict[str, set[str]] = {}
        for entry in self.kept():
            parts = entry.parts
            for depth in range(len(parts)):
                found.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
        return found

    def add(self, path: str, content: str, reason: str, *rules: str) -> Entry:
        """A text of ours."""
        entry = Entry(
            path=path,
            source=None,
            kind="write",
            reasons=[reason],
            rules=list(rules),
            content=content,
        )
        self.entries.append(entry)
        return entry

    def listing(self, scratch: Path) -> Folder:
        """The new tree as the checker sees one; texts of ours are written below ``scratch``."""
        root = Folder("")
        for number, entry in enumerate(sorted(self.kept(), key=lambda e: e.path)):
            here = root
            *folders, name = entry.parts
            for depth, part in enumerate(folders):
                below = here.folders.get(part)
                if below is None:
                    below = here.folders[part] = Folder("/".join(folders[: depth + 1]))
                here = below
            if entry.content is not None:
                place = scratch / f"{number}"
                data = entry.content.encode("utf-8", "surrogateescape")
                place.write_bytes(data)
                here.files[name] = File(entry.path, str(place), len(data))
            elif entry.source is not None:
                source = entry.source
                here.files[name] = File(entry.path, source.real, source.size)
        for folder in root.walk():
            folder.sort()
        return root

    def plan(self, tree: str) -> Plan:
        """The steps, in the order of their paths."""
        steps = [_step(entry) for entry in self.entries]
        steps += [
            Step(kind="leave-out", path=path, reason="an empty folder", rules=("S125",))
            for path in self.empty
        ]
        steps.sort(key=lambda s: (s.path or s.destination or "", s.destination or ""))
        decisions = list(dict.fromkeys(self.decisions))
        return Plan(tree=tree, round=self.round.name, steps=steps, decisions=decisions)


_STATES = {
    "dangling": "a symbolic link to nothing",
    "escaping": "a symbolic link that leaves the tree",
    "loop": "a symbolic link that points back to itself or to a folder above it",
    "special": "not a regular file",
    "unreadable": "it cannot be read: no permission",
}


def _step(entry: Entry) -> Step:
    source = entry.source
    kept = source is not None and source.state == "file" and entry.is_log
    if (
        entry.kind == "move"
        and source is not None
        and entry.path == source.path
        and not source.link
    ):
        entry.kind, entry.reasons = "keep", []
    whole = kept and (entry.out or entry.kind in ("truncate", "hash"))
    return Step(
        kind=entry.kind,
        reason="; ".join(entry.reasons) or "as it is",
        path=source.path if source is not None else None,
        destination=None if entry.out else entry.path,
        size=source.size if source is not None else 0,
        content=None if entry.out else entry.content,
        log=entry.log,
        backup=source.path if whole and source is not None else None,
        rules=tuple(entry.rules),
    )


def same_bytes(one: Entry, other: Entry) -> bool:
    """Whether two entries hold the same bytes; False where one cannot be read."""
    if one.content is not None or other.content is not None:
        return one.content == other.content
    if one.source is None or other.source is None or one.source.size != other.source.size:
        return False
    if one.source.real == other.source.real:
        return True
    try:
        with Path(one.source.real).open("rb") as left, Path(other.source.real).open("rb") as right:
            while True:
                block = left.read(CHUNK)
                if block != right.read(CHUNK):
                    return False
                if not block:
                    return True
    except OSError:
        return False


def copied(entry: Entry, path: str, reason: str) -> Entry:
    """A second entry with the same bytes, for an inferred result."""
    return replace(
        entry, path=path, kind="infer", reasons=[reason], rules=[], content=entry.content
    )


def real(path: Path | str) -> str:
    """A path as the system has it, links resolved."""
    return os.path.realpath(path)
