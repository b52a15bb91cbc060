"""Offline and Server on flows: who answers what, how much is under way, and how fast that is."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runner.benchmarks.digits import DIGITS
from runner.datasets.digits import Digits
from runner.qsl import Library
from runner.streaming import BatchCap, StreamedOfflineSut, StreamedServerSut, time_batches
from runner.sut import PoolSut, UnbatchedServerSut
from runner.sut_for import make_sut
from tests.runner.test_sut import Answers, fail, wait
from tests.runner.trt.fake import FakeTensorRT
from tests.runner.trt.simulated import Machine, Speeds, server_p99

FP32 = DIGITS.models["fp32"]
# ResNet-50 on an H200, by what was published: FP32 and INT8 inputs over PCIe 5, and over PCIe 3.
RESNET = Speeds(sample_bytes=150_528, up_gbps=55, sample_s=1 / 94_600)
RESNET_FP32 = Speeds(sample_bytes=602_112, up_gbps=55, sample_s=1 / 94_600)
COPIES = Speeds(sample_bytes=602_112, up_gbps=12, sample_s=1 / 94_600)
TINY = Speeds(sample_bytes=784, up_gbps=55, sample_s=1 / 1_000_000)


def started(cache: Path, **options: Any) -> tuple[FakeTensorRT, Library]:
    backend = FakeTensorRT(cache=str(cache), **options)
    data = Digits()
    backend.batch_size = 20
    backend.load(DIGITS, FP32, data)
    library = Library(data)
    library.stage = backend.stage
    library.load(range(200))
    return backend, library


class UnderWay:
    """Counts the batches that were submitted and not yet awaited."""

    def __init__(self, memory: Any) -> None:
        self.now = self.most = 0
        launch, wait = memory.launch, memory.wait

        def launched(*arguments: Any) -> None:
            launch(*arguments)
            self.now += 1
            self.most = max(self.most, self.now)

        def awaited(event: Any) -> None:
            wait(event)
            self.now -= 1

        memory.launch, memory.wait = launched, awaited


@pytest.mark.parametrize("devices", [1, 3])
def test_offline_keeps_every_stream_full(
    devices: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Answers(monkeypatch)
    backend, library = started(tmp_path, gpus=devices, devices="all", streams=2)
    sut = make_sut("Offline", DIGITS, backend, library, 20, fail)
    assert isinstance(sut, StreamedOfflineSut)
    counts = [UnderWay(memory) for memory in backend.opened]
    for memory in backend.opened:
        memory.log.clear()
    indices = [k % 200 for k in range(1010)]
    sut.issue([5000 + k for k in range(1010)], indices)
    sut.close()
    assert sorted(answers.sizes) == [5000 + k for k in range(1010)] and sut.done == 1010
    logs = [[what for what, _ in memory.log] for memory in backend.opened]
    # 51 batches: each was copied in by one call, from where LoadGen loaded it, and replayed.
    assert sum(log.count("graph") for log in logs) == 51
    assert sum(log.count("h2d") for log in logs) == 51
    assert all(set(log) == {"h2d", "graph"} for log in logs)
    assert max(count.most for count in counts) == 4 and all(count.now == 0 for count in counts)
    assert "samples in pinned host memory" in backend.framework and backend.warnings == []
    backend.close()
    assert all(memory.live == {} for memory in backend.opened)


def test_server_takes_what_waits_while_the_device_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Answers(monkeypatch)
    backend, library = started(tmp_path, streams=1, graphs=False)
    (memory,) = backend.opened
    gate, real = threading.Event(), memory.wait

    def wait_for(event: Any) -> None:
        assert gate.wait(60)
        real(event)

    memory.wait = wait_for  # type: ignore[method-assign]
    memory.log.clear()
    sut = make_sut("Server", DIGITS, backend, library, 20, fail, limit_s=60)
    assert isinstance(sut, StreamedServerSut)
    executed = lambda: [what for what, _ in memory.log].count("execute")  # noqa: E731
    for k in range(2):  # as many as one stream has under way: one runs, the next is ready
        sut.issue([k], [k])
        wait(lambda k=k: executed() == k + 1)  # type: ignore[misc]
    for k in range(2, 32):
        sut.issue([k], [k])
    wait(lambda: sut.issued == 32)
    assert executed() == 2
    gate.set()
    wait(lambda: sut.done == 32)
    sut.close()
    assert sorted(answers.sizes) == list(range(32))
    assert executed() == 4  # 1, 1, 20, 10
    assert sut.late == 0 and len(sut.recent) == 32


def test_the_answers_are_those_of_the_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[int, int] = {}
    Answers(monkeypatch)
    backend, library = started(tmp_path, gpus=2, devices="all", samples="device")
    sut = make_sut("Offline", DIGITS, backend, library, 20, fail)

    class Told:
        def send(self, ids: Sequence[int], payload: Any) -> None:
            seen.update(
                zip(ids, np.asarray(payload).reshape(len(ids), -1)[:, 0].tolist(), strict=True)
            )

    assert isinstance(sut, StreamedOfflineSut)
    sut._all = [Told(), Told()]  # type: ignore[list-item]
    order = np.random.default_rng(3).permutation(200).tolist()
    sut.issue(list(range(200)), order)
    wait(lambda: sut.done == 200)
    sut.close()
    expected = DIGITS.encode(backend.infer(Digits().load(order), order), 200)
    assert [seen[k] for k in range(200)] == np.asarray(expected).reshape(200, -1)[:, 0].tolist()
    assert backend.warnings and "samples=pinned for a submission" in backend.warnings[0]


def test_who_does_not_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Answers(monkeypatch)
    backend, library = started(tmp_path)
    sut = make_sut("Offline", DIGITS, backend, library, 20, fail, workers=2)
    assert isinstance(sut, PoolSut)
    sut.close()
    assert isinstance(make_sut("Server", DIGITS, backend, library, 1, fail), UnbatchedServerSut)
    assert type(make_sut("SingleStream", DIGITS, backend, library, 1, fail)).__name__ == "Sut"


def test_singles_are_copied_from_where_they_are_loaded(tmp_path: Path) -> None:
    backend, library = started(tmp_path)
    library.bind = backend.bind
    library.load(range(200))
    memory = backend.opened[0]
    memory.log.clear()
    stages = [slot.pinned["image"].copy() for slot in backend._pipelines[0].slots]
    (bound,) = backend.infer(library.single[7], [7])
    assert [what for what, _ in memory.log] == ["h2d", "graph"]
    assert all(
        (slot.pinned["image"] == stage).all()
        for slot, stage in zip(backend._pipelines[0].slots, stages, strict=True)
    )
    (plain,) = backend.infer(Digits().load([7]), [7])
    assert np.array_equal(bound, plain)


def test_the_warm_up_of_offline_keeps_the_device_full(tmp_path: Path) -> None:
    backend, library = started(tmp_path, streams=2)
    memory = backend.opened[0]
    under_way = UnderWay(memory)
    times: list[float] = []
    assert time_batches(backend, library, DIGITS, 40, 0.02, times)
    assert len(times) >= 3 and min(times) > 0 and under_way.most == 4


# --- how fast, on a counted clock --------------------------------------------------------------


@pytest.mark.parametrize("speeds", [RESNET, RESNET_FP32, COPIES, TINY])
@pytest.mark.parametrize("streams", [2, 3])
def test_offline_reaches_the_slower_of_copies_and_execution(speeds: Speeds, streams: int) -> None:
    machine = Machine(speeds, 64, streams=streams)
    count = 200 * 64
    seconds = machine.offline(count)
    assert speeds.ideal_s(count, 64) / seconds >= 0.95
    assert machine.device.counts["h2d bytes"] == count * speeds.sample_bytes  # each once
    assert machine.device.staged <= 0.4 * count * speeds.sample_bytes  # where the library wraps
    assert machine.device.counts["graph"] == 200
    assert machine.most_in_flight == 2 * streams


def test_one_stream_does_not_reach_it() -> None:
    """The simulation can tell: what one call copies and executes adds up."""
    machine = Machine(RESNET_FP32, 64, streams=1)
    began = machine.device.now
    for _ in range(20):
        machine.pipeline.submit_rows(machine.pipeline.slots[0], machine.samples, np.arange(64))
        machine.pipeline.collect(machine.pipeline.slots[0])
    assert RESNET_FP32.ideal_s(20 * 64, 64) / (machine.device.now - began) < 0.55


def test_samples_on_the_device_are_not_copied_up() -> None:
    machine = Machine(COPIES, 64, place="device")
    seconds = machine.offline(100 * 64)
    assert machine.device.counts["h2d"] == 0
    assert 100 * COPIES.execute_s(64) / seconds >= 0.95


@pytest.mark.parametrize("speeds", [RESNET, RESNET_FP32, COPIES])
def test_server_reaches_nine_tenths_of_the_ideal_within_the_limit(speeds: Speeds) -> None:
    machine = Machine(speeds, 64)
    assert server_p99(machine, 0.9, 0.015) <= 0.015
    assert server_p99(machine, 1.2, 0.015) > 0.015  # the simulation can tell


def test_a_burst_does_not_leave_server_with_batches_too_large_for_the_limit() -> None:
    """Without the cap three full batches of 128 are under way for good: 3 x 6.7 ms."""
    machine = Machine(COPIES, 128)
    assert server_p99(machine, 0.92, 0.015) <= 0.012
    assert server_p99(machine, 0.92, float("inf")) > 0.015


def test_a_cap_is_what_the_limit_has_room_for() -> None:
    cap = BatchCap(most=100, depth=2, limit_s=1.0)
    cap.ended(10, 0.0, 1.0)
    assert cap.size == 100  # nothing was under way before: that second was partly a wait
    cap.ended(10, 0.5, 1.2)
    assert cap.size == 20  # 20 ms a sample; two batches of 20 take 0.8 s
    cap.ended(10, 2.0, 9.0)
    assert cap.size == 20
