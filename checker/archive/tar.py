"""Tar archives, read once from front to back.

The standard library ends a damaged archive silently: at a bad checksum, at a block of zeros in the
middle, at the end of a file that was cut between two members. Here an archive is whole only if two
blocks of zeros follow its last member, and nothing but zeros follows those.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from checker.archive.members import BadArchive, Folder, Limits

MAX_HEADER = 1 << 20
"""Greatest size in bytes of one extended header (a long name, PAX records)."""

_BLOCK = tarfile.BLOCKSIZE
_CHUNK = 1 << 20
_EXTENDED = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)


def untar(where: Path, folder: Folder, limits: Limits) -> None:
    """Unpack; raises BadArchive for an archive that is not whole or is beyond a limit."""
    packed = where.stat().st_size
    with _decompressed(where) as plain:
        stream = _Stream(plain, packed, limits)
        archive = _Archive(where.name, stream)
        while (member := archive.next()) is not None:
            # The library keeps every member it has seen.
            archive.forget()
            stream.files += 1
            if member.size < 0:
                raise BadArchive("the archive is damaged: a member has a negative size")
            _unpack(member, stream, folder)
        _only_padding(stream)


def _unpack(member: tarfile.TarInfo, stream: _Stream, folder: Folder) -> None:
    name = member.name
    if member.isreg():
        folder.add_file(name, member.size, stream.read, float(member.mtime))
    elif member.isdir():
        folder.add_folder(name)
    elif member.issym() or member.islnk():
        folder.add_link(name, member.linkname, hard=member.islnk())
    else:
        kind = "a device or a pipe" if member.isdev() else "of an unknown type"
        folder.refuse(name, f"is {kind}; it was not unpacked")


def _only_padding(stream: _Stream) -> None:
    """The library stopped at a block of zeros: see that the archive really ends there."""
    second = stream.read(_BLOCK)
    if len(second) < _BLOCK or any(second):
        raise BadArchive(
            "the archive is damaged: it has a block of zeros before byte "
            f"{stream.position:,} and does not end there"
        )
    while block := stream.read(_CHUNK):
        if block.count(0) != len(block):
            raise BadArchive("the archive is damaged: something follows the end of the archive")


class _Stream:
    """The plain bytes of an archive, forward only, counted."""

    def __init__(self, source: Any, packed: int, limits: Limits) -> None:
        self._source = source
        self._packed = packed
        self._limits = limits
        self.position = 0
        self.files = 0

    def read(self, size: int) -> bytes:
        """Exactly so many bytes, fewer only at the end."""
        parts = []
        while size:
            block = self._source.read(min(size, _CHUNK))
            if not block:
                break
            parts.append(block)
            size -= len(block)
            self.position += len(block)
            self._limits.check(self.files, self.position, self._packed)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def tell(self) -> int:
        return self.position

    def seek(self, position: int) -> None:
        """Forward to a position; raises BadArchive where the archive ends before it."""
        if position < self.position:
            raise BadArchive("the archive is damaged: its headers contradict each other")
        while self.position < position:
            if not self.read(min(position - self.position, _CHUNK)):
                raise BadArchive("the archive is cut: it ends in the middle of a member")


class _Header(tarfile.TarInfo):
    """A header that is either right or the end of the archive being of use."""

    @classmethod
    def frombuf(cls, buf: Any, encoding: str, errors: str) -> Any:
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            if len(buf) < _BLOCK:
                raise BadArchive(
                    "the archive is cut: it has no end; pack it or transfer it again"
                ) from error
            raise BadArchive("the archive is damaged: a header's checksum is wrong") from error
        if header.type in _EXTENDED and not 0 <= header.size <= MAX_HEADER:
            raise BadArchive(
                f"the archive has a header of {header.size:,} bytes; {MAX_HEADER:,} are allowed"
            )
        if header.type == tarfile.GNUTYPE_SPARSE:
            raise _sparse()
        return header

    def _proc_gnusparse_00(self, *_: Any) -> None:
        raise _sparse()

    def _proc_gnusparse_01(self, *_: Any) -> None:
        raise _sparse()

    def _proc_gnusparse_10(self, *_: Any) -> None:
        raise _sparse()


def _sparse() -> BadArchive:
    return BadArchive("the archive has a sparse member: pack without --sparse")


class _Archive(tarfile.TarFile):
    """The library's reader, with our headers; what all members share is bounded."""

    tarinfo = _Header

    def __init__(self, name: str, stream: _Stream) -> None:
        source: Any = stream
        super().__init__(name, "r", source, encoding="utf-8", errors="surrogateescape")

    def forget(self) -> None:
        """Drop the members that were read."""
        seen: Any = self
        seen.members.clear()

    def next(self) -> tarfile.TarInfo | None:
        shared = sum(len(k) + len(v) for k, v in self.pax_headers.items())
        if shared > MAX_HEADER:
            raise BadArchive(
                f"the archive's shared headers are over the {MAX_HEADER:,} bytes allowed"
            )
        return super().next()


@contextmanager
def _decompressed(where: Path) -> Iterator[Any]:
    """The archive's plain bytes."""
    with where.open("rb") as packed:
        magic = packed.read(6)
        packed.seek(0)
        if magic.startswith(b"\x28\xb5\x2f\xfd"):
            with _zstandard(packed) as plain:
                yield plain
        elif magic.startswith(b"\x1f\x8b"):
            with gzip.GzipFile(fileobj=packed) as plain_gz:
                yield plain_gz
        elif magic.startswith(b"BZh"):
            with bz2.BZ2File(packed) as plain_bz2:
                yield plain_bz2
        elif magic.startswith(b"\xfd7zXZ\x00"):
            with lzma.LZMAFile(packed) as plain_xz:
                yield plain_xz
        else:
            yield packed


def _zstandard(packed: BinaryIO) -> Any:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]

        return zstd.ZstdFile(packed)
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError as error:
        raise BadArchive(
            'a .tar.zst needs Python 3.14 or the package zstandard: pip install "assay[zst]"'
        ) from error
    return zstandard.ZstdDecompressor().stream_reader(
        packed, read_across_frames=True, closefd=False
    )
