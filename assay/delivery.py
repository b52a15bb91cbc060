"""Reports in files and on standard output: the options for them, and what they lead to."""

from __future__ import annotations

import argparse
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.arguments import add_no_progress, names
from assay.signals import held
from assay.status import Usage
from assay.terminal import say, standard_output, write_to

if TYPE_CHECKING:
    from schemas.report import Report

_LINKING = frozenset({"html", "sarif", "xlsx"})
"""The formats whose ``render`` takes ``repository``, the address of the tree."""


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """The options of every command that writes a report."""
    parser.add_argument(
        "--format",
        metavar="F",
        help="terminal, json, csv, html, markdown, sarif, junit, xlsx or github",
    )
    parser.add_argument(
        "--output",
        action="append",
        type=Path,
        metavar="FILE",
        help="write to FILE; its suffix selects the format (repeatable)",
    )
    parser.add_argument(
        "--prefix",
        default="",
        metavar="PATH",
        help="for github and sarif: path of TREE in the repository",
    )
    parser.add_argument(
        "--repo-url",
        metavar="URL",
        help="for html, sarif and xlsx: address of TREE, so that findings and results link to their files, "
        "e.g. https://github.com/OWNER/NAME/blob/main",
    )
    parser.add_argument(
        "--baseline",
        type=Path,
        metavar="REPORT.json",
        help="an earlier report of the tree: every format shows what is new, gone and unchanged",
    )
    parser.add_argument(
        "--split",
        choices=("submitter",),
        help="a report for each submitter, and an index; with --output-dir and --format F,…",
    )
    parser.add_argument(
        "--output-dir", type=Path, metavar="DIR", help="for --split: where its files are written"
    )
    parser.add_argument("--quiet", action="store_true", help="print one line only")
    parser.add_argument(
        "--verbose", action="store_true", help="list every location of every finding"
    )
    add_no_progress(parser)


def planned_outputs(options: argparse.Namespace) -> list[tuple[Path | None, str]]:
    """Where to write what; raises Usage before any work is done."""
    import reports

    if options.baseline is not None:
        saved(options.baseline)  # what cannot be read is noticed before the check, not after
    if options.repo_url is not None:
        from reports import links

        try:
            links.repository(options.repo_url)
        except reports.ReportError as error:
            raise Usage(f"--repo-url: {error}") from error
    if options.split is not None or options.output_dir is not None:
        return _split_formats(options)
    if options.format is not None and options.format not in reports.FORMATS:
        raise Usage(
            f"unknown format {options.format!r}; the formats are {', '.join(reports.FORMATS)}"
        )
    if not options.output:
        alone: list[tuple[Path | None, str]] = [(None, options.format or "terminal")]
        _installed(alone)
        return alone
    pairs: list[tuple[Path | None, str]] = []
    for path in options.output:
        if options.format is not None and len(options.output) == 1:
            pairs.append((path, options.format))
            continue
        try:
            pairs.append((path, reports.format_from_suffix(path)))
        except reports.ReportError as error:
            raise Usage(str(error)) from error
    for path, _format in pairs:
        if path is not None and not path.absolute().parent.is_dir():
            raise Usage(
                f"--output {path}: found no folder {path.absolute().parent}; create it first"
            )
    _installed(pairs)
    return pairs


def _split_formats(options: argparse.Namespace) -> list[tuple[Path | None, str]]:
    """The formats of --split, each with the suffix of its files instead of a path."""
    import reports

    if options.split is None or options.output_dir is None:
        raise Usage("--split submitter and --output-dir DIR belong together")
    if options.output:
        raise Usage("--split writes into --output-dir; leave --output out")
    if getattr(options, "watch", False):
        raise Usage("--split and --watch exclude each other")
    suffixes = {format: Path(suffix) for suffix, format in reversed(reports.SUFFIXES.items())}
    pairs: list[tuple[Path | None, str]] = []
    for format in names([options.format or "html"]):
        if format not in suffixes:
            raise Usage(f"--split writes {', '.join(suffixes)}; found {format!r}")
        pairs.append((suffixes[format], format))
    _installed(pairs)
    try:
        options.output_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Usage(f"--output-dir {options.output_dir}: {error.strerror}") from error
    return pairs


def _installed(pairs: list[tuple[Path | None, str]]) -> None:
    """Raises Usage where a format's package is missing."""
    from importlib.util import find_spec

    if any(format == "xlsx" for _, format in pairs) and find_spec("xlsxwriter") is None:
        raise Usage('the xlsx format needs the package xlsxwriter: pip install "assay[xlsx]"')


def prepare(options: argparse.Namespace, pairs: list[tuple[Path | None, str]]) -> None:
    """Load what `deliver` will need: half of its time for a short report."""
    import reports

    if options.quiet:
        return
    for _, format in pairs:
        reports.prepare(format)


def deliver(
    report: Report, options: argparse.Namespace, pairs: list[tuple[Path | None, str]]
) -> None:
    """Write the report, compared with the baseline where one was given."""
    import reports

    if options.baseline is not None:
        from reports.since import compared

        report = compared(options.baseline.name, saved(options.baseline), report)
    if options.split is not None:
        _deliver_split(report, options, pairs)
        return
    for path, format in pairs:
        if path is None and format == "terminal":
            from reports import to_terminal

            to_terminal.write(
                report, standard_output(), verbose=options.verbose, quiet=options.quiet
            )
            continue
        extra: dict[str, Any] = {}
        if format == "terminal":
            extra = {"quiet": options.quiet, "verbose": options.verbose}
        elif format in ("github", "sarif"):
            extra = {"prefix": options.prefix}
        if format in _LINKING and options.repo_url:
            extra["repository"] = options.repo_url
        make = functools.partial(reports.pieces, report, format, **extra)
        try:
            write_to(path, make, "--output")
        except reports.ReportError as error:
            raise Usage(str(error)) from error
    written = [str(path) for path, _ in pairs if path is not None]
    if written and not options.quiet:
        s = report.summary
        say(
            f"results: {s.results}, valid: {s.valid}, invalid: {s.invalid}; errors: {s.errors}, "
            f"warnings: {s.warnings}, notes: {s.notes}. Written: {', '.join(written)}"
        )


def _deliver_split(
    report: Report, options: argparse.Namespace, pairs: list[tuple[Path | None, str]]
) -> None:
    """A report for each submitter, then the index."""
    from copy import copy

    from reports import split

    made = split.parts(report)
    suffixes = [str(suffix) for suffix, _ in pairs]
    each = copy(options)
    each.split, each.baseline, each.quiet = None, None, True
    for part in made:
        files: list[tuple[Path | None, str]] = [
            (options.output_dir / f"{part.stem}{suffix}", format)
            for suffix, (_, format) in zip(suffixes, pairs, strict=True)
        ]
        deliver(part.report, each, files)
    page = any(format == "html" for _, format in pairs)
    index = options.output_dir / ("index.html" if page else "index.md")
    make = split.index_html if page else split.index_markdown
    write_to(index, make(report, made, suffixes))
    if not options.quiet:
        say(f"{len(made):,} submitters; index: {index}")


def saved(path: Path) -> Report:
    with held():
        from schemas.report import decode

    if path.is_dir():
        raise Usage(
            f"{path} is a folder; expected a report in JSON. Make one with: assay check {path} "
            "--output report.json"
        )
    try:
        content = path.read_bytes()
        with held():
            return decode(content)
    except OSError as error:
        raise Usage(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Usage(f"{path}: {error}") from error
