"""One run at a time into one tree."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.errors import OutputError

_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Hold `<out>.lock` beside the tree; the kernel releases it however this process ends.

    Raises:
        OutputError: another run holds it, or the file cannot be made.
    """
    path = out.with_name(out.name + ".lock")
    own: list[int] = []
    # A signal waits until the file has an owner who removes it. Where another thread gets it, it
    # does not wait, and whoever has the file then removes it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _take(path, own)
        except OSError as error:
            raise OutputError(
                f"{out}: cannot be written ({error.strerror or error}); choose a folder whose parent is "
                "writable."
            ) from error
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
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            own.append(descriptor)
        except BlockingIOError:
            holder = os.read(descriptor, 200).decode("utf-8", "replace").strip()
            os.close(descriptor)
            raise OutputError(
                f"{path}: another run writes to this tree ({holder or 'it has just begun'}); wait "
                "for it, or give another --out."
            ) from None
        except OSError:
            os.close(descriptor)
            raise
        except KeyboardInterrupt:
            # Not another run's file: this one is not removed while somebody holds it.
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
        os.close(own.pop())  # it was removed by the run that held it
