"""TREE as an archive: unpacked into a temporary folder, bounded, nothing outside it touched."""

from __future__ import annotations

import lzma
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from schemas.report import Finding

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".zip")
MAX_FILES = 2_000_000
MAX_BYTES = 200 * 1024**3
MAX_RATIO = 200
_SLACK = 64 * 1024 * 1024


class BadArchive(ValueError):
    """The archive cannot be unpacked; the message says why."""


@contextmanager
def opened(where: Path) -> Iterator[tuple[Path, list[Finding]]]:
    """The folder to check: ``where`` itself, or the archive's content in a temporary folder.

    Raises BadArchive for a file that is no readable archive. Members that would leave the tree,
    devices and the like are left out and reported as findings.
    """
    if where.is_dir():
        yield where, []
        return
    if not where.name.lower().endswith(SUFFIXES):
        raise BadArchive(f"{where} is neither a folder nor an archive ({', '.join(SUFFIXES)})")
    with tempfile.TemporaryDirectory(prefix="assay-") as name:
        # What stands at the archive's top is named after the archive, as its folder would be.
        target = Path(name) / _stem(where.name)
        target.mkdir()
        try:
            if where.name.lower().endswith(".zip"):
                findings = _unzip(where, target)
            else:
                findings = _untar(where, target)
        except (
            tarfile.TarError,
            zipfile.BadZipFile,
            EOFError,
            OSError,
            ValueError,
            NotImplementedError,
            RuntimeError,
            lzma.LZMAError,
            zlib.error,
        ) as error:
            if isinstance(error, BadArchive):
                raise
            raise BadArchive(f"{where} cannot be unpacked: {error}") from error
        yield _inner(target), findings


def _stem(name: str) -> str:
    low = name.lower()
    suffix = max((s for s in SUFFIXES if low.endswith(s)), key=len)
    return name[: -len(suffix)] or "archive"


def _inner(folder: Path) -> Path:
    """The folder that holds something: archives are often made of one folder around the tree."""
    for _ in range(3):
        entries = list(folder.iterdir())
        if len(entries) != 1 or not entries[0].is_dir() or entries[0].is_symlink():
            break
        if entries[0].name in ("closed", "open", "network"):
            break
        folder = entries[0]
    return folder


def _bounded(count: int, size: int, packed: int, where: Path) -> None:
    if count > MAX_FILES:
        raise BadArchive(f"{where} holds more than {MAX_FILES} files")
    if size > MAX_BYTES or size > _SLACK + packed * MAX_RATIO:
        raise BadArchive(
            f"{where} unpacks to {size} bytes or more from {packed}; unpack it by hand if it is to be trusted"
        )


def _refused(name: str, why: str) -> Finding:
    safe = name.encode("utf-8", "backslashreplace").decode("utf-8")[:300]
    return Finding(
        "X005", "archive-member-refused", "error", f"archive member {safe!r} {why}; it was not unpacked",
        ".", fix="pack the tree again with plain files and relative paths inside it",
    )  # fmt: skip


def _untar(where: Path, target: Path) -> list[Finding]:
    findings: list[Finding] = []
    packed = where.stat().st_size
    count = size = 0
    with tarfile.open(where) as archive:
        for member in archive:
            count += 1
            size += max(member.size, 0)
            _bounded(count, size, packed, where)
            try:
                safe = tarfile.data_filter(member, str(target))
            except tarfile.FilterError as error:
                findings.append(_refused(member.name, f"is unsafe ({type(error).__name__})"))
                continue
            try:
                archive.extract(safe, target, filter="data")
            except (tarfile.FilterError, OSError) as error:
                findings.append(_refused(member.name, f"cannot be unpacked ({error})"))
    return findings


def _unzip(where: Path, target: Path) -> list[Finding]:
    findings: list[Finding] = []
    packed = where.stat().st_size
    with zipfile.ZipFile(where) as archive:
        members = archive.infolist()
        _bounded(len(members), sum(m.file_size for m in members), packed, where)
        for member in members:
            path = PurePosixPath(member.filename)
            mode = member.external_attr >> 16
            if path.is_absolute() or ".." in path.parts or "\\" in member.filename:
                findings.append(_refused(member.filename, "leaves the tree"))
                continue
            if stat.S_ISLNK(mode):
                findings.append(_refused(member.filename, "is a symbolic link"))
                continue
            if member.flag_bits & 1:
                findings.append(_refused(member.filename, "is encrypted"))
                continue
            goal = target / path
            try:
                if member.is_dir():
                    goal.mkdir(parents=True, exist_ok=True)
                    continue
                goal.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, goal.open("wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
            except (OSError, zipfile.BadZipFile, ValueError) as error:
                findings.append(_refused(member.filename, f"cannot be unpacked ({error})"))
    return findings
