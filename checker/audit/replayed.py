"""One run's log in the form that `checker.replay` takes, read once for all replay rules."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np

from checker.audit.evidence import note
from checker.model import AccuracyRun, ComplianceRun, Run
from checker.parse.detail import DetailLog, Entry
from checker.parse.reading import File
from checker.replay import (
    Agreement,
    Disagreement,
    Generation,
    Library,
    LoadedSet,
    MissingFact,
    NotReplayed,
    Outcome,
    RunFacts,
    TooLong,
    check_loaded_set,
    check_query_order,
    check_sampling,
    check_schedule,
    sample_indices,
    server_schedule,
)
from checker.replay.facts import LOG_KEYS
from checker.replay.queries import fixed_sample_count
from checker.replay.schedule import unit_length, unit_reach
from checker.rule import NotJudged

__all__ = [
    "LIMIT",
    "Disagreement",
    "Generation",
    "NotReplayed",
    "Replay",
    "TooLong",
    "accuracy_log",
    "has_test_order",
    "noted",
    "order_outcome",
    "replay_of",
    "sampling_outcome",
    "schedule_outcome",
    "server_schedule",
    "sets_outcome",
]  # fmt: skip

LIMIT = 30_000_000
"""Longest schedule that is replayed, queries."""

_ACCURACY = "mlperf_log_accuracy.json"
_LARGE = 1 << 62


class Indices(Sequence[int]):
    """Sample indices that numpy takes as they are: sets of millions are converted once."""

    def __init__(self, values: list[int] | np.ndarray[Any, Any]) -> None:
        self.array = np.array(values, dtype=np.int64)

    @cached_property
    def digest(self) -> bytes:
        """What distinguishes this set from others."""
        return hashlib.blake2b(self.array.tobytes(), digest_size=16).digest()

    def __len__(self) -> int:
        return int(self.array.size)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...
    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        if isinstance(at, slice):
            return [int(value) for value in self.array[at]]
        return int(self.array[at])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.array, dtype=dtype) if copy else self.array


@dataclass(slots=True)
class Replay:
    """The facts of one run, its loaded sets and what it generated."""

    facts: RunFacts
    sets: list[Indices]
    counts: list[int]
    durations: list[int]

    @property
    def schedule_key(self) -> tuple[Any, ...]:
        """All that the generated schedule depends on: equal for twins and for most tests."""
        facts = replace(
            self.facts,
            accuracy_log_seed=0,
            accuracy_log_probability=0.0,
            accuracy_log_sampling_target=0,
            sample_index_seed=0,
            qsl_seed=0,
        )
        return facts, tuple(map(len, self.sets)), tuple(self.counts), tuple(self.durations)


_known: dict[tuple[Any, ...], Outcome] = {}


def _kept(key: tuple[Any, ...], find: Callable[[], Outcome]) -> Outcome:
    """An outcome found once: twins, tests and other systems repeat what depends on seeds alone."""
    if key not in _known:
        if len(_known) > 512:
            _known.clear()
        _known[key] = find()
    return _known[key]


def noted(outcome: Outcome) -> Outcome:
    """The outcome, noted for whoever wants to see what was compared."""
    if isinstance(outcome, Agreement):
        note("values replayed and equal", outcome.checked)
        note("how", outcome.how or None)
    elif isinstance(outcome, NotReplayed):
        note("not replayed", outcome.reason)
    return outcome


def sets_outcome(replay: Replay) -> Outcome:
    """`check_loaded_set` for a run; every system loads the same samples of a benchmark."""
    facts = replay.facts
    marks = tuple(one.digest for one in replay.sets)
    key = (
        "sets", facts.qsl_seed, facts.total_count, facts.performance_count, facts.accuracy_count,
        facts.accuracy, facts.samples_per_query if facts.scenario != "Offline" else 0,
        facts.scenario, marks,
    )  # fmt: skip
    return _kept(key, lambda: check_loaded_set(facts, replay.sets))


_EXACT = 1 << 18
"""Queries up to which every waiting time is cut to whole nanoseconds before they are added."""


def _long_agrees(replay: Replay) -> str | None:
    """How well a long Server run's schedule is quickly seen to agree; None decides nothing.

    A cut takes up to 1 ns, half of one on average: the length of n waits is theirs uncut less n / 2
    ns, give or take 8 standard deviations.
    """
    facts = replay.facts
    if facts.scenario != "Server" or facts.accuracy or facts.issue_unique:
        return None
    if len(replay.counts) != 1 or len(replay.durations) != 1 or len(replay.sets) != 1:
        return None
    old = facts.generation in (Generation.V1, Generation.V2_0)
    count, wanted = replay.counts[0], facts.target_duration_ms * 1_000_000
    if not _EXACT < count <= LIMIT or wanted <= 0 or (old and facts.issue_same):
        return None
    if not 1e-6 < facts.target_qps < math.inf or not 0 < facts.performance_count <= LIMIT:
        return None
    scale = 1e9 / facts.target_qps
    slack = 8 * math.sqrt(count / 12)
    length = unit_length(facts.schedule_seed, count) * scale - count / 2
    if abs(length - replay.durations[0]) > slack:
        return None
    blocks = [1]
    if facts.generation in (Generation.V4, Generation.V5) and facts.permutation is not False:
        # A log that does not say whether samples are issued equally may have been either.
        blocks = [len(replay.sets[0])] if facts.permutation else [1, len(replay.sets[0])]
    # With the other end of what the cuts may amount to, one query more or less is enough.
    reached = {
        unit_reach(facts.schedule_seed, (wanted + off) / scale, 0.5 / scale) + 2
        for off in (-slack, slack)
    }
    for block in blocks:
        for reach in reached:
            needed = max(reach, -(-facts.min_query_count // block) * block)
            if -(-needed // block) * block == count:
                return f"within {slack / 1000:.1f} us"
    return None


def schedule_outcome(replay: Replay) -> Outcome:
    """`check_schedule` for a run; the tests of a result mostly repeat its schedule."""
    return _kept(("schedule", *replay.schedule_key), lambda: _schedule(replay))


def _schedule(replay: Replay) -> Outcome:
    how = _long_agrees(replay)
    if how is not None:
        return Agreement(2, how)
    return check_schedule(replay.facts, replay.sets, replay.counts, replay.durations, limit=LIMIT)


def order_outcome(replay: Replay, pairs: list[tuple[int, int]]) -> Outcome:
    """`check_query_order` for a run. An accuracy run's order is the same in every result of its
    benchmark and scenario, so it is kept; where records differ from it the full check decides."""
    if replay.facts.accuracy and len(replay.sets) == 1:
        facts = replace(
            replay.facts,
            target_qps=1.0,
            expected_latency_ns=None,
            target_duration_ms=0,
            min_duration_ms=0,
            min_query_count=0,
            min_sample_count=0,
            accuracy_log_seed=0,
            samples_per_query=1
            if replay.facts.scenario == "Offline"
            else replay.facts.samples_per_query,
            accuracy_log_probability=0.0,
            accuracy_log_sampling_target=0,
            permutation=bool(replay.facts.permutation),
        )
        key = facts, replay.sets[0].digest
        if key not in _orders:
            if len(_orders) >= 64:
                _orders.clear()
            _orders[key] = _order(facts, replay.sets[0].array)
        expected = _orders[key]
        found = np.array(pairs, dtype=np.int64)
        within = expected is not None and found[:, 0].max() < expected.size
        if within and bool((expected[found[:, 0]] == found[:, 1]).all()):
            return Agreement(len(pairs))
    if len(pairs) > _FEW:
        return check_query_order(replay.facts, replay.sets, pairs, limit=LIMIT)
    marks = tuple(one.digest for one in replay.sets)
    return _kept(
        ("order", replay.facts, marks, tuple(pairs)),
        lambda: check_query_order(replay.facts, replay.sets, pairs, limit=LIMIT),
    )


def sampling_outcome(replay: Replay, seq_ids: list[int]) -> Outcome:
    """`check_sampling` for a run. Raises ValueError or OverflowError for numbers of no LoadGen run."""
    if len(seq_ids) > _FEW:
        return check_sampling(replay.facts, seq_ids, limit=LIMIT)
    return _kept(
        ("sampling", replay.facts, tuple(seq_ids)),
        lambda: check_sampling(replay.facts, seq_ids, limit=LIMIT),
    )


_FEW = 5000
"""Records up to which an outcome is kept: accuracy twins and further divisions hold the same log."""


_orders: dict[tuple[RunFacts, bytes], Any] = {}


def _order(facts: RunFacts, samples: Any) -> Any:
    """Every sample of an accuracy run in order, under the newest C++ library; None if too long."""
    if not 0 < samples.size <= 1_000_000:
        return None
    padding = facts.samples_per_query - 1 if facts.scenario == "MultiStream" else 0
    one = LoadedSet(samples, max(samples.size - padding, 1))
    try:
        count = fixed_sample_count(facts, one)
        if count is None or not 0 < count <= 2_000_000:
            return None
        return sample_indices(facts, one, np.arange(count, dtype=np.int64), Library.GNU_11)
    except (TooLong, ValueError):
        return None


_TEST_SAMPLES = 100
"""Samples that TEST06 runs, and its minimum of queries."""


def has_test_order(replay: Replay, pairs: list[tuple[int, int]], scenario: str) -> bool:
    """Whether TEST06's records stand in an order that a scenario's run gives: in order, each once,
    or in equal issue, whatever the C++ library."""
    found = np.array(pairs, dtype=np.int64)
    if found[:, 0].max() >= LIMIT or not replay.sets[0]:
        return False
    one = LoadedSet(replay.sets[0].array, len(replay.sets[0]))
    for library in Library:
        for equal, unique in ((False, False), (True, False), (False, True)):
            facts = replace(
                replay.facts,
                scenario=scenario,
                accuracy=False,
                permutation=equal,
                issue_unique=unique,
                issue_same=False,
                expected_latency_ns=None,
                samples_per_query=_TEST_SAMPLES if scenario == "Offline" else 1,
                min_query_count=_TEST_SAMPLES,
                target_duration_ms=0,
                min_duration_ms=0,
            )
            try:
                expected = sample_indices(facts, one, found[:, 0], library)
            except (TooLong, ValueError):
                continue
            if bool((expected == found[:, 1]).all()):
                return True
    return False


_last: tuple[DetailLog, Replay | str] | None = None


def replay_of(run: Run) -> Replay:
    """The run's replay. Raises NotJudged when its log lacks what a replay needs."""
    global _last
    detail = run.detail
    if detail is None or not detail:
        raise NotJudged
    last = _last
    if last is None or last[0] is not detail:
        # One run is judged by all rules before the next: the last one is all that is kept.
        last = _last = (detail, _read(detail))
    found = last[1]
    if isinstance(found, str):
        raise NotJudged
    return found


