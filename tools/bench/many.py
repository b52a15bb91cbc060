"""``python -m tools.bench.many FOLDER --results 100000``: a check of very many results, and whether it is right.

Makes a tree of synthetic results under FOLDER, a share of them broken in known ways, checks it with
the command, and prints the time, the memory of the parent and of its workers, and whether exactly
the broken results are invalid. All files but one log of each result are hard links, so that 100,000
results take about 8 GB and 1.2 million folders.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from schemas.report import decode
from tests.trees import GoodTree, good_tree

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ("Offline", "Server")
SYSTEMS = 100
"""How many systems one submitter has."""
LINKS = 20_000
"""Of how many results one file is shared: file systems bound the links of a file (ext4: 65,000)."""
_PID = re.compile(rb'"pid": \d+')
_LOG = "performance/run_1/mlperf_log_detail.txt"


def _cut(tree: GoodTree, scenario: str) -> None:
    log = tree.result(scenario).detail
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


def _nul(tree: GoodTree, scenario: str) -> None:
    log = tree.result(scenario).detail
    content = log.read_bytes()
    at = content.index(b"result_validity")
    log.write_bytes(content[:at] + b"\0" + content[at + 1 :])


def _score(tree: GoodTree, scenario: str) -> None:
    text = tree.result(scenario).accuracy_text
    text.write_text(re.sub(r"\d+\.\d+", "12.500", text.read_text()))


BROKEN: dict[str, Callable[[GoodTree, str], None]] = {
    "INVALID": lambda t, s: t.set_log(t.result(s).detail, "result_validity", "INVALID"),
    "no log": lambda t, s: t.remove(t.result(s).detail),
    "no accuracy run": lambda t, s: t.remove(t.result(s).accuracy),
    "half a log": _cut,
    "a NUL": _nul,
    "too short": lambda t, s: t.set_log(t.result(s).detail, "effective_min_duration_ms", 1),
    "low accuracy": _score,
}


def make(folder: Path, results: int, broken: int, seed: int = 24) -> set[str]:
    """A tree with so many results; the keys of those that are broken."""
    chance = random.Random(seed)
    bad = {n: chance.choice(sorted(BROKEN)) for n in chance.sample(range(results), broken)}
    keys = set()
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        good = Path(scratch) / "good"
        tree = good_tree(good, round="demo", benchmark="digits", category="datacenter")
        models = {("", s): _files(tree, s) for s in SCENARIOS}
        for kind, change in BROKEN.items():
            for scenario in SCENARIOS:
                other = good_tree(
                    Path(scratch) / f"{kind}-{scenario}",
                    round="demo",
                    benchmark="digits",
                    category="datacenter",
                )
                change(other, scenario)
                models[kind, scenario] = _files(other, scenario)
        description = (tree.root / tree.system_path).read_bytes()
        shared = [tree.root / tree.base / name for name in ("src", "documentation")]
        masters: dict[tuple[str, Path], Path] = {}
        for number in range(results):
            if number % LINKS == 0:
                masters.clear()
            system, submitter = number // 2, f"Acme{number // 2 // SYSTEMS:05}"
            scenario, kind = SCENARIOS[number % 2], bad.get(number, "")
            base = folder / "closed" / submitter
            if not base.exists():
                for place in shared:
                    shutil.copytree(place, base / place.name)
                (base / "systems").mkdir()
                masters.pop(("systems", Path()), None)
            if number % 2 == 0:
                _linked(
                    masters,
                    ("systems", Path()),
                    description.replace(
                        b'"submitter": "Acme"', b'"submitter": "%s"' % submitter.encode()
                    ),
                    base / "systems" / f"box{system:06}.json",
                )
            top = base / "results" / f"box{system:06}" / "digits" / scenario
            for path, content in models[kind, scenario]:
                place = top / path
                place.parent.mkdir(parents=True, exist_ok=True)
                if path.as_posix() == _LOG:
                    # Every log is a process's own; equal ones would be copies.
                    place.write_bytes(_PID.sub(b'"pid": %d' % (1_000_000 + number), content))
                else:
                    _linked(masters, (f"{kind} {scenario}", path), content, place)
            if kind:
                keys.add(f"closed/{submitter}/box{system:06}/digits/{scenario}")
    return keys


def _files(tree: GoodTree, scenario: str) -> list[tuple[Path, bytes]]:
    top = tree.root / tree.result(scenario).path
    found = [p for p in sorted(top.rglob("*")) if p.is_file()]
    return [(p.relative_to(top), p.read_bytes()) for p in found]


def _linked(
    masters: dict[tuple[str, Path], Path], name: tuple[str, Path], content: bytes, place: Path
) -> None:
    master = masters.get(name)
    if master is None:
        place.write_bytes(content)
        masters[name] = place
    else:
        place.hardlink_to(master)


class Memory:
    """The most memory that a process and its workers have used, in bytes, looked at while it runs.

    ``parent`` and ``worker`` are proportional sets: what processes share is divided among them.
    """

    def __init__(self, pid: int) -> None:
        self.pid, self.parent, self.worker = pid, 0, 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No more looking."""
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.5):
            self.parent = max(self.parent, _used(self.pid))
            for child in _children(self.pid):
                self.worker = max(self.worker, _used(child))


def _children(pid: int) -> Iterator[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return
    yield from map(int, text.split())


def _used(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def main() -> None:
    """Make, check, compare, print; exit status 1 where a verdict is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "folder", type=Path, help="an empty or absent folder; a tree made here before is used again"
    )
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--broken", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="leave the tree there")
    parser.add_argument("--command", default="check", choices=("check", "audit"))
    options = parser.parse_args()
    tree, known = options.folder / "submission", options.folder / "broken.json"
    if not known.exists():
        began = time.monotonic()
        tree.mkdir(parents=True)
        keys = make(tree, options.results, options.broken)
        known.write_text(json.dumps(sorted(keys)))
        print(f"made {options.results:,} results in {time.monotonic() - began:.0f} s", flush=True)
    expected = set(json.loads(known.read_text()))
    outputs = [options.folder / name for name in ("report.json", "report.csv")]
    command = [
        sys.executable,
        "-P",
        "-m",
        "assay",
        options.command,
        str(tree),
        "--jobs",
        str(options.jobs),
    ]
    command += ["--no-cache", "--no-progress", "--quiet"]
    for output in outputs:
        command += ["--output", str(output)]
    began = time.monotonic()
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    memory = Memory(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    memory.stop()
    seconds = time.monotonic() - began
    print(
        f"{options.command}: {seconds:.0f} s, {usage.ru_utime + usage.ru_stime:.0f} s of CPU; "
        f"parent {usage.ru_maxrss / 1024:,.0f} MB resident, {memory.parent / 2**20:,.0f} MB its own; "
        f"worker {memory.worker / 2**20:,.0f} MB its own; exit status {process.returncode}"
    )
    report = decode(outputs[0].read_bytes())
    invalid = {result.key for result in report.results if result.status == "invalid"}
    print(
        f"{len(report.results):,} results, {len(invalid):,} invalid, {len(report.findings):,} findings, "
        f"report of {outputs[0].stat().st_size / 2**20:,.0f} MB"
    )
    missed, wronged = expected - invalid, invalid - expected
    print(
        f"broken: {len(expected):,}; missed {len(missed):,}; invalid without cause {len(wronged):,}"
    )
    for key in [*sorted(missed)[:5], *sorted(wronged)[:5]]:
        print(f"  {key}")
    if not options.keep:
        shutil.rmtree(options.folder)
    sys.exit(1 if missed or wronged else 0)


if __name__ == "__main__":
    main()
