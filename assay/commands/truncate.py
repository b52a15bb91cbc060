"""``assay truncate``: shortens accuracy logs, with the whole logs kept."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from assay.arguments import add_no_progress
from assay.progress import Line, bytes_read
from assay.status import EXIT_ERRORS, EXIT_OK, EXIT_USAGE, Usage
from assay.terminal import say, write


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "truncate",
        allow_abbrev=False,
        help="shorten accuracy logs and add their hash to accuracy.txt; shows its plan first",
    )
    parser.add_argument("tree", type=Path, metavar="TREE")
    parser.add_argument(
        "--backup",
        type=Path,
        metavar="FOLDER",
        help="where the whole logs are kept (required unless --dry-run)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    add_no_progress(parser)
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Run ``assay truncate``: show the plan, carry it out unless ``--dry-run``."""
    from checker.accuracy import truncate as chores
    from checker.accuracy.problem import AccuracyError

    try:
        actions = chores.plan(options.tree)
    except (AccuracyError, OSError) as error:
        raise Usage(str(error)) from error
    if not actions:
        say(f"{options.tree}: no mlperf_log_accuracy.json below it")
        return EXIT_USAGE
    for action in actions:
        write(f"{action.kind:<9} {action.size:>13} bytes  {action.relative}  {action.reason}\n")
    if options.dry_run:
        return EXIT_OK
    if options.backup is None:
        raise Usage(
            "--backup FOLDER says where the whole logs are kept; or ask for the plan with --dry-run"
        )
    line = Line(enabled=not options.no_progress)
    try:
        outcomes = chores.apply(actions, options.backup, progress=bytes_read(line, "copying"))
    except AccuracyError as error:
        raise Usage(str(error)) from error
    finally:
        line.clear()
    failed = [o for o in outcomes if not o.done and o.action.kind != "done"]
    for outcome in failed:
        say(f"{outcome.action.relative}: {outcome.reason}")
    copied = any(outcome.backup is not None for outcome in outcomes)
    write(
        f"{len(outcomes) - len(failed)} of {len(outcomes)} done"
        + (f"; whole logs are in {options.backup}" if copied else "")
        + "\n"
    )
    if any(outcome.fault for outcome in failed):
        return EXIT_USAGE
    return EXIT_ERRORS if failed else EXIT_OK
