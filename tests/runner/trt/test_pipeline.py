"""How batches flow, on memory whose streams do nothing before they must."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.backends.trt.memory import HostMemory
from runner.backends.trt.pipeline import SETS, Flow, Pipeline, Spread
from runner.backends.trt.plan import EnginePlan, Port, Profile
from runner.backends.trt.samples import Samples
from runner.backends.trt.session import Shapes
from runner.errors import BackendError, InferenceError
from tests.runner.trt.fake import read, write

IN, OUT = Port("x", (None, 3), "float32"), Port("y", (None, 2), "float32")


def plan(**more: Any) -> EnginePlan:
    values = {
        "inputs": (IN,),
        "outputs": (OUT,),
        "profiles": (Profile(1, 1, 1), Profile(1, 8, 8)),
        "fixed_batch": None,
        "longest": 16,
        "whole": False,
        "precision": "fp32",
        "tf32": False,
        "workspace_mib": 0,
        "optimization_level": 3,
    }
    return EnginePlan(**{**values, **more})


def answer(x: Any) -> Any:
    """What the engine computes: of each row the sum and the first."""
    return np.stack([x.sum(1), x[:, 0]], 1).astype(np.float32)


class Engine:
    """A session whose engine is `answer`."""

    def __init__(self, memory: HostMemory, made: EnginePlan | None = None) -> None:
        self.memory = memory
        self.plan = made or plan()
        self.inputs = self.plan.inputs
        self.made: list[Execution] = []
        self.closed = 0
        self.fails_after = 10**9
        self.capturable = True

    scratch_bytes = 64

    def execution(self, profile: int, stream: Any, scratch: int) -> Execution:
        assert scratch in self.memory.live
        self.made.append(Execution(self, self.plan.profiles[profile], stream))
        return self.made[-1]

    def close(self) -> None:
        self.closed += 1


class Execution:
    def __init__(self, engine: Engine, profile: Profile, stream: Any) -> None:
        self.engine = engine
        self.profile = profile
        self.stream = stream
        self.busy = threading.Lock()
        self.ran: list[int] = []

    @property
    def room(self) -> Mapping[str, int]:
        return {"y": self.profile.most * 8}

    @property
    def capturable(self) -> bool:
        return self.engine.capturable

    def enqueue(self, shapes: Shapes, addresses: Mapping[str, int], stream: int) -> Shapes:
        assert self.busy.acquire(blocking=False), "two threads in one execution context"
        try:
            assert stream == self.stream.number, "another context's stream"
            time.sleep(0)  # lets another thread in, if the pipeline does
            self.engine.fails_after -= 1
            if self.engine.fails_after < 0:
                raise InferenceError("the device is gone")
            shape, x, y = shapes["x"], addresses["x"], addresses["y"]
            assert self.profile.least <= shape[0] <= self.profile.most

            def work() -> None:
                self.ran.append(shape[0])
                write(y, answer(read(x, shape, "float32")))

            self.engine.memory.put(self.stream, f"execute {shape[0]}", work)
            return {"y": (shape[0], 2)}
        finally:
            self.busy.release()


def pipeline(seed: int = 0, streams: int = 2, **more: Any) -> tuple[Pipeline, HostMemory, Engine]:
    memory = HostMemory(seed)
    graphs = more.pop("graphs", False)
    engine = Engine(memory, plan(**more))
    return Pipeline(engine, memory, streams, graphs), memory, engine


def batch(count: int, seed: int = 0) -> dict[str, Any]:
    return {"x": np.random.RandomState(seed).rand(count, 3).astype(np.float32)}


def streams_of(memory: HostMemory, what: str) -> list[int]:
    return [entry[1] for entry in memory.log if entry[0] == what]


# --- order -------------------------------------------------------------------------------------


def test_a_chunk_goes_in_runs_and_comes_out_on_one_stream() -> None:
    one, memory, _engine = pipeline()
    memory.log.clear()
    slot = one.slots[0]
    one.submit(slot, batch(2), 0, 2)
    assert memory.log == [("h2d", 1), ("execute 2", 1), ("d2h", 1)]
    # Nothing has happened yet; collecting waits for it.
    (seen,) = one.collect(slot)
    assert np.allclose(seen, answer(batch(2)["x"]))


def test_chunks_take_turns_on_the_streams_and_all_are_under_way_before_any_is_awaited() -> None:
    one, memory, _engine = pipeline(streams=3)
    memory.log.clear()
    spread = Spread([one], worth=2)
    feed = batch(6)
    (seen,) = spread.infer(feed, 6)
    assert np.allclose(seen, answer(feed["x"]))
    assert streams_of(memory, "execute 2") == [1, 2, 3]
    assert [what for what, _ in memory.log].index("d2h") < len(memory.log) - 1
    assert len(memory.log) == 9


def test_a_stream_has_two_sets_of_buffers_and_they_do_not_overlap() -> None:
    one, memory, _engine = pipeline(streams=2)
    assert len(one.slots) == 2 * SETS
    assert [slot.lane.stream.number for slot in one.slots] == [1, 2, 1, 2]
    spans = sorted((address, address + array.nbytes) for address, array in memory.live.items())
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


@given(
    seed=st.integers(0, 10_000),
    streams=st.integers(1, 3),
    devices=st.integers(1, 3),
    counts=st.lists(st.integers(1, 70), min_size=1, max_size=8),
    worth=st.integers(1, 9),
    graphs=st.booleans(),
)
@settings(max_examples=60)
def test_whatever_the_order_of_the_streams_the_answers_are_right(
    seed: int, streams: int, devices: int, counts: list[int], worth: int, graphs: bool
) -> None:
    made = [pipeline(seed + k, streams, graphs=graphs) for k in range(devices)]
    for one, _, _ in made:
        one.prepare()
    spread = Spread([one for one, _, _ in made], worth)
    kept = []
    for number, count in enumerate(counts):
        feed = batch(count, number)
        (seen,) = spread.infer(feed, count)
        expected = answer(feed["x"])
        feed["x"][:] = -1  # the caller's array is free again
        kept.append((seen, expected))
    # An answer is the caller's own: later batches do not change it.
    for seen, expected in kept:
        assert np.allclose(seen, expected)


def test_buffers_are_used_again_and_none_is_made_later() -> None:
    one, memory, _engine = pipeline()
    one.prepare()
    spread = Spread([one], worth=2)
    before = set(memory.live)
    allocations = sum(entry[0] == "alloc" for entry in memory.log)
    for number in range(50):
        count = 1 + number % 40
        (seen,) = spread.infer(batch(count, number), count)
        assert np.allclose(seen, answer(batch(count, number)["x"]))
    assert set(memory.live) == before
    assert sum(entry[0] == "alloc" for entry in memory.log) == allocations


def test_a_buffer_is_not_refilled_before_its_chunk_was_collected() -> None:
    """The test's own test: a submit without collect is seen as a wrong answer."""
    one, _memory, _engine = pipeline(streams=1)
    slot = one.slots[0]
    one.submit(slot, batch(2, 1), 0, 2)
    one.submit(slot, batch(2, 2), 0, 2)
    (seen,) = one.collect(slot)
    assert np.allclose(seen, answer(batch(2, 2)["x"]))
    assert not np.allclose(seen, answer(batch(2, 1)["x"]))


