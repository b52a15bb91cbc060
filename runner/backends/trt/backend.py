"""TensorRT on NVIDIA GPUs: the same ONNX files, built into engines.

backend="tensorrt", backend_options={"precision": "fp16", "devices": "all"}
"""

from __future__ import annotations

import hashlib
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
    ports,
)
from runner.errors import BackendError
from runner.system import free_memory_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from runner.backends.trt.model import Prepared
    from runner.backends.trt.pipeline import Flow, Pipeline
    from runner.backends.trt.samples import Samples
    from runner.backends.trt.session import EngineSession
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
        precision: "as-is" runs the types that the model holds; "fp32", "tf32", "fp16", "bf16",
            "int8" and "fp8" say what must run: "fp16" and "bf16" convert a float32 model, "int8" and
            "fp8" take a quantised one (QDQ), or a float32 one with a calibration cache.
        calibration: a calibration cache of TensorRT, for "int8" and "fp8" of a float32 model.
        engine: a plan made elsewhere (trtexec --saveEngine), used in place of one built here.
        sparsity: let weights of which two in four are zero use the sparse tensor cores.
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
        layers: how many layers run in which precision, by TensorRT's account; "" if unknown.
        batch_size: samples in one inference; may be set before `load`, which else chooses it by
            the device (see `plan.default_batch`).
    """

    chooses_batch = True

    def __init__(
        self,
        precision: str = "as-is",
        calibration: str | None = None,
        engine: str | None = None,
        sparsity: bool = False,
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
        _require(precision in PRECISIONS, "precision", precision, ", ".join(PRECISIONS))
        _require(memory in CHOICES, "memory", memory, ", ".join(CHOICES))
        _require(samples in PLACES, "samples", samples, ", ".join(PLACES))
        _require(1 <= streams <= 16, "streams", streams, "1 to 16")
        _require(max_batch is None or max_batch >= 1, "max_batch", max_batch, "1 or more")
        _require(longest >= 1, "longest", longest, "1 or more")
        _require(overlap >= 1, "overlap", overlap, "1 or more")
        _require(workspace_mib >= 0, "workspace_mib", workspace_mib, "0 or more")
        _require(0 <= optimization_level <= 5, "optimization_level", optimization_level, "0 to 5")
        _require(
            not (tf32 and precision != "tf32" and precision != "as-is"),
            "tf32",
            tf32,
            "false, or precision tf32",
        )
        self._precision = precision
        self._calibration = Path(calibration) if calibration else None
        self._engine = Path(engine) if engine else None
        self._sparsity = sparsity
        self._tf32 = tf32 or precision == "tf32"
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
        self.layers = ""
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
    def _driver(self) -> str:
        from runner.gpu import read_gpus

        return read_gpus().driver

    def _library(self) -> TensorRtApi:
        return load_tensorrt()

    def _count(self) -> int:
        return device_count(self._memory)

    def _open(self, device: int) -> Memory:
        return open_memory(self._memory, device)

    def load(self, benchmark: Benchmark, model: Path | None, dataset: Dataset) -> None:
        if model is None and self._engine is None:
            raise BackendError(
                f"found no model file; expected an ONNX model of {benchmark.name}. Name one with "
                "the model option."
            )
        trt = self._library()
        numbers = _device_numbers(self._devices, self._count())
        from runner.backends.trt.model import prepare
        from runner.backends.trt.pipeline import Spread
        from runner.backends.trt.samples import Samples

        cache = EngineCache(self._cache or default_folder())
        self.notes = []
        given = self._given(model) if self._engine is not None else b""
        if given:
            prepared = _of_plan(self._engine, given, model)
        else:
            assert model is not None
            prepared = prepare(model, benchmark, self._precision, cache.folder, self._calibration)
        pipelines: list[Pipeline] = []
        with ExitStack() as opened:
            memories: list[Memory] = []
            for number in numbers:
                memories.append(self._open(number))
                opened.callback(memories[-1].close)
            self._samples = Samples(memories, self._place)
            opened.callback(self._samples.release)
            if given:
                plan = self._plan_of(trt, benchmark, prepared, memories[0], given)
            else:
                plan = self._plan(benchmark, prepared, memories[0])
            for memory in memories:
                memory.activate()
                session = (
                    self._session_of(trt, memory, given, plan)
                    if given
                    else self._session(trt, memory, prepared, plan, cache)
                )
                pipelines.append(self._pipeline(memory, session))
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
            sparsity=self._sparsity,
        )
        self.batch_size = min(batch, plan.most) if prepared.fixed_batch is None else plan.most
        return plan

    def _given(self, model: Path | None) -> bytes:
        """The plan of the option engine."""
        assert self._engine is not None
        if self._precision != "as-is" or self._calibration is not None:
            raise BackendError(
                "found engine and precision or calibration; a plan was built with its precision. "
                "Leave those out."
            )
        try:
            data = self._engine.read_bytes()
        except OSError as error:
            raise BackendError(
                f"{self._engine}: cannot be read ({error.strerror or error}); expected a plan, as "
                "trtexec --saveEngine writes it."
            ) from error
        if not data:
            raise BackendError(f"{self._engine}: found an empty file; expected a plan.")
        self.notes.append(
            f"The plan {self._engine.name} was built elsewhere; that it is "
            f"{model.name if model else 'this benchmark'} shows in its accuracy alone."
        )
        return data

    def _plan_of(
        self,
        trt: TensorRtApi,
        benchmark: Benchmark,
        prepared: Prepared,
        memory: Memory,
        engine: bytes,
    ) -> EnginePlan:
        """What a given plan can do, as its profiles tell."""
        from runner.backends.trt.session import profiles_of

        memory.activate()
        messages = messages_of(trt)
        messages.forget()
        inputs, outputs = ports(benchmark.inputs), ports(benchmark.outputs)
        profiles, fixed, longest = profiles_of(trt, messages, engine, inputs)
        most = max(profile.most for profile in profiles)
        if fixed is None and self.batch_size is not None and self.batch_size > most:
            raise BackendError(
                f"found a plan for batches of up to {most}; expected {self.batch_size}. Build it "
                f"with larger --maxShapes, or choose a batch of {most}."
            )
        self.batch_size = most if fixed is not None else self.batch_size or most
        return EnginePlan(
            inputs=inputs,
            outputs=outputs,
            # Sorted by what they take, as `profile_for` looks for them.
            profiles=profiles,
            fixed_batch=fixed,
            longest=longest,
            whole=prepared.whole or not all(port.plain for port in (*inputs, *outputs)),
            precision=prepared.precision,
            tf32=False,
            workspace_mib=0,
            optimization_level=0,
        )

    def _session_of(
        self, trt: TensorRtApi, memory: Memory, engine: bytes, plan: EnginePlan
    ) -> EngineSession:
        from runner.backends.trt.layers import parse_layers, summary
        from runner.backends.trt.session import EngineSession

        session = EngineSession(
            trt=trt, messages=messages_of(trt), memory=memory, engine=engine, plan=plan
        )
        self.layers = summary(parse_layers(session.layers()))
        return session

    def _pipeline(self, memory: Memory, session: EngineSession) -> Pipeline:
        from runner.backends.trt.pipeline import Pipeline

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
    ) -> EngineSession:
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
            driver=self._driver() or f"CUDA {device.cuda}",
        )
        found = cache.find(facts)
        reason = found.reason
        if found.engine is not None:
            try:
                return self._inspected(
                    EngineSession(
                        trt=trt, messages=messages, memory=memory, engine=found.engine, plan=plan
                    ),
                    cache,
                    facts,
                )
            except BackendError as error:
                cache.discard(facts)
                reason = f"the stored engine could not be used: {error}"
        engine = self._build(trt, messages, memory, prepared, plan, cache, reason)
        session = EngineSession(trt=trt, messages=messages, memory=memory, engine=engine, plan=plan)
        try:
            cache.store(facts, engine)
        except BackendError as error:
            self.notes.append(f"The engine will be built again next time: {error}")
        return self._inspected(session, cache, facts)

    def _inspected(
        self, session: EngineSession, cache: EngineCache, facts: Mapping[str, Any]
    ) -> EngineSession:
        """Note what the layers run in; the table of them goes beside the engine."""
        from runner.backends.trt.layers import parse_layers, summary, table

        layers = parse_layers(session.layers())
        self.layers = summary(layers)
        if layers:
            try:
                place = cache.keep(facts, "layers.tsv", table(layers))
            except BackendError as error:
                self.notes.append(f"The table of layers is not kept: {error}")
            else:
                _LOG.info("what each layer runs in: %s", place)
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
            "plan built elsewhere"
            if self._engine is not None
            else f"{prepared.precision} model" + (" with TF32" if self._tf32 else ""),
            *([self.layers] if self.layers else []),
            *(["sparse weights"] if self._sparsity else []),
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


def _of_plan(path: Path | None, engine: bytes, model: Path | None) -> Prepared:
    """What is known of a plan that was made elsewhere."""
    import onnx

    from runner.backends.trt.model import Prepared, has_free_rows

    assert path is not None
    digest = hashlib.sha256(engine).hexdigest()
    whole = False
    if model is not None and model.is_file():
        try:
            whole = has_free_rows(onnx.load(str(model), load_external_data=False))
        except Exception as error:
            raise BackendError(f"{model}: cannot be read as ONNX ({error}).") from error
    return Prepared(
        path=path,
        sha256=digest,
        fixed_batch=None,
        whole=whole,
        precision="given",
        notes=(f"plan {path.name}, SHA-256 {digest}",),
    )


def _require(good: bool, name: str, found: object, asked: str) -> None:
    if not good:
        raise BackendError(f"found {name}={found!r}; expected {asked}.")


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
            f"found {count} GPUs and devices={wanted!r}; expected 'all' or different numbers "
            f"from 0 to {count - 1}."
        )
    return tuple(numbers)
