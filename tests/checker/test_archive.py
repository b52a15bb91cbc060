"""TREE as an archive: the same report as of the folder, nothing written outside, bounded."""

from __future__ import annotations

import io
import os
import shutil
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from checker import archive
from checker.archive import BadArchive
from checker.engine import Options, check
from schemas.report import encode
from tests.conftest import Grow
from tests.trees import GoodTree

DEMO: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "datacenter"}
SUFFIXES = [".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".zip"]
_MODES = {".tar": "w", ".tar.gz": "w:gz", ".tgz": "w:gz", ".tar.xz": "w:xz", ".tar.bz2": "w:bz2"}


def pack(source: Path, target: Path, top: str = "") -> Path:
    """An archive of a folder's content, below ``top``."""
    suffix = next(s for s in sorted(SUFFIXES, key=len, reverse=True) if target.name.endswith(s))
    files = sorted(p for p in source.rglob("*") if p.is_file())
    if suffix == ".zip":
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in files:
                packed.write(path, f"{top}{path.relative_to(source).as_posix()}")
    else:
        with tarfile.open(target, _MODES[suffix]) as tar:
            for path in files:
                tar.add(path, f"{top}{path.relative_to(source).as_posix()}")
    return target


def _broken(grow: Grow) -> GoodTree:
    tree = grow(**DEMO)
    tree.set_log(tree.result("Offline").detail, "effective_min_duration_ms", 1)
    return tree


def _told(path: Path) -> list[tuple[Any, ...]]:
    report = check(path, Options(jobs=1))
    rows = [(r.submitter, r.system, r.scenario, r.status, r.path) for r in report.results]
    return [*rows, *((f.rule, f.path, f.line, f.message) for f in report.findings)]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_same_report_as_the_folder(suffix: str, grow: Grow, tmp_path: Path) -> None:
    tree = _broken(grow)
    packed = pack(tree.root, tmp_path / f"mine{suffix}")
    assert _told(packed) == _told(tree.root)
    assert encode(check(packed, Options(jobs=1))) == encode(check(packed, Options(jobs=2)))


@pytest.mark.parametrize("suffix", [".tar.gz", ".zip"])
def test_with_a_folder_around(suffix: str, grow: Grow, tmp_path: Path) -> None:
    """Most people pack the folder, not its content."""
    tree = _broken(grow)
    packed = pack(tree.root, tmp_path / f"mine{suffix}", "submission-v1/")
    assert _told(packed) == _told(tree.root)


@pytest.mark.parametrize("top", ["", "Acme/"])
def test_a_submitters_folder(top: str, grow: Grow, tmp_path: Path) -> None:
    tree = _broken(grow)
    packed = pack(tree.root / tree.base, tmp_path / "Acme.tar.gz", top)
    report = check(packed, Options(jobs=1))
    assert report.scope == "submitter"
    assert [(r.submitter, r.scenario, r.status) for r in report.results] == [
        ("Acme", "Offline", "invalid"), ("Acme", "Server", "valid"),
    ]  # fmt: skip


def test_unsafe_members_are_refused(grow: Grow, tmp_path: Path) -> None:
    """X005: links and paths that leave the tree, devices, absolute names; the rest is checked."""
    tree = grow(**DEMO)
    packed = pack(tree.root, tmp_path / "mine.tar")
    with tarfile.open(packed, "a") as tar:
        for name in ("../evil.txt", "/tmp/assay-evil.txt", "closed/../../evil.txt"):
            member = tarfile.TarInfo(name)
            member.size = 3
            tar.addfile(member, io.BytesIO(b"bad"))
        for name, target, kind in (
            ("closed/link", "/etc/passwd", tarfile.SYMTYPE), ("closed/up", "../../x", tarfile.SYMTYPE),
            ("closed/hard", "/etc/passwd", tarfile.LNKTYPE), ("closed/pipe", "", tarfile.FIFOTYPE),
            ("closed/dev", "", tarfile.CHRTYPE),
        ):  # fmt: skip
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            tar.addfile(member)
    before = sorted(tmp_path.iterdir())
    report = check(packed, Options(jobs=1))
    refused = [f for f in report.findings if f.rule == "X005"]
    assert {f.message.split("'")[1] for f in refused} >= {
        "../evil.txt", "closed/../../evil.txt", "closed/link", "closed/up", "closed/hard", "closed/pipe", "closed/dev",
    }  # fmt: skip
    assert report.failed and report.summary.results == 2
    assert sorted(tmp_path.iterdir()) == before and not (tmp_path.parent / "evil.txt").exists()
    assert not Path("/tmp/assay-evil.txt").exists()


def test_unsafe_members_of_zip_files(grow: Grow, tmp_path: Path) -> None:
    tree = grow(**DEMO)
    packed = pack(tree.root, tmp_path / "mine.zip")
    with zipfile.ZipFile(packed, "a") as archive_:
        archive_.writestr("../evil.txt", "bad")
        archive_.writestr("/tmp/assay-evil.txt", "bad")
        archive_.writestr("closed\\..\\evil.txt", "bad")
        link = zipfile.ZipInfo("closed/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive_.writestr(link, "/etc/passwd")
    report = check(packed, Options(jobs=1))
    assert len([f for f in report.findings if f.rule == "X005"]) >= 3
    assert report.summary.results == 2 and not (tmp_path.parent / "evil.txt").exists()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("damage", ["empty", "cut", "random", "middle"])
def test_damaged_archives(suffix: str, damage: str, grow: Grow, tmp_path: Path) -> None:
    """A damaged archive is refused in words (or, where its parts can be read, judged)."""
    tree = grow(**DEMO)
    packed = pack(tree.root, tmp_path / f"mine{suffix}")
    content = packed.read_bytes()
    half = len(content) // 2
    packed.write_bytes(
        {
            "empty": b"", "cut": content[:half], "random": os.urandom(2000),
            "middle": content[:half] + bytes(b ^ 0x55 for b in content[half : half + 400]) + content[half + 400 :],
        }[damage]
    )  # fmt: skip
    try:
        report = check(packed, Options(jobs=1))
    except BadArchive as error:
        assert packed.name in str(error)
    else:
        assert report.failed or (damage == "middle" and suffix in (".tar", ".zip"))
        assert not [f for f in report.findings if f.rule == "X001"]


def test_not_an_archive(tmp_path: Path) -> None:
    place = tmp_path / "notes.txt"
    place.write_text("x")
    with pytest.raises(BadArchive, match="neither a folder nor an archive"):
        check(place)


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_SLACK", 1 << 20)
    packed = tmp_path / "bomb.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        member = tarfile.TarInfo("closed/a/zeros")
        member.size = 50 << 20
        tar.addfile(member, io.BytesIO(b"\0" * (50 << 20)))
    with pytest.raises(BadArchive, match="unpacks to"):
        check(packed)
    packed = tmp_path / "bomb.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("closed/a/zeros", b"\0" * (50 << 20))
    with pytest.raises(BadArchive, match="unpacks to"):
        check(packed)
    monkeypatch.setattr(archive, "MAX_FILES", 3)
    packed = tmp_path / "many.tar"
    with tarfile.open(packed, "w") as tar:
        for number in range(5):
            tar.addfile(tarfile.TarInfo(f"closed/{number}"))
    with pytest.raises(BadArchive, match="more than 3 files"):
        check(packed)


def test_nothing_is_left_behind(
    grow: Grow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = grow(**DEMO)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    check(pack(tree.root, tmp_path / "mine.tar.gz"), Options(jobs=1))
    assert list(scratch.iterdir()) == []
    shutil.rmtree(scratch)
