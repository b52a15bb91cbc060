"""Which samples LoadGen loads and in which order it asks for them, regenerated from the seeds.

The functions follow what LoadGen does, step by step, since every draw moves all later ones:
``GenerateLoadableSets`` shuffles the whole data set and cuts it into sets that fit into memory;
``GenerateQueries`` then draws the queries of one set. A sample's ``seq_id`` is its place in the
order of all samples of all queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .facts import Generation, RunFacts
from .mt19937 import Float64Array, Stream, reals_of
from .schedule import DEFAULT_LIMIT, Schedule, constant_schedule, round_up, server_schedule
from .shuffle import Int64Array, Library, permutation, skip_shuffle, uniform_integers_at

#: What ``std::mt19937`` is seeded with when the program gives no seed.
_DEFAULT_SEED = 5489


@dataclass(frozen=True, slots=True)
class LoadedSet:
    """One set of samples that are in memory together.

    ``samples`` has the logged order, shape (n,); in MultiStream its first ``samples_per_query - 1``
    entries are repeated at the end, and ``distinct`` is the count without them.
    """

    samples: Int64Array
    distinct: int


@lru_cache(maxsize=16)
def _whole_order(seed: int, total: int, library: Library) -> Int64Array:
    return permutation(total, Stream(seed), library)


def loaded_sets(
    seed: int, total: int, set_size: int, padding: int, library: Library
) -> list[LoadedSet]:
    """All loadable sets, in the order in which an accuracy run goes through them.

    ``seed`` is the QSL seed, ``total`` the number of samples that are shuffled, ``set_size`` how
    many are loaded together, ``padding`` how many leading samples are repeated at the end of each
    set. A performance run uses the first set only. Raises ValueError for a set size below 1.
    """
    if set_size < 1:
        raise ValueError("a loadable set holds at least one sample")
    whole = _whole_order(seed & 0xFFFFFFFF, total, library)
    sets: list[LoadedSet] = []
    for start in range(0, total, set_size):
        part = whole[start : start + set_size]
        # np.resize repeats the set from its start, also when the padding is longer than the set.
        samples = np.resize(part, part.size + padding) if padding else part
        sets.append(LoadedSet(samples, part.size))
    return sets


def shuffled_counts(facts: RunFacts) -> list[int]:
    """How many samples the QSL shuffle covers: candidates, the likeliest first.

    Up to LoadGen 5.x the whole data set is shuffled; since 6.0 only the samples of the mode. The
    second candidate is the other rule, because the version does not say it with certainty.
    """
    wanted = facts.accuracy_count if facts.accuracy else facts.performance_count
    cut = min(wanted, facts.total_count) if wanted else facts.total_count
    return [facts.total_count] if cut == facts.total_count else [facts.total_count, cut]


def expected_sets(facts: RunFacts, shuffled: int, library: Library) -> list[LoadedSet]:
    """The sets that the run should have loaded: the first in performance mode, all in accuracy."""
    padding = facts.samples_per_query - 1 if facts.scenario == "MultiStream" else 0
    sets = loaded_sets(facts.qsl_seed, shuffled, facts.performance_count, padding, library)
    return sets if facts.accuracy else sets[:1]


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The size of what ``GenerateQueries`` makes of one loaded set.

    ``query_count`` and ``duration_ns`` are logged under the generated_* keys. ``samples_per_query``
    is the real one, with the padding of Offline equal-issue mode.
    """

    query_count: int
    duration_ns: int
    samples_per_query: int

    @property
    def sample_count(self) -> int:
        """How many samples all queries have together."""
        return self.query_count * self.samples_per_query


def _equal_issue(facts: RunFacts) -> bool:
    """Whether the order of single-sample queries comes from the equal-issue list."""
    if not facts.permutation:
        return False
    if facts.generation in (Generation.V4, Generation.V5):
        return facts.scenario in ("SingleStream", "Server")
    return facts.generation is not Generation.V1 and facts.scenario == "SingleStream"


def _samples_per_query(facts: RunFacts, loaded: LoadedSet) -> int:
    if facts.scenario != "Offline":
        return facts.samples_per_query
    if facts.accuracy:
        return loaded.distinct
    if facts.permutation and facts.generation is not Generation.V1:
        return round_up(facts.samples_per_query, loaded.samples.size)
    return facts.samples_per_query


def _fixed_length(facts: RunFacts) -> bool:
    """Whether the run goes once over the loaded samples instead of lasting for a time."""
    if facts.accuracy or facts.issue_unique:
        return True
    return facts.issue_same and facts.generation in (Generation.V1, Generation.V2_0)


