"""The 32-bit Mersenne Twister as C++ seeds it, and the reals drawn from it.

LoadGen seeds a ``std::mt19937`` for every random choice it makes. The generator itself is fixed
by the C++ standard (clause rand.eng.mers), so its outputs are the same on every platform; only
the distributions on top of it differ between standard libraries (see :mod:`.shuffle`).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

UInt64Array = npt.NDArray[np.uint64]
Float64Array = npt.NDArray[np.float64]

_STATE_WORDS = 624
_BLOCK = 1 << 12
_STRETCH = 1 << 14


@lru_cache(maxsize=64)
def _initial_state(seed: int) -> npt.NDArray[np.uint32]:
    """The 624 state words that the standard derives from a 32-bit seed."""
    words = [seed]
    for index in range(1, _STATE_WORDS):
        previous = words[-1]
        words.append((1812433253 * (previous ^ (previous >> 30)) + index) & 0xFFFFFFFF)
    return np.array(words, dtype=np.uint32)


class Stream:
    """A ``std::mt19937`` read as a stream of 32-bit outputs, with look-ahead.

    ``seed`` may have any size; like the C++ constructor it is taken modulo 2**32, so the 64-bit
    seeds of the MLPerf rules are accepted as logged. Look-ahead is what makes rejection sampling
    vectorise: a caller peeks at many outputs, finds how many it used, and skips just those.
    """

    __slots__ = ("_at", "_bits", "_buffer")

    def __init__(self, seed: int) -> None:
        key = _initial_state(seed & 0xFFFFFFFF)
        self._bits = np.random.MT19937(0)
        self._bits.state = {
            "bit_generator": "MT19937",
            "state": {"key": key.copy(), "pos": _STATE_WORDS},
        }
        self._buffer: UInt64Array = np.empty(0, dtype=np.uint64)
        self._at = 0

    def peek(self, count: int) -> UInt64Array:
        """The next ``count`` outputs, shape (count,), each in [0, 2**32), without using them.

        The result is a view of the look-ahead buffer: read it before the next call.
        """
        have = self._buffer.size - self._at
        if have < count:
            fresh = self._bits.random_raw(max(count - have, _BLOCK))
            self._buffer = np.concatenate((self._buffer[self._at :], fresh))
            self._at = 0
        return self._buffer[self._at : self._at + count]

    def skip(self, count: int) -> None:
        """Use up ``count`` outputs that were peeked at."""
        if self._at + count > self._buffer.size:
            self.peek(count)
        self._at += count

    def give_back(self, count: int) -> None:
        """Put back the last ``count`` outputs of the latest :meth:`take`."""
        self._at -= count

    def take(self, count: int) -> UInt64Array:
        """The next ``count`` outputs, shape (count,), used up."""
        values = self.peek(count)
        self._at += count
        return values

    def canonical(self, count: int) -> Float64Array:
        """``count`` values of ``std::generate_canonical<double, 53>``, shape (count,), in [0, 1).

        Two outputs make one value, the first being the low half. libstdc++ and libc++ do the same
        arithmetic here. The halves are added as doubles, as C++ does: converting the joined 64-bit
        integer would leave the rounding to numpy's choice of instruction.
        """
        raw = self.take(2 * count).astype(np.float64)
        values: Float64Array = (raw[0::2] + raw[1::2] * 4294967296.0) / 18446744073709551616.0
        # Rounding may reach 1.0, which both libraries turn into the largest double below it.
        return np.minimum(values, np.nextafter(1.0, 0.0))

    def canonical_at(self, places: npt.NDArray[np.int64]) -> Float64Array:
        """The values that :meth:`canonical` gives at ``places``, counted from here, shape (n,).

        The values between are drawn and dropped a stretch at a time, so that a few samples of a
        run of many millions need little memory.
        """
        found = np.empty(places.size, dtype=np.float64)
        order = np.argsort(places, kind="stable")
        ranked = places[order]
        start = 0
        done = 0
        while done < places.size:
            stretch = self.canonical(min(_STRETCH, int(ranked[-1]) + 1 - start))
            end = int(np.searchsorted(ranked, start + stretch.size))
            found[order[done:end]] = stretch[ranked[done:end] - start]
            start += stretch.size
            done = end
        return found
