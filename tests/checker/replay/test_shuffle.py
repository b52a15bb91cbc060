"""The C++ libraries' algorithms against plain loops, and against orders in published logs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from checker.replay.mt19937 import Stream
from checker.replay.shuffle import (
    Library,
    permutation,
    shuffled,
    skip_shuffle,
    uniform_integers,
    uniform_integers_at,
)


class Draws:
    """One output after the other, counted."""

    def __init__(self, seed: int) -> None:
        self.used = 0
        self._source = self._outputs(seed)

    @staticmethod
    def _outputs(seed: int) -> Iterator[int]:
        stream = Stream(seed)
        while True:
            yield from stream.take(1000).tolist()

    def __call__(self) -> int:
        self.used += 1
        return next(self._source)


def plain_uniform(draws: Draws, bound: int, library: Library) -> int:
    if library is Library.LLVM:
        if bound == 1:
            return 0
        while True:
            value = draws() & ((1 << (bound - 1).bit_length()) - 1)
            if value < bound:
                return value
    if library is Library.GNU_11:
        product = draws() * bound
        while product % 2**32 < (2**32 - bound) % bound:
            product = draws() * bound
        return product >> 32
    if library is Library.MICROSOFT:
        most = 2**32 - 1
        while bound > 1:
            value = draws()
            if value // bound < most // bound or most % bound == bound - 1:
                return value % bound
        return 0
    scaling = (2**32 - 1) // bound
    value = draws()
    while value >= bound * scaling:
        value = draws()
    return value // scaling


def plain_shuffle(items: list[int], draws: Draws, library: Library) -> None:
    size = len(items)
    if library is Library.LLVM:
        for place in range(size - 1):
            other = place + plain_uniform(draws, size - place, library)
            items[place], items[other] = items[other], items[place]
        return
    place = 1
    one_each = library in (Library.GNU_4, Library.MICROSOFT)
    if not one_each and size and (2**32 - 1) // size >= size:
        if size % 2 == 0:
            other = plain_uniform(draws, 2, library)
            items[place], items[other] = items[other], items[place]
            place += 1
        while place < size:
            both = plain_uniform(draws, (place + 1) * (place + 2), library)
            for other in divmod(both, place + 2):
                items[place], items[other] = items[other], items[place]
                place += 1
        return
    for place in range(1, size):
        other = plain_uniform(draws, place + 1, library)
        items[place], items[other] = items[other], items[place]


@pytest.mark.parametrize("library", Library)
@pytest.mark.parametrize(
    "size", [0, 1, 2, 3, 4, 5, 100, 101, 5000, 30_001, 65_535, 65_536, 120_001]
)
def test_shuffle(library: Library, size: int) -> None:
    slow = list(range(size))
    stream, draws = Stream(11), Draws(11)
    fast = permutation(size, stream, library)
    plain_shuffle(slow, draws, library)
    assert fast.tolist() == slow
    assert permutation(size, Stream(11), library).tolist() == slow
    skipped = Stream(11)
    skip_shuffle(size, skipped, library)
    following = Stream(11).take(draws.used + 1)[-1]
    # What comes next shows that exactly the right number of outputs was used up.
    assert stream.take(1)[0] == skipped.take(1)[0] == following


def test_orders_beyond_the_shared_outputs() -> None:
    stream, draws = Stream(11), Draws(11)
    for _ in range(3):
        slow = list(range(250_000))
        plain_shuffle(slow, draws, Library.GNU_11)
        assert permutation(250_000, stream, Library.GNU_11).tolist() == slow


@pytest.mark.parametrize("library", Library)
@pytest.mark.parametrize("bound", [1, 2, 3, 64, 65, 13_368, 2**31 + 1, 2**32 - 1])
def test_uniform_integers(library: Library, bound: int) -> None:
    stream, draws = Stream(12), Draws(12)
    expected = [plain_uniform(draws, bound, library) for _ in range(3000)]
    assert uniform_integers(stream, bound, 3000, library).tolist() == expected
    assert stream.take(1)[0] == Stream(12).take(draws.used + 1)[-1]
    places = np.array([2999, 0, 5, 5])
    picked = uniform_integers_at(Stream(12), bound, places, library)
    assert picked.tolist() == [expected[place] for place in places]


@pytest.mark.parametrize("bound", [0, -1, 2**32])
def test_ranges_that_one_output_cannot_give(bound: int) -> None:
    with pytest.raises(ValueError, match="cannot be drawn"):
        uniform_integers(Stream(1), bound, 1, Library.GNU_11)


@pytest.mark.parametrize(
    ("library", "seed", "total", "first"),
    [
        # The first loaded samples in the published logs of v3.0, v0.5 (three submitters).
        (
            Library.GNU_11,
            10003631887983097364,
            50000,
            [37398, 8370, 30169, 9876, 7556, 48007, 33388, 34357],
        ),
        (
            Library.GNU_7,
            3133965575612453542,
            50000,
            [32084, 48428, 11861, 17386, 952, 42450, 2067, 18477],
        ),
        (
            Library.GNU_4,
            3133965575612453542,
            50000,
            [27228, 48787, 23135, 701, 1720, 20785, 1423, 21038],
        ),
        (Library.LLVM, 0, 1000, [684, 560, 631, 195, 839, 768, 713, 366]),
    ],
)
def test_orders_in_published_logs(
    library: Library, seed: int, total: int, first: list[int]
) -> None:
    assert shuffled(range(total), seed, library)[:8] == first
