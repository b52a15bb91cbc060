"""Family D: a description is there, has the round's fields, and they hold plain values."""

from __future__ import annotations

import math
from typing import Any

from checker.model import Submitter, System
from checker.near import MAX_HINTS, hint, nearest
from checker.parse.documents import Document
from checker.rule import ERROR, NOTE, WARNING, Problem, Problems, rule
from checker.rules.structure.entries import listed
from checker.rules.system.values import COUNTS, at, is_empty, leftover
from checker.wording import number, quantity, shown
from schemas.round import Round

MAX_TEXT = 20_000
"""Longest text in characters that a field may hold; published ones stay below 3000."""

_SYNONYMS = {
    "host_network_card_count": ("host_networking_card_count", "host_nic_count"),
    "host_processor_core_count": ("host_processor_vcpu_count",),
    "accelerator_on-chip_memories": ("accelerator_on_chip_memories",),
    "system_name": ("system_desc_id",),
}
_EXTRA = {"is_network", "system_power_capacity", "host_network_card_count", "system_type_detail"}
_PLACEHOLDERS = {
    "tbd", "tba", "todo", "to do", "to be determined", "to be added", "fixme", "xxx", "?", "??",
    "???", ".", "..", "...", "-", "--", "undefined", "unset", "null", "placeholder", "fill in",
    "fill me",
}  # fmt: skip
_IDENTITY = ("division", "submitter", "status", "system_name", "framework", "operating_system")
"""What every reader needs, also in rounds that did not look whether it is empty."""


@rule("D101", ERROR, needs="complete")
def description_present(system: System, round: Round) -> Problems:
    """Every system with results is described in systems/<system>.json.

    Why: without the description nobody knows what was measured.
    Fix: add systems/<system>.json with the name of the folder in results, or remove the folder.
    Source: submission_rules.adoc, "System description".
    """
    if system.document is None:
        near, folder = system.meant, system.path.rpartition("/")[0]
        text = f"found no description of {system.name}" + (
            f", but {near}.json, which has no results{hint(f'{system.name}.json')}" if near else ""
        )
        yield Problem(
            text,
            found=f"{near}.json" if near else None,
            required=f"{system.name}.json",
            fix=f"git mv {folder}/{near}.json {system.path}" if near else None,
        )


@rule("D102", ERROR, cases={"leftover": WARNING})
def description_is_object(system: System, round: Round, document: Document) -> Problems:
    """A description is one JSON object of field names and values.

    Why: no field can be found in anything else.
    Fix: write the description as {"field": "value", ...}.
    Source: submission_rules.adoc, "System description".
    """
    unread = any(fault.kind in ("syntax", "empty") for fault in document.faults)
    unread |= document.value is None and any(f.kind != "encoding" for f in document.faults)
    if not unread and not isinstance(document.value, dict):
        text = f"found {_kind(document.value)}; expected an object"
        yield Problem(text, found=_kind(document.value), required="object", case=leftover(system))


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _missing(fields: dict[str, Any], round: Round) -> dict[str, str | None]:
    """Required fields that are missing, each with the key that was probably meant for it."""
    known = _known(round)
    unknown = [key for key in fields if key not in known][:MAX_HINTS]
    found = {}
    for key in round.system_description.required:
        if key not in fields:
            synonym = next((name for name in _SYNONYMS.get(key, ()) if name in fields), None)
            found[key] = synonym or nearest(key, unknown, 0.8)
    return found


def _known(round: Round) -> set[str]:
    known = round.system_description
    return {*known.required, *known.optional, *known.network, *known.power}


@rule("D103", ERROR, cases={"leftover": WARNING, "synonym": WARNING})
def required_fields(system: System, round: Round, document: Document) -> Problems:
    """The description has every field that the round requires.

    Why: readers compare systems field by field.
    Fix: add the field; where it does not apply, write "N/A".
    Source: submission_rules.adoc, "System description": fields.
    """
    if not isinstance(document.value, dict):
        return
    fields = document.fields
    for key, near in _missing(fields, round).items():
        synonym = near in _SYNONYMS.get(key, ()) and bool(fields[str(near)])
        instead = f", but {near} in its place" if synonym else hint(near)
        yield Problem(
            f"found no field {key}{instead}",
            path=document.path,
            line=document.line_of(near) if near else None,
            pointer=f"/{key}",
            found=near,
            required=key,
            case="synonym" if synonym else leftover(system),
            fix=f'rename "{near}" to "{key}"' if near else f'add "{key}": "N/A" or its value',
        )
    for choice in round.system_description.one_of:
        if not set(choice) & set(fields):
            text = f"found none of {listed(choice)}; expected one of them"
            yield Problem(text, path=document.path, required=choice, case=leftover(system))


