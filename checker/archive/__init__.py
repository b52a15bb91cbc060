"""TREE as an archive: unpacked into a temporary folder, bounded, nothing outside it touched."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checker.archive.members import BadArchive, Folder, Limits
from checker.machine import MachineFault, exhausted, storage
from schemas.report import Finding

__all__ = ["SUFFIXES", "BadArchive", "Limits", "opened"]

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar.zst", ".zip")
_PREFIX = "assay-unpacked-"
_LOCK = "in-use"


@contextmanager
def opened(where: Path, limits: Limits | None = None) -> Iterator[tuple[Path, list[Finding]]]:
    """The folder to check: ``where`` itself, or the archive's content in a temporary folder.

    Raises BadArchive for a file that is not an archive or is not whole, and MachineFault where there is
    no room for it. Members that would leave the tree, devices, members that come twice and the like
    are findings.
    """
    if where.is_dir():
        yield where, []
        return
    if not where.name.lower().endswith(SUFFIXES) or not where.is_file():
        raise BadArchive(f"{where} is neither a folder nor an archive ({', '.join(SUFFIXES)})")
    # Few checks unpack anything: what that takes is imported here.
    from checker.archive.tar import untar
    from checker.archive.zip import unzip

    with _temporary() as name:
        # What is at the archive's top is named after the archive, as its folder would be.
        target = name / _stem(where.name)
        target.mkdir()
        folder = Folder(target)
        try:
            if where.name.lower().endswith(".zip"):
                unzip(where, folder, limits or Limits())
            else:
                untar(where, folder, limits or Limits())
            folder.finish()
        except MachineFault:
            raise
        except BadArchive as error:
            raise BadArchive(f"{where}: {error}") from error
        except Exception as error:  # the libraries raise of every kind for what they do not expect
            if storage(error) or exhausted(error):
                raise MachineFault(f"{where} cannot be unpacked: {error}") from error
            raise BadArchive(f"{where} cannot be unpacked: {error}") from error
        yield _inner(target), folder.findings


@contextmanager
def _temporary() -> Iterator[Path]:
    """A folder that is gone afterwards; if this process is killed, the next one removes it."""
    import tempfile

    _sweep()
    try:
        name = Path(tempfile.mkdtemp(prefix=_PREFIX))
    except OSError as error:
        raise MachineFault(
            f"there is no folder to unpack an archive into: {error.strerror}"
        ) from error
    lock = None
    try:
        lock = _locked(name / _LOCK, create=True)
        inside = name / "tree"
        inside.mkdir()
        yield inside
    finally:
        _remove(name)
        if lock is not None:
            os.close(lock)


def _remove(name: Path) -> None:
    """Remove a folder, and only then let an interruption through."""
    import shutil

    interrupted: KeyboardInterrupt | None = None
    for _ in range(5):
        try:
            shutil.rmtree(name, ignore_errors=True)
            break
        except KeyboardInterrupt as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted


def _locked(path: Path, *, create: bool = False) -> int | None:
    """An open file with an exclusive lock, or None where another process has it."""
    try:
        import fcntl
    except ImportError:  # no such locks: such folders are never swept
        return None
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    try:
        handle = os.open(path, flags, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _sweep() -> None:
    """Remove what killed processes of this user left: folders whose lock nobody holds."""
    import shutil
    import tempfile

    with contextlib.suppress(OSError):
        for place in Path(tempfile.gettempdir()).glob(_PREFIX + "*"):
            status = place.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                continue
            lock = _locked(place / _LOCK)
            if lock is not None:
                shutil.rmtree(place, ignore_errors=True)
                os.close(lock)


def _stem(name: str) -> str:
    low = name.lower()
    suffix = max((s for s in SUFFIXES if low.endswith(s)), key=len)
    return name[: -len(suffix)] or "archive"


def _inner(folder: Path) -> Path:
    """The folder that holds something: archives are often made of one folder around the tree."""
    for _ in range(3):
        entries = list(folder.iterdir())
        if len(entries) != 1 or not entries[0].is_dir() or entries[0].is_symlink():
            break
        if entries[0].name in ("closed", "open", "network"):
            break
        folder = entries[0]
    return folder
