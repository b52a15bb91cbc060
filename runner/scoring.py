"""Scoring an accuracy log in a process of its own, so that it too has a bound.

A metric is code of others (pycocotools, sacrebleu), of the user (a benchmark of one's own), or a
command (`--grader`).  What hangs there would hold a night's measurements; in this process it is
ended, and costs one scenario.

`python -m runner.scoring FD`: standard input is one JSON line, then it stays open, and its end means
that the parent is gone; file descriptor FD gets the events of `runner.child.Channel`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from runner import errors
from runner.benchmarks import open_benchmark
from runner.benchmarks.base import Score
from runner.child import Channel, follow_parent
from runner.datasets.prompts import Questions
from runner.errors import RunFailed, StalledRun
from runner.grading import Grader
from runner.named import absolute
from runner.run import TIMEOUT, Job, ending, started, tail, tell
from runner.stall import LOADING, StallWatch

OUTPUT = "scoring_output.txt"
LONGEST = 60  # times the stall timeout: an hour where that is a minute


def score(job: Job, log: Path, grader: str | None = None) -> Score:
    """What a run's accuracy log is worth.

    It may take 60 times the job's stall timeout, and ten times where it uses no processor.

    Args:
        job: of the run; its benchmark, model, data and use say what the answers are scored against.
        log: mlperf_log_accuracy.json, or a part of it; what a failure leaves lies beside it.
        grader: the command that grades code; see `runner.grading`.

    Raises:
        StalledRun: it took longer.
        RunFailed: the metric raised something else than a RunnerError, or its process died.
        RunnerError: as the metric raises it.
    """
    where = f"scoring {log.name} of {job.settings.result}"
    output = log.parent / OUTPUT
    message = {
        "benchmark": absolute(job.benchmark),
        "model": job.model and str(Path(job.model).resolve()),
        "data": job.data and str(Path(job.data).resolve()),
        "use": job.use,
        "log": str(log.resolve()),
        "grader": grader,
        "stall_timeout_s": job.stall_timeout_s,
    }
    longest = LONGEST * job.stall_timeout_s
    with started("runner.scoring", output) as (process, events):
        late = threading.Event()

        def end() -> None:
            late.set()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(longest, end)
        timer.daemon = True
        timer.start()
        last: dict[str, Any] = {}
        try:
            tell(process, json.dumps(message).encode() + b"\n")
            for line in events:
                last = json.loads(line)
            code = process.wait()
        finally:
            timer.cancel()
    if last.get("event") == "done":
        output.unlink()
        found = last["score"]
        return Score(**{**found, "notes": tuple(found["notes"])})
    if last.get("event") == "failed":
        (log.parent / "traceback.txt").write_text(last["traceback"], encoding="utf-8")
        raise getattr(errors, last["kind"], RunFailed)(f"{where}: {last['message']}")
    if late.is_set():
        raise StalledRun(
            f"{where}: not done after {longest:,.0f} s. Raise --stall-timeout, of which it may take "
            f"{LONGEST} times as much."
        )
    if code == 1 and TIMEOUT in output.read_text(encoding="utf-8", errors="replace"):
        raise StalledRun(
            f"{where}: no progress, in a call that holds Python's interpreter lock. The stacks of all "
            f"threads are in {OUTPUT}; they end with: {tail(output)}"
        )
    raise RunFailed(
        f"{where}: its process ended by {ending(code)} without a score. Its last words: {tail(output)}"
    )


def main() -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent decides what it means
    faulthandler.enable()
    channel = Channel(int(sys.argv[1]))
    job = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=follow_parent, name="parent-watch", daemon=True).start()
    limit_s = job["stall_timeout_s"]
    step_s = min(0.5, limit_s / 5)  # of processor time, which a busy machine gives slowly
    watch = StallWatch(limit_s, lambda: int(time.process_time() / step_s), channel.fail)
    # A grader is another process: what it uses is not seen before it ends.
    watch.enter("scoring", (LONGEST if job["grader"] else LOADING) * limit_s)
    watch.start()
    try:
        found = _scored(job)
    except BaseException as error:
        channel.fail(error)
    watch.stop()
    fields = {name: getattr(found, name) for name in ("metric", "value", "line")}
    channel.send("done", score={**fields, "others": dict(found.others), "notes": list(found.notes)})
    os._exit(0)


def _scored(job: dict[str, Any]) -> Score:
    data = Path(job["data"]) if job["data"] else None
    model = Path(job["model"]) if job["model"] else None
    benchmark = open_benchmark(job["benchmark"], model, data)
    dataset = benchmark.dataset_for(job["use"], data)
    if job["grader"] is not None and isinstance(dataset, Questions):
        dataset.grade_code = Grader(job["grader"])
    return benchmark.score(Path(job["log"]), dataset)


if __name__ == "__main__":
    main()
