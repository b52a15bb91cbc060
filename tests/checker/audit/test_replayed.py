"""Handing logs to the replay: reading records, and the short ways that agree with the long one."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import pytest

from checker.accuracy.log import GAP
from checker.audit import answer_log, replayed
from checker.audit.answer_log import Records, read_records
from checker.audit.replayed import (
    Indices,
    Replay,
    order_outcome,
    replay_of,
    schedule_outcome,
)
from checker.model import PerformanceRun
from checker.parse.detail_file import read_detail
from checker.parse.reading import File
from checker.replay import Agreement, Disagreement, NotReplayed, check_schedule, server_schedule
from checker.replay.mt19937 import waits_of
from checker.rule import NotJudged
from tests.checker.audit.conftest import Real
from tests.trees import GoodTree


def _file(path: Path) -> File:
    return File(path.name, str(path), path.stat().st_size)


def _run(path: Path) -> PerformanceRun:
    return PerformanceRun(None, "performance", "x", None, read_detail(_file(path)))  # type: ignore[arg-type]


def test_records_are_read_whole_across_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_log, "_BLOCK", 64)
    path = tmp_path / "log.json"
    records = [{"seq_id": n, "qsl_idx": n * 7, "data": "AB" * (n % 50)} for n in range(300)]
    path.write_text("[\n" + ",\n".join(json.dumps(r) for r in records) + "\n]\n")
    found = read_records(_file(path))
    assert found.pairs == [(r["seq_id"], r["qsl_idx"]) for r in records]
    assert not found.cut
    assert found.line_of(0) == 2 and found.line_of(299) == 301 and found.line_of(300) is None


@pytest.mark.parametrize("block", [16, 17, 33, 1 << 20])
def test_cut_logs_lose_only_what_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(answer_log, "_BLOCK", block)
    path = tmp_path / "log.json"
    path.write_bytes(
        b'[\n{ "seq_id" : 1, "qsl_idx" : 21, "data" : "00" },\n{ "seq_id" : 2, "qsl_idx" : 4'
        + GAP
        + b'5, "data" : "00" },\n{ "seq_id" : 9, "qsl_idx" : 7, "data" : "00" }\n]\n'
    )
    found = read_records(_file(path))
    assert found.pairs == [(1, 21), (9, 7)]
    assert found.cut and found.line_of(9) is None


def test_unreadable_logs_are_not_judged(tmp_path: Path) -> None:
    with pytest.raises(NotJudged):
        read_records(File("x", str(tmp_path / "none"), 5))
    path = tmp_path / "odd"
    path.write_bytes(bytes(range(256)) * 3)
    assert read_records(_file(path)) == Records("odd")


def test_indices_are_a_sequence_and_an_array() -> None:
    some = Indices([3, 1, 2])
    assert list(some) == [3, 1, 2] and some[1] == 1 and some[1:] == [1, 2] and len(some) == 3
    assert np.asarray(some, dtype=np.int64) is some.array
    assert not Indices([])


@pytest.mark.parametrize("scenario", ["SingleStream", "MultiStream", "Server", "Offline"])
def test_short_ways_agree_with_the_long_one(real: Real, scenario: str) -> None:
    tree: GoodTree = real()
    place = tree.result(scenario)
    replay = replay_of(_run(place.detail))
    long = check_schedule(replay.facts, replay.sets, replay.counts, replay.durations)
    assert isinstance(long, Agreement) and isinstance(schedule_outcome(replay), Agreement)
    for change in (
        {"counts": [replay.counts[0] + 1]},
        {"durations": [replay.durations[0] * 101 // 100]},
    ):
        other = dataclasses.replace(replay, **change)  # type: ignore[arg-type]
        assert isinstance(schedule_outcome(other), Disagreement)
    replay = replay_of(_run(place.accuracy_detail))
    pairs = read_records(_file(place.accuracy_log)).pairs
    assert isinstance(order_outcome(replay, pairs), Agreement)
    pairs[4] = pairs[4][0], pairs[5][1]
    assert isinstance(order_outcome(replay, pairs), Disagreement)
    beyond = [*pairs[:4], (10**6, 1)]
    assert isinstance(order_outcome(replay, beyond), Disagreement)


def _server_of(queries: int, real: Real) -> Replay:
    """A 600 s Server run at this size, from the seeds of a real one."""
    replay = replay_of(_run(real().result("Server").detail))
    rate = queries / 600
    facts = dataclasses.replace(
        replay.facts, target_qps=rate, target_duration_ms=600_000, min_duration_ms=600_000
    )
    schedule = server_schedule(facts.schedule_seed, rate, 600_000_000_000, facts.min_query_count)
    return dataclasses.replace(
        replay, facts=facts, counts=[schedule.query_count], durations=[schedule.duration_ns]
    )


def test_a_million_queries_take_under_two_seconds(real: Real) -> None:
    replay = _server_of(1_000_000, real)
    replayed._known.clear()
    waits_of.cache_clear()
    start = time.process_time()  # the machine may be held up meanwhile
    assert isinstance(schedule_outcome(replay), Agreement)
    assert time.process_time() - start < 2
    start = time.process_time()
    long = check_schedule(replay.facts, replay.sets, replay.counts, replay.durations)
    assert isinstance(long, Agreement) and time.process_time() - start < 2


def test_longer_schedules_are_said_not_to_be_judged(real: Real, tmp_path: Path) -> None:
    tree = real()
    place = tree.result("Server").detail
    for key in ("effective_target_qps", "requested_server_target_qps"):
        tree.set_log(place, key, 1e9)
    tree.set_log(place, "effective_target_duration_ms", 600_000)
    (finding,) = [
        f for f in tree.check(select=("R202",)).findings if f.path == tree.relative(place)
    ]
    assert finding.severity == "note" and "not replayed" in finding.message
    replay = replay_of(_run(place))
    assert isinstance(schedule_outcome(replay), NotReplayed)


@pytest.mark.parametrize(
    "value", [[], [1, "a"], {"n": 3}, None, [10**30, 1], [-(10**25)], [True, False], [[1]]]
)
def test_odd_sets_are_not_judged(real: Real, value: object) -> None:
    tree = real()
    place = tree.result("Offline").detail
    tree.set_log(place, "loaded_qsl_set", value)
    findings = tree.check(select=("R", "X")).findings
    here = [f for f in findings if "/box1/digits/Offline/performance" in (f.path or "")]
    assert not {f.rule for f in here} & {"X001", "R202", "R203", "R204"}
