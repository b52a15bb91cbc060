"""A temporary folder that neither an interruption nor the death of its process leaves behind.

`tempfile.mkdtemp` answers with the name of what it has made: a signal whose handler raises before that
answer leaves a folder that nobody knows of. Here the name comes first.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.machine import MachineFault

_VARIABLES = ("TMPDIR", "TEMP", "TMP")
_FOLDERS = ("/tmp", "/var/tmp")
_TRIES = (1, 2, 3, 4, 5)


def temporary_folder() -> Path:
    """Where `tempfile` makes its files and folders, also from now on.

    `tempfile` tries a folder with a file, which a signal in that moment leaves there: the folder is
    asked for here before anything of `tempfile` is.
    """
    if tempfile.tempdir is None and os.name == "posix":
        for name in (*(os.environ.get(variable) for variable in _VARIABLES), *_FOLDERS):
            if name and (place := Path(name)).is_dir() and os.access(place, os.W_OK | os.X_OK):
                tempfile.tempdir = str(place.absolute())
                break
    return Path(tempfile.gettempdir())


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A new folder, gone afterwards; what killed processes left of this prefix is removed first.

    The folder is locked while it is in use. Where folders cannot be locked (Windows, some network
    file systems) those of killed processes stay.

    Raises MachineFault where it cannot be made.
    """
    _sweep(prefix)
    # 128 random bits: no other folder has this name, so that it can be removed unseen.
    place = temporary_folder() / f"{prefix}{os.urandom(16).hex()}"
    lock = None
    try:
        lock = _make(place)
        yield place
    finally:
        interrupted: BaseException | None = None
        # CPython answers signals at calls and at the ends of loops: the first one is within `try`.
        for _ in _TRIES:
            try:
                shutil.rmtree(place, ignore_errors=True)
                break
            except KeyboardInterrupt as error:
                interrupted = error
            except OSError as error:
                # Interrupted right after it closed a descriptor, rmtree closes it once more.
                interrupted = error.__context__ or interrupted
        if lock is not None:
            os.close(lock)
        if interrupted is not None:
            raise interrupted


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Within it `tempfile`, and libraries that use it, make their files and folders there."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _make(place: Path) -> int | None:
    """Make and lock a folder. Another process may remove it in between: then once more."""
    for _ in _TRIES:
        try:
            place.mkdir(mode=0o700)
        except OSError as error:
            raise MachineFault(f"no temporary folder can be made: {error.strerror}") from error
        lock = _locked(place)
        if lock is None or (place.exists() and os.fstat(lock).st_ino == place.stat().st_ino):
            return lock
        os.close(lock)
    raise MachineFault("no temporary folder can be made: another process removes it each time")


def _locked(place: Path) -> int | None:
    """An open folder with an exclusive lock; None where another process has it, or nobody can."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _sweep(prefix: str) -> None:
    """Remove what killed processes of this user left: folders whose lock nobody holds."""
    with contextlib.suppress(OSError):
        for place in temporary_folder().glob(f"{prefix}*"):
            status = place.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                continue
            lock = _locked(place)
            if lock is not None:
                shutil.rmtree(place, ignore_errors=True)
                os.close(lock)
