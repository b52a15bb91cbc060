"""``assay plot``: pictures of a run's latencies."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.status import EXIT_OK, Usage
from assay.terminal import say, write_to

if TYPE_CHECKING:
    from schemas.report import Report, Result, RunFacts

_MOST = 12  # runs in one picture


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "plot",
        allow_abbrev=False,
        help="draw a run's latency percentiles, and its latency and throughput over time",
    )
    parser.add_argument(
        "run_folder",
        type=Path,
        metavar="RUN",
        help="a run's or a result's folder, published or own",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("plot.svg"),
        metavar="FILE",
        help="a .svg, or with the extra plot a .png or .pdf (default: plot.svg)",
    )
    parser.add_argument("--round", metavar="R", help="whose limits apply (default: detected)")
    parser.add_argument("--benchmark", metavar="B", help="for a folder outside of a tree")
    parser.add_argument("--scenario", metavar="S", help="for a folder outside of a tree")
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Run ``assay plot``: 0 drawn, 2 there is nothing to draw, or it cannot be written."""
    from assay.pictures import drawn, kind_of
    from reports.run_charts import charts_of
    from schemas.timeline import beside, read_timeline

    kind = kind_of(options.output, "--output")
    folder: Path = options.run_folder
    found = _runs(_report(options))
    if not found:
        raise Usage(
            f"{folder}: found no performance run with latencies; expected a folder with "
            "mlperf_log_detail.txt, or above one"
        )
    if len(found) > _MOST:
        say(f"note: {len(found)} runs there; the first {_MOST} are drawn")
    charts = []
    for result, facts in found[:_MOST]:
        place = folder / facts.path
        timeline, traces = None, beside(place)
        if traces is not None:
            try:
                timeline = read_timeline(traces / "timeline.jsonl")
            except (OSError, ValueError) as error:
                say(f"note: {error}")
        charts += charts_of(result, facts, timeline)
    write_to(options.output, drawn(charts, kind), "--output")
    say(f"written to {options.output}: " + " ".join(chart.words for chart in charts))
    return EXIT_OK


def _report(options: argparse.Namespace) -> Report:
    from checker.archive import BadArchive
    from checker.engine import Options, check
    from schemas import UnknownRound, canonical_round_name
    from schemas.machine import MachineFault

    try:
        return check(
            options.run_folder,
            Options(
                round=canonical_round_name(options.round) if options.round else None,
                benchmark=options.benchmark,
                scenario=options.scenario,
                jobs=1,
            ),
        )
    except (FileNotFoundError, BadArchive, UnknownRound, MachineFault) as error:
        raise Usage(str(error)) from error


def _runs(report: Report) -> list[tuple[Result, RunFacts]]:
    """The runs that have latencies; of accuracy and test runs none counts."""
    return [
        (result, run)
        for result in report.results
        for run in result.runs
        if run.kind == "performance" and (run.latency_ns or run.ttft_ns or run.tpot_ns)
    ]
