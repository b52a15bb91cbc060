"""``std::uniform_int_distribution`` and ``std::shuffle`` of the C++ standard libraries.

The C++ standard fixes neither algorithm, so the order that one seed gives depends on the library
that LoadGen was compiled with. Five are distinguished here. Published logs show four; Microsoft's follows its
published source.
Every function takes a :class:`~checker.replay.mt19937.Stream` and uses up exactly the outputs that
the C++ code would.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from operator import length_hint

import numpy as np
import numpy.typing as npt

from .mt19937 import Stream, UInt64Array

Int64Array = npt.NDArray[np.int64]

_WORD = 1 << 32
_STRETCH = 1 << 14
_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


class Library(Enum):
    """A C++ standard library, as far as its random algorithms can be distinguished."""

    GNU_11 = "libstdc++ 11 or later"
    GNU_7 = "libstdc++ 7 to 10"
    GNU_4 = "libstdc++ before 7"
    LLVM = "libc++"
    MICROSOFT = "Microsoft's"


def _accept(
    draws: UInt64Array, ranges: UInt64Array | np.uint64, library: Library
) -> tuple[npt.NDArray[np.bool_], UInt64Array]:
    """Which draws the library keeps, and the bounded value that each would give."""
    if library is Library.GNU_11:
        # Lemire's multiplication: the high word is the value, the low word decides. The library
        # computes the threshold only if low < range; threshold < range makes that the same test.
        product = draws * ranges
        threshold = (np.uint64(_WORD) - ranges) % ranges
        return (product & _MASK) >= threshold, product >> _SHIFT
    if library is Library.MICROSOFT:
        # The remainder; draws of the last, incomplete round of values are dropped.
        whole = (draws // ranges < _MASK // ranges) | (_MASK % ranges == ranges - np.uint64(1))
        return whole, draws % ranges
    # Division: the range of the generator, 2**32 - 1 and not 2**32, is cut into equal buckets.
    scaling = _MASK // ranges
    return draws < ranges * scaling, draws // scaling


def _llvm_bits(bound: int) -> int:
    """How many low bits of an output libc++ keeps for a range of ``bound`` values."""
    return (bound - 1).bit_length()


def uniform_integers(stream: Stream, bound: int, count: int, library: Library) -> Int64Array:
    """``count`` draws of ``std::uniform_int_distribution`` over [0, bound), shape (count,).

    ``bound`` is 1 to 2**32 - 1. Raises ValueError for another.
    """
    if not 1 <= bound < _WORD:
        raise ValueError(f"a range of {bound} values cannot be drawn from one 32-bit output")
    if bound == 1 and library in (Library.LLVM, Library.MICROSOFT):
        # These two notice that there is nothing to choose and leave the generator as it is.
        return np.zeros(count, dtype=np.int64)
    parts: list[UInt64Array] = []
    missing = count
    while missing > 0:
        draws = stream.peek(missing + (missing >> 4) + 16)
        if library is Library.LLVM:
            values = draws & np.uint64((1 << _llvm_bits(bound)) - 1)
            kept = values < np.uint64(bound)
        else:
            kept, values = _accept(draws, np.uint64(bound), library)
        where = np.flatnonzero(kept)[:missing]
        used = int(where[-1]) + 1 if where.size == missing else draws.size
        parts.append(values[where])
        missing -= where.size
        stream.skip(used)
    if not parts:
        return np.empty(0, dtype=np.int64)
    return np.concatenate(parts).astype(np.int64)


def uniform_integers_at(
    stream: Stream, bound: int, places: Int64Array, library: Library
) -> Int64Array:
    """The values that :func:`uniform_integers` gives at ``places``, counted from here, shape (n,).

    The values between are drawn and dropped a stretch at a time, to need little memory.
    """
    found = np.empty(places.size, dtype=np.int64)
    order = np.argsort(places, kind="stable")
    ranked = places[order]
    start = 0
    done = 0
    while done < places.size:
        length = min(_STRETCH, int(ranked[-1]) + 1 - start)
        stretch = uniform_integers(stream, bound, length, library)
        end = int(np.searchsorted(ranked, start + length))
        found[order[done:end]] = stretch[ranked[done:end] - start]
        start += length
        done = end
    return found


def _draw_each(stream: Stream, ranges: UInt64Array, library: Library) -> UInt64Array:
    """One bounded draw for every range in turn, for the libraries that go through them upwards.

    A rejected output shifts all later ones by one place. Where that is rare, draws are computed in
    stretches that assume no rejection, and each stretch is kept up to its first one; where it is
    not, the outputs are gone through one by one.
    """
    values = np.empty(ranges.size, dtype=np.uint64)
    bounds = _bounds(ranges, library)
    rejected = bounds if library is Library.GNU_11 else _WORD - bounds.astype(np.int64)
    expected = np.concatenate(([0.0], rejected.cumsum(dtype=np.float64))) / _WORD
    done = 0
    stretch = 4096
    while done < ranges.size:
        length = min(stretch, ranges.size - done)
        lost = float(expected[done + length] - expected[done])
        if lost * _WALK > length:
            end = done + length
            walked = _walk(stream, ranges[done:end], bounds[done:end], lost, library)
            values[done : done + walked.size] = walked
            done += walked.size
            continue
        kept, candidates = _accept(stream.peek(length), ranges[done : done + length], library)
        good = length if kept.all() else int(kept.argmin())
        values[done : done + good] = candidates[:good]
        done += good
        if good == length:
            stream.skip(length)
            stretch = min(2 * stretch, 1 << 16)
        else:
            stream.skip(good + 1)
            stretch = max(256, min(stretch, 2 * good))
    return values


_WALK = 128
"""Outputs that are gone through one by one in the time of one vectorised start."""


def _bounds(ranges: UInt64Array, library: Library) -> UInt64Array:
    """What the low word must reach (libstdc++ 11), or what the output must stay under."""
    if library is Library.GNU_11:
        return (np.uint64(_WORD) - ranges) % ranges
    whole = ranges * (_MASK // ranges)
    if library is Library.MICROSOFT:
        return np.where(_MASK % ranges == ranges - np.uint64(1), np.uint64(_WORD), whole)
    return whole


def _walk(
    stream: Stream, ranges: UInt64Array, bounds: UInt64Array, lost: float, library: Library
) -> UInt64Array:
    """The draws for as many of the ranges as the outputs that are looked at suffice for."""
    outputs = stream.peek(ranges.size + int(1.2 * lost) + 64).tolist()
    left = iter(outputs)
    kept: list[int] = []
    if library is Library.GNU_11:
        for size, bound in zip(ranges.tolist(), bounds.tolist(), strict=True):
            for output in left:
                if output * size & 0xFFFFFFFF >= bound:
                    kept.append(output)
                    break
    else:
        for bound in bounds.tolist():
            for output in left:
                if output < bound:
                    kept.append(output)
                    break
    stream.skip(len(outputs) - length_hint(left))
    _, values = _accept(np.array(kept, dtype=np.uint64), ranges[: len(kept)], library)
    return values


def _gnu_targets(size: int, stream: Stream, library: Library) -> Int64Array:
    """For every place 1 … size-1, the earlier or same place it is swapped with."""
    if size < 2:
        return np.empty(0, dtype=np.int64)
    one_each = library in (Library.GNU_4, Library.MICROSOFT)
    if one_each or (_WORD - 1) // size < size:
        ranges = np.arange(2, size + 1, dtype=np.uint64)
        return _draw_each(stream, ranges, library).astype(np.int64)
    # Short sequences get two places from one draw over the product of both ranges; an even length
    # leaves one place over, which is drawn first.
    targets = np.empty(size - 1, dtype=np.int64)
    lone = 1 - size % 2
    first = np.arange(2 + lone, size, 2, dtype=np.uint64)
    products = first * (first + np.uint64(1))
    ranges = np.concatenate((np.full(lone, 2, dtype=np.uint64), products))
    drawn = _draw_each(stream, ranges, library)
    targets[:lone] = drawn[:lone]
    pairs = drawn[lone:]
    targets[lone::2] = pairs // (first + np.uint64(1))
    targets[lone + 1 :: 2] = pairs % (first + np.uint64(1))
    return targets


def _llvm_targets(size: int, stream: Stream) -> list[int]:
    """For every place 0 … size-2, how far ahead the place is that it is swapped with."""
    targets: list[int] = []
    draws: list[int] = []
    at = 0
    for bound in range(size, 1, -1):
        mask = (1 << _llvm_bits(bound)) - 1
        while True:
            if at == len(draws):
                draws = stream.take(min(4096, bound)).tolist()
                at = 0
            value = draws[at] & mask
            at += 1
            if value < bound:
                break
        targets.append(value)
    # The outputs taken but not needed go back, since the caller goes on with the same generator.
    stream.give_back(len(draws) - at)
    return targets


def permutation(size: int, stream: Stream, library: Library) -> Int64Array:
    """Which place each of ``size`` items comes from when ``std::shuffle`` has reordered them.

    Shape (size,), not to be written to: orders of the same seed are drawn once.
    """
    if size > _KEPT_SIZE:
        return _drawn(size, stream, library)
    order, used = _permutation(stream.seed, stream.place, size, library)
    stream.skip(used)
    return order


_KEPT_SIZE = 1 << 16
"""Greatest order that is kept: 512 KB."""


@lru_cache(maxsize=32)
def _permutation(seed: int, place: int, size: int, library: Library) -> tuple[Int64Array, int]:
    stream = Stream(seed)
    stream.skip(place)
    order = _drawn(size, stream, library)
    order.flags.writeable = False
    return order, stream.place - place


def _drawn(size: int, stream: Stream, library: Library) -> Int64Array:
    order = list(range(size))
    if library is Library.LLVM:
        for place, ahead in enumerate(_llvm_targets(size, stream)):
            other = place + ahead
            order[place], order[other] = order[other], order[place]
        return np.array(order, dtype=np.int64)
    targets = _gnu_targets(size, stream, library)
    if size > _SHORT:
        return _swapped(targets)
    for place, other in enumerate(targets.tolist(), 1):
        order[place], order[other] = order[other], order[place]
    return np.array(order, dtype=np.int64)


_SHORT = 2048
"""Up to so many swaps are made one by one."""


def _swapped(targets: Int64Array) -> Int64Array:
    """0, 1, 2 … after place 1, 2, 3 … was swapped with ``targets[0]``, ``targets[1]`` …

    Swap i moves item i, which nobody has touched, to its target, and brings what was there: the
    item whose swap had the same target last or, if none had, what the target's own swap brought.
    """
    size = targets.size + 1
    keys = np.zeros(size, dtype=np.int64)
    np.left_shift(targets, 32, out=keys[1:])
    keys |= np.arange(size)
    # Sorted by target, then by item: sorting whole numbers is faster than sorting by a key.
    keys.sort()
    items = keys.astype(np.int32)  # the low half
    target = (keys >> 32).astype(np.int32)
    border = np.ones(size + 1, dtype=np.bool_)
    np.not_equal(target[1:], target[:-1], out=border[1:-1])
    before = np.zeros(size, dtype=np.int32)
    before[1:] = items[:-1]
    first = np.flatnonzero(border[:-1])
    origin, item = target[first], items[first]
    # What an item's swap brings; ~t where it is what the swap of t brings, still to be found.
    before[first] = np.where(origin == item, item, ~origin)
    brought = np.empty(size, dtype=np.int32)
    brought[items] = before
    still = item[origin != item]
    follow = ~brought[still]
    while still.size:
        found = brought[follow]
        known = found >= 0
        brought[still[known]] = found[known]
        np.logical_not(known, out=known)
        still, follow = still[known], ~found[known]
    last = np.flatnonzero(border[1:])
    brought[target[last]] = items[last]
    return brought.astype(np.int64)


def shuffled(items: Sequence[int], seed: int, library: Library) -> list[int]:
    """A copy of ``items`` in the order that ``std::shuffle`` with a fresh generator gives."""
    order = permutation(len(items), Stream(seed), library)
    return [items[place] for place in order.tolist()]


def skip_shuffle(size: int, stream: Stream, library: Library) -> None:
    """Use up the outputs that a shuffle of ``size`` items takes, without any item to move."""
    stream.skip(_used(stream.seed, stream.place, size, library))


@lru_cache(maxsize=1024)
def _used(seed: int, place: int, size: int, library: Library) -> int:
    stream = Stream(seed)
    stream.skip(place)
    if library is Library.LLVM:
        _llvm_targets(size, stream)
    else:
        _gnu_targets(size, stream, library)
    return stream.place - place
