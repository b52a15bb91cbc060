"""``assay prepare``: shows its plan, carries it out, checks what it made."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.arguments import DIVISIONS, add_no_progress
from assay.preparing import checked, round_of, verdict
from assay.progress import Line
from assay.signals import held
from assay.status import EXIT_ERRORS, EXIT_OK, Usage
from assay.terminal import say, write

if TYPE_CHECKING:
    from assay.prepare.failures import Treatment
    from assay.prepare.plan import Plan
    from assay.prepare.planning import Wishes


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "prepare",
        allow_abbrev=False,
        help="make a submission of a pile of runs: a plan first, then a new tree; TREE is only read",
    )
    parser.description = (
        "Say what a submission made of TREE would hold, step by step, and then make it: junk left "
        "out, names and layout as the round has them, allowed results inferred, accuracy logs "
        "truncated. TREE is only read. docs/preparing.md explains every step."
    )
    parser.add_argument("tree", type=Path, metavar="TREE", help="a submission, or a part of one")
    parser.add_argument("--round", required=True, metavar="R", help="the round to prepare for")
    parser.add_argument(
        "--out", type=Path, metavar="NEW", help="the new tree; its folder exists, NEW does not"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show the plan")
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")
    parser.add_argument(
        "--backup",
        type=Path,
        metavar="FOLDER",
        help="where whole logs are kept (default: NEW.whole-logs)",
    )
    parser.add_argument(
        "--skip",
        type=_chores,
        action="extend",
        default=[],
        metavar="CHORE,…",
        help="leave chores out: junk, names, layout, describe, infer, failed, truncate",
    )
    parser.add_argument(
        "--infer-beyond",
        action="store_true",
        help="infer also scenarios that a benchmark does not have in the round (open division only)",
    )
    failed = parser.add_mutually_exclusive_group()
    failed.add_argument(
        "--keep-failed", action="store_true", help="keep results that fail (default: left out)"
    )
    failed.add_argument(
        "--move-failed-to-open",
        action="store_true",
        help="move results that fail to the open division, with model_mapping.json",
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="leave out what matches, in .gitignore's syntax (repeatable; extra: prepare)",
    )
    parser.add_argument(
        "--exclude-from",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="read such patterns from a file",
    )
    parser.add_argument(
        "--division", choices=DIVISIONS, help="where TREE belongs, if it is a part of a submission"
    )
    parser.add_argument("--submitter", metavar="NAME", help="whose it is, likewise")
    parser.add_argument("--system", metavar="NAME", help="which system's, likewise")
    parser.add_argument(
        "--names-from",
        type=Path,
        metavar="PLAN.json",
        help="undo the moves of an earlier plan, to convert a layout back",
    )
    add_no_progress(parser)
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Exit status: 0 done (or shown) and nothing left to do; 1 something is; 2 nothing was done."""
    with held():
        import checker.engine  # noqa: F401
        from assay.prepare import plan as plans
        from assay.prepare.acting import CannotAct, carry_out
        from assay.prepare.failures import AllFail
        from assay.prepare.junk import NoPathspec
        from assay.prepare.planning import NoTree, plan

    if options.out is None and not options.dry_run:
        raise Usage("--out NEW names the new tree; or ask for the plan with --dry-run")
    try:
        made = plan(options.tree, _wishes(options))
    except (NoTree, AllFail, NoPathspec) as error:
        raise Usage(str(error)) from error
    write(plans.encode(made).decode() if options.format == "json" else plans.table(made))
    if options.dry_run:
        return EXIT_OK
    line = Line(enabled=not options.no_progress)

    def progress(done: int, total: int) -> None:
        line.show(f"copying {done / 1e6:,.0f} of {total / 1e6:,.0f} MB", force=done == total)

    try:
        outcome = carry_out(made, options.tree, options.out, options.backup, progress)
    except CannotAct as error:
        raise Usage(str(error)) from error
    finally:
        line.clear()
    for note in outcome.notes:
        say(f"assay: {note}")
    report = checked(outcome.new, made.round)
    if options.format == "terminal":
        write(f"\n{outcome.new}: {verdict(report)}\n")
        write(f"{outcome.record}: the plan\n")
        if outcome.backup is not None:
            write(f"{outcome.backup}: whole logs\n")
    left = report.summary.errors or made.decisions or outcome.notes
    return EXIT_ERRORS if left else EXIT_OK


def _wishes(options: argparse.Namespace) -> Wishes:
    from assay.prepare.plan import BadPlan, decode
    from assay.prepare.planning import Wishes

    patterns = list(options.exclude)
    for path in options.exclude_from:
        try:
            patterns += path.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise Usage(f"--exclude-from {path} cannot be read: {error}") from error
    record: Plan | None = None
    if options.names_from is not None:
        try:
            record = decode(options.names_from.read_bytes())
        except (OSError, BadPlan) as error:
            raise Usage(f"--names-from {options.names_from}: {error}") from error
    failed: Treatment = "leave-out"
    if options.keep_failed:
        failed = "keep"
    elif options.move_failed_to_open:
        failed = "open"
    return Wishes(
        round=round_of(options.round),
        division=options.division,
        submitter=options.submitter,
        system=options.system,
        skip=frozenset(options.skip),
        failed=failed,
        infer_beyond=options.infer_beyond,
        exclude=patterns,
        record=record,
    )


def _chores(text: str) -> list[str]:
    from assay.prepare.planning import CHORES

    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in CHORES:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(CHORES)}")
    return names
