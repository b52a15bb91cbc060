"""The eighteen holes of the first edition, one test each, through the command line alone.

They run against any version: ASSAY_UNDER_TEST names a checkout (default: this one), and each fails
on the first edition. Line 14, verdicts that took rows times findings, is in tests/checker/
test_scarce.py (a hundred thousand results). More of each kind is tested where it belongs.
"""

from __future__ import annotations

import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.assay.test_life import keep_busy
from tests.checker.test_archive import pack
from tests.conftest import Grow

ROOT = Path(__file__).parents[2]
UNDER_TEST = Path(os.environ.get("ASSAY_UNDER_TEST", ROOT)).resolve()
DEMO: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "datacenter"}
TOO_LONG_S = 30

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sets limits, reads /proc")


def run(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command of the version under test, to its end."""
    environment = {**os.environ, "PYTHONPATH": str(UNDER_TEST), **options.pop("env", {})}
    if "preexec_fn" in options:
        # Python 3.11 keeps bytecode that a limit on the size of files has cut, for every later run.
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return subprocess.run(
        [sys.executable, "-P", "-m", "assay", *map(str, arguments)],
        capture_output=options.get("stdout") is None,
        text=True,
        errors="replace",
        timeout=TOO_LONG_S * 3,
        env=environment,
        **options,
    )


def findings(*arguments: str | Path) -> list[dict[str, Any]]:
    """What a check or audit finds; it must end with a report."""
    done = run(*arguments, "--jobs", "1", "--format", "json")
    assert done.returncode in (0, 1), done.stderr[-2000:]
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    assert [f["message"] for f in found if f["rule"] == "X001"] == []
    return found


def names(found: list[dict[str, Any]], path: str) -> list[str]:
    return [f["rule"] for f in found if f["path"] == path and f["severity"] != "note"]


def limited(what: int, value: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(what, (value, value))


# --- A: not checked looks like passed -----------------------------------------------------------


def test_01_damage_inside_the_loaded_set(grow: Grow) -> None:
    tree = grow(round="v6.0", benchmark="llama2-70b-99", category="datacenter")
    place = tree.result("Offline").detail
    content = place.read_bytes()
    at = content.index(b"loaded_qsl_set") + 3000
    assert len(content[at:].split(b"\n")[0]) > 3000
    place.write_bytes(content[:at] + b"\0" + content[at + 1 :])
    assert "X002" in names(findings("audit", tree.root), tree.relative(place))


def test_02_a_tar_that_ends_early(grow: Grow, tmp_path: Path) -> None:
    packed = pack(grow(**DEMO).root, tmp_path / "mine.tar")
    with tarfile.open(packed) as tar:
        middle = tar.getmembers()[len(tar.getmembers()) // 2]
    packed.write_bytes(packed.read_bytes()[: middle.offset])
    done = run("check", packed, "--round", "demo")
    assert done.returncode == 2 and "is cut" in done.stderr


def test_03_no_room_to_unpack(grow: Grow, tmp_path: Path) -> None:
    packed = pack(grow(**DEMO).root, tmp_path / "mine.tar")
    done = run("check", packed, "--format", "json", preexec_fn=limited(resource.RLIMIT_FSIZE, 2000))
    assert done.returncode == 2 and "File too large" in done.stderr
    assert "X005" not in done.stdout and "pack the tree" not in done.stderr


def test_04_lines_gone_and_nuls(grow: Grow) -> None:
    tree = grow(**DEMO)
    summary, log = tree.result("Offline").summary, tree.result("Server").accuracy_log
    lines = summary.read_text().splitlines(keepends=True)
    summary.write_text("".join(line for line in lines if "latency" not in line))
    content = log.read_bytes()
    log.write_bytes(content[:300] + bytes(20) + content[320:])
    found = findings("check", tree.root)
    assert names(found, tree.relative(summary)) == ["P147"]
    assert "X002" in names(found, tree.relative(log))


def test_05_a_member_that_comes_twice(grow: Grow, tmp_path: Path) -> None:
    tree = grow(**DEMO)
    packed = pack(tree.root, tmp_path / "mine.zip")
    with zipfile.ZipFile(packed, "a") as more, pytest.warns(UserWarning, match="Duplicate"):
        more.write(tree.root / tree.system_path, tree.system_path)
    assert [f["rule"] for f in findings("check", packed) if "more than once" in f["message"]]


# --- B: untrusted input runs, or writes outside -------------------------------------------------


def test_06_the_action_runs_nothing_of_the_workspace() -> None:
    text = (UNDER_TEST / "action.yml").read_text()
    calls = re.findall(r"^ *(?:run: )?python (.*)$", text, re.MULTILINE)
    assert calls and all(call.startswith("-P ") for call in calls)


def test_07_a_measurement_runs_nothing_of_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "runner").mkdir()
    for name in ("runner/__init__.py", "runner/child.py"):
        (tmp_path / name).write_text("open('ran', 'a').write(__name__)\n")
    done = run(
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
        tmp_path / "out",
        "--no-progress",
        cwd=tmp_path,
    )
    assert not (tmp_path / "ran").exists(), done.stderr


def test_08_links_of_an_archive_write_nothing_outside(tmp_path: Path) -> None:
    """The archive of CVE-2025-4517, which Pythons before its fix unpack wrongly."""
    packed, long, path = tmp_path / "mine.tar", "d" * 247, ""
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def add(tar: tarfile.TarFile, name: str, kind: bytes, target: str = "") -> None:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        tar.addfile(member)

    with tarfile.open(packed, "w", format=tarfile.PAX_FORMAT) as tar:
        for letter in "abcdefghijklmnop":
            add(tar, f"{path}{long}", tarfile.DIRTYPE)
            add(tar, f"{path}{letter}", tarfile.SYMTYPE, long)
            path = f"{path}{letter}/"
        add(tar, f"{path}{'l' * 254}", tarfile.SYMTYPE, "../" * 16)
        for up in ("..", "../..", "../../.."):
            name = f"escape{len(up)}"
            add(tar, name, tarfile.SYMTYPE, f"{path}{'l' * 254}/{up}")
            member = tarfile.TarInfo(f"{name}/new")
            member.size = 4
            tar.addfile(member, io.BytesIO(b"evil"))
    done = run("check", packed, env={"TMPDIR": str(scratch)})
    assert not list(tmp_path.rglob("new")) and list(scratch.iterdir()) == []
    assert "X005" in done.stdout + done.stderr


def test_09_links_are_never_written_through(grow: Grow, tmp_path: Path) -> None:
    tree = grow(**DEMO)
    result = tree.result("Offline")
    test = next(p for p in (tree.root / result.path).glob("TEST*") if "01" in p.name)
    secret = tmp_path / "outside.txt"
    secret.write_text("keep me")
    text = test / "verify_performance.txt"
    text.unlink()
    text.symlink_to(secret)
    run(
        "compliance",
        "verify",
        "TEST01",
        test,
        "--performance",
        result.performance,
        "--accuracy",
        result.accuracy,
        "--round",
        "demo",
        "--benchmark",
        "digits",
        "--scenario",
        "Offline",
        "--write",
    )
    assert secret.read_text() == "keep me"
    scores = result.accuracy_text
    scores.write_text(re.sub(r"(?m)^hash.*\n", "", scores.read_text()))
    log = result.accuracy_log
    log.write_bytes(log.read_bytes().rstrip()[:-1] + b" " * 2_000_000 + b"]\n")
    other = tmp_path / "scores"
    os.link(scores, other)
    before = other.read_bytes()
    run("truncate", tree.root, "--backup", tmp_path / "backup")
    assert other.read_bytes() == before


# --- C: one input ends the check ----------------------------------------------------------------


def test_10_numbers_of_hundreds_of_digits(grow: Grow) -> None:
    tree = grow(round="v0.7", benchmark="3d-unet-99", scenarios=["Offline"])
    result, digits = tree.result("Offline"), "9" * 5000
    result.detail.write_text(f'"pid": 1, "tid": 1, "ts": {"9" * 999}ns : version : 1\n')
    result.summary.write_text(f"{digits} ERRORS encountered. See detailed log.\n")
    result.accuracy_detail.write_text(
        f':::MLLOG {{"key": "effective_qsl_rng_seed", "value": {digits}}}\n'
    )
    assert findings("check", tree.root)


@pytest.mark.parametrize("text", ["[" * 16_000, 'a: !!int ""'])
def test_11_a_yaml_that_never_ends(text: str, tmp_path: Path) -> None:
    result = tmp_path / "closed/Acme/results/box1/llama3.1-8b/Offline"
    result.mkdir(parents=True)
    (result / "config.yaml").write_text(text)
    began = time.monotonic()
    found = findings("check", tmp_path, "--round", "v6.1")
    assert time.monotonic() - began < TOO_LONG_S
    assert "X002" in {f["rule"] for f in found}


def test_12_a_report_nested_without_end(tmp_path: Path) -> None:
    saved = tmp_path / "report.json"
    saved.write_text('{"a":' * 100_000)
    waivers = tmp_path / "waivers.toml"
    waivers.write_text("a = " + "[" * 9000)
    for arguments in (
        ["report", saved],
        ["diff", saved, saved],
        ["check", tmp_path, "--waivers", waivers],
    ):
        done = run(*arguments)
        assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr[-500:]


# --- D: resources -------------------------------------------------------------------------------


def test_13_headers_are_bounded(tmp_path: Path) -> None:
    packed = tmp_path / "mine.tar"
    with tarfile.open(packed, "w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("closed/a")
        member.pax_headers = {"comment": "x" * 4_000_000}
        tar.addfile(member)
    done = run("check", packed)
    assert done.returncode == 2 and "has a header of 4,000," in done.stderr


# --- E: the life of processes -------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_15_workers_end_with_their_parent(number: int, grow: Grow, tmp_path: Path) -> None:
    tree = grow(**DEMO)
    keep_busy(tree)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "assay", "check", str(tree.root), "--jobs", "2"],
        env={**os.environ, "PYTHONPATH": str(UNDER_TEST)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    workers: list[str] = []
    while process.poll() is None and len(workers) < 2:
        time.sleep(0.01)
        workers = children.read_text().split() if children.exists() else []
    time.sleep(0.3)
    process.send_signal(number)
    try:
        assert process.wait(timeout=20) in (-number, 128 + number)
        end = time.monotonic() + 10
        while time.monotonic() < end and _running(workers):
            time.sleep(0.05)
        assert workers and _running(workers) == []
    finally:
        for pid in _running(workers):
            os.kill(int(pid), signal.SIGKILL)
        process.kill()


def _running(pids: list[str]) -> list[str]:
    """Those that are there and no zombies."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            found.append(pid)
    return found


def test_16_few_descriptors(grow: Grow) -> None:
    done = run(
        "check", grow(**DEMO).root, "--jobs", "64", preexec_fn=limited(resource.RLIMIT_NOFILE, 64)
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr[-500:]


# --- F: writing ---------------------------------------------------------------------------------


def test_17_a_full_disk_keeps_the_older_report(grow: Grow, tmp_path: Path) -> None:
    tree, place = grow(**DEMO), tmp_path / "report.json"
    place.write_text("the older report")
    done = run(
        "check",
        tree.root,
        "--jobs",
        "1",
        "--output",
        place,
        preexec_fn=limited(resource.RLIMIT_FSIZE, 500),
    )
    assert done.returncode == 2 and place.read_text() == "the older report"
    with open("/dev/full", "w") as full:
        done = run("check", tree.root, "--jobs", "1", stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_18_dependencies_have_upper_bounds() -> None:
    project = tomllib.loads((UNDER_TEST / "pyproject.toml").read_text())["project"]
    assert [text for text in project["dependencies"] if "<" not in text] == []
    assert (UNDER_TEST / "constraints.txt").is_file()
    assert "constraints.txt" in (UNDER_TEST / "action.yml").read_text()
