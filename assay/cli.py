"""The ``assay`` command: reads its arguments, calls the packages, prints what they return.

Exit status: 0 checked and no error; 1 at least one finding of severity error; 2 usage error or
nothing was checked, or the machine failed (disk full, too many open files); 128 + n stopped by
signal n (130: Ctrl-C). Standard output carries the report alone.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from assay.signals import stopping
from assay.status import (
    EXIT_ERRORS,
    EXIT_OK,
    EXIT_USAGE,
    Usage,
    exit_status,
)

if TYPE_CHECKING:
    from checker.archive import Limits
    from checker.distributed import DaskExecutor
    from schemas.manifest import Manifest
    from schemas.report import Report


_DIVISIONS = ("closed", "open", "network")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status; never raises for what a user or a tree did."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        # Answered before anything else is built: scripts ask for it often.
        import assay

        _write(f"assay {assay.__version__}\n")
        return EXIT_OK
    parser = _parser(arguments[0] if arguments else None)
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:
        return int(stop.code or 0) if isinstance(stop.code, int | None) else EXIT_USAGE
    if options.command is None:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    handler: Callable[[argparse.Namespace], int] = options.handler
    try:
        with stopping():
            return handler(options)
    except Usage as error:
        _say(f"assay: {error}")
        return EXIT_USAGE
    except BrokenPipeError:
        # The reader went away (head, less): not an error of ours, and nothing more to say.
        _drop_output()
        return EXIT_OK
    except KeyboardInterrupt as stop:
        # Stopped, and the runner's Interrupted, carry the signal's number.
        number = getattr(stop, "number", signal.SIGINT)
        _say(f"assay: stopped by {signal.Signals(number).name}")
        return 128 + number
    except MemoryError:
        _say("assay: not enough memory; try --jobs 1")
        return EXIT_USAGE
    except OSError as error:
        # A full device, most of the time: not the submission's fault, so never status 1.
        _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        _say(f"assay: {where}{error.strerror or error}")
        return EXIT_USAGE


def _drop_output() -> None:
    """What is still in the buffer of standard output must not fail again at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(text.rstrip("\n") + "\n")
        sys.stderr.flush()


def _write(text: str | bytes) -> None:
    if isinstance(text, bytes):
        sys.stdout.flush()
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
        return
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


