"""Every rule, from an explicit list of modules; found by id, by name or by family letter."""

from __future__ import annotations

import functools
from types import ModuleType

from checker.rule import FAMILIES, Rule, rules_of
from checker.rules import (
    accuracy,
    audit_across,
    audit_replay,
    audit_run,
    compliance,
    endpoints,
    measurements,
    network,
    performance,
    power,
    power_channels,
    structure,
    system,
    tool,
)
from schemas.report import RuleFacts

MODULES: tuple[ModuleType, ...] = (
    structure,
    system,
    measurements,
    performance,
    accuracy,
    compliance,
    power,
    power_channels,
    endpoints,
    network,
    audit_run,
    audit_replay,
    audit_across,
    tool,
)

RULES: tuple[Rule, ...] = tuple(
    sorted((rule for module in MODULES for rule in rules_of(module)), key=lambda rule: rule.id)
)


class UnknownRule(ValueError):
    """No such rule; the message suggests the nearest names."""


@functools.cache
def _index() -> dict[str, Rule]:
    index: dict[str, Rule] = {}
    for rule in RULES:
        index[rule.id] = rule
        index[rule.name] = rule
    return index


def all_facts() -> list[RuleFacts]:
    """Every rule and every finding of the engine, explained, in the order of their ids."""
    return sorted([*(rule.facts() for rule in RULES), *tool.ENGINE], key=lambda facts: facts.id)


def find_facts(name: str) -> RuleFacts:
    """What is known of a rule or of a finding of the engine. Raises UnknownRule."""
    for facts in tool.ENGINE:
        if name.upper() == facts.id or name.lower() == facts.name:
            return facts
    return find_rule(name).facts()


def by_id(id: str) -> Rule:
    """The rule with this id. Raises KeyError."""
    return _index()[id]


def find_rule(name: str) -> Rule:
    """A rule by id (any case) or name. Raises UnknownRule."""
    index = _index()
    rule = index.get(name) or index.get(name.upper()) or index.get(name.lower().replace("_", "-"))
    if rule is None:
        import difflib

        near = difflib.get_close_matches(name, index, 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `assay rules` lists them"
        raise UnknownRule(f"no rule {name!r}{hint}")
    return rule


def rules_named(names: tuple[str, ...]) -> list[Rule]:
    """Rules by id, name or family letter. Raises UnknownRule."""
    found: dict[str, Rule] = {}
    for name in names:
        if name.upper() in FAMILIES:
            members = [rule for rule in RULES if rule.family == name.upper()]
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
    chosen = rules_named(select) if select else [r for r in RULES if audit or r.family != "R"]
    dropped = {rule.id for rule in rules_named(ignore)}
    return sorted((r for r in chosen if r.id not in dropped), key=lambda rule: rule.id)
