"""``assay rules``: the list of rules, or one explained."""

from __future__ import annotations

import argparse
from typing import Any

from assay.status import EXIT_OK, Usage
from assay.terminal import write


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("rules", help="list the rules, or explain one", allow_abbrev=False)
    parser.add_argument(
        "rule", nargs="?", metavar="ID", help="a rule's id or name, or a family's letter"
    )
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Write the list or the rule."""
    from assay import rule_text
    from checker.rule import FAMILIES
    from checker.rules import UnknownRule, all_facts, find_facts, find_rule

    if options.rule is None or options.rule.upper() in FAMILIES:
        family = options.rule.upper() if options.rule else ""
        lines = [
            f"{facts.id}  {facts.severity:<8} {facts.name:<32} {facts.summary}"
            for facts in all_facts()
            if facts.id.startswith(family)
        ]
        write("\n".join(lines) + "\n")
        return EXIT_OK
    try:
        facts = find_facts(options.rule)
    except UnknownRule as error:
        raise Usage(str(error)) from error
    try:
        rule = find_rule(facts.id)
        write(rule_text.text(facts, rule.divisions, rule.cases))
    except UnknownRule:  # a finding of the tool itself
        write(rule_text.text(facts, (), {}))
    return EXIT_OK
