"""``make bench OFFICIAL=checkout``: a check against the official checker, on the same machine and trees.

The checkout is one of mlcommons/inference, or its submission checker as a file. Both programs check
the corpus's two newest rounds in alternation: the official one, Assay without a cache (cold), Assay
with the cache of the check before (warm). Times are CPU seconds of the whole command, which others
on the machine disturb less than the clock.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.corpus import corpus_rounds, unpacked

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = ("v5.1", "v6.0")
REPEATS = 3
_SETTLED_S = 2.5  # files that changed later are not remembered


class NotOfficial(ValueError):
    """No checker can be run; the message says why."""


def command_of(checkout: Path) -> tuple[list[str], Path]:
    """How a checkout's checker is started, and in which folder. Raises NotOfficial."""
    if checkout.is_file():
        return [sys.executable, str(checkout.resolve())], checkout.resolve().parent
    folder = (checkout / "tools" / "submission").resolve()
    if (folder / "submission_checker" / "main.py").is_file():
        return [sys.executable, "-m", "submission_checker.main"], folder
    for name in ("submission_checker.py", "submission-checker.py"):
        if (folder / name).is_file():
            return [sys.executable, str(folder / name)], folder
    raise NotOfficial(f"{checkout}: found no submission checker; expected one in tools/submission")


def cpu_seconds(command: Sequence[str], folder: Path, **environment: str) -> tuple[float, str]:
    """CPU seconds of a command and its children, and the last line that it wrote."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, (done.stdout.strip().splitlines() or [""])[-1]


def compared(tree: Path, round: str, official: Sequence[str], folder: Path) -> dict[str, float]:
    """Median CPU seconds of each program on a tree. Raises NotOfficial."""
    spent: dict[str, list[float]] = {"official": [], "cold": [], "warm": []}
    with tempfile.TemporaryDirectory() as place:
        table = Path(place) / "summary.csv"
        ours = [sys.executable, "-m", "assay", "check", str(tree), "--round", round, "--format"]
        ours += ["json", "--output", str(Path(place) / "report.json"), "--no-progress"]
        cpu_seconds(ours, ROOT, XDG_CACHE_HOME=place)
        for _ in range(REPEATS):
            table.unlink(missing_ok=True)
            theirs = [*official, "--input", str(tree), "--version", round, "--csv", str(table)]
            seconds, last = cpu_seconds(theirs, folder)
            if not table.is_file():
                raise NotOfficial(f"the official checker wrote no summary of {round}: {last}")
            spent["official"].append(seconds)
            spent["cold"].append(cpu_seconds([*ours, "--no-cache"], ROOT)[0])
            spent["warm"].append(cpu_seconds(ours, ROOT, XDG_CACHE_HOME=place)[0])
    return {name: statistics.median(values) for name, values in spent.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each round."""
    parser = argparse.ArgumentParser(description="Assay's time against the official checker's")
    parser.add_argument("checkout", type=Path)
    options = parser.parse_args(argv)
    rounds = [name for name in ROUNDS if name in corpus_rounds()]
    if not rounds:
        print("no corpus: set ASSAY_CORPUS to compare with the official checker")
        return 0
    try:
        official, folder = command_of(options.checkout)
        for name in rounds:
            tree = unpacked(name)
            time.sleep(_SETTLED_S)
            found = compared(tree, name, official, folder)
            base = found["official"]
            print(
                f"{name}: official {base:.2f} s; "
                + "; ".join(
                    f"{which} {found[which]:.2f} s, ratio {found[which] / base:.2f}"
                    for which in ("cold", "warm")
                )
            )
    except NotOfficial as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
