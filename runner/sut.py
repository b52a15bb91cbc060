"""The system under test: LoadGen's queries in, answers out, as little as possible between.

SingleStream and MultiStream are answered in the thread that issues, and so is Server where it
neither batches nor has several workers.  Offline with one worker infers there too, and hands its
answers over in a second thread; with several, each takes the next batch.  Else Server has workers
that take whatever is waiting as one batch, and may wait a little for more.
Nothing may be raised into LoadGen: that aborts the process with empty logs.  So every callback
ends in `guard`, which reports the first error and never returns.
"""

from __future__ import annotations

import ctypes
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from runner.backends.base import Backend, Binds
from runner.benchmarks.base import Benchmark
from runner.errors import InferenceError, LostQuery
from runner.qsl import Batches, Library, Scratch

Fail = Callable[[BaseException], NoReturn]
PR_SET_TIMERSLACK = 29
RECENT = 4096  # latencies of Server kept for the progress line
# Offline's second thread looks for answers so often, in seconds,
LOOK_S = (0.00002, 0.002)
BEGUN_S = 0.00001  # after a batch is handed over, the next inference has begun
WAITING = 16  # and so many batches may wait for it
Outputs = tuple[list[int], Sequence[NDArray[Any]]]


class Responses:
    """Hands answers to LoadGen; one per thread that completes.

    Response objects are made once and given new ids: a third of what making them costs.  LoadGen
    copies the data before it returns, so the buffer behind them can be used again.
    """

    def __init__(self, complete: Callable[[list[Any]], None], response: type[Any]) -> None:
        self._complete = complete
        self._response = response
        self._set_id: Callable[[Any, int], None] = response.id.__set__
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
        deque(map(self._set_id, batch, ids), maxlen=0)  # a third faster than a loop
        self._complete(batch)

    def _prepare(self, stride: int, count: int) -> None:
        self._stride = stride
        self._buffer = np.zeros(stride * count, np.uint8)
        self._bytes = self._buffer.data
        base = self._buffer.ctypes.data
        self._ready = [self._response(0, base + k * stride, stride) for k in range(count)]


class Sut:
    """Answers queries with a backend, in the thread that issues.

    Args:
        library: the loaded samples.
        batch_size: most samples in one inference.
        fail: called with the first error, in the thread where it happened; must not return.
        workers: inferences that may run at once.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        backend: Backend,
        library: Library,
        batch_size: int,
        fail: Fail,
        workers: int = 1,
    ) -> None:
        self._encode = benchmark.encode
        self._infer = backend.infer
        self._library = library
        # Bound feeds share the memory of their outputs.
        library.bind = backend.bind if workers == 1 and isinstance(backend, Binds) else None
        library.bind_size = 0
        self._batch_size = batch_size
        self._fail = fail
        self._responses = self._make_responses()
        self._counts = [0]  # one for each thread that answers

    @property
    def done(self) -> int:
        """Samples answered so far."""
        return sum(self._counts)

    @property
    def moved(self) -> object:
        """Changes with every step of progress."""
        return self.done

    @staticmethod
    def _make_responses() -> Responses:
        import mlperf_loadgen as lg

        return Responses(lg.QuerySamplesComplete, lg.QuerySampleResponse)

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
            try:
                outputs = self._infer(self._library.single[indices[0]], indices)
            except LostQuery as lost:
                raise lost.named(ids) from lost
            self._deliver(ids, self._encode(outputs, 1))
            return
        for part, outputs in self._inferred(ids, indices):
            self._deliver(part, self._encode(outputs, len(part)))

    def _inferred(self, ids: list[int], indices: list[int]) -> Iterator[Outputs]:
        """Queries and the model's outputs, a batch at a time; the next is begun when asked for."""
        step, start = self._batch_size, 0
        for feed in self._library.batches(indices, step):
            stop = start + step
            try:
                outputs = self._infer(feed, indices[start:stop])
            except LostQuery as lost:
                raise lost.named(ids[start:stop]) from lost
            yield ids[start:stop], outputs
            start = stop

    def _deliver(self, ids: list[int], payload: NDArray[Any] | list[NDArray[Any]]) -> None:
        self._responses.send(ids, payload)
        self._counts[0] += len(ids)