@rule("D104", ERROR, cases={"leftover": WARNING, "blank": WARNING, "unlisted": NOTE})
def fields_filled(
    system: System, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """The fields that need an answer have one.

    Why: an empty field tells the reader nothing.
    Fix: fill in the field; where it does not apply, write "N/A".
    Source: submission_rules.adoc, "System description": meaningful response required.
    """
    wanted = round.system_description.non_empty
    for key in dict.fromkeys([*wanted, *_IDENTITY]):
        if key not in fields or not is_empty(key, fields[key]):
            continue
        blank = isinstance(fields[key], str) and bool(fields[key])
        case = "unlisted" if key not in wanted else leftover(system) or ("blank" if blank else None)
        yield Problem(
            f"found {'only blanks' if blank else 'nothing'} in {key}; expected an answer",
            **at(document, key),
            found=fields[key],
            required="a meaningful response",
            case=case,
        )


@rule("D105", WARNING)
def fields_meaningful(
    system: System, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """The fields that need an answer do not hold a placeholder.

    Why: "TBD" tells the reader as little as an empty field.
    Fix: fill in the field; where it does not apply, write "N/A".
    Source: submission_rules.adoc, "System description": meaningful response required.
    """
    wanted = round.system_description.non_empty or _IDENTITY[3:]
    keys = [key for key in wanted if str(fields.get(key)).strip().lower() in _PLACEHOLDERS]
    keys = [key for key in keys if isinstance(fields[key], str) and key not in COUNTS]
    if keys:
        yield Problem(
            f"found the placeholder {shown(fields[keys[0]])} in {listed(keys)}; expected an answer",
            **at(document, keys[0]),
            found=fields[keys[0]],
            required="a meaningful response",
            count=len(keys),
        )


@rule("D117", NOTE, cases={"misspelt": WARNING})
def fields_known(
    system: System, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """The description has only fields that the round knows.

    Why: a field with a misspelt name is not read.
    Fix: correct the name, or move the content to hw_notes or sw_notes.
    Source: submission_rules.adoc, "System description": fields.
    """
    known = _known(round) | _EXTRA
    known |= {name for names in _SYNONYMS.values() for name in names}
    known |= {name for names in round.system_description.one_of for name in names}
    meant = set(_missing(fields, round).values())
    others = []
    for key in [key for key in fields if key not in known and key not in meant][:MAX_HINTS]:
        near = nearest(key, known, 0.85)
        # A field of its own may be near to one that is there as well (host_processor_url).
        if near is None or not _is_slip(key, near):
            others.append(key)
            continue
        yield Problem(
            f"found the field {key}{hint(near)}",
            **at(document, key),
            found=key,
            required=near,
            case="misspelt",
            fix=f'rename "{key}" to "{near}"',
        )
    if others:
        text = f"found {listed(others)}; expected only fields of {round.name}"
        yield Problem(text, **at(document, others[0]), found=others[:50], count=len(others))


def _is_slip(key: str, near: str) -> bool:
    """Whether a name differs from a known one by at most two letters."""
    plain, other = ("".join(c for c in k.casefold() if c not in " _.-\t\n") for k in (key, near))
    row = list(range(len(other) + 1))
    for i, a in enumerate(plain, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1] <= 2


@rule("D119", WARNING, cases={"parts": NOTE})
def field_types(
    system: System, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """Fields hold text or numbers, of a length that a table can show.

    Why: tables and other tools expect plain values.
    Fix: write the value as text; join several values with commas.
    Source: submission_rules.adoc, "System description": the sample's values are text and numbers.
    """
    known = round.system_description
    filled = set(known.non_empty)
    for key in dict.fromkeys((*known.required, *known.network, *known.optional)):
        value = fields.get(key)
        if key not in fields or key == "is_network" or (key in filled and is_empty(key, value)):
            continue
        case = None
        if value is None or isinstance(value, bool | list | dict):
            # An object of texts (the software stack, part by part) is common and can be read.
            parts = list(value.values()) if isinstance(value, dict) else value
            if isinstance(parts, list) and parts and all(isinstance(p, str | int) for p in parts):
                case = "parts"
            found, required = _kind(value), "text or a number"
        elif isinstance(value, float) and not math.isfinite(value):
            found, required = number(value), "a finite number"
        elif isinstance(value, str) and len(value) > MAX_TEXT:
            found, required = quantity(len(value), "character"), f"at most {number(MAX_TEXT)}"
        else:
            continue
        text = f"found {found} in {key}; expected {required}"
        yield Problem(text, **at(document, key), found=found, required=required, case=case)


@rule("D120", WARNING, needs="complete")
def copies_agree(submitter: Submitter, round: Round) -> Problems:
    """A copy of a system's description among its results agrees with the description.

    Why: nobody can say which of two descriptions of one system is right.
    Fix: git rm the copy, or make it equal to systems/<system>.json.
    Source: submission_rules.adoc, "System description": one description per system.
    """
    described = {system.name: system for system in submitter.systems if system.document is not None}
    for name, copy in submitter.copies:
        system = described.get(name)
        if system is None or not isinstance(copy.value, dict) or "submitter" not in copy.value:
            continue
        fields = system.fields
        differ = sorted(k for k in {*fields, *copy.value} if fields.get(k) != copy.value.get(k))
        if differ:
            yield Problem(
                f"found other values than in {system.path} for {listed(differ)}; expected the same",
                path=copy.path,
                line=copy.line_of(differ[0]),
                found=copy.value.get(differ[0]),
                required=fields.get(differ[0]),
                results=system.results,
                fix=f"git rm {copy.path}",
            )


@rule("D121", NOTE)
def power_fields(submitter: Submitter, round: Round) -> Problems:
    """The description of a system with power results has the additional fields on power.

    Why: power depends on supplies, disks, network cards and firmware that it otherwise omits.
    Fix: add the fields to systems/<system>.json.
    Source: submission_rules.adoc, "System description": power submissions.
    """
    measured = {
        group.system
        for group in submitter.benchmarks
        for below in (group.folder.folders.values() if group.folder is not None else ())
        if below.folder("performance", "power") is not None
    }
    power = round.system_description.power
    lacking = [
        (system, missing)
        for system in submitter.systems
        if system.name in measured and system.fields
        if (missing := [key for key in power if key not in system.fields])
    ]
    if lacking:
        first = lacking[0][0]
        missing = list(dict.fromkeys(key for _, keys in lacking for key in keys))
        which = f" in {len(lacking)} descriptions" if len(lacking) > 1 else ""
        yield Problem(
            f"found no {listed(missing, 20)}{which}; expected them for a power measurement",
            path=first.path,
            required=missing,
            results=tuple(key for system, _ in lacking for key in system.results),
            count=len(lacking),
        )
