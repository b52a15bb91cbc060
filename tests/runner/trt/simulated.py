"""A GPU whose copies and executions take the time that they are given, on a clock that is counted.

The pipeline, its flows and the samples are the real ones; only the device is played.  Nothing waits
in reality and nothing is random but the seeded arrivals, so a result is the same on every machine.
One copy engine each way and one engine for execution take work in the order in which it was
submitted, as far as its stream allows.  Every call costs the host some microseconds too.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.backends.trt.memory import DeviceFacts
from runner.backends.trt.pipeline import Flow, Pipeline
from runner.backends.trt.plan import EnginePlan, Port, Profile
from runner.backends.trt.samples import Samples
from runner.backends.trt.session import Shapes
from runner.streaming import BatchCap, server_depth


@dataclass(frozen=True, kw_only=True)
class Speeds:
    """A model on a device.

    Attributes:
        sample_bytes: of one input sample.
        up_gbps: from the host, in GB/s.
        copy_s: seconds that a copy takes beside its bytes.
        sample_s: seconds of execution for each sample of a batch; `batch_s`: for the batch itself.
        call_s: of the host, for each call of CUDA or TensorRT.
        answer_s: of the host, for each answer that LoadGen gets.
    """

    sample_bytes: int
    up_gbps: float
    sample_s: float
    batch_s: float = 50e-6
    down_gbps: float = 50.0
    within_gbps: float = 2000.0
    copy_s: float = 2e-6
    call_s: float = 4e-6
    answer_s: float = 1e-6

    def execute_s(self, count: int) -> float:
        return self.batch_s + count * self.sample_s

    def up_s(self, nbytes: int) -> float:
        return self.copy_s + nbytes / (self.up_gbps * 1e9)

    def ideal_s(self, count: int, batch: int, *, scattered: bool = False) -> float:
        """What the slower of copies and execution takes, with nothing between batches.

        scattered: as in Server, whose samples are copied one by one.
        """
        batches, run = count / batch, 1 if scattered else batch
        copies = count / run * self.up_s(run * self.sample_bytes)
        return max(copies, batches * self.execute_s(batch))


class Stream:
    def __init__(self) -> None:
        self.ready = 0.0
        self.recording: list[Callable[[], None]] | None = None


class Event:
    time = 0.0


class Device:
    """`runner.backends.trt.memory.Memory` on a counted clock; see the module.

    Attributes:
        now: seconds since the beginning.
        counts: of "h2d", "d2d", "d2h", "execute" and "graph"; in bytes as "h2d bytes" and so on.
        staged: samples' bytes that were copied from a buffer of the pipeline, not from where they
            are held.
    """

    name = "simulated"

    def __init__(self, speeds: Speeds, memory_bytes: int = 1 << 37) -> None:
        self.facts = DeviceFacts("simulated GPU", "9.0", memory_bytes, "13.0", 132)
        self.speeds = speeds
        self.now = 0.0
        self.counts: Counter[str] = Counter()
        self.staged = 0
        self._engines = dict.fromkeys(("up", "down", "within", "execute"), 0.0)
        self._live: dict[int, NDArray[np.uint8]] = {}
        self._samples: list[tuple[int, int]] = []
        self._number = 1

    def activate(self) -> None:
        return None

    def alloc(self, nbytes: int) -> int:
        self._number += 1
        self._live[self._number << 40] = np.empty(0, np.uint8)
        return self._number << 40

    def free(self, address: int) -> None:
        del self._live[address]

    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        block = np.zeros(nbytes, np.uint8)
        self._live[block.ctypes.data] = block
        return block

    def unpin(self, array: NDArray[np.uint8]) -> None:
        del self._live[array.ctypes.data]

    def stream(self) -> Stream:
        return Stream()

    def handle(self, stream: Stream) -> int:
        return 1

    def free_bytes(self) -> int:
        return self.facts.memory_bytes

    def put(self, engine: str, seconds: float, stream: Stream) -> None:
        if stream.recording is not None:
            stream.recording.append(lambda: self._do(engine, seconds, stream))
            return
        self.now += self.speeds.call_s
        self._do(engine, seconds, stream)

    def _do(self, engine: str, seconds: float, stream: Stream) -> None:
        begin = max(self.now, stream.ready, self._engines[engine])
        stream.ready = self._engines[engine] = begin + seconds

    def _count(self, what: str, nbytes: int) -> None:
        self.counts[what] += 1
        self.counts[f"{what} bytes"] += nbytes

    def mark(self, held: Sequence[NDArray[np.uint8]]) -> None:
        """Where samples are held: copies from elsewhere count as staged."""
        self._samples = [(raw.ctypes.data, raw.ctypes.data + raw.nbytes) for raw in held]

    def h2d(self, target: int, source: NDArray[np.uint8], stream: Stream) -> None:
        self._count("h2d", source.nbytes)
        place = source.ctypes.data
        if not any(first <= place < last for first, last in self._samples):
            self.staged += source.nbytes
        self.put("up", self.speeds.up_s(source.nbytes), stream)

    def d2h(self, target: NDArray[np.uint8], source: int, stream: Stream) -> None:
        self._count("d2h", target.nbytes)
        seconds = self.speeds.copy_s + target.nbytes / (self.speeds.down_gbps * 1e9)
        self.put("down", seconds, stream)

    def d2d(self, target: int, source: int, nbytes: int, stream: Stream) -> None:
        self._count("d2d", nbytes)
        self.put("within", self.speeds.copy_s + nbytes / (self.speeds.within_gbps * 1e9), stream)

    def event(self) -> Event:
        return Event()

    def record(self, event: Event, stream: Stream) -> None:
        self.now += self.speeds.call_s
        event.time = stream.ready

    def after(self, stream: Stream, event: Event) -> None:
        self.now += self.speeds.call_s
        stream.ready = max(stream.ready, event.time)

    def wait(self, event: Event) -> None:
        self.now = max(self.now + self.speeds.call_s, event.time)

    def synchronize(self, stream: Stream) -> None:
        self.now = max(self.now, stream.ready)

    def capture(self, stream: Stream, work: Callable[[], None]) -> list[Callable[[], None]]:
        steps: list[Callable[[], None]] = []
        stream.recording = steps
        try:
            work()
        finally:
            stream.recording = None
        return steps

    def launch(self, graph: list[Callable[[], None]], stream: Stream) -> None:
        self.counts["graph"] += 1
        self.now += self.speeds.call_s
        for step in graph:
            step()

    def close(self) -> None:
        return None


class Engine:
    """A session whose execution takes the device's time and computes nothing."""

    scratch_bytes = 1 << 20

    def __init__(self, device: Device, plan: EnginePlan) -> None:
        self.device, self.plan, self.inputs = device, plan, plan.inputs

    def execution(self, profile: int, stream: Stream, scratch: int) -> Execution:
        return Execution(self, stream)

    def close(self) -> None:
        return None


