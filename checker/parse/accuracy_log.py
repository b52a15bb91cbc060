"""The two ends of mlperf_log_accuracy.json: enough to see whether LoadGen wrote it, whole or cut.

The answers themselves are read by `checker.accuracy.log`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from checker.parse.reading import File, Unreadable, open_file

_END = 4096
_ANSWER = (b'"seq_id"', b'"qsl_idx"', b'"data"')


@dataclass(frozen=True, slots=True)
class LogEnds:
    """begins, ends: whether the brackets of LoadGen's list stand there; answers: whether an answer
    is in either end; size in bytes."""

    begins: bool
    ends: bool
    answers: bool
    size: int


def read_ends(file: File) -> LogEnds | None:
    """Look at an accuracy log's first and last 4096 bytes. None when it cannot be read."""
    try:
        handle = open_file(file)
    except Unreadable:
        return None
    try:
        size = os.fstat(handle).st_size
        first = os.read(handle, _END)
        os.lseek(handle, max(0, size - _END), os.SEEK_SET)
        last = os.read(handle, _END)
    except OSError:
        return None
    finally:
        os.close(handle)
    return LogEnds(
        first.lstrip().startswith(b"["),
        last.rstrip().endswith(b"]"),
        any(name in end for name in _ANSWER for end in (first, last)),
        size,
    )
