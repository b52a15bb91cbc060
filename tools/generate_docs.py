"""``make docs``: pages and schema that are made from code and data. A test fails when they lag."""

from __future__ import annotations

from pathlib import Path

from assay.prepare.fixing import FIXES
from checker.rule import FAMILIES
from checker.rules import RULES, all_facts
from reports import rounds
from schemas import load_round, round_names
from tools.requirements_page import requirements_page
from tools.round_schema import as_text as round_schema
from tools.run_schema import as_text as run_schema
from tools.troubleshooting_page import troubleshooting_page

ROOT = Path(__file__).resolve().parent.parent


def rules_page() -> str:
    """``checker/rules/README.md``."""
    divisions = {rule.id: rule.divisions for rule in RULES}
    explained = all_facts()
    lines = [
        "# Rules",
        "",
        f"Generated from the rules' docstrings by `make docs`; do not edit. {len(explained)} rules.",
        "A rule with a line `assay fix` can be fixed mechanically. `assay rules ID` shows one. "
        "What a round enforced is in `schemas/enforcement.toml`.",
        "",
    ]
    for letter, title in FAMILIES.items():
        members = [facts for facts in explained if facts.id[0] == letter]
        if members:
            lines += [f"## {letter}: {title}", ""]
        for facts in members:
            only = divisions.get(facts.id, ())
            where = f"; {', '.join(only)} only" if only else ""
            lines += [
                f"### {facts.id} {facts.name} ({facts.severity}{where})",
                "",
                facts.summary,
                "",
                f"* Why: {facts.why}",
                f"* Fix: {facts.fix}",
                *([f"* `assay fix`: {FIXES[facts.id]}"] if facts.id in FIXES else []),
                f"* Source: {facts.source}",
                "",
            ]
    return "\n".join(lines).rstrip("\n") + "\n"


def rounds_page() -> str:
    """``docs/rounds.md``."""
    return rounds.history([load_round(name) for name in round_names()])


PAGES = {
    "checker/rules/README.md": rules_page,
    "docs/requirements.md": requirements_page,
    "docs/rounds.md": rounds_page,
    "docs/troubleshooting.md": troubleshooting_page,
    "schemas/round.schema.json": round_schema,
    "schemas/run.schema.json": run_schema,
}


def main() -> None:
    """Write every page."""
    for path, make in PAGES.items():
        (ROOT / path).write_text(make(), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
