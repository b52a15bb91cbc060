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
import faulthandler
import gc
import json
import math
import os
import signal
import statistics
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

FAILED = 4
ORPHANED = 5
REPORT_EVERY_S = 0.5
GENERATE_S = 1e-5  # LoadGen makes a query in less, also on a busy machine
KNOWN_DUE = 10_000_000  # of so many queries it is kept when they are due, 8 bytes each


class Channel:
    """Events to the parent; any thread may send."""

    def __init__(self, descriptor: int) -> None:
        self._stream = os.fdopen(descriptor, "w", encoding="utf-8")
        self._lock = threading.Lock()
        self.phase = "start"
        self.steps = 0  # what was entered and reported, but for "progress": see the stall watch

    def send(self, event: str, **content: Any) -> None:
        self.steps += event != "progress"
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
    threading.Thread(target=follow_parent, name="parent-watch", daemon=True).start()
    try:
        result = _run(job, channel)
    except BaseException as error:
        channel.fail(error)
    channel.send("done", **result)
    # Not sys.exit: a backend's or LoadGen's static destructors have nothing left to do.
    os._exit(0)


def follow_parent() -> None:
    """End this process when the parent's has ended: it holds standard input open."""
    while os.read(0, 4096):
        pass
    os._exit(ORPHANED)