def _read(detail: DetailLog) -> Replay | str:
    values = {key: detail.get(key) for key in LOG_KEYS if key in detail.entries}
    try:
        facts = RunFacts.from_log(values)
    except MissingFact as error:
        mode = error.key in ("effective_test_mode", "effective_scenario")
        if not mode or not isinstance(detail.get(error.key), str):
            detail.refuse(error.key, "what LoadGen writes there")
        return str(error)
    sets = []
    for entry in detail.all("loaded_qsl_set"):
        one = _indices(entry, detail.lengths.get(entry.line))
        if isinstance(one, str):
            detail.refuse("loaded_qsl_set", "a list of sample indices")
            return one
        sets.append(one)
    if len(sets) == 1 and not sets[0]:
        # The plain-text logs of v0.5 leave the set of an accuracy run out.
        sets = []
    counts = [entry.value for entry in detail.all("generated_query_count")]
    durations = [entry.value for entry in detail.all("generated_query_duration")]
    if not all(type(i) is int for i in [*counts, *durations]):
        for key in ("generated_query_count", "generated_query_duration"):
            if not all(type(entry.value) is int for entry in detail.all(key)):
                detail.refuse(key, "a whole number")
        return "generated_query_count or generated_query_duration is not an integer"
    return Replay(facts, sets, counts, durations)


