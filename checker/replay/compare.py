"""Compare what a log says with what its seeds give.

Every check returns one of three outcomes, so that a rule can tell "agrees" from "was not looked
at". Found and expected values are short texts that fit into a message as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .facts import Generation, RunFacts
from .queries import (
    LoadedSet,
    QueryPlan,
    expected_sets,
    fixed_sample_count,
    query_plan,
    sample_indices,
    sampling_probability,
    sampling_values,
    shuffled_counts,
)
from .schedule import DEFAULT_LIMIT, TooLong, rate_for, rounding_interval
from .shuffle import Int64Array, Library


@dataclass(frozen=True, slots=True)
class Agreement:
    """The log holds what the seeds give; ``checked`` values were compared, ``how`` is a remark."""

    checked: int
    how: str = ""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """The first place where the log differs from what its seeds give."""

    where: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class NotReplayed:
    """Nothing was compared, and why."""

    reason: str


_TOP = 1 << 62

Outcome = Agreement | Disagreement | NotReplayed


@dataclass(frozen=True, slots=True)
class Build:
    """What a loaded set shows about the LoadGen build: the library, and how much it shuffles."""

    library: Library
    shuffled: int


def _out_of_reach(
    facts: RunFacts, logged: Sequence[Sequence[int]], limit: int
) -> NotReplayed | None:
    """Why the run cannot be replayed, if its numbers are no LoadGen run's or take too long.

    Logs come from anyone; a count of 10**15 must not become a list of that length.
    """
    counts = {
        "total sample count": facts.total_count,
        "performance sample count": facts.performance_count,
    }
    if facts.scenario != "Offline":
        counts["samples per query"] = facts.samples_per_query
    for name, count in counts.items():
        if count > limit:
            return NotReplayed(f"a {name} of {count}: more than {limit} samples")
    if facts.performance_count < 1 or facts.samples_per_query < 1:
        return NotReplayed("a run has samples, but a count of them is 0")
    if any(not samples for samples in logged):
        return NotReplayed("an empty loaded_qsl_set")
    try:
        for samples in logged:
            np.asarray(samples, dtype=np.int64)
    except (ValueError, TypeError, OverflowError):
        return NotReplayed("loaded_qsl_set is not a list of sample indices")
    return None


def matching_builds(facts: RunFacts, logged: Sequence[Sequence[int]]) -> list[Build]:
    """The builds that load exactly the logged sets; empty if none does.

    ``logged`` holds every ``loaded_qsl_set`` of the run in order: one in a performance run, one or
    more in an accuracy run. Very small data sets may fit several builds.
    """
    return list(_builds(facts, logged))


def _builds(facts: RunFacts, logged: Sequence[Sequence[int]]) -> Iterator[Build]:
    for build in _every_build(facts):
        if _first_difference(facts, logged, build) is None:
            yield build


def _every_build(facts: RunFacts) -> Iterator[Build]:
    counts = shuffled_counts(facts)
    for library in Library:
        for shuffled in counts:
            yield Build(library, shuffled)


def _first_difference(
    facts: RunFacts, logged: Sequence[Sequence[int]], build: Build
) -> Disagreement | None:
    sets = expected_sets(facts, build.shuffled, build.library)
    if len(sets) != len(logged):
        return Disagreement("number of loaded sets", str(len(sets)), str(len(logged)))
    for number, (expected, found) in enumerate(zip(sets, logged, strict=True)):
        where = f"loaded_qsl_set {number + 1}" if len(sets) > 1 else "loaded_qsl_set"
        if expected.samples.size != len(found):
            return Disagreement(f"length of {where}", str(expected.samples.size), str(len(found)))
        differs = np.flatnonzero(expected.samples != np.asarray(found, dtype=np.int64))
        if differs.size:
            at = int(differs[0])
            return Disagreement(
                f"{where}[{at}] ({differs.size} of {len(found)} entries differ)",
                str(expected.samples[at]),
                str(found[at]),
            )
    return None


def check_loaded_set(facts: RunFacts, logged: Sequence[Sequence[int]]) -> Outcome:
    """Whether the loaded sample sets are those that the QSL seed gives under any known library.

    ``logged`` is as for :func:`matching_builds`. A disagreement is shown against the newest build.
    """
    if not logged:
        return NotReplayed("the log has no loaded_qsl_set")
    unfit = _out_of_reach(facts, logged, DEFAULT_LIMIT)
    if unfit is not None:
        return unfit
    build = next(_builds(facts, logged), None)
    if build is not None:
        return Agreement(sum(map(len, logged)), build.library.value)
    newest = Build(Library.GNU_11, shuffled_counts(facts)[-1])
    first = _first_difference(facts, logged, newest)
    assert first is not None
    return first


def logged_sets(facts: RunFacts, logged: Sequence[Sequence[int]]) -> list[LoadedSet]:
    """The logged sets in the form that the query functions take."""
    padding = facts.samples_per_query - 1 if facts.scenario == "MultiStream" else 0
    return [
        LoadedSet(np.asarray(samples, dtype=np.int64), max(len(samples) - padding, 1))
        for samples in logged
    ]


def _assumed_sets(facts: RunFacts) -> list[LoadedSet]:
    """Sets of the right sizes for a log that shows none; their order does not matter here."""
    return expected_sets(facts, shuffled_counts(facts)[0], Library.GNU_11)


def check_schedule(
    facts: RunFacts,
    logged: Sequence[Sequence[int]],
    query_counts: Sequence[int],
    durations_ns: Sequence[int],
    *,
    limit: int = DEFAULT_LIMIT,
) -> Outcome:
    """Whether the generated query counts and durations follow from the settings and the seed.

    ``logged`` holds the loaded sets, and may be empty for the logs of v0.5, which do not show them
    in accuracy runs; ``query_counts`` and ``durations_ns`` the values of
    ``generated_query_count`` and ``generated_query_duration``, one for each loaded set, in order.
    Where the target rate is printed rounded, the log agrees if any rate that is printed so gives
    both values exactly. Schedules of more than ``limit`` queries are not replayed.
    """
    unfit = _out_of_reach(facts, logged, limit)
    if unfit is not None:
        return unfit
    sets = logged_sets(facts, logged) if logged else _assumed_sets(facts)
    if not (len(sets) == len(query_counts) == len(durations_ns) > 0):
        return NotReplayed(
            f"{len(sets)} loaded sets, {len(query_counts)} counts and "
            f"{len(durations_ns)} durations do not belong together"
        )
    first: Outcome | None = None
    for possible in _possible_facts(facts):
        outcome = _compare_schedule(possible, sets, query_counts, durations_ns, limit)
        if not isinstance(outcome, Disagreement):
            return outcome
        first = first or outcome
    assert first is not None
    return first


def _possible_facts(facts: RunFacts) -> list[RunFacts]:
    """The facts with equal-issue mode off and on, if the log does not say which it was."""
    if facts.permutation is not None or facts.generation is Generation.V1:
        return [facts]
    return [replace(facts, permutation=False), replace(facts, permutation=True)]


def _compare_schedule(
    facts: RunFacts,
    sets: Sequence[LoadedSet],
    query_counts: Sequence[int],
    durations_ns: Sequence[int],
    limit: int,
) -> Outcome:
    how = "exact"
    for loaded, count, duration in zip(sets, query_counts, durations_ns, strict=True):
        try:
            plan = query_plan(facts, loaded, limit=limit)
            if (plan.query_count, plan.duration_ns) == (count, duration):
                continue
            if not _fits_rounded_rate(facts, loaded, count, duration, limit):
                return _schedule_difference(plan, count, duration)
            how = "exact for a target that is printed rounded"
        except TooLong as error:
            return NotReplayed(str(error))
        except (ValueError, OverflowError) as error:
            return NotReplayed(f"the settings give no schedule: {error}")
    return Agreement(2 * len(query_counts), how)


def _schedule_difference(plan: QueryPlan, count: int, duration: int) -> Disagreement:
    if plan.query_count != count:
        return Disagreement("generated_query_count", str(plan.query_count), str(count))
    return Disagreement("generated_query_duration", f"{plan.duration_ns} ns", f"{duration} ns")


def _fits_rounded_rate(
    facts: RunFacts, loaded: LoadedSet, count: int, duration: int, limit: int
) -> bool:
    """Whether a target that LoadGen prints as the logged one gives the logged count and duration.

    LoadGen prints six digits of the rate and of the expected latency.
    """
    if count < 1 or duration < 1:
        return False
    if facts.scenario == "Server":
        rate = rate_for(facts.schedule_seed, facts.target_qps, count, duration, limit=limit)
        if rate is None:
            return False
        possible = replace(facts, target_qps=rate)
    else:
        period = duration // count
        if facts.expected_latency_ns is not None:
            low, high = rounding_interval(facts.expected_latency_ns)
        else:
            slow, fast = rounding_interval(facts.target_qps)
            low, high = 1e9 / fast, 1e9 / slow
        # The two divisions between latency and period may lose up to a nanosecond.
        if not math.floor(low) - 1 <= period <= math.ceil(high) + 1:
            return False
        # Half a nanosecond more keeps those divisions from cutting the period once more.
        possible = replace(facts, expected_latency_ns=period + 0.5)
    plan = query_plan(possible, loaded, limit=limit)
    return (plan.query_count, plan.duration_ns) == (count, duration)


def check_query_order(
    facts: RunFacts,
    logged: Sequence[Sequence[int]],
    records: Iterable[tuple[int, int]],
    builds: Sequence[Build] | None = None,
    *,
    limit: int = DEFAULT_LIMIT,
) -> Outcome:
    """Whether the records of an accuracy log stand in the order that the seeds give.

    ``logged`` holds the loaded sets of the detail log of the same run, and may be empty if the log
    does not show them; ``records`` are pairs of ``seq_id`` and ``qsl_idx`` in any order and with
    any gaps; a sample cut off by truncation must not be among them. ``builds`` limits the libraries
    tried, by default to those that give the loaded sets. Runs with a sequence number above
    ``limit`` are not replayed.
    """
    unfit = _out_of_reach(facts, logged, limit)
    if unfit is not None:
        return unfit
    # The draws that LoadGen makes before the first query grow with the minimum query count.
    if not facts.accuracy and facts.min_query_count > limit:
        return NotReplayed(f"more than {limit} samples")
    given = list(records)
    if not given:
        return NotReplayed("no records")
    if max(seq_id for seq_id, _ in given) > limit:
        return NotReplayed(f"more than {limit} samples")
    # An index that no 64-bit integer holds is none of a sample either.
    pairs = np.array([(a, b if b < _TOP else -2) for a, b in given], dtype=np.int64)
    first: Disagreement | None = None
    # Taken one by one, since the first build is nearly always the right one.
    if builds is not None:
        candidates: Iterable[Build] = builds
    elif logged:
        candidates = _builds(facts, logged)
    else:
        candidates = _every_build(facts)
    pairings = ((build, possible) for build in candidates for possible in _possible_facts(facts))
    for build, possible in pairings:
        library = build.library
        if logged:
            sets = logged_sets(facts, logged)
        else:
            sets = expected_sets(facts, build.shuffled, library)
        try:
            found = _order_difference(possible, sets, pairs, library, limit)
        except TooLong as error:
            return NotReplayed(str(error))
        except ValueError as error:
            return NotReplayed(f"the settings give no order: {error}")
        if found is None:
            return Agreement(len(pairs), library.value)
        first = first or found
    return first or NotReplayed("the loaded set does not follow from its seed")


def _order_difference(
    facts: RunFacts,
    sets: Sequence[LoadedSet],
    pairs: Int64Array,
    library: Library,
    limit: int,
) -> Disagreement | None:
    seq_ids, indices = pairs[:, 0], pairs[:, 1]
    start = 0
    for number, loaded in enumerate(sets):
        if number + 1 < len(sets) or facts.accuracy:
            count = fixed_sample_count(facts, loaded)
            if count is None:
                count = query_plan(facts, loaded, limit=limit).sample_count
            end = start + count
        else:
            # Nothing follows the only set of a performance run, so its size need not be known.
            end = int(seq_ids.max()) + 1
        here = np.flatnonzero((seq_ids >= start) & (seq_ids < end))
        expected = sample_indices(facts, loaded, seq_ids[here] - start, library)
        differs = here[expected != indices[here]]
        if differs.size:
            at = int(differs[0])
            should = int(expected[np.searchsorted(here, at)])
            return Disagreement(
                f"seq_id {seq_ids[at]} ({differs.size} of {len(pairs)} records differ)",
                f"qsl_idx {should}" if should >= 0 else "no such sample",
                f"qsl_idx {indices[at]}",
            )
        start = end
    beyond = np.flatnonzero(seq_ids >= start)
    if beyond.size:
        at = int(beyond[0])
        return Disagreement("seq_id", f"below {start}", str(seq_ids[at]))
    return None


def check_sampling(
    facts: RunFacts,
    seq_ids: Iterable[int],
    *,
    issued: int | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Outcome:
    """Whether a performance run logged the responses that the accuracy log seed picks.

    ``seq_ids`` are the sequence numbers in the accuracy log. Each must be one that is picked; with
    ``issued``, the number of samples that the run completed, every picked one below it must be
    there as well, so pass it only for an accuracy log that is not cut. The threshold is derived
    from values printed with six digits; samples within that rounding of it are left out.
    """
    if facts.accuracy:
        return NotReplayed("an accuracy run logs every sample")
    lowest = highest = sampling_probability(facts)
    if facts.generation is Generation.V1:
        # LoadGen called itself ".5a1" in v0.5, v0.7 and v1.0, and the rule changed between them.
        highest = max(lowest, sampling_probability(facts, count_minimum=False))
    given = list(seq_ids)
    if not given and issued is None:
        return NotReplayed("no records")
    if max(issued or 0, max(given, default=0) + 1) > limit:
        return NotReplayed(f"more than {limit} samples")
    found = np.unique(np.array(given, dtype=np.int64))
    if issued is None:
        values = sampling_values(facts, found)
    else:
        every = sampling_values(facts, np.arange(max(issued, int(found.max(initial=-1)) + 1)))
        values = every[found]
    wrong = found[values > highest * (1 + 1e-5)]
    if wrong.size:
        return Disagreement(
            f"logged samples ({wrong.size} of {found.size} were not picked)",
            f"only samples that seed {facts.accuracy_log_seed} picks",
            f"seq_id {wrong[0]}",
        )
    checked = found.size
    if issued is not None:
        picked = np.flatnonzero(every[:issued] <= lowest * (1 - 1e-5))
        missing = np.setdiff1d(picked, found, assume_unique=True)
        if missing.size:
            return Disagreement(
                f"logged samples ({missing.size} of {picked.size} picked ones are missing)",
                f"seq_id {missing[0]}",
                "not logged",
            )
        checked = max(checked, picked.size)
    return Agreement(int(checked))