class _Help(argparse.HelpFormatter):
    """As wide as the terminal. The library asks `shutil` for that, once for every argument, and
    importing it takes as long as building the parser."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


@functools.cache
def _columns() -> int:
    with contextlib.suppress(ValueError):
        if (stated := int(os.environ.get("COLUMNS", "0"))) > 0:
            return stated
    with contextlib.suppress(AttributeError, ValueError, OSError):
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    return 80


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _Help, **options})

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"assay: {message}\n{self.format_usage()}")


def _parser(command: str | None = None) -> argparse.ArgumentParser:
    """The command line: every command, or only the named one where that is one."""
    parser = _Parser(
        prog="assay",
        description="Submission checker, results audit and reference runner for MLPerf Inference.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    known = {
        "check": _check_parser,
        "audit": _audit_parser,
        "report": _report_parser,
        "diff": _diff_parser,
        "explore": _explore_parser,
        "export": _export_parser,
        "rules": _rules_parser,
        "rounds": _rounds_parser,
        "accuracy": _accuracy_parser,
        "run": _run_parser,
        "quantize": _quantize_parser,
        "demo": _demo_parser,
        "truncate": _truncate_parser,
        "prepare": _prepare_parser,
        "fix": _fix_parser,
        "pack": _pack_parser,
        "final-report": _final_report_parser,
        "new": _new_parser,
        "compliance": _compliance_parser,
        "serve": _serve_parser,
        "doctor": _doctor_parser,
        "cache": _cache_parser,
        "completion": _completion_parser,
    }
    for add in [known[command]] if command in known else known.values():
        add(commands)
    return parser


# --- check -------------------------------------------------------------------------------------


def _check_parser(commands: Any) -> None:
    check = commands.add_parser(
        "check",
        allow_abbrev=False,
        help="check a submission tree, a submitter, a system or one run folder",
    )
    check.add_argument(
        "tree", metavar="TREE", help="folder, or a .tar (.gz, .xz, .bz2, .zst) or .zip"
    )
    _check_options(check)
    check.add_argument(
        "--manifest",
        nargs="?",
        type=Path,
        const=Path(),
        metavar="FILE",
        help="hold every file against a manifest of assay pack (default: TREE.manifest.json)",
    )
    check.add_argument(
        "--watch",
        action="store_true",
        help="check again whenever a file changes, and show what is new and gone (extra: watch)",
    )
    check.set_defaults(handler=_check)


def _check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--round", metavar="R", help="v6.1 or 6.1 (default: detected from the tree)"
    )
    parser.add_argument(
        "--division", action="append", choices=_DIVISIONS, help="only this division"
    )
    parser.add_argument("--submitter", action="append", metavar="NAME", help="only this submitter")
    parser.add_argument(
        "--benchmark", metavar="B", help="benchmark, when TREE is a standalone run folder"
    )
    parser.add_argument(
        "--scenario", metavar="S", help="scenario, when TREE is a standalone run folder"
    )
    parser.add_argument(
        "--select", action="append", metavar="ID,…", help="only these rules or families"
    )
    parser.add_argument(
        "--ignore", action="append", metavar="ID,…", help="skip these rules or families"
    )
    parser.add_argument(
        "--waivers", type=Path, metavar="FILE", help="TOML file of reviewed findings"
    )
    parser.add_argument(
        "--jobs", type=_positive, metavar="N", help="worker processes (default: one per core)"
    )
    parser.add_argument(
        "--executor",
        choices=("local", "dask"),
        default="local",
        help="where to run: on this machine (default) or on a Dask cluster",
    )
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="address of the Dask scheduler, e.g. tcp://host:8786"
    )
    parser.add_argument(
        "--data",
        action="append",
        metavar="B=PATH",
        help="ground truth of a benchmark, to recompute its accuracy (repeatable)",
    )
    parser.add_argument(
        "--backup",
        type=Path,
        metavar="FOLDER",
        help="folder with the untruncated accuracy logs, for --data",
    )
    parser.add_argument(
        "--unpack-limit",
        type=_size,
        metavar="SIZE",
        help="largest unpacked size of an archive, e.g. 500G (default: 200G and 200 times its size)",
    )
    parser.add_argument(
        "--unpack-files",
        type=_positive,
        metavar="N",
        help="most members an archive may have (default: 2,000,000)",
    )
    parser.add_argument(
        "--no-cache",
        action="store_true",
        help="read every file, even those unchanged since the last check",
    )
    parser.add_argument("--strict", action="store_true", help="exit with status 1 on warnings too")
    _output_options(parser)


def _output_options(parser: argparse.ArgumentParser) -> None:
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
        help="an earlier report of the tree: show first what is new and gone, and mark what is new "
        "(terminal, markdown, github, sarif, junit)",
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
    parser.add_argument("--no-progress", action="store_true", help="no progress on standard error")


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return value


def _size(text: str) -> int:
    """Bytes, or K, M, G, T of 1024 each."""
    found = re.fullmatch(r"(\d{1,15})([KMGT]?)", text.upper())
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 500G")
    power: int = " KMGT".index(found[2] or " ")
    return int(found[1]) << (10 * power)


def _limits(options: argparse.Namespace) -> Limits:
    """What was said about unpacking; who names a size trusts the archive to have it."""
    from checker.archive import Limits

    usual = Limits()
    return Limits(
        files=options.unpack_files or usual.files,
        bytes=options.unpack_limit or usual.bytes,
        ratio=None if options.unpack_limit else usual.ratio,
    )


def _names(values: list[str] | None) -> tuple[str, ...]:
    return tuple(n.strip() for v in values or [] for n in v.split(",") if n.strip())


def _check(options: argparse.Namespace) -> int:
    from assay.progress import Line

    line = Line(enabled=not (options.no_progress or options.quiet))

    def progress(done: int, total: int) -> None:
        line.show(f"checking {done} of {total} results", force=done == total)

    def check() -> Report:
        try:
            return _checked(options, progress)
        finally:
            line.clear()

    formats = _formats(options)
    if options.watch and not Path(options.tree).is_dir():
        raise Usage(f"--watch {options.tree}: give a folder")
    report = check()
    _deliver(report, options, formats)
    if options.watch:
        from assay.watching import watched

        for later in watched(Path(options.tree), check, _write, report):
            _deliver(later, options, [pair for pair in formats if pair[0] is not None])
    known = {name for r in report.results for name in (r.benchmark, r.directory)}
    for name in sorted(set(_data(options)) - known - {""}):
        _say(
            f"assay: --data {name}: no result of that benchmark was found; nothing was computed again"
        )
    return exit_status(report, strict=options.strict)


def _checked(
    options: argparse.Namespace,
    progress: Callable[[int, int], None],
    *,
    audit: bool = False,
    since: Report | None = None,
) -> Report:
    # A check makes few cycles and frees those itself: looking for others costs 7 % of its time.
    # A library must not decide that for a program; a command may.
    gc.disable()
    import assay
    from checker.archive import BadArchive
    from checker.cache import Cache, cache_folder
    from checker.engine import Options
    from checker.engine import audit as examine
    from checker.machine import MachineFault
    from checker.rules import UnknownRule
    from checker.waivers import BadWaivers
    from schemas import UnknownRound, canonical_round_name

    trees = options.trees if hasattr(options, "trees") else [options.tree]
    cache = None if options.no_cache else Cache(cache_folder())
    try:
        with _executor(options, trees) as executor:
            return examine(
                trees,
                Options(
                    round=canonical_round_name(options.round) if options.round else None,
                    divisions=frozenset(options.division) if options.division else None,
                    submitters=frozenset(options.submitter) if options.submitter else None,
                    select=_names(options.select),
                    ignore=_names(options.ignore),
                    waivers=options.waivers,
                    jobs=options.jobs or (executor.threads if executor is not None else None),
                    data=_data(options),
                    benchmark=options.benchmark,
                    scenario=options.scenario,
                    audit=audit,
                    since=since,
                    unpack=_limits(options),
                    cache=cache,
                    manifest=_manifest(options),
                ),
                version=str(assay.__version__),
                executor=executor,
                progress=progress,
            )
    except (
        FileNotFoundError,
        BadArchive,
        UnknownRule,
        UnknownRound,
        BadWaivers,
        MachineFault,
    ) as error:
        raise Usage(str(error)) from error
    finally:
        gc.enable()
        for note in cache.notes if cache is not None else ():
            _say(f"assay: note: {note}")


def _manifest(options: argparse.Namespace) -> Manifest | None:
    """The manifest that --manifest names, or the one beside TREE."""
    from schemas.manifest import BadManifest, decode

    path: Path | None = getattr(options, "manifest", None)
    if path is None:
        return None
    if path == Path():
        path = Path(f"{options.tree.rstrip('/')}.manifest.json")
    try:
        return decode(path.read_bytes())
    except OSError as error:
        raise Usage(f"--manifest {path} cannot be read: {error.strerror}") from error
    except BadManifest as error:
        raise Usage(f"--manifest {path}: {error}") from error


@contextlib.contextmanager
def _executor(options: argparse.Namespace, trees: list[str]) -> Iterator[DaskExecutor | None]:
    """What carries the work: None for this machine's processes."""
    if options.executor == "local":
        if options.scheduler is not None:
            raise Usage("--scheduler belongs to --executor dask")
        yield None
        return
    if options.scheduler is None:
        raise Usage("--executor dask needs --scheduler ADDRESS, e.g. tcp://host:8786")
    from checker.distributed import dask_executor

    roots = [Path(tree) for tree in trees]
    for root in roots:
        if not root.exists():
            raise Usage(f"no such file or folder: {root}")
        if root.is_file():
            raise Usage(
                f"{root}: workers of a cluster read the tree themselves; unpack the archive to a "
                "folder that all of them see"
            )
    needed = [*roots, *(Path(path) for path in _data(options).values())]
    with dask_executor(options.scheduler, [path.resolve() for path in needed]) as executor:
        yield executor


