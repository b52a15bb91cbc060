"""docs/requirements.md and the registry of rules say the same.

``python -m tests.test_requirements --update`` writes the section of further rules anew.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from checker.rule import FAMILIES
from checker.rules import RULES
from schemas import round_names

PAGE = Path(__file__).resolve().parent.parent / "docs" / "requirements.md"
BEGIN = "<!-- further rules: begin (python -m tests.test_requirements --update) -->"
END = "<!-- further rules: end -->"

INVENTORY = {
    "STR": 17, "SYS": 22, "CFG": 17, "PERF": 45, "ACC": 20, "CMP": 20, "PWR": 19, "NET": 6,
    "DOC": 6, "XRF": 8, "PUB": 5,
}  # fmt: skip
"""How many requirements each section of the inventory has: 185 in all."""

BY_ENGINE = {"X001", "X003", "X004", "X005", "X006", "X007"}
"""Findings of the tool itself that no rule function makes."""

_ROW = re.compile(r"^\| ((?:" + "|".join(INVENTORY) + r")-\d{3}) \|")
_RULE = re.compile(r"\b([" + "".join(FAMILIES) + r"]\d{3})\b")


def page() -> str:
    """The page as it stands."""
    return PAGE.read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """The table's rows: id, requirement, rounds, what checks it."""
    found = [line for line in text.splitlines() if _ROW.match(line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found]


def named(text: str) -> set[str]:
    """The ids of the rules that the table names as checking something."""
    return {id for row in rows(text) for id in _RULE.findall(row[3])}


def further(text: str) -> str:
    """The section of rules that no row names, as it should be."""
    lines = [
        BEGIN,
        "",
        "## Further rules",
        "",
        "These look at something that no row above asks for by itself: what follows from a requirement, how",
        "documents should read, or what a log reveals about how it came about.",
        "",
    ]
    for letter, title in FAMILIES.items():
        rest = [rule for rule in RULES if rule.family == letter and rule.id not in named(text)]
        if rest:
            lines += [f"### {letter}: {title}", ""]
            lines += [f"* **{rule.id}** {rule.name}: {rule.summary}" for rule in rest]
            lines.append("")
    return "\n".join([*lines, END])


def updated(text: str) -> str:
    """The page with that section written anew."""
    head, rest = text.split(BEGIN)
    return head + further(text) + rest.split(END)[1]


def requirements_page() -> str:
    """The whole page, for whoever writes generated pages."""
    return updated(page())


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
    rules = _RULE.findall(checked)
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


def test_further_rules_are_up_to_date() -> None:
    assert updated(page()) == page(), "run: python -m tests.test_requirements --update"


if __name__ == "__main__":
    if sys.argv[1:] != ["--update"]:
        sys.exit("usage: python -m tests.test_requirements --update")
    PAGE.write_text(requirements_page(), encoding="utf-8")
    print(PAGE)
