"""What the runner costs: LoadGen runs interleaved with bare `session.run` loops.

    python tests/bench_runner.py [ROUNDS]

Prints one table.  Bare and measured runs alternate, each bare loop directly after the run it is
compared with, because a shared machine drifts more in a minute than the runner costs.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from runner import Job, Measurement, RunSettings, get_benchmark, measure

SECONDS = 2


def bare(session: Any, feed: dict[str, Any], outputs: list[str], seconds: float) -> float:
    """Mean seconds of one `session.run`."""
    run = session.run
    for _ in range(20):
        run(outputs, feed)
    count, start = 0, time.perf_counter()
    while True:
        for _ in range(16):
            run(outputs, feed)
        count += 16
        passed = time.perf_counter() - start
        if passed >= seconds:
            return passed / count


def main(rounds: int = 3) -> None:
    import onnxruntime

    benchmark = get_benchmark("digits")
    model = benchmark.models["fp32"]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    dataset = benchmark.make_dataset(None)
    outputs = [tensor.name for tensor in benchmark.outputs]
    batch = benchmark.batch_size

    def loadgen(scenario: str, folder: Path) -> Measurement:
        job = Job(
            "digits",
            RunSettings("digits", scenario, min_duration_ms=SECONDS * 1000),
            backend_options={"threads": 1},
            model=str(model),
        )
        return measure(job, folder)

    def bare_for(count: int) -> Callable[[], float]:
        feed = dict(dataset.load(range(count)))
        return lambda: bare(session, feed, outputs, SECONDS / 2)

    bare_one, bare_batch = bare_for(1), bare_for(batch)
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for number in range(rounds):
            folder = Path(temporary) / str(number)
            before = bare_one()
            single = loadgen("SingleStream", folder / "single").detail
            direct = statistics.mean((before, bare_one())) * 1e6
            latency = single["result_mean_latency_ns"] / 1e3
            before = bare_batch()
            offline = loadgen("Offline", folder / "offline").metric or 0.0
            rate = batch / statistics.mean((before, bare_batch()))
            rows.append((direct, latency, latency - direct, rate, offline, offline / rate))
    heads = ("SS bare us", "SS mean us", "added us", "Offline bare/s", "Offline/s", "ratio")
    print(f"digits fp32, 1 thread, Offline batch {batch}, {SECONDS} s a run")
    print("round  " + "".join(f"{head:>16}" for head in heads))
    for number, row in enumerate(rows, 1):
        print(f"{number:<7}" + "".join(f"{value:>16.5g}" for value in row))
    middle = [statistics.median(column) for column in zip(*rows, strict=True)]
    print("median " + "".join(f"{value:>16.5g}" for value in middle))
    print("aims: added at most 10 us, ratio at least 0.97")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
