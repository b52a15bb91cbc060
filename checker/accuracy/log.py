"""Streaming reader of LoadGen's ``mlperf_log_accuracy.json``.

A log is a JSON array with one record a sample::

    { "seq_id" : 0, "qsl_idx" : 4821, "data" : "0080F843" },

``data`` is the sample's raw little-endian response as hexadecimal text; LLM runs of LoadGen 4
and later add ``token_data`` (hex) and ``token_count``. Logs reach many GB and a single record
tens of MB, so nothing here holds more than one record and one chunk. Footers are often missing,
and published logs keep only their first and last 4096 bytes around ``\\n\\n...\\n\\n``; both are
reported, neither stops the reader. Any bytes at all can be read: what is not a record becomes a
``Problem``.

Source: LoadGen's AsyncLog (records as written), the published truncation of MLPerf Inference
results from v0.7 on, logs of v0.5 to v6.0.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from array import array
from binascii import Error as HexError
from binascii import unhexlify
from collections.abc import Callable, Generator, Iterator
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from checker.accuracy.problem import AccuracyError, Problem, Problems

Progress = Callable[[int, int], None]
"""Called now and then with (bytes done, bytes in all; 0 where the size is not known)."""

GAP: Final = b"\n..."
"""What is in a published log where its middle was cut out, whatever the line ends after it."""

CHUNK: Final = 1 << 18
"""Bytes read at a time: what is decoded is then still in the processor's cache."""

MAX_RECORD: Final = 256 << 20
"""Longest record read, in bytes of text: twice the largest 3D-UNet volume of KiTS 2019."""

MAX_INDEX: Final = 1 << 24
"""Sample indices from here on are not believed when the size of the data set is not given."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One response: ``data`` are the raw bytes, ``qsl_idx`` the sample's place in the data set."""

    seq_id: int
    qsl_idx: int
    data: bytes
    token_count: int | None = None
    token_data: bytes | None = None


class _Loose(msgspec.Struct, gc=False):
    """A record in any key order or spacing, as JSON."""

    qsl_idx: int
    data: str
    seq_id: int = -1
    token_count: int | None = None
    token_data: str | None = None


_HEAD = (
    rb'\{\s*+"seq_id"\s*+:\s*+(\d{1,18})\s*+,\s*+"qsl_idx"\s*+:\s*+(\d{1,18})\s*+,'
    rb'\s*+"data"\s*+:\s*+"'
)
_TAIL = (
    rb'"\s*+(?:,\s*+"token_data"\s*+:\s*+"([^"]*+)"\s*+)?'
    rb'(?:,\s*+"token_count"\s*+:\s*+(\d{1,18})\s*+)?\}[\s,]*+'
)
_BEFORE_DATA, _AFTER_DATA = re.compile(_HEAD), re.compile(_TAIL)
_RECORD = re.compile(_HEAD + rb'([^"]*+)' + _TAIL)
_loose = msgspec.json.Decoder(_Loose)
_BETWEEN = b" \t\r\n,[\xef\xbb\xbf"


