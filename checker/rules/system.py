"""Family D: the system description systems/<system>.json."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from checker.discover import UNKNOWN
from checker.model import Result, Submitter, System
from checker.parse.documents import Document
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, rule
from checker.rules.structure import MAX_HINTS, listed, nearest
from schemas.report import Severity
from schemas.round import Round

COUNTS = ("number_of_nodes", "host_processors_per_node", "accelerators_per_node")
_MOST = {"number_of_nodes": 4096, "host_processors_per_node": 64, "accelerators_per_node": 256}
_LEAST = {"number_of_nodes": 1, "host_processors_per_node": 1, "accelerators_per_node": 0}
MAX_TEXT = 20_000
"""Longest text in characters that a field may hold; published ones stay below 3000."""

_SYNONYMS = {
    "host_network_card_count": ("host_networking_card_count", "host_nic_count"),
    "host_processor_core_count": ("host_processor_vcpu_count",),
    "accelerator_on-chip_memories": ("accelerator_on_chip_memories",),
    "system_name": ("system_desc_id",),
}
_NOTHING = {"", "n/a", "na", "n.a.", "none", "-", "--", "null", "not applicable"}
_PLACEHOLDERS = {
    "tbd", "tba", "todo", "to do", "to be determined", "to be added", "fixme", "xxx", "?", "??",
    "???",
    ".", "..", "...", "-", "--", "undefined", "unset", "null", "placeholder", "fill in", "fill me",
}  # fmt: skip
_BEFORE_NAME = re.compile(r"(?<![0-9A-Za-z.])(\d{1,4})[xX](?=[A-Za-z])")
_AFTER_NAME = re.compile(r"(?<=[0-9A-Z_-])x(?!(?:86|64)(?!\d))(\d{1,4})(?![0-9A-Za-z.])")
_MODULES = re.compile(
    r"^\s*(\d+)\s*(?:x|×|\*|slots?\s*/)\s*(\d+(?:\.\d+)?)\s*([MGT])i?B\b", re.IGNORECASE
)
_CAPACITY = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([MGT])i?B?\s*$", re.IGNORECASE)
_NO_ECC = re.compile(
    r"\bnon-?\s?ecc\b|\bno ecc\b|\becc\b[^.;,]{0,15}\b(?:off|disabled)\b", re.IGNORECASE
)
_GIGA = {"M": 1 / 1024, "G": 1.0, "T": 1024.0}


def _document(system: System) -> Document:
    """The description, where it is an object. Raises NotJudged."""
    document = system.document
    if document is None or not isinstance(document.value, dict):
        raise NotJudged
    return document


def _weight(system: System, otherwise: Severity | None = None) -> Severity | None:
    """A description that no result needs is a leftover: what is wrong in it is a warning."""
    return otherwise if system.has_results else WARNING


def _at(document: Document, key: str) -> dict[str, Any]:
    return {"path": document.path, "line": document.line_of(key), "pointer": f"/{key}"}


def whole(value: Any) -> int | None:
    """A count: a whole number, also one that is written as text; None when it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value == int(value) else None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,18}\s*", value):
        return int(value)
    return None


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def _is_empty(key: str, value: Any) -> bool:
    """Empty as the rules mean it: 0 says something where things are counted."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, bool | int | float):
        return value is False or (value == 0 and key not in COUNTS and not key.endswith("_count"))
    return not value


@rule("D101", ERROR)
def description_present(system: System, round: Round) -> Iterator[Problem]:
    """Every system with results is described in systems/<system>.json.

    Why: without the description nobody knows what was measured.
    Fix: add systems/<system>.json, named exactly as the folder in results/, or remove the folder.
    Source: submission_rules.adoc, "System description".
    """
    if not system.complete:
        raise NotJudged
    if system.document is None:
        yield Problem(
            f"results/{system.name} has no description: {system.path} is missing",
            required=system.path,
        )  # fmt: skip


@rule("D102", ERROR, needs="document")
def description_is_object(system: System, round: Round) -> Iterator[Problem]:
    """A description is one JSON object of field names and values.

    Why: no field can be found in anything else.
    Fix: write the description as {"field": "value", ...}.
    Source: submission_rules.adoc, "System description".
    """
    document = system.document
    if document is None or any(fault.kind in ("syntax", "empty") for fault in document.faults):
        raise NotJudged
    if not isinstance(document.value, dict) and not _unread(document):
        yield Problem(
            f"{system.path} holds a {_kind(document.value)}, an object was asked for",
            found=_kind(document.value), required="object", severity=_weight(system),
        )  # fmt: skip


def _unread(document: Document) -> bool:
    return document.value is None and any(fault.kind != "encoding" for fault in document.faults)


def _kind(value: Any) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def _missing(system: System, round: Round) -> Iterator[tuple[str, str | None]]:
    """Required fields that are missing, each with the key that was probably meant for it."""
    fields = _document(system).fields
    description = round.system_description
    known = {*description.required, *description.optional, *description.network, *description.power}
    unknown = [key for key in fields if key not in known][:MAX_HINTS]
    for key in description.required:
        if key in fields:
            continue
        synonym = next((name for name in _SYNONYMS.get(key, ()) if name in fields), None)
        yield key, synonym or nearest(key, unknown, 0.8)


@rule("D103", ERROR, needs="document")
def required_fields(system: System, round: Round) -> Iterator[Problem]:
    """The description has every field that the round requires.

    Why: readers compare systems field by field.
    Fix: add the field; where it does not apply, say so ("N/A").
    Source: submission_rules.adoc, "System description": fields.
    """
    document = _document(system)
    for key, near in _missing(system, round):
        synonym = near is not None and near in _SYNONYMS.get(key, ())
        hint = f"; {near} stands in its place" if synonym else f"; was it meant by {near}?"
        yield Problem(
            f"{document.path} has no field {key}{hint if near else ''}",
            path=document.path, line=document.line_of(near) if near else None, pointer=f"/{key}",
            found=near, required=key,
            severity=_weight(system, WARNING if synonym and document.fields[str(near)] else None),
            fix=f"rename {near} to {key}" if near else None,
        )  # fmt: skip
    for choice in round.system_description.one_of:
        if not set(choice) & set(document.fields):
            yield Problem(
                f"{document.path} has none of {' or '.join(choice)}", path=document.path,
                required=choice, severity=_weight(system),
            )  # fmt: skip


@rule("D104", ERROR, needs="document")
def fields_filled(system: System, round: Round) -> Iterator[Problem]:
    """The fields that need an answer have one.

    Why: an empty field tells the reader nothing.
    Fix: fill the field; where it does not apply, say so ("N/A").
    Source: submission_rules.adoc, "System description": meaningful response required.
    """
    document = _document(system)
    for key in round.system_description.non_empty:
        if key in document.fields and _is_empty(key, document.fields[key]):
            yield Problem(
                f"{key} is empty", **_at(document, key), found=document.fields[key],
                required="a meaningful response", severity=_weight(system),
            )  # fmt: skip


@rule("D105", WARNING, needs="document")
def fields_meaningful(system: System, round: Round) -> Iterator[Problem]:
    """The fields that need an answer do not hold a placeholder.

    Why: "TBD" tells the reader as little as an empty field.
    Fix: fill the field; where it does not apply, say "N/A".
    Source: submission_rules.adoc, "System description": meaningful response required.
    """
    document = _document(system)
    for key in round.system_description.non_empty or (
        "system_name",
        "framework",
        "operating_system",
    ):
        value = document.fields.get(key)
        if key not in COUNTS and isinstance(value, str) and value.strip().lower() in _PLACEHOLDERS:
            yield Problem(
                f"{key} is {value!r}, which says nothing", **_at(document, key), found=value,
                required="a meaningful response",
            )  # fmt: skip


def _same(found: Any, folder: str) -> bool:
    return isinstance(found, str) and found.strip().casefold() == folder.casefold()


@rule("D106", ERROR, needs="document")
def division_matches(system: System, round: Round) -> Iterator[Problem]:
    """The description's division is that of the folder it lies in.

    Why: the tables follow the folder, readers the description.
    Fix: correct the field, or move the submission.
    Source: submission_rules.adoc, "System description": division.
    """
    document = _document(system)
    found = document.fields.get("division")
    if "division" not in document.fields or _is_empty("division", found) or not system.complete:
        raise NotJudged
    if system.division != UNKNOWN and not _same(found, system.division):
        yield Problem(
            f"division is {found!r}, the folder's is {system.division!r}", **_at(document,
            "division"),
            found=found, required=system.division, severity=_weight(system),
        )  # fmt: skip


@rule("D107", ERROR, needs="document")
def submitter_matches(system: System, round: Round) -> Iterator[Problem]:
    """The description's submitter is that of the folder it lies in.

    Why: the tables follow the folder, readers the description.
    Fix: correct the field, or rename the folder.
    Source: submission_rules.adoc, "System description": submitter.
    """
    document = _document(system)
    found = document.fields.get("submitter")
    if "submitter" not in document.fields or _is_empty("submitter", found) or not system.complete:
        raise NotJudged
    if system.submitter != UNKNOWN and not _same(found, system.submitter):
        yield Problem(
            f"submitter is {found!r}, the folder's is {system.submitter!r}",
            **_at(document, "submitter"), found=found, required=system.submitter,
            severity=_weight(system),
        )  # fmt: skip


@rule("D108", ERROR, needs="document")
def status_allowed(system: System, round: Round) -> Iterator[Problem]:
    """status is one of the availability categories.

    Why: it says whether the system can be bought, will be, or is research.
    Fix: write available, preview or rdi.
    Source: submission_rules.adoc, "System description": status.
    """
    document = _document(system)
    allowed = round.system_description.status
    found = document.fields.get("status")
    if not allowed or "status" not in document.fields or _is_empty("status", found):
        raise NotJudged
    if isinstance(found, str) and found.lower() in allowed:
        return
    plain = isinstance(found, str) and found.strip().lower() in allowed
    near = nearest(str(found), allowed, 0.7)
    hint = f"; did you mean {near}?" if near and not plain else ""
    yield Problem(
        f"status is {found!r}; allowed are {listed(allowed)}{hint}", **_at(document, "status"),
        found=found, required=allowed, severity=WARNING if plain else _weight(system),
    )  # fmt: skip


@rule("D109", ERROR, needs="document")
def system_type_allowed(system: System, round: Round) -> Iterator[Problem]:
    """system_type is datacenter, edge or both.

    Why: it decides which benchmarks and scenarios are required.
    Fix: write it as the rules do, in lower case and without blanks.
    Source: submission_rules.adoc, "System description": system_type.
    """
    document = _document(system)
    allowed = round.system_description.system_type
    found = document.fields.get("system_type")
    if not allowed or "system_type" not in document.fields or _is_empty("system_type", found):
        raise NotJudged
    if found in allowed:
        return
    readable = system.category is not None
    yield Problem(
        f"system_type is {found!r}" + (f", read as {system.category}" if readable else "")
        + f"; allowed are {'; '.join(allowed)}",
        **_at(document, "system_type"), found=found, required=allowed,
        severity=WARNING if readable else _weight(system),
    )  # fmt: skip


@rule("D110", WARNING, needs="document")
def counts_readable(system: System, round: Round) -> Iterator[Problem]:
    """Counts of nodes, processors and accelerators are whole numbers.

    Why: tables and totals are computed from them; the official checker of v6.1 ends with a traceback
        where a number of nodes or accelerators is a word.
    Fix: write the number alone; put explanations into hw_notes. A system without accelerators
        has 0 of them.
    Source: submission_rules.adoc, "System description": counts per node.
    """
    document = _document(system)
    for key in round.system_description.numeric or COUNTS:
        value = document.fields.get(key)
        if key in document.fields and not _is_empty(key, value) and whole(value) is None:
            yield Problem(
                f"{key} is {str(value)[:100]!r}, a whole number was asked for", **_at(document,
                key),
                found=value, required="a whole number",
            )  # fmt: skip


@rule("D111", WARNING, needs="document")
def counts_sensible(system: System, round: Round) -> Iterator[Problem]:
    """Counts of nodes, processors and accelerators are within what can be built.

    Why: a slip of a key gives a system that cannot exist, and wrong totals in the tables.
    Fix: correct the number; counts are per node, except the nodes themselves.
    Source: submission_rules.adoc, "System description": counts per node.
    """
    document = _document(system)
    for key in COUNTS:
        count = whole(document.fields.get(key))
        if count is not None and not _LEAST[key] <= count <= _MOST[key]:
            yield Problem(
                f"{key} is {count}, {_LEAST[key]} to {_MOST[key]} is sensible", **_at(document,
                key),
                found=count, required=f"{_LEAST[key]} to {_MOST[key]}",
            )  # fmt: skip


def counts_in_name(name: str) -> list[int]:
    """The counts written in a system's name: 8xMI300X, H200-SXM-141GBx8."""
    found = [*_BEFORE_NAME.finditer(name), *_AFTER_NAME.finditer(name)]
    return [int(match.group(1)) for match in found]


