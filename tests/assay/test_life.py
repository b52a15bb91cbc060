"""How a command ends: by a signal, on a full device, with an output that cannot be written."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from assay.cli import main
from tests.conftest import Grow
from tests.trees import GoodTree

ROOT = Path(__file__).parents[2]
DEMO: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "datacenter"}
ASSAY = [sys.executable, "-P", "-m", "assay"]
WITHOUT_BYTECODE = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
"""Python 3.11 keeps bytecode that a limit on the size of files has cut, for every later run."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, sets limits")


def _start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    return subprocess.Popen(
        [*ASSAY, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )


def keep_busy(tree: GoodTree) -> None:
    """Zeros that take no room on disk: each of two workers reads for many seconds."""
    for scenario in ("Offline", "Server"):
        log = tree.result(scenario).detail
        os.truncate(log, log.stat().st_size + (8 << 30))


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(text) for text in found]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_a_check_and_its_workers(name: str, grow: Grow, tmp_path: Path) -> None:
    number = getattr(signal, name)
    tree = grow(**DEMO)
    keep_busy(tree)
    # A stopped worker keeps its parent waiting: the signal comes in the middle of the check.
    process = _start("check", str(tree.root), "--jobs", "2")
    workers: list[int] = []
    end = time.monotonic() + 30
    # One child lists the tree before.
    while time.monotonic() < end and len(workers) < 2 and process.poll() is None:
        try:
            workers = _children(process.pid)
        except FileNotFoundError:
            break
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(0.3)
    process.send_signal(number)
    out, told = process.communicate(timeout=60)
    assert len(workers) == 2 and process.returncode == 128 + number
    assert out == "" and told == f"assay: stopped by {name}\n"
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_what_nohup_ignores_stays_ignored(grow: Grow) -> None:
    tree = grow(**DEMO)
    process = _start(
        "check", str(tree.root), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    time.sleep(0.4)
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "2 results" in out


def test_a_pool_that_a_signal_left_waiting_does_not_keep_the_command() -> None:
    code = """
import sys, threading
from assay import cli, signals
class _ExecutorManagerThread(threading.Thread):
    def run(self):
        threading.Event().wait()
def stopped(options):
    _ExecutorManagerThread().start()
    raise signals.Stopped(15)
import assay.commands.check as check
check.run = stopped
sys.exit(cli.main(["check", "."]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (143, "assay: stopped by SIGTERM\n")


@pytest.mark.parametrize("form", ["terminal", "json", "html", "github"])
def test_standard_output_on_a_full_device(form: str, grow: Grow) -> None:
    tree = grow(**DEMO)
    tree.set_log(tree.result("Offline").detail, "effective_min_duration_ms", 1)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*ASSAY, "check", str(tree.root), "--jobs", "1", "--format", form],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert (done.returncode, done.stderr) == (2, "assay: No space left on device\n")


@pytest.mark.parametrize(
    ("closed", "status", "told"),
    [("0", 1, "SUMMARY"), ("1", 2, "assay: standard output is closed\n"), ("2", 1, "SUMMARY")],
)
def test_a_closed_standard_stream(closed: str, status: int, told: str, grow: Grow) -> None:
    tree = grow(**DEMO)
    tree.set_log(tree.result("Offline").detail, "effective_min_duration_ms", 1)
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}>&-', "sh", *ASSAY, "check", str(tree.root)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == status
    assert done.stderr == told if closed == "1" else told in done.stdout and not done.stderr


def test_an_output_that_does_not_fit_leaves_the_old_one(
    grow: Grow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = grow(**DEMO)
    old = tmp_path / "out"
    old.mkdir()
    place = old / "report.json"
    place.write_text("the older report")
    place.chmod(0o640)
    done = subprocess.run(
        [*ASSAY, "check", str(tree.root), "--jobs", "1", "--no-cache", "--output", str(place)],
        capture_output=True,
        text=True,
        env=WITHOUT_BYTECODE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500)),
    )
    assert (done.returncode, done.stderr) == (
        2,
        f"assay: --output {place} cannot be written: File too large\n",
    )
    assert place.read_text() == "the older report" and list(old.iterdir()) == [place]
    assert main(["check", str(tree.root), "--jobs", "1", "--output", str(place)]) == 0
    assert place.read_bytes().startswith(b"{") and place.stat().st_mode & 0o777 == 0o640
    assert list(old.iterdir()) == [place]


def test_a_report_that_does_not_fit_leaves_the_old_page(grow: Grow, tmp_path: Path) -> None:
    from schemas.report import encode

    saved, page = tmp_path / "report.json", tmp_path / "out" / "report.html"
    page.parent.mkdir()
    saved.write_bytes(encode(grow(**DEMO).check()))
    page.write_text("the older page")
    done = subprocess.run(
        [*ASSAY, "report", str(saved), "--output", str(page)],
        capture_output=True,
        text=True,
        env=WITHOUT_BYTECODE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500)),
    )
    assert done.returncode == 2 and "File too large" in done.stderr
    assert page.read_text() == "the older page" and list(page.parent.iterdir()) == [page]


def test_output_through_a_link_and_into_a_device(grow: Grow, tmp_path: Path) -> None:
    tree = grow(**DEMO)
    place, link = tmp_path / "report.json", tmp_path / "latest.json"
    link.symlink_to(place)
    arguments = ["check", str(tree.root), "--jobs", "1", "--format", "json", "--output"]
    assert main([*arguments, str(link)]) == 0
    assert link.is_symlink() and place.read_bytes().startswith(b"{")
    assert main([*arguments, str(link)]) == 0 and link.is_symlink()
    assert main([*arguments, os.devnull]) == 0 and Path(os.devnull).is_char_device()


def test_ctrl_c_while_msgspec_is_imported(tmp_path: Path) -> None:
    """An exception in there is lost, and the first decoder of a date would crash."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'datetime':\n"
        "            sys.meta_path.remove(self)\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
    )
    process = _start("rules", "P104", env={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    out, told = process.communicate(timeout=60)
    assert (process.returncode, out, told) == (-signal.SIGINT, "", "")


def _printed(script: str, modules: Path, *arguments: str) -> tuple[str, str]:
    """What a script says on standard output and standard error; it may import what is in `modules`."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(modules)])},
        timeout=50,
    )
    return done.stdout, done.stderr


def test_a_signal_waits_for_an_import(tmp_path: Path) -> None:
    """Native modules do not survive an exception while they are imported."""
    (tmp_path / "signalled.py").write_text(
        "import os, signal, time\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "for _ in range(50):\n"
        "    time.sleep(0.001)\n"
        "whole = True\n"
    )
    script = (
        "import sys, time\n"
        "from assay.signals import Stopped, stopping\n"
        "try:\n"
        "    with stopping():\n"
        "        import signalled\n"
        "        time.sleep(60)\n"
        "except Stopped as stop:\n"
        "    print(stop.number, sys.modules['signalled'].whole)\n"
    )
    assert _printed(script, tmp_path) == (f"{int(signal.SIGTERM)} True\n", "")


def test_signals_wait_where_they_are_held(tmp_path: Path) -> None:
    """Those of an impatient terminal, too, and those that come again because of an import."""
    (tmp_path / "signalled.py").write_text("import os\nos.kill(os.getpid(), 15)\n")
    script = (
        "import os, time\n"
        "from assay.signals import Stopped, held, stopping\n"
        "done = []\n"
        "try:\n"
        "    with stopping():\n"
        "        try:\n"
        "            with held():\n"
        "                import signalled\n"
        "                os.kill(os.getpid(), 15)\n"
        "                for _ in range(100):\n"
        "                    time.sleep(0.001)\n"
        "                done.append('held')\n"
        "        finally:\n"
        "            os.kill(os.getpid(), 15)\n"
        "            time.sleep(0.1)\n"
        "            done.append('cleaned up')\n"
        "except Stopped as stop:\n"
        "    print(stop.number, *done)\n"
    )
    assert _printed(script, tmp_path) == (f"{int(signal.SIGTERM)} held cleaned up\n", "")


@pytest.mark.parametrize("where", ["fork", "collector"])
def test_a_signal_where_nothing_can_be_raised(where: str) -> None:
    """What is raised in what `fork` calls (a lock's release, for logging) is lost: the check went on."""
    script = (
        "import os, sys, time\n"
        "from assay.signals import Stopped, stopping\n"
        "def signalled():\n"
        "    os.kill(os.getpid(), 15)\n"
        "class Left:\n"
        "    def __del__(self):\n"
        "        signalled()\n"
        "try:\n"
        "    with stopping():\n"
        "        if sys.argv[1] == 'fork':\n"
        "            os.register_at_fork(after_in_parent=signalled)\n"
        "            if not os.fork():\n"
        "                os._exit(0)\n"
        "        else:\n"
        "            Left()\n"
        "        time.sleep(60)\n"
        "except Stopped as stop:\n"
        "    print(stop.number)\n"
    )
    assert _printed(script, ROOT, where) == (f"{int(signal.SIGTERM)}\n", "")


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("_multiprocessing.so: failed to map segment from shared object", 2),
        ("no such module", None),
    ],
)
def test_no_memory_for_a_late_import(
    message: str, status: int | None, grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(*arguments: Any, **options: Any) -> None:
        raise ImportError(message)

    monkeypatch.setattr("checker.engine.audit", check)
    command = ["check", str(grow(**DEMO).root), "--no-cache"]
    if status is None:
        with pytest.raises(ImportError):
            main(command)
    else:
        assert main(command) == status


@pytest.mark.parametrize("command", [("check", "."), ("demo",), ("audit", "tree")])
def test_the_current_folder_was_deleted(command: tuple[str, ...], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = "import os, sys; os.rmdir(os.getcwd()); from assay.cli import main; sys.exit(main())"
    ended = subprocess.run(
        [sys.executable, "-P", "-c", program, *command],
        cwd=gone,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.endswith(
        ". The current folder was deleted: change to another and try again.\n"
    )
    assert "Errno" not in ended.stderr


def test_without_docstrings() -> None:
    """They are the rules' texts: a report would have messages without a reason or a fix."""
    ended = subprocess.run(
        [sys.executable, "-OO", "-P", "-m", "assay", "rules"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "unset PYTHONOPTIMIZE" in ended.stderr