def _data(options: argparse.Namespace) -> dict[str, str]:
    """``--data benchmark=path`` pairs, with ``--backup`` under the name that no benchmark has."""
    pairs: dict[str, str] = {}
    for text in options.data or []:
        name, equals, path = text.partition("=")
        if not equals or not name or not Path(path).exists():
            raise Usage(f"--data {text}: give benchmark=path, where path exists")
        pairs[name] = str(Path(path).resolve())
    if pairs and options.backup is not None:
        pairs[""] = str(options.backup.resolve())
    return pairs


def _formats(options: argparse.Namespace) -> list[tuple[Path | None, str]]:
    """Where to write what; raises Usage before any work is done."""
    import reports

    if options.baseline is not None:
        _saved(options.baseline)  # what cannot be read is noticed before the check, not after
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
            raise Usage(f"--output {path}: there is no folder {path.absolute().parent}")
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
    for format in _names([options.format or "html"]):
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


_LINKING = frozenset({"html", "sarif", "xlsx"})
"""The formats whose ``render`` takes ``repository``, the address of the tree."""

_COMPARING = frozenset({"terminal", "markdown", "github", "sarif", "junit"})
"""The formats whose ``render`` takes ``since``, what changed since the baseline."""


def _deliver(
    report: Report,
    options: argparse.Namespace,
    pairs: list[tuple[Path | None, str]],
    old: Report | None = None,
) -> None:
    """Write the report; ``old`` is the baseline where it is not the file that was named."""
    import reports

    if options.split is not None:
        _deliver_split(report, options, pairs)
        return
    since = None
    if options.baseline is not None:
        from reports.since import Since

        since = Since(options.baseline.name, old or _saved(options.baseline), report)
        silent = sorted({format for _, format in pairs} - _COMPARING)
        if silent:
            _say(f"assay: note: --baseline changes nothing in {', '.join(silent)}")
    for path, format in pairs:
        if path is None and format == "terminal":
            from reports import to_terminal

            to_terminal.write(
                report, sys.stdout, verbose=options.verbose, quiet=options.quiet, since=since
            )
            continue
        extra: dict[str, Any] = {}
        if format == "terminal":
            extra = {"quiet": options.quiet, "verbose": options.verbose}
        elif format in ("github", "sarif"):
            extra = {"prefix": options.prefix}
        if format in _LINKING and options.repo_url:
            extra["repository"] = options.repo_url
        if since is not None and format in _COMPARING:
            extra["since"] = since
        try:
            rendered = reports.render(report, format, **extra)
        except reports.ReportError as error:
            raise Usage(str(error)) from error
        _write_to(path, rendered, "--output")
    written = [str(path) for path, _ in pairs if path is not None]
    if written and not options.quiet:
        s = report.summary
        _say(
            f"results: {s.results}, valid: {s.valid}, invalid: {s.invalid}; errors: {s.errors}, "
            f"warnings: {s.warnings}, notes: {s.notes}. Written: {', '.join(written)}"
        )


