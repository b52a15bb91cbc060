"""``assay fix``: fixes in place what a machine can fix."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.preparing import checked, round_of, verdict
from assay.signals import held
from assay.status import EXIT_ERRORS, EXIT_OK, Usage
from assay.terminal import say, write

if TYPE_CHECKING:
    from assay.prepare.plan import Plan


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "fix",
        allow_abbrev=False,
        help="fix in place what a machine can fix: a plan first, and an undo folder",
    )
    parser.description = (
        "Fix in TREE what a check finds and a machine can fix; assay rules ID says which rules these are. "
        "What is moved, changed or taken out goes to an undo folder beside TREE."
    )
    parser.add_argument("tree", type=Path, metavar="TREE", help="the submission's folder")
    parser.add_argument("--round", metavar="R", help="the round (default: detected from the tree)")
    parser.add_argument("--dry-run", action="store_true", help="only show the fixes")
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")
    parser.add_argument(
        "--select", action="append", default=[], metavar="ID,…", help="only findings of these rules"
    )
    parser.add_argument(
        "--path",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only files that match, such as 'closed/Acme/*' (repeatable)",
    )
    parser.add_argument(
        "--undo",
        type=Path,
        metavar="FOLDER",
        help="restore what a fix changed, from its undo folder",
    )
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """``assay fix``. Exit status: 0 fixed (or shown) and no error is left; 1 errors are left; 2 nothing
    was done."""
    with held():
        import checker.engine  # noqa: F401
        from assay.prepare import fixing
        from assay.prepare import plan as plans
        from assay.prepare.acting import CannotAct
        from assay.prepare.planning import NoTree

    if not options.tree.is_dir():
        raise Usage(f"{options.tree}: not a folder")
    if options.undo is not None:
        try:
            left = fixing.undo(options.tree, options.undo)
        except CannotAct as error:
            raise Usage(str(error)) from error
        for note in left:
            say(f"assay: {note}")
        write("" if left else f"{options.tree}: as it was\n")
        return EXIT_ERRORS if left else EXIT_OK
    select = rules_of(options.select)
    report = checked(options.tree, round_of(options.round) if options.round else None)
    try:
        made = fixing.plan(options.tree, report, select=select, paths=options.path)
    except NoTree as error:
        raise Usage(str(error)) from error
    write(plans.encode(made).decode() if options.format == "json" else _steps(made))
    if options.dry_run or not made.steps:
        return EXIT_ERRORS if not options.dry_run and report.summary.errors else EXIT_OK
    try:
        place = fixing.carry_out(made, options.tree)
    except CannotAct as error:
        raise Usage(str(error)) from error
    after = checked(options.tree, made.round)
    if options.format == "terminal":
        write(
            f"\n{options.tree}: {verdict(after)}\nto undo: assay fix {options.tree} --undo {place}\n"
        )
    return EXIT_ERRORS if after.summary.errors else EXIT_OK


def _steps(made: Plan) -> str:
    """The plan of fixes: rules, then what happens and why."""
    lines = [
        f"{','.join(step.rules):<10} {step.kind:<9} {step.path or ''}"
        + (f" -> {step.destination}" if step.destination != step.path and step.destination else "")
        + f": {step.reason}"
        for step in made.steps
    ]
    lines = lines or ["no finding can be fixed mechanically"]
    lines += [f"decide     {text}" for text in made.decisions]
    return "\n".join(lines) + "\n"


def rules_of(given: list[str]) -> set[str]:
    """The ids of rules by ids, names or families. Raises Usage for what cannot be fixed mechanically."""
    from assay.prepare.fixing import FIXES
    from checker.rules import UnknownRule, find_facts

    found = set()
    for name in (n.strip() for text in given for n in text.split(",") if n.strip()):
        if len(name) == 1:
            found |= {rule for rule in FIXES if rule.startswith(name.upper())}
            continue
        try:
            rule = find_facts(name).id
        except UnknownRule as error:
            raise Usage(str(error)) from error
        if rule not in FIXES:
            raise Usage(f"{rule} cannot be fixed mechanically: assay rules {rule}")
        found.add(rule)
    return found
