"""Real LoadGen runs: each scenario, each way to fail, Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner import (
    SCENARIOS,
    BackendError,
    DatasetError,
    Event,
    InferenceError,
    Job,
    OutputError,
    ResourceError,
    RunFailed,
    RunSettings,
    SettingsError,
    measure,
)
from runner.benchmarks.digits import DIGITS
from runner.logs import ACCURACY, DETAIL, SUMMARY, read_detail, verify
from runner.settings import Mode
from tests.runner.patience import undisturbed

ROOT = Path(__file__).resolve().parents[2]
# Server's limit: later than any answer on a machine that is busy, or stands still for seconds.
LIMIT_MS = 60_000.0


def job(scenario: str, mode: Mode = "performance", **more: Any) -> Job:
    settings = RunSettings(
        "digits",
        scenario,
        mode,
        min_duration_ms=700,
        target_latency_ms=LIMIT_MS if scenario == "Server" else None,
        load=0.1,
    )
    values: dict[str, Any] = {"backend": "dummy", "warm_up_s": 0.05, "settings": settings}
    return Job("digits", **{**values, **more})


class Listener:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.events.append(event)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_performance_run_on_the_real_model(scenario: str, tmp_path: Path) -> None:
    listener = Listener()
    result = measure(
        job(
            scenario,
            backend="onnxruntime",
            backend_options={"threads": 1, "spinning": False},
            model=str(DIGITS.models["fp32"]),
        ),
        tmp_path / "run",
        listener,
    )
    assert not [r for r in result.reasons if "LoadGen error" in r]
    assert sorted(p.name for p in result.folder.iterdir()) == sorted(
        [SUMMARY, DETAIL, ACCURACY, "timeline.jsonl", "user.conf"]
    )
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    detail = result.detail
    assert detail["effective_qsl_rng_seed"] == 2085463073848966840
    assert detail["effective_scenario"] == scenario
    assert detail["effective_min_duration_ms"] == 700
    assert detail["effective_performance_sample_count"] == 500
    assert detail["effective_max_async_queries"] == 0 or scenario != "Server"
    assert result.metric is not None and result.metric > 0
    assert result.samples >= detail["result_query_count"]
    assert "ONNX Runtime" in result.framework
    phases = [event.phase for event in listener.events]
    assert phases[0] == "start" and phases[-1] == "done"
    assert "ready" in phases
    # Reported every half second; Offline ends sooner where the warm-up was much slower than the run.
    assert "running" in phases or result.seconds < 1


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_accuracy_run_answers_every_sample(scenario: str, tmp_path: Path) -> None:
    result = measure(job(scenario, "accuracy"), tmp_path / "run")
    assert result.valid
    entries = json.loads((result.folder / ACCURACY).read_text())
    labels = DIGITS.make_dataset(None).labels  # type: ignore[attr-defined]
    assert {entry["qsl_idx"] for entry in entries} == set(range(500))
    for entry in entries:
        answer = int.from_bytes(bytes.fromhex(entry["data"]), "little")
        assert answer == labels[entry["qsl_idx"]]


def test_answers_of_different_sizes(tmp_path: Path) -> None:
    special = job("Offline", "accuracy")
    result = measure(
        Job("tests.runner.broken:LONG_ANSWERS", special.settings, "dummy", warm_up_s=0.0),
        tmp_path / "run",
    )
    entries = json.loads((result.folder / ACCURACY).read_text())
    for entry in entries:
        data = bytes.fromhex(entry["data"])
        assert len(data) == 4 * (1 + data[0])


def no_result_is_claimed(folder: Path, word: str) -> Path:
    """The run's folder does not exist; what is left cannot be taken for a result."""
    assert not folder.exists()
    (left,) = folder.parent.glob(f"{folder.name}.{word}*")
    assert not list(left.rglob(SUMMARY)) and not list(left.rglob(DETAIL))
    for path in left.glob(f"*{SUMMARY}"):
        assert ": VALID" not in path.read_text()
    assert (left / "REASON.txt").read_text().strip()
    return left


FAILURES = {
    "raises": "the device is gone",
    "system exit": "SystemExit",
    "nan": "NaN|nan",
    "infinite": "infinite|inf",
    "wrong shape": "shape",
    "too few rows": "shape",
    "too few outputs": "0 model outputs",
    "no array": "AttributeError",
}


