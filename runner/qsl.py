"""The query sample library: which samples lie in memory, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        self._arrays = {}
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

    def rows(self, indices: Sequence[int]) -> NDArray[np.int64]:
        """Where these samples lie."""
        return self._rows[np.asarray(indices, np.int64)]

    def feed(self, rows: NDArray[np.int64]) -> Mapping[str, NDArray[Any]]:
        """The samples of `rows` as model inputs; a view where they are neighbours."""
        first, count = int(rows[0]), len(rows)
        if int(rows[-1]) - first == count - 1 and bool((np.diff(rows) == 1).all()):
            return {name: array[first : first + count] for name, array in self._arrays.items()}
        return {name: array[rows] for name, array in self._arrays.items()}
