"""``assay report``: a saved report in another format."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from assay.delivery import add_output_options, deliver, planned_outputs, saved
from assay.status import exit_status


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("report", help="render a saved JSON report", allow_abbrev=False)
    parser.add_argument("report", type=Path, metavar="REPORT.json")
    parser.add_argument("--strict", action="store_true", help="exit with status 1 on warnings too")
    add_output_options(parser)
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Exit status: that of the check that the report is of."""
    outputs = planned_outputs(options)
    report = saved(options.report)
    deliver(report, options, outputs)
    return exit_status(report, strict=options.strict)
