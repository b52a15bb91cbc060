"""Workers end with their parent, and where the machine gives fewer of them, fewer do the work."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from checker import schedule, unit, workers
from checker.engine import Options, check
from schemas.machine import MachineFault
from schemas.report import encode
from tests.conftest import Grow

ROOT = Path(__file__).parents[2]
DEMO: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "datacenter"}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, sets limits")


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def _until(true: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.02)
    return true()


POOL = """
import sys, threading, time
from checker.workers import workers
if sys.argv[1] == "spawn":
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
if __name__ == "__main__":
    with workers(2) as pool:
        print(*[f.result() for f in [pool.submit(__import__("os").getpid) for _ in range(60)]], flush=True)
        list(pool.map(time.sleep, [600, 600]))
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_killing_the_parent_ends_its_workers(method: str, tmp_path: Path) -> None:
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    parent = subprocess.Popen(
        [sys.executable, "-P", str(script), method],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert parent.stdout is not None
    pids = {int(text) for text in parent.stdout.readline().split()}
    try:
        assert pids and all(map(_alive, pids))
        parent.kill()
        parent.wait()
        assert _until(lambda: not any(map(_alive, pids)))
    finally:
        parent.kill()
        parent.stdout.close()


def test_an_exception_ends_the_workers_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), workers.workers(2) as pool:
        assert pool is not None
        pids = [pool.submit(os.getpid).result()]
        pool.submit(time.sleep, 600)
        raise KeyboardInterrupt
    assert time.monotonic() - began < 60 and not any(map(_alive, pids))


def test_signals_are_the_parents_business() -> None:
    """Ctrl-C reaches the whole group; a worker waits for its parent's decision."""
    with workers.workers(2) as pool:
        assert pool is not None
        pid = pool.submit(os.getpid).result()
        os.kill(pid, signal.SIGINT)
        assert pool.submit(os.getpid).result()
        assert _alive(pid)