@rule("D112", WARNING, needs="document")
def name_count_agrees(system: System, round: Round) -> Iterator[Problem]:
    """A count in the system's name is a count that the description states.

    Why: one of the two is wrong, and results per accelerator are computed from it.
    Fix: correct accelerators_per_node and number_of_nodes, or the name.
    Source: submission_rules.adoc, "System description": system_name identifies the hardware.
    """
    document = _document(system)
    nodes, processors, accelerators = (whole(document.fields.get(key)) for key in COUNTS)
    counts = counts_in_name(system.name)
    if not counts or nodes is None or accelerators is None:
        raise NotJudged
    stated = {nodes, accelerators, nodes * accelerators}
    if processors is not None:
        stated |= {processors, nodes * processors}
    if not set(counts) & stated:
        yield Problem(
            f"the name says {listed(f'x{count}' for count in counts)}, the description says "
            f"{nodes} nodes with {accelerators} accelerators each",
            **_at(document, "accelerators_per_node"), found=counts, required=sorted(stated),
        )  # fmt: skip


@rule("D113", WARNING, needs="document")
def accelerators_consistent(system: System, round: Round) -> Iterator[Problem]:
    """Accelerators are named where there are some, and only there.

    Why: a model without a count, or a count without a model, is half an answer.
    Fix: correct accelerators_per_node or accelerator_model_name ("N/A" without accelerators).
    Source: submission_rules.adoc, "System description": accelerator fields.
    """
    document = _document(system)
    count = whole(document.fields.get("accelerators_per_node"))
    model = document.fields.get("accelerator_model_name")
    if count is None or "accelerator_model_name" not in document.fields:
        raise NotJudged
    if count == 0 and not _is_nothing(model):
        yield Problem(
            f"accelerators_per_node is 0 and accelerator_model_name is {str(model)[:100]!r}",
            **_at(document, "accelerator_model_name"), found=model, required="N/A",
        )  # fmt: skip
    elif count > 0 and isinstance(model, str) and model.strip() and _is_nothing(model):
        yield Problem(
            f"accelerators_per_node is {count} and accelerator_model_name is {model!r}",
            **_at(document, "accelerator_model_name"), found=model, required="the model's name",
        )  # fmt: skip


