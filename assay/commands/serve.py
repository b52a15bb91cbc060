"""``assay serve``: the embedded language model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import argparse
from typing import Any

from assay.terminal import say, write


def add(commands: Any) -> None:
    """Add the command to the parser."""
    from runner.serve.command import add_options

    parser = commands.add_parser(
        "serve",
        allow_abbrev=False,
        help="serve the embedded language model behind an OpenAI-compatible endpoint",
    )
    add_options(parser)
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted: 0; 2 if that cannot be done."""
    from runner.serve import command

    return command.run(options, write, say)