def _run(job: dict[str, Any], channel: Channel) -> dict[str, Any]:
    import mlperf_loadgen as lg

    from runner.affinity import cpu_list
    from runner.backends import open_backend
    from runner.backends.base import Profiles, Warns
    from runner.benchmarks import open_benchmark
    from runner.conditions import Conditions
    from runner.disturbance import Disturbance
    from runner.errors import DatasetError, RunnerError, SettingsError
    from runner.qsl import Library
    from runner.settings import RunSettings, calibrate, to_loadgen, user_conf_text
    from runner.stall import StallWatch
    from runner.sut import exact_sleep
    from runner.sut_for import make_sut
    from runner.system import free_memory_bytes
    from runner.timeline import TimelineWriter
    from runner.tokens import Requests, TokenSut
    from runner.tokens import warm_up as warm_up_tokens
    from runner.watch import Watch
    from schemas.timeline import NAME

    settings = RunSettings(**job["settings"])
    folder = Path(job["folder"])
    if job["cpus"]:
        os.sched_setaffinity(0, job["cpus"])  # threads made from here on inherit it
    measured = settings.mode == "performance" and not settings.audit_conf
    channel.enter("load")
    timed: list[float] = []
    counted: list[Any] = []  # the SUT, when there is one
    stall = StallWatch(
        job["stall_timeout_s"],
        lambda: (channel.steps, len(timed), counted[0].moved if counted else 0),
        channel.fail,
    )
    stall.start()
    model = Path(job["model"]) if job["model"] else None
    data = Path(job["data"]) if job["data"] else None
    benchmark = open_benchmark(job["benchmark"], model, data)
    dataset = benchmark.dataset_for(job["use"], data)
    if hasattr(dataset, "on_progress"):  # preprocessing may take minutes
        dataset.on_progress = lambda message: channel.send("phase", phase="load", message=message)
    backend = open_backend(
        benchmark,
        job["backend"],
        job["backend_options"],
        # Building an engine may take minutes.
        lambda message: channel.send("phase", phase="load", message=message),
    )
    if job["profile"] and measured:
        if not isinstance(backend, Profiles):
            raise SettingsError(f"found --profile; backend {job['backend']} writes no profile.")
        backend.profile_into = folder
    if job["batch_size"] and hasattr(backend, "batch_size"):
        backend.batch_size = job["batch_size"]
    backend.load(benchmark, model, dataset)
    if not job["batch_size"]:
        server = settings.scenario == "Server"
        own = benchmark.server_batch_size if server else benchmark.batch_size
        job["batch_size"] = getattr(backend, "batch_size", None) or own
    streaming: Any = backend if benchmark.generation is not None else None
    if streaming is not None and not hasattr(streaming, "ask"):
        raise SettingsError(
            f"found backend {job['backend']} for {benchmark.name}, a language benchmark; expected one "
            "that streams tokens: openai."
        )
    library: Any = Requests(streaming) if streaming is not None else Library(dataset)
    library.stage = getattr(backend, "stage", None)
    total = len(dataset)
    held = min(job["performance_sample_count"], total)
    if settings.scenario == "Server":
        # LoadGen sleeps until each query is due, and a worker until a batch's deadline; the
        # kernel's 50 us of slack would be latency.  Threads made from here on inherit it.
        exact_sleep()

    channel.enter("warm-up")
    stall.enter("warming up")
    batch = {"SingleStream": 1, "Server": 1, "MultiStream": 8}.get(
        settings.scenario, job["batch_size"]
    )
    tokens: TokenSut | None = None
    if streaming is not None:
        tokens = TokenSut(
            streaming,
            library,
            job["workers"],
            channel.fail,
            limit_s=settings.ttft_ms / 1000 if settings.ttft_ms else float("inf"),
            accuracy=settings.mode == "accuracy",
            offline=settings.scenario == "Offline" or settings.mode == "accuracy",
        )
        batch = min(job["workers"], total)
    few = min(batch, total)
    with stall.loading():
        library.load(list(range(few)))
    if tokens is not None:
        warm_up = warm_up_tokens(
            tokens, settings.scenario, list(library.ready), job["workers"], job["warm_up_s"], timed
        )
    else:
        streams = settings.scenario == "Offline"
        around = _around(held, batch) if streams else 0.0
        warm_up = _warm_up(
            library, backend, benchmark, batch, few, job["warm_up_s"], timed, streams, around
        )
    hints = calibrate(settings, warm_up, free_memory_bytes())
    user_conf = folder / "user.conf"
    user_conf.write_text(user_conf_text(settings, hints), encoding="utf-8")
    test = to_loadgen(settings, user_conf)
    if job["use"] in benchmark.other_datasets:
        # LoadGen's own count is the main data set's: issuing unique samples it would read past a
        # smaller one, and die.
        test.performance_sample_count_override = held
    for warning in hints.warnings:
        channel.send("warning", message=warning)
    limit_s = test.server_target_latency_ns / 1e9
    if (
        measured
        and settings.scenario == "Server"
        and tokens is None
        and warm_up.typical_s > limit_s
    ):
        channel.send(
            "warning",
            message=f"found {warm_up.typical_s * 1000:,.4g} ms for one inference in the warm-up; expected less "
            f"than Server's limit of {limit_s * 1000:g} ms, which no target_qps can meet otherwise",
        )
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
    limits = _limits(settings, test, hints)
    sut: Any = tokens or make_sut(
        settings.scenario,
        benchmark,
        backend,
        library,
        size,
        channel.fail,
        workers=job["workers"],
        deadline_us=job["batch_deadline_us"],
        limit_s=limits.limit_s if limits else float("inf"),
        due=lambda: _due(test, limits.queries) if limits else (),
    )

    def load(indices: list[int]) -> None:
        try:
            with stall.loading():
                library.load(indices)
        except RunnerError as error:
            channel.fail(error)
        except BaseException as error:
            message = f"the data set cannot load its samples: {type(error).__name__}: {error}"
            channel.fail(DatasetError(message))

    sut_name = getattr(backend, "sut_name", None)
    if sut_name is None:
        handle = lg.ConstructFastSUT(sut.issue, sut.flush)
    else:
        # Of what the binding has, only a query dispatch library is asked for a name.
        handle = lg.ConstructQDL(*_dispatch(sut, sut_name, channel))
    samples = lg.ConstructQSL(total, held, load, library.unload)
    stop = threading.Event()
    began = time.monotonic()
    watch = Watch(limits) if limits and job["early_stop"] else None

    disturbance, conditions = Disturbance(), Conditions()
    timeline: TimelineWriter | None = None
    if measured:
        streamed = settings.scenario in ("SingleStream", "MultiStream")  # whole queries, in turns
        what = "first tokens" if tokens is not None and not streamed else "queries"
        timeline = TimelineWriter(folder / NAME, settings.scenario, what)

    def answering() -> None:
        stall.enter("running", least_s)

    reporter = threading.Thread(
        target=_report,
        args=(channel, sut, began, stop, watch, answering, disturbance, conditions, timeline),
        name="reporter",
        daemon=True,
    )
    counted.append(sut)
    # Between two queries of a slow Server run nothing moves: 30 mean gaps never pass by chance.
    gap = 30 / test.server_target_qps if settings.scenario == "Server" else 0.0
    least_s = max(100 * warm_up.typical_s, gap)
    # LoadGen generates all queries before the first: millions of them take minutes.
    stall.enter("running", max(least_s, GENERATE_S * hints.queries))
    gc.collect()
    gc.freeze()
    if tokens is None:  # streams make cycles: without collection the memory would grow
        gc.disable()
    channel.phase = "running"
    reporter.start()
    lg.StartTestWithLogSettings(handle, samples, test, log, audit)
    seconds = time.monotonic() - began
    channel.send("disturbed", share=disturbance.share())
    recorded, said = conditions.found()
    for warning in said if measured else ():
        channel.send("warning", message=warning)
    if job["cpus"]:
        recorded = {"Processors": f"{cpu_list(os.sched_getaffinity(0))}, bound", **recorded}
    channel.phase = "done"
    stall.enter("closing")
    stop.set()
    reporter.join()
    if timeline is not None:
        timeline.close()
    sut.close()
    lg.DestroyQSL(samples)
    (lg.DestroyFastSUT if sut_name is None else lg.DestroyQDL)(handle)
    framework = backend.framework
    warned = [part for part in (backend, sut) if isinstance(part, Warns)]
    for warning in (text for part in warned for text in part.warnings):
        channel.send("warning", message=warning)
    backend.close()
    stall.stop()
    return {
        "seconds": seconds,
        "samples": sut.done,
        "framework": framework,
        "conditions": recorded,
        "total": total,
        "batch_size": job["batch_size"],
    }


