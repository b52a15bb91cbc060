"""``assay audit``: a check, and evidence across files, results, submitters and rounds."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.arguments import names
from assay.checking import add_check_options, checked, unpack_limits
from assay.delivery import deliver, planned_outputs, prepare, saved
from assay.progress import Line
from assay.status import EXIT_ERRORS, EXIT_OK, EXIT_USAGE, Usage, exit_status
from assay.terminal import write, write_to

if TYPE_CHECKING:
    from schemas.report import Report


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "audit",
        allow_abbrev=False,
        help="check, and look for evidence across files, results, submitters and rounds",
    )
    parser.add_argument(
        "trees", nargs="+", metavar="TREE", help="folders or archives, of one round or several"
    )
    add_check_options(parser)
    parser.add_argument(
        "--since",
        type=Path,
        metavar="REPORT.json",
        help="an earlier round's report: how far did each result move",
    )
    parser.add_argument(
        "--select-random", action="store_true", help="draw a submission to audit, by the rules"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="what the draw follows from")
    parser.add_argument(
        "--audited",
        type=Path,
        metavar="FILE",
        help="submitter/system of the round before, one a line: not drawn, nor what equals them",
    )
    parser.add_argument(
        "--explain",
        metavar="RESULT",
        help="everything that was tested of one result, by its key or folder (terminal, json, html)",
    )
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Exit status: see ``assay.cli``; of a draw, 2 where there was nothing to draw."""
    if options.select_random and options.seed is None:
        raise Usage("--select-random needs --seed N, so that everybody can repeat the draw")
    if not options.select_random and (options.seed is not None or options.audited is not None):
        raise Usage("--seed and --audited belong to --select-random")
    if options.select_random and len(options.trees) > 1:
        raise Usage("--select-random draws from one TREE")
    if options.select_random or options.explain is not None:
        for name in ("baseline", "split", "output_dir"):
            if getattr(options, name) is not None:
                raise Usage(f"--{name.replace('_', '-')} belongs to a report of the whole audit")
    if options.explain is not None:
        return _explain(options)
    since = saved(options.since) if options.since is not None else None
    outputs = [] if options.select_random else planned_outputs(options)
    line = Line(enabled=not (options.no_progress or options.quiet))

    def progress(done: int, total: int) -> None:
        line.show(f"auditing {done} of {total} results", force=done == total)

    try:
        report = checked(
            options,
            progress,
            audit=not options.select_random,
            since=since,
            meanwhile=lambda: prepare(options, outputs),
        )
    finally:
        line.clear()
    if options.select_random:
        return _draw(report, options, since)
    deliver(report, options, outputs)
    return exit_status(report, strict=options.strict)


def _explain(options: argparse.Namespace) -> int:
    from checker.archive import BadArchive
    from checker.audit.explain import UnknownResult, explain
    from checker.engine import Options
    from checker.rules import UnknownRule
    from reports.explanation import to_html, to_text
    from schemas import UnknownRound, canonical_round_name
    from schemas.explanation import encode

    if len(options.trees) > 1:
        raise Usage("--explain takes one TREE")
    makers: dict[str, Callable[[Any], str | bytes]] = {
        "terminal": to_text, "json": encode, "html": to_html,
    }  # fmt: skip
    if options.format not in (None, *makers):
        raise Usage("evidence is shown as terminal, json or html")
    line = Line(enabled=not (options.no_progress or options.quiet))
    try:
        found = explain(
            options.trees[0],
            options.explain,
            Options(
                round=canonical_round_name(options.round) if options.round else None,
                select=names(options.select),
                ignore=names(options.ignore),
                unpack=unpack_limits(options),
            ),
            progress=lambda done, total: line.show(
                f"reading {done} of {total} results", force=done == total
            ),
        )
    except (FileNotFoundError, BadArchive, UnknownResult, UnknownRound, UnknownRule) as error:
        raise Usage(str(error)) from error
    finally:
        line.clear()
    suffixes = {".json": "json", ".html": "html"}
    for path in options.output or [None]:
        kind = suffixes.get(path.suffix, "terminal") if path is not None else "terminal"
        write_to(path, makers[options.format or kind](found), "--output")
    return EXIT_ERRORS if any(one.severity == "error" for one in found.tested) else EXIT_OK


def _draw(report: Report, options: argparse.Namespace, before: Report | None) -> int:
    from checker.audit.selection import encode, select_random

    audited: list[str] = []
    if options.audited is not None:
        try:
            audited = options.audited.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise Usage(f"--audited {options.audited} cannot be read: {error}") from error
    if options.format not in (None, "terminal", "json"):
        raise Usage("a random draw is shown as terminal or json")
    found = select_random(report, options.seed, audited=audited, before=before)
    if not options.output:
        write(encode(found) if options.format == "json" else found.text())
    for path in options.output or []:
        write_to(path, found.text() if path.suffix == ".txt" else encode(found), "--output")
    return EXIT_OK if found.draws else EXIT_USAGE
