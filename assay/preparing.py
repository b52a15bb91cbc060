"""``assay prepare``: shows its plan, carries it out, checks what it made."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from assay.progress import Line
from assay.signals import held

if TYPE_CHECKING:
    from assay.prepare.failures import Treatment
    from assay.prepare.plan import Plan
    from assay.prepare.planning import Wishes
    from schemas.report import Report

Write = Callable[[str], None]


def prepare(options: argparse.Namespace, write: Write, say: Write) -> int:
    """Exit status: 0 done (or shown) and nothing left to do; 1 something is; 2 nothing was done."""
    with held():
        import checker.engine  # noqa: F401
        from assay.prepare import plan as plans
        from assay.prepare.acting import CannotAct, carry_out
        from assay.prepare.failures import AllFail
        from assay.prepare.junk import NoPathspec
        from assay.prepare.planning import NoTree, plan
    from assay.status import EXIT_ERRORS, EXIT_OK, Usage

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
    from assay.status import Usage

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


def round_of(name: str) -> str:
    """A round's own name, ``v6.0`` for ``6.0``."""
    from assay.status import Usage
    from schemas import UnknownRound, canonical_round_name

    try:
        return canonical_round_name(name)
    except UnknownRound as error:
        raise Usage(str(error)) from error


def checked(tree: Path, round: str | None) -> Report:
    """What the checker says of a tree; other packages' errors as the command line states them."""
    import assay
    from assay.status import Usage
    from checker.archive import BadArchive
    from checker.engine import Options, check
    from checker.machine import MachineFault

    try:
        return check(tree, Options(round=round), version=assay.__version__)
    except (FileNotFoundError, BadArchive, MachineFault) as error:
        raise Usage(str(error)) from error


def verdict(report: Report) -> str:
    """One line: what is left to do by hand, the rules with most errors first."""
    s = report.summary
    text = f"{s.valid} of {s.results} results valid; {s.errors} errors, {s.warnings} warnings"
    if not s.errors:
        return text
    counts: dict[str, int] = {}
    for finding in report.findings:
        if finding.severity == "error" and finding.waived is None:
            counts[finding.rule] = counts.get(finding.rule, 0) + 1
    most = sorted(counts, key=lambda rule: (-counts[rule], rule))[:8]
    return f"{text}; left to fix: {', '.join(f'{rule} ({counts[rule]})' for rule in most)}"


def new(options: argparse.Namespace, write: Write, say: Write) -> int:
    """``assay new``: an empty tree, checked. Exit status 0 when it is there, 2 if not."""
    with held():
        import checker.engine  # noqa: F401
        from assay.prepare import skeleton
        from assay.prepare.acting import CannotAct, create
    from assay.status import EXIT_OK, Usage

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


def fix(options: argparse.Namespace, write: Write, say: Write) -> int:
    """``assay fix``. Exit status: 0 fixed (or shown) and no error is left; 1 errors are left; 2 nothing
    was done."""
    with held():
        import checker.engine  # noqa: F401
        from assay.prepare import fixing
        from assay.prepare import plan as plans
        from assay.prepare.acting import CannotAct
        from assay.prepare.planning import NoTree
    from assay.status import EXIT_ERRORS, EXIT_OK, Usage

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
    from assay.status import Usage
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
