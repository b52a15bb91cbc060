"""The warm-up times what the run will do: batches that go over the end of the samples too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from runner import child
from runner.benchmarks.digits import DIGITS
from runner.child import _around, _warm_up


def test_how_many_batches_go_over_the_end() -> None:
    """By going through the samples in turns until a batch begins at the first one again."""
    for held in range(1, 25):
        for batch in range(1, held + 1):
            rows = [k % held for k in range(held * batch)]
            parts = [rows[at : at + batch] for at in range(0, len(rows), batch)]
            over = sum(part[-1] < part[0] for part in parts)
            assert _around(held, batch) == pytest.approx(over / len(parts)), (held, batch)
    assert _around(8, 32) == 1.0


class Clock:
    now = 0.0


class Library:
    """Takes 4 ms for a batch that is no slice."""

    single: tuple[Any, ...] = (None,)

    def batches(self, indices: Sequence[int], size: int) -> Iterator[dict[str, Any]]:
        if list(indices) != sorted(indices):
            Clock.now += 0.004
        yield {"image": np.zeros((size, 1, 28, 28), np.float32)}

    def unload(self, indices: Sequence[int]) -> None:
        pass


class Quick:
    def infer(self, feed: dict[str, Any], indices: Sequence[int]) -> list[Any]:
        Clock.now += 0.0001
        return [np.zeros((len(indices), 10), np.float32)]


def test_their_time_counts_by_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "time", SimpleNamespace(perf_counter=lambda: Clock.now))

    def typical(around: float) -> float:
        times: list[float] = []
        found = _warm_up(Library(), Quick(), DIGITS, 8, 8, 0.05, times, True, around)
        assert len(times) >= 6 or not around  # all are counted as progress
        return float(found.typical_s)

    assert typical(0.0) == pytest.approx(0.0001)
    assert typical(0.5) == pytest.approx(0.0001 + 0.5 * 0.004)
