"""TREE as an archive: unpacked into a temporary folder, bounded, nothing outside it touched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checker.archive.members import BadArchive, Folder, Limits
from schemas.machine import MachineFault, exhausted, storage
from schemas.report import Finding

__all__ = ["SUFFIXES", "BadArchive", "Limits", "opened"]

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar.zst", ".zip")
_PREFIX = "assay-tree-"


@contextmanager
def opened(where: Path, limits: Limits | None = None) -> Iterator[tuple[Path, list[Finding]]]:
    """The folder to check: ``where`` itself, or the archive's content in a temporary folder.

    Raises BadArchive for a file that is not an archive or is not whole, and MachineFault where there is
    no room for it. Members that would leave the tree, devices, members that come twice and the like
    are findings.
    """
    if where.is_dir():
        yield where, []
        return
    if not where.name.lower().endswith(SUFFIXES) or not where.is_file():
        raise BadArchive(f"{where} is neither a folder nor an archive ({', '.join(SUFFIXES)})")
    # Few checks unpack anything: what that takes is imported here.
    from checker.archive.tar import untar
    from checker.archive.zip import unzip
    from schemas.scratch import scratch_folder

    with scratch_folder(_PREFIX) as name:
        # What is at the archive's top is named after the archive, as its folder would be.
        target = name / _stem(where.name)
        target.mkdir()
        folder = Folder(target)
        try:
            if where.name.lower().endswith(".zip"):
                unzip(where, folder, limits or Limits())
            else:
                untar(where, folder, limits or Limits())
            folder.finish()
        except MachineFault:
            raise
        except BadArchive as error:
            raise BadArchive(f"{where}: {error}") from error
        except Exception as error:  # the libraries raise of every kind for what they do not expect
            if storage(error) or exhausted(error):
                raise MachineFault(f"{where} cannot be unpacked: {error}") from error
            raise BadArchive(f"{where} cannot be unpacked: {error}") from error
        yield _inner(target), folder.findings


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
