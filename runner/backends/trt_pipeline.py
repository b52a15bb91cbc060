"""Batches through a device: copied in, executed, copied out, on several streams at once.

A stream has two sets of buffers (pinned on the host, and on the device), so that the host fills one
while the device works on the other; several streams let one's copies run beside another's
execution.  A chunk goes `submit` -> `collect`, and collecting is in the order of submitting.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from runner.backends.trt_memory import Memory
from runner.backends.trt_plan import split
from runner.backends.trt_session import Execution, Session
from runner.errors import BackendError, InferenceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SLOTS = 2


@dataclass
class _Views:
    """A slot's buffers, seen as a batch of one size."""

    inputs: list[tuple[str, NDArray[Any]]]
    outputs: list[NDArray[Any]]
    up: list[tuple[int, NDArray[np.uint8]]]
    down: list[tuple[NDArray[np.uint8], int]]
    profile: int
    executed: int


@dataclass
class _Slot:
    lane: _Lane
    pinned: dict[str, NDArray[np.uint8]]
    device: dict[str, int]
    done: Any
    busy: bool = False
    count: int = 0
    views: dict[int, _Views] = field(default_factory=dict)
    graphs: dict[int, Any] = field(default_factory=dict)


@dataclass
class _Lane:
    stream: Any
    handle: int
    executions: list[Execution]


class Pipeline:
    """One device.

    Args:
        session: the engine; closed with the pipeline.
        memory: the device; closed with the pipeline.
        streams: how many batches may be on the device at once.
        graphs: whether full batches are replayed as CUDA graphs.

    Attributes:
        graph_note: why there are no graphs although they were asked for; "" otherwise.
    """

    def __init__(
        self, session: Session, memory: Memory, streams: int = 2, graphs: bool = True
    ) -> None:
        self.session = session
        self.memory = memory
        self.plan = session.plan
        self.graph_note = ""
        self._graphs = graphs
        self._ring: list[_Slot] = []
        self._next = 0
        self._lanes: list[_Lane] = []
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
        for _ in range(SLOTS):
            # Neighbours in the ring are on different streams.
            for lane in self._lanes:
                self._ring.append(_Slot(lane, {}, {}, self.memory.event()))
                self._furnish(self._ring[-1])

    def _furnish(self, slot: _Slot) -> None:
        room = {row.name: row.nbytes * self.plan.most for row in self.session.inputs}
        for row in self.plan.outputs:
            room[row.name] = max(e.room[row.name] for e in slot.lane.executions)
        for name, nbytes in room.items():
            slot.pinned[name] = self.memory.pinned(nbytes)
            # A batch that is filled up runs on what lies here.
            slot.pinned[name][:] = 0
            slot.device[name] = self.memory.alloc(nbytes)

    @property
    def lanes(self) -> int:
        return len(self._lanes)

    @property
    def has_room(self) -> bool:
        """Whether `submit` can take a chunk before one is collected."""
        return not self._ring[self._next].busy

    def prepare(self) -> None:
        """Run every buffer set once at every profile's greatest batch, and record its graph.

        What the first execution of a shape costs is paid here, before anything is timed.
        """
        self.memory.activate()
        for slot in self._ring:
            for index, profile in enumerate(self.plan.profiles):
                views = self._views(slot, profile.most)
                self._put(slot, views)
                self.memory.synchronize(slot.lane.stream)
                if self._graphs and slot.lane.executions[index].capturable:
                    self._capture(slot, profile.most, views)
                elif self._graphs:
                    self.graph_note = "the engine has outputs whose size is known only afterwards"

    def _capture(self, slot: _Slot, count: int, views: _Views) -> None:
        try:
            slot.graphs[count] = self.memory.capture(
                slot.lane.stream, lambda: self._put(slot, views)
            )
        except (BackendError, InferenceError) as error:
            self._graphs, self.graph_note = False, str(error)
            for other in self._ring:
                other.graphs.clear()

    def submit(self, feed: Mapping[str, NDArray[Any]], start: int, stop: int) -> _Slot:
        """Put rows start to stop of a batch on the next stream; returns as soon as they are copied.

        Returns:
            What `collect` takes.

        Raises:
            InferenceError: all buffers are in use, or TensorRT refuses.
        """
        slot = self._ring[self._next]
        if slot.busy:
            raise InferenceError("all buffers are in use; collect the oldest chunk first.")
        memory = self.memory
        memory.activate()
        count = stop - start
        views = slot.views.get(count) or self._views(slot, count)
        for name, target in views.inputs:
            np.copyto(target, feed[name][start:stop], casting="no")
        graph = slot.graphs.get(views.executed)
        if graph is not None:
            memory.launch(graph, slot.lane.stream)
        else:
            self._put(slot, views)
        memory.record(slot.done, slot.lane.stream)
        slot.busy, slot.count = True, count
        self._next = (self._next + 1) % len(self._ring)
        return slot

    def collect(self, slot: _Slot) -> list[NDArray[Any]]:
        """Wait for a chunk.

        Returns:
            Its outputs, in buffers that are used again some chunks later.
        """
        self.memory.activate()
        self.memory.wait(slot.done)
        slot.busy = False
        return slot.views[slot.count].outputs

    def _put(self, slot: _Slot, views: _Views) -> None:
        """In, execute, out: all on one stream, so in this order."""
        memory, stream = self.memory, slot.lane.stream
        for address, source in views.up:
            memory.h2d(address, source, stream)
        execution = slot.lane.executions[views.profile]
        execution.enqueue(views.executed, slot.device, slot.lane.handle)
        for target, address in views.down:
            memory.d2h(target, address, stream)

    def _views(self, slot: _Slot, count: int) -> _Views:
        executed = self.plan.executed(count)
        inputs, outputs, up, down = [], [], [], []
        for row in self.session.inputs:
            raw = slot.pinned[row.name][: executed * row.nbytes]
            up.append((slot.device[row.name], raw))
            typed = raw[: count * row.nbytes].view(row.dtype).reshape(count, *row.shape)
            inputs.append((row.name, typed))
        for row in self.plan.outputs:
            raw = slot.pinned[row.name][: count * row.nbytes]
            down.append((raw, slot.device[row.name]))
            outputs.append(raw.view(row.dtype).reshape(count, *row.shape))
        views = _Views(inputs, outputs, up, down, self.plan.profile_for(count), executed)
        slot.views[count] = views
        return views

    def close(self) -> None:
        """Wait for what runs and give everything back; harmless when done twice."""
        # The first error is worth telling, not those of the clean-up after it.
        with contextlib.suppress(BackendError):
            self.memory.activate()
        for lane in self._lanes:
            with contextlib.suppress(BackendError):
                self.memory.synchronize(lane.stream)
        for slot in self._ring:
            slot.views.clear()
            slot.graphs.clear()
            for address in slot.device.values():
                with contextlib.suppress(BackendError):
                    self.memory.free(address)
            for array in slot.pinned.values():
                with contextlib.suppress(BackendError):
                    self.memory.unpin(array)
        opened = bool(self._lanes or self._ring)
        self._ring, self._lanes = [], []
        self.session.close()
        if opened:
            self.memory.close()


