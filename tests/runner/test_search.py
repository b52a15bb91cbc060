"""Finding the load: the steps, the statistics, the log and its resumption."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import runner.search
from checker.early_stopping import server_met
from runner import (
    HopelessRun,
    Job,
    Measurement,
    RunFailed,
    RunSettings,
    Search,
    SettingsError,
    Silent,
    run_benchmark,
)
from runner.disturbance import Ticks
from runner.search import (
    Found,
    Probe,
    ProbeLog,
    chance_of,
    confirmations,
    estimate,
    find,
    judge,
    judge_tokens,
)
from tests.runner.patience import undisturbed
from tests.runner.test_reference import plan

CAPACITY = 1000.0


class Machine:
    """Stands in for LoadGen: carries `CAPACITY` queries a second, and says what it was asked."""

    def __init__(self, disturbed: tuple[int, ...] = ()) -> None:
        self.asked: list[float | None] = []
        self.disturbed = disturbed  # numbers of runs that fail whatever the rate

    def __call__(self, job: Job, folder: Path, progress: Any) -> Measurement:
        settings = job.settings
        assert settings.least_duration_ms == 0 and "min_duration" not in settings.user_conf
        self.asked.append(settings.target_qps)
        rate = settings.target_qps or 150.0
        assert settings.min_duration_ms is not None
        queries = int(rate * settings.min_duration_ms / 1000)
        bad = rate > CAPACITY or len(self.asked) in self.disturbed
        if rate > 2.5 * CAPACITY:
            raise HopelessRun("it: hopeless", {"target_qps": rate}, CAPACITY)
        late = queries // 5 if bad else 0
        detail = {
            "result_query_count": queries,
            "result_overlatency_query_count": late,
            "effective_target_latency_percentile": 0.99,
            "effective_target_qps": rate,
            "effective_target_latency_ns": 500_000,
            "result_mean_latency_ns": 1_000_000,
        }
        metric = CAPACITY if settings.scenario == "Offline" else rate
        valid = server_met(queries, late, 0.99)
        return Measurement(folder, job, valid, metric, "", (), detail, "", "", 1.0, queries)


class Calm:
    """In the place of the process that ticks: the real machine is none of these tests' business."""

    def __enter__(self) -> Calm:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def reset(self) -> None:
        pass

    def share(self) -> float:
        return 0.0


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner.search, "Ticks", Calm)


def search_with(
    machine: Callable[..., Measurement],
    scenario: str,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: list[str] | None = None,
    user_conf: str = "",
) -> Found:
    monkeypatch.setattr(runner.search, "measure", machine)
    job = Job("digits", RunSettings("digits", scenario, user_conf=user_conf), "dummy")
    say = (said if said is not None else []).append
    probes = ProbeLog(log, {"scenario": scenario})
    return find(Search(), job, log.parent / "runs", probes, Silent(), say, 0.99)


def test_server_is_bracketed_and_bisected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, said = Machine(), list[str]()
    found = search_with(machine, "Server", tmp_path / "log.jsonl", monkeypatch, said)
    assert found.key == "target_qps"
    assert CAPACITY / 1.05 <= found.best <= CAPACITY
    assert found.value == pytest.approx(0.95 * found.best, rel=1e-3)
    assert "99% confidence" in found.text and "5% lower" in found.text
    # The first was too short to tell; a bad one is made twice.
    assert machine.asked[:6] == [None, None, 300.0, 600.0, 1200.0, 1200.0]
    (announced,) = (line for line in said if not line.startswith("probe "))
    assert announced == "the search takes at most 247 s with its full runs"
    assert len(said) == len(machine.asked) + 1
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    kinds = [line["kind"] for line in lines]
    assert kinds == ["search", *["probe"] * len(machine.asked), "found"]


def test_one_disturbed_run_is_no_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calm = search_with(Machine(), "Server", tmp_path / "a.jsonl", monkeypatch)
    noisy = search_with(Machine((2,)), "Server", tmp_path / "b.jsonl", monkeypatch)
    assert noisy.best == calm.best


