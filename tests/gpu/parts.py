"""The parts of the GPU check that are not one row a model: see `tests.gpu.check`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from runner import Job, RunSettings, measure
from runner.backends import make_backend
from runner.backends.trt.memory import Memory, open_memory
from runner.backends.trt.pipeline import Flow, Pipeline
from runner.backends.trt.plan import EnginePlan, Port, Profile
from runner.backends.trt.samples import Samples
from runner.backends.trt.session import Shapes
from runner.errors import RunnerError
from runner.gpu import read_gpus
from tests.gpu.rows import Rows
from tools.bench import models

BATCHES = (1, 8, 32, 64, 128, 256, 512, 1024)
STREAMS = (1, 2, 4)
LIBRARIES = ("pycuda", "cuda-bindings")
RESNET = replace(models.RESNET, performance_sample_count=1024)


def rate_of(flow: Any, batch: int, loaded: int, seconds: float) -> float:
    """Samples a second of one flow that is kept full with neighbouring rows."""
    rows = np.arange(batch) % loaded
    use: Callable[[Any], None] = lambda outputs: None  # noqa: E731

    def some(count: int) -> None:
        for _ in range(count):
            if flow.under_way == flow.depth:
                flow.collect(use)
            flow.submit(rows)
        while flow.under_way:
            flow.collect(use)

    some(2 * flow.depth)
    done, spent = 0, 0.0
    while spent < seconds:
        began = time.perf_counter()
        some(8 * flow.depth)
        spent += time.perf_counter() - began
        done += 8 * flow.depth * batch
    return done / spent


class Loaded:
    """The ResNet-50 topology in a backend, with samples staged."""

    def __init__(
        self, backend: str, options: Mapping[str, Any], batch: int, samples: int, model: Path
    ) -> None:
        self.backend: Any = make_backend(backend, options)
        self.backend.batch_size = batch
        self.count = samples
        self.backend.load(RESNET, model, None)
        images = np.random.default_rng(1).random((min(64, samples), 3, 224, 224), np.float32)
        self.staged = self.backend.stage({"image": np.resize(images, (samples, 3, 224, 224))})

    def single_us(self, seconds: float) -> float:
        """Median microseconds of a batch of one, from where it is loaded."""
        feed = self.backend.bind({"image": self.staged["image"][:1]})
        times = []
        end = time.perf_counter() + seconds
        while len(times) < 20 or time.perf_counter() < end:
            began = time.perf_counter()
            self.backend.infer(feed, [0])
            times.append(time.perf_counter() - began)
        return 1e6 * float(np.median(times))


def sweep(
    rows: Rows,
    backend: str,
    options: dict[str, Any],
    seconds: float,
    batches: Sequence[int] = BATCHES,
    streams: Sequence[int] = STREAMS,
    model: Path | None = None,
) -> None:
    """Batch by streams, FP16, samples pinned; and once in the device's memory."""
    file = model or models.make(models.RESNET)
    most = max(batches)
    for place in ("pinned", "device"):
        for count in streams if place == "pinned" else streams[1:2]:
            chosen = {**options, "precision": "fp16", "streams": count, "samples": place}
            loaded = Loaded(backend, chosen, most, most, file)
            (flow,) = loaded.backend.flows()
            for batch in batches if place == "pinned" else batches[-3:]:
                rate = rate_of(flow, batch, loaded.count, seconds)
                rows.add(
                    {
                        "samples": place,
                        "streams": str(count),
                        "batch": str(batch),
                        "samples/s": f"{rate:,.0f}",
                        "power W": _power(),
                        "SM MHz": _clock(),
                    }
                )
            loaded.backend.close()


def libraries(
    rows: Rows,
    backend: str,
    options: dict[str, Any],
    seconds: float,
    batch: int = 256,
    model: Path | None = None,
) -> None:
    """PyCUDA beside cuda-bindings: the same engine, the same batches."""
    file = model or models.make(models.RESNET)
    for name in LIBRARIES if backend == "tensorrt" else ("host",):
        try:
            loaded = Loaded(
                backend, {**options, "precision": "fp16", "memory": name}, batch, batch, file
            )
        except RunnerError as error:
            rows.add({"library": name, "verdict": f"not run: {str(error).partition('. ')[0]}"})
            continue
        (flow,) = loaded.backend.flows()
        rate = rate_of(flow, batch, batch, seconds)
        rows.add(
            {
                "library": name,
                "batch": str(batch),
                "samples/s": f"{rate:,.0f}",
                "batch 1, us": f"{loaded.single_us(seconds):.1f}",
                "verdict": "ok",
            }
        )
        loaded.backend.close()


