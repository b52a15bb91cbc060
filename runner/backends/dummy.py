"""A backend without a model: the whole pipeline, at the price of a table look-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from runner.errors import BackendError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from runner.benchmarks.base import Benchmark
    from runner.datasets import Dataset


class Dummy:
    """Answers from the ground truth, or always the same.

    Args:
        answer: "label" gives what a perfect model would give; "constant" gives the right answer
            of sample 0 to everything, so that an accuracy gate is missed.
    """

    answers_whole = True  # what it gives is what the benchmark's encoding takes

    def __init__(self, answer: Literal["label", "constant"] = "label") -> None:
        if answer not in ("label", "constant"):
            raise BackendError(f"found answer={answer!r}; expected 'label' or 'constant'.")
        self.framework = f"none (dummy backend, answers by {answer})"
        self._constant = answer == "constant"

    def load(self, benchmark: Benchmark, model: Path | None, dataset: Dataset) -> None:
        everything = range(1 if self._constant else len(dataset))
        if benchmark.answer is None:
            raise BackendError(
                f"benchmark {benchmark.name} has no 'answer', which the dummy backend gives."
            )
        self._answers = [benchmark.answer(dataset, [index]) for index in everything]

    def infer(
        self, feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> Sequence[NDArray[Any]]:
        if len(indices) == 1:
            return self._answers[0 if self._constant else indices[0]]
        import numpy as np

        rows = [self._answers[0 if self._constant else index] for index in indices]
        return [np.concatenate(parts) for parts in zip(*rows, strict=True)]

    def close(self) -> None:
        self._answers = []
