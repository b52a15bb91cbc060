"""The query sample library: which samples lie in memory, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.datasets import Dataset
from runner.errors import DatasetError

Feed = Mapping[str, NDArray[Any]]
"""Input name to array, one row per sample."""

Scratch = dict[str, NDArray[Any]]
"""Memory for gathered batches by input name; each thread has its own."""


class Library:
    """Loaded samples as one array per input, in the order in which LoadGen asked for them.

    LoadGen issues loaded samples in loading order again and again in Offline, so a batch is
    usually a slice and costs no copy.

    Attributes:
        stage: a backend's way to put what is loaded into memory that its devices copy from.
        bind: a backend's way to make a feed ready once that is used again and again, with the
            memory of its outputs; set by a SUT that infers in one thread alone, before the load.
        bind_size: samples in the batches that `load` makes ready; it does where batches of that
            size divide the samples loaded, because else every batch is another one.
        single: sample index to a feed of one: nothing is built inside a SingleStream query.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self.stage: Callable[[Feed], Feed] | None = None
        self.bind: Callable[[Feed], Feed] | None = None
        self.bind_size = 0
        self._bound: dict[tuple[int, int] | None, Feed] = {}
        self._arrays: dict[str, NDArray[Any]] = {}
        self._scratch: Scratch = {}
        # Sample index to row; an array, because a whole Offline query is looked up at once.
        self._rows: NDArray[np.int64] = np.full(len(dataset), -1, np.int64)
        self.single: dict[int, Feed] = {}

    def load(self, indices: Sequence[int]) -> None:
        """Load these samples in place of those loaded before.

        Raises:
            DatasetError: the data set gave another number of rows.
        """
        arrays = self._dataset.load(indices)
        self._rows[:] = -1
        self._arrays, self._scratch, self._bound = {}, {}, {}
        for name, array in arrays.items():
            if len(array) != len(indices):
                raise DatasetError(
                    f"found {len(array)} rows of {name!r} for {len(indices)} samples; the data set "
                    "must give one for each."
                )
            self._arrays[name] = np.ascontiguousarray(array)
        if self.stage is not None:
            self._arrays = dict(self.stage(self._arrays))
        self._rows[np.asarray(indices, np.int64)] = np.arange(len(indices))
        bind, size, count = self.bind or (lambda feed: feed), self.bind_size, len(indices)
        self.single = {
            index: bind(_slice(self._arrays, row, row + 1)) for row, index in enumerate(indices)
        }
        if self.bind is not None and size > 1 and count % size == 0:
            self._bound = {
                (row, row + size): bind(_slice(self._arrays, row, row + size))
                for row in range(0, count, size)
            }

    def unload(self, indices: Sequence[int]) -> None:
        """Forget everything: LoadGen unloads exactly what it loaded."""
        self._dataset.unload(indices)
        self._rows[:] = -1
        self._arrays, self._bound = {}, {}
        self.single = {}

    def batches(self, indices: Sequence[int], size: int) -> Iterator[Feed]:
        """These samples as model inputs, `size` at a time; views where they are neighbours.

        A batch is good until the next one is asked for.
        """
        batches = self.split(indices, size)
        for number in range(len(batches)):
            ready = self._bound.get(batches.slices[number])
            yield ready or batches.feed(number, self._scratch)

    def rows(self, indices: Sequence[int]) -> NDArray[np.int64]:
        """Where these samples are in what is loaded."""
        found: NDArray[np.int64] = self._rows[np.asarray(indices, np.int64)]
        return found

    def feed(self, indices: Sequence[int], scratch: Scratch) -> Feed:
        """These samples as one batch, copied: for queries that come in no order."""
        return _gather(self._arrays, self._rows[np.asarray(indices, np.int64)], scratch)

    def split(self, indices: Sequence[int], size: int) -> Batches:
        """These samples in batches of `size`, for several threads to take from."""
        return Batches(self._arrays, self._rows[np.asarray(indices, np.int64)], size)


class Batches:
    """The samples of one query, `size` at a time.

    Everything that does not depend on a batch is found once: an Offline query has thousands.

    Attributes:
        slices: for each batch its first and last row + 1 where it is a slice of what was loaded;
            None where its rows are scattered.
    """

    def __init__(
        self, arrays: Mapping[str, NDArray[Any]], rows: NDArray[np.int64], size: int
    ) -> None:
        self._arrays = arrays
        self._rows = rows
        self._size = size
        count = len(rows)
        starts = np.arange(0, count, size)
        stops = np.minimum(starts + size, count)
        # Where neighbours end; a batch with no seam inside is a slice.
        seams = np.append(np.flatnonzero(np.diff(rows) != 1) + 1, count)
        whole = seams[np.searchsorted(seams, starts, side="right")] >= stops
        first = rows[starts]
        self.slices: list[tuple[int, int] | None] = [
            (low, high) if sliced else None
            for low, high, sliced in zip(
                first.tolist(), (first + stops - starts).tolist(), whole.tolist(), strict=True
            )
        ]

    def __len__(self) -> int:
        return len(self.slices)

    def feed(self, number: int, scratch: Scratch) -> Feed:
        """Batch `number`, good until `scratch` is used for the next one."""
        rows = self.slices[number]
        if rows is not None:
            return _slice(self._arrays, *rows)
        start = number * self._size
        return _gather(self._arrays, self._rows[start : start + self._size], scratch)


def _slice(arrays: Mapping[str, NDArray[Any]], first: int, last: int) -> Feed:
    return {name: array[first:last] for name, array in arrays.items()}


def _gather(arrays: Mapping[str, NDArray[Any]], rows: NDArray[np.int64], scratch: Scratch) -> Feed:
    """Scattered rows, copied to memory that is kept: fresh pages cost more than the copy."""
    count = len(rows)
    feed = {}
    for name, array in arrays.items():
        room = scratch.get(name)
        if room is None or len(room) < count or room.shape[1:] != array.shape[1:]:
            room = np.empty((count, *array.shape[1:]), array.dtype)
            scratch[name] = room
        # mode="clip", because numpy goes through one more buffer to be able to raise.
        feed[name] = np.take(array, rows, axis=0, out=room[:count], mode="clip")
    return feed
