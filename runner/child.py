"""The process that measures: `python -m runner.child FD`, started by `runner.run.measure`.

LoadGen aborts its process when anything is raised into it, cannot be stopped from Python before
a Server schedule ends, and after an error leaves a thread behind that kills the next run.  In a
process of its own none of that reaches the user: a failing inference reports itself and leaves,
Ctrl-C is one kill, and every run starts from the same state.

Standard input: one JSON line, the job; then it stays open, and its end means that the parent is
gone.  File descriptor FD: one JSON object a line, the events.  Exit status 0 after "done", else 4.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import json
import os
import signal
import statistics
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

FAILED = 4
ORPHANED = 5
PR_SET_TIMERSLACK = 29
REPORT_EVERY_S = 0.5


class Channel:
    """Events to the parent; any thread may send."""

    def __init__(self, descriptor: int) -> None:
        self._stream = os.fdopen(descriptor, "w", encoding="utf-8")
        self._lock = threading.Lock()
        self.phase = "start"

    def send(self, event: str, **content: Any) -> None:
        with self._lock:
            self._stream.write(json.dumps({"event": event, **content}) + "\n")
            self._stream.flush()

    def enter(self, phase: str, message: str = "") -> None:
        self.phase = phase
        self.send("phase", phase=phase, message=message)

    def fail(self, error: BaseException) -> NoReturn:
        """Report the first error and end the process; never returns, from whatever thread."""
        from runner.errors import RunnerError

        kind, message = type(error).__name__, str(error)
        if not isinstance(error, RunnerError):
            message = f"{kind}: {message}"
            kind = "RunFailed"
            if self.phase in ("warm-up", "running"):
                kind, message = "InferenceError", f"an inference raised {message}"
        text = "".join(traceback.format_exception(error))
        with self._lock:  # never released: a second error has nothing to add
            line = {"event": "failed", "kind": kind, "message": message, "traceback": text}
            with contextlib.suppress(OSError):
                self._stream.write(json.dumps(line) + "\n")
                self._stream.flush()
            os._exit(FAILED)


def main() -> NoReturn:
    # The terminal sends Ctrl-C to everybody; only the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    channel = Channel(int(sys.argv[1]))
    job = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_follow_parent, name="parent-watch", daemon=True).start()
    try:
        result = _run(job, channel)
    except BaseException as error:
        channel.fail(error)
    channel.send("done", **result)
    # Not sys.exit: a backend's or LoadGen's static destructors have nothing left to do.
    os._exit(0)


def _follow_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(ORPHANED)


def _run(job: dict[str, Any], channel: Channel) -> dict[str, Any]:
    import mlperf_loadgen as lg

    from runner.backends import make_backend
    from runner.benchmarks import get_benchmark
    from runner.errors import DatasetError, RunnerError
    from runner.qsl import Library
    from runner.settings import RunSettings, calibrate, to_loadgen, user_conf_text
    from runner.sut import make_sut
    from runner.system import free_memory_bytes

    settings = RunSettings(**job["settings"])
    folder = Path(job["folder"])
    channel.enter("load")
    benchmark = get_benchmark(job["benchmark"])
    dataset = benchmark.make_dataset(Path(job["data"]) if job["data"] else None)
    backend = make_backend(job["backend"], job["backend_options"])
    backend.load(benchmark, Path(job["model"]) if job["model"] else None, dataset)
    library = Library(dataset)
    total = len(dataset)
    held = min(job["performance_sample_count"], total)

    channel.enter("warm-up")
    batch = {"SingleStream": 1, "Server": 1, "MultiStream": 8}.get(
        settings.scenario, job["batch_size"]
    )
    warm_up = _warm_up(library, backend, benchmark, min(batch, total), job["warm_up_s"])
    hints = calibrate(settings, warm_up, free_memory_bytes())
    user_conf = folder / "user.conf"
    user_conf.write_text(user_conf_text(settings, hints), encoding="utf-8")
    test = to_loadgen(settings, user_conf)
    for warning in hints.warnings:
        channel.send("warning", message=warning)
    channel.send(
        "ready",
        queries=hints.queries,
        memory_bytes=hints.memory_bytes,
        seconds=hints.seconds,
        values=dict(hints.values),
        total=total,
    )

    log = lg.LogSettings()
    log.log_output.outdir = str(folder)
    # The trace is invalid JSON, halves the throughput and is no part of a submission.
    log.enable_trace = False
    # LoadGen picks up an audit.config of the working directory unless told another name.
    audit = settings.audit_conf or str(folder / "no-audit.config")

    size = batch if settings.scenario == "MultiStream" else job["batch_size"]
    sut = make_sut(settings.scenario, benchmark, backend, library, size, channel.fail)

    def load(indices: list[int]) -> None:
        try:
            library.load(indices)
        except RunnerError as error:
            channel.fail(error)
        except BaseException as error:
            message = f"the data set cannot load its samples: {type(error).__name__}: {error}"
            channel.fail(DatasetError(message))

    handle = lg.ConstructFastSUT(sut.issue, sut.flush)
    samples = lg.ConstructQSL(total, held, load, library.unload)
    if sys.platform == "linux" and settings.scenario == "Server":
        # LoadGen sleeps until each query is due; the kernel's 50 us of slack would be latency.
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    stop = threading.Event()
    began = time.monotonic()
    reporter = threading.Thread(
        target=_report, args=(channel, sut, began, stop), name="reporter", daemon=True
    )
    gc.collect()
    gc.freeze()
    gc.disable()
    channel.phase = "running"
    reporter.start()
    lg.StartTestWithLogSettings(handle, samples, test, log, audit)
    seconds = time.monotonic() - began
    channel.phase = "done"
    stop.set()
    reporter.join()
    sut.close()
    lg.DestroyQSL(samples)
    lg.DestroyFastSUT(handle)
    framework = backend.framework
    backend.close()
    return {"seconds": seconds, "samples": sut.done, "framework": framework, "total": total}


def _warm_up(library: Any, backend: Any, benchmark: Any, batch: int, seconds: float) -> Any:
    """Run real batches for about `seconds`, at least three, and time them."""
    from runner.settings import WarmUp

    indices = list(range(batch))
    library.load(indices)
    (feed,) = library.batches(indices, batch)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 100_000):
        start = time.perf_counter()
        benchmark.encode(backend.infer(feed, indices), batch)
        times.append(time.perf_counter() - start)
    library.unload(indices)
    # The first inferences build caches and say nothing about the rest.
    settled = sorted(times[len(times) // 4 :])
    return WarmUp(
        batch=batch, best_s=settled[len(settled) // 10], typical_s=statistics.median(settled)
    )


def _report(channel: Channel, sut: Any, began: float, stop: threading.Event) -> None:
    while not stop.wait(REPORT_EVERY_S):
        channel.send("progress", samples=sut.done, elapsed=time.monotonic() - began)


if __name__ == "__main__":
    main()