@pytest.mark.parametrize(
    ("how", "scenario", "mode"),
    [("raises", scenario, "performance") for scenario in SCENARIOS]
    + [("raises", scenario, "accuracy") for scenario in ("SingleStream", "Server")]
    + [(how, "Offline", "performance") for how in FAILURES if how != "raises"]
    + [(how, "SingleStream", "accuracy") for how in ("nan", "too few outputs")],
)
def test_a_failing_inference_fails_the_run(
    how: str, scenario: str, mode: Mode, tmp_path: Path
) -> None:
    broken = job(
        scenario,
        mode,
        backend="tests.runner.broken:Broken",
        backend_options={"how": how},
        warm_up_s=0.0,
    )
    with pytest.raises(InferenceError, match=FAILURES[how]) as caught:
        measure(broken, tmp_path / "run")
    assert "nothing of it is claimed" in str(caught.value)
    left = no_result_is_claimed(tmp_path / "run", "failed")
    assert "Traceback" in (left / "traceback.txt").read_text()
    # The next run works, in the same process and place.
    if how == "nan":
        assert measure(job(scenario, "accuracy"), tmp_path / "run").valid


def test_a_failure_in_the_warm_up_is_a_failed_run(tmp_path: Path) -> None:
    broken = job(
        "Server",
        backend="tests.runner.broken:Broken",
        backend_options={"how": "raises", "good_calls": 1},
    )
    with pytest.raises(InferenceError, match="the device is gone"):
        measure(broken, tmp_path / "run")


def test_a_crash_of_the_measuring_process_is_reported(tmp_path: Path) -> None:
    broken = job(
        "Offline",
        backend="tests.runner.broken:Broken",
        backend_options={"how": "crashes"},
        warm_up_s=0.0,
    )
    with pytest.raises(RunFailed, match="SIGSEGV"):
        measure(broken, tmp_path / "run")
    no_result_is_claimed(tmp_path / "run", "failed")


def test_a_data_set_that_cannot_be_loaded(tmp_path: Path) -> None:
    special = job("SingleStream")
    with pytest.raises(DatasetError, match="the disk is gone"):
        measure(
            Job("tests.runner.broken:UNLOADABLE", special.settings, "dummy", warm_up_s=0.0),
            tmp_path / "run",
        )
    no_result_is_claimed(tmp_path / "run", "failed")


def test_errors_before_the_run_keep_their_kind(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="CUDAExecutionProvider"):
        measure(
            job(
                "Offline",
                backend="onnxruntime",
                backend_options={"providers": ["cuda"]},
                model=str(DIGITS.models["fp32"]),
            ),
            tmp_path / "provider",
        )
    greedy = RunSettings("digits", "Offline", target_qps=1e9)
    with pytest.raises(ResourceError, match="pre-generated"):
        measure(Job("digits", greedy, "dummy"), tmp_path / "memory")
    with pytest.raises(SettingsError, match=r"user\.conf:1"):
        measure(
            Job("digits", RunSettings("digits", "Offline", user_conf="a.b.c = 1"), "dummy"),
            tmp_path / "conf",
        )
    # The last was found before anything was created.
    assert not list(tmp_path.glob("conf*"))


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        measure(job("Offline"), tmp_path / "file" / "run")
    with pytest.raises(OutputError, match="cannot be written"):
        measure(job("Offline"), Path("/proc/assay/run"))
    (tmp_path / "taken").mkdir()
    with pytest.raises(OutputError, match="already"):
        measure(job("Offline"), tmp_path / "taken")


def test_a_full_disk_is_seen_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OutputError, match="MiB free"):
        measure(job("Offline"), tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_an_audit_config_of_the_working_directory_is_not_picked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "audit.config").write_text("*.*.performance_issue_same = 1\n")
    monkeypatch.chdir(tmp_path)
    result = measure(job("SingleStream"), tmp_path / "run")
    assert result.detail["effective_performance_issue_same"] is False


def test_cut_off_logs_are_no_result(tmp_path: Path) -> None:
    result = measure(job("SingleStream", "accuracy"), tmp_path / "run")
    log = result.folder / ACCURACY
    whole = log.read_bytes()
    log.write_bytes(whole[:-100])
    with pytest.raises(RunFailed, match="disk full"):
        verify(result.folder, "accuracy", 500)
    log.write_bytes(b"[]")
    with pytest.raises(RunFailed, match="0 samples"):
        verify(result.folder, "accuracy", 500)
    with pytest.raises(RunFailed, match="without a result"):
        verify(result.folder, "performance", 500)
    detail = result.folder / DETAIL
    detail.write_bytes(detail.read_bytes()[:-30])
    with pytest.raises(RunFailed, match="not written whole"):
        read_detail(detail)
    detail.write_bytes(b"")
    with pytest.raises(RunFailed, match="no LoadGen record"):
        read_detail(detail)
    log.unlink()
    with pytest.raises(RunFailed, match="permissions"):
        verify(result.folder, "accuracy", 500)


