"""TREE as an archive: the same report as of the folder, nothing written outside, bounded."""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checker import archive
from checker.archive import BadArchive, Limits
from checker.engine import Options, check
from schemas.machine import MachineFault
from schemas.report import encode
from tests.conftest import Grow
from tests.trees import GoodTree

ROOT = Path(__file__).parents[2]
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
        ("Acme", "Offline", "invalid"),
        ("Acme", "Server", "valid"),
    ]


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
            ("closed/link", "/etc/passwd", tarfile.SYMTYPE),
            ("closed/up", "../../x", tarfile.SYMTYPE),
            ("closed/hard", "/etc/passwd", tarfile.LNKTYPE),
            ("closed/pipe", "", tarfile.FIFOTYPE),
            ("closed/dev", "", tarfile.CHRTYPE),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            tar.addfile(member)
    before = sorted(tmp_path.iterdir())
    report = check(packed, Options(jobs=1))
    refused = [f for f in report.findings if f.rule == "X005"]
    assert {f.message.split("'")[1] for f in refused} >= {
        "../evil.txt",
        "closed/../../evil.txt",
        "closed/link",
        "closed/up",
        "closed/hard",
        "closed/pipe",
        "closed/dev",
    }
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
            "empty": b"",
            "cut": content[:half],
            "random": os.urandom(2000),
            "middle": content[:half]
            + bytes(b ^ 0x55 for b in content[half : half + 400])
            + content[half + 400 :],
        }[damage]
    )
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
    small = Limits(free_bytes=1 << 20)
    packed = tmp_path / "bomb.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        member = tarfile.TarInfo("closed/a/zeros")
        member.size = 50 << 20
        tar.addfile(member, io.BytesIO(b"\0" * (50 << 20)))
    assert "unpacks to more than" in _refusal(packed, small)
    with archive.opened(packed, Limits(ratio=None)) as (folder, findings):
        assert findings == [] and (folder / "closed/a/zeros").stat().st_size == 50 << 20
    packed = tmp_path / "bomb.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("closed/a/zeros", b"\0" * (50 << 20))
    assert "unpacks to more than" in _refusal(packed, small)
    packed = tmp_path / "many.tar"
    with tarfile.open(packed, "w") as tar:
        for number in range(5):
            tar.addfile(tarfile.TarInfo(f"closed/{number}"))
    assert "more than 3 members" in _refusal(packed, Limits(files=3))


def _refusal(packed: Path, limits: Limits | None = None) -> str:
    with pytest.raises(BadArchive) as refused, archive.opened(packed, limits):
        pass
    return str(refused.value).removeprefix(f"{packed}: ")


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


# --- what the standard library does not say ------------------------------------------------------


def _tar(path: Path, *members: tuple[str, bytes]) -> Path:
    with tarfile.open(path, _MODES["".join(path.suffixes)], format=tarfile.PAX_FORMAT) as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


THREE = [(f"closed/{name}", name.encode() * 600) for name in "abc"]


def _repacked(path: Path, change: Callable[[bytearray], bytes | bytearray]) -> Path:
    """A tar archive whose plain bytes are changed, under the same compression."""
    opener: Any = gzip.open if path.name.endswith(".gz") else open
    with opener(path, "rb") as stream:
        content = bytearray(stream.read())
    with opener(path, "wb") as stream:
        stream.write(change(content))
    return path


def _with_bad_checksum(content: bytearray) -> bytearray:
    content[1536] ^= 1  # the first letter of the second member's name
    return content


def _with_zeros(content: bytearray) -> bytearray:
    content[1536:2048] = bytes(512)
    return content


def _with_two_zero_blocks(content: bytearray) -> bytearray:
    content[1536:1536] = bytes(1024)
    return content


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz"])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c[:1536], "is cut: it has no end"),
        (lambda c: c[: 3 * 1536], "is cut: it has no end"),
        (lambda c: c[: 3 * 1536 + 512], "has a block of zeros before byte"),
        (lambda c: c[:2000], "is cut: it has no end"),
        (lambda c: c[:2100], "is cut: it ends in the middle of a member|ends inside its member"),
        (_with_bad_checksum, "a header's checksum is wrong"),
        (_with_zeros, "has a block of zeros before byte"),
        (_with_two_zero_blocks, "something follows the end"),
        (lambda c: c + b"x" * 512, "something follows the end"),
    ],
)
def test_an_archive_that_is_not_whole(
    change: Callable[[bytearray], bytes], says: str, suffix: str, tmp_path: Path
) -> None:
    """A2: each of these once dropped members silently."""
    packed = _repacked(_tar(tmp_path / f"mine{suffix}", *THREE), change)
    assert re.search(says, _refusal(packed))


