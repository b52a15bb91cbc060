"""Ending a measuring process in which nothing moves any more."""

from __future__ import annotations

import faulthandler
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runner.errors import StalledRun

LOOK_EVERY_S = 0.25
LOADING = 10  # reading a model, building an engine or preprocessing may take so many times longer
GRACE_S = 5.0  # later than the limit, for a call that also keeps the interpreter's lock


class StallWatch:
    """Calls `fail` when `moved` keeps its value for longer than the limit.

    Only time in which this process could run counts.

    A thread of Python looks, and ends the run with the stacks of all threads.  Where the call that
    hangs holds the interpreter's lock that thread cannot run; then faulthandler, which needs no
    lock, writes the stacks to standard error and ends the process.

    Args:
        limit_s: seconds without progress, outside of loading.
        moved: any value that changes with each step of progress.
        fail: called in the watching thread with the StalledRun; must not return.
    """

    def __init__(
        self,
        limit_s: float,
        moved: Callable[[], object],
        fail: Callable[[BaseException], object],
    ) -> None:
        self.what = "loading"
        self._limit_s = limit_s
        self._longer = float(LOADING)
        self._moved = moved
        self._fail = fail
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name="stall-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()

    def enter(self, what: str, least_s: float = 0.0) -> None:
        """A new phase; `least_s` is how long a step of it may take at the least."""
        self._longer = max(1.0, least_s / self._limit_s)
        self.what = what

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Samples are read and perhaps preprocessed: slower than anything timed."""
        before = self.what, self._longer
        self.what, self._longer = "loading samples", max(self._longer, float(LOADING))
        try:
            yield
        finally:
            self.what, self._longer = before

    def _look(self) -> None:
        last: object = None
        still, before = 0.0, time.monotonic()
        while not self._stop.wait(LOOK_EVERY_S):
            now, state = time.monotonic(), (self.what, self._moved())
            # A look that comes late: this thread did not run either. A machine that was suspended, or
            # had no processor for this process, is no sign that a call hangs.
            still += min(now - before, 2 * LOOK_EVERY_S)
            before = now
            if state != last:
                last, still = state, 0.0
            limit = self._limit_s * self._longer
            faulthandler.dump_traceback_later(max(1.0, limit + GRACE_S - still), exit=True)
            if still > limit:
                self._fail(self._error(still))

    def _error(self, seconds: float) -> StalledRun:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        stacks, innermost = [], "an unknown place"
        for ident, frame in sys._current_frames().items():
            if ident == threading.get_ident():
                continue
            stack = traceback.extract_stack(frame)
            if ident == threading.main_thread().ident and stack:
                innermost = f"{stack[-1].filename}:{stack[-1].lineno} in {stack[-1].name}"
            name = names.get(ident, str(ident))
            stacks.append(f"Thread {name}:\n" + "".join(traceback.format_list(stack)))
        error = StalledRun(
            f"no progress for {seconds:,.0f} s while {self.what}; the main thread is at "
            f"{innermost}. The stacks of all threads are in traceback.txt. Raise --stall-timeout "
            "if a single step really takes that long."
        )
        error.add_note("\n".join(stacks))
        return error
