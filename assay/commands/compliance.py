"""``assay compliance verify``: judges one compliance test from its own logs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from assay.arguments import add_no_progress
from assay.status import EXIT_ERRORS, EXIT_OK, EXIT_USAGE, Usage
from assay.terminal import say, write


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "compliance", allow_abbrev=False, help="verify a compliance test from its own logs"
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
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
    add_no_progress(verify)
    verify.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Run the command: 0 the test passes, 1 it fails, 2 it cannot be known."""
    from checker import compliance
    from checker.discover import canonical_scenario
    from schemas import UnknownRound, load_round
    from schemas.names import benchmark_name

    try:
        round = load_round(options.round)
    except UnknownRound as error:
        raise Usage(str(error)) from error
    benchmark = benchmark_name(options.benchmark, round, {}, "closed")
    if benchmark is None:
        raise Usage(
            f"{round.name} has no benchmark {options.benchmark!r}; it has {', '.join(round.benchmarks)}"
        )
    scenario = canonical_scenario(options.scenario, round.aliases)
    if scenario is None:
        raise Usage(f"unknown scenario {options.scenario!r}")
    for folder in (options.main, options.test_dir):
        if not folder.is_dir():
            raise Usage(f"found no folder {folder}; expected the logs of a run there")
    name = (options.test or options.test_dir.name).upper()
    try:
        outcome = compliance.verify(
            name, options.main, options.test_dir, round, benchmark, scenario, score=options.score
        )
    except KeyError as error:
        raise Usage(str(error.args[0])) from error
    verdict = {True: "TEST PASS", False: "TEST FAIL", None: "cannot be known"}[outcome.passed]
    write(f"{name}: {verdict}\n")
    for failure in outcome.failures:
        write(f"  {failure}\n")
    for note in outcome.notes:
        write(f"  note: {note}\n")
    if options.write:
        try:
            written = compliance.write(outcome, options.test_dir)
        except OSError as error:
            raise Usage(f"{options.test_dir} cannot be written: {error.strerror}") from error
        say(
            "written: " + ", ".join(str(path) for path in written)
            if written
            else "nothing was written"
        )
    return {True: EXIT_OK, False: EXIT_ERRORS, None: EXIT_USAGE}[outcome.passed]