def test_a_rate_that_is_too_high_at_first_is_halved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.runner.test_search.CAPACITY", 40.0)
    found = search_with(Machine(), "Server", tmp_path / "log.jsonl", monkeypatch)
    assert 40 / 1.05 <= found.best <= 40
    monkeypatch.setattr("tests.runner.test_search.CAPACITY", 0.0)
    with pytest.raises(RunFailed, match="no rate"):
        search_with(Machine(), "Server", tmp_path / "none.jsonl", monkeypatch)


def test_an_interrupted_search_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.jsonl"
    whole = Machine()
    expected = search_with(whole, "Server", tmp_path / "other.jsonl", monkeypatch)
    first = Machine()

    def interrupted(job: Job, folder: Path, progress: Any) -> Measurement:
        if len(first.asked) == 4:
            raise KeyboardInterrupt
        return first(job, folder, progress)

    with pytest.raises(KeyboardInterrupt):
        search_with(interrupted, "Server", log, monkeypatch)
    with log.open("a") as stream:
        stream.write('{"kind": "probe", "pro')  # the line that was being written
    second, said = Machine(), list[str]()
    assert search_with(second, "Server", log, monkeypatch, said) == expected
    assert first.asked + second.asked == whole.asked
    assert "4 probes of an interrupted search" in said[0]


def test_a_log_of_something_else_is_put_aside(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    ProbeLog(log, {"model": "a"}).note("found", value=1)
    assert ProbeLog(log, {"model": "b"}).earlier == []
    assert (tmp_path / "log.1.jsonl").exists()
    ProbeLog(log, {"model": "b"}).note("confirmed", value=1)
    ProbeLog(log, {"model": "b"})  # a search that was finished is made anew
    assert (tmp_path / "log.2.jsonl").exists()


def test_offline_and_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    found = search_with(machine, "Offline", tmp_path / "o.jsonl", monkeypatch)
    assert found.best == CAPACITY and found.value == pytest.approx(1.05 * CAPACITY)
    assert len(machine.asked) == 2 and "within 5%" in found.text
    found = search_with(Machine(), "SingleStream", tmp_path / "s.jsonl", monkeypatch)
    assert found.key == "target_latency" and 0.5 < found.value < 0.8  # of the 1 ms measured


def test_probes_that_contradict_one_another_end_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: dict[float, int] = {}

    class Fitful(Machine):
        """Of two runs at the same rate one is disturbed."""

        def __call__(self, job: Job, folder: Path, progress: Any) -> Measurement:
            rate = job.settings.target_qps or 0.0
            calls[rate] = calls.get(rate, 0) + 1
            if calls[rate] == 1 and rate > 300:
                self.disturbed = (len(self.asked) + 1,)
            return replace(super().__call__(job, folder, progress), disturbed=0.4)

    with pytest.raises(RunFailed, match=r"machine disturbed: 600 and 848.5 queries/s .* 40% of"):
        search_with(Fitful(), "Server", tmp_path / "log.jsonl", monkeypatch)


def test_a_bound_that_was_found_on_a_busy_machine_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Busy(Machine):
        """Other processes take part of the time from the runs that are too much."""

        def __call__(self, job: Job, folder: Path, progress: Any) -> Measurement:
            made = super().__call__(job, folder, progress)
            return replace(made, disturbed=0.0 if made.valid else 0.08)

    with pytest.raises(RunFailed, match=r"took at least 8\.0% of each .* may carry more"):
        search_with(Busy(), "Server", tmp_path / "log.jsonl", monkeypatch)

    class Ticking(Calm):
        """What the run itself cannot see: the whole machine stops now and then."""

        def share(self) -> float:
            return 0.03

    monkeypatch.setattr(runner.search, "Ticks", Ticking)
    with pytest.raises(RunFailed, match=r"took at least 3\.0% of each"):
        search_with(Machine(), "Server", tmp_path / "ticks.jsonl", monkeypatch)


def test_what_a_run_proves() -> None:
    def probe(verdict: Any, disturbed: float, metric: float | None = 1000.0) -> bool:
        return Probe(1, 1200.0, 3.0, verdict, 1200.0, metric, disturbed=disturbed).proves

    assert probe("good", 0.5) and probe("bad", 0.01) and probe("bad", 0.01, None)
    assert not probe("bad", 0.02, None) and not probe("bad", 0.6)
    # 1,000 a second were answered: without the disturbance at most 1,042, or 1,250.
    assert probe("bad", 0.02) and not probe("bad", 0.1)


def test_a_process_that_ticks_sees_a_standstill() -> None:
    with Ticks() as quiet:
        pass  # ended before its first tick
    assert quiet.share() == 0

    def stopped(number: int) -> float:
        with Ticks() as ticks:
            process = ticks._process
            assert process is not None
            time.sleep(0.5)
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.5)
            process.send_signal(signal.SIGCONT)
            time.sleep(0.3)
            found = ticks.share()
        assert process.poll() is not None
        return found

    def stopped_before(number: int) -> float:
        with Ticks() as ticks:
            process = ticks._process
            assert process is not None
            process.send_signal(signal.SIGSTOP)
            time.sleep(1)
            process.send_signal(signal.SIGCONT)
            time.sleep(0.1)
            ticks.reset()
            time.sleep(1)
            return ticks.share()

    # What this machine itself stands still is counted, too.
    assert 0.2 < undisturbed(stopped, lambda share: 0.2 < share < 0.8) < 0.8
    assert undisturbed(stopped_before, lambda share: share < 0.4) < 0.4