def onnxruntime(
    rows: Rows,
    backend: str,
    options: dict[str, Any],
    seconds: float,
    batch: int = 128,
    model: Path | None = None,
    provider: str = "cuda",
) -> None:
    """ONNX Runtime on the GPU beside TensorRT: FP32 without TF32, one call after the other."""
    file = model or models.make(models.RESNET)
    feed = {"image": np.random.default_rng(1).random((batch, 3, 224, 224), np.float32)}
    for name, chosen in (
        ("onnxruntime", {"providers": [provider]}),
        (backend, {**options, "precision": "fp32"}),
    ):
        label = f"ONNX Runtime {provider}" if name == "onnxruntime" else "TensorRT"
        try:
            made: Any = make_backend(name, chosen)
            if name != "onnxruntime":
                made.batch_size = batch
            made.load(RESNET, file, None)
            made.infer(feed, range(batch))
            count, end = 0, time.perf_counter() + seconds
            began = time.perf_counter()
            while count < 3 or time.perf_counter() < end:
                made.infer(feed, range(batch))
                count += 1
            rate = count * batch / (time.perf_counter() - began)
            rows.add(
                {
                    "runtime": label,
                    "batch": str(batch),
                    "samples/s": f"{rate:,.0f}",
                    "verdict": "ok",
                }
            )
            made.close()
        except RunnerError as error:
            rows.add({"runtime": label, "verdict": f"not run: {str(error).partition('. ')[0]}"})


def scenarios(
    rows: Rows,
    backend: str,
    options: dict[str, Any],
    seconds: float,
    folder: Path,
    benchmark: str = "tools.bench.models:RESNET",
    model: Path | None = None,
) -> None:
    """LoadGen's four scenarios, FP16; Server at half of Offline's rate."""
    file = model or models.make(models.RESNET)
    name = benchmark.rpartition(":")[2].lower()
    offline = 0.0
    for scenario in ("Offline", "Server", "SingleStream", "MultiStream"):
        server = scenario == "Server"
        settings = RunSettings(
            name,
            scenario,
            "performance",
            min_duration_ms=int(1000 * seconds),
            min_query_count=1,
            target_latency_ms=15.0 if server else None,
            target_qps=0.5 * offline if server else None,
        )
        job = Job(
            benchmark,
            settings,
            backend,
            {**options, "precision": "fp16"},
            str(file),
            warm_up_s=0.3,
            early_stop=False,
        )
        try:
            result = measure(job, folder / scenario)
        except RunnerError as error:
            rows.add({"scenario": scenario, "verdict": f"FAILED: {error}"})
            continue
        offline = result.metric or offline if scenario == "Offline" else offline
        rows.add(
            {
                "scenario": scenario,
                "metric": f"{result.metric or 0:,.4g} {result.unit}",
                "99th percentile, ms": f"{result.detail.get('result_99.00_percentile_latency_ns', 0) / 1e6:.3f}",
                "verdict": "valid" if result.valid else f"LoadGen: {'; '.join(result.reasons)}",
            }
        )


# --- the pipeline alone: no TensorRT -----------------------------------------------------------


class Stand:
    """A session whose execution copies within the device, so that it takes time and no engine.

    It shows what the device makes of the pipeline: copies beside execution, events, graphs.
    """

    def __init__(
        self, memory: Memory, batch: int, sample_bytes: int, passes: int, *, exact: bool = False
    ) -> None:
        self.memory, self.passes, self.exact = memory, passes, exact
        self.inputs: tuple[Port, ...] = (Port("x", (None, sample_bytes), "uint8"),)
        self.plan = EnginePlan(
            inputs=self.inputs,
            outputs=(Port("y", (None, 1), "float32"),),
            profiles=(Profile(1, batch, batch),),
            fixed_batch=None,
            longest=1,
            whole=False,
            precision="fp32",
            tf32=False,
            workspace_mib=0,
            optimization_level=0,
        )
        self.scratch_bytes = batch * sample_bytes

    def execution(self, profile: int, stream: Any, scratch: int) -> StandExecution:
        return StandExecution(self, stream, scratch)

    def close(self) -> None:
        return None


class StandExecution:
    capturable = True

    def __init__(self, session: Stand, stream: Any, scratch: int) -> None:
        self._session, self._stream, self._scratch = session, stream, scratch
        self.room = {"y": 4 * session.plan.most}

    def enqueue(self, shapes: Shapes, addresses: Mapping[str, int], stream: int) -> Shapes:
        count, width = shapes["x"]
        memory = self._session.memory
        for _ in range(self._session.passes):
            memory.d2d(self._scratch, addresses["x"], count * width, self._stream)
        # The answer is the first four bytes of each sample, or of all, which takes no time.
        for row in range(count if self._session.exact else 1):
            memory.d2d(addresses["y"] + 4 * row, self._scratch + row * width, 4, self._stream)
        return {"y": (count, 1)}


