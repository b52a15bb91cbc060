"""``assay rounds``: the list of rounds, one in tables, or two compared."""

from __future__ import annotations

import argparse
from typing import Any

from assay.status import EXIT_OK, Usage
from assay.terminal import write


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "rounds", help="list the rounds, show one, or compare two", allow_abbrev=False
    )
    parser.add_argument("round", nargs="?", metavar="R", help="a round, v6.1 or 6.1")
    parser.add_argument("--diff", metavar="R2", help="what changed from R to R2")
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Write the list, the round or what changed."""
    from reports import round_changes, rounds
    from schemas import UnknownRound, load_round, round_names

    try:
        if options.round is None:
            if options.diff:
                raise Usage("--diff compares two rounds: assay rounds R --diff R2")
            write(rounds.overview([load_round(name) for name in round_names()]))
        elif options.diff:
            write(round_changes.changes(load_round(options.round), load_round(options.diff)))
        else:
            write(rounds.tables(load_round(options.round)))
    except UnknownRound as error:
        raise Usage(str(error)) from error
    return EXIT_OK
