"""Writing a file so that a break leaves the old one or the new one, never half of either."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_IN_PLACE = frozenset({errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV})
_DEFAULT_MODE = 0o666
_TRIES = (4, 3, 2, 1, 0)


Content = bytes | Callable[[], Iterable[bytes]]
"""What is written: all of it, or what gives it piece by piece, each time it is called."""


def _write(stream: BinaryIO, content: Content) -> None:
    for piece in (content,) if isinstance(content, bytes) else content():
        stream.write(piece)


def write_file(path: Path, content: Content) -> None:
    """Write to where a user points, following links; what is there is replaced only at the end.

    Pipes and devices are written directly; so is a file whose folder takes no new files. Raises
    OSError, and then the old content is still there.
    """
    target = path.resolve() if path.is_symlink() else path
    if target.exists() and not target.is_file():
        with target.open("wb") as stream:
            _write(stream, content)
        return
    try:
        replace_file(target, content)
    except OSError as error:
        if error.errno not in _IN_PLACE or not target.exists():
            raise
        with target.open("r+b") as stream:
            _write(stream, content)
            stream.truncate()


def replace_file(path: Path, content: Content, *, synced: bool = True) -> None:
    """Replace the entry ``path`` itself: a link or one of several hard links is not followed.

    The new file has the old one's permissions. ``synced=False`` is for a cache: after a power
    failure the file may be damaged. Raises OSError, and then the old entry is still there and
    nothing beside it.
    """
    for left in _TRIES:
        try:
            return _replaced(path, content, synced, shared=bool(left))
        except (FileExistsError, FileNotFoundError):
            # Another process replaces the same file, and took the name of the part.
            if not left or not path.parent.is_dir():
                raise


def _replaced(path: Path, content: Content, synced: bool, *, shared: bool) -> None:
    """shared: the part has the name that every process gives it, so that one which a killed process
    left is replaced. Its own name, which nobody takes from it, is for when others keep doing so."""
    try:
        old = path.lstat()
        mode = stat.S_IMODE(old.st_mode) if stat.S_ISREG(old.st_mode) else None
    except FileNotFoundError:
        mode = None
    with _nameless(path, synced) as (stream, named):
        _write(stream, content)
        if mode is not None and hasattr(os, "fchmod"):
            os.fchmod(stream.fileno(), mode)
        part = path.with_name(f".{path.name[:200]}.part") if shared else _part(path)
        with contextlib.suppress(OSError):
            part.unlink()
        named(part).replace(path)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A stream whose content is at ``path`` when the block ends, and nowhere if it raises.

    Never overwrites: raises FileExistsError where there is something by then.
    """
    with _nameless(path) as (stream, named):
        yield stream
        part = named(path)
        if part != path:
            try:
                os.link(part, path, follow_symlinks=False)
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                if os.path.lexists(path):
                    raise
                part.rename(path)
            else:
                part.unlink()
    if hasattr(os, "O_DIRECTORY"):
        with contextlib.suppress(OSError):  # some file systems cannot
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


@contextmanager
def kept_if(needed: Callable[[], bool]) -> Iterator[list[Path]]:
    """Takes files and folders as they are made; where the block raises, they go unless ``needed``.

    For copies that are worth keeping only when what they were made for was done.
    """
    made: list[Path] = []
    try:
        yield made
    except BaseException:
        if not needed():
            for place in reversed(made):
                with contextlib.suppress(OSError):
                    place.rmdir() if place.is_dir() else place.unlink()
        raise


@contextmanager
def new_copy(path: Path, made: list[Path]) -> Iterator[BinaryIO]:
    """`new_file` with its folders; ``made`` gets those that were not there before, and the file."""
    made.extend(reversed([folder for folder in path.parents if not os.path.lexists(folder)]))
    path.parent.mkdir(parents=True, exist_ok=True)
    made.append(path)
    try:
        with new_file(path) as stream:
            yield stream
    except FileExistsError:
        made.remove(path)  # another's
        raise


@contextmanager
def _nameless(path: Path, synced: bool = True) -> Iterator[tuple[BinaryIO, Callable[[Path], Path]]]:
    """A stream beside ``path``, and what gives it a name there when it is complete.

    Where the system can, it has no name until then: a killed process leaves nothing behind.
    """
    part = _part(path)
    part_name = str(part)
    linked: list[Path] = []
    try:
        handle, has_name = _beside(path, part)
        with naming(path), os.fdopen(handle, "wb") as stream:

            def named(place: Path) -> Path:
                stream.flush()
                if synced:
                    os.fsync(stream.fileno())
                if has_name:
                    return part
                linked.append(place)  # before it is: a signal may come right after
                own = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY)
                try:
                    os.link(str(stream.fileno()), place, src_dir_fd=own, follow_symlinks=True)
                finally:
                    os.close(own)
                return place

            try:
                yield stream, named
            except BaseException:
                try:
                    _remove(linked, os.fstat(stream.fileno()))
                except KeyboardInterrupt:  # a signal while another error is answered
                    _remove(linked, os.fstat(stream.fileno()))
                    raise
                raise
    except BaseException:
        # One call of the system: in the code of a Path or of suppress a signal may come before it.
        try:  # noqa: SIM105
            os.unlink(part_name)  # noqa: PTH108
        except OSError:
            pass
        raise


def _remove(linked: list[Path], own: os.stat_result) -> None:
    """What was linked to the file; not another's, because of which the link failed."""
    for place in linked:
        with contextlib.suppress(OSError):
            if os.path.samestat(place.lstat(), own):
                place.unlink()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An error in writing to an open file does not say which: within it, it says ``path``."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name[:100]}.{os.urandom(6).hex()}.part")


def _beside(path: Path, part: Path) -> tuple[int, bool]:
    """A new file in the same folder, and whether it has a name: ``part``, where the system cannot
    make one without."""
    if hasattr(os, "O_TMPFILE") and Path("/proc/self/fd").is_dir():
        with contextlib.suppress(OSError):
            return os.open(path.parent, os.O_TMPFILE | os.O_WRONLY, _DEFAULT_MODE), False
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.open(part, flags | getattr(os, "O_NOFOLLOW", 0), _DEFAULT_MODE), True
