"""Every rule has an explanation, a name of its own and a test that breaks a good tree."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import types
import typing
from pathlib import Path

import pytest

import tests.checker.rules as here
from checker import model
from checker.audit import traces
from checker.rule import FAMILIES, Rule, rules_of
from checker.rules import AUDIT, CHECK, RULES, all_facts
from checker.rules.tool import ENGINE
from checker.shared_logs import SharedLogs
from schemas.report import SEVERITIES
from tests.checker.rules.test_tool import ELSEWHERE

REPO = Path(__file__).parents[3]
TARGETS = {
    model.Tree, model.Submitter, model.System, model.BenchmarkFolder, model.Result,
    model.PerformanceRun, model.RangingRun, model.AccuracyRun, model.ComplianceTest, model.ComplianceRun,
    SharedLogs, traces.RunTrace, traces.ResultTrace,
}  # fmt: skip


def _tested() -> dict[str, list[str]]:
    """Rule id -> the test modules here whose table ``BREAKS`` breaks a tree for it."""
    found: dict[str, list[str]] = {}
    for info in pkgutil.iter_modules(here.__path__):
        if not info.name.startswith("test_") or info.name == "test_every_rule":
            continue
        module = importlib.import_module(f"{here.__name__}.{info.name}")
        for rule, cases in getattr(module, "BREAKS", {}).items():
            assert cases, f"{info.name}: BREAKS[{rule!r}] is empty"
            # A name may list several rules, then what is broken: "P152-P157-no-estimate".
            ids = re.findall(r"(?<![A-Za-z0-9])[A-Z]\d{3}(?![0-9])", rule)
            for id in ids or [rule]:
                found.setdefault(id, []).append(info.name)
        # A rule that needs a tree of its own has a test of its own, which must be there.
        for rule, test in getattr(module, "BREAKS_APART", {}).items():
            assert callable(getattr(module, test)), f"{info.name}: no {test} for {rule}"
            found.setdefault(rule, []).append(info.name)
    return found


TESTED = _tested()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_rule_is_tested(rule: Rule) -> None:
    assert rule.id in TESTED, (
        f"{rule.id} ({rule.name}) has no entry in a BREAKS table of tests/checker/rules"
    )


def test_what_the_engine_finds_is_tested_and_explained() -> None:
    assert set(ELSEWHERE) == {facts.id for facts in ENGINE}
    for id, place in ELSEWHERE.items():
        file, _, name = place.partition("::")
        text = (Path(here.__path__[0]).parent / file).read_text(encoding="utf-8")
        assert f"def {name}(" in text and f'"{id}"' in text, place
    assert {facts.id for facts in all_facts()} == {r.id for r in RULES} | set(ELSEWHERE)
    assert all(facts.summary and facts.why and facts.fix for facts in all_facts())


def test_tables_name_known_rules() -> None:
    assert set(TESTED) - {rule.id for rule in RULES} == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_rule_is_explained(rule: Rule) -> None:
    """The docstring: what is demanded, Why, Fix, Source; nothing else that looks like a heading."""
    assert re.fullmatch(r"[A-Z]\d{3}", rule.id)
    assert rule.family in FAMILIES
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", rule.name), rule.name
    assert rule.severity in SEVERITIES
    assert rule.summary and rule.summary.endswith("."), rule.summary
    assert rule.why.endswith(".") and rule.fix.endswith("."), (rule.why, rule.fix)
    assert rule.source.rstrip(".")
    doc = inspect.getdoc(rule.check) or ""
    assert [line.split(":")[0] for line in doc.splitlines() if re.match(r"[A-Z][a-z]+:", line)] == [
        "Why",
        "Fix",
        "Source",
    ]
    assert doc.splitlines()[0] == rule.summary.split("\n")[0] or rule.summary.startswith(
        doc.splitlines()[0]
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_rule_judges_something(rule: Rule) -> None:
    """The first parameter's type is one that the engine hands to rules; needs name attributes."""
    union = (
        isinstance(rule.target, types.UnionType) or typing.get_origin(rule.target) is typing.Union
    )
    kinds = typing.get_args(rule.target) if union else (rule.target,)
    audited = {kind for kind in kinds if kind.__module__.startswith("checker.audit.")}
    assert set(kinds) <= TARGETS | audited, rule.target
    assert not audited or rule.family == "R", rule.target
    for path in (*(need.path for need in rule.needs), *rule.required):
        first = path.split(".")[0]
        for kind in kinds:
            assert any(
                first in vars(c) or first in getattr(c, "__slots__", ()) for c in kind.__mro__
            ), f"{rule.id} needs {path}, which {kind.__name__} does not have"


def test_ids_and_names_are_unique() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert not {rule.id for rule in RULES} & {rule.name for rule in RULES}


def test_registry_is_every_module_and_sorted() -> None:
    assert [rule.id for rule in RULES] == sorted(rule.id for rule in RULES)
    folder = REPO / "checker/rules"
    named = {
        ".".join(path.relative_to(folder).with_suffix("").parts)
        for path in folder.rglob("*.py")
        if path.stem != "__init__"
    }
    with_rules = {
        name for name in named if rules_of(importlib.import_module(f"checker.rules.{name}"))
    }
    registered = {*CHECK, *AUDIT}
    assert with_rules == registered & with_rules, (
        "a module with rules is in neither CHECK nor AUDIT"
    )
