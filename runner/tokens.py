"""The system under test of a language model: answers stream in, LoadGen hears of each first token.

All answers come through one event loop, in a thread of its own.  LoadGen's thread hands queries
over and returns at once; LoadGen is told from the loop: the first token of an answer when it
comes (FirstTokenComplete), and the whole answer with the number of its tokens at its end
(QuerySamplesComplete).  LoadGen counts both times from when the query was scheduled.

As in `runner.sut`, nothing may be raised into LoadGen: the first error ends the run.
"""

from __future__ import annotations

import array
import asyncio
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from runner.backends.base import Answer, StreamingBackend
from runner.errors import InferenceError, LostQuery
from runner.settings import WarmUp
from runner.sut import RECENT, Fail

SERVER_AT_ONCE = 32  # answers in work in Server's warm-up
SWITCH_S = 0.0002
LAG_EVERY_S = 0.05
LATE_LOOP_S = 0.010
"""An event loop later than this at its 99th percentile adds to the times it measures."""
T = TypeVar("T")


class Loop:
    """An event loop in a thread of its own; uvloop's where it is installed.

    Attributes:
        lags: by how many seconds the loop was late, looked at every `LAG_EVERY_S`.
    """

    def __init__(self) -> None:
        self.loop = new_loop()
        self.lags: deque[float] = deque(maxlen=100_000)
        self._thread = threading.Thread(target=self._run, name="event-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there, and wait for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    async def watch(self) -> None:
        """Note how late the loop is, until cancelled."""
        while True:
            due = self.loop.time() + LAG_EVERY_S
            await asyncio.sleep(LAG_EVERY_S)
            self.lags.append(max(0.0, self.loop.time() - due))

    def close(self) -> None:
        """End it; whatever still runs in it is dropped."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's event loop where it is installed: its timers and its callbacks are quicker."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class Requests:
    """The query sample library: what LoadGen has loaded, as requests ready to be sent.

    The names are those of `runner.qsl.Library`.
    """

    def __init__(self, backend: StreamingBackend) -> None:
        self._backend = backend
        self.ready: dict[int, Any] = {}
        self.stage = None  # a way to put arrays into a device's memory: there are none

    def load(self, indices: Sequence[int]) -> None:
        """Prepare these samples in place of those prepared before."""
        self.ready = {index: self._backend.request(index) for index in indices}

    def unload(self, indices: Sequence[int]) -> None:
        """Forget everything."""
        self.ready = {}


class TokenSut:
    """Answers queries with a streaming backend.

    Args:
        at_once: answers in work at most; more queries wait here, and their times count.
        fail: called with the first error; must not return.
        limit_s: the limit on the time to first token, to count what was late.
        accuracy: whether this is an accuracy run.
        offline: whether queries are meant to wait.

    Attributes:
        done: answers that ended; `firsts`: answers that began; `issued`: queries from LoadGen.
        late: first tokens that came after the limit, as seen from here.
        recent: the latest times to first token in seconds.
        tokens: of all answers that ended.
        held: queries that had to wait for another answer to end, because `at_once` were in work.
    """

    def __init__(
        self,
        backend: StreamingBackend,
        requests: Requests,
        at_once: int,
        fail: Fail,
        *,
        limit_s: float = float("inf"),
        accuracy: bool = False,
        offline: bool = False,
    ) -> None:
        import mlperf_loadgen as lg

        self._first = lg.FirstTokenComplete
        self._complete = lg.QuerySamplesComplete
        self._response = lg.QuerySampleResponse
        self._backend, self._requests, self._fail = backend, requests, fail
        self._at_once, self._limit, self._offline = at_once, limit_s, offline
        self._waiting: deque[tuple[int, int, float]] = deque()
        self._flying = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.done = self.firsts = self.issued = self.late = self.tokens = self.held = 0
        self.recent: deque[float] = deque(maxlen=RECENT)
        # LoadGen's thread must not wait 5 ms for the interpreter while answers are being read.
        sys.setswitchinterval(SWITCH_S)
        self._loop = Loop()
        self._call_soon = self._loop.loop.call_soon_threadsafe
        self._loop.call(backend.open(accuracy=accuracy))
        self._watching = asyncio.run_coroutine_threadsafe(self._loop.watch(), self._loop.loop)

    @property
    def moved(self) -> object:
        """Changes with every step of progress; `done` alone is still while long answers come."""
        return self.done, self.firsts

    def issue(self, ids: list[int], indices: list[int]) -> None:
        """One query of LoadGen; called in its thread."""
        try:
            self.issued += len(ids)
            self._call_soon(self._take, ids, indices, time.perf_counter())
        except BaseException as error:
            self._fail(error)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """No more queries come."""
        self._watching.cancel()
        try:
            self._loop.call(self._backend.shut())
        finally:
            self._loop.close()

    def _take(self, ids: list[int], indices: list[int], came: float) -> None:
        for number, index in zip(ids, indices, strict=True):
            if self._flying < self._at_once:
                self._start(number, index, came)
            else:
                self.held += 1
                self._waiting.append((number, index, came))

    def _start(self, number: int, index: int, came: float) -> None:
        self._flying += 1
        task = self._loop.loop.create_task(self._answer(number, index, came))
        self._tasks.add(task)  # the loop itself keeps none alive
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, number: int, index: int, came: float) -> None:
        try:
            began = False

            def first(tokens: Sequence[int]) -> None:
                nonlocal began
                began = True
                if tokens:
                    data = array.array("i", tokens)
                    place, count = data.buffer_info()
                    self._first([self._response(number, place, count * data.itemsize)])
                else:
                    self._first([self._response(number, 0, 0)])
                taken = time.perf_counter() - came
                self.firsts += 1
                self.recent.append(taken)
                self.late += taken > self._limit

            answer = await self._backend.generate(self._requests.ready[index], index, first)
            if not began:
                raise InferenceError("the answer ended without a first token.")
            self._finish(number, answer)
        except LostQuery as lost:
            self._fail(lost.named([number]))
        except InferenceError as error:
            self._fail(LostQuery.of(str(error), [index]).named([number]))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._fail(error)
        self._flying -= 1
        if self._waiting and self._flying < self._at_once:
            self._start(*self._waiting.popleft())

    def _finish(self, number: int, answer: Answer) -> None:
        data = array.array("i", answer.tokens)
        place, count = data.buffer_info()
        self._complete([self._response(number, place, count * data.itemsize, count)])
        self.done += 1
        self.tokens += count

    # --- before the run, and after it ---

    def warm_up(
        self, indices: Sequence[int], at_once: int, seconds: float, times: list[float]
    ) -> list[float]:
        """Answer loaded samples for about `seconds`, `at_once` of them at a time; LoadGen hears of none.

        Fills `times` with the seconds of each round; returns them.
        """

        async def one(index: int) -> None:
            request = self._requests.ready[index]
            await self._backend.generate(request, index, _nobody)

        async def rounds() -> None:
            end, turn = time.perf_counter() + seconds, 0
            while not times or time.perf_counter() < end:
                chosen = [indices[(turn + k) % len(indices)] for k in range(at_once)]
                turn += at_once
                start = time.perf_counter()
                await asyncio.gather(*map(one, chosen))
                times.append(time.perf_counter() - start)

        self._loop.call(rounds())
        return times

    @property
    def warnings(self) -> list[str]:
        """What should be known about how the times were taken."""
        found = []
        lags = sorted(self._loop.lags)
        late = lags[min(len(lags) - 1, len(lags) * 99 // 100)] if lags else 0.0
        if late > LATE_LOOP_S and not self._offline:
            found.append(
                f"the event loop that receives answers was late by up to {late * 1000:.0f} ms (99th "
                "percentile): it adds to the times to first token. Run LoadGen on cores of its own"
            )
        if self.held and not self._offline:
            found.append(
                f"{self.held:,} of {self.issued:,} queries waited until fewer than {self._at_once:,} "
                "answers were in work (--workers), and their times count; a server that makes its own "
                "batches should get them all"
            )
        return found


def warm_up(
    sut: TokenSut,
    scenario: str,
    indices: Sequence[int],
    at_once: int,
    seconds: float,
    times: list[float],
) -> WarmUp:
    """What the system does, for the hints that LoadGen needs (see `runner.settings.calibrate`).

    For Server the time of one answer is that of a round divided by its answers: a server of
    language models carries many at once.
    """
    # Offline is answered with all of them in work; Server hardly ever is.
    every = {"SingleStream": 1, "Offline": at_once}.get(scenario, min(at_once, SERVER_AT_ONCE))
    sut.warm_up(indices, every, seconds, times)
    settled = sorted(times[len(times) // 4 :])
    best, typical = settled[len(settled) // 10], statistics.median(settled)
    if scenario == "Offline":
        return WarmUp(batch=every, best_s=best, typical_s=typical)
    return WarmUp(batch=1, best_s=best / every, typical_s=typical / every)


def _nobody(tokens: Sequence[int]) -> None:
    """No one waits for the first token of a warm-up."""