@rule("D114", NOTE, needs="document")
def memory_adds_up(system: System, round: Round) -> Iterator[Problem]:
    """The memory modules add up to the memory capacity.

    Why: 12 modules of 32 GB are 384 GB; where the two differ one of them is wrong.
    Fix: correct host_memory_capacity or host_memory_configuration.
    Source: submission_rules.adoc, "System description": host memory.
    """
    document = _document(system)
    modules = _MODULES.match(str(document.fields.get("host_memory_configuration", "")))
    capacity = _CAPACITY.match(str(document.fields.get("host_memory_capacity", "")))
    if modules is None or capacity is None:
        raise NotJudged
    product = int(modules[1]) * float(modules[2]) * _GIGA[modules[3].upper()]
    stated = float(capacity[1]) * _GIGA[capacity[2].upper()]
    nodes, processors = (whole(document.fields.get(key)) or 1 for key in COUNTS[:2])
    # 1 TB may be 1000 or 1024 GB, and a module's size may be meant per socket or per node.
    factors = (1, nodes, processors, nodes * processors)
    if not any(0.9 <= stated / (product * f) <= 1.1 for f in factors if product * f > 0):
        yield Problem(
            f"host_memory_configuration is {modules[0].strip()} ({product:g} GB), "
            f"host_memory_capacity is {capacity[0].strip()}",
            **_at(document, "host_memory_capacity"), found=capacity[0].strip(),
            required=f"{product:g} GB",
        )  # fmt: skip