def _dispatch(sut: Any, sut_name: Any, channel: Channel) -> tuple[Any, Any, Any]:
    """The callbacks of a query dispatch library: issue, flush and the name of the SUT."""

    def issue(queries: list[Any]) -> None:
        sut.issue([query.id for query in queries], [query.index for query in queries])

    def name() -> str:
        try:
            return str(sut_name())
        except BaseException as error:
            channel.fail(error)

    return issue, sut.flush, name


def _warm_up(
    library: Any,
    backend: Any,
    benchmark: Any,
    batch: int,
    held: int,
    seconds: float,
    times: list[float],
    streams: bool,
    around: float = 0.0,
) -> Any:
    """Run real batches of loaded samples for about `seconds`, at least three; fills `times`.

    held: samples that the library holds.
    streams: keep the device full, as Offline will, where the backend can.
    around: share of the run's batches that go over the end of the loaded samples: those are copied
        together, which of large samples can take longer than their inference.
    """
    from runner.settings import WarmUp
    from runner.streaming import time_batches

    size = min(batch, held)
    if not streams or not time_batches(backend, library, benchmark, size, seconds, times):
        # Where the samples are fewer than a batch they come again, as they will in the run.
        size, indices = batch, [k % held for k in range(batch)]
        single = library.single[0] if batch == 1 else None

        def timed(indices: list[int], seconds: float) -> list[float]:
            end, before = math.inf, len(times)
            while len(times) < before + 3 or (time.perf_counter() < end and len(times) < 100_000):
                start = time.perf_counter()
                # Gathering a batch whose samples are no neighbours belongs to its time.
                feed = next(library.batches(indices, batch)) if single is None else single
                benchmark.encode(backend.infer(feed, indices), batch)
                times.append(time.perf_counter() - start)
                if (
                    len(times) == before + 1
                ):  # takes memory and may compile kernels: not of the time given
                    end = time.perf_counter() + seconds
            return times[before:]

        plain = _settled(timed(indices, seconds))
        if 0 < around < 1 and size <= held:
            copied = _settled(timed([*indices[1:], indices[0]], around * seconds))
            best, typical = (p + around * (c - p) for p, c in zip(plain, copied, strict=True))
        else:
            best, typical = plain
    else:
        best, typical = _settled(times)
    library.unload(list(range(held)))
    return WarmUp(batch=size, best_s=best, typical_s=typical)


