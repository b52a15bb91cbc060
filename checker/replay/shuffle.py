"""``std::uniform_int_distribution`` and ``std::shuffle`` of the C++ standard libraries.

The C++ standard fixes neither algorithm, so the order that one seed gives depends on the library
that LoadGen was compiled with. Five are told apart here. Published logs show four; Microsoft's follows its
published source.
Every function takes a :class:`~checker.replay.mt19937.Stream` and uses up exactly the outputs that
the C++ code would.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np
import numpy.typing as npt

from .mt19937 import Stream, UInt64Array

Int64Array = npt.NDArray[np.int64]

_WORD = 1 << 32
_STRETCH = 1 << 14
_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


class Library(Enum):
    """A C++ standard library, as far as its random algorithms can be told apart."""

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

    A rejected output shifts all later ones by one place, so the draws are computed in stretches
    that assume no rejection, and each stretch is kept up to its first one.
    """
    values = np.empty(ranges.size, dtype=np.uint64)
    done = 0
    stretch = 4096
    while done < ranges.size:
        length = min(stretch, ranges.size - done)
        kept, candidates = _accept(stream.peek(length), ranges[done : done + length], library)
        good = length if kept.all() else int(kept.argmin())
        values[done : done + good] = candidates[:good]
        done += good
        if good == length:
            stream.skip(length)
            stretch = min(2 * stretch, 1 << 16)
        else:
            stream.skip(good + 1)
            stretch = max(32, min(stretch, 2 * good))
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
    """For every place 0 … size-2, how far ahead the place lies that it is swapped with."""
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


def shuffle_in_place(items: list[int], stream: Stream, library: Library) -> None:
    """Reorder ``items`` as ``std::shuffle(items, std::mt19937&)`` does."""
    if library is Library.LLVM:
        for place, ahead in enumerate(_llvm_targets(len(items), stream)):
            other = place + ahead
            items[place], items[other] = items[other], items[place]
        return
    for place, other in enumerate(_gnu_targets(len(items), stream, library).tolist(), 1):
        items[place], items[other] = items[other], items[place]


def shuffled(items: Sequence[int], seed: int, library: Library) -> list[int]:
    """A copy of ``items`` in the order that ``std::shuffle`` with a fresh generator gives."""
    order = list(items)
    shuffle_in_place(order, Stream(seed), library)
    return order


def skip_shuffle(size: int, stream: Stream, library: Library) -> None:
    """Use up the outputs that a shuffle of ``size`` items takes, without any item to move."""
    if library is Library.LLVM:
        _llvm_targets(size, stream)
    else:
        _gnu_targets(size, stream, library)
