"""The generator against the C++ standard's own check value and a plain implementation."""

from __future__ import annotations

import numpy as np
import pytest

from checker.replay.mt19937 import Stream


def plain_outputs(seed: int, count: int) -> list[int]:
    """The Mersenne Twister as its authors describe it, one output after the other."""
    state = [seed & 0xFFFFFFFF]
    for index in range(1, 624):
        state.append((1812433253 * (state[-1] ^ (state[-1] >> 30)) + index) & 0xFFFFFFFF)
    outputs: list[int] = []
    while len(outputs) < count:
        for index in range(624):
            joined = (state[index] & 0x80000000) | (state[(index + 1) % 624] & 0x7FFFFFFF)
            twist = 0x9908B0DF if joined & 1 else 0
            state[index] = state[(index + 397) % 624] ^ (joined >> 1) ^ twist
        for word in state:
            word ^= word >> 11
            word ^= (word << 7) & 0x9D2C5680
            word ^= (word << 15) & 0xEFC60000
            outputs.append(word ^ (word >> 18))
    return outputs[:count]


def test_value_given_by_the_standard() -> None:
    # [rand.predef]: the 10000th output of a default-constructed std::mt19937.
    assert int(Stream(5489).take(10_000)[-1]) == 4123659995


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2085463073848966840, 16159082839903944936])
def test_outputs(seed: int) -> None:
    assert Stream(seed).take(2000).tolist() == plain_outputs(seed, 2000)


def test_look_ahead_uses_nothing_up() -> None:
    stream, same = Stream(7), Stream(7)
    assert stream.peek(5000).tolist() == same.peek(5000).tolist()
    stream.skip(3)
    same.take(3)
    assert stream.take(9000).tolist() == same.take(9000).tolist()
    stream.give_back(9)
    assert stream.take(9).tolist() == Stream(7).take(9003)[-9:].tolist()
    fresh = Stream(7)
    fresh.skip(12_345)
    assert fresh.take(1)[0] == Stream(7).take(12_346)[-1]


def test_canonical() -> None:
    low, high = plain_outputs(3, 2)
    assert Stream(3).canonical(1)[0] == (float(low) + float(high) * 2.0**32) / 2.0**64
    values = Stream(3).canonical(10_000)
    assert values.min() >= 0.0
    assert values.max() < 1.0


def test_canonical_at_places() -> None:
    values = Stream(3).canonical(50_000)
    places = np.array([49_999, 0, 17, 20_000, 17])
    assert Stream(3).canonical_at(places).tolist() == values[places].tolist()
    assert Stream(3).canonical_at(np.empty(0, dtype=np.int64)).size == 0
