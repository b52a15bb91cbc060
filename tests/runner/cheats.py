"""Backends that cheat, each in a way that a compliance test is there to find."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from runner.backends.dummy import Dummy

if TYPE_CHECKING:
    from runner.benchmarks.base import Benchmark
    from runner.datasets import Dataset

WORK_S = 400e-6


def work(seconds: float) -> None:
    """Keep the processor busy, as an inference does; sleeping would be too coarse."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Honest(Dummy):
    """Right answers, each at its price."""

    def infer(
        self, feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> Sequence[NDArray[Any]]:
        work(WORK_S * len(indices))
        return super().infer(feed, indices)


class Caching(Honest):
    """Remembers the latest answers by sample index; only a sample that comes again is quick."""

    def __init__(self, keep: int = 4) -> None:
        super().__init__()
        self._keep = keep
        self._known: dict[int, None] = {}

    def infer(
        self, feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> Sequence[NDArray[Any]]:
        for index in dict.fromkeys(indices):
            if index not in self._known:
                work(WORK_S)
                self._known[index] = None
                if len(self._known) > self._keep:
                    self._known.pop(next(iter(self._known)))
        return Dummy.infer(self, feed, indices)


class Lazy(Honest):
    """Answers by the label in an accuracy run, anything in a performance run.

    It sees which it is from the rate of repetition: an accuracy run never asks a sample twice.
    """

    def load(self, benchmark: Benchmark, model: Path | None, dataset: Dataset) -> None:
        super().load(benchmark, model, dataset)
        self._seen: set[int] = set()

    def infer(
        self, feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> Sequence[NDArray[Any]]:
        outputs = super().infer(feed, indices)
        again = bool(self._seen & set(indices))
        self._seen.update(indices)
        if not again or len(self._seen) < 60:
            return outputs
        return [np.roll(outputs[0], 1, axis=1)]


class Sleeps(Dummy):
    """Right answers, each inference as long as it was told; costs no processor time."""

    def __init__(self, seconds: float = 0.002) -> None:
        super().__init__()
        self._seconds = seconds

    def infer(
        self, feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> Sequence[NDArray[Any]]:
        time.sleep(self._seconds)
        return super().infer(feed, indices)
