"""What the runner costs: LoadGen runs interleaved with bare `session.run` loops.

    python tests/bench_runner.py [ROUNDS]

Prints one table.  Both sides run in one process, with equal session options, and take turns every
half second, because a shared machine drifts more in a few seconds than the runner costs.  The
verdict is on the medians of the differences between neighbours; the quietest round is shown too.
"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from runner import RunSettings, get_benchmark
from runner.backends import make_backend
from runner.logs import DETAIL, read_detail
from runner.qsl import Library
from runner.settings import Hints, to_loadgen, user_conf_text
from runner.sut import make_sut

SECONDS = 0.5


def bare(run: Callable[..., object], outputs: list[str], feeds: list[Any], seconds: float) -> float:
    """Mean seconds of one call, over the same data as the run's."""
    count, start = 0, time.perf_counter()
    while True:
        for feed in feeds:
            run(outputs, feed)
        count += len(feeds)
        passed = time.perf_counter() - start
        if passed >= seconds:
            return passed / count


def fail(error: BaseException) -> NoReturn:
    raise SystemExit(f"the benchmark's inference failed: {error}")


def loadgen(
    scenario: str, hint: float, parts: tuple[Any, Any, Any], batch: int, folder: Path
) -> dict[str, Any]:
    """One LoadGen run of the runner's own SUT; the values of its detail log."""
    import mlperf_loadgen as lg

    benchmark, backend, library = parts
    folder.mkdir()
    settings = RunSettings("digits", scenario, min_duration_ms=int(SECONDS * 1000))
    key = "target_latency" if scenario == "SingleStream" else "target_qps"
    conf = folder / "user.conf"
    values = {**settings.given(), key: hint}
    conf.write_text(user_conf_text(settings, Hints(values, 0, 0, None)))
    log = lg.LogSettings()
    log.log_output.outdir = str(folder)
    log.enable_trace = False
    sut = make_sut(scenario, benchmark, backend, library, batch, fail)
    handle = lg.ConstructFastSUT(sut.issue, sut.flush)
    samples = lg.ConstructQSL(500, 500, library.load, library.unload)
    lg.StartTestWithLogSettings(
        handle, samples, to_loadgen(settings, conf), log, str(folder / "no-audit.config")
    )
    sut.close()
    lg.DestroyQSL(samples)
    lg.DestroyFastSUT(handle)
    return read_detail(folder / DETAIL)[0]


def main(rounds: int = 10) -> None:
    import onnxruntime

    benchmark = get_benchmark("digits")
    model, dataset = benchmark.models["fp32"], benchmark.make_dataset(None)
    backend = make_backend("onnxruntime", {"threads": 1})
    backend.load(benchmark, model, dataset)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    outputs = [tensor.name for tensor in benchmark.outputs]
    batch = benchmark.batch_size
    feeds = {
        size: [
            dict(dataset.load(range(start, start + size)))
            for start in range(0, len(dataset) - size + 1, size)
        ]
        for size in (1, batch)
    }
    parts = (benchmark, backend, Library(dataset))
    gc.disable()  # as in a run

    def direct(count: int) -> float:
        return bare(session.run, outputs, feeds[count], SECONDS / 2)

    rows = []
    one, many = direct(1), direct(batch)
    with tempfile.TemporaryDirectory() as temporary:
        for number in range(rounds):
            folder = Path(temporary) / str(number)
            folder.mkdir()
            before = direct(1)
            single = loadgen("SingleStream", one * 700, parts, 1, folder / "single")
            one = statistics.mean((before, direct(1)))
            latency = single["result_mean_latency_ns"] / 1e3
            before = direct(batch)
            offline = loadgen("Offline", batch / many, parts, batch, folder / "offline")
            many = statistics.mean((before, direct(batch)))
            rate = offline["result_samples_per_second"]
            rows.append(
                (one * 1e6, latency, latency - one * 1e6, batch / many, rate, rate * many / batch)
            )
    heads = ("SS bare us", "SS mean us", "added us", "Offline bare/s", "Offline/s", "ratio")
    print(f"digits fp32, 1 thread, Offline batch {batch}, {SECONDS} s a turn, {rounds} rounds")
    print("round    " + "".join(f"{head:>16}" for head in heads))
    for number, row in enumerate(rows, 1):
        print(f"{number:<9}" + "".join(f"{value:>16.4g}" for value in row))
    columns = list(zip(*rows, strict=True))
    middle = [statistics.median(column) for column in columns]
    print("median   " + "".join(f"{value:>16.4g}" for value in middle))
    quiet = [min(columns[0]), min(columns[1]), 0.0, max(columns[3]), max(columns[4]), 0.0]
    quiet[2], quiet[5] = quiet[1] - quiet[0], quiet[4] / quiet[3]
    print("quietest " + "".join(f"{value:>16.4g}" for value in quiet))
    print("aims: added at most 10 us, ratio at least 0.97")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
