"""The part of docs/requirements.md that is made from the rules: those that no requirement names."""

from __future__ import annotations

import re
from pathlib import Path

from checker.rule import FAMILIES
from checker.rules import RULES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "requirements.md"
BEGIN = "<!-- further rules: begin (make docs) -->"
END = "<!-- further rules: end -->"

ROW = re.compile(r"^\| ([A-Z]{3,4}-\d{3}) \|")
RULE = re.compile(r"\b([" + "".join(FAMILIES) + r"]\d{3})\b")


def page() -> str:
    """The page as it stands."""
    return PAGE.read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """The table's rows: id, requirement, rounds, what checks it."""
    found = [line for line in text.splitlines() if ROW.match(line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found]


def named(text: str) -> set[str]:
    """The ids of the rules that the table names as checking something."""
    return {id for row in rows(text) for id in RULE.findall(row[3])}


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