class LogReader:
    """Iterates the records of one accuracy log; knows afterwards what it met.

    Use once. After the last record: ``problems``, ``truncated``, ``records`` (how many were
    read), ``size`` (bytes read) and, on request, ``sha256`` (hex digest of the whole file).
    """

    def __init__(
        self,
        source: str | Path | BinaryIO,
        *,
        progress: Progress | None = None,
        sha256: bool = False,
        max_record: int = MAX_RECORD,
        chunk: int = CHUNK,
    ) -> None:
        """Prepare to read ``source``: a path, or a binary stream that is read to its end.

        Raises ``AccuracyError`` when the path is not a regular file. ``OSError`` of the first
        read comes out of the iteration.
        """
        self._total = 0
        self._stream: BinaryIO | None = None
        self._path: str | Path | None = None
        if isinstance(source, (str, Path)):
            self._path = source
            try:
                status = os.stat(source)  # noqa: PTH116 (a Path is made for each of many logs)
            except (OSError, ValueError) as error:
                raise AccuracyError(f"{source}: cannot be read ({error})") from error
            if not stat.S_ISREG(status.st_mode):
                raise AccuracyError(f"{source}: not a regular file")
            self._total = status.st_size
        else:
            self._stream = source
        self._progress = progress
        self._hash = hashlib.sha256() if sha256 else None
        self._max_record = max_record
        self._chunk = max(chunk, 64)
        self._problems = Problems()
        self._gap_at: int | None = None
        self._cut = False
        self.records = 0
        self.size = 0
        self._iterator = self._read()

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        return next(self._iterator)

    @property
    def problems(self) -> list[Problem]:
        """What was irregular in the bytes read so far."""
        return self._problems.listed()

    @property
    def truncated(self) -> bool:
        """True when the middle was cut out, or when the log stops inside a record."""
        return self._gap_at is not None or self._cut

    @property
    def gap_offset(self) -> int | None:
        """Byte offset of the cut-out middle of a published log, or None."""
        return self._gap_at

    @property
    def sha256(self) -> str | None:
        """Hex SHA-256 of the bytes read (of the whole file once iterated), on request."""
        return self._hash.hexdigest() if self._hash else None

    def close(self) -> None:
        """Stop reading and close the file, if it is one that this reader opened."""
        self._iterator.close()

    def drain(self) -> None:
        """Read to the end, dropping the records: for the hash, ``truncated`` and ``problems``."""
        for _ in self._iterator:
            pass

    def _chunks(self) -> Iterator[bytes]:
        if self._path is None:
            assert self._stream is not None
            yield from self._blocks(self._stream, self._chunk)
            return
        with open(self._path, "rb", buffering=0) as stream:
            # A buffer for more than the file holds would be given back to the system each time.
            yield from self._blocks(stream, min(self._chunk, self._total + 1))

    def _blocks(self, stream: BinaryIO | FileIO, size: int) -> Iterator[bytes]:
        before = b""
        while block := stream.read(size):
            if self._hash:
                self._hash.update(block)
            if self._gap_at is None:
                joint = before + block[: len(GAP) - 1]
                if (seen := joint.find(GAP)) >= 0:
                    self._gap_at = self.size - len(before) + seen
                elif b"." in block and (seen := block.find(GAP)) >= 0:
                    self._gap_at = self.size + seen
                before = joint[1 - len(GAP) :] if len(block) < len(GAP) else block[1 - len(GAP) :]
            self.size += len(block)
            yield block
            if self._progress:
                self._progress(self.size, self._total)

    def _read(self) -> Generator[Record, None, None]:
        pending: list[bytes] = []
        held = 0
        base = 0  # offset in the file of pending's first byte
        skipping = False
        footer = False
        for block in self._chunks():
            if skipping:
                end = block.find(b"}")
                if end < 0:
                    base += len(block)
                    continue
                base += end + 1
                block = block[end + 1 :]
                skipping = False
            last = block.rfind(b"}")
            if last < 0:
                pending.append(block)
                held += len(block)
                if held > self._max_record:
                    self._problems.add(
                        "too-long",
                        f"a record is longer than {self._max_record} bytes; it was left out",
                        offset=base,
                    )
                    base += held
                    pending.clear()
                    held = 0
                    skipping = True
                continue
            before = b"".join(pending)
            region = before + block if before else block
            end = len(before) + last + 1
            pending = [block[last + 1 :]]
            held = len(pending[0])
            yield from self._region(region, end, base)
            base += end
        rest = b"".join(pending)
        if self._gap_at is not None and rest.find(GAP) >= 0:
            rest = rest[rest.rfind(GAP) + len(GAP) :]
        text = rest.strip(_BETWEEN)
        if text.startswith(b"]"):
            footer = True
            if text.strip(b" \t\r\n],\x00"):
                self._problems.add(
                    "malformed", "text after the closing bracket", offset=base + rest.find(b"]")
                )
        elif text:
            self._cut = True
            self._problems.add(
                "cut",
                "the log stops inside a record"
                if b"{" in text
                else "the log ends in text that is not a record",
                offset=base,
            )
        if skipping:
            self._cut = True
        if not footer and not text:
            self._problems.add("no-footer", "the closing bracket is missing", offset=self.size)
        if self._gap_at is not None:
            self._problems.add(
                "gap",
                "the middle was cut out, as in published results: most records are not here",
                offset=self._gap_at,
            )
        if not self.records:
            self._problems.add("empty", "no record in the log")

    def _region(self, region: bytes, end: int, base: int) -> Iterator[Record]:
        """Records of a piece up to ``end``, which is behind a closing brace."""
        done = 0
        view = memoryview(region)  # data are megabytes, and not copied before they are decoded
        data: bytes | memoryview
        while True:
            start = done
            # Most of a record is its data: its end is found as a quote, not by an expression.
            head = _BEFORE_DATA.match(region, done, end)
            quote = region.find(b'"', head.end(), end) if head is not None else -1
            tail = _AFTER_DATA.match(region, quote, end) if quote >= 0 else None
            if head is not None and tail is not None:
                seq_id, qsl_idx = head.groups()
                data = view[head.end() : quote]
                token_data, token_count = tail.groups()
                done = tail.end()
            else:
                match = _RECORD.search(region, done, end)
                if match is None:
                    break
                start = match.start()
                if start != done:
                    yield from self._odd(region[done:start], base + done)
                seq_id, qsl_idx, data, token_data, token_count = match.groups()
                done = match.end()
            try:
                record = Record(
                    int(seq_id),
                    int(qsl_idx),
                    unhexlify(data),
                    None if token_count is None else int(token_count),
                    None if token_data is None else unhexlify(token_data),
                )
            except HexError:
                if b"{" in bytes(data) or (
                    token_data and b"{" in token_data
                ):  # a lost closing quote
                    yield from self._odd(region[start:done], base + start)
                elif not self._at_gap(base + start, base + done):
                    self._no_hex(base + start, int(qsl_idx))
                continue
            self.records += 1
            yield record
        if done != end:
            yield from self._odd(region[done:end], base + done)

    def _at_gap(self, start: int, end: int) -> bool:
        """Whether the bytes from ``start`` to ``end`` touch the cut-out middle."""
        gap = self._gap_at
        return gap is not None and start <= gap + len(GAP) and end >= gap

    def _no_hex(self, offset: int, index: int) -> None:
        self._problems.add(
            "not-hex", "the data of a record is not hexadecimal", offset=offset, index=index
        )

    def _odd(self, text: bytes, base: int) -> Iterator[Record]:
        """Records that the usual form does not match; anything else is a problem."""
        at = 0
        while True:
            start = text.find(b"{", at)
            until = start if start >= 0 else len(text)
            left = text[at:until].strip(_BETWEEN)
            if left and not self._at_gap(base + at, base + until):
                broken = left.startswith(b"]")
                self._problems.add(
                    "malformed",
                    "a closing bracket comes before the last record"
                    if broken
                    else "text between records",
                    offset=base + at,
                )
            if start < 0:
                return
            end = text.find(b"}", start)
            if end < 0:
                if not self._at_gap(base + start, base + len(text)):
                    self._problems.add("malformed", "a record has no end", offset=base + start)
                return
            piece = text[start : end + 1]
            at = end + 1
            if (again := piece.rfind(b"{")) > 0:  # one that begins after the lost end is kept
                if not self._at_gap(base + start, base + start + again):
                    self._problems.add("malformed", "a record has no end", offset=base + start)
                piece = piece[again:]
                start += again
            if self._at_gap(base + start, base + end):
                continue
            try:
                loose = _loose.decode(piece)
                if loose.qsl_idx < 0:
                    raise msgspec.ValidationError("qsl_idx is negative")
                record = Record(
                    loose.seq_id,
                    loose.qsl_idx,
                    unhexlify(loose.data),
                    loose.token_count,
                    None if loose.token_data is None else unhexlify(loose.token_data),
                )
            except HexError:
                self._no_hex(base + start, loose.qsl_idx)
            except (ValueError, RecursionError) as error:
                self._problems.add(
                    "malformed", f"a record cannot be read: {error}"[:200], offset=base + start
                )
            else:
                self.records += 1
                yield record


