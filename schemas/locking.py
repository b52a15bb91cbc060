"""A file that one process holds at a time; the kernel releases it however that process ends."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Held(Exception):
    """Another process holds the file; its text says which and since when, if it is known."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file ``path``, which is made for it and gone afterwards. It is never waited for.

    Does nothing where the system has no such locks (Windows). Raises Held, or OSError where the file
    cannot be made.
    """
    try:
        import fcntl  # noqa: F401
    except ImportError:
        yield
        return
    signals = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    own: list[int] = []
    # A signal waits until the file has an owner who removes it. Where another thread gets it, it
    # does not wait, and whoever has the file then removes it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        _take(path, own)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield
    finally:
        try:
            _release(path, own)
        except KeyboardInterrupt:
            _release(path, own)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _release(path: Path, own: list[int]) -> None:
    import fcntl

    with contextlib.suppress(OSError):
        if not own:
            # A signal may have come right after the file was made: nobody's, if nobody holds it.
            own.append(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))
        fcntl.flock(own[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Removed while it is held: who waits for this file finds that it is gone, and makes another.
        if os.path.samestat(os.fstat(own[0]), path.stat()):
            path.unlink()
    if own:
        with contextlib.suppress(OSError):
            os.close(own.pop())


def _take(path: Path, own: list[int]) -> None:
    import fcntl

    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            own.append(descriptor)
        except BlockingIOError:
            holder = os.read(descriptor, 200).decode("utf-8", "replace").strip()
            os.close(descriptor)
            raise Held(holder or "it has just begun") from None
        except OSError:
            os.close(descriptor)
            raise
        except KeyboardInterrupt:
            # Not another process's file: this one is not removed while somebody holds it.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                own[:] = [descriptor]
            raise
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                since = time.strftime("%Y-%m-%d %H:%M:%S")
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"process {os.getpid()}, since {since}\n".encode())
                return
        os.close(own.pop())  # it was removed by the process that held it
