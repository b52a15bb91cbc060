"""Plans for tests: every setting by its name, whatever group it is in."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from runner import Plan, Tree

GROUPS = ("tree", "inputs", "load", "execution", "conduct", "rules")


def plan_with(benchmark: str, out: Path, **values: Any) -> Plan:
    """A plan that says just this."""
    return changed(Plan(benchmark=benchmark, tree=Tree(out=out)), **values)


def changed(plan: Plan, **values: Any) -> Plan:
    """The same with single settings changed."""
    own = {field.name for field in fields(Plan)} - set(GROUPS)
    top = {name: values.pop(name) for name in list(values) if name in own}
    for group in GROUPS:
        part = getattr(plan, group)
        known = {field.name for field in fields(part)}
        found = {name: values.pop(name) for name in list(values) if name in known}
        if found:
            top[group] = replace(part, **found)
    assert not values, f"no such settings: {values}"
    return replace(plan, **top)
