"""What is written of a run over time is what the counters say, and is read back as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.timeline import TimelineWriter
from schemas.timeline import Interval, beside, read_timeline, traces_of


def written(
    path: Path, scenario: str, steps: list[tuple[float, int, int, list[float] | None]]
) -> list[Interval]:
    writer = TimelineWriter(path, scenario, "queries")
    for step in steps:
        writer.add(*step)
    writer.close()
    found = read_timeline(path)
    assert (found.scenario, found.of) == (scenario, "queries")
    return found.intervals


def test_streams_have_the_mean_latency_of_each_interval(tmp_path: Path) -> None:
    steps: list[tuple[float, int, int, list[float] | None]] = [
        (0.5, 100, 100, None),
        (1.0, 100, 101, None),
        (1.5, 180, 181, None),
    ]
    one = written(tmp_path / "a", "SingleStream", steps)
    assert [i.mean_s for i in one] == [0.005, None, pytest.approx(0.5 / 80)]
    eight = written(tmp_path / "b", "MultiStream", steps)  # samples; a query has eight
    assert eight[0].mean_s == pytest.approx(0.04)


def test_server_has_the_median_and_p99_of_what_was_answered_in_it(tmp_path: Path) -> None:
    recent = [9.0] * 50 + [k / 1000 for k in range(1, 101)]
    (first, second) = written(
        tmp_path / "a", "Server", [(0.5, 50, 53, recent[:50]), (1.0, 150, 160, recent)]
    )
    assert (first.samples, first.waiting, first.median_s) == (50, 3, 9.0)
    assert (second.samples, second.waiting) == (100, 10)
    assert (second.median_s, second.p99_s) == (0.051, 0.1)
    (nothing,) = written(tmp_path / "b", "Server", [(0.5, 0, 4, [])])
    assert nothing == Interval(end_s=0.5, samples=0, waiting=4)


def test_offline_has_only_what_was_answered(tmp_path: Path) -> None:
    path = tmp_path / "a"
    written(path, "Offline", [(0.5, 640, 640, None)])
    assert json.loads(path.read_text("utf-8").splitlines()[1]) == {"end_s": 0.5, "samples": 640}


def test_where_the_traces_of_a_run_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "tree/closed/me/results/box/b/Server/performance/run_1"
    run.mkdir(parents=True)
    assert beside(run) is None
    traces = traces_of(tmp_path / "tree") / "closed/me/results/box/b/Server"
    traces.mkdir(parents=True)
    assert beside(run) is None
    (traces / "timeline.jsonl").touch()
    assert beside(run) == beside(run.parent.parent) == traces
    assert beside(run.parent.parent.parent) is None  # above a result there are several
    monkeypatch.chdir(tmp_path / "tree")
    assert traces_of(Path()) == tmp_path / "tree.traces"
    monkeypatch.chdir(run)
    assert beside(Path()) == traces
