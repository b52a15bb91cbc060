"""The 32-bit Mersenne Twister as C++ seeds it, and the reals drawn from it.

LoadGen seeds a ``std::mt19937`` for every random choice it makes. The generator itself is fixed
by the C++ standard (clause rand.eng.mers), so its outputs are the same on every platform; only
the distributions on top of it differ between standard libraries (see :mod:`.shuffle`).
"""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

UInt64Array = npt.NDArray[np.uint64]
Float64Array = npt.NDArray[np.float64]

_STATE_WORDS = 624
_BLOCK = 1 << 12
_STRETCH = 1 << 15
_SHARED = 1 << 19
"""Outputs of a seed that are drawn once for all streams: 2 MB."""
_KEPT = 1 << 20
"""Reals of a seed that are kept: 8 MB."""


@lru_cache(maxsize=64)
def _initial_state(seed: int) -> npt.NDArray[np.uint32]:
    """The 624 state words that the standard derives from a 32-bit seed."""
    words = [seed]
    for index in range(1, _STATE_WORDS):
        previous = words[-1]
        words.append((1812433253 * (previous ^ (previous >> 30)) + index) & 0xFFFFFFFF)
    return np.array(words, dtype=np.uint32)


class _Outputs:
    """The first outputs of a seed, shared by all its streams, and the state that follows them."""

    def __init__(self, seed: int) -> None:
        self._bits = generator(seed)
        self._words: npt.NDArray[np.uint32] = np.empty(0, dtype=np.uint32)
        self._lock = Lock()

    def between(self, start: int, end: int) -> UInt64Array:
        """The outputs at these places; ``end`` is at most ``_SHARED``."""
        if end > self._words.size:
            with self._lock:
                have = self._words.size
                more = min(max(end, 2 * have, _BLOCK), _SHARED) - have
                fresh = self._bits.random_raw(more).astype(np.uint32)
                self._words = np.concatenate((self._words, fresh))
        return self._words[start:end].astype(np.uint64)

    def beyond(self) -> np.random.MT19937:
        """A generator of the outputs from ``_SHARED`` on."""
        self.between(_SHARED, _SHARED)
        return resumed(self._bits.state)


def generator(seed: int) -> np.random.MT19937:
    """numpy's generator in the state that C++ gives it for a seed, taken modulo 2**32."""
    state = {"key": _initial_state(seed & 0xFFFFFFFF).copy(), "pos": _STATE_WORDS}
    return resumed({"bit_generator": "MT19937", "state": state})


def resumed(state: Any) -> np.random.MT19937:
    """A generator that goes on from the state of another."""
    bits = np.random.MT19937(0)
    bits.state = state
    return bits


_outputs = lru_cache(maxsize=8)(_Outputs)


