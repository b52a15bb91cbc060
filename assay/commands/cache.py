"""``assay cache clear``: removes what earlier checks remember."""

from __future__ import annotations

import argparse
from typing import Any

from assay.status import EXIT_OK
from assay.terminal import write


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "cache", help="what earlier checks remember of unchanged files", allow_abbrev=False
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    clear = actions.add_parser("clear", help="remove it", allow_abbrev=False)
    clear.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Empty the cache."""
    from checker.cache import cache_folder, clear

    folder = cache_folder()
    count, size = clear(folder)
    write(f"{folder}: {count:,} files, {size / 1e6:,.1f} MB removed\n")
    return EXIT_OK
