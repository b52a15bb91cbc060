"""Every rule, from an explicit list of modules; found by id, by name or by family letter."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from checker.rule import FAMILIES, Rule, rules_of
from schemas.report import RuleFacts

CHECK = (
    "structure.folders",
    "structure.documents",
    "structure.benchmarks",
    "structure.files",
    "system.fields",
    "system.claims",
    "system.hardware",
    "measurements.document",
    "measurements.user_conf",
    "performance.files",
    "performance.settings",
    "performance.outcome",
    "performance.arithmetic",
    "performance.loadgen",
    "accuracy.files",
    "accuracy.runs",
    "accuracy.texts",
    "accuracy.scores",
    "compliance.presence",
    "compliance.texts",
    "compliance.answers",
    "compliance.settings",
    "compliance.runs",
    "compliance.speed",
    "power.files",
    "power.session",
    "power.samples",
    "power.measurement",
    "power.channels",
    "endpoints.documents",
    "endpoints.performance",
    "endpoints.statistics",
    "endpoints.accuracy",
    "endpoints.audits",
    "network",
    "tool",
)
"""The modules of this package with the rules of a check."""

AUDIT = (
    "audit.verdicts",
    "audit.clocks",
    "audit.early_stopping",
    "audit.origin",
    "audit.records",
    "audit.latencies",
    "audit.summary",
    "audit.tokens",
    "audit.answers",
    "audit.replay",
    "audit.power",
    "audit.copies",
    "audit.texts",
    "audit.results",
)
"""Those of family R; a check does not import them."""


def _rules(modules: tuple[str, ...]) -> tuple[Rule, ...]:
    found = [rule for name in modules for rule in rules_of(import_module(f"{__name__}.{name}"))]
    return tuple(sorted(found, key=lambda rule: rule.id))


@functools.cache
def check_rules() -> tuple[Rule, ...]:
    """Every rule but those of family R, in the order of their ids."""
    return _rules(CHECK)


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, in the order of their ids."""
    return _rules((*CHECK, *AUDIT))


def __getattr__(name: str) -> Any:
    if name == "RULES":
        return all_rules()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class UnknownRule(ValueError):
    """No such rule; the message suggests the nearest names."""


@functools.cache
def _index(audit: bool) -> dict[str, Rule]:
    rules = all_rules() if audit else check_rules()
    return {key: rule for rule in rules for key in (rule.id, rule.name)}


def all_facts() -> list[RuleFacts]:
    """Every rule and every finding of the engine, explained, in the order of their ids."""
    from checker.rules import tool

    facts = [*(rule.facts() for rule in all_rules()), *tool.ENGINE]
    return sorted(facts, key=lambda facts: facts.id)


def find_facts(name: str) -> RuleFacts:
    """What is known of a rule or of a finding of the engine. Raises UnknownRule."""
    from checker.rules import tool

    for facts in tool.ENGINE:
        if name.upper() == facts.id or name.lower() == facts.name:
            return facts
    return find_rule(name).facts()


def by_id(id: str) -> Rule:
    """The rule with this id. Raises KeyError."""
    return _index(id.startswith("R"))[id]


def find_rule(name: str) -> Rule:
    """A rule by id (any case) or name. Raises UnknownRule."""
    index: dict[str, Rule] = {}
    for audit in (False, True):
        index = _index(audit)
        for key in (name, name.upper(), name.lower().replace("_", "-")):
            if key in index:
                return index[key]
    import difflib

    near = difflib.get_close_matches(name, index, 3)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `assay rules` lists them"
    raise UnknownRule(f"no rule {name!r}{hint}")


def rules_named(names: tuple[str, ...]) -> list[Rule]:
    """Rules by id, name or family letter. Raises UnknownRule."""
    found: dict[str, Rule] = {}
    for name in names:
        if name.upper() in FAMILIES:
            members = [rule for rule in all_rules() if rule.family == name.upper()]
        else:
            members = [find_rule(name)]
        found.update((rule.id, rule) for rule in members)
    return list(found.values())


def select_rules(
    select: tuple[str, ...] = (), ignore: tuple[str, ...] = (), *, audit: bool = False
) -> list[Rule]:
    """The rules of one run: family R only for an audit or when selected by name.

    Raises UnknownRule.
    """
    chosen = rules_named(select) if select else all_rules() if audit else check_rules()
    dropped = {rule.id for rule in rules_named(ignore)}
    return sorted((r for r in chosen if r.id not in dropped), key=lambda rule: rule.id)
