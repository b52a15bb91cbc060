"""The worker processes of a check: how many start, and that none outlives its parent.

Workers hold nothing that needs cleaning up, so that they are killed without asking: by the parent
when it is interrupted, by the kernel when the parent is killed.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Collection, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from checker.lifeline import ends_with
from schemas.machine import MachineFault, exhausted

_T = TypeVar("_T")
_DESCRIPTORS_PER_WORKER = 2  # the parent's ends of two pipes
_LOOK_S = 1.0
_PATIENCE_S = 5.0
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_SPARE_DESCRIPTORS = 32  # what the queues and the reading of one result need


class _Recorder:
    """A multiprocessing context that remembers the processes it made."""

    def __init__(self, method: str) -> None:
        self._context: Any = multiprocessing.get_context(method)
        self.made: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def Process(self, *args: Any, **options: Any) -> Any:
        process = self._context.Process(*args, **options)
        self.made.append(process)
        return process


class Pool(ProcessPoolExecutor):
    """Worker processes.

    forked: they have what this process had in memory when they started, and find in `inherited` what
    `workers` was given for them.
    """

    forked = False


_inherited: Any = None


def inherited() -> Any:
    """In a forked worker: what its parent gave to `workers` for it."""
    return _inherited


@contextmanager
def workers(
    jobs: int, given: Executor | None = None, *, fresh: bool = False, inherit: Any = None
) -> Iterator[Executor | None]:
    """What carries the work: ``given``, a `Pool` of up to ``jobs`` processes, or None for this
    process alone.

    fresh: they start slower, and hold nothing of what this process has in memory. inherit: what
    forked ones are to have, which then need not be sent.
    Where the machine cannot start that many processes, fewer are started. When the block ends with
    an exception, what still runs is killed.
    """
    if given is not None:
        yield given
        return
    # fork starts at once and shares the modules; where threads already run it is not safe.
    forks = os.name == "posix" and threading.active_count() == 1 and not fresh
    method = "fork" if forks else "spawn"
    jobs = min(jobs, _affordable())
    while jobs > 1:
        try:
            pool, recorder = _start(jobs, method, inherit if method == "fork" else None)
        except (OSError, BrokenExecutor) as error:
            if isinstance(error, OSError) and not exhausted(error):
                raise
            jobs //= 2
            continue
        with _ended(pool, recorder):
            yield pool
        return
    yield None


@contextmanager
def one_worker() -> Iterator[Executor]:
    """One fresh process, which shares nothing with this one.

    Raises MachineFault when it cannot be started.
    """
    try:
        pool, recorder = _start(1, "spawn")
    except OSError as error:
        raise MachineFault(f"no process can be started: {error.strerror}") from error
    with _ended(pool, recorder):
        yield pool


def as_they_come(pool: Executor, waiting: Collection[Future[_T]]) -> Iterator[Future[_T]]:
    """Each future once, when it is done; BrokenExecutor in those of a pool whose own thread is gone,
    for which there was no memory, say: nothing would come, and nobody would be told.

    waiting: those that were yielded may be taken out of it, and their results with them.
    """
    done: SimpleQueue[Future[_T]] = SimpleQueue()
    for future in waiting:
        future.add_done_callback(done.put)
    for _ in range(len(waiting)):
        while True:
            try:
                yield done.get(timeout=_LOOK_S)
                break
            except Empty:
                manager = getattr(pool, "_executor_manager_thread", None)
                if manager is None or manager.is_alive():
                    continue
                for future in waiting:
                    if not future.done():
                        future.set_exception(BrokenExecutor("the pool's thread has ended"))


def answer(pool: Executor, future: Future[_T]) -> _T:
    """What a unit gives, or raises; see `as_they_come`."""
    (done,) = as_they_come(pool, [future])
    return done.result()


def _affordable() -> int:
    """How many workers the limit on open files allows."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        used = len(list(Path("/proc/self/fd").iterdir()))
    except (ImportError, OSError, ValueError):
        return sys.maxsize
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(1, (limit - used - _SPARE_DESCRIPTORS) // _DESCRIPTORS_PER_WORKER)


def _start(jobs: int, method: str, inherit: Any = None) -> tuple[Pool, _Recorder]:
    """A pool whose processes are all there, or an error and none of them."""
    recorder = _Recorder(method)
    context: Any = recorder
    pool = None
    with _safe_path():  # the queues, too, start an interpreter
        try:
            with _signals_wait() as mask:
                given = (os.getpid(), inherit, mask)
                pool = Pool(jobs, mp_context=context, initializer=_begin, initargs=given)
                pool.forked = method == "fork"
                started = [pool.submit(os.getpid) for _ in range(jobs)]
            for ready in started:
                answer(pool, ready)
        except BaseException as error:
            if pool is not None:
                _kill(pool, recorder)
            if isinstance(error, RuntimeError) and not isinstance(error, BrokenExecutor):
                # The pool's own thread: Python does not say why it cannot start.
                raise OSError(errno.EAGAIN, str(error)) from error
            raise
    return pool, recorder


@contextmanager
def _signals_wait() -> Iterator[set[Any] | None]:
    """Within it signals wait: what a handler raises while Python forks is lost, and a worker that has no
    handlers of its own yet would go through the parent's clean-up. Gives the mask for the workers."""
    if not hasattr(signal, "pthread_sigmask"):
        yield None
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {getattr(signal, name) for name in _SIGNALS})
        yield mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def _safe_path() -> Iterator[None]:
    """An interpreter that starts in here takes no module from the current folder, which may be the
    submission's."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


@contextmanager
def _ended(pool: ProcessPoolExecutor, recorder: _Recorder) -> Iterator[None]:
    try:
        yield
        pool.shutdown()
        _end(recorder)  # no worker is left, unless the pool's own thread ended before
    except BaseException:
        _kill(pool, recorder)
        raise


def _kill(pool: ProcessPoolExecutor, recorder: _Recorder) -> None:
    # The pool's own thread sees that its processes died and ends. Left alone, it may still be
    # closing its pipes when the interpreter ends, which then complains on standard error.
    manager = getattr(pool, "_executor_manager_thread", None)
    pool.shutdown(wait=False, cancel_futures=True)
    _end(recorder)
    if manager is not None and manager.ident is not None:
        manager.join(_PATIENCE_S)


def _end(recorder: _Recorder) -> None:
    running = [process for process in recorder.made if process.is_alive()]
    for process in running:
        process.kill()
    for process in running:
        process.join()


def _begin(parent: int, inherit: Any, mask: set[Any] | None) -> None:
    """First act of a worker: die with the parent, leave signals to it."""
    global _inherited
    _inherited = inherit
    # Ctrl-C reaches the whole group; only the parent knows what to do about it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if not ends_with(parent):
        threading.Thread(target=_watch, name="parent-watch", daemon=True).start()


def _watch() -> None:
    """Where the kernel cannot do it: wait for the parent's end."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
