"""The generator against the C++ standard's own check value and a plain implementation."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from checker.replay import mt19937
from checker.replay.mt19937 import Reals, Stream, Waits


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


def test_streams_of_one_seed_share_their_first_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mt19937, "_SHARED", 5000)
    monkeypatch.setattr(mt19937, "_outputs", lru_cache(maxsize=1)(mt19937._Outputs))
    expected = plain_outputs(8, 14_000)
    one, other, third = Stream(8), Stream(8), Stream(8)
    assert one.take(4990).tolist() == expected[:4990]
    assert one.peek(20).tolist() == expected[4990:5010]
    assert one.take(20).tolist() == expected[4990:5010]
    one.give_back(5)
    assert one.take(8000).tolist() == expected[5005:13_005]
    other.skip(12_000)
    assert other.take(3).tolist() == expected[12_000:12_003]
    assert third.take(6000).tolist() == expected[:6000]


def test_reals_of_a_seed_are_drawn_once_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mt19937, "_STRETCH", 1000)
    monkeypatch.setattr(mt19937, "_KEPT", 2000)
    values = Stream(3).canonical(5000)
    places = np.array([4999, 0, 17, 2500, 17])
    reals, waits = Reals(3), Waits(3)
    for _ in range(2):
        assert reals.at(places).tolist() == values[places].tolist()
    assert reals.at(np.empty(0, dtype=np.int64)).size == 0
    assert waits.stretch(4).tolist() == (-np.log(1.0 - values[4000:])).tolist()
    assert waits.stretch(2).tolist() == (-np.log(1.0 - values[2000:3000])).tolist()
    assert waits.one_minus(1).tolist() == (1.0 - values[1000:2000]).tolist()
    assert np.allclose(waits.ends, -np.log(1.0 - values).cumsum()[999::1000])