def test_many_threads_share_the_slots_without_waiting_for_each_other_for_ever() -> None:
    made = [pipeline(k) for k in range(2)]
    spread = Spread([one for one, _, _ in made], worth=1)
    wrong: list[str] = []

    def work(own: int) -> None:
        try:
            for number in range(30):
                count = 1 + (own * 7 + number * 5) % 60
                feed = batch(count, own * 100 + number)
                (seen,) = spread.infer(feed, count)
                if not np.allclose(seen, answer(feed["x"])):
                    wrong.append(f"thread {own}, batch {number}")
        except BaseException as error:
            wrong.append(f"thread {own}: {error!r}")

    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "deadlock"
    assert wrong == []


def test_queries_and_chunks_are_spread_over_the_devices() -> None:
    made = [pipeline(k, streams=2) for k in range(2)]
    spread = Spread([one for one, _, _ in made], worth=2)
    for _, memory, _ in made:
        memory.log.clear()
    for number in range(4):
        spread.infer(batch(1, number), 1)
    assert [streams_of(memory, "execute 1") for _, memory, _ in made] == [[1, 2], [1, 2]]
    for _, memory, _ in made:
        memory.log.clear()
    spread.infer(batch(32), 32)
    assert [len(streams_of(memory, "execute 8")) for _, memory, _ in made] == [2, 2]


