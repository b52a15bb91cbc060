"""Backends and data sets that fail in one way each; loaded by name in the measuring process."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.backends.dummy import Dummy
from runner.benchmarks.base import Score
from runner.benchmarks.digits import DIGITS
from runner.datasets.digits import Digits
from tests.runner.cheats import Sleeps

GOOD_CALLS = 8  # the warm-up makes three, so the failure falls into the run


class NeverLoads(Dummy):
    """Its load does not return."""

    def load(self, *args: Any) -> None:
        time.sleep(600)


class Broken(Dummy):
    """Right for a few calls, then broken in one of several ways."""

    def __init__(self, how: str, good_calls: int = GOOD_CALLS) -> None:
        super().__init__()
        self.how = how
        self.left = good_calls

    def infer(
        self, feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> Sequence[NDArray[Any]]:
        outputs = super().infer(feed, indices)
        self.left -= 1
        if self.left >= 0:
            return outputs
        match self.how:
            case "raises":
                raise ValueError("the device is gone")
            case "system exit":
                raise SystemExit(0)
            case "nan":
                return [np.full_like(outputs[0], np.nan)]
            case "infinite":
                return [np.full_like(outputs[0], np.inf)]
            case "wrong shape":
                return [outputs[0][:, :4]]
            case "too few rows":
                return [outputs[0][:-1]]
            case "too few outputs":
                return []
            case "no array":
                return [None]  # type: ignore[list-item]
            case "crashes":
                os.kill(os.getpid(), signal.SIGSEGV)
                time.sleep(10)
            case "hangs":
                time.sleep(600)
            case "hangs with the lock":
                # Keeps the interpreter's lock: no other thread of Python can run.
                ctypes.PyDLL(None).sleep(600)
        raise AssertionError(self.how)


class HangsLater(Sleeps):
    """Hangs in the third process that loads it: after the accuracy and the performance run."""

    def __init__(self, counter: str, seconds: float) -> None:
        super().__init__(seconds)
        self._counter = Path(counter)
        self._process = 0

    def load(self, *args: Any) -> None:
        super().load(*args)
        with self._counter.open("ab") as stream:
            stream.write(b".")
        self._process = self._counter.stat().st_size

    def infer(
        self, feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> Sequence[NDArray[Any]]:
        if self._process >= 3:
            time.sleep(600)
        return super().infer(feed, indices)


class NeverCloses(Dummy):
    """Its close does not return."""

    def close(self) -> None:
        time.sleep(600)


class BrokenDigits(Digits):
    """Loads for the warm-up, then not any more."""

    loads = 0

    def load(self, indices: Sequence[int]) -> dict[str, NDArray[np.float32]]:
        self.loads += 1
        if self.loads > 1:
            raise OSError("the disk is gone")
        return super().load(indices)


class StuckDigits(Digits):
    """Its load does not return: at once, or after the warm-up's."""

    loads = 0
    good = 0

    def load(self, indices: Sequence[int]) -> dict[str, NDArray[np.float32]]:
        self.loads += 1
        if self.loads > self.good:
            time.sleep(600)
        return super().load(indices)


class LaterStuckDigits(StuckDigits):
    good = 1


def _never(log: Path, dataset: Any) -> Score:
    time.sleep(600)
    raise AssertionError(log)


def _always_busy(log: Path, dataset: Any) -> Score:
    while True:
        pass


def _dies(log: Path, dataset: Any) -> Score:
    print("out of memory", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError(log)


def _raises(log: Path, dataset: Any) -> Score:
    raise ZeroDivisionError("no samples")


NEVER_SCORED = replace(DIGITS, score=_never)
BUSY_SCORING = replace(DIGITS, score=_always_busy)
DIES_SCORING = replace(DIGITS, score=_dies)
RAISES_SCORING = replace(DIGITS, score=_raises)
STUCK = replace(DIGITS, make_dataset=StuckDigits)
LATER_STUCK = replace(DIGITS, make_dataset=LaterStuckDigits)
UNLOADABLE = replace(DIGITS, make_dataset=BrokenDigits)


def _long(outputs: Sequence[NDArray[Any]], count: int) -> list[NDArray[Any]]:
    """Answers of different sizes: the class id, then as many zeros."""
    return [np.array([best] + [0] * best, np.int32) for best in outputs[0].argmax(1).tolist()]


LONG_ANSWERS = replace(DIGITS, encode=_long, payload_bytes=24)


class Uncalibrated(Digits):
    """A data set without calibration samples."""

    calibration_inputs = None  # type: ignore[assignment]


UNCALIBRATED = replace(DIGITS, make_dataset=Uncalibrated)


class Plain:
    """As short as a backend of one's own can be: no framework, no preflight."""

    def load(self, benchmark: Any, model: Any, dataset: Any) -> None:
        self.dummy = Dummy()
        self.dummy.load(benchmark, model, dataset)

    def infer(self, feed: Any, indices: Sequence[int]) -> Sequence[NDArray[Any]]:
        return self.dummy.infer(feed, indices)

    def close(self) -> None:
        self.dummy.close()


class Half:
    """Lacks methods."""

    def load(self, *args: Any) -> None:
        pass
