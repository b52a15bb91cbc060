"""The query sample library: which samples lie in memory, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.datasets import Dataset
from runner.errors import DatasetError

Scratch = dict[str, NDArray[Any]]
"""Memory for gathered batches by input name; each thread has its own."""


class Library:
    """Loaded samples as one array per input, in the order in which LoadGen asked for them.

    LoadGen issues loaded samples in loading order again and again in Offline, so a batch is
    usually a slice and costs no copy.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._arrays: dict[str, NDArray[Any]] = {}
        self._scratch: Scratch = {}
        # Sample index to row; an array, because a whole Offline query is looked up at once.
        self._rows: NDArray[np.int64] = np.full(len(dataset), -1, np.int64)
        # Sample index to a ready feed of one: nothing is built inside a SingleStream query.
        self.single: dict[int, Mapping[str, NDArray[Any]]] = {}

    def load(self, indices: Sequence[int]) -> None:
        """Load these samples in place of those loaded before.

        Raises:
            DatasetError: the data set gave another number of rows.
        """
        arrays = self._dataset.load(indices)
        self._rows[:] = -1
        self._arrays, self._scratch = {}, {}
        for name, array in arrays.items():
            if len(array) != len(indices):
                raise DatasetError(
                    f"found {len(array)} rows of {name!r} for {len(indices)} samples; the data set "
                    "must give one for each."
                )
            self._arrays[name] = np.ascontiguousarray(array)
        self._rows[np.asarray(indices, np.int64)] = np.arange(len(indices))
        self.single = {
            index: {name: array[row : row + 1] for name, array in self._arrays.items()}
            for row, index in enumerate(indices)
        }

    def unload(self, indices: Sequence[int]) -> None:
        """Forget everything: LoadGen unloads exactly what it loaded."""
        self._dataset.unload(indices)
        self._rows[:] = -1
        self._arrays = {}
        self.single = {}

    def batches(self, indices: Sequence[int], size: int) -> Iterator[Mapping[str, NDArray[Any]]]:
        """These samples as model inputs, `size` at a time; views where they are neighbours.

        A batch is good until the next one is asked for.
        """
        batches = self.split(indices, size)
        for number in range(len(batches)):
            yield batches.feed(number, self._scratch)

    def feed(self, indices: Sequence[int], scratch: Scratch) -> Mapping[str, NDArray[Any]]:
        """These samples as one batch, copied: for queries that come in no order."""
        return _gather(self._arrays, self._rows[np.asarray(indices, np.int64)], scratch)

    def split(self, indices: Sequence[int], size: int) -> Batches:
        """These samples in batches of `size`, for several threads to take from."""
        return Batches(self._arrays, self._rows[np.asarray(indices, np.int64)], size)


class Batches:
    """The samples of one query, `size` at a time.

    Everything that does not depend on a batch is found once: an Offline query has thousands.
    """

    def __init__(
        self, arrays: Mapping[str, NDArray[Any]], rows: NDArray[np.int64], size: int
    ) -> None:
        self._arrays = arrays
        self._rows = rows
        self._size = size
        count = len(rows)
        starts = np.arange(0, count, size)
        # Where neighbours end; a batch with no seam inside is a slice of what was loaded.
        seams = np.append(np.flatnonzero(np.diff(rows) != 1) + 1, count)
        following = seams[np.searchsorted(seams, starts, side="right")]
        self._sliced: list[bool] = (following >= np.minimum(starts + size, count)).tolist()
        self._first: list[int] = rows[starts].tolist()

    def __len__(self) -> int:
        return len(self._first)

    def feed(self, number: int, scratch: Scratch) -> Mapping[str, NDArray[Any]]:
        """Batch `number`, good until `scratch` is used for the next one."""
        size = self._size
        start = number * size
        stop = min(start + size, len(self._rows))
        if self._sliced[number]:
            first = self._first[number]
            last = first + stop - start
            return {name: array[first:last] for name, array in self._arrays.items()}
        return _gather(self._arrays, self._rows[start:stop], scratch)


def _gather(
    arrays: Mapping[str, NDArray[Any]], rows: NDArray[np.int64], scratch: Scratch
) -> Mapping[str, NDArray[Any]]:
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