def read_log(
    source: str | Path | BinaryIO,
    *,
    progress: Progress | None = None,
    sha256: bool = False,
    max_record: int = MAX_RECORD,
) -> LogReader:
    """Read an accuracy log record by record, as they stand (duplicates included).

    The returned reader is an iterator of ``Record`` and carries ``problems``, ``truncated``,
    ``records``, ``size`` and ``sha256`` when it is exhausted. Raises ``AccuracyError`` when the
    path is not a regular file; never for what is in it.
    """
    return LogReader(source, progress=progress, sha256=sha256, max_record=max_record)


class SampleReader:
    """Iterates one record a sample: the first of each ``qsl_idx``.

    MultiStream pads its last query and so repeats samples: equal repeats are only counted
    (``duplicates``). A repeat with other data is a problem of kind ``contradiction``, an index
    outside the data set ``surplus``, a sample without a record ``missing``.
    """

    def __init__(self, log: LogReader, expected: int | None = None) -> None:
        """Read ``log``; ``expected`` is the number of samples in the data set, if known.

        Memory: four bytes a sample of the data set.
        """
        self.log = log
        self.expected = expected
        self.samples = 0
        self.duplicates = 0
        self._problems = Problems()
        limit = MAX_INDEX if expected is None else expected
        self._limit = limit
        self._seen = array("L" if array("I").itemsize < 4 else "I", bytes(4 * min(limit, 1 << 16)))
        self._iterator = self._read()

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        return next(self._iterator)

    @property
    def problems(self) -> list[Problem]:
        """The log's own problems and those of its set of samples."""
        return self.log.problems + self._problems.listed()

    @property
    def truncated(self) -> bool:
        """See ``LogReader.truncated``."""
        return self.log.truncated

    @property
    def missing(self) -> int:
        """Samples of the data set without a record so far (0 when its size is not known)."""
        return 0 if self.expected is None else self.expected - self.samples

    def _read(self) -> Iterator[Record]:
        seen, limit = self._seen, self._limit
        for record in self.log:
            index = record.qsl_idx
            if index >= limit:
                self._problems.add(
                    "surplus",
                    f"a record is for sample {index}; "
                    + (
                        f"the data set has {limit} samples"
                        if self.expected is not None
                        else f"indices from {limit} on are not believed"
                    ),
                    index=index,
                )
                continue
            if index >= len(seen):
                seen.frombytes(bytes(seen.itemsize * (min(limit, 2 * index + 2) - len(seen))))
            mark = (hash(record.data) & 0xFFFFFFFF) or 1
            before = seen[index]
            if before:
                self.duplicates += 1
                if before != mark:
                    self._problems.add(
                        "contradiction",
                        f"sample {index} is answered twice, differently; the first counts",
                        index=index,
                    )
                continue
            seen[index] = mark
            self.samples += 1
            yield record
        self._after()

    def _after(self) -> None:
        seen = self._seen
        top = len(seen)
        while top and not seen[top - 1]:
            top -= 1
        expected = self.expected
        if expected is None:
            gaps = top - self.samples
            if gaps > 0 and not self.truncated:
                self._problems.add(
                    "missing",
                    f"{gaps} of the samples 0 to {top - 1} have no record",
                    count=gaps,
                    index=_first_zero(seen, top),
                )
        elif self.samples < expected and not self.truncated:
            gaps = expected - self.samples
            self._problems.add(
                "missing",
                f"{gaps} of {expected} samples have no record",
                count=gaps,
                index=_first_zero(seen, expected),
            )


def _first_zero(values: array[int], end: int) -> int | None:
    for index in range(min(end, len(values))):
        if not values[index]:
            return index
    return len(values) if len(values) < end else None


def read_samples(
    source: str | Path | BinaryIO,
    *,
    expected: int | None = None,
    progress: Progress | None = None,
    sha256: bool = False,
    max_record: int = MAX_RECORD,
) -> SampleReader:
    """Read an accuracy log as a set of samples: each index once, repeats and holes reported.

    ``expected`` is the size of the data set. Raises as ``read_log`` does.
    """
    log = LogReader(source, progress=progress, sha256=sha256, max_record=max_record)
    return SampleReader(log, expected)