# --- graphs ------------------------------------------------------------------------------------


def test_every_batch_is_replayed_as_the_next_greater_graph() -> None:
    one, memory, engine = pipeline(graphs=True)
    one.prepare()
    assert all(sorted(slot.graphs) == [1, 2, 3, 4, 6, 8] for slot in one.slots)
    ran: list[int] = []
    for execution in engine.made:
        execution.ran = ran
    spread = Spread([one], worth=100)
    memory.log.clear()
    for count in (1, 8, 5, 7, 3):
        (seen,) = spread.infer(batch(count), count)
        assert seen.shape == (count, 2) and np.allclose(seen, answer(batch(count)["x"]))
    assert [what for what, _ in memory.log] == ["h2d", "graph"] * 5
    assert ran == [1, 8, 6, 8, 3]
    assert one.graph_note == ""


def test_without_graphs_a_batch_is_executed_as_it_is() -> None:
    one, memory, _engine = pipeline()
    one.prepare()
    memory.log.clear()
    Spread([one], worth=100).infer(batch(5), 5)
    assert [what for what, _ in memory.log] == ["h2d", "execute 5", "d2h"]


def test_an_engine_that_waits_inside_gets_no_graphs_and_it_is_said() -> None:
    one, memory, engine = pipeline(graphs=True)
    engine.capturable = False
    one.prepare()
    assert one.graph_note == "the engine has outputs whose size is known only afterwards"
    memory.log.clear()
    Spread([one]).infer(batch(8), 8)
    assert "graph" not in [what for what, _ in memory.log]


def test_a_failed_capture_costs_the_graphs_only() -> None:
    one, _memory, engine = pipeline(graphs=True)
    engine.fails_after = 7  # in the third capture
    with pytest.raises(InferenceError, match="the device is gone"):
        one.prepare()
    one, memory, engine = pipeline(graphs=True)

    def refuse(stream: Any, work: Any) -> Any:
        raise BackendError("cudaStreamEndCapture failed with cudaErrorStreamCaptureInvalidated.")

    memory.capture = refuse  # type: ignore[method-assign]
    one.prepare()
    assert "Invalidated" in one.graph_note
    assert np.allclose(Spread([one]).infer(batch(8), 8)[0], answer(batch(8)["x"]))


# --- loaded samples ----------------------------------------------------------------------------


def loaded(memory: HostMemory, count: int = 40, place: str = "pinned") -> tuple[Samples, Any]:
    samples = Samples([memory], place)
    held = samples.hold(batch(count, 9), 1 << 40)
    assert samples.place == place and samples.note == ""
    return samples, held["x"]


