"""TERM and HUP end a command as Ctrl-C does: through every clean-up, with nothing left running."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_PATIENCE_S = 5.0
_AGAIN_S = 0.01
_IMPATIENT_S = 1.0


class Stopped(KeyboardInterrupt):
    """A signal asked the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


_held: list[tuple[int, float]] | None = None
_first: list[float] = []
"""When the signal came that ends the command; empty before that."""


@contextmanager
def held() -> Iterator[None]:
    """Within it a signal that `stopping` answers waits for the end: for the making of msgspec's
    decoders, whose native code does not survive an exception in the middle. May be nested. Another
    signal a second later is somebody who will not wait."""
    global _held
    if _held is not None:
        yield
        return
    _held = []
    try:
        yield
    finally:
        waiting, _held = _held, None
    if waiting:
        _first.append(time.monotonic())
        raise Stopped(waiting[0][0])


@contextmanager
def stopping() -> Iterator[None]:
    """Within it the first INT, TERM or HUP raises Stopped.

    Further ones are ignored while the clean-up runs, for up to 5 s; after that they end the process
    at once. A signal that the parent process set to be ignored (nohup) stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    global _first
    first = _first = []
    late: list[tuple[threading.Event, int, threading.Thread]] = []

    def come_again(number: int) -> None:
        # Until it is answered: where the machine is held up, it may come while this begins.
        if not late or late[0][0].is_set():
            answered = threading.Event()
            again = threading.Thread(target=_repeat, args=(answered, number), daemon=True)
            late[:] = [(answered, number, again)]
            again.start()

    def lost(unraisable: sys.UnraisableHookArgs) -> None:
        """Where Python lets nothing be raised (in what `fork` and the collector call), Stopped ends up
        here, and nowhere else."""
        if isinstance(unraisable.exc_value, Stopped):
            first.clear()
            come_again(unraisable.exc_value.number)
        else:
            hook(unraisable)

    def stop(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if _held is not None and (not _held or now - _held[0][1] < _IMPATIENT_S):
            if not _held:
                _held.append((number, now))
            if late:
                late[0][0].set()
            return
        if not first and _importing(frame):
            # Native modules make decoders while they are imported.
            come_again(number)
            return
        if not first:
            first.append(now)
            if late:
                late[0][0].set()
            raise Stopped(number)
        if now - first[0] > _PATIENCE_S:
            _end(number)

    hook = sys.unraisablehook
    before = {}
    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
            before[number] = signal.signal(number, stop)
    try:
        sys.unraisablehook = lost
        yield
        if late and not first:
            first.append(time.monotonic())
            raise Stopped(late[0][1])
    finally:
        sys.unraisablehook = hook
        if late:
            late[0][0].set()
            if late[0][2].ident is not None:
                late[0][2].join(_PATIENCE_S)
        for number, handler in before.items():
            signal.signal(number, handler)


def _repeat(answered: threading.Event, number: int) -> None:
    process = os.getpid()
    while not answered.wait(_AGAIN_S):
        os.kill(process, number)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def leave(status: int) -> int:
    """The exit status after a signal. Where the signal left a lock of a pool of workers taken, the
    pool's thread waits for it for ever, and the interpreter for the thread: then this ends at once."""
    if any(type(thread).__name__ == _POOL for thread in threading.enumerate()):
        os._exit(status)
    return status


_POOL = "_ExecutorManagerThread"


def _end(number: int) -> NoReturn:
    os._exit(128 + number)
