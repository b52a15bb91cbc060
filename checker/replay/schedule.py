"""How many queries LoadGen generates, and over which time: the loop of ``GenerateQueries``.

All times are whole nanoseconds, because LoadGen cuts every step to a nanosecond before it adds it.
Sums of such steps are exact in 64-bit integers, so a schedule of a million queries is a handful of
numpy calls and still equal to the C++ result in its last digit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .mt19937 import Waits, waits_of
from .shuffle import Int64Array

#: Longer schedules are not replayed unless the caller asks: a million queries take about 20 ms.
DEFAULT_LIMIT = 50_000_000


class TooLong(ValueError):
    """The schedule has more queries than the caller's limit, so it was not replayed."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """What LoadGen logs as ``generated_query_count`` and ``generated_query_duration`` (ns)."""

    query_count: int
    duration_ns: int


def round_up(count: int, block: int) -> int:
    """The smallest multiple of ``block`` that is at least ``count``; ``count`` if block is 0."""
    return -(-count // block) * block if block > 0 else count


def constant_schedule(
    period_ns: int, wanted_ns: int, min_query_count: int, *, equal_issue_block: int = 0
) -> Schedule:
    """The schedule of every scenario but Server: one query each ``period_ns``.

    Queries are added until the last one starts at ``wanted_ns`` or later and there are
    ``min_query_count`` of them; in equal-issue mode the count is a multiple of
    ``equal_issue_block``. Raises ValueError if the loop would never end (a period of 0).
    """
    count = 0
    if wanted_ns > 0:
        if period_ns <= 0:
            raise ValueError("a period of 0 ns never reaches the wanted duration")
        count = -(-wanted_ns // period_ns) + 1
    count = round_up(max(count, min_query_count), equal_issue_block)
    return Schedule(count, count * period_ns)


_LONGEST = 37.0
"""-ln(1 - u) for the greatest u below 1."""


def _steps(waits: Waits, number: int, qps: float) -> Int64Array:
    """The waiting times in ns of one stretch, cut as ``duration_cast<nanoseconds>`` cuts them.

    They are draws of ``std::exponential_distribution(qps)``, which both libstdc++ and libc++
    compute as ``-log(1 - u) / qps``.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        exact = waits.stretch(number) / qps
        exact *= 1e9
        steps = exact.astype(np.int64)
        cut = exact - steps
    # numpy's logarithm may differ from the C library's in the last place. That can change the cut
    # only for a value next to a whole number, so just those are computed again the slow way.
    slack = _LONGEST * 1e9 / qps * 1e-15
    if cut.min() <= slack or cut.max() >= 1 - slack:
        doubtful = np.flatnonzero(np.abs(exact - np.rint(exact)) <= exact * 1e-15)
        one_minus = waits.one_minus(number) if doubtful.size else waits.stretch(number)
        for index in doubtful.tolist():
            steps[index] = int(-math.log(float(one_minus[index])) / qps * 1e9)
    return steps


def _length(seed: int, qps: float, count: int) -> int:
    """The sum of the first ``count`` waiting times, ns."""
    waits = waits_of(seed & 0xFFFFFFFF)
    size = waits.size
    whole, rest = divmod(count, size)
    total = sum(int(_steps(waits, number, qps).sum()) for number in range(whole))
    return total + (int(_steps(waits, whole, qps)[:rest].sum()) if rest else 0)


def unit_length(seed: int, count: int) -> float:
    """The sum of the first ``count`` waits at a rate of 1 per second, uncut, in seconds."""
    waits = waits_of(seed & 0xFFFFFFFF)
    whole, rest = divmod(count, waits.size)
    end = float(waits.stretch(whole)[:rest].sum())
    return end + (waits.ends[whole - 1] if whole else 0.0)


def unit_reach(seed: int, seconds: float, lost: float) -> int:
    """How many waits at a rate of 1, each less ``lost``, end before ``seconds``."""
    waits = waits_of(seed & 0xFFFFFFFF)
    size = waits.size
    number = int(seconds) // size
    waits.stretch(number)
    ends = waits.ends
    while number and ends[number - 1] - number * size * lost >= seconds:
        number -= 1
    while True:
        values = waits.stretch(number)
        if ends[number] - (number + 1) * size * lost >= seconds:
            break
        number += 1
    start = (ends[number - 1] if number else 0.0) - number * size * lost
    inside = values.cumsum() - lost * np.arange(1, size + 1)
    return number * size + int(np.searchsorted(inside, seconds - start))


def _check_rate(qps: float) -> None:
    if not (math.isfinite(qps) and qps > 0):
        raise ValueError(f"a target of {qps} queries per second has no schedule")


def server_schedule(
    seed: int,
    target_qps: float,
    wanted_ns: int,
    min_query_count: int,
    *,
    equal_issue_block: int = 0,
    limit: int = DEFAULT_LIMIT,
) -> Schedule:
    """The Poisson arrivals of the Server scenario: how many, and when the one after them is due.

    ``seed`` is the schedule seed as logged, ``target_qps`` is in queries per second, ``wanted_ns``
    is the duration that the last scheduled query must reach (the effective target duration; 0 in
    accuracy mode). ``equal_issue_block`` is the number of loaded samples when equal-issue mode
    rounds the count up to a multiple of it, else 0.

    Raises ValueError for a rate that has no schedule, TooLong when more than ``limit`` queries are
    needed.
    """
    _check_rate(target_qps)
    least = round_up(min_query_count, equal_issue_block)
    if max(least, wanted_ns * 1e-9 * target_qps) > limit:
        raise TooLong(f"more than {limit} queries")
    count: int | None = least if wanted_ns <= 0 else None
    if count == 0:
        return Schedule(0, 0)
    waits = waits_of(seed & 0xFFFFFFFF)
    done = now = 0
    while True:
        # No more than is likely needed: at very low rates the sum of more would not fit 64 bits.
        likely = count - done if count is not None else (wanted_ns - now) * 1e-9 * target_qps + 64
        number, place = divmod(done, waits.size)
        steps = _steps(waits, number, target_qps)[place : place + int(max(likely * 1.01, 64))]
        length = int(steps.sum())
        if count is None and now + length >= wanted_ns:
            # due[k] is when query done+k+1 is scheduled; the first query is always due at 0.
            due = steps.cumsum()
            reached = done + int(np.searchsorted(due, wanted_ns - now)) + 2
            count = round_up(max(reached, least), equal_issue_block)
        if count is not None and count <= done + steps.size:
            return Schedule(count, now + int(steps[: count - done].sum()))
        done += steps.size
        now += length
        if done > 2 * limit:
            raise TooLong(f"more than {limit} queries")


def server_due_ns(seed: int, target_qps: float, count: int) -> Int64Array:
    """When the first ``count`` queries of the Server scenario are due, (count,) ns after the start.

    Raises ValueError for a rate that has no schedule.
    """
    _check_rate(target_qps)
    waits = waits_of(seed & 0xFFFFFFFF)
    parts = [
        _steps(waits, number, target_qps) for number in range(-(-max(count - 1, 0) // waits.size))
    ]
    steps = np.concatenate([np.zeros(1, np.int64), *parts])[: max(count, 0)]
    return steps.cumsum()


def rounding_interval(logged: float) -> tuple[float, float]:
    """The doubles that LoadGen prints as ``logged``: it keeps six significant digits."""
    half = 0.5 * 10.0 ** (math.floor(math.log10(abs(logged))) - 5)
    return logged - half, logged + half


def rate_for(
    seed: int, logged_qps: float, count: int, duration_ns: int, *, limit: int = DEFAULT_LIMIT
) -> float | None:
    """A rate printed as ``logged_qps`` under which ``count`` arrivals last exactly ``duration_ns``.

    A log shows the target rate with six digits only, so a run at 1234.5678 queries per second
    cannot be replayed from its log. But the schedule of a count of queries shrinks monotonically as
    the rate grows, and single steps change one nanosecond at a time; so for an untouched log the
    hidden digits can be solved for. None: no rate in the rounding interval gives this duration.

    Raises ValueError for a rate that has no schedule, TooLong for a count above ``limit``.
    """
    _check_rate(logged_qps)
    if count > limit:
        raise TooLong(f"more than {limit} queries")
    if count < 1:
        return None
    # Every step loses less than a nanosecond, half of one on average.
    unit_ns = unit_length(seed, count) * 1e9
    low, high = rounding_interval(logged_qps)
    low = max(low, unit_ns / (duration_ns + count) * (1 - 1e-9))
    high = min(high, unit_ns / max(duration_ns, 1) * (1 + 1e-9))
    if low > high:
        return None
    guess = min(max(unit_ns / (duration_ns + count / 2), low), high)
    for attempt in range(200):
        found = _length(seed, guess, count)
        if found == duration_ns:
            return guess
        if found > duration_ns:
            low = guess
        else:
            high = guess
        # The next guess is good to a few parts in 10**12 at once; if that is not enough, bisection
        # finds the last digits, or shows that they do not exist.
        guess = guess * (found + count / 2) / (duration_ns + count / 2)
        if attempt > 4 or not low < guess < high:
            guess = low + (high - low) / 2
            if not low < guess < high:
                return None
    return None