DRIVER = """
import sys
from pathlib import Path
from runner import Job, RunSettings, measure

class Listener:
    def on_event(self, event):
        if event.phase == {phase!r}:
            print("go", flush=True)

settings = RunSettings("digits", {scenario!r}, min_duration_ms=60_000, load=0.1,
                       target_latency_ms={limit} if {scenario!r} == "Server" else None)
job = Job("digits", settings, {backend!r}, {options!r}, {model!r}, warm_up_s={warm_up},
          early_stop=False)
try:
    measure(job, Path(sys.argv[1]), Listener())
except KeyboardInterrupt:
    sys.exit(130)
"""


def start(scenario: str, folder: Path, backend: str = "onnxruntime", **options: Any) -> Any:
    code = DRIVER.format(
        scenario=scenario,
        backend=backend,
        options=options,
        model=str(DIGITS.models["fp32"]),
        phase="ready" if "how" in options else "running",
        warm_up=0.0 if "how" in options else 0.05,
        limit=LIMIT_MS,
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    return process


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()]


def lives(pid: int) -> bool:
    """Whether the process is there, and is not one that has ended and that nobody waits for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end while the file is open
        return False


@pytest.mark.parametrize("scenario", [*SCENARIOS, "hanging inference"])
def test_ctrl_c_ends_the_run_within_two_seconds(scenario: str, tmp_path: Path) -> None:
    def interrupted(number: int) -> float:
        folder = tmp_path / str(number) / "run"
        if scenario == "hanging inference":
            process = start("Server", folder, "tests.runner.broken:Broken", how="hangs")
        else:
            process = start(scenario, folder, threads=1)
        (child,) = children(process.pid)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=60)
        took = time.monotonic() - sent
        assert code == 130
        assert not Path(f"/proc/{child}").exists()
        no_result_is_claimed(folder, "interrupted")
        return took

    assert undisturbed(interrupted, lambda took: took < 2) < 2


def test_the_measuring_process_does_not_outlive_its_parent(tmp_path: Path) -> None:
    process = start("Server", tmp_path / "run", threads=1)
    (child,) = children(process.pid)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    while lives(child):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    # What it left is no result either, and the place is free for the next run.
    assert not (tmp_path / "run").exists()
    for path in tmp_path.rglob(SUMMARY):
        assert ": VALID" not in path.read_text()
    assert measure(job("SingleStream", "accuracy"), tmp_path / "run").valid


def test_the_measuring_process_runs_nothing_of_the_current_folder(tmp_path: Path) -> None:
    """B7: a folder runner/ or a json.py beside the results is not imported."""
    here = tmp_path / "here"
    (here / "runner").mkdir(parents=True)
    for name in ("runner/__init__.py", "runner/child.py", "json.py", "numpy.py"):
        (here / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__)\n")
    code = (
        "import sys\nsys.path.insert(0, '')\nsys.path.insert(1, {root!r})\nsys.path.remove('')\n"
        "from tests.runner.test_run import job\nfrom runner import measure\nfrom pathlib import Path\n"
        "sys.path.insert(0, '')\nmeasure(job('Offline', 'accuracy'), Path({out!r}))\n"
    ).format(root=str(ROOT), out=str(tmp_path / "out"))
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=here, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


def test_early_stopping_is_reported_in_loadgen_s_own_words(tmp_path: Path) -> None:
    base = job("Server")
    settings = replace(base.settings, target_qps=200, min_duration_ms=1000)
    listener = Listener()
    result = measure(replace(base, settings=settings), tmp_path / "run", listener)
    (reason,) = result.reasons
    assert reason.startswith("early stopping is not satisfied: Run unsuccessful. Processed ")
    assert "more queries, with the run being successful if every additional" in reason
    (warning,) = (w for w in result.warnings if "early stopping" in w)
    assert "found about 200 queries in 1 s; early stopping needs 459 or more" in warning
    assert "at least 3 s" in warning


def test_a_limit_that_one_inference_exceeds_is_named_before_the_run(tmp_path: Path) -> None:
    base = job("Server")
    settings = replace(base.settings, target_qps=20, target_latency_ms=5, min_duration_ms=300)
    slow = replace(
        base,
        settings=settings,
        backend="tests.runner.cheats:Sleeps",
        backend_options={"seconds": 0.02},
        early_stop=False,
    )
    result = measure(slow, tmp_path / "run")
    assert not result.valid
    (warning,) = (w for w in result.warnings if "for one inference" in w)
    assert "expected less than Server's limit of 5 ms, which no target_qps can meet" in warning
