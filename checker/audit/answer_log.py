"""An accuracy log as the audit reads it: once, for its digest and for the order of its records.

Answers are not decoded. Rules and traces ask for the same few logs one after the other, so the last
ones that were read are kept.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from io import FileIO
from typing import BinaryIO

import msgspec

from checker.accuracy.log import GAP
from checker.parse.reading import (
    Fault,
    File,
    Unreadable,
    open_file,
    read_bytes,
    read_first,
    sha256_of,
)
from checker.rule import NotJudged

# The comma after the index keeps out a number that a truncated log cuts short.
_RECORD = re.compile(rb'"seq_id"\s*:\s*(\d{1,15})\s*,\s*"qsl_idx"\s*:\s*(\d{1,15})\s*,')
_BLOCK = 1 << 22
_WHOLE = 256 * 1024 * 1024
_OVERLAP = 256


class Records(msgspec.Struct):
    """The visible records of an accuracy log, in file order.

    pairs: (seq_id, qsl_idx); cut: whether the log's middle is missing or was not read.
    """

    path: str
    pairs: list[tuple[int, int]] = []
    cut: bool = False

    def line_of(self, seq_id: int) -> int | None:
        """The line of a record, as LoadGen writes them: a bracket, then one record a line."""
        for number, (found, _) in enumerate(self.pairs):
            if found == seq_id:
                return number + 2 if not self.cut else None
        return None


def read_records(file: File) -> Records:
    """Sequence numbers and sample indices of an accuracy log.

    Of a log above 256 MB the first and last 64 MB are read. Raises NotJudged when it cannot be
    read.
    """
    try:
        return _read(file)[0]
    except Unreadable as error:
        raise NotJudged from error


def digest_of(file: File) -> str:
    """SHA-256 of an accuracy log, 64 hex digits. Raises Unreadable."""
    return _read(file)[1] or sha256_of(file)


_BEGINNING = 1000


def digest_of_beginning(file: File) -> str:
    """SHA-256 of the first 1,000 bytes of a log. Raises Unreadable."""
    return hashlib.sha256(read_first(file, _BEGINNING)).hexdigest()


_COMPARED = 8
"""Samples by which two logs are seen to hold the same answers."""

_ANSWER = re.compile(rb'"qsl_idx"\s*:\s*(\d{1,15})\s*,\s*"data"\s*:\s*"([0-9A-Fa-f]*)"')
_MOST_BYTES = 64 * 1024 * 1024


def same_answers(one: File, other: File) -> bool | None:
    """Whether two accuracy logs give the same answers to the first samples that both show.

    None where they show none in common, or where one cannot be read.
    """
    try:
        theirs = {index for _, index in _read(other)[0].pairs}
        shared = dict.fromkeys(index for _, index in _read(one)[0].pairs if index in theirs)
        wanted = set(list(shared)[:_COMPARED])
        if not wanted or max(one.size, other.size) > _MOST_BYTES:
            return None
        mine, answers = (_answers_to(file, wanted) for file in (one, other))
    except Unreadable:
        return None
    both = mine.keys() & answers.keys()
    return all(mine[index] == answers[index] for index in both) if both else None


def _answers_to(file: File, wanted: set[int]) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for match in _ANSWER.finditer(read_bytes(file)):
        index = int(match[1])
        if index in wanted and index not in found:
            found[index] = match[2]
            if len(found) == len(wanted):
                break
    return found


_KEPT = 12
_KEPT_RECORDS = 200_000

_known: dict[File, tuple[Records, str | None]] = {}


def _read(file: File) -> tuple[Records, str | None]:
    """The records, and the digest of a log that was read whole."""
    found = _known.get(file)
    if found is None:
        found = _read_now(file)
        if len(_known) >= _KEPT:
            _known.clear()
        if len(found[0].pairs) <= _KEPT_RECORDS:
            _known[file] = found
    return found


def _read_now(file: File) -> tuple[Records, str | None]:
    records = Records(file.path)
    digest = hashlib.sha256()
    whole = file.size <= _WHOLE
    stretches = [(0, file.size)]
    if not whole:
        records.cut = True
        stretches = [(0, _WHOLE // 4), (file.size - _WHOLE // 4, file.size)]
    with open(open_file(file), "rb", buffering=0) as stream:
        try:
            for start, end in stretches:
                if start:
                    stream.seek(start)
                for block in _blocks(stream, end - start):
                    digest.update(block)
                    records.pairs.extend([(int(a), int(b)) for a, b in _RECORD.findall(block)])
                    # One byte, which no answer holds, is looked for much faster than four.
                    records.cut = records.cut or (b"." in block and GAP in block)
        except OSError as error:
            raise Unreadable(
                Fault(file.path, "unreadable", f"the file cannot be read: {error.strerror}")
            ) from error
    return records, digest.hexdigest() if whole else None


def _blocks(stream: BinaryIO | FileIO, size: int) -> Iterator[bytes]:
    """Blocks that end before the opening brace of a record, so that none is split."""
    kept = b""
    while size > 0:
        new = stream.read(min(_BLOCK, size))
        if not new:
            break
        size -= len(new)
        block = kept + new
        # The mark of a cut-out middle must not be split either: it is not near the start of a brace.
        border = len(block) if size <= 0 else block.rfind(b"{")
        if border < 0:
            border = max(len(block) - _OVERLAP, 0)
        yield block[:border]
        kept = block[border:]
    if kept:
        yield kept