def _deliver_split(
    report: Report, options: argparse.Namespace, pairs: list[tuple[Path | None, str]]
) -> None:
    """A report for each submitter, then the index."""
    from copy import copy

    from msgspec.structs import replace

    from reports import split

    before = split.parts(_saved(options.baseline)) if options.baseline is not None else []
    old = {part.submitter: part.report for part in before}
    made = split.parts(report)
    suffixes = [str(suffix) for suffix, _ in pairs]
    each = copy(options)
    each.split, each.quiet = None, True
    for part in made:
        nothing = replace(part.report, results=[], findings=[])
        files: list[tuple[Path | None, str]] = [
            (options.output_dir / f"{part.stem}{suffix}", format)
            for suffix, (_, format) in zip(suffixes, pairs, strict=True)
        ]
        _deliver(part.report, each, files, old=old.get(part.submitter, nothing))
    page = any(format == "html" for _, format in pairs)
    index = options.output_dir / ("index.html" if page else "index.md")
    make = split.index_html if page else split.index_markdown
    _write_to(index, make(report, made, suffixes))
    if not options.quiet:
        _say(f"{len(made):,} submitters; index: {index}")


# --- audit -------------------------------------------------------------------------------------


def _audit_parser(commands: Any) -> None:
    audit = commands.add_parser(
        "audit",
        allow_abbrev=False,
        help="check, and look for evidence across files, results, submitters and rounds",
    )
    audit.add_argument(
        "trees", nargs="+", metavar="TREE", help="folders or archives, of one round or several"
    )
    _check_options(audit)
    audit.add_argument(
        "--since",
        type=Path,
        metavar="REPORT.json",
        help="an earlier round's report: how far did each result move",
    )
    audit.add_argument(
        "--select-random", action="store_true", help="draw a submission to audit, by the rules"
    )
    audit.add_argument("--seed", type=int, metavar="N", help="what the draw follows from")
    audit.add_argument(
        "--audited",
        type=Path,
        metavar="FILE",
        help="submitter/system of the round before, one a line: not drawn, nor what equals them",
    )
    audit.add_argument(
        "--explain",
        metavar="RESULT",
        help="everything that was tested of one result, by its key or folder (terminal, json, html)",
    )
    audit.set_defaults(handler=_audit)


def _audit(options: argparse.Namespace) -> int:
    from assay.progress import Line

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
    since = _saved(options.since) if options.since is not None else None
    formats = [] if options.select_random else _formats(options)
    line = Line(enabled=not (options.no_progress or options.quiet))

    def progress(done: int, total: int) -> None:
        line.show(f"auditing {done} of {total} results", force=done == total)

    try:
        report = _checked(options, progress, audit=not options.select_random, since=since)
    finally:
        line.clear()
    if options.select_random:
        return _draw(report, options, since)
    _deliver(report, options, formats)
    return exit_status(report, strict=options.strict)


