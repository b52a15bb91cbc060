"""``assay diff``: what changed between two reports."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from assay.delivery import saved
from assay.status import EXIT_ERRORS, EXIT_OK
from assay.terminal import write


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "diff", help="what changed between two saved reports", allow_abbrev=False
    )
    parser.add_argument("old", type=Path, metavar="OLD.json")
    parser.add_argument("new", type=Path, metavar="NEW.json")
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Exit status: 1 if NEW is worse than OLD."""
    from reports.diff import diff, to_text

    found = diff(saved(options.old), saved(options.new))
    write(to_text(found))
    return EXIT_ERRORS if found.worse else EXIT_OK
