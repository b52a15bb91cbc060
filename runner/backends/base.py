"""What executes a model: three methods, and a fourth that a backend may have.

`bind(feed)` gives the same samples in the form that `infer` takes fastest; it is called while
LoadGen loads samples, for feeds that will come again and again, by a SUT that infers in one thread
alone.  It may do what a system does with samples that lie in its memory, and nothing that belongs
to an inference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from runner.benchmarks.base import Benchmark
    from runner.datasets import Dataset


class Backend(Protocol):
    """A model made ready to run.

    `framework` says what executes, with versions and settings, for the system description; it is
    read after `load`.  Where a backend of your own has none, it is the name it was asked for by.
    """

    framework: str

    def load(self, benchmark: Benchmark, model: Path | None, dataset: Dataset) -> None:
        """Read the model and check its inputs and outputs against the benchmark's.

        Raises:
            BackendError: no such file, another signature, or the device asked for is not usable.
        """
        ...

    def infer(
        self, feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> Sequence[NDArray[Any]]:
        """Run one batch.

        Args:
            feed: input name to array, one row per sample.
            indices: the samples' places in the data set, for backends that look answers up and
                for messages; a model must not use them.

        Returns:
            The outputs in the order of `benchmark.outputs`, one row per sample.  Any exception
            ends the run as failed.
        """
        ...

    def close(self) -> None:
        """Release the model and its device memory."""
        ...
