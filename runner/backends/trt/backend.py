"""TensorRT on NVIDIA GPUs: the same ONNX files, built into engines.

backend="tensorrt", backend_options={"precision": "fp16", "devices": "all"}
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.backends.trt.api import Messages, TensorRtApi, load_tensorrt, messages_of
from runner.backends.trt.cache import EngineCache, default_folder
from runner.backends.trt.memory import (
    CHOICES,
    Memory,
    device_count,
    library_version,
    open_memory,
)
from runner.backends.trt.plan import (
    PRECISIONS,
    EnginePlan,
    default_batch,
    engine_facts,
    make_plan,
)
from runner.errors import BackendError
from runner.system import free_memory_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from runner.backends.trt.model import Prepared
    from runner.backends.trt.pipeline import Flow, Pipeline
    from runner.backends.trt.samples import Samples
    from runner.benchmarks.base import Benchmark
    from runner.datasets import Dataset

_LOG = logging.getLogger("runner.tensorrt")
_REPORT_EVERY_S = 1.0
_PLACES = {
    "pinned": "pinned host memory",
    "device": "device memory",
    "pageable": "pageable host memory",
}
PLACES = tuple(_PLACES)


class TensorRT:
    """An ONNX model as a TensorRT engine; `infer` may be called by several threads at once.

    Args:
        precision: "as-is" runs the types that the model holds; "fp16" converts a float32 model.
        devices: "all", a number, or numbers; 0 is the first GPU that CUDA shows.
        tf32: let float32 be multiplied with 10 bits of mantissa, which is faster and less exact.
        streams: batches on a device at once; each has two sets of buffers. Fewer where the
            device's memory does not hold so many.
        samples: where loaded samples wait: "pinned" (page-locked host memory), "device" (its own
            memory, where they fit; see `samples` for what the rules say) or "pageable".
        memory: "pycuda", "cuda-bindings", or "auto" for the first of them that is there.
        max_batch: most samples in one execution; None: the batch of the run.
        longest: greatest length of dimensions that are neither fixed nor the batch (words).
        overlap: samples from which a part of a single call's batch gets a stream of its own, so
            that copies run beside execution; Offline and Server overlap whole batches.
        graphs: replay batches as CUDA graphs.
        workspace_mib: most device memory a layer may use while it runs; 0: TensorRT's own limit.
        optimization_level: 0 (fast build) to 5 (fast engine).
        cache: folder for engines; None: `cache.default_folder()`.

    Attributes:
        notes: what happened in `load` that a reader should know (why an engine was built, what
            was changed in the model).
        on_progress: called with one line while an engine is built; may be set before `load`.
        batch_size: samples in one inference; may be set before `load`, which else chooses it by
            the device (see `plan.default_batch`).
    """

    chooses_batch = True

    def __init__(
        self,
        precision: str = "as-is",
        tf32: bool = False,
        devices: str | int | Sequence[int] = 0,
        streams: int = 2,
        samples: str = "pinned",
        memory: str = "auto",
        max_batch: int | None = None,
        longest: int = 128,
        overlap: int = 32,
        graphs: bool = True,
        workspace_mib: int = 0,
        optimization_level: int = 3,
        cache: str | None = None,
    ) -> None:
        _require(precision in PRECISIONS, "precision", precision, " or ".join(PRECISIONS))
        _require(memory in CHOICES, "memory", memory, ", ".join(CHOICES))
        _require(samples in PLACES, "samples", samples, ", ".join(PLACES))
        _require(1 <= streams <= 16, "streams", streams, "1 to 16")
        _require(max_batch is None or max_batch >= 1, "max_batch", max_batch, "1 or more")
        _require(longest >= 1, "longest", longest, "1 or more")
        _require(overlap >= 1, "overlap", overlap, "1 or more")
        _require(workspace_mib >= 0, "workspace_mib", workspace_mib, "0 or more")
        _require(0 <= optimization_level <= 5, "optimization_level", optimization_level, "0 to 5")
        self._precision = precision
        self._tf32 = tf32
        self._devices = devices
        self._streams = streams
        self._place = samples
        self._memory = memory
        self._max_batch = max_batch
        self._longest = longest
        self._overlap = overlap
        self._graphs = graphs
        self._workspace_mib = workspace_mib
        self._level = optimization_level
        self._cache = Path(cache) if cache else None
        self._resources = ExitStack()
        self.framework = "TensorRT"
        self.notes: list[str] = []
        self.on_progress: Callable[[str], None] | None = None
        self.batch_size: int | None = None
        self._samples: Samples | None = None

    @classmethod
    def preflight(cls, options: Mapping[str, Any]) -> None:
        """See that this machine has what the backend needs, without using the GPU.

        Raises:
            BackendError: what is missing, and how to install it.
        """
        backend = cls(**options)
        backend._library()
        _device_numbers(backend._devices, backend._count())

    # What a test puts in the place of the libraries.
    def _library(self) -> TensorRtApi:
        return load_tensorrt()

    def _count(self) -> int:
        return device_count(self._memory)

    def _open(self, device: int) -> Memory:
        return open_memory(self._memory, device)

    def load(self, benchmark: Benchmark, model: Path | None, dataset: Dataset) -> None:
        if model is None:
            raise BackendError(
                f"found no model file; asked for an ONNX model of {benchmark.name}. Name one with "
                "the model option."
            )
        trt = self._library()
        numbers = _device_numbers(self._devices, self._count())
        from runner.backends.trt.model import prepare
        from runner.backends.trt.pipeline import Spread
        from runner.backends.trt.samples import Samples

        cache = EngineCache(self._cache or default_folder())
        self.notes = []
        prepared = prepare(model, benchmark, self._precision, cache.folder)
        pipelines: list[Pipeline] = []
        with ExitStack() as opened:
            memories: list[Memory] = []
            for number in numbers:
                memories.append(self._open(number))
                opened.callback(memories[-1].close)
            self._samples = Samples(memories, self._place)
            opened.callback(self._samples.release)
            plan = self._plan(benchmark, prepared, memories[0])
            for memory in memories:
                pipelines.append(self._pipeline(trt, memory, prepared, plan, cache))
                opened.callback(pipelines[-1].close)
            self._resources = opened.pop_all()
        self._spread = Spread(pipelines, self._overlap)
        self._pipelines = pipelines
        self.notes += prepared.notes
        self._told = self._describe(trt, prepared, pipelines)
        self.framework = self._told
        for note in self.notes:
            _LOG.info("%s", note)

    def _plan(self, benchmark: Benchmark, prepared: Prepared, memory: Memory) -> EnginePlan:
        batch = self.batch_size or (self._max_batch and min(self._max_batch, benchmark.batch_size))
        if batch is None:
            memory.activate()
            batch = default_batch(
                benchmark, memory.facts.multiprocessors, memory.free_bytes(), self._streams
            )
        plan = make_plan(
            benchmark,
            fixed_batch=prepared.fixed_batch,
            whole=prepared.whole,
            precision=prepared.precision,
            batch=batch,
            max_batch=self._max_batch,
            longest=self._longest,
            tf32=self._tf32,
            workspace_mib=self._workspace_mib,
            optimization_level=self._level,
        )
        self.batch_size = min(batch, plan.most) if prepared.fixed_batch is None else plan.most
        return plan

    def _pipeline(
        self,
        trt: TensorRtApi,
        memory: Memory,
        prepared: Prepared,
        plan: EnginePlan,
        cache: EngineCache,
    ) -> Pipeline:
        from runner.backends.trt.pipeline import Pipeline

        memory.activate()
        session = self._session(trt, memory, prepared, plan, cache)
        pipeline = Pipeline(session, memory, self._streams, self._graphs)
        try:
            pipeline.prepare()
        except BaseException:
            pipeline.close()
            raise
        if pipeline.graph_note:
            self.notes.append(f"No CUDA graphs: {pipeline.graph_note}")
        if pipeline.stream_note:
            self.notes.append(pipeline.stream_note)
        return pipeline

    def _session(
        self,
        trt: TensorRtApi,
        memory: Memory,
        prepared: Prepared,
        plan: EnginePlan,
        cache: EngineCache,
    ) -> Any:
        from runner.backends.trt.session import EngineSession

        messages = messages_of(trt)
        messages.forget()
        device = memory.facts
        facts = engine_facts(
            plan,
            model_sha256=prepared.sha256,
            tensorrt=trt.__version__,
            device=device.name,
            capability=device.capability,
        )
        found = cache.find(facts)
        reason = found.reason
        if found.engine is not None:
            try:
                return EngineSession(trt, messages, memory, found.engine, plan)
            except BackendError as error:
                cache.discard(facts)
                reason = f"the stored engine could not be used: {error}"
        engine = self._build(trt, messages, memory, prepared, plan, cache, reason)
        session = EngineSession(trt, messages, memory, engine, plan)
        try:
            cache.store(facts, engine)
        except BackendError as error:
            self.notes.append(f"The engine will be built again next time: {error}")
        return session

    def _build(
        self,
        trt: TensorRtApi,
        messages: Messages,
        memory: Memory,
        prepared: Prepared,
        plan: EnginePlan,
        cache: EngineCache,
        reason: str,
    ) -> bytes:
        from runner.backends.trt.builder import build

        self._say(f"building the engine: {reason}")
        began, told = time.monotonic(), 0.0

        def progress(phase: str, done: int, total: int) -> None:
            nonlocal told
            now = time.monotonic()
            if now - told >= _REPORT_EVERY_S:
                told = now
                share = f" {done} of {total}" if total else ""
                self._say(f"building the engine, {now - began:.0f} s: {phase}{share}")

        device = memory.facts.name
        built = build(
            trt,
            messages,
            prepared.path,
            plan,
            timings=cache.timings(trt.__version__, device),
            on_progress=progress,
        )
        if built.timings:
            cache.store_timings(trt.__version__, device, built.timings)
        self.notes.append(
            f"The engine was built in {time.monotonic() - began:.1f} s because {reason}."
        )
        return built.engine

    def _say(self, text: str) -> None:
        _LOG.info("%s", text)
        if self.on_progress is not None:
            self.on_progress(text)

    def _describe(self, trt: TensorRtApi, prepared: Prepared, pipelines: Sequence[Pipeline]) -> str:
        device = pipelines[0].memory
        library = f"{device.name} {library_version(device.name)}".strip()
        graphs = self._graphs and not any(pipeline.graph_note for pipeline in pipelines)
        count = len(pipelines)
        parts = [
            f"CUDA {device.facts.cuda}",
            device.facts.name + (f" x {count}" if count > 1 else ""),
            library,
            f"{prepared.precision} model" + (" with TF32" if self._tf32 else ""),
            f"batches of {self.batch_size}",
            f"{min(p.lanes for p in pipelines)} streams" + (" each" if count > 1 else ""),
            "CUDA graphs" if graphs else "no CUDA graphs",
            *(note.rstrip(".") for note in prepared.notes),
        ]
        return f"TensorRT {trt.__version__} ({', '.join(parts)})"

    def stage(self, arrays: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """What LoadGen loaded, in memory that the devices copy from; in place of what was loaded
        before."""
        assert self._samples is not None
        made = self._samples.hold(arrays, free_memory_bytes())
        if self._samples.note and self._samples.note not in self.notes:
            self.notes.append(self._samples.note)
            _LOG.warning("%s", self._samples.note)
        self.framework = f"{self._told[:-1]}, samples in {_PLACES[self._samples.place]})"
        return made

    def bind(self, feed: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """A feed of staged samples, with the rows it is; any other as it is."""
        assert self._samples is not None
        if not self._streamable:
            return feed
        rows = self._samples.rows_of(feed)
        if rows is None or rows[1] - rows[0] > self._plan_most:
            return feed
        return _Rows(feed, rows)

    def flows(self) -> Sequence[Flow]:
        """One for each device, for batches of staged samples; none where batches must be whole."""
        from runner.backends.trt.pipeline import Flow

        assert self._samples is not None
        if not self._streamable:
            return []
        return [Flow(pipeline, self._samples) for pipeline in self._pipelines]

    @property
    def _streamable(self) -> bool:
        return all(port.batch_axis == 0 for port in self._pipelines[0].plan.inputs)

    @property
    def _plan_most(self) -> int:
        return self._pipelines[0].plan.most

    def infer(
        self, feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> Sequence[NDArray[Any]]:
        if type(feed) is _Rows:
            assert self._samples is not None
            return self._spread.infer_rows(self._samples, feed.rows)
        return self._spread.infer(feed, len(indices))

    @property
    def warnings(self) -> list[str]:
        """What a reader of the result should know."""
        place = self._samples.place if self._samples is not None else ""
        told = [self._samples.note] if self._samples is not None and self._samples.note else []
        if place == "device":
            told.append(
                "samples were in the device's own memory: the rules want them in host memory "
                "unless MLCommons approved otherwise. Use samples=pinned for a submission."
            )
        return told

    def close(self) -> None:
        self._resources.close()


class _Rows(dict[str, "NDArray[Any]"]):
    """A feed that is rows of the staged samples."""

    def __init__(self, feed: Mapping[str, NDArray[Any]], rows: tuple[int, int]) -> None:
        super().__init__(feed)
        import numpy as np

        self.rows = np.arange(*rows)


def _require(good: bool, name: str, found: object, asked: str) -> None:
    if not good:
        raise BackendError(f"found {name}={found!r}; asked for {asked}.")


def _device_numbers(wanted: str | int | Sequence[int], count: int) -> tuple[int, ...]:
    """Devices asked for, each once.

    Raises:
        BackendError: there are not so many, or it is not a list of numbers.
    """
    if wanted == "all":
        return tuple(range(count))
    if isinstance(wanted, str):
        try:
            numbers = [int(part) for part in wanted.split(",")]
        except ValueError:
            numbers = []
    else:
        numbers = [wanted] if isinstance(wanted, int) else [int(n) for n in wanted]
    bad = [n for n in numbers if not 0 <= n < count]
    if not numbers or bad or len(set(numbers)) < len(numbers):
        raise BackendError(
            f"found {count} GPUs and devices={wanted!r}; asked for 'all' or different numbers "
            f"from 0 to {count - 1}."
        )
    return tuple(numbers)
