"""A model, backend or data set that stops moving ends the run, in whatever phase it is."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner import RunFailed, SettingsError, StalledRun, measure, run_benchmark, stall
from runner.run import Job
from runner.scoring import score
from runner.settings import SCENARIOS, Mode, RunSettings
from tests.runner.plans import plan_with
from tests.runner.test_run import LIMIT_MS

BROKEN = "tests.runner.broken:Broken"


def job(
    scenario: str, how: str = "hangs", mode: Mode = "performance", calls: int | None = None
) -> Job:
    if calls is None:
        # The warm-up makes three.  Server's queries go on coming: after an answer the early stop could
        # find them late before anything else is noticed.
        calls = 3 if scenario == "Server" else 4
    return Job(
        "digits",
        RunSettings(
            "digits",
            scenario,
            mode,
            min_duration_ms=1000,
            target_latency_ms=100 if scenario == "Server" else None,
            # Of the warm-up's own rate LoadGen would generate millions of samples, and may take long.
            target_qps={"Server": 200, "Offline": 100_000}.get(scenario),
        ),
        backend=BROKEN,
        backend_options={"how": how, "good_calls": calls},
        warm_up_s=0.0,
        stall_timeout_s=1.0,
    )


@pytest.mark.parametrize("mode", ["performance", "accuracy"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_run_that_hangs_is_ended_with_its_stack(
    scenario: str, mode: Mode, tmp_path: Path
) -> None:
    began = time.monotonic()
    with pytest.raises(StalledRun, match=r"no progress for .* s while running; the main thread"):
        measure(job(scenario, mode=mode), tmp_path / "run")
    assert time.monotonic() - began < 60
    assert not (tmp_path / "run").exists()
    stacks = (tmp_path / "run.failed" / "traceback.txt").read_text()
    assert "broken.py" in stacks and "time.sleep(600)" in stacks
    assert (tmp_path / "run.failed" / "REASON.txt").is_file()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_warm_up_that_hangs(scenario: str, tmp_path: Path) -> None:
    with pytest.raises(StalledRun, match=r"while warming up; .*broken\.py"):
        measure(job(scenario, calls=1), tmp_path / "run")


# The warm-up's samples; those of LoadGen, for accuracy and performance.
@pytest.mark.parametrize(
    ("name", "mode"),
    [("STUCK", "accuracy"), ("LATER_STUCK", "accuracy"), ("LATER_STUCK", "performance")],
)
def test_a_data_set_that_never_loads(name: str, mode: Mode, tmp_path: Path) -> None:
    stuck = replace(
        job("Offline", mode=mode), benchmark=f"tests.runner.broken:{name}", stall_timeout_s=0.5
    )
    with pytest.raises(StalledRun, match=r"while loading samples; .*") as caught:
        measure(replace(stuck, backend="dummy", backend_options={}), tmp_path / "run")
    assert "broken.py" in (tmp_path / "run.failed" / "traceback.txt").read_text()
    assert not (tmp_path / "run").exists() and "no progress" in str(caught.value)


# VALID on any machine, since an inference sleeps 2 ms: none is faster, and later ones are in time.
SURELY_VALID: dict[str, dict[str, Any]] = {
    "SingleStream": {"expected_latency_ms": 1.0},
    "MultiStream": {"expected_latency_ms": 1.0, "min_query_count": 700},
    "Server": {"target_qps": 2000.0, "min_query_count": 1000},
    "Offline": {"target_qps": 80_000.0},
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_compliance_test_that_hangs(scenario: str, tmp_path: Path) -> None:
    out = tmp_path / "tree"
    plan = plan_with(
        "digits",
        out,
        scenarios=(scenario,),
        # The demonstration's round asks for no test in MultiStream.
        round="v6.0" if scenario == "MultiStream" else "demo",
        task="resnet" if scenario == "MultiStream" else None,
        system="box",
        min_duration_ms=500,
        target_latency_ms=LIMIT_MS,
        compliance=True,
        stall_timeout_s=3.0,
        backend="tests.runner.broken:HangsLater",
        backend_options={"counter": str(tmp_path / "counter"), "seconds": 0.002},
        **SURELY_VALID[scenario],
    )
    began = time.monotonic()
    (outcome,) = run_benchmark(plan)
    assert time.monotonic() - began < 120
    assert outcome.status == "failed" and outcome.metric is None
    assert "no progress" in outcome.message and "broken.py" in outcome.message
    assert not out.exists()  # the VALID performance run before it is not claimed
    (stacks,) = (tmp_path / "tree.runs" / scenario).glob("TEST*.failed/traceback.txt")
    assert "time.sleep(600)" in stacks.read_text()


def test_a_backend_that_never_closes(tmp_path: Path) -> None:
    never = replace(job("SingleStream"), backend="tests.runner.broken:NeverCloses")
    with pytest.raises(StalledRun, match=r"while closing; .*broken\.py"):
        measure(replace(never, backend_options={}, stall_timeout_s=3.0), tmp_path / "run")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_model_that_never_loads_gets_ten_times_as_long(scenario: str, tmp_path: Path) -> None:
    began = time.monotonic()
    slow = Job(
        "digits",
        RunSettings("digits", scenario),
        backend="tests.runner.broken:NeverLoads",
        stall_timeout_s=0.2,
    )
    with pytest.raises(StalledRun, match=r"while loading; .*broken\.py"):
        measure(slow, tmp_path / "run")
    assert time.monotonic() - began >= 2


def test_a_call_that_keeps_the_interpreter_s_lock(tmp_path: Path) -> None:
    with pytest.raises(StalledRun, match=r"(?s)holds Python's interpreter lock.*broken\.py"):
        measure(job("SingleStream", how="hangs with the lock"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_scoring_that_hangs_ends_its_scenario(tmp_path: Path) -> None:
    plan = plan_with(
        "tests.runner.broken:NEVER_SCORED",
        tmp_path / "tree",
        scenarios=("Offline", "SingleStream"),
        round="demo",
        task="digits",
        min_duration_ms=500,
        stall_timeout_s=1.0,
        backend="dummy",
    )
    first, second = run_benchmark(plan)
    assert (first.status, second.status) == ("failed", "failed")
    assert "no progress for 10 s while scoring" in first.message and "broken.py" in first.message
    stacks = tmp_path / "tree.runs" / "Offline" / "accuracy" / "traceback.txt"
    assert "time.sleep(600)" in stacks.read_text()
    assert not (tmp_path / "tree").exists()


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("BUSY_SCORING", StalledRun, r"not done after 9 s. Raise --stall-timeout"),
        ("DIES_SCORING", RunFailed, r"ended by signal SIGKILL .* last words: out of memory"),
        ("RAISES_SCORING", RunFailed, r"ZeroDivisionError: no samples"),
    ],
)
def test_scoring_that_fails(
    name: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    scored = replace(
        job("Offline", mode="accuracy"),
        benchmark=f"tests.runner.broken:{name}",
        stall_timeout_s=0.15,
    )
    log = tmp_path / "mlperf_log_accuracy.json"
    log.write_text("[]")
    with pytest.raises(error, match=message):
        score(scored, log)


def test_a_suspended_machine_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that comes 100 s late counts as half a second: this process did not run either."""
    now, late = [0.0], iter([0.25, 100.0])

    def wait(seconds: float) -> bool:
        now[0] += next(late, seconds)
        return False

    def fail(error: BaseException) -> None:
        raise error

    monkeypatch.setattr(stall, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(stall.faulthandler, "dump_traceback_later", lambda *_, **__: None)
    watch = stall.StallWatch(2.0, lambda: 0, fail)
    monkeypatch.setattr(watch, "_stop", SimpleNamespace(wait=wait))
    watch.enter("running")
    with pytest.raises(StalledRun, match="no progress for 2 s while running"):
        watch._look()
    assert now == [100.25 + 1.75]


def test_the_limit_is_a_number_above_zero() -> None:
    with pytest.raises(SettingsError, match="stall_timeout_s=0; expected more than 0"):
        Job("digits", RunSettings("digits", "Offline"), stall_timeout_s=0)
