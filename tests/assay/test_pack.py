"""`assay pack`: the archive, its manifest and report, and what `assay check --manifest` finds."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from assay import cli
from assay.prepare.packing import CannotPack, manifest_of, pack, report_of
from schemas.manifest import BadManifest, decode
from schemas.report import decode as decode_report
from tests.conftest import Grow
from tests.trees import GoodTree


def tree_of(grow: Grow) -> GoodTree:
    return grow(round="demo", benchmark="digits", category="datacenter")


def _packed(tree: GoodTree, out: Path, *options: str) -> int:
    return cli.main(["pack", str(tree.root), "--out", str(out), "--round", "demo", *options])


def _check(out: Path, *options: str) -> int:
    return cli.main(["check", str(out), "--round", "demo", "--jobs", "1", "--manifest", *options])


@pytest.mark.parametrize("suffix", [".tar.gz", ".tar.zst"])
def test_packed_and_checked(
    grow: Grow, tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if suffix == ".tar.zst":
        pytest.importorskip("zstandard")
    tree, out = tree_of(grow), tmp_path / f"s{suffix}"
    assert _packed(tree, out) == 0
    manifest = decode(manifest_of(out).read_bytes())
    assert [p.path for p in manifest.files] == tree.files()
    for packed in manifest.files:
        data = (tree.root / packed.path).read_bytes()
        assert (packed.bytes, packed.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert manifest.sha256 == hashlib.sha256(out.read_bytes()).hexdigest()
    assert (manifest.bytes, manifest.checked, manifest.round) == (out.stat().st_size, True, "demo")
    assert decode_report(report_of(out).read_bytes()).summary.errors == 0
    assert _check(out) == 0
    assert "looks OK: 2 of 2 results valid; 0 errors" in capsys.readouterr().out


def test_the_same_tree_gives_the_same_archive(grow: Grow, tmp_path: Path) -> None:
    tree, one, other = tree_of(grow), tmp_path / "one.tar.gz", tmp_path / "other.tar.gz"
    assert _packed(tree, one) == 0
    copy = tmp_path / "copy"
    shutil.copytree(tree.root, copy)
    for path in sorted(copy.rglob("*"), reverse=True):
        path.touch()
    tree.root = copy
    assert _packed(tree, other) == 0
    assert one.read_bytes() == other.read_bytes()
    assert manifest_of(one).read_text().replace("one.", "other.") == manifest_of(other).read_text()
    with tarfile.open(one) as archive:
        assert {(m.mtime, m.uid, m.gid, m.uname, m.mode) for m in archive} == {(0, 0, 0, "", 0o644)}


def test_what_does_not_check_is_not_packed(
    grow: Grow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree, out = tree_of(grow), tmp_path / "s.tar.gz"
    tree.set_log(tree.result().detail, "result_validity", "INVALID")
    assert _packed(tree, out) == 1
    assert "not packed" in capsys.readouterr().err
    assert list(tmp_path.glob("s.tar.gz*")) == []
    assert _packed(tree, out, "--anyway") == 1
    assert decode(manifest_of(out).read_bytes()).checked is False


def _repacked(out: Path, change: dict[str, bytes | None]) -> None:
    """The archive again, with members changed, added or taken out (None)."""
    data = io.BytesIO()
    with tarfile.open(out) as old, tarfile.open(fileobj=data, mode="w") as new:
        members = {m.name: old.extractfile(m).read() for m in old if m.isfile()}  # type: ignore[union-attr]
        for name, content in {**members, **change}.items():
            if content is not None:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                new.addfile(member, io.BytesIO(content))
    out.write_bytes(gzip.compress(data.getvalue()))


def test_a_changed_archive_is_found(grow: Grow, tmp_path: Path) -> None:
    tree, out = tree_of(grow), tmp_path / "s.tar.gz"
    assert _packed(tree, out) == 0
    readme = f"{tree.base}/{tree.round.layout.code[0]}/digits/main/README.md"
    notes = f"{tree.base}/documentation/notes.md"
    calibration = f"{tree.base}/documentation/calibration.md"
    _repacked(out, {readme: b"# other\n", notes: b"new\n", calibration: None})
    report = tmp_path / "report.json"
    assert _check(out, str(manifest_of(out)), "--output", str(report)) == 1
    found = decode_report(report.read_bytes()).findings
    assert [(f.path, f.severity, f.count) for f in found if f.rule == "X009"] == [
        (calibration, "error", 1),
        (notes, "error", 1),
        (readme, "error", 1),
    ]


def test_a_folder_is_held_against_a_manifest_too(grow: Grow, tmp_path: Path) -> None:
    tree, out = tree_of(grow), tmp_path / "s.tar.gz"
    assert _packed(tree, out) == 0
    command = ["check", str(tree.root), "--round", "demo", "--jobs", "1"]
    assert cli.main([*command, "--manifest", str(manifest_of(out))]) == 0
    tree.append(tree.system_path, "\n")
    assert cli.main([*command, "--manifest", str(manifest_of(out))]) == 1


def test_what_is_no_manifest(grow: Grow, tmp_path: Path) -> None:
    tree, out = tree_of(grow), tmp_path / "s.tar.gz"
    assert _packed(tree, out) == 0
    with pytest.raises(BadManifest, match="version 2"):
        decode(
            manifest_of(out).read_bytes().replace(b'"format_version": 1', b'"format_version": 2')
        )
    manifest_of(out).write_text("{}")
    assert _check(out) == 2
    manifest_of(out).unlink()
    assert _check(out) == 2


def test_refused(grow: Grow, tmp_path: Path) -> None:
    tree = tree_of(grow)
    report = tree.check(round="demo")
    taken = tmp_path / "taken.tar.gz"
    taken.write_text("mine")
    for out, why in (
        (taken, "exists already"),
        (tmp_path / "s.zip", "ends in"),
        (tree.root / "s.tar.gz", "outside TREE"),
        (tmp_path / "no" / "s.tar.gz", "no folder"),
    ):
        with pytest.raises(CannotPack, match=why):
            pack(tree.root, out, report)
    assert taken.read_text() == "mine"
    (tree.root / tree.base / "link").symlink_to("nowhere")
    with pytest.raises(CannotPack, match="not a file that can be packed"):
        pack(tree.root, tmp_path / "s.tar.gz", report)
    assert not (tmp_path / "s.tar.gz").exists()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_encrypted_by_openssl(
    grow: Grow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree, out, secret = tree_of(grow), tmp_path / "s.tar.gz", tmp_path / "secret"
    secret.write_text("correct horse\n")
    assert _packed(tree, out, "--openssl-passphrase", str(secret)) == 0
    whole = Path(f"{out}.enc").read_bytes()
    assert f"SHA-1 {hashlib.sha1(whole).hexdigest()}" in capsys.readouterr().out
    plain = subprocess.run(
        [
            "openssl",
            "enc",
            "-d",
            "-aes-256-cbc",
            "-pbkdf2",
            "-iter",
            "600000",
            "-md",
            "sha256",
            "-pass",
            f"file:{secret}",
            "-in",
            f"{out}.enc",
        ],
        capture_output=True,
        check=True,
    ).stdout
    assert plain == out.read_bytes()


def test_encrypted_by_age(
    grow: Grow, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """age itself where it is installed; without it the command says that there is none."""
    tree, out = tree_of(grow), tmp_path / "s.tar.gz"
    if shutil.which("age") is None:
        assert _packed(tree, out, "--age-recipient", "age1x") == 2
        assert "age is not installed" in capsys.readouterr().err
        assert out.exists() and not Path(f"{out}.age").exists()
        return
    key = tmp_path / "key"
    made = subprocess.run(["age-keygen", "-o", key], capture_output=True, text=True, check=True)
    recipient = made.stderr.split()[-1]
    assert _packed(tree, out, "--age-recipient", recipient) == 0
    plain = subprocess.run(["age", "-d", "-i", key, f"{out}.age"], capture_output=True, check=True)
    assert plain.stdout == out.read_bytes()


def test_from_a_runner_s_tree_to_a_verified_archive(tmp_path: Path) -> None:
    """A real measurement, untidied by hand, through prepare, check, pack and check of the archive."""
    runs, new, out = tmp_path / "runs", tmp_path / "new", tmp_path / "s.tar.gz"
    command = ["run", "--benchmark", "digits", "--scenario", "Offline", "--division", "open"]
    assert cli.main([*command, "--system", "box", "--out", str(runs), "--no-progress"]) == 0
    base = runs / "open/Assay"
    (base / "results/.DS_Store").write_text("x")
    (base / "results/box/digits/Offline").rename(base / "results/box/digits/offline")
    (base / "documentation").rename(base / "docs")
    (base / "systems/box.json").rename(base / "systems/Box.json")
    assert cli.main(["prepare", str(runs), "--round", "demo", "--out", str(new)]) == 0
    assert cli.main(["check", str(new), "--round", "demo", "--strict", "--jobs", "1"]) == 0
    assert cli.main(["pack", str(new), "--round", "demo", "--out", str(out)]) == 0
    assert cli.main(["check", str(out), "--round", "demo", "--strict", "--manifest"]) == 0
