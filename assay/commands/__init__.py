"""The commands, one module each; only the command that is given is imported."""

from __future__ import annotations

import argparse
from importlib import import_module

from assay.arguments import Parser

COMMANDS = (
    "check", "audit", "report", "diff", "explore", "export", "rules", "rounds", "accuracy", "run",
    "sweep", "plot",
    "quantize", "demo", "truncate", "prepare", "fix", "pack", "final-report", "new", "compliance",
    "serve", "doctor", "cache", "completion",
)  # fmt: skip
"""In the order of ``assay --help``. A command is the module of its name in ``assay/commands``: ``add``
adds its parser, ``run`` carries
it out."""


def parser_of(command: str | None = None) -> argparse.ArgumentParser:
    """The command line: every command, or only the named one where that is one."""
    parser = Parser(
        prog="assay",
        description="Submission checker, results audit and reference runner for MLPerf Inference.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name in [command] if command in COMMANDS else COMMANDS:
        import_module(f"assay.commands.{name.replace('-', '_')}").add(commands)
    return parser
