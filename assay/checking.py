"""What check and audit share: the options, and the check itself."""

from __future__ import annotations

import argparse
import contextlib
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from assay.arguments import DIVISIONS, names, positive, size
from assay.delivery import add_output_options
from assay.signals import held
from assay.status import Usage
from assay.terminal import say

if TYPE_CHECKING:
    from checker.archive import Limits
    from checker.distributed import DaskExecutor
    from checker.parse.reading import Folder
    from schemas.manifest import Manifest
    from schemas.report import Report


def add_check_options(parser: argparse.ArgumentParser) -> None:
    """The options of check and audit."""
    parser.add_argument(
        "--round", metavar="R", help="v6.1 or 6.1 (default: detected from the tree)"
    )
    parser.add_argument("--division", action="append", choices=DIVISIONS, help="only this division")
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
        "--jobs", type=positive, metavar="N", help="worker processes (default: one per core)"
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
        type=size,
        metavar="SIZE",
        help="largest unpacked size of an archive, e.g. 500G (default: 200G and 200 times its size)",
    )
    parser.add_argument(
        "--unpack-files",
        type=positive,
        metavar="N",
        help="most members an archive may have (default: 2,000,000)",
    )
    parser.add_argument(
        "--no-cache",
        action="store_true",
        help="read every file, even those unchanged since the last check",
    )
    parser.add_argument("--strict", action="store_true", help="exit with status 1 on warnings too")
    add_output_options(parser)


def _over_time(report: Report, tree: Path) -> Report:
    """A run or result folder of the runner's with how it went, which is beside its tree."""
    if len(report.results) != 1 or report.results[0].path != "." or not tree.is_dir():
        return report
    import msgspec

    from schemas.timeline import NAME, beside, read_timeline

    (result,) = report.results
    runs = []
    for run in result.runs:
        traces = beside(tree / run.path) if run.kind == "performance" else None
        if traces is not None:
            with contextlib.suppress(OSError, ValueError):
                run = msgspec.structs.replace(run, timeline=read_timeline(traces / NAME))
        runs.append(run)
    return msgspec.structs.replace(report, results=[msgspec.structs.replace(result, runs=runs)])


def checked(
    options: argparse.Namespace,
    progress: Callable[[int, int], None],
    *,
    audit: bool = False,
    since: Report | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Report:
    """What the options ask for. meanwhile: called while workers are busy."""
    # A check makes few cycles and frees those itself: looking for others costs 7% of its time.
    # A library must not decide that for a program; a command may.
    gc.disable()
    with held():
        from checker.ahead import listed_ahead
        from schemas.scratch import temporary_folder

        temporary_folder()  # before a library asks tempfile
    trees = options.trees if hasattr(options, "trees") else [options.tree]
    alone = options.jobs == 1 or options.executor != "local"
    with listed_ahead([] if alone else trees) as listing:
        return _examined(
            options, progress, listing, trees, audit=audit, since=since, meanwhile=meanwhile
        )


def _examined(
    options: argparse.Namespace,
    progress: Callable[[int, int], None],
    listing: Callable[[Path], Folder],
    trees: list[str],
    *,
    audit: bool,
    since: Report | None,
    meanwhile: Callable[[], None],
) -> Report:
    import assay
    from checker.archive import BadArchive
    from checker.cache import Cache, cache_folder
    from checker.engine import Options
    from checker.engine import audit as examine
    from checker.rules import UnknownRule
    from checker.waivers import BadWaivers
    from schemas import UnknownRound, canonical_round_name
    from schemas.machine import MachineFault

    cache = None if options.no_cache else Cache(cache_folder())
    try:
        with _executor(options, trees) as executor:
            report = examine(
                trees,
                Options(
                    round=canonical_round_name(options.round) if options.round else None,
                    divisions=frozenset(options.division) if options.division else None,
                    submitters=frozenset(options.submitter) if options.submitter else None,
                    select=names(options.select),
                    ignore=names(options.ignore),
                    waivers=options.waivers,
                    jobs=options.jobs or (executor.threads if executor is not None else None),
                    data=data(options),
                    benchmark=options.benchmark,
                    scenario=options.scenario,
                    audit=audit,
                    since=since,
                    unpack=unpack_limits(options),
                    cache=cache,
                    manifest=_manifest(options),
                    fresh=True,
                    listing=listing,
                    meanwhile=meanwhile,
                ),
                version=str(assay.__version__),
                executor=executor,
                progress=progress,
            )
        return _over_time(report, Path(trees[0]))
    except (
        FileNotFoundError,
        BadArchive,
        UnknownRule,
        UnknownRound,
        BadWaivers,
        MachineFault,
    ) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the system's own, as of a current folder that was deleted
        raise Usage(str(error)) from error
    finally:
        # What the report is made of stays: no later collection need look at it again.
        gc.freeze()
        gc.enable()
        for note in cache.notes if cache is not None else ():
            say(f"assay: note: {note}")


def unpack_limits(options: argparse.Namespace) -> Limits:
    """What was said about unpacking; who names a size trusts the archive to have it."""
    from checker.archive import Limits

    usual = Limits()
    return Limits(
        files=options.unpack_files or usual.files,
        bytes=options.unpack_limit or usual.bytes,
        ratio=None if options.unpack_limit else usual.ratio,
    )


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
    needed = [*roots, *(Path(path) for path in data(options).values())]
    with dask_executor(options.scheduler, [path.resolve() for path in needed]) as executor:
        yield executor


def data(options: argparse.Namespace) -> dict[str, str]:
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