@rule("D115", WARNING, needs="document")
def datacenter_ecc(system: System, round: Round) -> Iterator[Problem]:
    """The description of a datacenter system does not say that its memory lacks ECC.

    Why: datacenter systems must correct memory errors.
    Fix: turn ECC on, or submit the system as an edge system.
    Source: inference_rules.adoc, "Datacenter": ECC memory.
    """
    document = _document(system)
    if "datacenter" not in (system.category or ""):
        raise NotJudged
    for key, value in document.fields.items():
        found = _NO_ECC.search(value) if isinstance(value, str) else None
        if found:
            yield Problem(
                f"{key} says {found[0]!r}, and system_type is {system.category}", **_at(document,
                key),
                found=found[0], required="ECC",
            )  # fmt: skip


@rule("D116", NOTE, needs="document")
def datacenter_network(system: System, round: Round) -> Iterator[Problem]:
    """The description of a datacenter system says how it is connected.

    Why: a datacenter system must be able to take in the queries that it answers.
    Fix: name the network, the number and rate of its cards, and the topology.
    Source: inference_rules.adoc, datacenter bandwidth; submission_rules.adoc, host_networking.
    """
    document = _document(system)
    if "datacenter" not in (system.category or ""):
        raise NotJudged
    keys = ("host_networking", "host_networking_topology", "host_network_card_count")
    empty = [k for k in keys if k in document.fields and _is_nothing(document.fields[k])]
    empty = [k for k in empty if document.fields[k]]
    if empty:
        yield Problem(
            f"{listed(empty)}: {document.fields[empty[0]]!r} for a datacenter system",
            **_at(document, empty[0]), found=document.fields[empty[0]],
            required="how it is connected",
        )  # fmt: skip


