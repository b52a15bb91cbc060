"""Batches through devices: copied in, executed, copied out, on several streams at once.

A stream has two sets of buffers (pinned on the host, and on the device), so that the host fills one
while the device works on the other; several streams let one's copies run beside another's
execution.  A batch goes `submit` -> `collect`; between the two nothing waits.  `Flow` keeps every
set of buffers under way, which is how Offline and Server run: copies in have a stream of their own
there, and executions wait for theirs by an event.  `Spread` answers one call at a time.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from runner.backends.trt.memory import Memory
from runner.backends.trt.plan import Port, graph_sizes, split
from runner.backends.trt.samples import Held, Samples, runs_of
from runner.backends.trt.session import Execution, Session, Shapes
from runner.errors import BackendError, InferenceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SETS = 2  # of buffers for each stream
ROW_BYTES = 32 << 10  # scattered rows go to the device one by one where a run has as many bytes
DEVICE_SHARE = 0.9  # of the free device memory that streams may take
_KEPT_VIEWS = 64  # a decode loop sends hundreds of shapes

Feed = Mapping[str, "NDArray[Any]"]


@dataclass
class _Lane:
    """A stream and what executes on it; one thread at a time may put work there."""

    stream: Any
    handle: int
    executions: list[Execution]
    scratch: int
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class _Graph:
    """A recorded execution with the copies of its outputs."""

    ready: Any
    outputs: Shapes


@dataclass
class _Views:
    """A slot's buffers, seen as a batch of one shape; `shapes` are what is executed."""

    shapes: Shapes
    executed: int
    profile: int
    inputs: dict[str, NDArray[Any]]
    up: list[tuple[int, NDArray[np.uint8]]]
    # Outputs of a batch whose shapes are known beforehand.
    known: Shapes | None = None
    outputs: list[NDArray[Any]] = field(default_factory=list)
    down: list[tuple[NDArray[np.uint8], int]] = field(default_factory=list)


@dataclass
class Slot:
    """One set of buffers: what a batch occupies from `submit` to `collect`."""

    pipeline: Pipeline
    lane: _Lane
    done: Any
    copied: Any
    pinned: dict[str, NDArray[np.uint8]] = field(default_factory=dict)
    device: dict[str, int] = field(default_factory=dict)
    views: dict[tuple[tuple[int, ...], ...], _Views] = field(default_factory=dict)
    graphs: dict[int, _Graph] = field(default_factory=dict)  # by samples executed
    outputs: list[NDArray[Any]] = field(default_factory=list)