class Execution:
    capturable = True

    def __init__(self, engine: Engine, stream: Stream) -> None:
        self.engine, self.stream = engine, stream
        self.room = {
            port.name: port.nbytes(port.at(engine.plan.most, 1)) for port in engine.plan.outputs
        }

    def enqueue(self, shapes: Shapes, addresses: Mapping[str, int], stream: int) -> Shapes:
        device, (count, *_) = self.engine.device, next(iter(shapes.values()))
        device.counts["execute"] += 1
        device.put("execute", device.speeds.execute_s(count), self.stream)
        return {port.name: port.at(count, 1) for port in self.engine.plan.outputs}


class Machine:
    """A device with an engine of `batch`, and loaded samples."""

    def __init__(
        self,
        speeds: Speeds,
        batch: int,
        *,
        streams: int = 2,
        place: str = "pinned",
        graphs: bool = True,
        loaded: int = 96,
    ) -> None:
        self.device, self.batch = Device(speeds), batch
        item = Port("x", (None, speeds.sample_bytes), "uint8")
        plan = EnginePlan(
            inputs=(item,),
            outputs=(Port("y", (None, 1), "float32"),),
            profiles=tuple(Profile(1, size, size) for size in sorted({1, 8, batch})),
            fixed_batch=None,
            longest=1,
            whole=False,
            precision="fp32",
            tf32=False,
            workspace_mib=0,
            optimization_level=3,
        )
        memory: Any = self.device
        session: Any = Engine(self.device, plan)
        self.samples = Samples([memory], place)
        self.samples.hold({"x": np.zeros((loaded, speeds.sample_bytes), np.uint8)}, 1 << 40)
        self.pipeline = Pipeline(session, memory, streams, graphs)
        self.pipeline.prepare()
        self.device.mark([held.raw for held in self.samples.held.values()])
        self.flow = Flow(self.pipeline, self.samples)
        self.loaded = loaded
        self.device.counts.clear()
        self.device.staged = self.most_in_flight = 0

    def _submit(self, rows: NDArray[np.int64]) -> None:
        self.flow.submit(rows)
        in_flight = sum(slot.done.time > self.device.now for slot in self.flow._under_way)
        self.most_in_flight = max(self.most_in_flight, in_flight)

    def _answer(self, count: int) -> None:
        def use(outputs: Sequence[NDArray[Any]]) -> None:
            assert len(outputs[0]) == count
            self.device.now += count * self.device.speeds.answer_s

        self.flow.collect(use)

    def offline(self, count: int) -> float:
        """Seconds for so many samples, in loading order, as `StreamedOfflineSut` has them."""
        rows = np.arange(count) % self.loaded
        began = self.device.now
        under_way: deque[int] = deque()
        for start in range(0, count, self.batch):
            if self.flow.under_way == self.flow.depth:
                self._answer(under_way.popleft())
            part = rows[start : start + self.batch]
            self._submit(part)
            under_way.append(len(part))
        while under_way:
            self._answer(under_way.popleft())
        return self.device.now - began

    def server(self, rate: float, count: int, limit_s: float, seed: int = 1) -> NDArray[np.float64]:
        """Latencies in seconds of Poisson arrivals, as `StreamedServerSut` takes them."""
        random = np.random.default_rng(seed)
        due = self.device.now + np.cumsum(random.exponential(1 / rate, count))
        rows = random.integers(0, self.loaded, count)
        depth = server_depth(self.flow)
        latencies = np.empty(count)
        come = begun = 0
        cap = BatchCap(self.batch, depth, limit_s)
        under_way: deque[tuple[int, int, float]] = deque()
        while begun < count or under_way:
            come = max(come, int(np.searchsorted(due, self.device.now, side="right")))
            if begun < come and len(under_way) < depth:
                stop = min(come, begun + cap.size)
                self._submit(rows[begun:stop])
                under_way.append((begun, stop, self.device.now))
                begun = stop
            elif under_way and (
                len(under_way) == depth or come == count or self._oldest_ends <= due[come]
            ):
                first, last, when = under_way.popleft()
                self._answer(last - first)
                cap.ended(last - first, when, self.device.now)
                latencies[first:last] = self.device.now - due[first:last]
            else:
                self.device.now = float(due[come])
        return latencies

    @property
    def _oldest_ends(self) -> float:
        return float(self.flow._under_way[0].done.time)


def server_p99(machine: Machine, share: float, limit_s: float, count: int = 50_000) -> float:
    """99th percentile of the latency in seconds, at a share of the ideal rate."""
    ideal = count / machine.device.speeds.ideal_s(count, machine.batch, scattered=True)
    return float(np.quantile(machine.server(share * ideal, count, limit_s), 0.99))
