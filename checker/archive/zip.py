"""Zip archives: what the central directory lists, each member once, nothing else."""

from __future__ import annotations

import stat
import struct
import zipfile
from pathlib import Path

from checker.archive.members import BadArchive, Folder, Limits

_END = b"PK\x05\x06"
_END_SIZE = 22
_MAX_COMMENT = 0xFFFF
_BYTES_PER_ENTRY = 512


def unzip(where: Path, folder: Folder, limits: Limits) -> None:
    """Unpack; raises BadArchive for an archive that is damaged or is beyond a limit."""
    packed = where.stat().st_size
    _bounded_directory(where, packed, limits)
    with zipfile.ZipFile(where) as archive:
        members = archive.infolist()
        limits.check(len(members), sum(m.file_size for m in members), packed)
        for member in members:
            name = member.filename
            kind = stat.S_IFMT(member.external_attr >> 16)
            if not name:
                folder.refuse(name, "has no name; it was not unpacked")
            elif "\\" in name:
                folder.refuse(name, "has a backslash in its path; it was not unpacked")
            elif kind == stat.S_IFLNK:
                folder.refuse(name, "is a symbolic link; it was not unpacked")
            elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                folder.refuse(name, "is a device or a pipe; it was not unpacked")
            elif member.flag_bits & 1:
                folder.refuse(name, "is encrypted; it was not unpacked")
            elif member.is_dir():
                folder.add_folder(name)
            else:
                with archive.open(member) as source:
                    kept = folder.add_file(name, member.file_size, source.read)
                    if kept and source.read(1):  # at the end the checksum is compared
                        raise BadArchive(f"the archive is damaged: '{name}' is larger than stated")


def _bounded_directory(where: Path, packed: int, limits: Limits) -> None:
    """The library reads the list of members at once: see first that it is no larger than it may be."""
    with where.open("rb") as stream:
        stream.seek(max(0, packed - _END_SIZE - _MAX_COMMENT))
        tail = stream.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_SIZE:
        raise BadArchive("the archive is cut, or not a zip file")
    (size,) = struct.unpack("<L", tail[at + 12 : at + 16])
    if size == 0xFFFFFFFF:  # then a 64-bit record has it; the whole file is a bound
        size = packed
    if size > min(limits.files, 2_000_000) * _BYTES_PER_ENTRY:
        raise BadArchive(f"the archive has a list of members of {size:,} bytes: too many members")
