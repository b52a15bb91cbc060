"""One LoadGen run: prepared, watched, verified; in a process of its own (see `runner.child`)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from runner import errors, logs
from runner.backends import chooses_batch
from runner.backends.onnx_session import on_processors
from runner.benchmarks import get_benchmark
from runner.benchmarks.base import Benchmark
from runner.energy import ENERGY, EnergyLog
from runner.errors import Interrupted, OutputError, RunFailed, RunnerError, SettingsError
from runner.named import absolute
from runner.progress import Event, Progress, Silent
from runner.settings import MODES, SAMPLES_PER_QUERY, RunSettings

FREE_DISK = 64 * 2**20  # bytes to leave on the disk beyond what the logs need
ERROR_REASON = "LoadGen error: "  # begins a reason that is one
OUTPUT_LOG = "process_output.txt"
DISTURBED = 0.05  # of the time: from here on other processes are said to have disturbed a run
TIMEOUT = "Timeout ("  # begins faulthandler's report: see runner.stall


@dataclass(frozen=True)
class Job:
    """What to run.  Plain values only: it crosses a process border as JSON.

    Attributes:
        benchmark: a name of the registry, or `module:NAME`.
        settings: see `RunSettings`.
        backend: a name of the registry, or `module:Class`; `backend_options` are its arguments.
        model: the model file; None for the dummy backend.
        data: where the data set lies; None for the benchmark's default.
        use: what the run is for: "performance", "accuracy", or a compliance test's name.
        batch_size: samples in one inference (Offline), at most (Server); None: the benchmark's.
        performance_sample_count: samples held in memory; None: the benchmark's.
        warm_up_s: how long to measure before the run, to choose LoadGen's hints.
        workers: inferences at the same time (Server, Offline).
        batch_deadline_us: how long the first query of a batch may wait for more (Server).
        early_stop: end a performance run as soon as it can only become INVALID.
        stall_timeout_s: end any run in which nothing moves for so long; loading gets ten times as
            much, and an inference at least 100 times what it took in the warm-up.
        cpus: the processors that the run is bound to; none: those of this process.
        profile: write the backend's profile of a performance run beside its logs.
        energy: write what RAPL and NVML count during a performance run beside its logs.
    """

    benchmark: str
    settings: RunSettings
    backend: str = "onnxruntime"
    backend_options: Mapping[str, Any] = field(default_factory=dict)
    model: str | None = None
    data: str | None = None
    use: str = "performance"
    batch_size: int | None = None
    performance_sample_count: int | None = None
    warm_up_s: float = 0.3
    workers: int = 1
    batch_deadline_us: float = 0.0
    early_stop: bool = True
    stall_timeout_s: float = 60.0
    cpus: tuple[int, ...] = ()
    profile: bool = False
    energy: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.stall_timeout_s <= 1e6:
            raise SettingsError(
                f"found stall_timeout_s={self.stall_timeout_s:g}; expected more than 0 and at most "
                "1,000,000 seconds."
            )
        for name, least in (("batch_size", 1), ("workers", 1), ("batch_deadline_us", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise SettingsError(f"found {name}={value}; expected {least} or more.")


@dataclass(frozen=True)
class Measurement:
    """A run that ended and whose logs are whole.

    Attributes:
        folder: where the logs and user.conf lie.
        valid: LoadGen calls the result VALID and logged no error; for an accuracy run, the latter.
        metric: what the scenario is ranked by, in `unit`; None for an accuracy run.
        reasons: why it is not valid, in LoadGen's words.
        detail: last value of every key of the detail log.
        user_conf: text of the user.conf that was run.
        framework: what executed, with versions.
        seconds: how long LoadGen ran; `samples` is what it had answered.
        warnings: what should be known about the result.
        disturbed: share of the time for which threads of the run waited for a processor that other
            processes, or the host, had; 0 where the kernel does not say.
        conditions: what the machine did to the run, title to text (see `runner.conditions`).
    """

    folder: Path
    job: Job
    valid: bool
    metric: float | None
    unit: str
    reasons: tuple[str, ...]
    detail: Mapping[str, Any]
    user_conf: str
    framework: str
    seconds: float
    samples: int
    warnings: tuple[str, ...] = ()
    disturbed: float = 0.0
    conditions: Mapping[str, str] = field(default_factory=dict)


def measure(job: Job, folder: Path, progress: Progress | None = None) -> Measurement:
    """Run LoadGen once; `folder` comes into being when, and only when, its logs are whole.

    While it runs the logs lie in `<folder>.unfinished`; what a failed or interrupted run left
    there is kept, under names that nobody takes for a result, with the reason in REASON.txt.

    Args:
        folder: must not exist; its parents are created.
        progress: hears of every step.

    Raises:
        OutputError: the folder exists, cannot be written, or the disk is full, before or after.
        SettingsError, ResourceError, BackendError, DatasetError: found before LoadGen began.
        InferenceError: an inference raised or gave unusable outputs; the run was ended there.
        StalledRun: nothing moved for longer than `stall_timeout_s`.
        HopelessRun: a performance run was ended, because it could only become INVALID.
        RunFailed: the process died or the logs are not whole.
        Interrupted: Ctrl-C, or another signal that raised a KeyboardInterrupt.
    """
    listener = progress or Silent()
    benchmark = get_benchmark(job.benchmark)
    job.settings.conf()
    server = job.settings.scenario == "Server"
    batch_size = server_batch_size(job, benchmark) if server else benchmark.batch_size
    # None: the backend knows its device, and chooses when it has loaded the model.
    chosen = job.batch_size or (None if chooses_batch(job.backend, benchmark) else batch_size)
    whole = replace(
        job,
        batch_size=chosen,
        performance_sample_count=(
            job.performance_sample_count or benchmark.performance_sample_count
        ),
    )
    audit = job.settings.audit_conf
    kind = Path(audit).name.split(".")[0] if audit else job.settings.mode
    where = _Where(benchmark.name, job.settings.result, kind, listener)
    # A data set's size is not known before it is opened; few are larger.
    samples = 100_000 if benchmark.generation is None else benchmark.performance_sample_count
    if folder.exists():
        raise OutputError(
            f"{folder}: found something there already; expected a name that is free. Choose "
            "another folder or move the older run away."
        )
    staging = _free_name(folder.with_name(folder.name + ".unfinished"))
    try:
        _prepare(staging, folder, whole, samples * (2 * benchmark.payload_bytes + 64))
    except KeyboardInterrupt as stop:
        raise _interrupted(staging, where, stop) from None
    try:
        done = _Child(whole, staging, where).run()
        whole = replace(whole, batch_size=done["batch_size"])
        detail, error_texts = logs.verify(
            staging, job.settings.mode, done["total"], benchmark.empty_answers
        )
        result = _judge(whole, staging, done, detail, error_texts)
    except KeyboardInterrupt as stop:
        raise _interrupted(staging, where, stop) from None
    except (RunnerError, OSError) as error:
        refused = _refused(staging)
        if refused is not None:
            failed: RunnerError = OutputError(
                f"{where.text}: its folder takes no more ({refused}). Free some space or choose "
                "another disk; finished scenarios are kept."
            )
        elif isinstance(error, RunnerError):
            failed = error
        else:
            failed = RunFailed(
                f"{where.text}: the system refused ({error}); look at the limits on processes and "
                "the folder's permissions."
            )
        _disown(staging, "failed", str(failed))
        where.say("failed", str(failed))
        raise failed from (None if failed is error else error)
    (staging / OUTPUT_LOG).unlink(missing_ok=True)
    (staging / logs.TRACE).unlink(missing_ok=True)
    staging.rename(folder)
    where.say("done", "valid" if result.valid else "; ".join(result.reasons) or "not valid")
    return replace(result, folder=folder)


def server_batch_size(job: Job, benchmark: Benchmark) -> int:
    """Most samples in one inference of Server, where the user does not say."""
    alone = job.backend in benchmark.unbatched and on_processors(job.backend_options)
    return 1 if alone else benchmark.server_batch_size


class _Where:
    """Names the run in every event."""

    def __init__(self, benchmark: str, scenario: str, mode: str, listener: Progress) -> None:
        self.text = f"{benchmark} {scenario} {mode} run"
        self._names = (benchmark, scenario, mode)
        self._listener = listener

    def say(self, phase: Any, message: str = "", **numbers: Any) -> None:
        self._listener.on_event(Event(phase, *self._names, message, **numbers))


def _interrupted(staging: Path, where: _Where, stop: KeyboardInterrupt) -> Interrupted:
    """What to raise once what the run left can be taken for nothing else."""
    number = getattr(stop, "number", signal.SIGINT)
    _disown(staging, "interrupted", f"Interrupted by {signal.Signals(number).name}.")
    where.say("failed", "interrupted")
    return Interrupted(f"{where.text}: interrupted; nothing of the run is claimed", number)


def _prepare(staging: Path, folder: Path, job: Job, answers_bytes: int) -> None:
    """Create the staging folder and see that the logs will fit."""
    try:
        staging.mkdir(parents=True)
        with tempfile.TemporaryFile(dir=staging) as probe:
            probe.write(b"0" * 4096)
            probe.flush()
        free = shutil.disk_usage(staging).free
    except OSError as error:
        raise OutputError(
            f"{folder}: cannot be written ({error.strerror or error}); expected a folder that "
            "LoadGen can write its logs to. Choose another or fix its permissions."
        ) from error
    need = FREE_DISK + (answers_bytes if job.settings.mode == "accuracy" else 0)
    if free < need:
        staging.rmdir()
        raise OutputError(
            f"{folder}: found {free / 2**20:.0f} MiB free on the disk; expected "
            f"{need / 2**20:.0f} MiB. Free some space or choose another disk."
        )


def _free_name(path: Path) -> Path:
    number, name = 1, path
    while name.exists():
        number += 1
        name = path.with_name(f"{path.name}-{number}")
    return name


def _refused(staging: Path) -> str | None:
    """Why nothing more can be written there: LoadGen does not say that its logs were cut."""
    try:
        with tempfile.TemporaryFile(dir=staging) as probe:
            probe.write(b"0" * 2**16)
            probe.flush()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _disown(staging: Path, word: str, reason: str) -> None:
    """Keep what a run left, so that neither a person nor a checker takes it for a result."""
    for name in (logs.SUMMARY, logs.DETAIL, logs.ACCURACY, logs.TRACE):
        with contextlib.suppress(OSError):
            source = staging / name
            if source.exists():
                source.rename(staging / f"{word}-{name}")
    with contextlib.suppress(OSError):  # on a full disk it stays empty
        (staging / "REASON.txt").write_text(reason + "\n", encoding="utf-8")
    with contextlib.suppress(OSError):
        staging.rename(_free_name(staging.with_name(staging.name.replace("unfinished", word))))


class _Child:
    """The measuring process, seen from outside."""

    def __init__(self, job: Job, staging: Path, where: _Where) -> None:
        self._job = job
        self._staging = staging
        self._where = where
        self._estimate: float | None = None
        self._queries = 0
        self._values: dict[str, float] = {}
        self._rate = 0.0
        self._warnings: list[str] = []
        self._disturbed = 0.0
        self._energy: EnergyLog | None = None

    def run(self) -> dict[str, Any]:
        """Start it, pass its events on, and return its "done" event."""
        self._where.say("start")
        output = self._staging / OUTPUT_LOG
        last: dict[str, Any] = {}
        try:
            with started("runner.child", output) as (process, events):
                tell(process, self._message())
                for line in events:
                    last = json.loads(line)
                    self._on_event(last)
                code = process.wait()
        finally:
            if self._energy is not None:
                self._energy.stop()
        if last.get("event") == "failed":
            self._raise(last)
        if code == 1 and TIMEOUT in output.read_text(encoding="utf-8", errors="replace"):
            raise errors.StalledRun(
                f"{self._where.text}: no progress, in a call that holds Python's interpreter lock. "
                f"The stacks of all threads are in {OUTPUT_LOG}; they end with: {tail(output)}"
            )
        if code != 0 or last.get("event") != "done":
            raise RunFailed(
                f"{self._where.text}: the measuring process ended by {ending(code)} without a "
                f"result. Its last words: {tail(output)}"
            )
        if self._energy is not None:
            self._where.say("note", self._energy.write(self._staging / ENERGY))
        return {**last, "warnings": self._warnings, "disturbed": self._disturbed}

    def _message(self) -> bytes:
        job = asdict(self._job)
        job["folder"] = str(self._staging.resolve())
        job["backend_options"] = dict(self._job.backend_options)
        audit = job["settings"]["audit_conf"]
        job["settings"]["audit_conf"] = audit and str(Path(audit).resolve())
        for name in ("model", "data"):
            job[name] = job[name] and str(Path(job[name]).resolve())
        for name in ("benchmark", "backend"):
            job[name] = absolute(job[name])
        return json.dumps(job).encode() + b"\n"

    def _on_event(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "phase":
            self._where.say(event["phase"], event["message"])
        elif kind == "warning":
            self._warnings.append(event["message"])
            self._where.say("warning", event["message"])
        elif kind == "ready":
            self._estimate, self._queries = event["seconds"], event["queries"]
            self._values = event["values"]
            text = f"{event['total']} samples in the data set"
            if self._job.settings.mode == "performance":
                text = (
                    f"about {event['seconds']:.0f} s, {event['queries']:,} pre-generated, "
                    f"{event['memory_bytes'] / 1e6:.0f} MB"
                )
            self._where.say("ready", text, remaining_s=self._estimate)
            if self._job.energy and self._job.settings.mode == MODES[0]:
                self._energy = EnergyLog()
        elif kind == "disturbed":
            self._disturbed = event["share"]  # LoadGen has just ended
            if self._energy is not None:
                self._energy.stop()
        elif kind == "progress":
            self._where.say("running", **self._numbers(event))

    def _numbers(self, event: dict[str, Any]) -> dict[str, Any]:
        """A "progress" event in the words of `Event`."""
        elapsed, samples, latency = event["elapsed"], event["samples"], event["latency"]
        scenario = self._job.settings.scenario
        rate = self._rate = samples / elapsed if elapsed else 0.0
        left = None if self._estimate is None else max(0.0, self._estimate - elapsed)
        if scenario == "Offline" and self._queries and rate:
            left = max(0.0, self._queries - samples) / rate
        if scenario in ("SingleStream", "MultiStream") and rate:
            latency = SAMPLES_PER_QUERY[scenario] / rate
        return {
            "samples": samples,
            "rate": rate,
            "elapsed_s": elapsed,
            "remaining_s": left,
            "latency_ms": None if latency is None else latency * 1000,
            "late": event["late"],
            "waiting": max(0, event["issued"] - samples),
        }

    def _raise(self, event: dict[str, Any]) -> None:
        (self._staging / "traceback.txt").write_text(event["traceback"], encoding="utf-8")
        kind = getattr(errors, event["kind"], RunFailed)
        message = f"{self._where.text}: {event['message']}"
        if issubclass(kind, errors.InferenceError):
            message += " The run was ended there and nothing of it is claimed."
        if kind is errors.HopelessRun:
            raise errors.HopelessRun(message, self._values, self._rate, self._disturbed)
        if kind is errors.UserConfError:
            kind = errors.SettingsError
        raise kind(message)


@contextlib.contextmanager
def started(module: str, output: Path) -> Iterator[tuple[subprocess.Popen[bytes], TextIO]]:
    """A process that runs a module of this package with the descriptor for its events as argument,
    and those events; what it prints goes to ``output``. It is ended with the block."""
    read, write = os.pipe()
    with output.open("wb") as sink, os.fdopen(read, encoding="utf-8") as events:
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(write)],
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=subprocess.STDOUT,
                pass_fds=(write,),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(_module_places())},
                # Its own session: Ctrl-C reaches it through this process only.
                start_new_session=True,
            )
        finally:
            os.close(write)
        try:
            yield process, events
        finally:
            _kill(process)


def tell(process: subprocess.Popen[bytes], message: bytes) -> None:
    """Send a process that was started its job, unless it has ended."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(message)
        process.stdin.flush()