class Stream:
    """A ``std::mt19937`` read as a stream of 32-bit outputs, with look-ahead.

    ``seed`` may have any size; like the C++ constructor it is taken modulo 2**32, so the 64-bit
    seeds of the MLPerf rules are accepted as logged. Look-ahead is what makes rejection sampling
    vectorise: a caller peeks at many outputs, finds how many it used, and skips just those.
    ``place``, how many outputs were used, says with the seed what comes next.
    """

    __slots__ = ("_base", "_bits", "_buffer", "place", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed & 0xFFFFFFFF
        self.place = 0
        # What is beyond the shared outputs: a generator of this stream's own, and its look-ahead,
        # which begins at place `_base`.
        self._bits: np.random.MT19937 | None = None
        self._buffer: UInt64Array = np.empty(0, dtype=np.uint64)
        self._base = 0

    def peek(self, count: int) -> UInt64Array:
        """The next ``count`` outputs, shape (count,), each in [0, 2**32), without using them.

        The result may be a view of the look-ahead buffer: read it before the next call.
        """
        if self._bits is None:
            shared = _outputs(self.seed)
            if self.place + count <= _SHARED:
                return shared.between(self.place, self.place + count)
            self._base = min(self.place, _SHARED)
            self._buffer = shared.between(self._base, _SHARED)
            self._bits = shared.beyond()
        while self.place > self._base + self._buffer.size:
            self._base += self._buffer.size
            self._buffer = self._bits.random_raw(min(self.place - self._base, _STRETCH))
        at = self.place - self._base
        have = self._buffer.size - at
        if have < count:
            fresh = self._bits.random_raw(max(count - have, _BLOCK))
            self._buffer = np.concatenate((self._buffer[at:], fresh)) if have else fresh
            self._base, at = self.place, 0
        return self._buffer[at : at + count]

    def skip(self, count: int) -> None:
        """Use up ``count`` outputs."""
        self.place += count

    def give_back(self, count: int) -> None:
        """Put back the last ``count`` outputs of the latest :meth:`take`."""
        self.place -= count

    def take(self, count: int) -> UInt64Array:
        """The next ``count`` outputs, shape (count,), used up."""
        values = self.peek(count)
        self.place += count
        return values

    def canonical(self, count: int) -> Float64Array:
        """``count`` values of ``std::generate_canonical<double, 53>``, shape (count,), in [0, 1).

        Two outputs make one value, the first being the low half. libstdc++ and libc++ do the same
        arithmetic here. The halves are added as doubles, as C++ does: converting the joined 64-bit
        integer would leave the rounding to numpy's choice of instruction.
        """
        return _reals(self.take(2 * count))


def _reals(outputs: UInt64Array) -> Float64Array:
    raw = outputs.astype(np.float64)
    values: Float64Array = raw[1::2] * 4294967296.0
    values += raw[0::2]
    values /= 18446744073709551616.0
    # Rounding may reach 1.0, which both libraries turn into the largest double below it.
    return np.minimum(values, _BELOW_ONE, out=values)


_BELOW_ONE = float(np.nextafter(1.0, 0.0))


class Reals:
    """All values of :meth:`Stream.canonical` of one seed, in stretches that are drawn once.

    The first million is kept; beyond it the generator's state at the start of each stretch is, so
    that any stretch can be drawn again without those before it.
    """

    _look_at_all = False

    def __init__(self, seed: int) -> None:
        self.size = _STRETCH
        self._bits = generator(seed)
        self._stretches: list[Float64Array] = []
        self._states: list[Any] = []
        self._lock = Lock()

    def stretch(self, number: int) -> Float64Array:
        """The values from place ``number * size`` on, shape (size,). Not to be written to."""
        with self._lock:
            values = None
            while number >= len(self._states):
                self._states.append(self._bits.state)
                keep = len(self._stretches) * _STRETCH < _KEPT
                if not (keep or self._look_at_all or number < len(self._states)):
                    self._bits.random_raw(2 * _STRETCH, output=False)
                    continue
                values = self._made(_reals(self._bits.random_raw(2 * _STRETCH)))
                self._seen(values)
                if keep:
                    self._stretches.append(values)
        if number < len(self._stretches):
            return self._stretches[number]
        return values if values is not None else self._made(self._redrawn(number))

    def _redrawn(self, number: int) -> Float64Array:
        return _reals(resumed(self._states[number]).random_raw(2 * _STRETCH))

    def _made(self, reals: Float64Array) -> Float64Array:
        """What is kept of the reals."""
        return reals

    def _seen(self, values: Float64Array) -> None:
        """Called with every stretch in turn, once, where ``_look_at_all`` is set."""

    def at(self, places: npt.NDArray[np.int64]) -> Float64Array:
        """The values at ``places``, shape (n,)."""
        found = np.empty(places.size, dtype=np.float64)
        order = np.argsort(places, kind="stable")
        ranked = places[order]
        done = 0
        while done < places.size:
            number = int(ranked[done]) // _STRETCH
            end = int(np.searchsorted(ranked, (number + 1) * _STRETCH))
            values = self.stretch(number)
            found[order[done:end]] = values[ranked[done:end] - number * _STRETCH]
            done = end
        return found


class Waits(Reals):
    """``-ln(1 - u)`` of all reals ``u`` of one seed: arrivals' waiting times at a rate of 1."""

    _look_at_all = True

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.ends: list[float] = []
        """The sum of all waits up to the end of each stretch that was drawn."""

    def _made(self, reals: Float64Array) -> Float64Array:
        np.subtract(1.0, reals, out=reals)
        np.log(reals, out=reals)
        return np.negative(reals, out=reals)

    def one_minus(self, number: int) -> Float64Array:
        """1 - u, whose logarithms the waits of a stretch are."""
        return 1.0 - self._redrawn(number)

    def _seen(self, values: Float64Array) -> None:
        self.ends.append((self.ends[-1] if self.ends else 0.0) + float(values.sum()))


reals_of = lru_cache(maxsize=4)(Reals)
"""The reals of a seed (taken modulo 2**32 by the caller)."""

waits_of = lru_cache(maxsize=4)(Waits)
"""The waits of a seed (taken modulo 2**32 by the caller)."""