class Pipeline:
    """One device.  Several threads may use it, each with slots of its own.

    Args:
        session: the engine; closed with the pipeline.
        memory: the device; what was allocated there is freed with the pipeline.
        streams: how many batches may be on the device at once; fewer where its memory is short.
        graphs: whether batches are replayed as CUDA graphs; one that has none of its size is
            filled up to the next that has.

    Attributes:
        slots: sets of buffers; neighbours are on different streams.
        graph_note: why there are no graphs although they were asked for; "" otherwise.
        stream_note: why there are fewer streams; "" otherwise.
    """

    def __init__(
        self, session: Session, memory: Memory, streams: int = 2, graphs: bool = True
    ) -> None:
        self.session = session
        self.memory = memory
        self.plan = session.plan
        self.slots: list[Slot] = []
        self.graph_note = self.stream_note = ""
        self._graphs = graphs
        self._sizes: tuple[int, ...] = ()  # with a graph
        self._copies: Any = None
        self._lanes: list[_Lane] = []
        self._closed = False
        try:
            self._open(streams)
        except BaseException:
            self.close()
            raise

    def _open(self, streams: int) -> None:
        memory = self.memory
        memory.activate()
        for _ in range(self._affordable(streams)):
            stream = memory.stream()
            lane = _Lane(stream, memory.handle(stream), [], memory.alloc(self._scratch))
            self._lanes.append(lane)
            lane.executions += [
                self.session.execution(index, stream, lane.scratch)
                for index in range(len(self.plan.profiles))
            ]
        self._copies = memory.stream()
        for _ in range(SETS):
            for lane in self._lanes:
                slot = Slot(self, lane, memory.event(), memory.event())
                self.slots.append(slot)
                self._furnish(slot)

    @property
    def _scratch(self) -> int:
        return max(1, self.session.scratch_bytes)

    def _affordable(self, streams: int) -> int:
        plan = self.plan
        buffers = sum(
            port.nbytes(port.at(plan.most, plan.longest))
            for port in (*self.session.inputs, *plan.outputs)
        )
        each = self._scratch + SETS * buffers
        free = self.memory.free_bytes()
        fit = int(DEVICE_SHARE * free // each)
        if fit < 1:
            raise BackendError(
                f"found {free / 1e9:.2f} GB free on {self.memory.facts.name}; expected "
                f"{each / DEVICE_SHARE / 1e9:.2f} GB for a batch of {plan.most}. Choose a smaller "
                "batch, or end what else uses the GPU (nvidia-smi)."
            )
        if fit < streams:
            self.stream_note = (
                f"{fit} of {streams} streams: each takes {each / 1e9:.2f} GB at a batch of "
                f"{plan.most}, and {free / 1e9:.2f} GB are free."
            )
        return min(fit, streams)

    def _furnish(self, slot: Slot) -> None:
        memory = self.memory
        room = {
            port.name: port.nbytes(port.at(self.plan.most, self.plan.longest))
            for port in self.session.inputs
        }
        for port in self.plan.outputs:
            room[port.name] = max(e.room[port.name] for e in slot.lane.executions)
        for name, nbytes in room.items():
            slot.pinned[name] = memory.pinned(max(nbytes, 1))
            # A batch that is filled up runs on what is here, and garbage may not be an index.
            slot.pinned[name][:] = 0
            slot.device[name] = memory.alloc(max(nbytes, 1))
        for port in self.session.inputs:
            memory.h2d(slot.device[port.name], slot.pinned[port.name], slot.lane.stream)
        memory.synchronize(slot.lane.stream)

    @property
    def lanes(self) -> int:
        return len(self._lanes)

    def prepare(self) -> None:
        """Run every buffer set once at every size that gets a graph, and record it.

        What the first execution of a shape costs is paid here, before anything is timed.
        """
        self.memory.activate()
        plan = self.plan
        profiles = tuple(profile.most for profile in plan.profiles)
        if self._graphs and plan.whole:
            self._graphs, self.graph_note = False, "batches come in too many shapes"
        for slot in self.slots:
            if self._graphs and not all(e.capturable for e in slot.lane.executions):
                self._graphs = False
                self.graph_note = "the engine has outputs whose size is known only afterwards"
            sizes = profiles
            if self._graphs and plan.fixed_batch is None:
                sizes = tuple(sorted({*profiles, *map(plan.executed, graph_sizes(plan.most))}))
            for size in sizes:
                shapes = {port.name: port.at(size, plan.longest) for port in self.session.inputs}
                views = self._views(slot, shapes, size)
                with slot.lane.lock:
                    self._copy_in(slot, views)
                    self._run(slot, views, size)
                    self.memory.synchronize(slot.lane.stream)
                    if self._graphs:
                        self._capture(slot, views, size)
        if self._graphs:
            self._sizes = tuple(sorted(self.slots[0].graphs))
        for slot in self.slots:
            slot.views.clear()

    def _capture(self, slot: Slot, views: _Views, size: int) -> None:
        try:
            ready = self.memory.capture(slot.lane.stream, lambda: self._execute(slot, views, size))
        except (BackendError, InferenceError) as error:
            self._graphs, self.graph_note = False, str(error)
            for other in self.slots:
                other.graphs.clear()
        else:
            assert views.known is not None
            slot.graphs[size] = _Graph(ready, views.known)

    def submit(self, slot: Slot, feed: Feed, start: int, stop: int) -> None:
        """Copy rows start to stop of a batch into a free slot and put them on its stream.

        Raises:
            InferenceError: the feed has another form, or TensorRT refuses.
        """
        self.memory.activate()
        count = stop - start
        parts = {}
        for port in self.session.inputs:
            array = feed[port.name]
            parts[port.name] = array if self.plan.whole else array[start:stop]
        views = self._seen(
            slot, {name: (array.shape, array.dtype) for name, array in parts.items()}, count
        )
        for name, target in views.inputs.items():
            np.copyto(target, parts[name], casting="no")
        with slot.lane.lock:
            self._copy_in(slot, views)
            self._run(slot, views, count)

    def submit_rows(
        self, slot: Slot, samples: Samples, rows: NDArray[np.int64], *, ahead: bool = False
    ) -> None:
        """Put loaded samples on a free slot's stream; they are copied from where they are held.

        Args:
            rows: of `samples`, in any order.
            ahead: copy on the stream for copies, where the next batch's copy need not wait for
                this batch's execution.  For a batch that is alone that would be one detour more.

        Raises:
            InferenceError: the samples have another form, or TensorRT refuses.
        """
        self.memory.activate()
        count = len(rows)
        forms = {}
        for port in self.session.inputs:
            array = samples.held[port.name].array
            forms[port.name] = ((count, *array.shape[1:]), array.dtype)
        views = self._seen(slot, forms, count)
        runs = runs_of(rows)
        with slot.lane.lock:
            stream = self._copies if ahead else slot.lane.stream
            for port in self.session.inputs:
                self._fill(slot, views, port.name, samples.held[port.name], rows, runs, stream)
            if ahead:
                self.memory.record(slot.copied, stream)
                self.memory.after(slot.lane.stream, slot.copied)
            self._run(slot, views, count)

    def _fill(
        self,
        slot: Slot,
        views: _Views,
        name: str,
        held: Held,
        rows: NDArray[np.int64],
        runs: Sequence[tuple[int, int]],
        stream: Any,
    ) -> None:
        memory, at, row = self.memory, slot.device[name], held.row_bytes
        source = held.devices.get(id(memory))
        if source is not None:
            for first, count in runs:
                memory.d2d(at, source + first * row, count * row, stream)
                at += count * row
        elif len(runs) == 1 or (held.pinned and len(rows) * row >= ROW_BYTES * len(runs)):
            for first, count in runs:
                memory.h2d(at, held.raw[first * row : (first + count) * row], stream)
                at += count * row
        else:
            target = views.inputs[name]
            # mode="clip", because numpy goes through one more buffer to be able to raise.
            np.take(held.array, rows, axis=0, out=target, mode="clip")
            memory.h2d(at, slot.pinned[name][: target.nbytes], stream)

    def collect(self, slot: Slot) -> list[NDArray[Any]]:
        """Wait for what was submitted.

        Returns:
            Its outputs, in the slot's buffers: good until the next `submit` there.
        """
        self.memory.activate()
        self.memory.wait(slot.done)
        return slot.outputs

    def _copy_in(self, slot: Slot, views: _Views) -> None:
        for address, source in views.up:
            self.memory.h2d(address, source, slot.lane.stream)

    def _run(self, slot: Slot, views: _Views, count: int) -> None:
        """Execute and copy out, behind the copies in: all on one stream, so in this order."""
        memory, lane = self.memory, slot.lane
        graph = slot.graphs.get(views.executed)
        if graph is None:
            self._execute(slot, views, count)
        else:
            if views.known is None:
                self._see_outputs(slot, views, graph.outputs, count)
            memory.launch(graph.ready, lane.stream)
        slot.outputs = views.outputs
        memory.record(slot.done, lane.stream)

    def _execute(self, slot: Slot, views: _Views, count: int) -> None:
        lane = slot.lane
        execution = lane.executions[views.profile]
        shapes = execution.enqueue(views.shapes, slot.device, lane.handle)
        if shapes is not views.known:
            self._see_outputs(slot, views, shapes, count)
        for target, address in views.down:
            self.memory.d2h(target, address, lane.stream)

    def _see_outputs(self, slot: Slot, views: _Views, shapes: Shapes, count: int) -> None:
        executed = views.executed
        outputs, down = [], []
        for port in self.plan.outputs:
            shape = shapes[port.name]
            if not port.fits(shape) or (not self.plan.whole and shape[0] != executed):
                raise InferenceError(
                    f"found output {port.name!r} of shape {list(shape)} for {executed} samples; "
                    f"expected {list(port.shape)} (None: the batch)."
                )
            raw = slot.pinned[port.name][: port.nbytes(shape)]
            if raw.nbytes:
                down.append((raw, slot.device[port.name]))
            typed = raw.view(port.dtype).reshape(shape)
            outputs.append(typed if self.plan.whole else typed[:count])
        views.known, views.outputs, views.down = shapes, outputs, down

    def _seen(
        self, slot: Slot, forms: Mapping[str, tuple[tuple[int, ...], Any]], count: int
    ) -> _Views:
        """The slot's views for inputs of these shapes and types."""
        views = slot.views.get(tuple(shape for shape, _ in forms.values()))
        if views is None:
            for port in self.session.inputs:
                self._check(port, *forms[port.name], count)
            views = self._views(slot, {name: form[0] for name, form in forms.items()}, count)
        return views

    def _check(self, port: Port, shape: tuple[int, ...], dtype: Any, count: int) -> None:
        axis = port.batch_axis
        lengths = [
            n
            for place, (n, want) in enumerate(zip(shape, port.shape, strict=False))
            if want is None and place != axis
        ]
        if max(lengths, default=0) > self.plan.longest:
            raise InferenceError(
                f"found {port.name!r} of shape {list(shape)}; the engine was built for "
                f"lengths up to {self.plan.longest}. Raise the option longest."
            )
        batch = count if axis is None or len(shape) <= axis else shape[axis]
        if not port.fits(shape) or batch != count or dtype != port.dtype:
            raise InferenceError(
                f"found {port.name!r} of shape {list(shape)}, {dtype}, for {count} samples; "
                f"expected {list(port.shape)}, {port.dtype} (None: the batch)."
            )

    def _executed(self, count: int) -> int:
        """Samples that run where `count` are wanted: the next greater number that has a graph."""
        if self.plan.fixed_batch is None and self._sizes:
            return next((size for size in self._sizes if size >= count), count)
        return self.plan.executed(count)

    def _views(self, slot: Slot, shapes: Shapes, count: int) -> _Views:
        executed = self._executed(count)
        inputs, up = {}, []
        run: dict[str, tuple[int, ...]] = {}
        for port in self.session.inputs:
            shape = shapes[port.name]
            axis = port.batch_axis
            run[port.name] = tuple(executed if i == axis else n for i, n in enumerate(shape))
            raw = slot.pinned[port.name][: port.nbytes(shape)]
            up.append((slot.device[port.name], raw))
            inputs[port.name] = raw.view(port.dtype).reshape(shape)
        views = _Views(
            shapes=run,
            executed=executed,
            profile=self.plan.profile_for(executed),
            inputs=inputs,
            up=up,
        )
        if len(slot.views) >= _KEPT_VIEWS:
            slot.views.clear()
        slot.views[tuple(shapes[port.name] for port in self.session.inputs)] = views
        return views

    def close(self) -> None:
        """Wait for what runs and give everything back; harmless when done twice."""
        if self._closed:
            return
        self._closed = True
        # The first error is worth telling, not those of the clean-up after it.
        with contextlib.suppress(BackendError):
            self.memory.activate()
        for stream in (self._copies, *(lane.stream for lane in self._lanes)):
            if stream is not None:
                with contextlib.suppress(BackendError):
                    self.memory.synchronize(stream)
        for slot in self.slots:
            slot.views.clear()
            slot.graphs.clear()
            slot.outputs = []
            for address in slot.device.values():
                with contextlib.suppress(BackendError):
                    self.memory.free(address)
            for array in slot.pinned.values():
                with contextlib.suppress(BackendError):
                    self.memory.unpin(array)
        for lane in self._lanes:
            lane.executions.clear()
            with contextlib.suppress(BackendError):
                self.memory.free(lane.scratch)
        self.slots, self._lanes = [], []
        self.session.close()


class Flow:
    """Loaded samples through one device, in batches that stay in order.

    One thread submits and one collects; they may be the same.  While a flow is under way, nothing
    else uses its pipeline.
    """

    def __init__(self, pipeline: Pipeline, samples: Samples) -> None:
        self._pipeline = pipeline
        self._samples = samples
        self._next = 0
        self._under_way: deque[Slot] = deque()

    @property
    def most(self) -> int:
        """Most samples in one batch."""
        return self._pipeline.plan.most

    @property
    def lanes(self) -> int:
        return self._pipeline.lanes

    @property
    def depth(self) -> int:
        """Most batches under way."""
        return len(self._pipeline.slots)

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def submit(self, rows: NDArray[np.int64]) -> None:
        """Put these rows of the loaded samples on a stream; fewer than `depth` must be under way.

        Raises:
            InferenceError: too many samples, another form, or TensorRT refuses.
        """
        slots = self._pipeline.slots
        slot = slots[self._next]
        self._next = (self._next + 1) % len(slots)
        self._pipeline.submit_rows(slot, self._samples, rows, ahead=True)
        self._under_way.append(slot)

    def collect(self, use: Callable[[Sequence[NDArray[Any]]], None]) -> None:
        """Wait for the oldest batch and hand its outputs over; they are good until `use` returns."""
        slot = self._under_way[0]
        use(self._pipeline.collect(slot))
        self._under_way.popleft()


class Spread:
    """Batches over the pipelines of all devices, from any number of threads.

    Args:
        worth: samples from which a chunk is worth a stream of its own.
    """

    def __init__(self, pipelines: Sequence[Pipeline], worth: int = 32) -> None:
        self._pipelines = list(pipelines)
        self._plan = pipelines[0].plan
        self._lanes = sum(pipeline.lanes for pipeline in pipelines)
        self._worth = worth
        self._free: queue.SimpleQueue[Slot] = queue.SimpleQueue()
        # Devices take turns, and on each its streams do.
        longest = max(len(pipeline.slots) for pipeline in pipelines)
        for number in range(longest):
            for pipeline in pipelines:
                if number < len(pipeline.slots):
                    self._free.put(pipeline.slots[number])

    def infer_rows(self, samples: Samples, rows: NDArray[np.int64]) -> list[NDArray[Any]]:
        """Run one batch of loaded samples; at most as many as one execution takes."""
        slot = self._free.get()
        pipeline = slot.pipeline
        pipeline.submit_rows(slot, samples, rows)
        outputs = [part.copy() for part in pipeline.collect(slot)]
        self._free.put(slot)
        return outputs

    def infer(self, feed: Feed, count: int) -> list[NDArray[Any]]:
        """Run one batch; of any size where it may be cut up.

        Returns:
            The outputs, the caller's own.
        """
        plan = self._plan
        if plan.whole:
            return self._one(feed, count)
        chunks = split(count, plan.most, self._lanes, self._worth)
        if len(chunks) == 1:
            return self._one(feed, count)
        results = [np.empty(port.at(count, 1), port.dtype) for port in plan.outputs]
        running: deque[tuple[Slot, int, int]] = deque()
        for start, stop in chunks:
            slot = self._take(results, running)
            slot.pipeline.submit(slot, feed, start, stop)
            running.append((slot, start, stop))
        while running:
            self._gather(results, *running.popleft())
        return results

    def _one(self, feed: Feed, count: int) -> list[NDArray[Any]]:
        slot = self._free.get()
        pipeline = slot.pipeline
        pipeline.submit(slot, feed, 0, count)
        outputs = [part.copy() for part in pipeline.collect(slot)]
        self._free.put(slot)
        return outputs

    def _take(self, results: list[NDArray[Any]], running: deque[tuple[Slot, int, int]]) -> Slot:
        """A free slot.  Who holds some gives one back rather than wait: threads never deadlock."""
        while running:
            try:
                return self._free.get_nowait()
            except queue.Empty:
                self._gather(results, *running.popleft())
        return self._free.get()

    def _gather(self, results: list[NDArray[Any]], slot: Slot, start: int, stop: int) -> None:
        for result, part in zip(results, slot.pipeline.collect(slot), strict=True):
            result[start:stop] = part
        self._free.put(slot)
