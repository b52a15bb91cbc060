"""When it is certain that a run can only become INVALID, and when it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner import HopelessRun, measure, run_benchmark
from runner.watch import Limits, Watch, most_queries
from tests.runner.plans import plan_with
from tests.runner.test_run import Listener, job


def server(queries: int = 1000, limit_s: float = 0.1) -> Watch:
    return Watch(Limits("Server", 10.0, queries, 0.01, limit_s))


def test_late_answers_decide_when_no_more_may_be_late() -> None:
    watch = server()
    assert watch.verdict(0.5, done=50, issued=50, late=10) is None
    why = watch.verdict(1.0, done=100, issued=103, late=11)
    assert why is not None and "11 queries later than 100 ms" in why and "3 are waiting" in why


def test_waiting_queries_are_late_once_they_waited_too_long() -> None:
    watch = server()
    assert watch.verdict(0.5, done=0, issued=60) is None  # nobody knows yet how long they waited
    assert watch.verdict(0.55, done=0, issued=70) is None
    assert watch.verdict(0.62, done=55, issued=80) is None  # 5 of the first 60 are late
    why = watch.verdict(0.66, done=55, issued=90)  # 15 of the first 70
    assert why is not None and "15 queries" in why


def test_the_schedule_is_never_longer_than_thought() -> None:
    for rate in (1.0, 50.0, 20_000.0):
        assert most_queries(rate, 10, 0) > rate * 10 + 5 * (rate * 10) ** 0.5
    assert most_queries(1.0, 10, 500) == 500


def test_an_offline_run_is_hopeless_when_even_a_slow_rest_is_too_short() -> None:
    watch = Watch(Limits("Offline", 10.0, 1000))
    assert watch.verdict(0.5, done=900) is None  # too early to tell
    why = watch.verdict(1.0, done=900)
    assert why is not None and "900 of 1,000" in why and "Raise target_qps to 1080" in why
    assert watch.verdict(1.0, done=200) is None
    assert watch.verdict(12.0, done=999) is None
    assert Watch(Limits("SingleStream", 10.0, 0)).verdict(1.0, done=1) is None


def test_a_hopeless_server_run_ends_early(tmp_path: Path) -> None:
    slow = job("Server", backend="tests.runner.cheats:Honest", batch_size=2)
    settings = slow.settings.__class__(
        "digits", "Server", min_duration_ms=60_000, target_latency_ms=50, target_qps=8000
    )
    hopeless = slow.__class__(**{**vars(slow), "settings": settings})
    listener = Listener()
    with pytest.raises(HopelessRun, match=r"ended early.* Lower target_qps") as caught:
        measure(hopeless, tmp_path / "run", listener)
    assert caught.value.values["target_qps"] == 8000 and caught.value.rate > 0
    assert not (tmp_path / "run").exists()
    (left,) = tmp_path.glob("run.failed*")
    assert "ended early" in (left / "REASON.txt").read_text()
    running = [event for event in listener.events if event.phase == "running"]
    assert running and running[-1].waiting > 0 and running[-1].latency_ms is not None
    assert running[-1].elapsed_s < 30


def test_a_hopeless_rate_of_the_users_is_an_invalid_outcome(tmp_path: Path) -> None:
    (outcome,) = run_benchmark(
        plan_with(
            "digits",
            tmp_path / "tree",
            scenarios=("Server",),
            backend="tests.runner.cheats:Honest",
            system="box",
            min_duration_ms=60_000,
            target_latency_ms=50.0,
            target_qps=8000.0,
            max_batch=1,
        )
    )
    assert outcome.status == "invalid" and "ended early" in outcome.message
    assert outcome.score is not None and outcome.metric is None
    assert not (tmp_path / "tree").exists()
    # The accuracy that was measured is kept.
    assert outcome.path is not None
    assert (outcome.path / "accuracy" / "mlperf_log_accuracy.json").stat().st_size
