"""``assay check``: one tree against the rules of its round."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.checking import add_check_options, checked, data
from assay.delivery import deliver, planned_outputs, prepare
from assay.progress import Line
from assay.status import Usage, exit_status
from assay.terminal import say, write

if TYPE_CHECKING:
    from schemas.report import Report


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "check",
        allow_abbrev=False,
        help="check a submission tree, a submitter, a system or one run folder",
    )
    parser.add_argument(
        "tree", metavar="TREE", help="folder, or a .tar (.gz, .xz, .bz2, .zst) or .zip"
    )
    add_check_options(parser)
    parser.add_argument(
        "--manifest",
        nargs="?",
        type=Path,
        const=Path(),
        metavar="FILE",
        help="hold every file against a manifest of assay pack (default: TREE.manifest.json)",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="check again whenever a file changes, and show what is new and gone (extra: watch)",
    )
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Exit status: see ``assay.cli``."""
    line = Line(enabled=not (options.no_progress or options.quiet))

    def progress(done: int, total: int) -> None:
        line.show(f"checking {done} of {total} results", force=done == total)

    def check() -> Report:
        try:
            return checked(options, progress, meanwhile=lambda: prepare(options, outputs))
        finally:
            line.clear()

    outputs = planned_outputs(options)
    if options.watch and not Path(options.tree).is_dir():
        raise Usage(f"--watch {options.tree}: give a folder")
    report = check()
    deliver(report, options, outputs)
    if options.watch:
        from assay.watching import watched

        for later in watched(Path(options.tree), check, write, report):
            deliver(later, options, [pair for pair in outputs if pair[0] is not None])
    known = {name for r in report.results for name in (r.benchmark, r.directory)}
    for name in sorted(set(data(options)) - known - {""}):
        say(
            f"assay: --data {name}: no result of that benchmark was found; nothing was computed again"
        )
    return exit_status(report, strict=options.strict)