def pipeline(
    rows: Rows,
    libraries: Sequence[str],
    seconds: float,
    batch: int = 128,
    sample_bytes: int = 150_528,
    passes: int = 40,
) -> None:
    """Copies alone, execution alone, and both through a flow, for neighbouring and scattered rows."""
    for name in libraries:
        try:
            memory = open_memory(name, 0)
        except RunnerError as error:
            rows.add({"library": name, "verdict": f"not run: {str(error).partition('. ')[0]}"})
            continue
        try:
            memory.activate()
            problem = _rows_are_right(memory, sample_bytes)
            cells, note = _pipeline_row(memory, seconds / 4, batch, sample_bytes, passes)
            told = "; ".join(filter(None, (problem, note)))
            rows.add({"library": name, **cells, "verdict": f"FAILED: {told}" if told else "ok"})
        except RunnerError as error:
            rows.add({"library": name, "verdict": f"FAILED: {error}"})
        finally:
            memory.close()


def _rows_are_right(memory: Memory, sample_bytes: int) -> str:
    """Scattered rows come back as what they were; what is wrong, or nothing."""
    batch = 16
    samples = Samples([memory], "pinned")
    data = np.random.default_rng(2).integers(0, 255, (4 * batch, sample_bytes), np.uint8)
    samples.hold({"x": data}, 1 << 40)
    one = Pipeline(Stand(memory, batch, sample_bytes, 1, exact=True), memory, 2, graphs=True)
    one.prepare()
    flow, wrong = Flow(one, samples), 0
    random = np.random.default_rng(3)
    for _ in range(20):
        orders = [random.integers(0, 4 * batch, batch) for _ in range(flow.depth)]
        for order in orders:
            flow.submit(order)
        for order in orders:
            seen: list[Any] = []
            flow.collect(lambda outputs, seen=seen: seen.append(outputs[0].copy()))  # type: ignore[misc]
            wrong += not np.array_equal(seen[0].view(np.uint8), data[order, :4])
    one.close()
    samples.release()
    return f"{wrong} batches held other rows" if wrong else ""


def _pipeline_row(
    memory: Memory, seconds: float, batch: int, sample_bytes: int, passes: int
) -> tuple[dict[str, str], str]:
    samples = Samples([memory], "pinned")
    samples.hold({"x": np.ones((4 * batch, sample_bytes), np.uint8)}, 1 << 40)
    one = Pipeline(Stand(memory, batch, sample_bytes, passes), memory, 2, graphs=True)
    one.prepare()
    flow, slot = Flow(one, samples), one.slots[0]
    stream, raw = slot.lane.stream, samples.held["x"].raw[: batch * sample_bytes]
    copy = _alone(memory, stream, seconds, lambda: memory.h2d(slot.device["x"], raw, stream))
    graph = slot.graphs.get(batch)
    execute = (
        _alone(memory, stream, seconds, lambda: memory.launch(graph.ready, stream))
        if graph is not None
        else 0.0
    )
    both = batch / rate_of(flow, batch, 4 * batch, seconds)
    order = np.random.default_rng(3).permutation(4 * batch)[:batch]
    scattered = batch / _scattered(flow, order, seconds)
    cells = {
        "batch": str(batch),
        "copy us": f"{1e6 * copy:.0f}",
        "execute us": f"{1e6 * execute:.0f}",
        "flow us": f"{1e6 * both:.0f}",
        "of ideal": f"{max(copy, execute) / both:.3f}",
        "scattered rows, us": f"{1e6 * scattered:.0f}",
    }
    one.close()
    samples.release()
    return cells, one.graph_note


def _scattered(flow: Flow, order: Any, seconds: float) -> float:
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        if flow.under_way == flow.depth:
            flow.collect(lambda outputs: None)
        flow.submit(order)
        done += len(order)
    while flow.under_way:
        flow.collect(lambda outputs: None)
    return done / (time.perf_counter() - began)


def _alone(memory: Memory, stream: Any, seconds: float, call: Callable[[], object]) -> float:
    call()
    memory.synchronize(stream)
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(8):
            call()
        memory.synchronize(stream)
        count += 8
    return (time.perf_counter() - began) / count


def _power() -> str:
    gpus = read_gpus().gpus
    draw = gpus[0].power_draw if gpus else None
    return "" if draw is None else f"{draw:.0f}"


def _clock() -> str:
    gpus = read_gpus().gpus
    return str(gpus[0].clock_sm or "") if gpus else ""