def _least_queries(facts: RunFacts, loaded: LoadedSet) -> int:
    """The minimum number of queries before equal-issue mode pads it."""
    if not _fixed_length(facts):
        return facts.min_query_count
    whole = facts.scenario == "Offline" and facts.accuracy
    return loaded.samples.size // (loaded.distinct if whole else facts.samples_per_query)


def query_plan(facts: RunFacts, loaded: LoadedSet, *, limit: int = DEFAULT_LIMIT) -> QueryPlan:
    """How many queries LoadGen generates for ``loaded``, their span in ns and their size.

    Raises ValueError for a rate that has no schedule, TooLong for a Server schedule of more than
    ``limit`` queries.
    """
    least = _least_queries(facts, loaded)
    wanted_ns = 0 if _fixed_length(facts) else facts.target_duration_ms * 1_000_000
    block = loaded.samples.size if _pads_queries(facts, loaded) else 0
    schedule: Schedule
    if facts.scenario == "Server":
        schedule = server_schedule(
            facts.schedule_seed,
            facts.target_qps,
            wanted_ns,
            least,
            equal_issue_block=block,
            limit=limit,
        )
    else:
        # Only the Server scenario knows its end beforehand; the others make twice what they need.
        schedule = constant_schedule(
            period_ns(facts), 2 * wanted_ns, least, equal_issue_block=block
        )
    return QueryPlan(schedule.query_count, schedule.duration_ns, _samples_per_query(facts, loaded))


def fixed_sample_count(facts: RunFacts, loaded: LoadedSet) -> int | None:
    """How many samples a run of ``loaded`` has; None where that depends on its schedule."""
    if not _fixed_length(facts):
        return None
    block = loaded.samples.size if _pads_queries(facts, loaded) else 0
    return round_up(_least_queries(facts, loaded), block) * _samples_per_query(facts, loaded)


def _pads_queries(facts: RunFacts, loaded: LoadedSet) -> bool:
    """Whether the number of queries is padded to a multiple of the loaded samples."""
    if not facts.permutation or facts.accuracy:
        return False
    if facts.scenario != "Offline":
        return facts.generation in (Generation.V4, Generation.V5)
    # LoadGen 4 asks for the padding of the one query first, and pads the count if that needs none.
    return facts.generation is Generation.V4 and facts.samples_per_query % loaded.samples.size == 0


def period_ns(facts: RunFacts) -> int:
    """The time between two queries of every scenario but Server, in ns, cut as C++ cuts it.

    Raises ValueError if the settings give no rate.
    """
    rate = facts.target_qps
    if facts.expected_latency_ns is not None:
        rate = 1e9 / facts.expected_latency_ns
    if not rate > 0:
        raise ValueError(f"a target of {rate} queries per second has no schedule")
    return int(1.0 / rate * 1e9)


