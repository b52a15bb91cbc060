"""``assay final-report``: the results workbook of a round."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from assay.delivery import saved
from assay.status import EXIT_OK, Usage
from assay.terminal import say, write_to


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "final-report",
        allow_abbrev=False,
        help="the results workbook of a round, from one or several saved reports",
    )
    parser.description = (
        "Write the workbook of a round: a sheet for each category and division, and for power; a row for "
        "each system, a column for each benchmark, scenario and unit. Every valid result is in exactly one "
        "cell; two for one cell, or one result in two reports, are an error."
    )
    parser.add_argument(
        "reports",
        type=Path,
        nargs="+",
        metavar="REPORT.json",
        help="from assay check TREE --output REPORT.json",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="the .xlsx file")
    parser.add_argument(
        "--ids",
        type=Path,
        metavar="FILE",
        help="JSON file of the systems' IDs: read, and written with those of new systems",
    )
    parser.add_argument(
        "--repository",
        metavar="URL",
        help="address of the published tree, for the links of Details and Code",
    )
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Write the workbook."""
    from reports import ReportError, render
    from reports.joined import joined

    try:
        report = joined([(str(path), saved(path)) for path in options.reports])
        book = render(
            report, "xlsx", ids_file=options.ids, repository=options.repository, findings=False
        )
    except ReportError as error:
        raise Usage(str(error)) from error
    write_to(options.output, book)
    s = report.summary
    say(f"assay: {options.output}: {s.valid} valid results; {s.invalid} invalid ones left out")
    return EXIT_OK
