"""Every command that writes, ended at random moments: each file is the old one, the new one or absent.

`test_kills` has what needs a look of its own. One moment for each signal by default; ASSAY_KILLS=50
for as many as a release is tried with.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from assay import cli
from runner.benchmarks.digits import DIGITS
from schemas.report import encode
from tests.assay.test_accuracy_commands import truth, write_log
from tests.assay.test_fix import state
from tests.assay.test_kills import DEMO, SIGNALS, Victim
from tests.assay.test_prepare import MESSES
from tests.conftest import Grow
from tests.reports import samples

MOMENTS = int(os.environ.get("ASSAY_KILLS", "1"))
_PART = re.compile(r"(?:^|/)\.[^/]*(?:\.part$|\.assay-part)")
OLD = b"what was there before"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


class Command(msgspec.Struct, kw_only=True):
    """A command whose files are in one folder.

    replaced: files that are there before. shown: what of a file is the same in each run. refuses:
    what it does not replace.
    """

    arguments: list[str]
    replaced: tuple[str, ...] = ()
    shown: Callable[[str, bytes], object] = lambda name, data: data
    refuses: str | None = None


def _reports(place: Path) -> list[str]:
    paths = []
    for name in ("Alpha", "Bravo"):
        path = place / f"{name}.json"
        path.write_bytes(encode(samples.report([samples.result(submitter=name)], [])))
        paths.append(str(path))
    return paths


def check(grow: Grow, place: Path, out: Path) -> Command:
    """In every format at once."""
    names = [f"report.{suffix}" for suffix in ("json", "html", "csv", "md", "sarif", "xml", "txt")]
    outputs = [text for name in names for text in ("--output", str(out / name))]
    return Command(
        arguments=["check", str(grow(**DEMO).root), "--jobs", "2", *outputs],
        replaced=("report.json", "report.csv", "report.sarif"),
    )


def check_split(grow: Grow, place: Path, out: Path) -> Command:
    split = ["--split", "submitter", "--output-dir", str(out), "--format", "html,json"]
    return Command(
        arguments=["check", str(grow(**DEMO).root), "--jobs", "1", *split],
        replaced=("index.html",),
    )


def audit(grow: Grow, place: Path, out: Path) -> Command:
    trees = [str(grow(**DEMO).root), str(grow(**DEMO).root)]
    outputs = ["--output", str(out / "audit.json"), "--output", str(out / "audit.html")]
    return Command(arguments=["audit", *trees, *outputs], replaced=("audit.html",))


def report(grow: Grow, place: Path, out: Path) -> Command:
    outputs = [text for n in ("a.html", "a.md", "a.csv") for text in ("--output", str(out / n))]
    return Command(arguments=["report", _reports(place)[0], *outputs], replaced=("a.md",))


def final_report(grow: Grow, place: Path, out: Path) -> Command:
    def cells(name: str, data: bytes) -> object:
        # The workbook holds the time at which it was made.
        return data[:2] if name.endswith(".xlsx") and data != OLD else data

    written = ["--output", str(out / "results.xlsx"), "--ids", str(out / "ids.json")]
    return Command(
        arguments=["final-report", *_reports(place), *written],
        replaced=("results.xlsx",),
        shown=cells,
    )


def export(grow: Grow, place: Path, out: Path) -> Command:
    return Command(
        arguments=["export", *_reports(place), "--output", str(out / "table.csv")],
        replaced=("table.csv",),
    )


def explore(grow: Grow, place: Path, out: Path) -> Command:
    return Command(
        arguments=["explore", *_reports(place), "--output", str(out / "page.html")],
        replaced=("page.html",),
    )


def plot(grow: Grow, place: Path, out: Path) -> Command:
    tree = grow(**DEMO)
    run = tree.root / tree.result("Server").path
    return Command(
        arguments=["plot", str(run), "--round", "demo", "--output", str(out / "plot.svg")],
        replaced=("plot.svg",),
    )


def new(grow: Grow, place: Path, out: Path) -> Command:
    what = ["--round", "v6.0", "--submitter", "Acme", "--system", "box", "--category", "edge"]
    return Command(
        arguments=["new", *what, "--benchmark", "resnet", "--out", str(out / "new")], refuses="new"
    )


def pack(grow: Grow, place: Path, out: Path) -> Command:
    tree = str(grow(**DEMO).root)
    return Command(
        arguments=["pack", tree, "--round", "demo", "--out", str(out / "s.tar.gz")],
        refuses="s.tar.gz",
    )


def compliance(grow: Grow, place: Path, out: Path) -> Command:
    tree = grow(round="v6.0", benchmark="resnet", scenarios=["Offline"])
    paths = tree.result("Offline")
    shutil.copytree(tree.root / paths.compliance("TEST01"), out, dirs_exist_ok=True)
    (out / "verify_performance.txt").unlink()
    what = ["--benchmark", "resnet", "--scenario", "Offline", "--round", "v6.0", "--test", "TEST01"]
    main = str(tree.root / paths.path)
    return Command(
        arguments=["compliance", "verify", str(out), "--main", main, *what, "--write"],
        replaced=("verify_accuracy.txt",),
    )


def accuracy(grow: Grow, place: Path, out: Path) -> Command:
    """Writes nothing, also not where its temporary files are."""
    folder = place / "accuracy"
    folder.mkdir()
    labels = [n % 1000 for n in range(50_000)]
    write_log(folder / "mlperf_log_accuracy.json", [struct.pack("<i", n) for n in labels])
    truth(place, labels)
    what = ["--benchmark", "resnet", "--data", str(place), "--round", "v6.0"]
    return Command(arguments=["accuracy", str(folder), *what])


def sweep(grow: Grow, place: Path, out: Path) -> Command:
    def parts(name: str, data: bytes) -> object:
        """What does not depend on how fast the machine was."""
        if data == OLD:
            return data
        if name.endswith(".json"):
            whole = json.loads(data)
            return sorted(whole), len(whole["rows"])
        return data.startswith(b"<svg ") and data.rstrip().endswith(b"</svg>"), b"best" in data

    short = ["--batch", "1,4", "--repeats", "1", "--probe-duration", "0.1", "--threads", "1"]
    names = ["--output", str(out / "sweep.svg"), "--output", str(out / "sweep.json")]
    return Command(
        arguments=["sweep", *short, *names, "--no-progress"],
        replaced=("sweep.svg",),
        shown=parts,
    )


def quantize(grow: Grow, place: Path, out: Path) -> Command:
    model = str(DIGITS.models["fp32"])
    what = ["--benchmark", "digits", "--calibration", "10", "--out", str(out / "int8.onnx")]
    return Command(arguments=["quantize", model, *what, "--overwrite"], replaced=("int8.onnx",))


COMMANDS = (
    check, check_split, audit, report, final_report, export, explore, plot, new, pack, compliance,
    accuracy, sweep, quantize,
)  # fmt: skip


@pytest.mark.parametrize("make", COMMANDS, ids=lambda make: make.__name__.replace("_", "-"))
def test_whole_or_not_at_all(
    make: Callable[[Grow, Path, Path], Command], grow: Grow, tmp_path: Path
) -> None:
    place, out, before = (tmp_path / name for name in ("given", "out", "before"))
    place.mkdir()
    out.mkdir()
    command = make(grow, place, out)
    for name in command.replaced:
        (out / name).write_bytes(OLD)
    shutil.copytree(out, before)
    victim = Victim(tmp_path / "scratch", *command.arguments)

    def seen() -> dict[str, object]:
        return {
            str(path.relative_to(out)): command.shown(path.name, path.read_bytes())
            for path in out.rglob("*")
            if path.is_file()
        }

    old = seen()
    length = victim.run()
    complete = seen()
    assert old != complete or make is accuracy
    chance = random.Random(make.__name__)
    for number in SIGNALS:
        for _ in range(MOMENTS):
            shutil.rmtree(out)
            shutil.copytree(before, out)
            status = victim.kill(number, chance.uniform(0, length * 1.05))
            now = everything = seen()
            if status == 0 or (status == 1 and now != old):
                assert now == complete, "a status that claims what is not there"
            else:
                # 1: the interpreter's own, where INT comes before it has imported anything of ours.
                assert status in (1, 128 + number, -number)
            if number == signal.SIGKILL:
                now = {name: what for name, what in now.items() if ".assay-part" not in name}
            else:
                assert list(victim.scratch.iterdir()) == []
            for name, what in now.items():
                assert what in (old.get(name, what), complete[name]), name
                assert name in old or what == complete[name], name
            assert set(old) <= set(now)
            if everything == old and not any(victim.scratch.iterdir()):
                continue  # as if it had not been started
            if command.refuses is None or not (out / command.refuses).exists():
                length = min(length, victim.run())
                assert seen() == complete, "what was left is a hindrance"
                assert list(victim.scratch.iterdir()) == [], "the next removes what was left"


def test_an_undo_that_was_killed_is_done_by_the_next(grow: Grow, tmp_path: Path) -> None:
    master = grow(**DEMO)
    for name in ("Performance", "result", "hidden", "finder"):
        MESSES[name](master)
    place = tmp_path / "out"
    root, undo = place / "submission", place / "submission.undo-1"
    shutil.copytree(master.root, root)
    before = state(root)
    assert cli.main(["fix", str(root), "--round", "demo"]) == 0
    fixed = tmp_path / "fixed"
    place.rename(fixed)
    shutil.copytree(fixed, place)
    victim = Victim(tmp_path / "scratch", "fix", str(root), "--undo", str(undo))
    length = victim.run()
    chance = random.Random(8)
    for number in SIGNALS:
        for _ in range(MOMENTS):
            shutil.rmtree(place)
            shutil.copytree(fixed, place)
            status = victim.kill(number, chance.uniform(0, length * 1.05))
            assert (state(root) == before) if status == 0 else status in (1, 128 + number, -number)
            assert cli.main(["fix", str(root), "--undo", str(undo)]) == 0
            assert state(root) == before
            assert {path.name for path in place.iterdir()} == {root.name, undo.name}


def test_a_cache_that_is_half_cleared_is_right(grow: Grow, tmp_path: Path) -> None:
    tree, output, cache = grow(**DEMO), tmp_path / "report.json", tmp_path / "cache"
    for path in tree.root.rglob("*"):
        os.utime(path, (1e9, 1e9))
    time.sleep(2.1)  # a file that has just changed is not remembered
    checking = Victim(tmp_path / "scratch", "check", str(tree.root), "--output", str(output))
    clearing = Victim(tmp_path / "scratch", "cache", "clear")
    for victim in (checking, clearing):
        victim.environment["XDG_CACHE_HOME"] = str(cache)
    checking.run()
    expected, full = output.read_bytes(), tmp_path / "full"
    shutil.copytree(cache, full)
    known = {path.name: path.read_bytes() for path in full.rglob("*") if path.is_file()}
    length = clearing.run()
    assert known and not [path for path in cache.rglob("*") if path.is_file()]
    chance = random.Random(9)
    for number in SIGNALS:
        for _ in range(MOMENTS):
            shutil.rmtree(cache)
            shutil.copytree(full, cache)
            status = clearing.kill(number, chance.uniform(0, length * 1.05))
            left = [path for path in cache.rglob("*") if path.is_file()]
            assert (left == []) if status == 0 else status in (1, 128 + number, -number)
            assert all(path.read_bytes() == known[path.name] for path in left)
            if len(left) in (0, len(known)):
                continue  # as if it had ended, or had not been started
            output.unlink()
            checking.run()
            assert output.read_bytes() == expected