_sets: dict[tuple[int, bytes], tuple[bytes, Indices]] = {}
_SETS_KEPT = 1 << 23
"""Bytes of text of the sets that are kept."""

_NO_TEXT = 4
"""Bytes that are left of a text that was decoded before."""

_BEYOND = "a loaded_qsl_set with numbers beyond 64 bits"


def _indices(entry: Entry, length: int | None) -> Indices | str:
    """A loaded set; its text, the same in all runs of a benchmark, is decoded once.

    length: of the set, where its text was seen to be a list of whole numbers.
    """
    raw = bytes(entry.raw)
    if length is None or len(raw) <= _NO_TEXT:
        return _decoded(entry)
    key = len(raw), raw[:64]
    known = _sets.get(key)
    # Comparing is ten times faster than a hash.
    if known is not None and known[0] == raw:
        return known[1]
    found = _numbers(raw, length)
    if isinstance(found, Indices):
        if sum(size for size, _ in _sets) + len(raw) > _SETS_KEPT:
            _sets.clear()
        _sets[key] = raw, found
    return found


def _decoded(entry: Entry) -> Indices | str:
    value = entry.value
    if not isinstance(value, list) or not set(map(type, value)) <= {int}:
        return "loaded_qsl_set is not a list of sample indices"
    try:
        found = Indices(value)
    except OverflowError:
        return _BEYOND
    return (
        found if not value or -_LARGE < found.array.min() <= found.array.max() < _LARGE else _BEYOND
    )


def _numbers(raw: bytes, length: int) -> Indices | str:
    # Greater numbers than 64 bits hold become the greatest.
    values = np.fromstring(raw[1:-1], dtype=np.int64, sep=",")
    if values.size != length:
        return "loaded_qsl_set is not a list of sample indices"
    return Indices(values) if values.max() < _LARGE else _BEYOND


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
