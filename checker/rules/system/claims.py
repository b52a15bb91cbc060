"""Family D: what a description claims: who, what and where, in the words of the rules."""

from __future__ import annotations

from typing import Any

from checker.discover import UNKNOWN
from checker.model import System
from checker.near import hint, nearest
from checker.parse.documents import Document
from checker.rule import ERROR, NOTE, WARNING, Problem, Problems, rule
from checker.rules.structure.entries import listed
from checker.rules.system.values import at, is_empty, leftover
from checker.wording import shown
from schemas.round import Round


def _differs(system: System, document: Document, key: str, folder: str) -> Problems:
    found = document.fields.get(key)
    if is_empty(key, found) or not system.complete or folder == UNKNOWN:
        return
    if not (isinstance(found, str) and found.strip().casefold() == folder.casefold()):
        yield Problem(
            f"found {key} {shown(found)}; expected {folder}, as the folder",
            **at(document, key),
            found=found,
            required=folder,
            case=leftover(system),
            fix=f'write "{key}": "{folder}"',
        )


@rule("D106", ERROR, cases={"leftover": NOTE})
def division_matches(system: System, round: Round, document: Document, division: str) -> Problems:
    """The description's division is that of its folder.

    Why: the tables follow the folder, readers the description.
    Fix: correct the field, or move the submission.
    Source: submission_rules.adoc, "System description": division.
    """
    yield from _differs(system, document, "division", division)


@rule("D107", ERROR, cases={"leftover": NOTE})
def submitter_matches(system: System, round: Round, document: Document, submitter: str) -> Problems:
    """The description's submitter is that of its folder.

    Why: the tables follow the folder, readers the description.
    Fix: correct the field, or rename the folder.
    Source: submission_rules.adoc, "System description": submitter.
    """
    yield from _differs(system, document, "submitter", submitter)


@rule("D108", ERROR, cases={"leftover": WARNING, "spelling": WARNING})
def status_allowed(
    system: System, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """status is one of the availability categories.

    Why: it says whether the system can be bought, will be, or is research.
    Fix: write available, preview or rdi.
    Source: submission_rules.adoc, "System description": status.
    """
    allowed, found = round.system_description.status, fields.get("status")
    if not allowed or is_empty("status", found) or str(found).lower() in allowed:
        return
    plain = isinstance(found, str) and found.strip().lower() in allowed
    near = nearest(str(found), allowed, 0.7)
    yield Problem(
        f"found status {shown(found)}; expected {listed(allowed)}{'' if plain else hint(near)}",
        **at(document, "status"),
        found=found,
        required=allowed,
        case="spelling" if plain else leftover(system),
        fix=f'write "status": "{near}"' if near else None,
    )


@rule("D109", ERROR, cases={"leftover": WARNING, "spelling": WARNING})
def system_type_allowed(
    system: System, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """system_type is datacenter, edge or both.

    Why: it decides which benchmarks and scenarios are required.
    Fix: write it as in the rules, in lower case and without blanks.
    Source: submission_rules.adoc, "System description": system_type.
    """
    allowed, found = round.system_description.system_type, fields.get("system_type")
    if not allowed or is_empty("system_type", found) or found in allowed:
        return
    read = f", read as {system.category}" if system.category else ""
    yield Problem(
        f"found system_type {shown(found)}{read}; expected {'; '.join(allowed)}",
        **at(document, "system_type"),
        found=found,
        required=allowed,
        case="spelling" if system.category else leftover(system),
        fix=f'write "system_type": "{system.category}"' if system.category else None,
    )


@rule("D118", NOTE)
def versions_stated(
    system: System, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """framework and operating_system name versions.

    Why: nobody can reproduce a result without knowing which release made it.
    Fix: add the versions, for example "TensorRT 10.11, CUDA 12.9" and "Ubuntu 24.04".
    Source: submission_rules.adoc, "System description": framework, operating_system.
    """
    for key in ("framework", "operating_system"):
        value = fields.get(key)
        if isinstance(value, str) and value.strip() and not any(c.isdigit() for c in value):
            text = f"found {key} {shown(value)} without a version; expected name and version"
            yield Problem(text, **at(document, key), found=value[:100], required="name and version")