def test_padding_is_allowed(tmp_path: Path) -> None:
    packed = _repacked(_tar(tmp_path / "mine.tar", *THREE), lambda c: c + bytes(51_200))
    with archive.opened(packed) as (folder, findings):
        assert findings == [] and (folder / "closed/c").read_bytes() == b"c" * 600


@pytest.mark.parametrize("suffix", [".tar.gz", ".zip"])
def test_a_member_that_comes_twice(suffix: str, tmp_path: Path) -> None:
    """A5: the last one counts, and a finding says so."""
    twice = [*THREE, ("closed/a", b"another"), ("./closed/a", b"third")]
    packed = tmp_path / f"mine{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(packed, "w") as zipped, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, content in twice:
                zipped.writestr(name, content)
    else:
        _tar(packed, *twice)
    with archive.opened(packed) as (folder, findings):
        assert (folder / "closed/a").read_bytes() == b"third"
    assert [(f.rule, f.severity, f.message) for f in findings] == [
        (
            "X005",
            "error",
            "archive member 'closed/a' is there more than once; the last one was kept",
        ),
        (
            "X005",
            "error",
            "archive member './closed/a' is there more than once; the last one was kept",
        ),
    ]


def test_a_full_disk_is_not_the_archives_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A3."""
    packed = _tar(tmp_path / "mine.tar", *THREE)

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with (
        pytest.raises(MachineFault, match="No space left on device; TMPDIR"),
        archive.opened(packed),
    ):
        pass


def test_long_links_are_refused(tmp_path: Path) -> None:
    """B8: a chain of long links made the standard library resolve a path wrongly (CVE-2025-4517)."""
    packed = tmp_path / "mine.tar"
    long = "d" * 247
    with tarfile.open(packed, "w", format=tarfile.PAX_FORMAT) as tar:
        path = ""
        for letter in "abcdefghijklmnop":
            folder = tarfile.TarInfo(f"{path}{long}")
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
            link = tarfile.TarInfo(f"{path}{letter}")
            link.type, link.linkname = tarfile.SYMTYPE, long
            tar.addfile(link)
            path = f"{path}{letter}/"
        link = tarfile.TarInfo(f"{path}{'l' * 254}")
        link.type, link.linkname = tarfile.SYMTYPE, "../" * 16
        tar.addfile(link)
        escape = tarfile.TarInfo("escape")
        escape.type, escape.linkname = tarfile.SYMTYPE, f"{path}{'l' * 254}/../../{tmp_path.name}"
        tar.addfile(escape)
        hard = tarfile.TarInfo("flag")
        hard.type, hard.linkname = tarfile.LNKTYPE, "escape/flag"
        tar.addfile(hard)
        member = tarfile.TarInfo("flag")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"evil"))
        member = tarfile.TarInfo("escape/new")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"evil"))
    (tmp_path / "flag").write_text("good")
    with archive.opened(packed) as (folder, findings):
        top = os.path.realpath(folder)
        for path in folder.rglob("*"):
            assert os.path.realpath(path).startswith(top)
    assert (tmp_path / "flag").read_text() == "good" and not (tmp_path / "new").exists()
    assert {f.rule for f in findings} == {"X005"}


def test_a_link_is_never_written_through(tmp_path: Path) -> None:
    """Files come first: a link to a folder cannot redirect what follows it in the archive."""
    packed = tmp_path / "mine.tar"
    with tarfile.open(packed, "w") as tar:
        link = tarfile.TarInfo("closed/x")
        link.type, link.linkname = tarfile.SYMTYPE, "../closed/y"
        tar.addfile(link)
        for name in ("closed/x/inner", "closed/y/other"):
            member = tarfile.TarInfo(name)
            member.size = 1
            tar.addfile(member, io.BytesIO(b"1"))
    with archive.opened(packed) as (folder, findings):
        assert [p.relative_to(folder).as_posix() for p in folder.rglob("inner")] == [
            "closed/x/inner"
        ]
    assert [f.message for f in findings] == [
        "archive member 'closed/x' is there more than once; the first one was kept"
    ]


def test_links_inside_the_archive(tmp_path: Path) -> None:
    packed = _tar(tmp_path / "mine.tar", *THREE)
    with tarfile.open(packed, "a") as tar:
        for name, target, kind in (
            ("closed/soft", "sub/../a", tarfile.SYMTYPE),
            ("closed/sub/up", "../b", tarfile.SYMTYPE),
            ("closed/hard", "closed/c", tarfile.LNKTYPE),
            ("closed/none", "closed/d", tarfile.LNKTYPE),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            tar.addfile(member)
    with archive.opened(packed) as (folder, findings):
        top = folder / "closed"
        assert (top / "soft").read_bytes() == b"a" * 600
        assert (top / "sub/up").read_bytes() == b"b" * 600
        assert (top / "hard").read_bytes() == b"c" * 600
    assert [f.message for f in findings] == [
        "archive member 'closed/none' is a link to a file that the archive does not have"
    ]


@pytest.mark.parametrize("kind", ["long name", "records", "shared", "sparse"])
def test_headers_are_bounded(kind: str, tmp_path: Path) -> None:
    """D13: headers alone made a small archive take gigabytes."""
    packed = tmp_path / "mine.tar"
    with tarfile.open(packed, "w", format=tarfile.PAX_FORMAT) as tar:
        if kind == "sparse":
            member = tarfile.TarInfo("closed/a")
            member.type = tarfile.GNUTYPE_SPARSE
            tar.addfile(member)
        elif kind == "shared":
            for number in range(3):
                tar.fileobj.write(  # type: ignore[union-attr]
                    tarfile.TarInfo.create_pax_global_header({f"k{number}": "x" * 600_000})
                )
            tar.addfile(tarfile.TarInfo("closed/a"))
        else:
            member = tarfile.TarInfo("closed/a" if kind == "records" else "n" * 2_000_000)
            if kind == "records":
                member.pax_headers = {"comment": "x" * 2_000_000}
            else:
                tar.format = tarfile.GNU_FORMAT
            tar.addfile(member)
    assert re.search(
        r"has a header of 2,000,\d+ bytes|shared headers are over|sparse member", _refusal(packed)
    )


def test_what_a_killed_process_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next archive's folder is made in a tidy place; what another process uses stays."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    packed = _tar(tmp_path / "mine.tar", *THREE)
    code = (
        "import sys, tempfile, os, signal\nfrom pathlib import Path\nfrom checker.archive import opened\n"
        "tempfile.tempdir = sys.argv[2]\nwith opened(Path(sys.argv[1])):\n os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(packed), str(scratch)], cwd=ROOT)
    assert len(list(scratch.iterdir())) == 1
    with archive.opened(packed):
        assert len(list(scratch.iterdir())) == 1
        with archive.opened(packed):
            assert len(list(scratch.iterdir())) == 2
    assert list(scratch.iterdir()) == []


def test_zstandard(grow: Grow, tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    tree = _broken(grow)
    plain = pack(tree.root, tmp_path / "mine.tar").read_bytes()
    packed = tmp_path / "mine.tar.zst"
    packed.write_bytes(zstandard.ZstdCompressor().compress(plain))
    assert _told(packed) == _told(tree.root)
    content = packed.read_bytes()
    packed.write_bytes(content[: len(content) // 2])
    assert re.search("is cut|incomplete", _refusal(packed))


def test_limits_from_the_command_line(grow: Grow, tmp_path: Path, capsys: Any) -> None:
    from assay.cli import main

    packed = str(pack(grow(**DEMO).root, tmp_path / "mine.tar.gz"))
    assert main(["check", packed, "--jobs", "1", "--unpack-files", "3"]) == 2
    assert "has more than 3 members; --unpack-files N allows more" in capsys.readouterr().err
    assert main(["check", packed, "--jobs", "1", "--unpack-limit", "10K"]) == 2
    assert "unpacks to more than 10,240;" in capsys.readouterr().err
    assert main(["check", packed, "--jobs", "1", "--unpack-limit", "1G"]) == 0