def _module_places() -> list[str]:
    """Where the child looks for modules: where this process does, also in a source tree, and not in
    the current folder, which may hold anything, unless this package itself comes from there or
    PYTHONPATH names it."""
    here = Path.cwd().resolve()
    own = Path(__file__).resolve().parents[1]
    chosen = {Path(p).resolve() for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p}
    places = [Path(entry).resolve() for entry in sys.path if entry]
    wanted = (p for p in (*places, own) if p != here or p == own or p in chosen)
    return list(dict.fromkeys(map(str, wanted)))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and whatever it started; harmless when it has ended."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


def ending(code: int) -> str:
    """How a process ended, in words."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"signal {signal.Signals(-code).name}"
    return f"exit status {code}"


def tail(path: Path) -> str:
    """The last that a process wrote."""
    text = path.read_text(encoding="utf-8", errors="replace").strip()
    return text[-1500:] or "(none)"


def _noted(disturbed: float, job: Job) -> list[str]:
    if disturbed < DISTURBED or job.settings.mode != MODES[0]:
        return []
    return [
        f"other processes kept the run waiting for a processor {disturbed:.0%} of the time: on a quiet "
        "machine the result would be better"
    ]


def _why_invalid(detail: dict[str, Any]) -> str:
    """Why LoadGen calls a run INVALID, in its own words."""
    said = [detail.get("result_invalid_reason")]
    if detail.get("early_stopping_met") is False:
        keys = ("early_stopping_result", "early_stopping_ttft_result", "early_stopping_tpot_result")
        texts = [str(detail[key]).replace("*", " ") for key in keys if detail.get(key)]
        said.append(f"early stopping is not satisfied: {' '.join(texts)}")
    reasons = [" ".join(str(text).split()) for text in said if text]
    return "; ".join(reasons) or str(detail["result_validity"])


def _judge(
    job: Job, folder: Path, done: dict[str, Any], detail: dict[str, Any], error_texts: list[str]
) -> Measurement:
    reasons = [f"{ERROR_REASON}{text}" for text in error_texts]
    metric: float | None = None
    unit = ""
    if job.settings.mode == MODES[0]:
        metric, unit = logs.metric(detail, job.settings.scenario)
        if detail["result_validity"] != "VALID":
            reasons.append(_why_invalid(detail))
        elif not metric or metric <= 0:
            found = "no result" if metric is None else f"a result of {metric:g} {unit}"
            reasons.append(f"found {found} in LoadGen's log; expected a positive number")
    return Measurement(
        folder=folder,
        job=job,
        valid=not reasons,
        metric=metric,
        unit=unit,
        reasons=tuple(reasons),
        detail=detail,
        user_conf=(folder / "user.conf").read_text(encoding="utf-8"),
        framework=done["framework"],
        seconds=done["seconds"],
        samples=done["samples"],
        warnings=(*done["warnings"], *_noted(done["disturbed"], job)),
        disturbed=done["disturbed"],
        conditions=done["conditions"],
    )
