"""Data sets: what a benchmark's samples are and how they come into memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Dataset(Protocol):
    """Samples 0..len-1, loaded and preprocessed on demand.

    `load` happens outside the timed part; what it returns is what the model is fed.
    """

    def __len__(self) -> int:
        """Samples in the whole set: what an accuracy run covers."""
        ...

    def load(self, indices: Sequence[int]) -> Mapping[str, NDArray[Any]]:
        """Model inputs by name, each with one row per index, in the order of `indices`.

        Raises:
            DatasetError: a sample is absent or unreadable.
        """
        ...

    def unload(self, indices: Sequence[int]) -> None:
        """Release what `load` keeps for these samples, if anything."""
        ...
