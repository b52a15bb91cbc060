"""``assay new``: an empty submission for one system."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from assay.arguments import DIVISIONS
from assay.preparing import checked, round_of
from assay.signals import held
from assay.status import EXIT_OK, Usage
from assay.terminal import write


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "new", allow_abbrev=False, help="make an empty submission for one system, to be filled in"
    )
    parser.description = (
        "Make an empty submission for one system: every field and document that the round asks for, with "
        "what they mean in documentation/to-fill-in.md. assay check names what is still empty."
    )
    parser.add_argument("--round", required=True, metavar="R", help="the round to submit to")
    parser.add_argument("--submitter", required=True, metavar="S", help="the submitter's folder")
    parser.add_argument("--system", required=True, metavar="X", help="the system's name")
    parser.add_argument("--division", choices=DIVISIONS, default="closed")
    parser.add_argument(
        "--category",
        choices=("datacenter", "edge", "datacenter,edge"),
        default="",
        help="the suite of benchmarks",
    )
    parser.add_argument(
        "--benchmark",
        action="append",
        default=[],
        metavar="B",
        help="add the folders of its required scenarios (repeatable; needs --category)",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="NEW", help="the new tree")
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """``assay new``: an empty tree, checked. Exit status 0 when it is there, 2 if not."""
    with held():
        import checker.engine  # noqa: F401
        from assay.prepare import skeleton
        from assay.prepare.acting import CannotAct, create

    wanted = skeleton.Skeleton(
        round=round_of(options.round),
        submitter=options.submitter,
        system=options.system,
        division=options.division,
        category=options.category,
        benchmarks=options.benchmark,
    )
    try:
        files = skeleton.files_of(wanted)
        create(files, options.out)
    except (skeleton.BadWish, CannotAct) as error:
        raise Usage(str(error)) from error
    write("".join(f"{options.out / path}\n" for path in sorted(files)))
    report = checked(options.out, wanted.round)
    write(
        f"\n{len(report.findings)} findings say what is to be filled in: assay check {options.out}\n"
    )
    return EXIT_OK
