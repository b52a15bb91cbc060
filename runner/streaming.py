"""Offline and Server on a backend that takes batches without waiting for those before.

Such a backend has two methods besides `runner.backends.base.Backend`'s: `stage(arrays)`, called with
what LoadGen loads, gives the samples back in memory that its devices copy from; `flows()` gives one
`Flow` a device.  A flow takes rows of what was staged, so a sample is copied once, by the device.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from runner.backends.base import Backend
from runner.benchmarks.base import Benchmark
from runner.qsl import Library
from runner.sut import Fail, ServerSut, Sut

Outputs = Sequence[NDArray[Any]]


class Flow(Protocol):
    """One device.  Batches stay in order; one thread submits and one collects.

    Attributes:
        most: samples in one batch, at most.
        lanes: batches that one copy and one execution keep busy.
        depth: batches under way, at most.
    """

    @property
    def most(self) -> int: ...
    @property
    def lanes(self) -> int: ...
    @property
    def depth(self) -> int: ...
    @property
    def under_way(self) -> int: ...
    def submit(self, rows: NDArray[np.int64]) -> None:
        """Begin a batch of these staged rows; fewer than `depth` are under way."""
        ...

    def collect(self, use: Callable[[Outputs], None]) -> None:
        """Wait for the oldest batch; its outputs are good until `use` returns."""
        ...


def flows_of(backend: Backend) -> Sequence[Flow]:
    """The flows of a backend; none where it answers one call at a time."""
    make = getattr(backend, "flows", None)
    return () if make is None else make()


class StreamedOfflineSut(Sut):
    """Keeps every flow full; one thread for each, the first of which is LoadGen's own."""

    def __init__(
        self,
        benchmark: Benchmark,
        backend: Backend,
        library: Library,
        batch_size: int,
        fail: Fail,
        flows: Sequence[Flow],
    ) -> None:
        super().__init__(benchmark, backend, library, batch_size, fail)
        self._flows = flows
        self._batch_size = min(batch_size, *(flow.most for flow in flows))
        self._counts = [0] * len(flows)
        self._all = [self._responses, *(self._make_responses() for _ in flows[1:])]
        self._queue: queue.SimpleQueue[tuple[list[int], NDArray[np.int64], Iterator[int]] | None]
        self._queue = queue.SimpleQueue()
        self._workers = [
            threading.Thread(target=self._work, args=(k,), name=f"device-{k}", daemon=True)
            for k in range(1, len(flows))
        ]
        for worker in self._workers:
            worker.start()

    def close(self) -> None:
        for _ in self._workers:
            self._queue.put(None)
        for worker in self._workers:
            worker.join()

    def _answer(self, ids: list[int], indices: list[int]) -> None:
        starts = iter(range(0, len(ids), self._batch_size))  # taking the next one is atomic
        rows = self._library.rows(indices)
        for _ in self._workers:
            self._queue.put((ids, rows, starts))
        self._drive(0, ids, rows, starts)

    def _work(self, own: int) -> None:
        try:
            while (query := self._queue.get()) is not None:
                self._drive(own, *query)
        except BaseException as error:
            self._fail(error)

    def _drive(
        self, own: int, ids: list[int], rows: NDArray[np.int64], starts: Iterator[int]
    ) -> None:
        flow, step, depth = self._flows[own], self._batch_size, self._flows[own].depth
        waiting: deque[list[int]] = deque()
        for start in starts:
            if flow.under_way == depth:
                self._collect(own, waiting.popleft())
            flow.submit(rows[start : start + step])
            waiting.append(ids[start : start + step])
        while waiting:
            self._collect(own, waiting.popleft())

    def _collect(self, own: int, part: list[int]) -> None:
        def use(outputs: Outputs) -> None:
            self._all[own].send(part, self._encode(outputs, len(part)))

        self._flows[own].collect(use)
        self._counts[own] += len(part)


