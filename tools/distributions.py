"""Distributions of the audit's figures over published submissions.

``python -m tools.distributions [ROUND ...]`` reads every corpus in the folder ASSAY_CORPUS
(``corpus*/vX.Y.tar.xz``, or unpacked trees by that name) and prints, for each figure and round, how
many values there are, their least, median and greatest, and how many leave the bounds of the rule.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from checker.archive import opened
from checker.audit import figures
from checker.audit.field import Field
from checker.audit.traces import Traces
from checker.audit.tracing import traces_of
from checker.discover import discover, locate
from checker.judging import Judge
from checker.load import load_result
from checker.model import Result, Run
from checker.parse.reading import list_tree
from checker.rules import by_id
from schemas.load import load_round, round_names
from schemas.round import Round

BY_RULE = {
    "T5": ("R308", "latency figures that are another log's times one factor"),
    "T6": ("R207", "TEST06 logs in an order that the seeds do not give"),
    "T7": ("R309", "answer logs that are another test's or the accuracy run's"),
    "T8": ("R316", "runs with other tokens per sample than the system's other scenarios"),
    "T10": ("A123", "accuracy texts that contradict themselves"),
    "T11": ("R317", "verification texts that name another run"),
}
"""Figures that are no number: the rule, and what its findings are."""


def corpora(names: list[str]) -> Iterator[tuple[str, Path]]:
    """Round and place of every corpus. Raises SystemExit where there is none."""
    root = Path(os.environ.get("ASSAY_CORPUS", Path(__file__).resolve().parents[2] / "shared"))
    found: dict[str, Path] = {}
    for name in round_names():
        for place in sorted(
            [
                *root.glob(f"{name}.tar.xz"),
                *root.glob(f"*/{name}.tar.xz"),
                *root.glob(name),
                *root.glob(f"*/{name}"),
            ]
        ):
            found.setdefault(name, place)
    if not found:
        raise SystemExit(f"no corpus in {root}: set ASSAY_CORPUS")
    for name, place in found.items():
        if not names or name in names:
            yield name, place


def results_of(place: Path, round: Round) -> Iterator[Result]:
    """Every result of one corpus."""
    with opened(place) as (folder, _):
        listing = list_tree(folder)
        for plan in discover(listing, round, locate(folder, listing)).results:
            yield load_result(plan, round)


def _runs(result: Result) -> Iterator[Run]:
    yield from result.runs
    yield from (test.run for test in result.tests.values() if test.run is not None)


def measured(result: Result) -> Iterator[tuple[figures.Figure[Any], float]]:
    """Every figure of one result."""
    for figure in figures.OF_RUNS:
        values = (figure.of(run) for run in _runs(result))
        yield from ((figure, value) for value in values if value is not None)
    for whole in figures.OF_RESULTS:
        value = whole.of(result)
        if value is not None:
            yield whole, value


def report(names: list[str]) -> Iterator[str]:
    """All distributions as lines of text."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    findings: dict[str, Counter[str]] = defaultdict(Counter)
    applied: dict[str, Counter[str]] = defaultdict(Counter)
    known: dict[str, figures.Figure[Any]] = {}
    rounds = []
    for name, place in corpora(names):
        round = load_round(name)
        rounds.append(name)
        judge = Judge([by_id(rule) for rule, _ in BY_RULE.values()], round, audit=True)
        traces: list[Traces] = []
        for result in results_of(place, round):
            for figure, value in measured(result):
                known[figure.name] = figure
                values[figure.name][name].append(value)
            traces.append(traces_of(result))
            things: list[Any] = [*result.tests.values()]
            if result.accuracy is not None:
                things.append(result.accuracy)
            _count(judge, things, findings[name], applied[name])
        field = Field(traces)
        _count(judge, [*field.runs, *field.results], findings[name], applied[name])
    for key in sorted(known, key=_order):
        yield from _lines(known[key], values[key], rounds)
    for key, (rule, what) in BY_RULE.items():
        yield f"{key} ({rule}): {what}"
        for name in rounds:
            if judged := applied[name][rule]:
                yield f"  {name:<5} judged {judged:>6,}   found {findings[name][rule]:>4,}"


def _count(judge: Judge, things: list[Any], found: Counter[str], applied: Counter[str]) -> None:
    rules = {rule.id: rule for rule in judge.rules}
    for thing in things:
        judged = judge(thing)
        found.update(finding.rule for finding in judged.findings)
        for id, rule in rules.items():
            if isinstance(thing, rule.target) and id not in judged.skipped:
                applied[id] += 1


def _order(name: str) -> tuple[int, str]:
    number = "".join(c for c in name.split(",")[0] if c.isdigit())
    return int(number or 0), name


def _lines(
    figure: figures.Figure[Any], by_round: dict[str, list[float]], rounds: list[str]
) -> Iterator[str]:
    yield f"{figure.name} ({figure.rule}): {figure.formula}, {figure.low:g} to {figure.high:g}"
    for name in [*rounds, "all"]:
        found = by_round.get(name, [])
        if name == "all":
            found = [value for each in by_round.values() for value in each]
        if found:
            outside = sum(not figure.holds(value) for value in found)
            yield (
                f"  {name:<5} {len(found):>6,} values   least {min(found):>10.4g}   median "
                f"{statistics.median(found):>10.4g}   greatest {max(found):>10.4g}   outside {outside:,}"
            )


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in report(sys.argv[1:]))
