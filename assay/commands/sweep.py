"""``assay sweep``: short runs of every combination of batch, threads and streams, and the best of them."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.arguments import above_zero, add_no_progress, positive
from assay.commands.run import add_execution, add_tree, add_what, save, settings_of
from assay.measure import Listener
from assay.status import EXIT_ERRORS, EXIT_OK, Usage
from assay.terminal import say, standard_output, write, write_to

if TYPE_CHECKING:
    from runner.progress import Event

_OWN = ("batches", "thread_counts", "streams", "repeats", "probe", "time_limit", "output", "format")


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "sweep",
        allow_abbrev=False,
        # --batch and --threads take lists here.
        conflict_handler="resolve",
        help="find the batch, threads and streams with the highest rate, by short runs of LoadGen",
    )
    sweep = parser.add_argument_group("what to vary")
    add_what(parser.add_argument_group("what to measure"))
    add_execution(parser.add_argument_group("execution"))
    add_tree(parser.add_argument_group("the submission tree of the run file"))
    sweep.add_argument(
        "--batch", dest="batches", type=_counts, metavar="N,…", help="samples in one inference"
    )
    sweep.add_argument(
        "--threads", dest="thread_counts", type=_counts, metavar="N,…", help="threads per inference"
    )
    sweep.add_argument(
        "--streams",
        type=_counts,
        metavar="N,…",
        help="inferences at once: streams of TensorRT, workers of other backends",
    )
    sweep.add_argument(
        "--scenario",
        action="append",
        metavar="S",
        help="Offline (default), Server, or both",
    )
    sweep.add_argument(
        "--repeats",
        type=positive,
        default=3,
        metavar="N",
        help="short runs of each combination in Offline; the median counts (default: 3)",
    )
    sweep.add_argument(
        "--probe-duration",
        dest="probe",
        type=above_zero,
        default=2.0,
        metavar="SECONDS",
        help="minimum duration of a short run (default: 2)",
    )
    sweep.add_argument(
        "--stall-timeout",
        type=above_zero,
        metavar="S",
        help="end a short run after S seconds without progress (default: 60)",
    )
    sweep.add_argument(
        "--time-limit",
        type=above_zero,
        metavar="SECONDS",
        help="begin no further short run after this time (default: what is announced)",
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="a run file with everything that is not varied"
    )
    parser.add_argument(
        "--save-config",
        type=Path,
        metavar="FILE",
        help="write the best setting as a run file for assay run --config",
    )
    parser.add_argument(
        "--output",
        action="append",
        type=Path,
        metavar="FILE",
        help="a picture (.svg; .png and .pdf with the extra plot) or the whole sweep (.json); repeatable",
    )
    parser.add_argument(
        "--format", choices=("table", "json"), default="table", help="of standard output"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    add_no_progress(parser)
    parser.set_defaults(handler=run)


def _counts(text: str) -> list[int]:
    return [positive(part.strip()) for part in text.split(",")]


class _Numbered(Listener):
    """Shows a short run's progress with its place among all, in one line."""

    def __init__(self, *, enabled: bool) -> None:
        super().__init__(enabled=enabled)
        self.head = ""

    def on_event(self, event: Event) -> None:
        if event.phase in ("start", "load", "warm-up", "running"):
            self.line.show(f"{self.head}: {event.phase}, {event.elapsed_s:.0f} s")


