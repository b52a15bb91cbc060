"""The only writer of standard output and standard error."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

from assay.status import Usage


def say(text: str) -> None:
    """Write a line to standard error; a stream that is gone is not an error."""
    with contextlib.suppress(OSError):
        sys.stderr.write(text.rstrip("\n") + "\n")
        sys.stderr.flush()


def write(text: str | bytes) -> None:
    """Write to standard output, in its encoding."""
    if isinstance(text, bytes):
        sys.stdout.flush()
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
        return
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def standard_output() -> TextIO:
    """The stream itself, for what is laid out as the terminal allows."""
    return sys.stdout


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
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