@rule("D117", NOTE, needs="document")
def fields_known(system: System, round: Round) -> Iterator[Problem]:
    """The description has no field that the round does not know.

    Why: what stands under a misspelt name is not read.
    Fix: correct the name, or move what it says to hw_notes or sw_notes.
    Source: submission_rules.adoc, "System description": fields.
    """
    document = _document(system)
    description = round.system_description
    known = {*description.required, *description.optional, *description.network, *description.power}
    known |= {name for names in _SYNONYMS.values() for name in names}
    known |= {name for names in description.one_of for name in names}
    known |= {
        "is_network",
        "system_power_capacity",
        "host_network_card_count",
        "system_type_detail",
    }
    meant = {near for _, near in _missing(system, round)}
    unknown = [key for key in document.fields if key not in known and key not in meant]
    for key in unknown[:MAX_HINTS]:
        near = nearest(key, sorted(known), 0.85)
        # A field of its own may be near to one that is there as well (host_processor_url).
        slip = near is not None and _slip(key, near)
        hint = f"; did you mean {near}?" if slip else ""
        yield Problem(
            f"{key} is no field of {round.name}{hint}", **_at(document, key), found=key,
            required=near,
            severity=WARNING if slip else None,
        )  # fmt: skip


def _slip(key: str, near: str) -> bool:
    """Whether a name differs from a known one by at most two letters."""
    plain, other = (re.sub(r"[\s_.-]+", "", k.casefold()) for k in (key, near))
    if plain == other:
        return True
    row = list(range(len(other) + 1))
    for i, a in enumerate(plain, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1] <= 2