def _settled(times: list[float]) -> tuple[float, float]:
    """A short and the median time; the first inferences build caches and say nothing about the rest."""
    settled = sorted(times[len(times) // 4 :])
    return settled[len(settled) // 10], statistics.median(settled)


def _around(held: int, batch: int) -> float:
    """Share of the batches that go over the end of the loaded samples, which LoadGen issues in turns."""
    return min(1.0, (batch - math.gcd(held, batch)) / held)


def _limits(settings: Any, test: Any, hints: Any) -> Any:
    """What to hold the run to while it lasts; None where LoadGen's end says all."""
    from runner.watch import Limits, most_queries

    # A compliance test changes what is issued and how much of it; it is short enough to end.
    if settings.mode != "performance" or settings.audit_conf:
        return None
    duration = test.min_duration_ms / 1000
    if settings.scenario == "Server":
        limit_ns = test.ttft_latency if test.use_token_latencies else test.server_target_latency_ns
        return Limits(
            scenario="Server",
            duration_s=duration,
            queries=most_queries(test.server_target_qps, duration, test.min_query_count),
            share=1 - test.server_target_latency_percentile,
            limit_s=limit_ns / 1e9,
            rate=test.server_target_qps,
            what="first tokens" if test.use_token_latencies else "queries",
        )
    if settings.scenario == "Offline":
        return Limits("Offline", duration, hints.queries)
    return None


def _due(test: Any, queries: int) -> Any:
    """When each query of a Server run is due, in seconds after the first."""
    from array import array

    from checker.replay import server_due_ns

    if queries > KNOWN_DUE:
        return ()
    due = server_due_ns(test.schedule_rng_seed, test.server_target_qps, queries)
    return array("d", (due / 1e9).tobytes())


def _report(
    channel: Channel,
    sut: Any,
    began: float,
    stop: threading.Event,
    watch: Any,
    answering: Callable[[], None],
    disturbance: Any,
    conditions: Any,
    timeline: Any,
) -> None:
    """Report the counters until `stop`; `answering` is called once, after the first answer."""
    from runner.errors import HopelessRun

    before = 0
    while not stop.wait(REPORT_EVERY_S):
        now, done = time.monotonic() - began, sut.done
        conditions.look()
        if done and not before:
            answering()
        issued, late = getattr(sut, "issued", None), getattr(sut, "late", 0)
        if issued is None:  # answered in LoadGen's own thread: what must be due by now
            issued = watch.due(now) if watch else done
        recent = getattr(sut, "recent", None)
        latency = None
        if recent is not None:
            recent = list(recent.copy())
        if timeline is not None:
            timeline.add(now, done, issued, recent)
        if recent:
            ordered = sorted(recent)
            latency = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
        channel.send(
            "progress", samples=done, elapsed=now, issued=issued, late=late, latency=latency
        )
        # Of a language model the first tokens have the limit, and are late or not.
        why = watch.verdict(now, getattr(sut, "firsts", done), issued, late) if watch else None
        # Where nothing was answered since the last look a call may hang: then the advice to lower
        # target_qps would be wrong, and the stall watch will say what is the matter.
        moving, before = done != before, done
        if why and moving:
            channel.send("disturbed", share=disturbance.share())
            message = f"ended early, because it can only become INVALID: {why}."
            channel.fail(HopelessRun(message))


if __name__ == "__main__":
    main()