def _equal_issue_list(least: int, size: int, stream: Stream, library: Library) -> Int64Array:
    """Whole rounds over all samples, each in a new order; every round shuffles the last one on."""
    order = np.arange(size)
    rounds: list[Int64Array] = []
    for _ in range(-(-least // size)):
        order = order[permutation(size, stream, library)]
        rounds.append(order)
    return np.concatenate(rounds) if rounds else np.empty(0, dtype=np.int64)


def _offline_samples(
    facts: RunFacts, loaded: LoadedSet, wanted: Int64Array, library: Library
) -> Int64Array:
    """Offline issues the loaded samples over and over, each round shuffled in equal-issue mode."""
    size = loaded.samples.size
    if facts.issue_same:
        return np.full(wanted.size, loaded.samples[facts.issue_same_index], dtype=np.int64)
    if not facts.permutation or facts.generation is Generation.V1:
        return loaded.samples[wanted % size]
    stream = _after_setup(facts, loaded, library)
    found = np.empty(wanted.size, dtype=np.int64)
    rounds = wanted // size
    needed = set(rounds.tolist())
    for number in range(int(rounds.max(initial=-1)) + 1):
        if number not in needed:
            skip_shuffle(size, stream, library)
            continue
        order = loaded.samples[permutation(size, stream, library)]
        here = np.flatnonzero(rounds == number)
        found[here] = order[wanted[here] - number * size]
    return found


def _after_setup(facts: RunFacts, loaded: LoadedSet, library: Library) -> Stream:
    """The sample generator after the orders that LoadGen always draws, wanted or not."""
    stride = facts.samples_per_query if facts.scenario == "MultiStream" else 1
    drawn = len(range(0, loaded.distinct, stride))
    sizes = [drawn, drawn] if facts.accuracy else [drawn]
    size = loaded.samples.size
    rounds = 0
    if facts.generation is not Generation.V1:
        rounds = -(-_least_queries(facts, loaded) // size)
    stream = Stream(facts.sample_index_seed)
    stream.skip(_drawn_before(stream.seed, tuple(sizes), size, rounds, library))
    return stream


@lru_cache(maxsize=256)
def _drawn_before(
    seed: int, sizes: tuple[int, ...], size: int, rounds: int, library: Library
) -> int:
    """The outputs that shuffles of ``sizes``, then ``rounds`` of ``size``, take."""
    stream = Stream(seed)
    for one in sizes:
        skip_shuffle(one, stream, library)
    for _ in range(rounds):
        skip_shuffle(size, stream, library)
    return stream.place


def _starts(
    facts: RunFacts, loaded: LoadedSet, queries: Int64Array, library: Library
) -> Int64Array:
    """The place in the loaded set at which each of ``queries`` starts, -1 if there is none."""
    stride = facts.samples_per_query if facts.scenario == "MultiStream" else 1
    drawn = len(range(0, loaded.distinct, stride))
    stream = Stream(facts.sample_index_seed)
    listed = _equal_issue(facts)
    if facts.issue_unique or (facts.accuracy and not facts.issue_same and not listed):
        if facts.accuracy and facts.issue_unique:
            skip_shuffle(drawn, stream, library)
        order = np.arange(0, loaded.distinct, stride)
        places = order[permutation(order.size, stream, library)]
        inside = queries < places.size
        return np.where(inside, places[np.where(inside, queries, 0)], -1)
    if facts.issue_same:
        return np.full(queries.size, facts.issue_same_index, dtype=np.int64)
    if listed:
        for _ in range(2 if facts.accuracy else 1):
            skip_shuffle(drawn, stream, library)
        # Rounds after the last one requested are not built; the list starts over after its end.
        size = loaded.samples.size
        least = min(_least_queries(facts, loaded), round_up(int(queries.max(initial=0)) + 1, size))
        issued = _equal_issue_list(least, size, stream, library)
        if not issued.size:
            return np.full(queries.size, -1, dtype=np.int64)
        return issued[queries % issued.size]
    stream = _after_setup(facts, loaded, library)
    return uniform_integers_at(stream, loaded.distinct, queries, library)


def sample_indices(
    facts: RunFacts, loaded: LoadedSet, seq_ids: Sequence[int] | Int64Array, library: Library
) -> Int64Array:
    """The QSL index that each ``seq_id`` (counted from the first query of this set) means.

    Shape (len(seq_ids),), -1 where the run has no such sample because the set runs out. The number
    of queries is not checked: see :func:`query_plan`. Raises ValueError if the run repeats a sample
    that is not in the set.
    """
    wanted = np.asarray(seq_ids, dtype=np.int64)
    if facts.issue_same and facts.issue_same_index >= loaded.samples.size:
        raise ValueError(f"sample {facts.issue_same_index} to repeat is beyond the loaded set")
    if facts.scenario == "Offline":
        return _offline_samples(facts, loaded, wanted, library)
    per_query = facts.samples_per_query
    starts = _starts(facts, loaded, wanted // per_query, library)
    places = starts + wanted % per_query
    inside = (starts >= 0) & (places < loaded.samples.size)
    return np.where(inside, loaded.samples[np.where(inside, places, 0)], -1)


def sampling_probability(facts: RunFacts, *, count_minimum: bool = True) -> float:
    """The chance of a sample to be logged in a performance run; 1 in an accuracy run.

    A sampling target is divided by the number of samples that LoadGen expects, which it derives
    from the settings and not from the queries that it generated. Since LoadGen 1.0 that number is
    at least the minimum that the run needs; ``count_minimum=False`` leaves this out.
    """
    if facts.accuracy:
        return 1.0
    if facts.accuracy_log_sampling_target <= 0:
        return facts.accuracy_log_probability
    expected = int(facts.target_qps * facts.min_duration_ms / 1000)
    if facts.scenario == "Offline":
        least = facts.min_sample_count
    else:
        expected *= facts.samples_per_query
        least = facts.min_query_count * facts.samples_per_query
    if count_minimum:
        expected = max(expected, least)
    return facts.accuracy_log_sampling_target / max(expected, 1)


def sampling_values(facts: RunFacts, seq_ids: Int64Array) -> Float64Array:
    """The value in [0, 1) that decides about each sample in ``seq_ids``, in the same shape (n,).

    A sample is logged when its value is at most :func:`sampling_probability`. LoadGen draws one
    value for every sample from a generator that it never seeds (so C++'s default of 5489 holds),
    and shifts them all by the first value of a generator with the accuracy log seed.
    """
    offset = Stream(facts.accuracy_log_seed).canonical(1)[0]
    shifted = reals_of(_DEFAULT_SEED).at(seq_ids) + offset
    wrapped: Float64Array = np.where(shifted < 1.0, shifted, shifted - 1.0)
    return wrapped
