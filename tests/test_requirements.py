"""docs/requirements.md and the registry of rules say the same."""

from __future__ import annotations

import re

import pytest

from checker.rules import RULES
from schemas import round_names
from tools.requirements_page import RULE, named, page, rows

INVENTORY = {
    "STR": 17, "SYS": 22, "CFG": 17, "PERF": 45, "ACC": 20, "CMP": 20, "PWR": 19, "NET": 6,
    "DOC": 6, "XRF": 8, "PUB": 5,
}  # fmt: skip
"""How many requirements each section of the inventory has: 185 in all."""

BY_ENGINE = {"X001", "X003", "X004", "X005", "X006", "X007"}
"""Findings of the tool itself that no rule function makes."""


def test_every_requirement_of_the_inventory_has_one_row() -> None:
    expected = [f"{p}-{n:03d}" for p, count in INVENTORY.items() for n in range(1, count + 1)]
    assert len(expected) == 185
    assert [row[0] for row in rows(page())] == expected


@pytest.mark.parametrize("row", rows(page()), ids=lambda row: str(row[0]))
def test_a_row_names_rules_that_exist_or_says_why_none(row: list[str]) -> None:
    assert len(row) == 4, "a cell holds a bar, or one is missing"
    id, requirement, rounds, checked = row
    assert requirement and rounds and checked, id
    known = {rule.id for rule in RULES} | BY_ENGINE
    rules = RULE.findall(checked)
    assert set(rules) <= known
    assert len(rules) == len(set(rules)), "a rule is named twice"
    reason = checked.removeprefix("not checked: ")
    assert rules or len(checked) - 13 >= len(reason) > 20, f"{id} names no rule and gives no reason"
    assert set(re.findall(r"v\d+\.\d+", rounds)) <= set(round_names())


def test_every_rule_is_named_or_stands_under_further_rules() -> None:
    text = page()
    listed = set(re.findall(r"^\* \*\*([A-Z]\d{3})\*\*", text, re.MULTILINE))
    assert listed | named(text) >= {rule.id for rule in RULES}
    assert not listed & named(text)
