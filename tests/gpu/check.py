"""What TensorRT makes of this machine's GPU, in parts; `check.sh` runs them all.

    python -m tests.gpu.check PART [--kept rows.jsonl]
    python -m tests.gpu.check write --kept rows.jsonl docs/performance-tensorrt.md

| part | what it measures |
|---|---|
| pipeline | copies, execution and both, through each library; needs no TensorRT |
| precisions | each embedded model and precision: outputs and accuracy beside ONNX Runtime's, rates |
| sweep | ResNet-50's topology in FP16: batch by streams, samples pinned or on the device |
| libraries | PyCUDA beside cuda-bindings |
| onnxruntime | ONNX Runtime's CUDA provider beside TensorRT |
| scenarios | LoadGen's four scenarios |

A row is printed when it ends.  Exit status 0 when all comparisons hold, 1 otherwise, 2 without a GPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from runner import Job, RunSettings, measure
from runner.backends import open_backend, preflight
from runner.backends.trt.memory import device_count
from runner.benchmarks import open_benchmark
from runner.benchmarks.base import Benchmark
from runner.doctor import refusal
from runner.errors import RunnerError
from runner.logs import ACCURACY
from runner.settings import Mode
from tests.gpu import parts
from tests.gpu.rows import Rows, put_into, tables

# Most that outputs may differ relative to the greatest of ONNX Runtime's (other precisions are judged
# by their accuracy); least accuracy in percent of ONNX Runtime's with the same model.
TOLERANCE = {"fp32": 1e-3}
ACCURACY_KEPT = {"fp32": 99.9, "fp16": 99.0, "int8": 99.0, "tf32": 99.0, "bf16": 98.0}
CONVERTED = ("fp16", "tf32", "bf16")  # made from the float32 model
# One model in the three precisions of most submissions comes first.
EMBEDDED = ("digits", "scenes", "phrasebook")
COLUMNS = ("benchmark", "precision", "build s", "load s", "max rel diff", "accuracy", "ORT accuracy",
           "batch", "execute/s", "copies+execute/s", "infer/s", "Offline/s", "overhead %",
           "batch-1 us", "SingleStream us", "verdict")  # fmt: skip


@dataclass
class Line:
    """One row; what could not be had stays empty, and why is in `problems`."""

    cells: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def put(self, **values: str) -> None:
        self.cells.update(values)


class Check:
    def __init__(self, backend: str, options: dict[str, Any], folder: Path, seconds: float) -> None:
        self.backend = backend
        self.options = {"cache": str(folder / "engines"), **options}
        self.folder = folder
        self.seconds = seconds

    def row(self, name: str, precision: str) -> Line:
        line = Line({"benchmark": name, "precision": precision})
        source = "fp32" if precision in CONVERTED else precision
        refused = refusal(open_benchmark(name).models[source])
        if refused:
            line.put(verdict=f"no such model for TensorRT: {refused}")
            return line
        try:
            self._row(name, precision, line)
        except RunnerError as error:
            line.problems.append(str(error))
        line.cells["verdict"] = "FAILED" if line.problems else "ok"
        return line

    def _row(self, name: str, precision: str, line: Line) -> None:
        converted = precision in CONVERTED
        options = {**self.options, **({"precision": precision} if converted else {})}
        model_name = "fp32" if converted else precision
        benchmark = open_benchmark(name)
        model = benchmark.models[model_name]
        dataset = benchmark.make_dataset(None)
        loads = []
        for _ in range(2):  # built, then found
            backend = open_backend(benchmark, self.backend, options)
            began = time.perf_counter()
            backend.load(benchmark, model, dataset)
            loads.append(time.perf_counter() - began)
            if len(loads) == 1:
                backend.close()
        line.put(**{"build s": f"{loads[0]:.1f}", "load s": f"{loads[1]:.2f}"})
        try:
            self._compare(benchmark, model, dataset, backend, precision, line)
            single = self._bare(benchmark, dataset, backend, line)
        finally:
            backend.close()
        self._accuracy(benchmark, name, model, dataset, options, precision, line)
        offline = self._performance(benchmark, name, model, "Offline", options)
        line.cells["Offline/s"] = f"{offline:,.0f}"
        if "infer/s" in line.cells:
            infer = float(line.cells["infer/s"].replace(",", ""))
            line.cells["overhead %"] = f"{100 * (1 - offline / infer):.1f}"
        latency = self._performance(benchmark, name, model, "SingleStream", options)
        line.cells["SingleStream us"] = f"{1e3 * latency:.1f}"
        if single:
            line.cells["batch-1 us"] = f"{1e6 * single:.1f}"

    def _compare(
        self,
        benchmark: Benchmark,
        model: Path,
        dataset: Any,
        backend: Any,
        precision: str,
        line: Line,
    ) -> None:
        reference = open_backend(benchmark, "onnxruntime", {"threads": 1})
        reference.load(benchmark, model, dataset)
        worst = 0.0
        size = benchmark.batch_size
        for start in range(0, min(len(dataset), 4 * size), size):
            indices = list(range(start, min(start + size, len(dataset))))
            feed = dataset.load(indices)
            asked = reference.infer(feed, indices)
            for want, have in zip(asked, backend.infer(feed, indices), strict=True):
                worst = max(worst, difference(np.asarray(want), np.asarray(have)))
        reference.close()
        line.put(**{"max rel diff": f"{worst:.1e}" if np.isfinite(worst) else "other shape"})
        if precision in TOLERANCE and not worst <= TOLERANCE[precision]:
            line.problems.append(
                f"outputs differ by {worst:.2e}; expected {TOLERANCE[precision]:.0e} at most"
            )

    def _bare(self, benchmark: Benchmark, dataset: Any, backend: Any, line: Line) -> float | None:
        """Rates of execute alone, with copies, and through the backend; seconds of a batch of 1."""
        if benchmark.parts:
            return None  # a decode loop has no one batch
        inner = backend if hasattr(backend, "_spread") else backend._inner["model"]
        pipeline = inner._spread._pipelines[0]
        size = min(benchmark.batch_size, len(dataset))
        feeds = {count: dataset.load(list(range(count))) for count in (1, size)}
        graph: Callable[[int], Callable[[], object]] = lambda n: (  # noqa: E731
            lambda: inner.infer(feeds[n], range(n))
        )
        execute, whole = bare_calls(pipeline, size, feeds[size])
        line.put(
            batch=str(size),
            **{
                "execute/s": f"{size / self._time(execute):,.0f}",
                "copies+execute/s": f"{size / self._time(whole):,.0f}",
                "infer/s": f"{size / self._time(graph(size)):,.0f}",
            },
        )
        return self._time(graph(1))

    def _time(self, call: Callable[[], object]) -> float:
        """Median seconds of a call."""
        for _ in range(5):
            call()
        times = []
        end = time.perf_counter() + self.seconds / 4
        while len(times) < 5 or time.perf_counter() < end:
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        return float(np.median(times))

    def _job(
        self,
        name: str,
        benchmark: Benchmark,
        model: Path,
        scenario: str,
        mode: Mode,
        options: dict[str, Any],
    ) -> Job:
        settings = RunSettings(
            benchmark.loadgen_model, scenario, mode, min_duration_ms=int(1000 * self.seconds)
        )
        return Job(name, settings, self.backend, options, str(model), warm_up_s=0.3)

    def _accuracy(
        self,
        benchmark: Benchmark,
        name: str,
        model: Path,
        dataset: Any,
        options: dict[str, Any],
        precision: str,
        line: Line,
    ) -> None:
        values = []
        for backend, chosen in ((self.backend, options), ("onnxruntime", {"threads": 1})):
            job = self._job(name, benchmark, model, "Offline", "accuracy", dict(chosen))
            job = Job(**{**vars(job), "backend": backend})
            folder = self.folder / f"{name}-{precision}-accuracy-{len(values)}"
            result = measure(job, folder)
            values.append(benchmark.score(result.folder / ACCURACY, dataset).value)
        line.put(accuracy=f"{values[0]:.3f}", **{"ORT accuracy": f"{values[1]:.3f}"})
        least = ACCURACY_KEPT[precision] / 100 * values[1]
        if not values[0] >= least:
            line.problems.append(f"accuracy {values[0]:.3f}; expected {least:.3f} at least")

    def _performance(
        self, benchmark: Benchmark, name: str, model: Path, scenario: str, options: dict[str, Any]
    ) -> float:
        job = self._job(name, benchmark, model, scenario, "performance", options)
        precision = options.get("precision", model.stem)
        result = measure(job, self.folder / f"{name}-{precision}-{scenario}")
        if result.metric is None:
            raise RunnerError(f"{name} {scenario}: {'; '.join(result.reasons)}")
        return result.metric


def bare_calls(
    pipeline: Any, count: int, feed: Any
) -> tuple[Callable[[], object], Callable[[], object]]:
    """A batch executed with nothing around it; and with its copies, one after the other."""
    slot = pipeline.slots[0]
    pipeline.submit(slot, feed, 0, count)
    pipeline.collect(slot)
    shapes = tuple(np.asarray(feed[port.name]).shape for port in pipeline.session.inputs)
    views = slot.views[shapes]
    execution, memory, lane = slot.lane.executions[views.profile], pipeline.memory, slot.lane

    def execute() -> None:
        execution.enqueue(views.shapes, slot.device, lane.handle)
        memory.synchronize(lane.stream)

    def whole() -> None:
        pipeline._copy_in(slot, views)
        pipeline._run(slot, views, count)
        memory.synchronize(lane.stream)

    return execute, whole


def difference(want: Any, have: Any) -> float:
    """Greatest difference relative to the greatest value; rows in any order where 2-D of 7."""
    if want.shape != have.shape:
        return float("inf")
    if not want.size:
        return 0.0
    if want.ndim == 2 and want.shape[1] == 7:  # boxes: suppression may give them in another order
        want, have = (part[np.lexsort(np.round(part[:, [5, 1, 0]], 2).T)] for part in (want, have))
    gap = np.abs(want.astype(np.float64) - have).max()
    return float(gap / max(1e-9, np.abs(want).max()))


COLUMNS_OF = {
    "pipeline": ("library", "batch", "copy us", "execute us", "flow us", "of ideal",
                 "scattered rows, us", "verdict"),
    "precisions": COLUMNS,
    "sweep": ("samples", "streams", "batch", "samples/s", "power W", "SM MHz"),
    "libraries": ("library", "batch", "samples/s", "batch 1, us", "verdict"),
    "onnxruntime": ("runtime", "batch", "samples/s", "verdict"),
    "scenarios": ("scenario", "metric", "99th percentile, ms", "verdict"),
}  # fmt: skip


def precisions(
    rows: Rows, check: Check, benchmarks: Sequence[str], wanted: Sequence[str], budget: float
) -> None:
    """A row for each embedded model and precision; the three usual precisions of each first."""
    began = time.monotonic()
    order = [(name, p) for name in benchmarks for p in wanted if p not in ("tf32", "bf16")]
    order += [(name, p) for name in benchmarks[:1] for p in wanted if p in ("tf32", "bf16")]
    for name, precision in order:
        if time.monotonic() - began > budget:
            rows.add({"benchmark": name, "precision": precision, "verdict": "not run: out of time"})
            continue
        line = check.row(name, precision)
        line.cells["verdict"] += ": " * bool(line.problems) + "; ".join(line.problems)
        rows.add(line.cells)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.gpu.check", allow_abbrev=False)
    parser.add_argument("part", choices=[*COLUMNS_OF, "write"])
    parser.add_argument("page", nargs="?", type=Path, help="write: the page with the two marks")
    parser.add_argument("--kept", type=Path, help="rows are added to this file, a JSON line each")
    parser.add_argument("--benchmark", action="append", choices=EMBEDDED)
    parser.add_argument("--precision", action="append", choices=list(ACCURACY_KEPT))
    parser.add_argument("--backend", default="tensorrt")
    parser.add_argument("--memory", default="auto", help="pycuda or cuda-bindings")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument(
        "--budget", type=float, default=120.0, help="precisions: begin no row after"
    )
    options = parser.parse_args(arguments)
    if options.part == "write":
        put_into(options.page, tables(options.kept))
        return 0
    rows = Rows(options.part, COLUMNS_OF[options.part], options.kept)
    chosen = {"memory": options.memory}
    try:
        if options.part == "pipeline":
            device_count(options.memory)
        else:
            preflight(options.backend, chosen)
    except RunnerError as error:
        print(f"check: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="assay-gpu-") as folder:
        # The parts share engines: a sweep's is the scenarios'.
        cache = os.environ.get("ASSAY_GPU_CACHE") or str(Path(folder) / "engines")
        chosen = {**chosen, "cache": cache}
        seconds, backend = options.seconds, options.backend
        match options.part:
            case "pipeline":
                names = parts.LIBRARIES if options.memory == "auto" else (options.memory,)
                parts.pipeline(rows, names, seconds)
            case "precisions":
                check = Check(backend, chosen, Path(folder), seconds)
                wanted = options.precision or list(ACCURACY_KEPT)
                precisions(rows, check, options.benchmark or EMBEDDED, wanted, options.budget)
            case "sweep":
                parts.sweep(rows, backend, chosen, seconds / 2)
            case "libraries":
                parts.libraries(rows, backend, chosen, seconds)
            case "onnxruntime":
                parts.onnxruntime(rows, backend, chosen, seconds)
            case "scenarios":
                parts.scenarios(rows, backend, chosen, 3 * seconds, Path(folder))
    return 1 if rows.failed else 0


if __name__ == "__main__":
    sys.exit(main())