def run(options: argparse.Namespace) -> int:
    """Run ``assay sweep``: 0 a best setting was found, 1 none, 2 cannot be done."""
    from assay import sweeping
    from assay.pictures import drawn
    from runner import RunnerError
    from runner.foresight import duration_text
    from runner.sweep import (
        NO_TIME,
        Sweep,
        best_run_file,
        choose,
        combinations,
        disturbance,
        measure_rows,
        prepare,
        rows_of,
    )

    base = settings_of(options, *_OWN)
    for path in (*(options.output or ()), *filter(None, [options.save_config])):
        # Before minutes are spent on it.
        if not path.parent.is_dir():
            raise Usage(f"{path} cannot be written: found no folder {path.parent}")
    for path in options.output or ():
        _kind(path)
    try:
        sweep = Sweep(
            run_file=base,
            settings=combinations(
                options.batches or (), options.thread_counts or (), options.streams or ()
            ),
            scenarios=tuple(base.scenarios) or ("Offline",),
            probe_s=options.probe,
            repeats=options.repeats,
            limit_s=options.time_limit,
        )
        prepare(sweep)
    except RunnerError as error:
        raise Usage(str(error)) from error
    least, most = sweep.foresee()
    say(
        f"{base.benchmark}, {' and '.join(sweep.scenarios)}: {len(sweep.settings)} combinations, short runs of "
        f"{sweep.probe_s:g} s; about {duration_text(min(least, most))}, and no short run is begun after "
        f"{duration_text(most)}. No accuracy is measured."
    )
    if options.dry_run:
        return EXIT_OK
    began = time.monotonic()
    rows = rows_of(sweep)
    listener = _Numbered(enabled=not options.no_progress)
    steps = len(sweep.settings) * sum(
        sweep.repeats if scenario == "Offline" else 1 for scenario in sweep.scenarios
    )
    listener.head = f"sweep, 1 of {steps}"
    try:
        for number, row in enumerate(measure_rows(sweep, rows, listener), 2):
            listener.line.clear()
            new = row.reason not in ("", NO_TIME) or (len(row.rates) == 1 and not row.reason)
            if new and not options.no_progress:
                said = row.reason or f"{row.rates[0]:,.5g}/s"
                say(f"{row.scenario} {row.setting}: {said}")
            listener.head = f"sweep, {number} of {steps}"
    except RunnerError as error:
        raise Usage(str(error)) from error
    except KeyboardInterrupt:
        listener.line.clear()
        for row in (row for of in rows.values() for row in of):
            row.reason = row.reason or ("" if row.rates else "not measured")
        write(sweeping.table(sweep, rows, choose(rows), standard_output()))
        say("stopped before every combination was measured; no run file is written")
        raise
    finally:
        listener.line.clear()
    chosen = choose(rows)
    whole = sweeping.as_json(sweep, rows, chosen, time.monotonic() - began)
    if options.format == "json":
        write(json.dumps(whole, indent=2) + "\n")
    else:
        write(sweeping.table(sweep, rows, chosen, standard_output()))
    worst = disturbance(rows)
    if worst:
        say(
            f"machine disturbed: other processes kept runs waiting for a processor up to {worst:.0%} of the "
            "time; sweep again on a quiet machine before you trust small differences"
        )
    if any(row.reason == NO_TIME for of in rows.values() for row in of):
        say("not everything was measured before the time was over; see --time-limit")
    for path in options.output or ():
        kind = _kind(path)
        if kind == "json":
            write_to(path, json.dumps(whole, indent=2) + "\n", "--output")
        else:
            write_to(path, drawn(sweeping.charts(sweep, rows, chosen), kind), "--output")
    if len(chosen) < len(sweep.scenarios):
        return EXIT_ERRORS
    if options.save_config is not None:
        best = best_run_file(sweep, chosen)
        if best.tree.out is None:
            from schemas.run_file import with_options

            # A relative path in a run file is relative to its folder.
            folder = os.path.relpath(options.save_config.parent)
            best = with_options(best, {"out": str(Path(folder, "submission"))})
        save(best, options.save_config)
        say(
            f"the best setting is in {options.save_config}: assay run --config {options.save_config}"
        )
    return EXIT_OK


def _kind(path: Path) -> str:
    """What a file of `--output` is: json, or a kind of picture that can be made here."""
    from assay.pictures import kind_of

    return "json" if path.suffix.lower() == ".json" else kind_of(path, "--output", "json")
