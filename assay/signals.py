"""TERM and HUP end a command as Ctrl-C does: through every clean-up, with nothing left running."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_PATIENCE_S = 5.0


class Stopped(KeyboardInterrupt):
    """A signal asked the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


_held: list[int] | None = None


@contextmanager
def held() -> Iterator[None]:
    """Within it a signal that `stopping` answers waits for the end: for imports, whose native code
    (msgspec's decoders) does not survive an exception in the middle."""
    global _held
    _held = [] if _held is None else _held
    try:
        yield
    finally:
        waiting, _held = _held, None
    if waiting:
        raise Stopped(waiting[0])


@contextmanager
def stopping() -> Iterator[None]:
    """Within it the first INT, TERM or HUP raises Stopped.

    Further ones are ignored while the clean-up runs, for up to 5 s; after that they end the process
    at once. A signal that the parent process set to be ignored (nohup) stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    first: list[float] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if _held is not None and len(_held) < 1:
            _held.append(number)
            return
        if not first:
            first.append(time.monotonic())
            raise Stopped(number)
        if time.monotonic() - first[0] > _PATIENCE_S:
            _end(number)

    before = {}
    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
            before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int) -> NoReturn:
    os._exit(128 + number)
