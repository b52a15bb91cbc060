"""One run's log in the form that `checker.replay` takes, read once for all replay rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import FileIO
from typing import BinaryIO

from checker.model import AccuracyRun, ComplianceRun, Run
from checker.parse.detail import DetailLog
from checker.parse.reading import File, Unreadable, open_file
from checker.replay import Build, MissingFact, RunFacts, matching_builds
from checker.rule import NotJudged

LIMIT = 30_000_000
"""Longest schedule that is replayed, queries."""

_ACCURACY = "mlperf_log_accuracy.json"
# The comma after the index keeps out a number that a truncated log cuts short.
_RECORD = re.compile(rb'"seq_id"\s*:\s*(\d{1,15})\s*,\s*"qsl_idx"\s*:\s*(\d{1,15})\s*,')
_BLOCK = 1 << 22
_WHOLE = 256 * 1024 * 1024
_OVERLAP = 256
GAP = b"\n\n...\n\n"
"""What stands in a shortened accuracy log where its middle was."""


@dataclass(slots=True)
class Records:
    """The visible records of an accuracy log, in file order.

    pairs: (seq_id, qsl_idx); cut: whether the log's middle is missing or was not read.
    """

    path: str
    pairs: list[tuple[int, int]] = field(default_factory=list)
    cut: bool = False

    def line_of(self, seq_id: int) -> int | None:
        """The line of a record, as LoadGen writes them: a bracket, then one record a line."""
        for number, (found, _) in enumerate(self.pairs):
            if found == seq_id:
                return number + 2 if not self.cut else None
        return None


@dataclass(slots=True)
class Replay:
    """The facts of one run and its loaded sets; ``builds`` are those that fit the sets."""

    facts: RunFacts
    sets: list[list[int]]
    counts: list[int]
    durations: list[int]
    _builds: list[Build] | None = None

    @property
    def builds(self) -> list[Build]:
        """The LoadGen builds whose loaded sets these are, found once."""
        if self._builds is None:
            self._builds = matching_builds(self.facts, self.sets) if self.sets else []
        return self._builds


_last: tuple[DetailLog, Replay | str] | None = None


def replay_of(run: Run) -> Replay:
    """The run's replay. Raises NotJudged when its log lacks what a replay needs."""
    global _last
    detail = run.detail
    if detail is None or not detail:
        raise NotJudged
    if _last is None or _last[0] is not detail:
        # One run is judged by all rules before the next: the last one is all that is kept.
        _last = (detail, _read(detail))
    found = _last[1]
    if isinstance(found, str):
        raise NotJudged
    return found


def _read(detail: DetailLog) -> Replay | str:
    values = {
        key: detail.get(key)
        for key in detail.entries
        if key.startswith(("effective_", "requested_", "qsl_", "loadgen_"))
    }
    try:
        facts = RunFacts.from_log(values)
    except MissingFact as error:
        return str(error)
    sets = []
    for entry in detail.all("loaded_qsl_set"):
        value = entry.value
        if not isinstance(value, list) or not set(map(type, value)) <= {int}:
            return "a loaded_qsl_set that is no list of sample indices"
        sets.append(value)
    if sets == [[]]:
        # The plain-text logs of v0.5 leave the set of an accuracy run out.
        sets = []
    counts = [entry.value for entry in detail.all("generated_query_count")]
    durations = [entry.value for entry in detail.all("generated_query_duration")]
    if not all(type(i) is int for i in [*counts, *durations]):
        return "generated_query_count or generated_query_duration is no integer"
    return Replay(facts, sets, counts, durations)


def accuracy_log(run: Run) -> File | None:
    """The accuracy log that belongs to a run's detail log; None when there is none."""
    if isinstance(run, AccuracyRun):
        return run.log_file
    inside = run.folder.files.get(_ACCURACY) if run.folder is not None else None
    if isinstance(run, ComplianceRun):
        test = run.result.tests.get(run.test)
        beside = test.accuracy_log if test is not None else None
        if beside is not None and beside.size > 4:
            return beside
    return inside


def read_records(file: File) -> Records:
    """Sequence numbers and sample indices of an accuracy log; answers are not looked at.

    Of a log above 256 MB the first and last 64 MB are read. Raises NotJudged when it cannot be
    read.
    """
    records = Records(file.path)
    try:
        handle = open_file(file)
    except Unreadable as error:
        raise NotJudged from error
    with open(handle, "rb", buffering=0) as stream:
        stretches = [(0, file.size)]
        if file.size > _WHOLE:
            records.cut = True
            stretches = [(0, _WHOLE // 4), (file.size - _WHOLE // 4, file.size)]
        for start, end in stretches:
            stream.seek(start)
            for block in _blocks(stream, end - start):
                records.pairs.extend((int(a), int(b)) for a, b in _RECORD.findall(block))
                records.cut = records.cut or GAP in block
    return records


def _blocks(stream: BinaryIO | FileIO, size: int) -> Iterator[bytes]:
    """Blocks that end before the opening brace of a record, so that none is split."""
    kept = b""
    while size > 0:
        new = stream.read(min(_BLOCK, size))
        if not new:
            break
        size -= len(new)
        block = kept + new
        # The mark of a cut-out middle must not be split either: it stands near no brace's start.
        border = len(block) if size <= 0 else block.rfind(b"{")
        if border < 0:
            border = max(len(block) - _OVERLAP, 0)
        yield block[:border]
        kept = block[border:]
    if kept:
        yield kept
