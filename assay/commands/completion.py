"""``assay completion``: a completion script for a shell."""

from __future__ import annotations

import argparse
from typing import Any

from assay.status import EXIT_OK
from assay.terminal import write


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "completion", help="print a completion script for a shell", allow_abbrev=False
    )
    parser.add_argument(
        "shell",
        choices=("bash", "zsh", "fish", "tcsh"),
        help="source what is printed, or save it",
    )
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Write the script."""
    import reports
    from assay.commands import parser_of
    from assay.completion import script
    from checker.rule import FAMILIES
    from checker.rules import RULES
    from schemas import round_names

    rounds = round_names()
    rules = [*FAMILIES, *(rule.id for rule in RULES)]
    values = {
        "round": rounds, "diff": rounds, "format": reports.FORMATS,
        "rule": rules, "select": rules, "ignore": rules,
    }  # fmt: skip
    write(script(options.shell, parser_of(), values))
    return EXIT_OK
