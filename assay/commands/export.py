"""``assay export``: the results of saved reports as one table."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from assay.delivery import saved
from assay.status import EXIT_OK, Usage
from assay.terminal import write_to


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "export",
        help="the results of saved reports as one table",
        description="Write one row a result over any number of saved JSON reports, for notebooks "
        "and databases. docs/explorer.md describes the columns.",
        allow_abbrev=False,
    )
    parser.add_argument("reports", type=Path, nargs="+", metavar="REPORT.json")
    parser.add_argument("--format", choices=("csv", "parquet"), default="csv")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="where to write (default: standard output)"
    )
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Write the table."""
    from reports import ReportError
    from reports.explore.export import to_csv, to_parquet
    from reports.explore.rows import rows

    found = rows([saved(path) for path in options.reports])
    try:
        content = to_csv(found) if options.format == "csv" else to_parquet(found)
    except ReportError as error:
        raise Usage(str(error)) from error
    write_to(options.output, content)
    return EXIT_OK
