"""``make bench``: what a check costs, as ratios measured in one run.

For every corpus round: files, MB, wall seconds of the command (start-up and report included) with one
job, with two, and again when nothing has changed, and the ratio of the first to merely reading the
same files. Medians of five. Growth: the same round copied up
to sixteen times under other submitter names, and the slope of time and memory over the number of
results (1: linear). Peak memory is that of the largest process.
"""

from __future__ import annotations

import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.corpus import corpus_rounds, unpacked

ROOT = Path(__file__).resolve().parents[2]

COPIES = (1, 2, 4, 8, 16)


def read_all(tree: Path) -> tuple[int, int, float]:
    """Read every file once, as the yardstick: count, bytes, seconds."""
    count = size = 0
    began = time.perf_counter()
    for folder, _, names in os.walk(tree):
        for name in names:
            with Path(folder, name).open("rb", buffering=0) as stream:
                while chunk := stream.read(1 << 20):
                    size += len(chunk)
            count += 1
    return count, size, time.perf_counter() - began


def checked(tree: Path, *options: str) -> tuple[float, int]:
    """One ``assay check`` from outside: wall seconds, peak KiB of its largest process."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", "check", str(tree), "--quiet", *options],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"assay check {tree} ended with status {process.returncode}")
    return time.perf_counter() - began, used.ru_maxrss


def startup() -> float:
    """Median seconds of ``assay --version`` over seven runs."""
    times = []
    for _ in range(7):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "assay", "--version"], cwd=ROOT, check=True, capture_output=True
        )
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def scaled(tree: Path, copies: int, into: Path) -> Path:
    """The same results under further submitter names (hard links where possible)."""
    for division in ("closed", "open", "network"):
        source = tree / division
        if not source.is_dir():
            continue
        for submitter in sorted(source.iterdir()):
            for n in range(copies):
                shutil.copytree(
                    submitter,
                    into / division / f"{submitter.name}{'' if n == 0 else f'-{n}'}",
                    copy_function=os.link,
                    dirs_exist_ok=True,
                )
    return into


def grown(tree: Path) -> tuple[int, float]:
    """One check by one process: peak KiB, CPU seconds, which others disturb less than the clock."""
    code = (
        "import sys,time,resource\n"
        "import assay\n"
        "t=time.process_time(); assay.check(sys.argv[1], jobs=1); d=time.process_time()-t\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, d)\n"
    )
    command = [sys.executable, "-c", code, str(tree)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    peak, seconds = done.stdout.split()
    return int(peak), float(seconds)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """By which power the second number grows with the first: least squares over the logarithms."""
    xs, ys = ([math.log(point[k]) for point in points] for k in (0, 1))
    return statistics.linear_regression(xs, ys).slope


def growth(name: str, original: Path) -> str:
    """How CPU time and memory grow with a tree, start-up left out of the time."""
    times, peaks = [], []
    with tempfile.TemporaryDirectory(dir=original.parent) as folder:
        for copies in COPIES:
            tree = scaled(original, copies, Path(folder) / str(copies))
            peak, seconds = grown(tree)
            times.append((copies, seconds))
            peaks.append((copies, peak / 1024))
            shutil.rmtree(tree)
    each = (peaks[-1][1] - peaks[0][1]) / (COPIES[-1] - COPIES[0])
    return (
        f"{name} growth: "
        + ", ".join(f"{n}x {seconds:.2f} s" for n, seconds in times)
        + f", slope {slope(times):.2f}; "
        + ", ".join(f"{n}x {peak:.0f} MB" for n, peak in peaks)
        + f", {each:.1f} MB for each copy"
    )


def main() -> None:
    """Print the tables."""
    # Not the user's own cache; where the corpus is unpacked was decided when it was imported.
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        _print_tables()


def _print_tables() -> None:
    print(f"assay --version: {startup():.3f} s (median of 7)")
    rounds = corpus_rounds()
    if not rounds:
        print("no corpus: set ASSAY_CORPUS to measure checks")
        return
    print(
        f"{'round':<6} {'files':>6} {'MB':>7} {'read s':>7} {'check s':>8} {'2 jobs':>7} {'again':>7} "
        f"{'MB/s':>7} {'ratio':>6} {'peak MB':>8}"
    )
    for name in rounds:
        tree = unpacked(name)
        read_all(tree)
        reads, ones, twos, agains, peaks = [], [], [], [], []
        checked(tree, "--jobs", "2")  # fills the cache
        for _ in range(5):
            count, size, seconds = read_all(tree)
            reads.append(seconds)
            one, peak = checked(tree, "--no-cache", "--jobs", "1")
            ones.append(one)
            peaks.append(peak)
            twos.append(checked(tree, "--no-cache", "--jobs", "2")[0])
            agains.append(checked(tree, "--jobs", "2")[0])
        read, one = statistics.median(reads), statistics.median(ones)
        print(
            f"{name:<6} {count:>6} {size / 1e6:>7.1f} {read:>7.3f} {one:>8.2f} {statistics.median(twos):>7.2f} "
            f"{statistics.median(agains):>7.2f} {size / 1e6 / one:>7.1f} {one / read:>6.1f} "
            f"{max(peaks) / 1024:>8.1f}",
            flush=True,
        )
    for name in ("v5.1", "v6.0"):
        if name in rounds:
            print(growth(name, unpacked(name)))
    print(
        f"this process's peak: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
    )


if __name__ == "__main__":
    main()
