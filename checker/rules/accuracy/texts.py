"""accuracy.txt: the hash at its end, the samples it counted, and the metric computed again."""

from __future__ import annotations

import re

from checker import metrics
from checker.model import AccuracyRun, Recomputed
from checker.parse.accuracy_txt import AccuracyText, step_of
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, Problems, rule
from checker.wording import number
from schemas.round import Benchmark, Round

_HEX64 = re.compile(r"^[0-9a-fA-F]{64}$")
_EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def _has_hash(round: Round) -> bool:
    return round.accuracy_log.hash_required


@rule("A108", ERROR, when=_has_hash, needs={"lines": "text.lines"})
def accuracy_hash_present(
    run: AccuracyRun, round: Round, text: AccuracyText, lines: int
) -> Problems:
    """accuracy.txt ends with the accuracy log's hash.

    Why: it binds the published, shortened log to the whole one that the submitter keeps.
    Fix: run `assay truncate TREE`, which shortens the log and adds the line hash=<SHA-256>.
    Source: submission_rules.adoc, "Truncation of accuracy logs".
    """
    if lines and not text.hashes:
        message = "found no line hash=…; expected hash= and 64 hex digits"
        yield Problem(message, required="hash=<64 hex digits>", path=text.path)


@rule("A109", ERROR, cases={"several": WARNING})
def accuracy_hash_sound(run: AccuracyRun, round: Round, text: AccuracyText) -> Problems:
    """A hash is a SHA-256: 64 hexadecimal digits, and not that of an empty file.

    Why: any other word binds nothing. A round that requires none (v0.5) has no use for a broken one either.
    Fix: run `assay truncate TREE` on the whole accuracy log.
    Source: submission_rules.adoc, "Truncation of accuracy logs"; SHA-256.
    """
    for value, line in text.hashes:
        shown = value[:80] or "nothing"
        if not _HEX64.match(value):
            message = f"found hash={shown}; expected 64 hex digits"
            yield Problem(message, shown, "64 hex digits", path=text.path, line=line)
        elif value.lower() == _EMPTY_SHA256:
            message = "found the hash of an empty file; expected that of mlperf_log_accuracy.json"
            yield Problem(
                message, value, "the SHA-256 of mlperf_log_accuracy.json", path=text.path, line=line
            )
    if len({value.lower() for value, _ in text.hashes}) > 1:
        yield Problem(
            f"found {len(text.hashes)} hashes that differ; expected one",
            [value for value, _ in text.hashes][:5],
            "one hash",
            path=text.path,
            line=text.hashes[-1][1],
            case="several",
        )


@rule(
    "A116",
    WARNING,
    needs={
        "totals": "text.totals",
        "benchmark": "result.benchmark",
        "size": "result.benchmark.dataset.size",
    },
)
def accuracy_total(
    run: AccuracyRun, round: Round, totals: list[tuple[int, int]], benchmark: Benchmark, size: int
) -> Problems:
    """The number of samples that the accuracy script counted is the data set's.

    Why: a metric over fewer answers is a metric of a part of the data set, and one over more is of
    another data set.
    Fix: evaluate the whole accuracy log before it is shortened.
    Source: accuracy scripts print total=N.
    """
    total, line = totals[0]
    least = benchmark.dataset.least(run.result.scenario) or size
    if total < least or total > _ROUNDED_UP * max(size, least):
        text = f"found {total:,} evaluated answers; expected {least:,}, the samples of the data set"
        yield Problem(text, total, least, path=run.text_path, line=line)


_ROUNDED_UP = 1.02
"""Batches fill the last query up with samples that come twice."""


@rule("A119", ERROR, cases={"not possible": NOTE})
def accuracy_recomputed(
    run: AccuracyRun, round: Round, recomputed: Recomputed, text: AccuracyText | None = None
) -> Problems:
    """The metric computed again from the accuracy log is the one that accuracy.txt states.

    Why: the target is judged by accuracy.txt, which anybody can type.
    Fix: run the accuracy script on this run's mlperf_log_accuracy.json and save its output.
    Source: the log, the ground truth given with --data, and the metric's definition.
    """
    if not recomputed.scores and recomputed.problem is None:
        raise NotJudged
    path = run.log_file.path if run.log_file is not None else run.path
    if recomputed.problem is not None:
        message = f"the accuracy could not be computed again: {recomputed.problem}"
        yield Problem(
            message, path=path, fix="give the whole log and its ground truth", case="not possible"
        )
        return
    if recomputed.hash_agrees is False:
        message = "found a log with another SHA-256; expected the hash in accuracy.txt"
        yield Problem(message, "another hash", "the hash in accuracy.txt", path=path)
    for name, value in sorted(recomputed.scores.items()):
        stated = metrics.reported(text, name, round) if text is not None else None
        if stated is None:
            continue
        room = max(0.6 * step_of(stated.text), 1e-6 * abs(value))
        if abs(stated.value - value) > room:
            message = (
                f"found {name} {stated.text}; expected {number(value)}, computed again from the log"
            )
            yield Problem(message, stated.value, value, path=run.text_path, line=stated.line)
