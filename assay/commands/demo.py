"""``assay demo``: run, check and report the embedded benchmark."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from assay.arguments import add_no_progress
from assay.commands.run import add_run_options, plan_of
from assay.measure import Listener, measured
from assay.status import EXIT_ERRORS, EXIT_OK, Usage, exit_status
from assay.terminal import write


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "demo",
        allow_abbrev=False,
        help="run, check and report the embedded benchmark: no download, no GPU, under a minute",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("assay-demo"), metavar="FOLDER", help="default: assay-demo"
    )
    add_no_progress(parser)
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Run ``assay demo``: measure, check and report the embedded benchmark."""
    import assay
    import reports
    from checker.engine import Options, check
    from schemas import load_round
    from schemas.writing import write_file

    began = time.monotonic()
    out: Path = options.out
    tree = out / "submission"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Usage(f"--out {out} cannot be made: {error.strerror}") from error
    parser = argparse.ArgumentParser()
    add_run_options(parser)
    run_options = parser.parse_args(
        ["--out", str(tree), "--round", "demo", "--compliance", "--overwrite"]
    )
    plan = plan_of(run_options)
    outcomes = measured(plan, Listener(enabled=not options.no_progress))
    if not tree.exists():
        write(f"Nothing could be measured; what the runs left is in {tree}.runs\n")
        return EXIT_ERRORS
    report = check(tree, Options(round="demo"), version=str(assay.__version__))
    saved = {"report.json": "json", "report.html": "html"}
    for name, format in saved.items():
        rendered = reports.render(report, format)
        data = (
            rendered
            if isinstance(rendered, bytes)
            else rendered.encode("utf-8", "backslashreplace")
        )
        write_file(out / name, data)
    text = reports.render(report, "terminal", quiet=True)
    write(text if isinstance(text, str) else text.decode())
    title = load_round("demo").title
    write(
        f"\n{title}: this is not an official MLPerf result.\nSubmission tree: {tree}\nJSON report:     {out / 'report.json'}\n"
        f"HTML report:     {(out / 'report.html').resolve()}\nTook {time.monotonic() - began:.0f} s.\n"
    )
    if any(o.status != "valid" for o in outcomes):
        return EXIT_ERRORS
    return exit_status(report) or EXIT_OK