class OfflineSut(Sut):
    """Encodes and hands answers over in a second thread, while the next batch is being inferred.

    LoadGen takes half a microsecond and more for each, most of it under the interpreter's lock,
    which an inference does not need; and after an inference the caches of its core hold nothing
    of numpy.  The second thread looks for answers by itself: to be woken up would cost the first
    one as much as a tenth of a short inference.
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
        library.bind_size = batch_size
        self._counts = [0, 0]
        self._own = self._make_responses()
        self._waiting: deque[Outputs] = deque()
        self._closed = False
        self._given = 0.0  # when the last batch was
        self._worker = threading.Thread(target=self._work, name="offline-answers", daemon=True)
        self._worker.start()

    def close(self) -> None:
        self._closed = True
        self._worker.join()

    def _answer(self, ids: list[int], indices: list[int]) -> None:
        waiting, clock = self._waiting, time.perf_counter
        for part, outputs in self._inferred(ids, indices):
            # A backend may use the memory of its outputs again for the next batch.
            waiting.append((part, [output.copy() for output in outputs]))
            self._given = clock()
            if len(waiting) > WAITING:
                # LoadGen is the slower of the two; large answers must not pile up.
                self._complete(self._own, 1)
        self._complete(self._own, 1)

    def _complete(self, responses: Responses, counter: int) -> int:
        """Hand over the batches that wait; how many did."""
        found = 0
        while True:
            try:
                ids, outputs = self._waiting.popleft()
            except IndexError:
                return found
            found += 1
            responses.send(ids, self._encode(outputs, len(ids)))
            self._counts[counter] += len(ids)

    def _work(self) -> None:
        try:
            shortest, longest = LOOK_S
            exact_sleep()
            clock = time.perf_counter
            pause, between, before = shortest, longest, 0.0
            while not self._closed:
                time.sleep(pause)
                given = self._given
                if found := self._complete(self._responses, 0):
                    # The next batch comes as long after this one as this one after the last; then
                    # the first thread has just begun another, and is not waiting for the lock.
                    between, before = (given - before) / found, given
                    pause = min(max(shortest, given + between + BEGUN_S - clock()), longest)
                else:
                    # Where batches take long, looking often would take from their cores.
                    pause = min(2 * max(pause, shortest), longest)
        except BaseException as error:
            self._fail(error)


def exact_sleep() -> None:
    """This thread's sleeps end when they should: the kernel adds 50 us to be able to bundle them."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)


class PoolSut(Sut):
    """Offline with several workers: each infers the next batch and hands its answers over.

    For backends that let several inferences run at once (ONNX Runtime does).
    """

    def __init__(
        self,
        benchmark: Benchmark,
        backend: Backend,
        library: Library,
        batch_size: int,
        fail: Fail,
        workers: int,
    ) -> None:
        super().__init__(benchmark, backend, library, batch_size, fail, workers)
        self._queue: queue.SimpleQueue[
            tuple[list[int], list[int], Batches, Iterator[int]] | None
        ] = queue.SimpleQueue()
        self._counts = [0] * workers
        self._workers = [
            threading.Thread(target=self._work, args=(k,), name=f"offline-{k}", daemon=True)
            for k in range(workers)
        ]
        for worker in self._workers:
            worker.start()

    def issue(self, ids: list[int], indices: list[int]) -> None:
        try:
            batches = self._library.split(indices, self._batch_size)
            numbers = iter(range(len(batches)))  # taking the next one is atomic
            for _ in self._workers:
                self._queue.put((ids, indices, batches, numbers))
        except BaseException as error:
            self._fail(error)

    def close(self) -> None:
        for _ in self._workers:
            self._queue.put(None)
        for worker in self._workers:
            worker.join()

    def _work(self, own: int) -> None:
        try:
            responses, scratch, step = self._make_responses(), Scratch(), self._batch_size
            while (query := self._queue.get()) is not None:
                ids, indices, batches, numbers = query
                for number in numbers:
                    start = number * step
                    part = indices[start : start + step]
                    try:
                        outputs = self._infer(batches.feed(number, scratch), part)
                    except LostQuery as lost:
                        raise lost.named(ids[start : start + step]) from lost
                    responses.send(ids[start : start + step], self._encode(outputs, len(part)))
                    self._counts[own] += len(part)
        except BaseException as error:
            self._fail(error)