def test_a_rate_far_below_the_warm_up_s_is_a_disturbed_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.runner.test_search.CAPACITY", 100.0)

    class Roomy(Machine):
        """Its latency limit is no hindrance."""

        def __call__(self, job: Job, folder: Path, progress: Any) -> Measurement:
            made = super().__call__(job, folder, progress)
            limit = {"effective_target_latency_ns": 100_000_000}
            return replace(made, detail={**made.detail, **limit})

    # 150 a second were asked for at first: a quarter of what the warm-up did.
    with pytest.raises(RunFailed, match=r"machine disturbed: found .* suggests about 550"):
        search_with(Roomy(), "Server", tmp_path / "log.jsonl", monkeypatch)

    # Less far below it is the system's own, unless runs were seen to be disturbed.
    monkeypatch.setattr("tests.runner.test_search.CAPACITY", 480.0)
    found = search_with(Roomy(), "Server", tmp_path / "quiet.jsonl", monkeypatch)
    assert 480 / 1.05 <= found.best <= 480

    class Busy(Roomy):
        def __call__(self, job: Job, folder: Path, progress: Any) -> Measurement:
            made = super().__call__(job, folder, progress)
            return replace(made, disturbed=0.03 if made.valid else 0.0)

    with pytest.raises(RunFailed, match=r"machine disturbed: found .* suggests about 550"):
        search_with(Busy(), "Server", tmp_path / "busy.jsonl", monkeypatch)


def test_the_announced_time_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(runner.search.time, "monotonic", lambda: clock[0])

    class Slow(Machine):
        """Each run takes two minutes more than it should, but for the first."""

        def __call__(self, job: Job, folder: Path, progress: Any) -> Measurement:
            clock[0] += (settings := job.settings).min_duration_ms / 1000  # type: ignore[operator]
            clock[0] += 1.0 if settings.target_qps is None else 120.0
            return super().__call__(job, folder, progress)

    said: list[str] = []
    found = search_with(Slow(), "Server", tmp_path / "log.jsonl", monkeypatch, said)
    assert "when the time announced for the search was over" in found.text
    # Of the 215 s that were announced two runs took 127; a third would not have ended in time.
    assert found.best == 300 and clock[0] < 215


