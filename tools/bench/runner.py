"""What the runner costs: LoadGen runs interleaved with bare `session.run` loops.

    python -m tools.bench.runner [MODEL…] [--rounds N] [--seconds S]

MODEL: digits, tiny (about 20 us), resnet (ResNet-50's topology, 102 MB of random weights, made in
the temporary folder).  Both sides run in one process, with equal session options, and take turns,
because a shared machine drifts more in a few seconds than the runner costs.  The verdict is on the
medians of neighbours; the quietest round is shown too.

Server runs at 60% of what its service time allows, which is the latency of SingleStream, against
the least server there can be: a loop that waits actively for each arrival, calls `session.run` and
is busy for as long again as SingleStream has just added to that.  So the floor is service time plus
queueing, on this machine, in this minute; what the service time holds besides the inference is
SingleStream's number.  LoadGen sleeps between queries; what waking costs it shows in a run whose
answers cost nothing, and stands beside the floor.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from bisect import bisect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from checker.replay import server_due_ns
from runner import RunSettings, get_benchmark
from runner.backends import make_backend
from runner.benchmarks.base import Benchmark
from runner.logs import DETAIL, read_detail
from runner.qsl import Library
from runner.settings import Hints, to_loadgen, user_conf_text
from runner.sut import exact_sleep
from runner.sut_for import make_sut
from tools.bench import models

LOAD = 0.6
LOOPS = {"digits": 0.5, "tiny": 0.5, "resnet": 4.0}  # seconds a turn
ROUNDS = {"digits": 10, "tiny": 10, "resnet": 3}
Times = list[float]


def bare(
    run: Callable[..., object], outputs: Sequence[str], feeds: list[Any], turn: float
) -> Times:
    """Seconds of every call, over the same data as the run's."""
    times: Times = []
    clock = time.perf_counter
    end = clock() + turn
    before = clock()
    while before < end or len(times) < len(feeds):
        for feed in feeds:
            run(outputs, feed)
            now = clock()
            times.append(now - before)
            before = now
    return times


def fail(error: BaseException) -> NoReturn:
    raise SystemExit(f"the benchmark's inference failed: {error}")


class Bench:
    """One model: its session, its samples and a folder for logs."""

    def __init__(self, benchmark: Benchmark, model: Path, turn: float, folder: Path) -> None:
        import onnxruntime

        self.benchmark, self.turn, self.folder = benchmark, turn, folder
        self.runs = 0
        dataset = benchmark.make_dataset(None)
        self.backend = make_backend("onnxruntime", {"threads": 1})
        self.backend.load(benchmark, model, dataset)
        self.library = Library(dataset)
        self.total = min(len(dataset), benchmark.performance_sample_count)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"]
        )
        self.outputs = [tensor.name for tensor in benchmark.outputs]
        samples = dict(dataset.load(range(self.total)))
        self.feeds = {
            size: [
                {name: array[start : start + size] for name, array in samples.items()}
                for start in range(0, self.total - size + 1, size)
            ]
            for size in (1, benchmark.batch_size)
        }

    def direct(self, size: int, turn: float) -> Times:
        """Bare calls of this batch size."""
        return bare(self.session.run, self.outputs, self.feeds[size], turn)

    def loadgen(
        self, scenario: str, hint: float, batch: int, *, null: bool = False
    ) -> dict[str, Any]:
        """One LoadGen run of the runner's own SUT; the values of its detail log.

        null: answer at once, with nothing: what is left is LoadGen's own.
        """
        import mlperf_loadgen as lg

        self.runs += 1
        folder = self.folder / str(self.runs)
        folder.mkdir()
        settings = RunSettings(
            self.benchmark.loadgen_model,
            scenario,
            min_duration_ms=int(self.turn * 1000),
            min_query_count=1,
            target_latency_ms=10_000 if scenario == "Server" else None,
        )
        key = "target_latency" if scenario == "SingleStream" else "target_qps"
        conf = folder / "user.conf"
        values = {**settings.given(), key: hint}
        conf.write_text(user_conf_text(settings, Hints(values, 0, 0, None)))
        log = lg.LogSettings()
        log.log_output.outdir = str(folder)
        log.enable_trace = False
        sut = make_sut(scenario, self.benchmark, self.backend, self.library, batch, fail)

        def nothing(ids: list[int], indices: list[int]) -> None:
            lg.QuerySamplesComplete([lg.QuerySampleResponse(i, 0, 0) for i in ids])

        handle = lg.ConstructFastSUT(nothing if null else sut.issue, sut.flush)
        samples = lg.ConstructQSL(self.total, self.total, self.library.load, self.library.unload)
        lg.StartTestWithLogSettings(
            handle, samples, to_loadgen(settings, conf), log, str(folder / "no-audit.config")
        )
        sut.close()
        lg.DestroyQSL(samples)
        lg.DestroyFastSUT(handle)
        return read_detail(folder / DETAIL)[0]