class UnbatchedServerSut(Sut):
    """Answers Server's queries in LoadGen's thread, and knows when each was due.

    Args:
        due: seconds after the first query at which each query is due; what is not known is not
            counted.
        limit_s: the latency limit, to count what was late.

    Attributes:
        recent: the latest latencies in seconds.
        late: answered queries that took longer than the limit.  LoadGen's clock begins before the
            first query comes here, so its own count is never lower.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        backend: Backend,
        library: Library,
        fail: Fail,
        due: Sequence[float] = (),
        limit_s: float = float("inf"),
    ) -> None:
        super().__init__(benchmark, backend, library, 1, fail)
        self._due = iter(due)
        self._limit = limit_s
        self._began: float | None = None
        self.late = 0
        self.recent: deque[float] = deque(maxlen=RECENT)

    def issue(self, ids: list[int], indices: list[int]) -> None:
        if self._began is None:
            self._began = time.perf_counter()
        super().issue(ids, indices)
        since = time.perf_counter() - self._began
        for due in islice(self._due, len(ids)):  # more than one where LoadGen coalesces
            latency = since - due
            self.recent.append(latency)
            if latency > self._limit:
                self.late += 1


class ServerSut(Sut):
    """Queues queries; workers answer as many at once as are waiting.

    Args:
        workers: as in `Sut`; each is a thread.
        deadline_us: how long the first query of a batch may wait for more to come; 0: not at all.
        limit_s: the latency limit, to count what was late.

    Attributes:
        issued: samples that LoadGen has issued.
        recent: the latest latencies in seconds.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        backend: Backend,
        library: Library,
        batch_size: int,
        fail: Fail,
        workers: int = 1,
        deadline_us: float = 0.0,
        limit_s: float = float("inf"),
    ) -> None:
        super().__init__(benchmark, backend, library, batch_size, fail, workers)
        self._queue: queue.SimpleQueue[tuple[list[int], list[int], float] | None]
        self._queue = queue.SimpleQueue()
        self._deadline = deadline_us * 1e-6
        self._limit = limit_s
        self._counts = [0] * workers
        self._late = [0] * workers
        self.issued = 0
        self.recent: deque[float] = deque(maxlen=RECENT)
        self._workers = [
            threading.Thread(target=self._work, args=(k,), name=f"server-{k}", daemon=True)
            for k in range(workers)
        ]
        for worker in self._workers:
            worker.start()

    def issue(self, ids: list[int], indices: list[int]) -> None:
        self._queue.put((ids, indices, time.perf_counter()))
        self.issued += len(ids)

    def close(self) -> None:
        for _ in self._workers:
            self._queue.put(None)
        for worker in self._workers:
            worker.join()

    @property
    def late(self) -> int:
        """Of those answered, how many took longer than the limit.

        Seen from here, so LoadGen's own count is never lower.
        """
        return sum(self._late)

    def _work(self, own: int) -> None:
        try:
            responses, scratch = self._make_responses(), Scratch()
            while (first := self._queue.get()) is not None:
                ids, indices, came = first
                times = [came] * len(ids)
                if len(ids) < self._batch_size:
                    ids, indices = self._collect(ids, indices, times, self._batch_size)
                self._answer_batch(own, ids, indices, responses, scratch)
                now, limit = time.perf_counter(), self._limit
                taken = [now - came for came in times]
                self.recent.extend(taken)
                if max(taken) > limit:
                    self._late[own] += sum(1 for latency in taken if latency > limit)
        except BaseException as error:
            self._fail(error)

    def _collect(
        self, ids: list[int], indices: list[int], times: list[float], room: int
    ) -> tuple[list[int], list[int]]:
        """What else is waiting, or comes before the first query's deadline."""
        waiting, until = self._queue, times[0] + self._deadline
        while len(ids) < room:
            try:
                more = waiting.get_nowait()
            except queue.Empty:
                left = until - time.perf_counter() if self._deadline else 0.0
                if left <= 0:
                    break
                try:
                    more = waiting.get(timeout=left)
                except queue.Empty:
                    break
            if more is None:
                waiting.put(None)
                break
            ids = ids + more[0]
            indices = indices + more[1]
            times.extend([more[2]] * len(more[0]))
        return ids, indices

    def _answer_batch(
        self,
        own: int,
        ids: list[int],
        indices: list[int],
        responses: Responses,
        scratch: Scratch,
    ) -> None:
        if len(ids) == 1:
            try:
                outputs = self._infer(self._library.single[indices[0]], indices)
            except LostQuery as lost:
                raise lost.named(ids) from lost
            responses.send(ids, self._encode(outputs, 1))
            self._counts[own] += 1
            return
        step = self._batch_size  # a query may hold more where LoadGen coalesces
        for start in range(0, len(ids), step):
            part = indices[start : start + step]
            try:
                outputs = self._infer(self._library.feed(part, scratch), part)
            except LostQuery as lost:
                raise lost.named(ids[start : start + step]) from lost
            responses.send(ids[start : start + step], self._encode(outputs, len(part)))
            self._counts[own] += len(part)
