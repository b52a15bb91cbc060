"""A plan as data: what happens to every file of a tree, and why. It is printed, saved and carried out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from checker.clean import clean
from checker.wording import quantity

FORMAT = "assay-plan"
FORMAT_VERSION = 1

Kind = Literal["keep", "move", "truncate", "hash", "edit", "infer", "write", "open", "leave-out"]
"""keep: as it is. move: the same bytes under another path. truncate: the accuracy log's two ends, the
whole log goes to the backup. hash: accuracy.txt with the log's SHA-256. edit, write: a text of ours.
infer: a copy for a result that the round computes from another. open: moved to the open division.
leave-out: not in the new tree."""

ORDER: tuple[Kind, ...] = (
    "leave-out", "open", "infer", "move", "truncate", "hash", "edit", "write", "keep",
)  # fmt: skip


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happens to one file.

    path: below TREE, None for a text of ours. destination: below the new tree, None where the file is
    left out. size: bytes of the source. content: the text of an ``edit`` or ``write``. log: for a
    ``hash``, the accuracy log (below TREE) whose SHA-256 is added. backup: below the backup, where
    the source is kept whole. rules: ids of the rules that would complain otherwise.
    """

    kind: Kind
    reason: str
    path: str | None = None
    destination: str | None = None
    size: int = 0
    content: str | None = None
    log: str | None = None
    backup: str | None = None
    rules: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All steps, in the order of their paths.

    decisions: what only a person can decide or write.
    """

    format: str = FORMAT
    format_version: int = FORMAT_VERSION
    tree: str
    round: str
    steps: list[Step]
    decisions: list[str] = []

    def changes(self) -> Iterator[Step]:
        """Every step but those that keep a file as it is."""
        return (step for step in self.steps if step.kind != "keep")

    def count(self, kind: Kind) -> int:
        """How many steps of a kind there are."""
        return sum(step.kind == kind for step in self.steps)


class BadPlan(ValueError):
    """A file is not a saved plan, or not one of a version that is understood."""


def encode(plan: Plan) -> bytes:
    """The plan as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n"


def decode(data: bytes) -> Plan:
    """A saved plan. Raises BadPlan."""
    try:
        plan = msgspec.json.decode(data, type=Plan)
    except msgspec.DecodeError as error:
        raise BadPlan(f"not a plan of assay prepare: {error}") from error
    if plan.format != FORMAT or plan.format_version != FORMAT_VERSION:
        raise BadPlan(f"found a plan of version {plan.format_version}; expected {FORMAT_VERSION}")
    return plan


_TITLES: dict[Kind, str] = {
    "leave-out": "leave out", "open": "to open", "infer": "infer", "move": "move",
    "truncate": "truncate", "hash": "hash", "edit": "edit", "write": "write", "keep": "keep",
}  # fmt: skip


def table(plan: Plan) -> str:
    """The plan for people: a line for each kind of step, folder and reason, then what is left to do."""
    lines = []
    for kind in ORDER:
        if kind == "keep":
            continue
        for shown, count, reason in _grouped(s for s in plan.steps if s.kind == kind):
            more = f" ({count:,} files)" if count > 1 else ""
            lines.append(f"{_TITLES[kind]:<9}  {shown}{more}: {reason}")
    kept = plan.count("keep")
    lines.append(f"{'keep':<9}  {quantity(kept, 'file')} as they are")
    lines += [f"{'decide':<9}  {clean(text, 500)}" for text in plan.decisions]
    return "\n".join(lines) + "\n"


def _grouped(steps: Iterable[Step]) -> Iterator[tuple[str, int, str]]:
    """(what, how many, why): files that go from one folder to another for one reason are one line."""
    groups: dict[tuple[str, str], tuple[str, list[Step]]] = {}
    for step in steps:
        left, right = _different(step.path or "", step.destination or "")
        found = groups.setdefault((f"{left}>{right}", step.reason), (step.reason, []))
        found[1].append(step)
    for reason, members in groups.values():
        first = members[0]
        source, target = first.path, first.destination
        if len(members) > 1 and source and target:
            source, target = _different(source, target)
        elif len(members) > 1 and (one := source or target):
            shared = _shared([s.path or s.destination or "" for s in members])
            source, target = (shared or one, None)
        yield _arrow(source or target or ".", target if source else None), len(members), reason


def _arrow(source: str, target: str | None) -> str:
    """``folder/{old -> new}``: what two paths share is written once."""
    if target is None or source == target:
        return clean(source, 300)
    left, right = source.split("/"), target.split("/")
    shared = 0
    while shared < min(len(left), len(right)) and left[shared] == right[shared]:
        shared += 1
    before, after = "/".join(left[shared:]) or ".", "/".join(right[shared:]) or "."
    inner = f"{clean(before, 300)} -> {clean(after, 300)}"
    return f"{clean('/'.join(left[:shared]), 300)}/{{{inner}}}" if shared else inner


def _different(source: str, target: str) -> tuple[str, str]:
    """Two paths without the end that they share, at least up to their folders."""
    if not source or not target:
        one = (source or target).rpartition("/")[0]
        return (one, "") if source else ("", one)
    left, right = source.split("/"), target.split("/")
    while len(left) > 1 and len(right) > 1 and left[-1] == right[-1]:
        left.pop()
        right.pop()
    return "/".join(left), "/".join(right)


def _shared(paths: list[str]) -> str:
    """The folder that all paths lie in."""
    parts = [path.split("/")[:-1] for path in paths]
    shared = []
    for names in zip(*parts, strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    return "/".join(shared) + "/…" if shared else ""
