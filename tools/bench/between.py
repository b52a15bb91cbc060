"""``python -m tools.bench.between OTHER [TREE …]``: this working tree's `check` against that of another one.

OTHER is a checkout of another commit. Both run in alternation on each tree (default: every round of
the corpus), this one without a cache (cold) and with that of the check before (warm), and the least
CPU seconds of the whole command are compared, start-up and workers included: others on the machine
disturb them less than the clock. ``--same`` compares what they report instead: byte
for byte, by one and by two processes, without a cache, filling one, and from it.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.corpus import corpus_rounds, unpacked
from tools.bench.official import ROOT

_JSON = ("--format", "json", "--no-progress")
_SETTLED_S = 2.5  # files that changed later are not remembered


def report(
    source: Path, tree: Path, *options: str, cache: str | None = None, command: str = "check"
) -> bytes:
    """The JSON report of a command by the checkout at ``source``. cache: where its caches are."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(source)
    environment["XDG_CACHE_HOME"] = cache or tempfile.gettempdir()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "assay", command, str(tree), *_JSON, *options],
        cwd=tempfile.gettempdir(),
        env=environment,
        capture_output=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{source}: {done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout


def cpu_seconds(source: Path, tree: Path, *options: str, cache: str | None = None) -> float:
    """What one check costs, start-up and workers included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    report(source, tree, *options, cache=cache)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def differences(other: Path, tree: Path, command: str) -> list[str]:
    """Which of this working tree's reports differ from the other's."""

    def made(source: Path, *options: str, cache: str | None = None) -> bytes:
        return report(source, tree, *options, cache=cache, command=command)

    expected = made(other, "--jobs", "1", *uncached(other))
    with tempfile.TemporaryDirectory() as cache:
        reports = {
            "1 job": made(ROOT, "--jobs", "1", "--no-cache"),
            "2 jobs": made(ROOT, "--jobs", "2", "--no-cache"),
            "filling the cache": made(ROOT, "--jobs", "2", cache=cache),
            "from the cache": made(ROOT, "--jobs", "1", cache=cache),
        }
    return [name for name, found in reports.items() if found != expected]


def uncached(source: Path) -> tuple[str, ...]:
    """The option that a checkout has for a check without a cache; the first edition has no cache."""
    return ("--no-cache",) if (source / "checker" / "cache.py").is_file() else ()


def compared(other: Path, tree: Path, repeats: int, jobs: str) -> dict[str, float]:
    """The least CPU seconds of the other checkout and of this one, without a cache and from it."""
    spent: dict[str, list[float]] = {"before": [], "cold": [], "warm": []}
    with tempfile.TemporaryDirectory() as cache:
        report(ROOT, tree, cache=cache)
        for _ in range(repeats):
            spent["before"].append(cpu_seconds(other, tree, "--jobs", jobs, *uncached(other)))
            spent["cold"].append(cpu_seconds(ROOT, tree, "--jobs", jobs, "--no-cache"))
            spent["warm"].append(cpu_seconds(ROOT, tree, "--jobs", jobs, cache=cache))
    return {name: min(times) for name, times in spent.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each tree; 1 where reports differ."""
    parser = argparse.ArgumentParser(description="this working tree against another checkout")
    parser.add_argument("other", type=Path)
    parser.add_argument("trees", type=Path, nargs="*")
    parser.add_argument(
        "--same", action="store_true", help="compare reports, not times (of --command)"
    )
    parser.add_argument("--command", choices=("check", "audit"), default="check")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--jobs", default="1")
    options = parser.parse_args(argv)
    other = options.other.resolve()
    trees = [path.resolve() for path in options.trees]
    differ = False
    time.sleep(_SETTLED_S)
    for tree in trees or [unpacked(name) for name in corpus_rounds(rebuilt=True)]:
        if options.same:
            differing = differences(other, tree, options.command)
            differ = differ or bool(differing)
            print(f"{tree.name}: {', '.join(differing) + ' differ' if differing else 'the same'}")
        else:
            found = compared(other, tree, options.repeats, options.jobs)
            before = found["before"]
            print(
                f"{tree.name}: {before:.3f} s; "
                + "; ".join(
                    f"now {name} {found[name]:.3f} s, ratio {found[name] / before:.2f}"
                    for name in ("cold", "warm")
                )
            )
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