def _limited(what: int, value: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(what, (value, value))


@pytest.mark.parametrize("files", [24, 40, 64])
def test_few_file_descriptors(files: int, grow: Grow) -> None:
    """64 jobs with few descriptors: the same report, by fewer workers."""
    tree = grow(**DEMO)
    code = (
        "import sys\nfrom checker.engine import Options, check\nimport checker.schedule as e\n"
        "e._CHUNK = 1\nfrom schemas.report import encode\n"
        "sys.stdout.buffer.write(encode(check(sys.argv[1], Options(jobs=64))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tree.root)],
        capture_output=True,
        timeout=120,
        cwd=ROOT,
        preexec_fn=_limited(resource.RLIMIT_NOFILE, files),
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == encode(check(tree.root, Options(jobs=1)))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EAGAIN])
def test_fewer_workers_where_not_all_start(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fourth process cannot be made: none of the first three is left over."""
    from multiprocessing.context import ForkProcess

    start = ForkProcess.start
    made: list[Any] = []

    def few(self: Any) -> None:
        if sum(p.is_alive() for p in made) == 3:
            raise OSError(number, os.strerror(number))
        start(self)
        made.append(self)

    monkeypatch.setattr(ForkProcess, "start", few)
    monkeypatch.setattr(workers.threading, "active_count", lambda: 1)
    with workers.workers(6) as pool:
        assert isinstance(pool, ProcessPoolExecutor)
        assert sum(p.is_alive() for p in made) == 3
        assert pool.submit(abs, -1).result() == 1
    assert not any(p.is_alive() for p in made)


def test_no_descriptor_for_a_file_is_no_finding(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many open files says nothing of the submission."""
    tree = grow(**DEMO)
    real = os.open

    def out(path: Any, *args: Any, **options: Any) -> int:
        if str(path).endswith("mlperf_log_summary.txt"):
            raise OSError(errno.EMFILE, "Too many open files", path)
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", out)
    with pytest.raises(MachineFault, match="Too many open files"):
        check(tree.root, Options(jobs=1))


def test_memory_that_runs_out(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result whose worker runs out of memory is tried alone, and the rest is judged."""
    tree = grow(**DEMO)
    real = unit.load_result

    def load(plan: Any, round: Any) -> Any:
        if plan.scenario == "Offline":
            raise MemoryError
        return real(plan, round)

    monkeypatch.setattr(unit, "load_result", load)
    # A worker that is spawned does not have the patch: judged alone, the result is as it is.
    report = check(tree.root, Options(jobs=1))
    assert [r.status for r in report.results] == ["valid", "valid"]

    def never(plans: Any, *rest: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(schedule, "work", never)
    monkeypatch.setattr(workers, "one_worker", lambda: workers.workers(1, _Inline()))
    report = check(tree.root, Options(jobs=1))
    assert [(f.rule, f.severity) for f in report.findings if f.rule == "X001"] == [
        ("X001", "error")
    ] * 2
    assert all("out of memory" in f.message for f in report.findings if f.rule == "X001")
    assert [r.status for r in report.results] == ["invalid", "invalid"]


class _Inline(ProcessPoolExecutor):
    def submit(self, fn: Any, /, *args: Any, **options: Any) -> Any:
        from concurrent.futures import Future

        future: Any = Future()
        try:
            future.set_result(fn(*args, **options))
        except BaseException as error:
            future.set_exception(error)
        return future


def test_a_fresh_interpreter_imports_nothing_of_the_current_folder(tmp_path: Path) -> None:
    """The current folder may be the submission: `python -c` would look for modules there first."""
    for name in ("multiprocessing", "checker", "random"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'a').write(__name__)\n")
    code = (
        "import os\nfrom checker.workers import one_worker\nif __name__ == '__main__':\n"
        " with one_worker() as pool:\n  assert pool.submit(os.getpid).result() != os.getpid()\n"
    )
    script = tmp_path / "script"
    script.mkdir()
    (script / "start.py").write_text(code)
    done = subprocess.run(
        [sys.executable, str(script / "start.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


def test_the_thread_of_the_pool_ends(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without memory it does, and nobody is told: results are judged here, or are said to be not."""
    from concurrent.futures import process

    tree = grow(round="demo", benchmark="digits", category="datacenter")
    expected = encode(check(tree.root, Options(jobs=1)))
    monkeypatch.setattr(process._ExecutorManagerThread, "run", lambda thread: None)
    monkeypatch.setattr(workers, "_LOOK_S", 0.05)
    assert encode(check(tree.root, Options(jobs=2))) == expected

    def never(*given: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(schedule, "work", never)
    report = check(tree.root, Options(jobs=1))
    assert [f.rule for f in report.findings if "out of memory" in f.message] == ["X001"] * 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_thread_of_the_pool_ends_in_the_middle(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After both workers answered that they are there: what they do not tell is judged alone."""
    from concurrent.futures import process

    tree = grow(round="demo", benchmark="digits", category="datacenter")
    expected = encode(check(tree.root, Options(jobs=1)))
    told: list[Any] = []
    hand_on = process._ExecutorManagerThread.process_result_item

    def some(thread: Any, item: Any) -> None:
        told.append(item)
        if len(told) == 3:
            raise SystemExit  # of this thread: the others are not told
        hand_on(thread, item)

    monkeypatch.setattr(process._ExecutorManagerThread, "process_result_item", some)
    monkeypatch.setattr(workers, "_LOOK_S", 0.05)
    assert encode(check(tree.root, Options(jobs=2))) == expected
    assert len(told) > 3 and multiprocessing.active_children() == []


def test_no_thread_for_the_pool(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool needs a thread of its own; without it this process judges alone."""
    tree = grow(round="demo", benchmark="digits", category="datacenter")
    expected = encode(check(tree.root, Options(jobs=1)))

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert encode(check(tree.root, Options(jobs=2))) == expected
