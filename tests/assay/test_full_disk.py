"""Every command that writes, where its folder is on a full disk: status 2, a plain message, nothing new."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.assay import test_kills_writing as writing
from tests.assay.test_kills import DEMO, ROOT
from tests.assay.test_kills_writing import OLD, Command
from tests.assay.test_prepare import MESSES
from tests.conftest import Grow

pytestmark = pytest.mark.skipif(
    shutil.which("unshare") is None,
    reason="no unshare, which gives the test a small disk of its own",
)

FULL = """
mount -t tmpfs -o size=16m tmpfs "$OUT" || exit 77
cp -a "$BEFORE/." "$OUT"
dd if=/dev/zero of="$OUT/filler" bs=4k 2>/dev/null
truncate -s -"$FREE"K "$OUT/filler"
"$@"
status=$?
rm "$OUT/filler"
cp -a "$OUT/." "$AFTER"
exit $status
"""
OWN_DISK = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", FULL, "sh"]


def prepare(grow: Grow, place: Path, out: Path) -> Command:
    tree = grow(**DEMO)
    (tree.root / tree.base / "results").rename(tree.root / tree.base / "Results")
    where = ["--round", "demo", "--out", str(out / "new")]
    return Command(arguments=["prepare", str(tree.root), *where])


def prepare_large(grow: Grow, place: Path, out: Path) -> Command:
    """Has room for whole logs, and then not for the tree."""
    tree = grow(**DEMO)
    _whole_logs(tree.root)
    where = ["--round", "demo", "--out", str(out / "new")]
    return Command(arguments=["prepare", str(tree.root), *where])


def fix(grow: Grow, place: Path, out: Path) -> Command:
    tree = grow(**DEMO)
    for name in ("Performance", "hidden", "finder"):
        MESSES[name](tree)
    shutil.copytree(tree.root, out / "submission")
    return Command(arguments=["fix", str(out / "submission"), "--round", "demo"])


def _whole_logs(root: Path) -> None:
    """As LoadGen wrote them: not yet cut, without a hash."""
    for log in root.rglob("mlperf_log_accuracy.json"):
        log.write_bytes(log.read_bytes().rstrip()[:-1] + b" " * 30_000 + b"]\n")
        scores = log.with_name("accuracy.txt")
        lines = scores.read_text().splitlines(keepends=True)
        scores.write_text("".join(line for line in lines if "hash" not in line))


def truncate(grow: Grow, place: Path, out: Path) -> Command:
    tree = grow(**DEMO)
    _whole_logs(tree.root)
    shutil.copytree(tree.root, out / "submission")
    backup = str(out / "backup")
    return Command(arguments=["truncate", str(out / "submission"), "--backup", backup])


WRITING = [make for make in writing.COMMANDS if make is not writing.accuracy]


@pytest.mark.parametrize(
    ("make", "free"),
    [
        *((make, 0) for make in (*WRITING, prepare, fix, truncate)),
        # Room for the manifest, not for the report; for a part of the model.
        (writing.pack, 40),
        (writing.quantize, 8),
        (prepare_large, 100),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_nothing_is_claimed(
    make: Callable[[Grow, Path, Path], Command], free: int, grow: Grow, tmp_path: Path
) -> None:
    place, out, before, after, scratch = (
        tmp_path / name for name in ("given", "out", "before", "after", "scratch")
    )
    for folder in (place, out, after, scratch):
        folder.mkdir()
    command = make(grow, place, out)
    for name in command.replaced:
        (out / name).write_bytes(OLD)
    out.rename(before)
    out.mkdir()
    done = subprocess.run(
        [*OWN_DISK, sys.executable, "-P", "-m", "assay", *command.arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(scratch),
            "OUT": str(out),
            "BEFORE": str(before),
            "AFTER": str(after),
            "FREE": str(free),
        },
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no disk of its own here: {done.stderr.strip()}")
    assert done.returncode == 2, done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr and "Errno" not in done.stderr
    assert _entries(after) == _entries(before)


def _entries(folder: Path) -> dict[str, bytes | None]:
    """Files with their content, and folders."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }
