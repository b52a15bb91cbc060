"""A tree is listed by a process of its own while this one still imports its rules.

The two take about as long. On a single core, or if anything fails, the tree is listed when its turn
comes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from checker.lifeline import ends_with
from checker.parse.reading import Fault, File, Folder, TooLarge, list_tree

_BLOCK = 1 << 20
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class _Row(msgspec.Struct, array_like=True, gc=False):
    """A folder as it is sent: the folders in it are the next rows."""

    path: str
    link: bool
    files: list[File]
    faults: list[Fault]
    folders: int


_decoder = msgspec.msgpack.Decoder(dict[str, list[_Row]])


class Ahead:
    """Trees that another process is listing."""

    def __init__(self, pipe: int, process: int) -> None:
        self._pipe: int | None = pipe
        self._process = process
        self._rows: dict[str, list[_Row]] = {}

    def listing(self, root: Path) -> Folder:
        """What `list_tree` says of ``root``; waits for the other process."""
        self._receive()
        rows = self._rows.pop(str(root), None)
        return list_tree(root) if not rows else _folder(iter(rows))

    def close(self) -> None:
        """End the other process, whether it is done or not."""
        # Forgotten before it is closed: a signal in between leads here again.
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            os.close(pipe)
        process, self._process = self._process, 0
        if process:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)

    def _receive(self) -> None:
        if self._pipe is None:
            return
        blocks = []
        # Whatever is wrong with it is found again, and reported, where the tree is listed here.
        with contextlib.suppress(OSError, MemoryError, msgspec.DecodeError):
            while block := os.read(self._pipe, _BLOCK):
                blocks.append(block)
            self._rows = _decoder.decode(b"".join(blocks))
        self.close()


@contextlib.contextmanager
def listed_ahead(roots: Sequence[str]) -> Iterator[Callable[[Path], Folder]]:
    """Begin to list the folders among ``roots`` in another process. What is yielded gives the listing
    of each as `list_tree` does, which it is where nothing could begin."""
    folders = [root for root in map(Path, roots) if root.is_dir()]
    if not folders or not _useful():
        yield list_tree
        return
    try:
        ours, theirs = os.pipe()
    except OSError:
        yield list_tree
        return
    import fcntl

    with contextlib.suppress(OSError):
        # The listing of a round is some megabytes; most systems hold 64 KiB for who reads later.
        fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, _BLOCK)
    # Until the child has handlers of its own, a signal would send it through the parent's clean-up.
    wanted = {getattr(signal, name) for name in _SIGNALS}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    parent, child = os.getpid(), -1
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
        child = os.fork()
    except OSError:
        os.close(ours)
    finally:
        if child == 0:
            os.close(ours)
            _child(parent, theirs, folders, blocked)
        os.close(theirs)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    if child < 0:
        yield list_tree
        return
    ahead = Ahead(ours, child)
    try:
        yield ahead.listing
    finally:
        ahead.close()


def _useful() -> bool:
    # Where it works, and is known to be safe: a second thread may hold a lock that its copy in the
    # child would wait for.
    return (
        sys.platform == "linux"
        and threading.active_count() == 1
        and len(os.sched_getaffinity(0)) > 1
    )


def _child(parent: int, pipe: int, folders: list[Path], mask: set[Any]) -> NoReturn:
    """List and send, and end without any clean-up, which is the parent's."""
    try:
        for name in _SIGNALS:
            signal.signal(getattr(signal, name), signal.SIG_IGN)  # the parent kills it
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        ends_with(parent)
        found: dict[str, list[_Row]] = {}
        for folder in folders:
            rows = found[str(folder)] = []
            with contextlib.suppress(TooLarge):
                _flatten(list_tree(folder, packing=False), rows)
        data = memoryview(msgspec.msgpack.encode(found))
        while data:
            data = data[os.write(pipe, data) :]
    except BaseException:
        os._exit(1)
    os._exit(0)


def _flatten(folder: Folder, rows: list[_Row]) -> None:
    below = folder.folders.values()
    rows.append(
        _Row(
            path=folder.path,
            link=folder.link,
            files=list(folder.files.values()),
            faults=folder.faults,
            folders=len(below),
        )
    )
    for child in below:
        _flatten(child, rows)


def _folder(rows: Iterator[_Row]) -> Folder:
    row = next(rows)
    below = [_folder(rows) for _ in range(row.folders)]
    return Folder(
        row.path,
        files={file.name: file for file in row.files},
        folders={child.name: child for child in below},
        faults=row.faults,
        link=row.link,
    )
