"""Family D: counts, memory and network of a described system agree with each other."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from checker.model import Submitter, System
from checker.parse.documents import Document
from checker.rule import NOTE, WARNING, Problem, Problems, rule
from checker.rules.structure.entries import listed
from checker.rules.system.values import COUNTS, at, is_empty, is_nothing, whole
from checker.wording import number, quantity, shown
from schemas.hardware import accelerator, near_accelerator
from schemas.round import Round

_RANGES = {
    "number_of_nodes": (1, 4096),
    "host_processors_per_node": (1, 64),
    "accelerators_per_node": (0, 256),
}
_BEFORE_NAME = re.compile(r"(?<![0-9A-Za-z.])(\d{1,4})[xX]([A-Za-z][A-Za-z0-9]{0,40})")
_AFTER_NAME = re.compile(r"(?<=[0-9A-Z_-])x(?!(?:86|64)(?!\d))(\d{1,4})(?![0-9A-Za-z.])")
_PRODUCT = re.compile(r"[A-Za-z]{1,20}\d{1,20}[A-Za-z]{0,20}")
_MODULES = re.compile(
    r"(\d{1,4})\s*(?:x|×|\*|slots?\s*/)\s*(\d{1,6}(?:\.\d{1,3})?)\s*([MGT])i?B\b", re.IGNORECASE
)
_CAPACITY = re.compile(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*([MGT])i?B?\s*", re.IGNORECASE)
_NO_ECC = re.compile(
    r"\bnon-?\s?ecc\b|\bno ecc\b|\becc\b[^.;,]{0,15}\b(?:off|disabled)\b", re.IGNORECASE
)
_GIGA = {"M": 1 / 1024, "G": 1.0, "T": 1024.0}
_NETWORK = ("host_networking", "host_networking_topology", "host_network_card_count")


@rule("D110", WARNING)
def counts_readable(
    system: System, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """Counts of nodes, processors and accelerators are whole numbers.

    Why: tables and totals are computed from them; the official checker of v6.1 ends with a traceback
        where a number of nodes or accelerators is a word.
    Fix: write only the number; put explanations into hw_notes. A system without accelerators
        has 0 of them.
    Source: submission_rules.adoc, "System description": counts per node.
    """
    for key in round.system_description.numeric or COUNTS:
        value = fields.get(key)
        if key in fields and not is_empty(key, value) and whole(value) is None:
            text = f"found {shown(value)} in {key}; expected a whole number"
            yield Problem(text, **at(document, key), found=value, required="a whole number")


@rule("D111", WARNING)
def counts_sensible(
    system: System, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """Counts of nodes, processors and accelerators are within what can be built.

    Why: a typing error gives a system that cannot exist, and wrong totals in the tables.
    Fix: correct the number; counts are per node, except that of the nodes.
    Source: submission_rules.adoc, "System description": counts per node.
    """
    for key, (least, most) in _RANGES.items():
        count = whole(fields.get(key))
        if count is not None and not least <= count <= most:
            text = f"found {number(count)} in {key}; expected {least} to {number(most)}"
            yield Problem(text, **at(document, key), found=count, required=f"{least} to {most}")


class NamedCount(NamedTuple):
    """A count written in a system's name, and the words of what it counts."""

    number: int
    of: str


def counts_in_name(name: str) -> list[NamedCount]:
    """The counts written in a system's name: 8xMI300X, H200-SXM-141GBx8."""
    before = [NamedCount(int(match[1]), match[2]) for match in _BEFORE_NAME.finditer(name)]
    after = [
        NamedCount(int(match[1]), name[: match.start()].rpartition("_")[2])
        for match in _AFTER_NAME.finditer(name)
    ]
    return before + after


def _counts_accelerators(named: NamedCount, model: str) -> bool:
    """Whether the name's count is one of the accelerator that the description names."""
    plain = "".join(c for c in model.lower() if c.isalnum())
    return any(word.lower() in plain for word in _PRODUCT.findall(named.of))