def _explain(options: argparse.Namespace) -> int:
    from assay.progress import Line
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
                select=_names(options.select),
                ignore=_names(options.ignore),
                unpack=_limits(options),
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
        _write_to(path, makers[options.format or kind](found), "--output")
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
        _write(encode(found) if options.format == "json" else found.text())
    for path in options.output or []:
        _write_to(path, found.text() if path.suffix == ".txt" else encode(found), "--output")
    return EXIT_OK if found.draws else EXIT_USAGE


# --- report and diff ---------------------------------------------------------------------------


def _report_parser(commands: Any) -> None:
    report = commands.add_parser("report", help="render a saved JSON report", allow_abbrev=False)
    report.add_argument("report", type=Path, metavar="REPORT.json")
    report.add_argument("--strict", action="store_true", help="exit with status 1 on warnings too")
    _output_options(report)
    report.set_defaults(handler=_report)


def _report(options: argparse.Namespace) -> int:
    formats = _formats(options)
    report = _saved(options.report)
    _deliver(report, options, formats)
    return exit_status(report, strict=options.strict)


def _saved(path: Path) -> Report:
    from schemas.report import decode

    try:
        return decode(path.read_bytes())
    except OSError as error:
        raise Usage(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Usage(f"{path}: {error}") from error


def _diff_parser(commands: Any) -> None:
    diff = commands.add_parser(
        "diff", help="what changed between two saved reports", allow_abbrev=False
    )
    diff.add_argument("old", type=Path, metavar="OLD.json")
    diff.add_argument("new", type=Path, metavar="NEW.json")
    diff.set_defaults(handler=_diff)


def _diff(options: argparse.Namespace) -> int:
    from reports.diff import diff, to_text

    found = diff(_saved(options.old), _saved(options.new))
    _write(to_text(found))
    return EXIT_ERRORS if found.worse else EXIT_OK


# --- many reports ------------------------------------------------------------------------------


def _explore_parser(commands: Any) -> None:
    explore = commands.add_parser(
        "explore",
        help="one page over any number of saved reports",
        description="Write one self-contained HTML page over any number of saved JSON reports: "
        "ranking, progress over rounds, two systems side by side, scatter plots, every row.",
        allow_abbrev=False,
    )
    explore.add_argument("reports", type=Path, nargs="+", metavar="REPORT.json")
    explore.add_argument(
        "--output", type=Path, metavar="FILE", help="where to write (default: standard output)"
    )
    explore.add_argument(
        "--repo-url",
        action="append",
        default=[],
        metavar="ROUND=URL",
        help="link the results of a round to their files below this address",
    )
    explore.set_defaults(handler=_explore)


def _explore(options: argparse.Namespace) -> int:
    from reports.explore import page
    from reports.explore.rows import rows

    links = {}
    for given in options.repo_url:
        round, equals, url = given.partition("=")
        if not equals or not url.startswith(("https://", "http://")):
            raise Usage(f"--repo-url {given}: expected ROUND=https://…")
        links[round] = url
    html = page.render(rows([_saved(path) for path in options.reports]), links)
    _write_to(options.output, html)
    return EXIT_OK


def _export_parser(commands: Any) -> None:
    export = commands.add_parser(
        "export",
        help="the results of saved reports as one table",
        description="Write one row a result over any number of saved JSON reports, for notebooks "
        "and databases. docs/explorer.md describes the columns.",
        allow_abbrev=False,
    )
    export.add_argument("reports", type=Path, nargs="+", metavar="REPORT.json")
    export.add_argument("--format", choices=("csv", "parquet"), default="csv")
    export.add_argument(
        "--output", type=Path, metavar="FILE", help="where to write (default: standard output)"
    )
    export.set_defaults(handler=_export)


def _export(options: argparse.Namespace) -> int:
    from reports import ReportError
    from reports.explore.export import to_csv, to_parquet
    from reports.explore.rows import rows

    found = rows([_saved(path) for path in options.reports])
    try:
        content = to_csv(found) if options.format == "csv" else to_parquet(found)
    except ReportError as error:
        raise Usage(str(error)) from error
    _write_to(options.output, content)
    return EXIT_OK


def _write_to(path: Path | None, content: str | bytes, option: str = "") -> None:
    """Write to a file, whole or not at all, or to standard output. ``option``: what named the file."""
    if path is None:
        _write(content)
        return
    from checker.writing import write_file

    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    try:
        write_file(path, data)
    except OSError as error:
        raise Usage(f"{option} {path} cannot be written: {error.strerror}".lstrip()) from error


# --- cache -------------------------------------------------------------------------------------


def _cache_parser(commands: Any) -> None:
    cache = commands.add_parser(
        "cache", help="what earlier checks remember of unchanged files", allow_abbrev=False
    )
    actions = cache.add_subparsers(dest="action", metavar="ACTION", required=True)
    clear = actions.add_parser("clear", help="remove it", allow_abbrev=False)
    clear.set_defaults(handler=_clear_cache)


def _clear_cache(options: argparse.Namespace) -> int:
    from checker.cache import cache_folder, clear

    folder = cache_folder()
    count, size = clear(folder)
    _write(f"{folder}: {count:,} files, {size / 1e6:,.1f} MB removed\n")
    return EXIT_OK


# --- rules and rounds --------------------------------------------------------------------------


def _rules_parser(commands: Any) -> None:
    rules = commands.add_parser("rules", help="list the rules, or explain one", allow_abbrev=False)
    rules.add_argument(
        "rule", nargs="?", metavar="ID", help="a rule's id or name, or a family's letter"
    )
    rules.set_defaults(handler=_rules)


def _rules(options: argparse.Namespace) -> int:
    from assay import rule_text
    from checker.rule import FAMILIES
    from checker.rules import UnknownRule, all_facts, find_facts, find_rule

    if options.rule is None or options.rule.upper() in FAMILIES:
        family = options.rule.upper() if options.rule else ""
        lines = [
            f"{facts.id}  {facts.severity:<8} {facts.name:<32} {facts.summary}"
            for facts in all_facts()
            if facts.id.startswith(family)
        ]
        _write("\n".join(lines) + "\n")
        return EXIT_OK
    try:
        facts = find_facts(options.rule)
    except UnknownRule as error:
        raise Usage(str(error)) from error
    try:
        rule = find_rule(facts.id)
        _write(rule_text.text(facts, rule.divisions, rule.cases))
    except UnknownRule:  # a finding of the tool itself
        _write(rule_text.text(facts, (), {}))
    return EXIT_OK


def _rounds_parser(commands: Any) -> None:
    rounds = commands.add_parser(
        "rounds", help="list the rounds, show one, or compare two", allow_abbrev=False
    )
    rounds.add_argument("round", nargs="?", metavar="R", help="a round, v6.1 or 6.1")
    rounds.add_argument("--diff", metavar="R2", help="what changed from R to R2")
    rounds.set_defaults(handler=_rounds)


def _rounds(options: argparse.Namespace) -> int:
    from reports import round_changes, rounds
    from schemas import UnknownRound, load_round, round_names

    try:
        if options.round is None:
            if options.diff:
                raise Usage("--diff compares two rounds: assay rounds R --diff R2")
            _write(rounds.overview([load_round(name) for name in round_names()]))
        elif options.diff:
            _write(round_changes.changes(load_round(options.round), load_round(options.diff)))
        else:
            _write(rounds.tables(load_round(options.round)))
    except UnknownRound as error:
        raise Usage(str(error)) from error
    return EXIT_OK


# --- accuracy and truncate ---------------------------------------------------------------------


def _accuracy_parser(commands: Any) -> None:
    accuracy = commands.add_parser(
        "accuracy",
        allow_abbrev=False,
        help="recompute the accuracy metric from mlperf_log_accuracy.json and ground truth",
    )
    accuracy.add_argument(
        "run", type=Path, metavar="RUN", help="folder with mlperf_log_accuracy.json"
    )
    accuracy.add_argument("--benchmark", required=True, metavar="B")
    accuracy.add_argument("--data", type=Path, metavar="D", help="ground truth: folder or file")
    accuracy.add_argument(
        "--round", metavar="R", help="whose gate to compare with (default: the newest that has B)"
    )
    accuracy.add_argument(
        "--backup",
        type=Path,
        metavar="FOLDER",
        help="folder with the whole log, where RUN's is truncated",
    )
    accuracy.add_argument(
        "--compare",
        type=Path,
        metavar="OTHER",
        help="a second detection log: per-category differences instead of a gate",
    )
    accuracy.add_argument(
        "--no-progress", action="store_true", help="no progress on standard error"
    )
    accuracy.set_defaults(handler=_accuracy)


def _accuracy(options: argparse.Namespace) -> int:
    from assay.accuracy import recompute

    return recompute(options, _write, _say)


def _truncate_parser(commands: Any) -> None:
    truncate = commands.add_parser(
        "truncate",
        allow_abbrev=False,
        help="shorten accuracy logs and add their hash to accuracy.txt; shows its plan first",
    )
    truncate.add_argument("tree", type=Path, metavar="TREE")
    truncate.add_argument(
        "--backup",
        type=Path,
        metavar="FOLDER",
        help="where the whole logs are kept (required unless --dry-run)",
    )
    truncate.add_argument("--dry-run", action="store_true", help="only show what would be done")
    truncate.add_argument(
        "--no-progress", action="store_true", help="no progress on standard error"
    )
    truncate.set_defaults(handler=_truncate)


def _truncate(options: argparse.Namespace) -> int:
    from assay.accuracy import truncate

    return truncate(options, _write, _say)


def _compliance_parser(commands: Any) -> None:
    compliance = commands.add_parser(
        "compliance", allow_abbrev=False, help="verify a compliance test from its own logs"
    )
    actions = compliance.add_subparsers(dest="action", metavar="ACTION", required=True)
    verify = actions.add_parser(
        "verify",
        allow_abbrev=False,
        help="judge one test and, with --write, write its verify files",
    )
    verify.add_argument(
        "test_dir", type=Path, metavar="TEST_DIR", help="the test's folder, e.g. …/Offline/TEST01"
    )
    verify.add_argument(
        "--main",
        required=True,
        type=Path,
        metavar="RESULT",
        help="the result's folder, with performance/run_1 and accuracy",
    )
    verify.add_argument("--benchmark", required=True, metavar="B")
    verify.add_argument("--scenario", required=True, metavar="S")
    verify.add_argument("--round", required=True, metavar="R")
    verify.add_argument("--test", metavar="TESTnn", help="default: the folder's name")
    verify.add_argument(
        "--score",
        type=float,
        metavar="X",
        help="TEST07's accuracy, where accuracy.txt does not state it",
    )
    verify.add_argument("--write", action="store_true", help="write the verify files into TEST_DIR")
    verify.add_argument("--no-progress", action="store_true", help="no progress on standard error")
    verify.set_defaults(handler=_compliance)


def _compliance(options: argparse.Namespace) -> int:
    from assay.compliance import verify

    return verify(options, _write, _say)


# --- from runs to a submission -----------------------------------------------------------------


def _prepare_parser(commands: Any) -> None:
    from assay.prepare_parser import add_prepare_options

    prepare = commands.add_parser(
        "prepare",
        allow_abbrev=False,
        help="make a submission of a pile of runs: a plan first, then a new tree; TREE is only read",
    )
    add_prepare_options(prepare)
    prepare.set_defaults(handler=_prepare)


def _prepare(options: argparse.Namespace) -> int:
    from assay.preparing import prepare

    return prepare(options, _write, _say)


def _pack_parser(commands: Any) -> None:
    from assay.prepare_parser import add_pack_options

    pack = commands.add_parser(
        "pack",
        allow_abbrev=False,
        help="make a reproducible archive of a submission that checks, with manifest and report",
    )
    add_pack_options(pack)
    pack.set_defaults(handler=_pack)


def _pack(options: argparse.Namespace) -> int:
    from assay.packing import pack

    return pack(options, _write, _say)


def _new_parser(commands: Any) -> None:
    from assay.prepare_parser import add_new_options

    new = commands.add_parser(
        "new", allow_abbrev=False, help="make an empty submission for one system, to be filled in"
    )
    add_new_options(new)
    new.set_defaults(handler=_new)


def _new(options: argparse.Namespace) -> int:
    from assay.preparing import new

    return new(options, _write, _say)


def _fix_parser(commands: Any) -> None:
    from assay.prepare_parser import add_fix_options

    fix = commands.add_parser(
        "fix",
        allow_abbrev=False,
        help="fix in place what a machine can fix: a plan first, and an undo folder",
    )
    add_fix_options(fix)
    fix.set_defaults(handler=_fix)


def _fix(options: argparse.Namespace) -> int:
    from assay.preparing import fix

    return fix(options, _write, _say)


def _final_report_parser(commands: Any) -> None:
    from assay.prepare_parser import add_final_report_options

    final = commands.add_parser(
        "final-report",
        allow_abbrev=False,
        help="the results workbook of a round, from one or several saved reports",
    )
    add_final_report_options(final)
    final.set_defaults(handler=_final_report)


def _final_report(options: argparse.Namespace) -> int:
    from reports import ReportError, render
    from reports.joined import joined

    try:
        report = joined([(str(path), _saved(path)) for path in options.reports])
        book = render(
            report, "xlsx", ids_file=options.ids, repository=options.repository, findings=False
        )
    except ReportError as error:
        raise Usage(str(error)) from error
    _write_to(options.output, book)
    s = report.summary
    _say(f"assay: {options.output}: {s.valid} valid results; {s.invalid} invalid ones left out")
    return EXIT_OK


# --- run and demo ------------------------------------------------------------------------------


def _run_parser(commands: Any) -> None:
    from assay.run_parser import add_run_options

    run = commands.add_parser(
        "run",
        allow_abbrev=False,
        help="measure a benchmark under the official LoadGen and write a submission tree",
    )
    add_run_options(run)
    run.set_defaults(handler=_run)


def _run(options: argparse.Namespace) -> int:
    from assay.measure import run

    return run(options, _write, _say)


def _quantize_parser(commands: Any) -> None:
    from assay.run_parser import add_quantize_options

    quantize = commands.add_parser(
        "quantize",
        allow_abbrev=False,
        help="make a static INT8 model with a benchmark's calibration samples, and score both",
    )
    add_quantize_options(quantize)
    quantize.set_defaults(handler=_quantize)


def _quantize(options: argparse.Namespace) -> int:
    from assay.measure import quantize

    return quantize(options, _write, _say)


def _demo_parser(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        allow_abbrev=False,
        help="run, check and report the embedded benchmark: no download, no GPU, under a minute",
    )
    demo.add_argument(
        "--out", type=Path, default=Path("assay-demo"), metavar="FOLDER", help="default: assay-demo"
    )
    demo.add_argument("--no-progress", action="store_true", help="no progress on standard error")
    demo.set_defaults(handler=_demo)


def _demo(options: argparse.Namespace) -> int:
    from assay.measure import demo

    return demo(options, _write, _say)


# --- serve -------------------------------------------------------------------------------------


def _serve_parser(commands: Any) -> None:
    from runner.serve.command import add_options

    serve = commands.add_parser(
        "serve",
        allow_abbrev=False,
        help="serve the embedded language model behind an OpenAI-compatible endpoint",
    )
    add_options(serve)
    serve.set_defaults(handler=_serve)


def _serve(options: argparse.Namespace) -> int:
    from runner.serve.command import run

    return run(options, _write, _say)


# --- doctor ------------------------------------------------------------------------------------


def _doctor_parser(commands: Any) -> None:
    doctor = commands.add_parser(
        "doctor",
        allow_abbrev=False,
        help="what this machine has for measuring, and which benchmarks could run on it",
    )
    doctor.add_argument("--format", choices=("terminal", "json"), default="terminal")
    doctor.add_argument(
        "--backend",
        choices=("onnxruntime", "tensorrt", "openai"),
        default="onnxruntime",
        help="exit status 2 if nothing can be measured with this one (default: onnxruntime)",
    )
    doctor.add_argument(
        "--gpu",
        action="store_true",
        help="only the GPUs, with 5 seconds of copies and a matrix product; exit status 2 if "
        "something is missing, with the line that installs it",
    )
    doctor.set_defaults(handler=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    import json

    from runner.doctor import examine, examine_gpu

    found = examine_gpu() if options.gpu else examine()
    if options.format == "json":
        _write(json.dumps(found.as_dict(), indent=2) + "\n")
    else:
        _write(found.text())
    good = found.complete() if options.gpu else found.usable(options.backend)
    return EXIT_OK if good else EXIT_USAGE


# --- completion --------------------------------------------------------------------------------


def _completion_parser(commands: Any) -> None:
    completion = commands.add_parser(
        "completion", help="print a completion script for a shell", allow_abbrev=False
    )
    completion.add_argument(
        "shell",
        choices=("bash", "zsh", "fish", "tcsh"),
        help="source what is printed, or save it",
    )
    completion.set_defaults(handler=_completion)


def _completion(options: argparse.Namespace) -> int:
    import reports
    from assay.completion import script
    from checker.rule import FAMILIES
    from checker.rules import RULES
    from schemas import round_names

    rounds = round_names()
    rules = [*FAMILIES, *(rule.id for rule in RULES)]
    values = {
        "round": rounds, "diff": rounds, "format": reports.FORMATS,
        "rule": rules, "select": rules, "ignore": rules,
    }  # fmt: skip
    _write(script(options.shell, _parser(), values))
    return EXIT_OK
