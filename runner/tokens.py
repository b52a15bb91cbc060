"""The system under test of a language model: answers stream in, LoadGen hears of each first token.

All answers come through one event loop, in a thread of its own.  LoadGen's thread sends a query itself
where the backend can, or hands it over, and returns at once; LoadGen is told from the loop: the first
token of an answer when it comes (FirstTokenComplete), and the whole answer with the number of its
tokens at its end (QuerySamplesComplete).  LoadGen counts both times from when the query was scheduled.

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
        # A place for each answer in work: two threads take them, and taking one is atomic.
        self._places: list[None] = [None] * at_once
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
            came = time.perf_counter()
            self.issued += len(ids)
            if len(ids) > 1 or not self._ask_here(ids[0], indices[0], came):
                self._call_soon(self._take, ids, indices, came)
        except BaseException as error:
            self._fail(error)

    def _ask_here(self, number: int, index: int, came: float) -> bool:
        """Send it from this thread; False where it has to wait, or needs a connection."""
        if self._waiting or not self._take_place():
            return False
        query = _Query(self, number, index, came)
        if self._backend.ask_here(self._requests.ready[index], index, query):
            return True
        self._places.append(None)
        return False

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """No more queries come."""
        self._watching.cancel()
        try:
            self._loop.call(self._backend.shut())
        finally:
            self._loop.close()

    def _take_place(self) -> bool:
        try:
            self._places.pop()
        except IndexError:
            return False
        return True

    def _take(self, ids: list[int], indices: list[int], came: float) -> None:
        self._waiting.extend(
            (number, index, came) for number, index in zip(ids, indices, strict=True)
        )
        self._begin()
        self.held += min(len(ids), len(self._waiting))

    def _begin(self) -> None:
        """Ask what waits while there are places."""
        try:
            while self._waiting and self._take_place():
                number, index, came = self._waiting.popleft()
                query = _Query(self, number, index, came)
                self._backend.ask(self._requests.ready[index], index, query)
        except BaseException as error:
            self._fail(error)

    # --- before the run, and after it ---

    def warm_up(
        self, indices: Sequence[int], at_once: int, seconds: float, times: list[float]
    ) -> list[float]:
        """Answer loaded samples for about `seconds`, `at_once` of them at a time; LoadGen hears of none.

        Fills `times` with the seconds of each round; returns them.
        """

        async def one(index: int) -> None:
            heard = _Heard()
            self._backend.ask(self._requests.ready[index], index, heard)
            await heard.ended

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
                "percentile): it adds to the times to first token. Give LoadGen cores of its own: --cpus"
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


class _Query:
    """Who tells LoadGen of one answer."""

    __slots__ = ("_began", "_came", "_index", "_number", "_sut")

    def __init__(self, sut: TokenSut, number: int, index: int, came: float) -> None:
        self._sut, self._number, self._index, self._came = sut, number, index, came
        self._began = False

    def first(self, tokens: Sequence[int]) -> None:
        sut, self._began = self._sut, True
        if tokens:
            data = array.array("i", tokens)
            place, count = data.buffer_info()
            sut._first([sut._response(self._number, place, count * data.itemsize)])
        else:
            sut._first([sut._response(self._number, 0, 0)])
        taken = time.perf_counter() - self._came
        sut.firsts += 1
        sut.recent.append(taken)
        sut.late += taken > sut._limit

    def last(self, answer: Answer) -> None:
        sut = self._sut
        try:
            if not self._began:
                raise LostQuery.of("the answer ended without a first token.", [self._index])
            data = array.array("i", answer.tokens)
            place, count = data.buffer_info()
            sut.done += 1
            sut.tokens += count
            sut._places.append(None)
            # In SingleStream the next query is issued while this returns: nothing is left to do then.
            sut._complete([sut._response(self._number, place, count * data.itemsize, count)])
        except BaseException as error:
            self.lost(error)
        if sut._waiting:
            sut._begin()

    def lost(self, error: BaseException) -> None:
        if isinstance(error, LostQuery):
            error = error.named([self._number])
        elif isinstance(error, InferenceError):
            error = LostQuery.of(str(error), [self._index]).named([self._number])
        self._sut._fail(error)


class _Heard:
    """Who waits for an answer of a warm-up, in the event loop."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def first(self, tokens: Sequence[int]) -> None:
        """LoadGen hears of none."""

    def last(self, answer: Answer) -> None:
        self.ended.set_result(None)

    def lost(self, error: BaseException) -> None:
        self.ended.set_exception(error)
