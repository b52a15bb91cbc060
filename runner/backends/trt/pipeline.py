"""Batches through devices: copied in, executed, copied out, on several streams at once.

A stream has two sets of buffers (pinned on the host, and on the device), so that the host fills one
while the device works on the other; several streams let one's copies run beside another's
execution.  A chunk goes `submit` -> `collect`.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from runner.backends.trt.memory import Memory
from runner.backends.trt.plan import split
from runner.backends.trt.session import Execution, Session, Shapes
from runner.errors import BackendError, InferenceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SETS = 2  # of buffers for each stream
_KEPT_VIEWS = 64  # a decode loop sends hundreds of shapes

Feed = Mapping[str, "NDArray[Any]"]


@dataclass
class _Lane:
    """A stream and what executes on it; one thread at a time may put work there."""

    stream: Any
    handle: int
    executions: list[Execution]
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class _Views:
    """A slot's input buffers, seen as a batch of one shape."""

    shapes: Shapes
    profile: int
    inputs: list[tuple[str, NDArray[Any]]]
    up: list[tuple[int, NDArray[np.uint8]]]
    graph: Any = None
    # Outputs of a batch whose shapes are known beforehand.
    known: Shapes | None = None
    outputs: list[NDArray[Any]] = field(default_factory=list)
    down: list[tuple[NDArray[np.uint8], int]] = field(default_factory=list)


@dataclass
class Slot:
    """One set of buffers: what a chunk occupies from `submit` to `collect`."""

    pipeline: Pipeline
    lane: _Lane
    done: Any
    pinned: dict[str, NDArray[np.uint8]] = field(default_factory=dict)
    device: dict[str, int] = field(default_factory=dict)
    views: dict[tuple[tuple[int, ...], ...], _Views] = field(default_factory=dict)
    count: int = 0
    outputs: list[NDArray[Any]] = field(default_factory=list)