@pytest.mark.parametrize("place", ["pinned", "device", "pageable"])
@given(
    seed=st.integers(0, 10_000),
    streams=st.integers(1, 3),
    queries=st.lists(st.lists(st.integers(0, 39), min_size=1, max_size=8), min_size=1, max_size=12),
    row_bytes=st.sampled_from([1, 24, 1 << 20]),
    graphs=st.booleans(),
)
@settings(max_examples=40)
def test_a_flow_answers_whatever_rows_it_is_given_in_order(
    place: str,
    seed: int,
    streams: int,
    queries: list[list[int]],
    row_bytes: int,
    graphs: bool,
) -> None:
    one, memory, _engine = pipeline(seed, streams, graphs=graphs)
    one.prepare()
    samples, x = loaded(memory, place=place)
    flow = Flow(one, samples)
    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runner.backends.trt.pipeline.ROW_BYTES", row_bytes)
        for rows in queries:
            if flow.under_way == flow.depth:
                flow.collect(lambda outputs: seen.append(outputs[0].copy()))
            flow.submit(np.array(rows))
        assert flow.under_way == min(len(queries), flow.depth) == min(len(queries), 2 * streams)
        while flow.under_way:
            flow.collect(lambda outputs: seen.append(outputs[0].copy()))
    assert all(np.allclose(got, answer(x[rows])) for got, rows in zip(seen, queries, strict=True))
    one.close()
    samples.release()
    assert memory.live == {}


def test_a_sample_is_copied_once_from_where_it_was_loaded() -> None:
    one, memory, _engine = pipeline(graphs=True)
    one.prepare()
    samples, _x = loaded(memory)
    flow = Flow(one, samples)
    stages = {slot.pinned["x"].ctypes.data: slot.pinned["x"].copy() for slot in one.slots}
    memory.log.clear()
    flow.submit(np.arange(8))
    flow.submit(np.array([30, 31, 32, 33, 34, 35, 36, 37]))
    flow.submit(np.array([38, 39, 0, 1, 2, 3, 4, 5]))  # two runs: too short to go by themselves
    while flow.under_way:
        flow.collect(lambda outputs: None)
    # Copies have the third stream, so none waits for an execution.
    assert memory.log == [
        ("h2d", 3),
        ("graph", 1),
        ("h2d", 3),
        ("graph", 2),
        ("h2d", 3),
        ("graph", 1),
    ]
    written = [
        slot
        for slot in one.slots
        if (slot.pinned["x"] != stages[slot.pinned["x"].ctypes.data]).any()
    ]
    assert written == [one.slots[2]]


def test_samples_on_the_device_are_copied_there_when_they_are_loaded() -> None:
    one, memory, _engine = pipeline(graphs=True)
    one.prepare()
    samples, _x = loaded(memory, place="device")
    flow = Flow(one, samples)
    memory.log.clear()
    flow.submit(np.arange(8))
    flow.submit(np.array([3, 5]))
    while flow.under_way:
        flow.collect(lambda outputs: None)
    assert [what for what, _ in memory.log] == ["d2d", "graph", "d2d", "d2d", "graph"]


def test_samples_that_do_not_fit_the_device_stay_on_the_host_and_it_is_said() -> None:
    memory = HostMemory()
    memory.free_bytes = lambda: 1000  # type: ignore[method-assign]
    samples = Samples([HostMemory(), memory], "device")
    samples.hold(batch(100), 1 << 40)
    assert samples.place == "pinned" and not samples.held["x"].devices
    assert samples.note.endswith(
        "of samples stay in pinned host memory: 0.0 GB are free on host memory."
    )
    samples.hold(batch(100), 1000)
    assert samples.place == "pageable" and "are not pinned" in samples.note
    samples.release()
    memory.pinned = lambda nbytes: (_ for _ in ()).throw(BackendError("no more"))  # type: ignore[method-assign]
    samples = Samples([memory], "pinned")
    samples.hold(batch(100), 1 << 40)
    assert samples.place == "pageable" and samples.note == "Samples are not pinned: no more"


def test_a_slice_of_what_is_loaded_is_known_by_its_address() -> None:
    samples, x = loaded(HostMemory())
    assert samples.rows_of({"x": x[3:7]}) == (3, 7)
    assert samples.rows_of({"x": x[39:]}) == (39, 40)
    assert samples.rows_of({"x": x[3:7].copy()}) is None
    assert samples.rows_of({"x": x[3:7, :2]}) is None
    assert samples.rows_of({"z": x}) is None