def floor(bench: Bench, rate: float, seed: int, added: float) -> Times:
    """Latencies of the least server there can be: one thread that waits actively for each arrival.

    The same process, session and data as the run's, and LoadGen's own arrivals: what it takes is
    service and queueing, and what this machine does to any program.

    Args:
        rate: arrivals a second.
        seed: of LoadGen's schedule.
        added: seconds that a query takes beside `session.run`.
    """
    due = (server_due_ns(seed, rate, int(2 * rate * bench.turn) + 64) / 1e9).tolist()
    due = due[: bisect(due, bench.turn)]
    run, outputs, feeds, clock = bench.session.run, bench.outputs, bench.feeds[1], time.perf_counter
    times: Times = []
    count, start = len(feeds), clock()
    for number, offset in enumerate(due):
        arrival = start + offset
        while clock() < arrival:
            pass
        run(outputs, feeds[number % count])
        end = clock() + added
        while clock() < end:
            pass
        times.append(clock() - arrival)
    return times


def measure(bench: Bench, rounds: int) -> list[tuple[float, ...]]:
    """One row a round: single, bare and added; offline both and ratio; server, floor and ratio."""
    batch, turn = bench.benchmark.batch_size, bench.turn
    rows = []
    for _ in range(rounds):
        before = bench.direct(1, turn / 2)
        single = bench.loadgen("SingleStream", statistics.mean(before) * 700, 1)
        one = bench.direct(1, turn / 2)
        # Medians: who was interrupted by another process says nothing of the runner.
        alone = statistics.median([*before, *one])
        latency = single["result_50.00_percentile_latency_ns"] / 1e9
        before = bench.direct(batch, turn / 2)
        offline = bench.loadgen("Offline", batch / statistics.mean(before), batch)
        many = bench.direct(batch, turn / 2)
        speed = batch / statistics.mean((statistics.mean(before), statistics.mean(many)))
        rate = offline["result_samples_per_second"]
        load = LOAD / (single["result_mean_latency_ns"] / 1e9)
        added = max(0.0, latency - alone)
        seed = offline["effective_schedule_rng_seed"]
        least = floor(bench, load, seed, added)
        server = bench.loadgen("Server", load, 1)
        least += floor(bench, load, seed, added)
        # LoadGen's own, and the machine's: what a query takes to be seen.
        own = bench.loadgen("Server", load, 1, null=True)
        wake = own["result_50.00_percentile_latency_ns"] / 1e3
        pairs = []
        for percentile, key in ((50, "50.00"), (99, "99.00")):
            ours = server[f"result_{key}_percentile_latency_ns"] / 1e3
            pairs += [float(np.percentile(least, percentile)) * 1e6, ours]
        rows.append(
            (
                alone * 1e6,
                latency * 1e6,
                (latency - alone) * 1e6,
                speed,
                rate,
                rate / speed,
                *pairs,
                wake,
                pairs[3] / (pairs[2] + wake),
            )
        )
    return rows


HEADS = (
    "SS bare us", "SS us", "added us", "Off bare/s", "Offline/s", "ratio", "floor p50 us",
    "Server p50", "floor p99 us", "Server p99", "LoadGen p50", "p99 ratio",
)  # fmt: skip


def show(name: str, bench: Bench, rows: list[tuple[float, ...]]) -> None:
    """The table: every round, the medians, and the round in which the machine was quietest."""
    print(
        f"\n{name}: 1 thread, Offline batch {bench.benchmark.batch_size}, {bench.turn:g} s a turn, "
        f"{len(rows)} rounds"
    )
    print("round    " + "".join(f"{head:>13}" for head in HEADS))
    for number, row in enumerate(rows, 1):
        print(f"{number:<9}" + "".join(f"{value:>13.4g}" for value in row))
    columns = list(zip(*rows, strict=True))
    print("median   " + "".join(f"{statistics.median(column):>13.4g}" for column in columns))
    quiet = min(rows, key=lambda row: row[8])
    print("quietest " + "".join(f"{value:>13.4g}" for value in quiet))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("models", nargs="*", default=["digits", "tiny", "resnet"])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    options = parser.parse_args()
    gc.disable()  # as in a run, and as there:
    exact_sleep()
    for name in options.models:
        if name == "digits":
            benchmark = get_benchmark("digits")
            model = Path(benchmark.models["fp32"])
        else:
            benchmark = {"resnet": models.RESNET, "tiny": models.TINY}[name]
            model = models.make(benchmark)
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(benchmark, model, options.seconds or LOOPS[name], Path(folder))
            show(name, bench, measure(bench, options.rounds or ROUNDS[name]))
    print("\naims: added at most 10 us, Offline ratio at least 0.98, Server ratio at most 1.2")


if __name__ == "__main__":
    main()
