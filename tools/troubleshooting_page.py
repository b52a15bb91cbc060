"""The part of docs/troubleshooting.md that is made from the rules: every rule with its fix."""

from __future__ import annotations

from pathlib import Path

from checker.rule import FAMILIES
from checker.rules import RULES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "troubleshooting.md"
BEGIN = "<!-- every rule: begin (make docs) -->"
END = "<!-- every rule: end -->"


def every_rule() -> str:
    """The generated part of the page: each rule with what it asks and how to fix it."""
    lines = [BEGIN, ""]
    for letter, title in FAMILIES.items():
        members = [rule for rule in RULES if rule.family == letter]
        lines += [f"### {letter}: {title}", "", "| rule | what it asks | fix |", "|---|---|---|"]
        for rule in members:
            cells = (f"**{rule.id}** {rule.name}", rule.summary, rule.fix)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join([*lines, END])


def troubleshooting_page() -> str:
    """The whole page, for whoever writes generated pages."""
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return head + every_rule() + rest.split(END)[1]
