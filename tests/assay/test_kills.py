"""Commands ended at random moments by INT, TERM and KILL: nothing lost, left over or claimed.

A few moments for each by default; ASSAY_KILLS=50 for as many as a release is tried with.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checker.accuracy.truncate import MARK
from schemas.report import decode
from tests.checker.test_archive import pack
from tests.conftest import Grow
from tests.trees import GoodTree

ROOT = Path(__file__).parents[2]
MOMENTS = int(os.environ.get("ASSAY_KILLS", "4"))
RUNS = MOMENTS if "ASSAY_KILLS" in os.environ else 1
"""A measurement takes seconds."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
DEMO: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "datacenter"}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


class Victim:
    """A command that can be killed, and the processes that carry its mark."""

    def __init__(self, scratch: Path, *arguments: str) -> None:
        scratch.mkdir(exist_ok=True)
        self.scratch = scratch
        self.mark = f"ASSAY_MARK={scratch}"
        self.command = [sys.executable, "-P", "-m", "assay", *arguments]
        self.environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch), "ASSAY_MARK": str(scratch),
            "PYTHONFAULTHANDLER": "1",
        }  # fmt: skip

    def run(self) -> float:
        """To its end; how long it took in seconds."""
        began = time.monotonic()
        done = subprocess.run(self.command, env=self.environment, capture_output=True, timeout=300)
        assert done.returncode in (0, 1), done.stderr
        return time.monotonic() - began

    def kill(self, number: int, after: float) -> int:
        """Start, send a signal after so many seconds, wait for the end of all; exit status."""
        said = self.scratch.with_name(f"{self.scratch.name}.stderr")
        with said.open("wb") as stderr:
            process = subprocess.Popen(
                self.command, env=self.environment, stdout=subprocess.DEVNULL, stderr=stderr
            )
        time.sleep(after)
        process.send_signal(number)
        status = process.wait(timeout=300)
        assert status >= 0 or status == -number, (
            f"ended by signal {-status}, not {number}, which came after {after:.4f} s:\n"
            f"{said.read_text(errors='replace')}"
        )
        for _ in range(500):
            if not self.left():
                break
            time.sleep(0.02)
        else:
            raise AssertionError(f"processes are left: {self.left()}")
        return status

    def left(self) -> list[str]:
        """Processes of the command that still run."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (place / "environ").read_bytes().split(b"\0"):
                    found.append((place / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        return [text for text in found if text]


def alone(output: Path, number: int) -> None:
    """Nothing is beside a file that a command replaces. KILL may come between the moment in which the
    new file gets a name and the one in which it gets this one; the next command replaces it."""
    part = output.with_name(f".{output.name}.part")
    if number == signal.SIGKILL:
        part.unlink(missing_ok=True)
    assert list(output.parent.iterdir()) == [output]


def _each(victim: Victim, after: Callable[[int], None], seed: int) -> None:
    """Kill at random moments, and see after each."""
    length = victim.run()
    chance = random.Random(seed)
    for number in SIGNALS:
        for _ in range(MOMENTS):
            status = victim.kill(number, chance.uniform(0, length * 1.05))
            assert status in (0, 1, 128 + number, -number)
            after(number)


def test_check_of_an_archive(grow: Grow, tmp_path: Path) -> None:
    packed = pack(grow(**DEMO).root, tmp_path / "mine.tar.gz")
    output = tmp_path / "out" / "report.json"
    output.parent.mkdir()
    victim = Victim(
        tmp_path / "scratch", "check", str(packed), "--jobs", "2", "--output", str(output)
    )

    def after(number: int) -> None:
        if number != signal.SIGKILL:
            assert list(victim.scratch.iterdir()) == []
        decode(output.read_bytes())
        alone(output, number)

    _each(victim, after, 1)
    victim.run()
    assert list(victim.scratch.iterdir()) == [], "the next check removes what a killed one left"


def test_check_of_a_folder(grow: Grow, tmp_path: Path) -> None:
    """What a killed check remembered is right: the next one reports the same with it."""
    tree = grow(**DEMO)
    output, cache = tmp_path / "out" / "report.json", tmp_path / "cache"
    output.parent.mkdir()
    for place in tree.root.rglob("*"):
        os.utime(place, (1e9, 1e9))
    time.sleep(2.1)  # a file that has just changed is not remembered
    victim = Victim(
        tmp_path / "scratch", "check", str(tree.root), "--jobs", "2", "--output", str(output)
    )
    victim.environment["XDG_CACHE_HOME"] = str(cache)
    victim.run()
    expected = output.read_bytes()

    def after(number: int) -> None:
        assert output.read_bytes() == expected
        alone(output, number)
        assert list(victim.scratch.iterdir()) == []
        parts = [p for p in cache.rglob(".*") if p.is_file()]
        assert number == signal.SIGKILL or parts == []
        if not cache.exists():
            return
        victim.run()
        assert output.read_bytes() == expected
        shutil.rmtree(cache)  # the next one is killed while it makes its own

    _each(victim, after, 5)


def test_explain(grow: Grow, tmp_path: Path) -> None:
    tree = grow(**DEMO)
    key = tree.check().results[0].key
    output = tmp_path / "out" / "page.html"
    output.parent.mkdir()
    victim = Victim(
        tmp_path / "scratch", "audit", str(tree.root), "--explain", key, "--output", str(output)
    )

    def after(number: int) -> None:
        assert output.read_text().rstrip().endswith("</html>")
        alone(output, number)
        assert list(victim.scratch.iterdir()) == []

    _each(victim, after, 6)


def test_report(grow: Grow, tmp_path: Path) -> None:
    from schemas.report import encode

    saved, page = tmp_path / "report.json", tmp_path / "out" / "report.html"
    page.parent.mkdir()
    saved.write_bytes(encode(grow(**DEMO).check()))
    victim = Victim(tmp_path / "scratch", "report", str(saved), "--output", str(page))

    def after(number: int) -> None:
        assert page.read_text().rstrip().endswith("</html>")
        alone(page, number)

    _each(victim, after, 2)


def test_truncate(grow: Grow, tmp_path: Path) -> None:
    tree = grow(**DEMO)
    logs = [p for p in tree.files() if p.endswith("accuracy/mlperf_log_accuracy.json")]
    for path in logs:
        content = (tree.root / path).read_bytes()
        (tree.root / path).write_bytes(content.rstrip()[:-1] + b" " * 3_000_000 + b"]\n")
        scores = (tree.root / path).with_name("accuracy.txt")
        if scores.exists():
            lines = scores.read_text().splitlines(keepends=True)
            scores.write_text("".join(line for line in lines if "hash" not in line))
    fresh = {p: (tree.root / p).read_bytes() for p in tree.files()}
    backup = tmp_path / "backup"
    victim = Victim(tmp_path / "scratch", "truncate", str(tree.root), "--backup", str(backup))

    def reset() -> None:
        shutil.rmtree(backup, ignore_errors=True)
        for path, content in fresh.items():
            (tree.root / path).write_bytes(content)

    def after(number: int) -> None:
        assert set(tree.files()) >= set(fresh), "a file is lost"
        for path in logs:
            _whole_or_kept(tree, path, fresh[path], backup)
        if not backup.exists() and all((tree.root / p).read_bytes() == fresh[p] for p in fresh):
            return  # as if it had not been started
        victim.run()
        for path in logs:
            assert MARK in (tree.root / path).read_bytes()
            assert (backup / path).read_bytes() == fresh[path]
        assert not [p for p in (*tree.root.rglob("*"), *backup.rglob("*")) if ".part" in p.name]
        reset()

    reset()
    length = victim.run()
    chance = random.Random(3)
    for number in SIGNALS:
        for _ in range(MOMENTS):
            reset()
            victim.kill(number, chance.uniform(0, length * 1.05))
            after(number)


def _whole_or_kept(tree: GoodTree, path: str, content: bytes, backup: Path) -> None:
    now = (tree.root / path).read_bytes()
    assert now == content or (MARK in now and (backup / path).read_bytes() == content)


def test_run(tmp_path: Path) -> None:
    """A measurement that was ended leaves no process and no result."""
    out = tmp_path / "submission"
    victim = Victim(
        tmp_path / "scratch",
        "run",
        "--benchmark",
        "digits",
        "--round",
        "demo",
        "--scenario",
        "Offline",
        "--min-duration",
        "1",
        "--out",
        str(out),
        "--overwrite",
        "--no-progress",
    )
    length = victim.run()
    chance = random.Random(4)
    for number in SIGNALS:
        for _ in range(RUNS):
            shutil.rmtree(out, ignore_errors=True)
            shutil.rmtree(out.with_name("submission.runs"), ignore_errors=True)
            victim.kill(number, chance.uniform(0.2, length * 0.9))
            results = list(out.rglob("mlperf_log_detail.txt")) if out.exists() else []
            assert {p.parent.parent.name for p in results} in (set(), {"performance", "Offline"}), (
                "half a result"
            )
            lock = out.with_name("submission.lock")
            assert number == signal.SIGKILL or not lock.exists()
    victim.run()  # whatever was left is no hindrance
