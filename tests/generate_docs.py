"""``make docs``: the pages that are made from rules and rounds. A test fails when they lag."""

from __future__ import annotations

from pathlib import Path

from checker.rule import FAMILIES
from checker.rules import RULES
from reports import rounds
from schemas import load_round, round_names

ROOT = Path(__file__).resolve().parent.parent


def rules_page() -> str:
    """``checker/rules/README.md``."""
    lines = [
        "# Rules",
        "",
        f"Generated from the rules' docstrings by `make docs`; do not edit. {len(RULES)} rules.",
        "`assay rules ID` shows one. A round may lower a severity (`[severities]` in its TOML).",
        "",
    ]
    for letter, title in FAMILIES.items():
        members = [rule for rule in RULES if rule.family == letter]
        if not members:
            continue
        lines += [f"## {letter}: {title}", ""]
        for rule in members:
            where = f"; {', '.join(rule.divisions)} only" if rule.divisions else ""
            lines += [
                f"### {rule.id} {rule.name} ({rule.severity}{where})",
                "",
                rule.summary,
                "",
                f"* Why: {rule.why}",
                f"* Fix: {rule.fix}",
                f"* Source: {rule.source}",
                "",
            ]
    return "\n".join(lines).rstrip("\n") + "\n"


def rounds_page() -> str:
    """``docs/rounds.md``."""
    return rounds.history([load_round(name) for name in round_names()])


PAGES = {"checker/rules/README.md": rules_page, "docs/rounds.md": rounds_page}


def main() -> None:
    """Write every page."""
    for path, make in PAGES.items():
        (ROOT / path).write_text(make(), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