class StreamedServerSut(ServerSut):
    """Each device takes what waits as soon as it can begin it, and answers in a second thread.

    One batch more than the lanes is under way: so the next one is on the device when a lane is
    free, and what comes until then still joins a batch.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        backend: Backend,
        library: Library,
        batch_size: int,
        fail: Fail,
        flows: Sequence[Flow],
        deadline_us: float = 0.0,
        limit_s: float = float("inf"),
    ) -> None:
        self._flows = flows
        self._free = [threading.Semaphore(server_depth(flow)) for flow in flows]
        self._begun: list[queue.SimpleQueue[tuple[list[int], list[float], float] | None]]
        self._begun = [queue.SimpleQueue() for _ in flows]
        size = min(batch_size, *(flow.most for flow in flows))
        self._caps = [BatchCap(size, server_depth(flow), limit_s) for flow in flows]
        super().__init__(benchmark, backend, library, size, fail, len(flows), deadline_us, limit_s)
        self._answerers = [
            threading.Thread(target=self._collect_all, args=(k,), name=f"answers-{k}", daemon=True)
            for k in range(len(flows))
        ]
        for thread in self._answerers:
            thread.start()

    def close(self) -> None:
        super().close()
        for thread in self._answerers:
            thread.join()

    def _work(self, own: int) -> None:
        flow, free, begun = self._flows[own], self._free[own], self._begun[own]
        try:
            while (first := self._queue.get()) is not None:
                ids, indices, came = first
                times = [came] * len(ids)
                # Only now is there room: what has come in the meantime joins the batch.
                free.acquire()
                step = self._caps[own].size
                if len(ids) < step:
                    ids, indices = self._collect(ids, indices, times, step)
                # a query may hold more where LoadGen coalesces
                for start in range(0, len(ids), step):
                    if start:
                        free.acquire()
                    stop = start + step
                    flow.submit(self._library.rows(indices[start:stop]))
                    begun.put((ids[start:stop], times[start:stop], time.perf_counter()))
            begun.put(None)
        except BaseException as error:
            self._fail(error)

    def _collect_all(self, own: int) -> None:
        try:
            responses = self._make_responses()
            while (batch := self._begun[own].get()) is not None:
                ids, times, begun_s = batch

                def use(outputs: Outputs, ids: list[int] = ids) -> None:
                    responses.send(ids, self._encode(outputs, len(ids)))

                self._flows[own].collect(use)
                self._free[own].release()
                self._counts[own] += len(ids)
                now, limit = time.perf_counter(), self._limit
                self._caps[own].ended(len(ids), begun_s, now)
                taken = [now - came for came in times]
                self.recent.extend(taken)
                if max(taken) > limit:
                    self._late[own] += sum(1 for latency in taken if latency > limit)
        except BaseException as error:
            self._fail(error)


class BatchCap:
    """How many samples a batch of Server may hold, so that full batches keep the latency limit.

    A query waits for the batches under way and then for its own.  Where large batches are no faster
    for each sample (copies are the bottleneck, say), a burst would else fill them for good, and
    the last of `depth` full ones is late.

    Args:
        most: samples in a batch, at most.
        depth: batches under way, at most.
    """

    SHARE = 0.8  # of the limit, for the batches under way
    RECENT = 0.1  # weight of the newest batch

    def __init__(self, most: int, depth: int, limit_s: float) -> None:
        self._most, self._budget = most, self.SHARE * limit_s / depth
        self._each = 0.0
        self._ended = float("-inf")
        self.size = most

    def ended(self, count: int, begun_s: float, ended_s: float) -> None:
        """A batch of `count` samples was submitted and was answered at these times."""
        if begun_s < self._ended:  # the device was never idle since the one before ended
            each = (ended_s - self._ended) / count
            self._each = self._each + self.RECENT * (each - self._each) if self._each else each
            fit = self._budget / self._each if self._each > 0 else self._most
            self.size = max(1, int(min(self._most, fit)))
        self._ended = ended_s


def server_depth(flow: Flow) -> int:
    """Batches under way in Server: one more than the lanes."""
    return min(flow.lanes + 1, flow.depth)


def make_streamed(
    scenario: str,
    benchmark: Benchmark,
    backend: Backend,
    library: Library,
    batch_size: int,
    fail: Fail,
    *,
    workers: int,
    deadline_us: float,
    limit_s: float,
) -> Sut | None:
    """The SUT that streams; None where the backend does not, or the user wants workers."""
    if workers > 1 or not (scenario == "Offline" or (scenario == "Server" and batch_size > 1)):
        return None
    if not (flows := flows_of(backend)):
        return None
    parts = (benchmark, backend, library, batch_size, fail, flows)
    if scenario == "Server":
        return StreamedServerSut(*parts, deadline_us=deadline_us, limit_s=limit_s)
    return StreamedOfflineSut(*parts)


def time_batches(
    backend: Backend,
    library: Library,
    benchmark: Benchmark,
    batch: int,
    seconds: float,
    times: list[float],
) -> bool:
    """Fill `times` with seconds a batch while every flow is full; False if there is no flow.

    Args:
        library: holds `batch` samples, numbered from 0.
    """
    flows = flows_of(backend)
    if not flows:
        return False
    rows = library.rows(range(batch))
    parts = [rows[start : start + flows[0].most] for start in range(0, batch, flows[0].most)]

    def use(outputs: Outputs) -> None:
        benchmark.encode(outputs, len(outputs[0]))

    end = time.perf_counter() + seconds
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 100_000):
        # Long enough that filling and emptying the flows hardly counts.
        rounds = 4 * flows[0].depth
        began = time.perf_counter()
        for _ in range(rounds):
            for part in parts:
                for flow in flows:
                    if flow.under_way == flow.depth:
                        flow.collect(use)
                    flow.submit(part)
        for flow in flows:
            while flow.under_way:
                flow.collect(use)
        times.append((time.perf_counter() - began) / (rounds * len(flows)))
    return True
