"""``assay explore``: one page over any number of saved reports."""

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
        "explore",
        help="one page over any number of saved reports",
        description="Write one self-contained HTML page over any number of saved JSON reports: "
        "ranking, progress over rounds, two systems side by side, scatter plots, every row.",
        allow_abbrev=False,
    )
    parser.add_argument("reports", type=Path, nargs="+", metavar="REPORT.json")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="where to write (default: standard output)"
    )
    parser.add_argument(
        "--repo-url",
        action="append",
        default=[],
        metavar="ROUND=URL",
        help="link the results of a round to their files below this address",
    )
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Write the page."""
    from reports.explore import page
    from reports.explore.rows import rows

    links = {}
    for given in options.repo_url:
        round, equals, url = given.partition("=")
        if not equals or not url.startswith(("https://", "http://")):
            raise Usage(f"--repo-url {given}: expected ROUND=https://…")
        links[round] = url
    html = page.render(rows([saved(path) for path in options.reports]), links)
    write_to(options.output, html)
    return EXIT_OK
