"""What a machine or its user lacks: memory, permission, a steady clock; and very many results."""

from __future__ import annotations

import gc
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from checker import building, engine, schedule
from checker.parse.reading import Folder
from checker.shared_logs import Fingerprint, shared_logs
from checker.verdict import in_order, summarise, with_verdicts
from schemas.report import Finding, Report, Result, Subject
from tests.conftest import Grow

ROOT = Path(__file__).parents[2]
DEMO: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "datacenter"}
CHECK = (
    "import sys\nfrom checker.engine import Options, check\nfrom schemas.report import encode\n"
    "sys.stdout.buffer.write(encode(check(sys.argv[1], Options(jobs=int(sys.argv[2])))))"
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sets limits, changes the user")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_files_that_another_user_may_not_read(grow: Grow, tmp_path: Path) -> None:
    """Each unreadable file and folder is an error at its place, and the rest is judged."""
    tree = grow(**DEMO)
    # pytest's own folders above the tree are closed to others, more of them where it runs in parallel.
    top = Path(tempfile.gettempdir()).resolve()
    above = [p for p in tree.root.resolve().parents if p.is_relative_to(top) and p != top]
    if not above or not all(p.stat().st_mode & 0o001 for p in (top, *top.parents)):
        pytest.skip(f"other users cannot reach {top}")
    for place in (tree.root, *tree.root.rglob("*"), *above):
        place.chmod(0o755 if place.is_dir() else 0o644)
    log = tree.result("Offline").detail
    log.chmod(0)
    # Everything is imported as root: the other user may not be able to read this Python.
    code = CHECK.replace(
        "sys.stdout",
        "check(sys.argv[1])\nimport encodings.utf_8_sig, os\nos.setuid(65534)\nsys.stdout",
        1,
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tree.root), "1"],
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr.decode()
    from schemas.report import decode

    report = decode(done.stdout)
    named = [f for f in report.findings if f.path == tree.relative(log) and f.severity == "error"]
    assert [f.rule for f in named] == ["X002"] and "Permission denied" in named[0].message
    assert {r.scenario: r.status for r in report.results} == {
        "Offline": "invalid",
        "Server": "valid",
    }


@pytest.mark.parametrize("mib", [300, 600])
def test_little_memory_is_never_a_pass(mib: int, grow: Grow) -> None:
    """With too little address space a check ends with status 2 or with the right verdicts."""
    tree = grow(**DEMO)
    tree.set_log(tree.result("Offline").detail, "effective_min_duration_ms", 1)
    log = tree.result("Server").detail
    with log.open("ab") as stream:
        stream.truncate(log.stat().st_size + 40_000_000)
    limit = mib << 20
    done = subprocess.run(
        [sys.executable, "-P", "-m", "assay", "check", str(tree.root), "--jobs", "1", "--quiet"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert done.returncode in (1, 2), done.stderr
    assert "OK" not in done.stdout


def test_a_clock_that_jumps(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    """No verdict follows from this machine's clock: neither a jump nor 1970 changes a report."""
    from schemas.report import encode

    tree = grow(**DEMO)
    before = encode(tree.check())
    for now in (0.0, 4e9):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        assert encode(tree.check()) == before


def test_a_hundred_thousand_results() -> None:
    """Verdicts of many results with as many findings: right, and in seconds."""
    count = 100_000
    rows = [_row(n) for n in range(count)]
    findings = [
        Finding(
            "P102",
            "run-valid",
            "error",
            f"m{n}",
            f"p/{n}",
            results=(_key(n),),
            invalidates=(_key(n),),
        )
        for n in range(0, count, 2)
    ]
    began = time.monotonic()
    judged = with_verdicts(rows, in_order([*findings, *findings]))
    summary = summarise(judged, findings)
    assert (summary.results, summary.valid, summary.errors) == (count, count // 2, count // 2)
    assert [r.status for r in judged[:4]] == ["invalid", "valid", "invalid", "valid"]
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(("copies", "pairs"), [(3, 3), (50, 1225), (51, 50), (5_000, 4_999)])
def test_many_copies_of_one_log(copies: int, pairs: int) -> None:
    """Each pair of systems of a few; of very many each with the first, which takes no longer."""
    prints = [
        Fingerprint(
            f"p/{n:04}",
            Subject("closed", "Acme", f"box{n:04}"),
            "closed",
            ("Acme", f"box{n:04}"),
            ("1", "2"),
            (_key(n),),
        )
        for n in range(copies)
    ]
    began = time.monotonic()
    found = shared_logs(prints, {})
    assert len(found) == pairs and {f.systems[0][1] for f in found[:2]} == {"box0000"}
    assert time.monotonic() - began < 10


def _folders() -> list[Folder]:
    return [thing for thing in gc.get_objects() if isinstance(thing, Folder)]


def _key(number: int) -> str:
    return f"closed/Acme/box{number}/digits/Offline"


def _row(number: int) -> Result:
    return Result(
        "closed",
        "Acme",
        f"box{number}",
        "digits",
        "digits",
        "Offline",
        None,
        "valid",
        None,
        [],
        None,
        None,
        f"p/{number}",
        0,
        key=_key(number),
    )


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_judged_is_let_go(
    jobs: int, grow: Grow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a large tree neither the listing nor equal system descriptions are kept to the end, with a
    cache and without one; workers started afresh find the same."""
    from checker.cache import Cache
    from checker.engine import Options, check
    from schemas.report import encode

    tree = grow(**DEMO)
    (system,) = (tree.root / tree.base / "systems").glob("*.json")
    results = tree.root / tree.base / "results"
    for name in ("other", "third", "fourth"):
        shutil.copyfile(system, system.with_name(f"{name}.json"))
        shutil.copytree(results / system.stem, results / name)
    expected = encode(check(tree.root, Options(jobs=1)))
    before = len(_folders())

    def build_report(*arguments: Any) -> Report:
        assert len(_folders()) <= before + 1
        return building.build_report(*arguments)

    monkeypatch.setattr(engine, "build_report", build_report)
    monkeypatch.setattr(schedule, "_CHUNK", 1)
    monkeypatch.setattr(schedule, "_MANY", 1)
    cache = Cache(tmp_path / "cache")
    for options in (Options(jobs=jobs, fresh=True), Options(jobs=jobs, cache=cache)):
        report = check(tree.root, options)
        assert encode(report) == expected
        assert len({id(result.system_description) for result in report.results}) == 1