class Spread:
    """Batches over the pipelines of all devices.  One thread at a time.

    Args:
        worth: samples from which a chunk is worth a stream of its own.
    """

    def __init__(self, pipelines: Sequence[Pipeline], worth: int = 32) -> None:
        self._pipelines = list(pipelines)
        self._lanes = sum(pipeline.lanes for pipeline in pipelines)
        self._most = min(pipeline.plan.most for pipeline in pipelines)
        self._worth = worth
        self._turn = 0
        self._kept: dict[int, list[NDArray[Any]]] = {}

    def infer(self, feed: Mapping[str, NDArray[Any]], count: int) -> list[NDArray[Any]]:
        """Run one batch of any size.

        Returns:
            The outputs, good until the next call.
        """
        pipelines = self._pipelines
        chunks = split(count, self._most, self._lanes, self._worth)
        if len(chunks) == 1:
            pipeline = pipelines[self._turn]
            self._turn = (self._turn + 1) % len(pipelines)
            return pipeline.collect(pipeline.submit(feed, 0, count))
        results = self._results(count)
        running: deque[tuple[Pipeline, _Slot, int, int]] = deque()
        for number, (start, stop) in enumerate(chunks):
            pipeline = pipelines[(self._turn + number) % len(pipelines)]
            while not pipeline.has_room:
                self._gather(results, *running.popleft())
            running.append((pipeline, pipeline.submit(feed, start, stop), start, stop))
        self._turn = (self._turn + len(chunks)) % len(pipelines)
        while running:
            self._gather(results, *running.popleft())
        return results

    def _gather(
        self, results: list[NDArray[Any]], pipeline: Pipeline, slot: _Slot, start: int, stop: int
    ) -> None:
        for result, part in zip(results, pipeline.collect(slot), strict=True):
            result[start:stop] = part

    def _results(self, count: int) -> list[NDArray[Any]]:
        kept = self._kept.get(count)
        if kept is None:
            rows = self._pipelines[0].plan.outputs
            kept = [np.empty((count, *row.shape), row.dtype) for row in rows]
            # The usual batch, and the last one of a query.
            if len(self._kept) >= 4:
                self._kept.clear()
            self._kept[count] = kept
        return kept

    def close(self) -> None:
        for pipeline in self._pipelines:
            pipeline.close()
