"""The query sample library: which samples lie in memory, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.datasets import Dataset
from runner.errors import DatasetError


class Library:
    """Loaded samples as one array per input, in the order in which LoadGen asked for them.

    LoadGen issues loaded samples in loading order again and again in Offline, so a batch is
    usually a slice and costs no copy.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._arrays: dict[str, NDArray[Any]] = {}
        self._scratch: dict[str, NDArray[Any]] = {}
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
        rows = self._rows[np.asarray(indices, np.int64)]
        count = len(rows)
        # Where neighbours end, found once: an Offline query has thousands of batches.
        seams = [*(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), count]
        seam = 0
        for number, first in enumerate(rows[::size].tolist()):
            start = number * size
            stop = min(start + size, count)
            while seams[seam] <= start:
                seam += 1
            if seams[seam] >= stop:
                last = first + stop - start
                yield {name: array[first:last] for name, array in self._arrays.items()}
            else:
                yield self._gather(rows[start:stop])

    def _gather(self, rows: NDArray[np.int64]) -> Mapping[str, NDArray[Any]]:
        """Scattered rows, copied to memory that is kept: fresh pages cost more than the copy."""
        count = len(rows)
        feed = {}
        for name, array in self._arrays.items():
            room = self._scratch.get(name)
            if room is None or len(room) < count:
                room = np.empty((count, *array.shape[1:]), array.dtype)
                self._scratch[name] = room
            # mode="clip", because numpy goes through one more buffer to be able to raise.
            feed[name] = np.take(array, rows, axis=0, out=room[:count], mode="clip")
        return feed
