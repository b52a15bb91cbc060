"""The two ends of mlperf_log_accuracy.json: enough to see whether LoadGen wrote it, whole or cut.

The answers themselves are read by `checker.accuracy.log`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from checker.parse.reading import Fault, File, Unreadable, open_file

_END = 4096
_ID = b'"qsl_idx"'
_GAP = b"\n..."
_BLOCK = 1 << 22
_COUNTED = 64 << 20
"""Answers of longer logs are not counted: a log this long is not a short one."""
_TEXT = bytes(range(32, 127)) + b"\n\r\t"
_ANSWER = (b'"seq_id"', b'"qsl_idx"', b'"data"')


class LogEnds(msgspec.Struct, frozen=True):
    """begins, ends: whether the brackets of LoadGen's list stand there; answers: whether an answer
    is in either end; size in bytes; foreign: where LoadGen's text is damaged; count: how many
    answers there are, None where they were not counted or the log was shortened, is cut off or very
    long; lists: in how many lists they are, 1 where they were not counted."""

    begins: bool
    ends: bool
    answers: bool
    size: int
    foreign: int | None = None
    count: int | None = None
    lists: int = 1

    def damage(self, path: str) -> Iterator[Fault]:
        """What is wrong with the bytes themselves."""
        if self.foreign is not None:
            yield Fault(
                path,
                "syntax",
                f"found something at byte {self.foreign:,} that LoadGen never writes; expected its "
                "list of answers",
                fix="copy the log again from where LoadGen wrote it",
            )
        if self.lists > 1:
            yield Fault(
                path,
                "syntax",
                f"found {self.lists:,} lists of answers; expected LoadGen's one",
                fix="use the log of one run as LoadGen wrote it",
            )


def read_ends(file: File, *, counted: bool = False) -> LogEnds | None:
    """Look at an accuracy log's first and last 4096 bytes. None when it cannot be read.

    counted: count its answers too, which reads all of it.
    """
    try:
        handle = open_file(file)
    except Unreadable:
        return None
    try:
        size = os.fstat(handle).st_size
        first = os.read(handle, _END)
        os.lseek(handle, max(0, size - _END), os.SEEK_SET)
        last = os.read(handle, _END)
        begins, ends = first.lstrip().startswith(b"["), last.rstrip().endswith(b"]")
        counted = counted and begins and ends and size <= _COUNTED
        count, lists = _count(handle, size) if counted else (None, 1)
    except OSError:
        return None
    finally:
        os.close(handle)
    foreign = _foreign(first, 0)
    if foreign is None:
        foreign = _foreign(last, max(0, size - _END))
    return LogEnds(
        begins=begins,
        ends=ends,
        answers=any(name in end for name in _ANSWER for end in (first, last)),
        size=size,
        foreign=foreign,
        count=count,
        lists=lists,
    )


def _count(handle: int, size: int) -> tuple[int | None, int]:
    """How many answers a whole log holds, None where its middle was cut out, and in how many lists.
    Raises OSError."""
    os.lseek(handle, 0, os.SEEK_SET)
    count, lists, tail = 0, 0, b""
    while block := os.read(handle, min(size + 1, _BLOCK)):
        text = tail + block if tail else block
        if _GAP in text:
            return None, 1
        count += text.count(_ID)
        lists += block.count(b"[")
        tail = text[1 - len(_ID) :]
    return count, lists


def _foreign(end: bytes, start: int) -> int | None:
    """The place of the first byte that is neither printable ASCII nor white space.

    More is not asked: published logs were indented, reordered and cut in many ways.
    """
    odd = end.translate(None, _TEXT)
    return start + end.index(odd[:1]) if odd else None