@rule("D112", WARNING)
def name_count_agrees(
    system: System, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """A count in the system's name is a count that the description states.

    Why: one of the two is wrong, and results per accelerator are computed from it.
    Fix: correct accelerators_per_node and number_of_nodes, or the name.
    Source: submission_rules.adoc, "System description": system_name identifies the hardware.
    """
    nodes, processors, accelerators = (whole(fields.get(key)) for key in COUNTS)
    named = counts_in_name(system.name)
    if not named or nodes is None or accelerators is None:
        return
    stated = {nodes, accelerators, nodes * accelerators}
    model = str(fields.get("accelerator_model_name"))
    counts = [
        one.number
        for one in named
        # 87 of 88 cards are used where the model's own field says "(x87)".
        if _counts_accelerators(one, model) and f"x{one.number}" not in model
    ]
    wrong = any(count not in stated for count in counts)
    if not counts:
        # Nothing says what is counted: any count of the description will do.
        counts = [one.number for one in named]
        if processors is not None:
            stated |= {processors, nodes * processors}
        wrong = not set(counts) & stated
    if wrong:
        yield Problem(
            f"found {quantity(nodes, 'node')} with {quantity(accelerators, 'accelerator')} each; "
            f"expected {listed(f'x{count}' for count in counts)}, as in the name",
            **at(document, "accelerators_per_node"),
            found=sorted(stated),
            required=counts,
        )


@rule("D113", WARNING)
def accelerators_consistent(
    system: System, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """Accelerators are named where there are any, and only there.

    Why: a model without a count, or a count without a model, is half an answer.
    Fix: correct accelerators_per_node or accelerator_model_name ("N/A" without accelerators).
    Source: submission_rules.adoc, "System description": accelerator fields.
    """
    count, model = whole(fields.get("accelerators_per_node")), fields.get("accelerator_model_name")
    if count is None or "accelerator_model_name" not in fields:
        return
    required = None
    if count == 0 and not is_nothing(model):
        required = "N/A"
    elif count > 0 and isinstance(model, str) and model.strip() and is_nothing(model):
        required = "the model's name"
    if required is not None:
        yield Problem(
            f"found accelerator_model_name {shown(model)} with {number(count)} accelerators per "
            f"node; expected {required}",
            **at(document, "accelerator_model_name"),
            found=model,
            required=required,
        )


@rule("D114", NOTE)
def memory_adds_up(
    system: System, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """The memory modules add up to the memory capacity.

    Why: 12 modules of 32 GB are 384 GB; where the two differ one of them is wrong.
    Fix: correct host_memory_capacity or host_memory_configuration.
    Source: submission_rules.adoc, "System description": host memory.
    """
    configuration = str(fields.get("host_memory_configuration", ""))[:1000]
    modules = list(_MODULES.finditer(configuration))
    capacity = _CAPACITY.fullmatch(str(fields.get("host_memory_capacity", ""))[:100])
    if not modules or modules[0].start() > len(configuration) - len(configuration.lstrip()):
        return
    total = sum(int(m[1]) * float(m[2]) * _GIGA[m[3].upper()] for m in modules)
    if capacity is None or not total:
        return
    stated = float(capacity[1]) * _GIGA[capacity[2].upper()]
    nodes, processors = (max(whole(fields.get(key)) or 1, 1) for key in COUNTS[:2])
    # 1 TB may be 1000 or 1024 GB, and a module's size may be meant per socket or per node.
    factors = (1, nodes, processors, nodes * processors)
    if not any(0.9 <= stated / (total * factor) <= 1.1 for factor in factors):
        parts = " + ".join(" ".join(m[0].split()) for m in modules[:6])
        yield Problem(
            f"found host_memory_capacity {capacity[0].strip()}; expected {quantity(total, 'GB')} "
            f"({parts})",
            **at(document, "host_memory_capacity"),
            found=capacity[0].strip(),
            required=quantity(total, "GB"),
        )


@rule("D115", WARNING)
def datacenter_ecc(system: System, round: Round, document: Document, category: str) -> Problems:
    """The description of a datacenter system does not say that its memory lacks ECC.

    Why: datacenter systems must correct memory errors.
    Fix: turn ECC on, or submit the system as an edge system.
    Source: inference_rules.adoc, "Datacenter": ECC memory.
    """
    for key, value in document.fields.items() if "datacenter" in category else ():
        found = _NO_ECC.search(value) if isinstance(value, str) else None
        if found:
            text = f"found {shown(found[0])} in {key}; expected ECC memory in a datacenter system"
            yield Problem(text, **at(document, key), found=found[0], required="ECC")


@rule("D116", NOTE)
def datacenter_network(submitter: Submitter, round: Round) -> Problems:
    """The descriptions of datacenter systems say how they are connected.

    Why: a datacenter system must be able to receive the queries that it answers.
    Fix: name the network, the number and rate of its cards, and the topology.
    Source: inference_rules.adoc, datacenter bandwidth; submission_rules.adoc, host_networking.
    """
    silent = {}
    for system in submitter.systems:
        keys = [k for k in _NETWORK if system.fields.get(k) and is_nothing(system.fields[k])]
        if keys and "datacenter" in (system.category or "") and system.document is not None:
            silent[system.name] = system, system.document, keys
    if silent:
        first, document, keys = next(iter(silent.values()))
        more = f" and {quantity(len(silent) - 1, 'other system')}" if len(silent) > 1 else ""
        yield Problem(
            f"found {shown(first.fields[keys[0]])} in {listed(keys)} of {first.name}{more}; "
            "expected how a datacenter system is connected",
            **at(document, keys[0]),
            found=first.fields[keys[0]],
            required="how it is connected",
            results=tuple(key for system, _, _ in silent.values() for key in system.results),
            count=len(silent),
        )


@rule("D122", NOTE)
def accelerators_spelled_alike(submitter: Submitter, round: Round) -> Problems:
    """A submitter spells one accelerator in one way.

    Why: results are compared by accelerator; two spellings of one part look like two parts.
    Fix: use one spelling in accelerator_model_name, best the canonical one.
    Source: submission_rules.adoc, "System description"; canonical names: schemas/hardware.toml.
    """
    spellings: dict[str, dict[str, list[System]]] = {}
    for system in submitter.systems:
        name = system.fields.get("accelerator_model_name")
        device = accelerator(name) if isinstance(name, str) else None
        if device is not None and device.known and not device.mixed and device.count is None:
            # The label distinguishes partitions and memory sizes, as submitters mean to.
            alike = spellings.setdefault(device.label, {})
            alike.setdefault(device.raw.strip(), []).append(system)
    for label, spelled in sorted(spellings.items()):
        if len(spelled) > 1:
            systems = [system for members in spelled.values() for system in members]
            yield Problem(
                f"found {listed(sorted(spelled))} for {quantity(len(systems), 'system')} with {label}; "
                "expected one spelling",
                path=min(system.path for system in systems),
                found=sorted(spelled),
                required=label,
                count=len(spelled),
                fix=f'write "{label}" in accelerator_model_name',
            )


@rule("D123", NOTE)
def accelerator_name_known(
    system: System, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """An accelerator's name is not a slip of a known one.

    Why: a name that no table knows is listed apart from the part that it means.
    Fix: correct accelerator_model_name.
    Source: submission_rules.adoc, "System description"; canonical names: schemas/hardware.toml.
    """
    name = fields.get("accelerator_model_name")
    device = accelerator(name) if isinstance(name, str) else None
    if device is None or device.known:
        return
    meant = near_accelerator(device.name)
    if meant is not None:
        text = f"found {shown(device.name)} in accelerator_model_name; did you mean {meant}?"
        yield Problem(
            text, **at(document, "accelerator_model_name"), found=device.name, required=meant
        )
