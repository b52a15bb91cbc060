"""``assay accuracy``: the metric of an accuracy log, computed again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.arguments import add_no_progress
from assay.progress import Line, bytes_read
from assay.status import EXIT_ERRORS, EXIT_OK, EXIT_USAGE, Usage
from assay.terminal import say, write

if TYPE_CHECKING:
    from checker.accuracy.gate import Gate
    from checker.accuracy.registry import AccuracyResult
    from schemas.round import Round


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "accuracy",
        allow_abbrev=False,
        help="recompute the accuracy metric from mlperf_log_accuracy.json and ground truth",
    )
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="folder with mlperf_log_accuracy.json"
    )
    parser.add_argument("--benchmark", required=True, metavar="B")
    parser.add_argument("--data", type=Path, metavar="D", help="ground truth: folder or file")
    parser.add_argument(
        "--round", metavar="R", help="whose gate to compare with (default: the newest that has B)"
    )
    parser.add_argument(
        "--backup",
        type=Path,
        metavar="FOLDER",
        help="folder with the whole log, where RUN's is truncated",
    )
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="OTHER",
        help="a second detection log: per-category differences instead of a gate",
    )
    parser.add_argument(
        "--grader",
        metavar="COMMAND",
        help="runs the code in answers of deepseek-r1 and gpt-oss-120b against its tests; without it "
        "those answers count as wrong (see docs/measuring-llms.md)",
    )
    add_no_progress(parser)
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Run ``assay accuracy``: 0 the gate is reached, 1 it is not, 2 it cannot be computed."""
    from checker.accuracy import registry
    from checker.accuracy.problem import AccuracyError
    from runner.errors import RunnerError

    if options.compare is not None:
        return _compare(options)
    round, name = _round_of(options.benchmark, options.round)
    gates = gates_of(round, name) if round is not None else []
    line = Line(enabled=not options.no_progress)
    try:
        result = registry.score(
            options.run,
            name,
            options.data,
            gates=gates,
            backup=options.backup,
            options=_options(name, options),
            progress=bytes_read(line, "reading the accuracy log"),
        )
    except (AccuracyError, RunnerError) as error:
        raise Usage(str(error)) from error
    finally:
        line.clear()
    write(f"log: {result.log}\n")
    if result.line:
        write(f"{result.line}\n")
    part = _part_of(result, round.benchmarks[name].dataset.least(None) if round else None)
    for verdict in result.verdicts:
        judged = verdict.line() if part is None else f"{verdict.demand()}: not judged"
        write(judged + (f" (round {round.name})" if round else "") + "\n")
    if result.hash_agrees is not None:
        write(
            f"SHA-256 {result.sha256}: {'equals' if result.hash_agrees else 'is not'} the hash in accuracy.txt\n"
        )
    for problem in result.problems:
        say(f"{problem.kind}: {problem.message}")
    for note in result.notes:
        say(f"note: {note}")
    if not result.scores:
        return EXIT_USAGE
    if part is not None:
        say(part)
    failed = (
        part is not None
        or any(not verdict.valid for verdict in result.verdicts)
        or result.hash_agrees is False
    )
    return EXIT_ERRORS if failed else EXIT_OK


def _round_of(benchmark: str, asked: str | None) -> tuple[Round | None, str]:
    """The round whose gate applies and the benchmark's name in it."""
    from schemas import UnknownRound, load_round, round_names
    from schemas.names import benchmark_name

    try:
        names = [asked] if asked else list(reversed(round_names()))
        for name in names:
            round = load_round(name)
            found = benchmark_name(benchmark, round, {}, "closed")
            if found is not None:
                return round, found
    except UnknownRound as error:
        raise Usage(str(error)) from error
    if asked:
        known = ", ".join(load_round(asked).benchmarks)
        raise Usage(f"round {asked} has no benchmark {benchmark!r}; it has {known}")
    return None, benchmark


def gates_of(round: Round, benchmark: str) -> list[Gate]:
    """A round's lower and upper bounds on a benchmark's metrics, in its accuracy scripts' units."""
    from checker.accuracy.gate import Gate

    rules = round.benchmarks[benchmark]
    limits = {
        gate.metric: gate.in_unit(round.accuracy_units[gate.metric]).bound
        for gate in rules.accuracy_limits
    }
    gates = [
        Gate(
            gate.metric,
            gate.in_unit(round.accuracy_units[gate.metric]).reference,
            1.0 if gate.factor is None else gate.factor,
            limits.pop(gate.metric, None),
        )
        for gate in rules.accuracy
    ]
    return gates + [Gate(metric, None, 1.0, bound) for metric, bound in limits.items()]


def _options(benchmark: str, options: argparse.Namespace) -> dict[str, Any]:
    """What a score needs beside its data: a grader of code, the embedded stories' right answers."""
    from checker.accuracy import registry

    found: dict[str, Any] = {}
    if options.grader is not None:
        from runner.grading import Grader

        if not registry.method(benchmark).graded:
            raise Usage(f"--grader is for benchmarks whose answers are code; {benchmark} has none")
        found["grade_code"] = Grader(options.grader)
    if benchmark == "stories" and (
        options.data is None or (options.data / "prompts.txt").is_file()
    ):
        from runner.benchmarks.stories import open_stories

        stories = open_stories(options.data)
        found["references"] = [stories.reference(index) for index in range(len(stories))]
    return found


def _part_of(result: AccuracyResult, size: int | None) -> str | None:
    """Why a score is not that of a whole accuracy run; None where it is."""
    if result.missing:
        answered = f"{result.samples:,} samples were scored, " if result.samples is not None else ""
        return f"{answered}{result.missing:,} have no record: this is not a whole accuracy run"
    if size is not None and result.samples is not None and result.samples < size:
        return (
            f"only {result.samples:,} samples were scored; the data set has {size:,}: "
            "this is not a whole accuracy run"
        )
    return None


def _compare(options: argparse.Namespace) -> int:
    """Two detection logs beside each other: 0 the same score, 1 different ones."""
    from checker.accuracy import detection_difference, registry
    from checker.accuracy.problem import AccuracyError

    line = Line(enabled=not options.no_progress)
    try:
        logs = [registry.find_log(path) for path in (options.run, options.compare)]
        how = registry.method(options.benchmark)
        if how.metric != "mAP":
            raise Usage(
                f"--compare is for detection benchmarks; {options.benchmark} is scored by {how.metric}"
            )
        if options.data is None:
            raise Usage(f"--data is needed: {how.data}")
        truth = options.data
        if truth.is_dir():
            found = sorted(truth.rglob("*.json"))
            if len(found) != 1:
                raise Usage(
                    f"--data {truth}: name the annotation file itself ({len(found)} .json files are there)"
                )
            truth = found[0]
        result = detection_difference.compare(
            logs[0], logs[1], truth, progress=bytes_read(line, "reading")
        )
    except (AccuracyError, OSError) as error:
        raise Usage(str(error)) from error
    finally:
        line.clear()
    write(f"{logs[0]}: {result.first.line()}\n{logs[1]}: {result.second.line()}\n")
    write(
        f"boxes: {result.same_boxes} the same ({result.same_scores} with the same score), "
        f"{result.only_first} only in the first, {result.only_second} only in the second\n"
    )
    for difference in result.categories:
        if abs(difference.change) >= 0.0005:
            write(
                f"{difference.name:<20} {difference.first:8.3f} {difference.second:8.3f} "
                f"{difference.change:+8.3f}\n"
            )
    for note in result.notes:
        write(f"note: {note}\n")
    return EXIT_OK if abs(result.first.map - result.second.map) < 0.0005 else EXIT_ERRORS
