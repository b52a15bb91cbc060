"""The only writer of standard output and standard error."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

from assay.status import Usage


def secure() -> None:
    """Put nothing in the place of a standard stream that was closed (``>&-``): a file opened later
    would take its number, and get what libraries write to it."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the least number that is free: this one
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def standard_output() -> TextIO:
    """The stream itself, for what is laid out as the terminal allows. Raises OSError where it was closed."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, "standard output is closed")
    return sys.stdout


def say(text: str) -> None:
    """Write a line to standard error; a stream that is gone is not an error."""
    with contextlib.suppress(OSError):
        sys.stderr.write(text.rstrip("\n") + "\n")
        sys.stderr.flush()


def write(text: str | bytes) -> None:
    """Write to standard output, in its encoding."""
    out = standard_output()
    if isinstance(text, bytes):
        out.flush()
        out.buffer.write(text)
        out.buffer.flush()
        return
    encoding = out.encoding or "utf-8"
    out.write(text.encode(encoding, "backslashreplace").decode(encoding))
    out.flush()


def write_to(
    path: Path | None,
    content: str | bytes | Callable[[], Iterable[str | bytes]],
    option: str = "",
) -> None:
    """Write to a file, whole or not at all, or to standard output.

    content: all of it, or what gives it piece by piece. ``option``: what named the file.
    """
    pieces = content if callable(content) else lambda: (content,)
    if path is None:
        for piece in pieces():
            write(piece)
        return
    from schemas.writing import write_file

    try:
        write_file(path, lambda: map(_encoded, pieces()))
    except OSError as error:
        raise Usage(f"{option} {path} cannot be written: {error.strerror}".lstrip()) from error


def _encoded(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")


def drop_output() -> None:
    """What is still in the buffer of standard output must not fail again at exit."""
    if sys.stdout is None:
        return
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