@rule("D118", NOTE, needs="document")
def versions_stated(system: System, round: Round) -> Iterator[Problem]:
    """framework and operating_system name versions.

    Why: nobody can repeat a result without knowing which release made it.
    Fix: add the versions, for example "TensorRT 10.11, CUDA 12.9" and "Ubuntu 24.04".
    Source: submission_rules.adoc, "System description": framework, operating_system.
    """
    document = _document(system)
    for key in ("framework", "operating_system"):
        value = document.fields.get(key)
        if isinstance(value, str) and value.strip() and not any(c.isdigit() for c in value):
            yield Problem(
                f"{key} is {value[:100]!r}, without a version", **_at(document, key),
                found=value[:100],
                required="name and version",
            )  # fmt: skip


@rule("D119", WARNING, needs="document")
def field_types(system: System, round: Round) -> Iterator[Problem]:
    """Fields hold text or numbers, of a length that a table can show.

    Why: tables and other tools expect plain values.
    Fix: write the value as text; join several values with commas.
    Source: submission_rules.adoc, "System description": the sample's values are text and numbers.
    """
    document = _document(system)
    filled = set(round.system_description.non_empty)
    known = [*round.system_description.required, *round.system_description.network]
    for key in known:
        if key not in document.fields or key == "is_network":
            continue
        value = document.fields[key]
        if key in filled and _is_empty(key, value):
            continue
        if value is None or isinstance(value, bool | list | dict):
            # An object of texts (the software stack, part by part) is common and can be read.
            parts = list(value.values()) if isinstance(value, dict) else value
            plain = (
                isinstance(parts, list)
                and bool(parts)
                and all(isinstance(p, str | int) for p in parts)
            )
            yield Problem(
                f"{key} is {_article(_kind(value))}, text or a number was asked for",
                **_at(document, key), found=_kind(value), required="text or number",
                severity=NOTE if plain else None,
            )  # fmt: skip
        elif isinstance(value, float) and not math.isfinite(value):
            yield Problem(
                f"{key} is {value}, a finite number was asked for", **_at(document, key),
                found=str(value), required="a finite number",
            )  # fmt: skip
        elif isinstance(value, str) and len(value) > MAX_TEXT:
            yield Problem(
                f"{key} has {len(value)} characters, at most {MAX_TEXT} are sensible",
                **_at(document, key), found=len(value), required=MAX_TEXT,
            )  # fmt: skip


def _article(kind: str) -> str:
    return kind if kind in ("text", "null") else f"an {kind}" if kind[0] == "o" else f"a {kind}"


@rule("D120", WARNING)
def copies_agree(submitter: Submitter, round: Round) -> Iterator[Problem]:
    """A copy of a system's description among its results says the same as the description.

    Why: of two descriptions of one system nobody can say which one holds.
    Fix: remove the copy, or make it equal to systems/<system>.json.
    Source: submission_rules.adoc, "System description": one description for each system.
    """
    described = {system.name: system for system in submitter.systems if system.document is not None}
    if not submitter.complete or not submitter.copies:
        raise NotJudged
    for name, copy in submitter.copies:
        system = described.get(name)
        if system is None or not isinstance(copy.value, dict) or "submitter" not in copy.value:
            continue
        fields = system.fields
        differ = sorted(k for k in {*fields, *copy.value} if fields.get(k) != copy.value.get(k))
        if differ:
            yield Problem(
                f"{copy.path} and {system.path} differ in {listed(differ)}", path=copy.path,
                line=copy.line_of(differ[0]), found=copy.value.get(differ[0]),
                required=fields.get(differ[0]),
            )  # fmt: skip


@rule("D121", NOTE, needs="power_folder")
def power_fields(result: Result, round: Round) -> Iterator[Problem]:
    """The description of a system with power results has the further fields on power.

    Why: power depends on supplies, disks, network cards and firmware that it otherwise omits.
    Fix: add the fields to systems/<system>.json.
    Source: submission_rules.adoc, "System description": power submissions.
    """
    document = _document(result.system)
    missing = [key for key in round.system_description.power if key not in document.fields]
    if missing:
        yield Problem(
            f"{document.path} lacks {listed(missing, 20)}, and {result.path} has a power "
            "measurement",
            path=document.path, found=None, required=missing,
        )  # fmt: skip
