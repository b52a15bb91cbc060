"""The system under test: LoadGen's queries in, answers out, as little as possible between.

SingleStream and MultiStream are answered in the thread that issues.  Offline infers there too, and
hands its answers over in a second thread.  Server has a worker that takes whatever is waiting as
one batch.  Nothing may be raised into LoadGen: that aborts the
process with empty logs.  So every callback ends in `guard`, which reports the first error and
never returns.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from runner.backends.base import Backend
from runner.benchmarks.base import Benchmark
from runner.errors import InferenceError
from runner.qsl import Library

Fail = Callable[[BaseException], NoReturn]


class Responses:
    """Hands answers to LoadGen; one per thread that completes.

    Response objects are made once and given new ids: a third of what making them costs.  LoadGen
    copies the data before it returns, so the buffer behind them can be used again.
    """

    def __init__(self, complete: Callable[[list[Any]], None], response: Callable[..., Any]) -> None:
        self._complete = complete
        self._response = response
        self._stride = 0
        self._buffer: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._bytes = self._buffer.data
        self._ready: list[Any] = []

    def send(self, ids: Sequence[int], payload: NDArray[Any] | list[NDArray[Any]]) -> None:
        """Complete these queries.

        Raises:
            InferenceError: not one answer per query.
        """
        count = len(ids)
        if len(payload) != count:
            raise InferenceError(f"found {len(payload)} answers for {count} samples.")
        if isinstance(payload, list):
            kept = [np.ascontiguousarray(part) for part in payload]
            self._complete(
                [
                    self._response(i, part.ctypes.data, part.nbytes)
                    for i, part in zip(ids, kept, strict=True)
                ]
            )
            return
        stride = payload.nbytes // count
        if stride != self._stride or count > len(self._ready):
            self._prepare(stride, max(count, len(self._ready)))
        self._bytes[: payload.nbytes] = payload.tobytes()
        if count == 1:
            first = self._ready[0]
            first.id = ids[0]
            self._complete([first])
            return
        batch = self._ready if count == len(self._ready) else self._ready[:count]
        for ready, i in zip(batch, ids, strict=True):
            ready.id = i
        self._complete(batch)

    def _prepare(self, stride: int, count: int) -> None:
        self._stride = stride
        self._buffer = np.zeros(stride * count, np.uint8)
        self._bytes = self._buffer.data
        base = self._buffer.ctypes.data
        self._ready = [self._response(0, base + k * stride, stride) for k in range(count)]


class Sut:
    """Answers queries with a backend.

    Args:
        library: the loaded samples.
        batch_size: most samples in one inference.
        fail: called with the first error, in the thread where it happened; must not return.

    Attributes:
        done: samples answered so far.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        backend: Backend,
        library: Library,
        batch_size: int,
        fail: Fail,
    ) -> None:
        import mlperf_loadgen as lg

        self._encode = benchmark.encode
        self._infer = backend.infer
        self._library = library
        self._batch_size = batch_size
        self._fail = fail
        self._responses = Responses(lg.QuerySamplesComplete, lg.QuerySampleResponse)
        self.done = 0

    def issue(self, ids: list[int], indices: list[int]) -> None:
        """One query of LoadGen; called in its thread."""
        try:
            self._answer(ids, indices)
        except BaseException as error:
            self._fail(error)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """No more queries come."""

    def _answer(self, ids: list[int], indices: list[int]) -> None:
        count = len(ids)
        if count == 1:  # all of SingleStream: no detour
            outputs = self._infer(self._library.single[indices[0]], indices)
            self._deliver(ids, self._encode(outputs, 1))
            return
        step, start = self._batch_size, 0
        for feed in self._library.batches(indices, step):
            stop = start + step
            part = indices[start:stop]
            outputs = self._infer(feed, part)
            self._deliver(ids[start:stop], self._encode(outputs, len(part)))
            start = stop

    def _deliver(self, ids: list[int], payload: NDArray[Any] | list[NDArray[Any]]) -> None:
        self._responses.send(ids, payload)
        self.done += len(ids)


class OfflineSut(Sut):
    """Hands answers over in a second thread, while the next batch is being inferred.

    LoadGen takes half a microsecond for each; a backend lets other threads run meanwhile.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        backend: Backend,
        library: Library,
        batch_size: int,
        fail: Fail,
    ) -> None:
        super().__init__(benchmark, backend, library, batch_size, fail)
        # Bounded: large answers must not pile up if inference is faster than LoadGen.
        self._queue: queue.Queue[tuple[list[int], NDArray[Any] | list[NDArray[Any]]] | None]
        self._queue = queue.Queue(maxsize=4)
        self._worker = threading.Thread(target=self._work, name="offline-answers", daemon=True)
        self._worker.start()

    def close(self) -> None:
        self._queue.put(None)
        self._worker.join()

    def _deliver(self, ids: list[int], payload: NDArray[Any] | list[NDArray[Any]]) -> None:
        self._queue.put((ids, payload))

    def _work(self) -> None:
        try:
            while (answers := self._queue.get()) is not None:
                super()._deliver(*answers)
        except BaseException as error:
            self._fail(error)


class ServerSut(Sut):
    """Queues queries and answers them in a worker, as many at once as are waiting."""

    def __init__(
        self,
        benchmark: Benchmark,
        backend: Backend,
        library: Library,
        batch_size: int,
        fail: Fail,
    ) -> None:
        super().__init__(benchmark, backend, library, batch_size, fail)
        self._queue: queue.SimpleQueue[tuple[list[int], list[int]] | None] = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._work, name="server-worker", daemon=True)
        self._worker.start()

    def issue(self, ids: list[int], indices: list[int]) -> None:
        self._queue.put((ids, indices))

    def close(self) -> None:
        self._queue.put(None)
        self._worker.join()

    def _work(self) -> None:
        try:
            while (first := self._queue.get()) is not None:
                ids, indices = first
                while len(ids) < self._batch_size:
                    try:
                        more = self._queue.get_nowait()
                    except queue.Empty:
                        break
                    if more is None:
                        self._queue.put(None)
                        break
                    ids = ids + more[0]
                    indices = indices + more[1]
                self._answer(ids, indices)
        except BaseException as error:
            self._fail(error)


def make_sut(
    scenario: str,
    benchmark: Benchmark,
    backend: Backend,
    library: Library,
    batch_size: int,
    fail: Fail,
) -> Sut:
    """The SUT that suits the scenario."""
    kinds: dict[str, type[Sut]] = {"Server": ServerSut, "Offline": OfflineSut}
    return kinds.get(scenario, Sut)(benchmark, backend, library, batch_size, fail)