def test_a_short_device_gets_fewer_streams_or_is_refused() -> None:
    memory = HostMemory()
    each = 64 + SETS * 8 * (12 + 8)
    memory.free_bytes = lambda: int(2.5 * each / 0.9)  # type: ignore[method-assign]
    one = Pipeline(Engine(memory), memory, 4)
    assert one.lanes == 2 and one.stream_note.startswith("2 of 4 streams: each takes ")
    one.close()
    memory.free_bytes = lambda: each  # type: ignore[method-assign]
    with pytest.raises(
        BackendError, match=r"found 0\.00 GB free on host memory; expected .* for a batch of 8"
    ):
        Pipeline(Engine(memory), memory, 1)
    assert memory.live == {}


# --- forms -------------------------------------------------------------------------------------


def test_a_fixed_batch_is_filled_up_and_cut_off() -> None:
    one, memory, _engine = pipeline(profiles=(Profile(4, 4, 4),), fixed_batch=4)
    spread = Spread([one], worth=100)
    memory.log.clear()
    for count in (1, 3, 4, 7, 9):
        (seen,) = spread.infer(batch(count), count)
        assert seen.shape == (count, 2) and np.allclose(seen, answer(batch(count)["x"]))
    assert {what for what, _ in memory.log} == {"h2d", "execute 4", "d2h"}


def test_another_form_is_refused() -> None:
    one, _memory, _engine = pipeline()
    spread = Spread([one])
    with pytest.raises(InferenceError, match=r"found 'x' of shape \[2, 4\].*expected \[None, 3\]"):
        spread.infer({"x": np.zeros((2, 4), np.float32)}, 2)
    one, _memory, _engine = pipeline()
    with pytest.raises(InferenceError, match="float64"):
        Spread([one]).infer({"x": np.zeros((2, 3))}, 2)


def test_an_output_of_another_form_is_refused() -> None:
    one, _memory, engine = pipeline()
    for execution in engine.made:
        execution.enqueue = lambda *_: {"y": (3, 2)}  # type: ignore[method-assign]
    with pytest.raises(InferenceError, match=r"found output 'y' of shape \[3, 2\] for 2 samples"):
        Spread([one]).infer(batch(2), 2)


def test_lengths_beyond_the_engine_are_refused() -> None:
    words = Port("x", (None, None), "float32")
    one, _memory, _engine = pipeline(inputs=(words,), whole=True)
    with pytest.raises(InferenceError, match=r"lengths up to 16.*option longest"):
        Spread([one]).infer({"x": np.zeros((2, 17), np.float32)}, 2)
    one, _memory, _engine = pipeline(inputs=(words,), whole=True)
    with pytest.raises(InferenceError, match=r"batch of 9 .* cannot be cut up.*max_batch"):
        Spread([one]).infer({"x": np.zeros((9, 3), np.float32)}, 9)


# --- the end -----------------------------------------------------------------------------------


def test_everything_is_given_back_once() -> None:
    one, memory, engine = pipeline(graphs=True)
    one.prepare()
    Spread([one]).infer(batch(8), 8)
    one.submit(one.slots[0], batch(1), 0, 1)  # still under way
    one.close()
    one.close()
    assert memory.live == {} and engine.closed == 1


def test_a_device_that_is_too_small_leaves_nothing_behind() -> None:
    memory = HostMemory()
    engine = Engine(memory)
    left = 5

    def alloc(nbytes: int) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise BackendError("cudaMalloc failed with cudaErrorMemoryAllocation.")
        return HostMemory.alloc(memory, nbytes)

    memory.alloc = alloc  # type: ignore[method-assign]
    with pytest.raises(BackendError, match="cudaErrorMemoryAllocation"):
        Pipeline(engine, memory, 2)
    assert memory.live == {} and engine.closed == 1


def test_an_error_on_the_device_reaches_the_caller() -> None:
    one, _memory, engine = pipeline()
    engine.fails_after = 1
    spread = Spread([one], worth=1)
    with pytest.raises(InferenceError, match="the device is gone"):
        spread.infer(batch(8), 8)
    one.close()