class Pipeline:
    """One device.  Several threads may use it, each with slots of its own.

    Args:
        session: the engine; closed with the pipeline.
        memory: the device; closed with the pipeline.
        streams: how many batches may be on the device at once.
        graphs: whether the greatest batch of each profile is replayed as a CUDA graph.

    Attributes:
        slots: sets of buffers; neighbours are on different streams.
        graph_note: why there are no graphs although they were asked for; "" otherwise.
    """

    def __init__(
        self, session: Session, memory: Memory, streams: int = 2, graphs: bool = True
    ) -> None:
        self.session = session
        self.memory = memory
        self.plan = session.plan
        self.slots: list[Slot] = []
        self.graph_note = ""
        self._graphs = graphs
        self._lanes: list[_Lane] = []
        self._closed = False
        try:
            self._open(streams)
        except BaseException:
            self.close()
            raise

    def _open(self, streams: int) -> None:
        self.memory.activate()
        for _ in range(streams):
            stream = self.memory.stream()
            executions = [
                self.session.execution(index, stream) for index in range(len(self.plan.profiles))
            ]
            self._lanes.append(_Lane(stream, self.memory.handle(stream), executions))
        for _ in range(SETS):
            for lane in self._lanes:
                slot = Slot(self, lane, self.memory.event())
                self.slots.append(slot)
                self._furnish(slot)

    def _furnish(self, slot: Slot) -> None:
        room = {
            port.name: port.nbytes(port.at(self.plan.most, self.plan.longest))
            for port in self.session.inputs
        }
        for port in self.plan.outputs:
            room[port.name] = max(e.room[port.name] for e in slot.lane.executions)
        for name, nbytes in room.items():
            slot.pinned[name] = self.memory.pinned(max(nbytes, 1))
            # A batch that is filled up runs on what lies here.
            slot.pinned[name][:] = 0
            slot.device[name] = self.memory.alloc(max(nbytes, 1))

    @property
    def lanes(self) -> int:
        return len(self._lanes)

    def prepare(self) -> None:
        """Run every buffer set once at every profile's greatest batch, and record its graph.

        What the first execution of a shape costs is paid here, before anything is timed.
        """
        self.memory.activate()
        for slot in self.slots:
            for index, profile in enumerate(self.plan.profiles):
                shapes = {
                    port.name: port.at(profile.most, self.plan.longest)
                    for port in self.session.inputs
                }
                views = self._views(slot, shapes, profile.most)
                self._put(slot, views, profile.most)
                self.memory.synchronize(slot.lane.stream)
                if self._graphs and not slot.lane.executions[index].capturable:
                    self._graphs = False
                    self.graph_note = "the engine has outputs whose size is known only afterwards"
                elif self._graphs and self.plan.whole:
                    self._graphs, self.graph_note = False, "batches come in too many shapes"
                if self._graphs:
                    self._capture(slot, views, profile.most)

    def _capture(self, slot: Slot, views: _Views, count: int) -> None:
        try:
            views.graph = self.memory.capture(
                slot.lane.stream, lambda: self._put(slot, views, count)
            )
        except (BackendError, InferenceError) as error:
            self._graphs, self.graph_note = False, str(error)
            for other in self.slots:
                for made in other.views.values():
                    made.graph = None

    def submit(self, slot: Slot, feed: Feed, start: int, stop: int) -> None:
        """Copy rows start to stop of a batch into a free slot and put them on its stream.

        Raises:
            InferenceError: the feed has another form, or TensorRT refuses.
        """
        memory, plan = self.memory, self.plan
        memory.activate()
        count = stop - start
        parts = {}
        for port in self.session.inputs:
            array = feed[port.name]
            parts[port.name] = array if plan.whole else array[start:stop]
        key = tuple(array.shape for array in parts.values())
        views = slot.views.get(key)
        if views is None:
            self._check(parts, count)
            shapes = {name: array.shape for name, array in parts.items()}
            views = self._views(slot, shapes, count)
        for name, target in views.inputs:
            np.copyto(target, parts[name], casting="no")
        slot.count = count
        with slot.lane.lock:
            if views.graph is not None:
                memory.launch(views.graph, slot.lane.stream)
                slot.outputs = views.outputs
            else:
                self._put(slot, views, count)
            memory.record(slot.done, slot.lane.stream)

    def collect(self, slot: Slot) -> list[NDArray[Any]]:
        """Wait for what was submitted.

        Returns:
            Its outputs, in the slot's buffers: good until the next `submit` there.
        """
        self.memory.activate()
        self.memory.wait(slot.done)
        return slot.outputs

    def _put(self, slot: Slot, views: _Views, count: int) -> None:
        """In, execute, out: all on one stream, so in this order."""
        memory, lane = self.memory, slot.lane
        for address, source in views.up:
            memory.h2d(address, source, lane.stream)
        execution = lane.executions[views.profile]
        shapes = execution.enqueue(views.shapes, slot.device, lane.handle)
        if shapes is not views.known:
            self._see_outputs(slot, views, shapes, count)
        for target, address in views.down:
            memory.d2h(target, address, lane.stream)
        slot.outputs = views.outputs

    def _see_outputs(self, slot: Slot, views: _Views, shapes: Shapes, count: int) -> None:
        executed = self.plan.executed(count)
        outputs, down = [], []
        for port in self.plan.outputs:
            shape = shapes[port.name]
            if not port.fits(shape) or (not self.plan.whole and shape[0] != executed):
                raise InferenceError(
                    f"found output {port.name!r} of shape {list(shape)} for {executed} samples; "
                    f"asked for {list(port.shape)} (None: the batch)."
                )
            raw = slot.pinned[port.name][: port.nbytes(shape)]
            if raw.nbytes:
                down.append((raw, slot.device[port.name]))
            typed = raw.view(port.dtype).reshape(shape)
            outputs.append(typed if self.plan.whole else typed[:count])
        views.known, views.outputs, views.down = shapes, outputs, down

    def _check(self, parts: Feed, count: int) -> None:
        for port in self.session.inputs:
            array = parts[port.name]
            axis = port.batch_axis
            lengths = [
                n
                for place, (n, want) in enumerate(zip(array.shape, port.shape, strict=False))
                if want is None and place != axis
            ]
            if max(lengths, default=0) > self.plan.longest:
                raise InferenceError(
                    f"found {port.name!r} of shape {list(array.shape)}; the engine was built for "
                    f"lengths up to {self.plan.longest}. Raise the option longest."
                )
            batch = count if axis is None or array.ndim <= axis else array.shape[axis]
            if not port.fits(array.shape) or batch != count or array.dtype != port.dtype:
                raise InferenceError(
                    f"found {port.name!r} of shape {list(array.shape)}, {array.dtype}, for "
                    f"{count} samples; asked for {list(port.shape)}, {port.dtype} (None: the "
                    "batch)."
                )

    def _views(self, slot: Slot, shapes: Shapes, count: int) -> _Views:
        executed = self.plan.executed(count)
        inputs, up = [], []
        run: dict[str, tuple[int, ...]] = {}
        for port in self.session.inputs:
            shape = shapes[port.name]
            axis = port.batch_axis
            run[port.name] = tuple(executed if i == axis else n for i, n in enumerate(shape))
            raw = slot.pinned[port.name][: port.nbytes(run[port.name])]
            up.append((slot.device[port.name], raw))
            typed = raw[: port.nbytes(shape)].view(port.dtype).reshape(shape)
            inputs.append((port.name, typed))
        views = _Views(run, self.plan.profile_for(executed), inputs, up)
        if len(slot.views) >= _KEPT_VIEWS:
            for key in [key for key, old in slot.views.items() if old.graph is None]:
                del slot.views[key]
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
        for lane in self._lanes:
            with contextlib.suppress(BackendError):
                self.memory.synchronize(lane.stream)
        for slot in self.slots:
            slot.views.clear()
            slot.outputs = []
            for address in slot.device.values():
                with contextlib.suppress(BackendError):
                    self.memory.free(address)
            for array in slot.pinned.values():
                with contextlib.suppress(BackendError):
                    self.memory.unpin(array)
        self.slots, self._lanes = [], []
        self.session.close()
        self.memory.close()


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