def test_what_is_searched_must_not_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="Delete the line"):
        search_with(
            Machine(),
            "Server",
            tmp_path / "log.jsonl",
            monkeypatch,
            user_conf="digits.Server.target_qps = 5\n",
        )
    own = "# mine\n*.*.min_duration = 600000\n*.Server.coalesce_queries = 0\n"
    search_with(Machine(), "Server", tmp_path / "log.jsonl", monkeypatch, user_conf=own)
    for bad in ({"probe_s": 0.0}, {"tolerance": 0.0}, {"margin": 0.9}):
        with pytest.raises(SettingsError):
            replace(Search(), **bad)


def test_statistics() -> None:
    def run(queries: int, late: int) -> dict[str, Any]:
        return {"result_query_count": queries, "result_overlatency_query_count": late}

    assert judge(run(1000, 0), True, 0.99)[0] == "good"
    assert judge(run(1000, 30), False, 0.99)[0] == "bad"
    assert judge(run(1000, 10), False, 0.99)[0] == "unclear"
    assert judge(run(100, 0), False, 0.99)[0] == "unclear"
    settings = RunSettings("x", "Server", token_latencies=True, ttft_ms=500.0, tpot_ms=30.0)

    def tokens(queries: int, ttft_ms: float, tpot_ms: float) -> dict[str, Any]:
        return {
            **run(queries, queries),  # LoadGen counts all of them
            "result_first_token_99.00_percentile_latency_ns": ttft_ms * 1e6,
            "result_time_per_output_token_99.00_percentile_ns": tpot_ms * 1e6,
        }

    for found, valid, verdict in (
        (tokens(1000, 400, 20), True, "good"),
        (tokens(1000, 400, 20), False, "unclear"),
        (tokens(1000, 600, 20), False, "bad"),
        (tokens(1000, 400, 31), False, "bad"),
        (tokens(100, 600, 20), False, "unclear"),
    ):
        assert judge_tokens(found, valid, 0.99, settings)[0] == verdict
    text = judge_tokens(tokens(1000, 400, 31), False, 0.99, settings)[1]
    assert text == "99th percentile of 1000 queries: TTFT 400 of 500 ms, TPOT 31 of 30 ms, too long"
    assert chance_of(0, 100, 0.01) == 1
    assert chance_of(3, 100, 0.01) == pytest.approx(0.0794, abs=1e-3)
    assert chance_of(18, 1000, 0.01) == pytest.approx(0.0138, abs=2e-3)
    assert chance_of(101, 100, 0.5) == 0


def test_cost_and_steps_down() -> None:
    low, high = estimate(Search(), "Server", 600)
    assert 600 < low < high
    assert estimate(Search(), "SingleStream", 600)[0] < low
    found = Found("target_qps", 100.0, 105.0, 9, "")
    steps = list(confirmations(Search(), found, "Server"))
    assert steps[0] == 100 and steps == sorted(steps, reverse=True) and steps[-1] < 70
    assert list(confirmations(Search(confirmations=2), found, "Offline")) == [100, 130]


def test_a_search_on_a_real_run_writes_its_user_conf(tmp_path: Path) -> None:
    wanted = plan(
        tmp_path / "tree",
        scenarios=("Server",),
        backend="tests.runner.cheats:Honest",
        max_batch=1,
        search=Search(probe_s=0.3, tolerance=0.9, margin=0.2),
        min_duration_ms=400,
        share=0.4,
        target_latency_ms=50.0,
    )
    (outcome,) = run_benchmark(wanted)
    if outcome.status == "failed":
        assert "machine disturbed" in outcome.message
        pytest.skip(outcome.message)
    assert outcome.found is not None and outcome.found.best < 4000
    (log,) = (tmp_path / "tree.search").glob("digits-Server.jsonl")
    kinds = [json.loads(line)["kind"] for line in log.read_text().splitlines()]
    assert kinds[0] == "search" and "found" in kinds and "confirmation" in kinds
    if outcome.status == "valid":
        assert kinds[-1] == "confirmed" and outcome.path is not None
        conf = (outcome.path / "user.conf").read_text()
        assert "was found by a search" in conf and "20% lower" in conf
        assert "digits.Server.target_qps = " in conf
        # 0.4 s of it would not be enough for early stopping.
        assert "digits.Server.min_query_count = 1000" in conf
