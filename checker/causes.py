"""What follows from what: a truncated log is one cause, whatever else is found because of it.

A problem says of which file it is the damage, and which file it presumes whole. Nothing is left
out: a finding that follows from another names it, and reports show it there.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from schemas.report import Finding


class Link(msgspec.Struct, frozen=True):
    """A finding of a file's damage, or the path of the file that it presumes whole, or both."""

    finding: Finding
    damage: bool
    presumed: str | None


def linked(findings: Sequence[Finding], links: Iterable[Link]) -> list[Finding]:
    """The findings, those that follow from a file's damage with the id of that one.

    A file's damage that several findings state is the first of X002's, else the first: the rest
    follow from it too.
    """
    by_finding = {id(link.finding): link for link in links}
    kept = [link for finding in findings if (link := by_finding.get(id(finding))) is not None]
    causes: dict[str | None, Finding] = {}
    for link in sorted(kept, key=lambda link: link.finding.rule != "X002"):
        if link.damage:
            causes.setdefault(link.finding.path, link.finding)
    if not causes:
        return list(findings)
    ids = {id(cause): identity(cause) for cause in causes.values()}
    made = []
    for finding in findings:
        link = by_finding.get(id(finding))
        cause = None
        if id(finding) in ids:
            finding = msgspec.structs.replace(finding, id=ids[id(finding)])
        elif link is not None:
            cause = causes.get(finding.path if link.damage else link.presumed)
        if cause is not None:
            finding = msgspec.structs.replace(finding, follows=ids[id(cause)])
        made.append(finding)
    return made


def identity(finding: Finding) -> str:
    """What makes a finding the same one in the next report: not its line or message, which move."""
    about = finding.subject
    parts = (
        finding.path, finding.pointer, about.division, about.submitter, about.system, about.benchmark,
        about.scenario,
    )  # fmt: skip
    text = "\0".join(part or "" for part in parts)
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    return f"{finding.rule}-{digest[:12]}"


def identified(findings: Iterable[Finding]) -> list[Finding]:
    """All findings of a report, in its order, each with an id of its own.

    One that shares rule and place with earlier ones has its number among them too. A cause keeps
    the plain id, by which others name it.
    """
    findings = list(findings)
    seen: Counter[str] = Counter()
    taken = {finding.id for finding in findings if finding.id}
    made = []
    for finding in findings:
        if not finding.id:
            name = identity(finding)
            seen[name] += 1
            number = seen[name] + (name in taken)
            name = name if number == 1 else f"{name}.{number}"
            finding = msgspec.structs.replace(finding, id=name)
        made.append(finding)
    return made
