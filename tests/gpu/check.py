"""One table of what TensorRT does with the embedded benchmarks on this machine.

    python -m tests.gpu.check [--benchmark digits] [--budget 320] [--markdown FILE]

For each benchmark and precision: the engine is built and found again, its outputs are compared with
ONNX Runtime's, a bare loop of execute calls is timed against the backend, and LoadGen runs accuracy,
Offline and SingleStream.  Exit status 0 when all comparisons hold, 1 otherwise, 2 without a GPU.
"""

from __future__ import annotations

import argparse
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
from runner.benchmarks import EMBEDDED, open_benchmark
from runner.benchmarks.base import Benchmark
from runner.doctor import refusal
from runner.errors import RunnerError
from runner.logs import ACCURACY
from runner.settings import Mode

# Most that outputs may differ relative to the greatest of ONNX Runtime's (other precisions are judged
# by their accuracy); least accuracy in percent of ONNX Runtime's with the same model.
TOLERANCE = {"fp32": 1e-3}
ACCURACY_KEPT = {"fp32": 99.9, "fp16": 99.0, "int8": 99.0}
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
        self.options = {**options, "cache": str(folder / "engines")}
        self.folder = folder
        self.seconds = seconds

    def row(self, name: str, precision: str) -> Line:
        line = Line({"benchmark": name, "precision": precision})
        refused = refusal(open_benchmark(name).models["fp32" if precision == "fp16" else precision])
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
        options = {**self.options, **({"precision": "fp16"} if precision == "fp16" else {})}
        model_name = "fp32" if precision == "fp16" else precision
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
                f"outputs differ by {worst:.2e}; asked for {TOLERANCE[precision]:.0e} at most"
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
        self, name: str, benchmark: Benchmark, model: Path, scenario: str, mode: Mode,
        options: dict[str, Any],
    ) -> Job:  # fmt: skip
        settings = RunSettings(
            benchmark.loadgen_model, scenario, mode, min_duration_ms=int(1000 * self.seconds)
        )
        return Job(name, settings, self.backend, options, str(model), warm_up_s=0.3)

    def _accuracy(
        self, benchmark: Benchmark, name: str, model: Path, dataset: Any, options: dict[str, Any],
        precision: str, line: Line,
    ) -> None:  # fmt: skip
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
            line.problems.append(f"accuracy {values[0]:.3f}; asked for {least:.3f} at least")

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


def table(lines: Sequence[Line]) -> str:
    """Markdown, aligned so that a terminal shows it well too."""
    rows = [list(COLUMNS), *([line.cells.get(c, "") for c in COLUMNS] for line in lines)]
    wide = [max(len(row[k]) for row in rows) for k in range(len(COLUMNS))]
    text = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, wide, strict=True)) + " |"
            for row in rows]  # fmt: skip
    text.insert(1, "|" + "|".join("-" * (w + 2) for w in wide) + "|")
    return "\n".join(text) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.gpu.check", allow_abbrev=False)
    parser.add_argument("--benchmark", action="append", choices=EMBEDDED)
    parser.add_argument("--precision", action="append", choices=list(ACCURACY_KEPT))
    parser.add_argument("--backend", default="tensorrt")
    parser.add_argument("--memory", default="auto", help="pycuda or cuda-bindings")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    parser.add_argument("--budget", type=float, default=320.0, help="begin no row after so long")
    parser.add_argument("--markdown", type=Path, help="write the table here too")
    options = parser.parse_args(arguments)
    chosen = {"memory": options.memory}
    try:
        preflight(options.backend, chosen)
    except RunnerError as error:
        print(f"check: {error}", file=sys.stderr)
        return 2
    began = time.monotonic()
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="assay-gpu-") as folder:
        check = Check(options.backend, chosen, Path(folder), options.seconds)
        for name in options.benchmark or EMBEDDED:
            for precision in options.precision or ACCURACY_KEPT:
                if time.monotonic() - began > options.budget:
                    lines.append(Line({"benchmark": name, "precision": precision,
                                       "verdict": "not run: out of time"}))  # fmt: skip
                    continue
                lines.append(check.row(name, precision))
                print(f"{name} {precision}: {lines[-1].cells['verdict']}, "
                      f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)  # fmt: skip
    text = table(lines)
    problems = [f"{line.cells['benchmark']} {line.cells['precision']}: {problem}"
                for line in lines for problem in line.problems]  # fmt: skip
    if problems:
        text += "\n" + "\n".join(problems) + "\n"
    print(text)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
