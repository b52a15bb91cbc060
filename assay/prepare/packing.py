"""A tree as one archive that anybody can make again byte by byte, with manifest and report beside it.

Members are in the order of their paths, with neither times nor owners: the same tree gives the same
archive, as long as the compressor is of the same version. Encryption is left to age or openssl.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from checker.parse.reading import File, Unreadable, list_tree, open_file
from schemas.manifest import Manifest, Packed, encode
from schemas.report import Report
from schemas.report import encode as encode_report
from schemas.writing import new_file, write_file

SUFFIXES = (".tar.gz", ".tar.zst")
Progress = Callable[[int, int], None]

_GZIP_LEVEL = 6
_ZSTD_LEVEL = 10


class CannotPack(RuntimeError):
    """The archive cannot be made; there is none. The message says why."""


@dataclass(frozen=True, slots=True)
class Archive:
    """What was written: the archive, its manifest and the report of the check."""

    path: Path
    manifest: Path
    report: Path
    sha256: str
    bytes: int
    files: int


def manifest_of(archive: Path) -> Path:
    """Where an archive's manifest is: beside it."""
    return archive.with_name(f"{archive.name}.manifest.json")


def report_of(archive: Path) -> Path:
    """Where the report of the packed tree is: beside it."""
    return archive.with_name(f"{archive.name}.report.json")


def pack(tree: Path, archive: Path, report: Report, progress: Progress | None = None) -> Archive:
    """Write ``archive`` (``.tar.gz`` or ``.tar.zst``), its manifest and its report.

    ``progress`` counts bytes. The archive gets its name last, when all three are complete. Raises
    CannotPack or OSError, and leaves no archive.
    """
    refuse(tree, archive)
    files = sorted(list_tree(tree).all_files(), key=lambda file: file.path)
    odd = [file for file in files if file.state != "file"]
    if odd:
        raise CannotPack(f"{odd[0].path} is not a file that can be packed; run assay prepare")
    if not files:
        raise CannotPack(f"{tree}: found no file to pack")
    total = sum(file.size for file in files)
    packed: list[Packed] = []
    with _described(archive), new_file(archive) as stream:
        counted = _Counted(stream)
        done = 0
        with (
            _compressed(counted, archive) as plain,
            tarfile.open(
                fileobj=plain, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8"
            ) as tar,
        ):
            for file in files:
                packed.append(_add(tar, file))
                done += file.size
                if progress:
                    progress(done, total)
        manifest = Manifest(
            archive=archive.name,
            sha256=counted.digest.hexdigest(),
            bytes=counted.count,
            round=report.round or "",
            checked=report.summary.errors == 0,
            files=packed,
        )
        write_file(manifest_of(archive), encode(manifest))
        write_file(report_of(archive), encode_report(report))
    return Archive(
        path=archive,
        manifest=manifest_of(archive),
        report=report_of(archive),
        sha256=manifest.sha256,
        bytes=manifest.bytes,
        files=len(files),
    )


def refuse(tree: Path, archive: Path) -> None:
    """Raises CannotPack where an archive cannot have that name: better before the check than after."""
    if not archive.name.lower().endswith(SUFFIXES):
        raise CannotPack(f"{archive}: the name ends in {' or '.join(SUFFIXES)}")
    if os.path.lexists(archive):
        raise CannotPack(f"{archive} exists already; give a name that is free")
    if not archive.absolute().parent.is_dir():
        raise CannotPack(f"found no folder {archive.absolute().parent}; create it first")
    source = os.path.realpath(tree)
    if os.path.realpath(archive).startswith(source.rstrip(os.sep) + os.sep):
        raise CannotPack("the archive must be outside TREE")


@contextmanager
def _described(archive: Path) -> Iterator[None]:
    """Where the archive does not come about, its manifest and report go too."""
    own = [path for path in (manifest_of(archive), report_of(archive)) if not path.exists()]
    try:
        yield
    except BaseException:
        if not os.path.lexists(archive):
            for path in own:
                path.unlink(missing_ok=True)
        raise


class _Counted(io.RawIOBase):
    """Passes on what is written, and hashes it."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self.stream = stream
        self.digest = hashlib.sha256()
        self.count = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self.count += len(data)
        self.stream.write(data)
        return len(data)


@contextmanager
def _compressed(stream: _Counted, archive: Path) -> Iterator[Any]:
    if archive.name.lower().endswith(".gz"):
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, stream, mtime=0) as plain:
            yield plain
        return
    try:
        import zstandard
    except ImportError as error:
        raise CannotPack(
            "a .tar.zst needs the package zstandard: pip install 'assay[zst]'"
        ) from error
    compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)
    writer: Any = compressor.stream_writer(stream, closefd=False)  # type: ignore[arg-type]
    with writer as plain:
        yield plain


class _Hashed(io.RawIOBase):
    """What is read of a file, and its hash."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self.stream = stream
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(size)
        self.digest.update(data)
        return data


def _add(tar: tarfile.TarFile, file: File) -> Packed:
    """Add one member: no owner, no time, and of the mode only whether it can be executed."""
    try:
        handle = open_file(file)
    except Unreadable as error:
        raise CannotPack(f"{file.path}: {error}") from error
    with os.fdopen(handle, "rb") as stream:
        status = os.fstat(stream.fileno())
        member = tarfile.TarInfo(file.path)
        member.size = status.st_size
        member.mode = 0o755 if status.st_mode & 0o100 else 0o644
        hashed = _Hashed(stream)
        try:
            tar.addfile(member, hashed)
        except OSError as error:
            if error.errno is None:
                raise CannotPack(f"{file.path} changed while it was packed") from error
            raise
        if status.st_size != file.size or stream.read(1):
            raise CannotPack(f"{file.path} changed while it was packed")
    return Packed(file.path, file.size, hashed.digest.hexdigest())


# --- encryption -----------------------------------------------------------------------------------


def encrypt_for(archive: Path, recipient: str) -> Path:
    """The archive as ``NAME.age``, for a recipient's public key. Raises CannotPack."""
    return _encrypted(archive, ".age", "age", ["--encrypt", "--recipient", recipient])


def encrypt_with(archive: Path, passphrase: Path) -> Path:
    """The archive as ``NAME.enc``, AES-256 with the first line of a file as passphrase.

    To decrypt: ``openssl enc -d -aes-256-cbc -pbkdf2 -iter 600000 -md sha256 -pass file:FILE``.
    Raises CannotPack.
    """
    if not passphrase.is_file():
        raise CannotPack(f"{passphrase}: no such file")
    options = ["enc", *_CIPHER, "-salt", "-pass", f"file:{passphrase}"]
    return _encrypted(archive, ".enc", "openssl", options)


_CIPHER = ("-aes-256-cbc", "-pbkdf2", "-iter", "600000", "-md", "sha256")


def _encrypted(archive: Path, suffix: str, program: str, options: list[str]) -> Path:
    found = shutil.which(program)
    if found is None:
        raise CannotPack(f"{program} is not installed; {archive} is not encrypted")
    target = archive.with_name(archive.name + suffix)
    if os.path.lexists(target):
        raise CannotPack(f"{target} exists already; {archive} is not encrypted")
    with archive.open("rb") as plain, new_file(target) as stream:
        done = subprocess.run(
            [found, *options], stdin=plain, stdout=stream, stderr=subprocess.PIPE, check=False
        )
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()[:300]
            raise CannotPack(f"{program} failed ({said}); {archive} is not encrypted")
    return target
