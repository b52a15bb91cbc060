"""Reference measurement: run a benchmark under the official LoadGen, write a submission tree.

    from runner import Tree, plan_for, run_benchmark
    outcomes = run_benchmark(plan_for("v6.1", "resnet50", tree=Tree(out=Path("submission"))))

Importing this package is free: NumPy, ONNX Runtime and LoadGen are imported by the process that
measures, or where they are used.  The parts, from the outside in:

* `plan_for(round, benchmark, …)` - a measurement by a round's rules; `plan_of(run_file)` from a run file.
* `foresee(plan)`, `cautions(plan)` - what it will take, and what will keep it from being accepted.
* `run_benchmark(plan, progress)` - the accuracy run (the gate), then the performance run, for
  every scenario of a `Plan`; each finished result is moved into the submission tree.
* `measure(job, folder, progress)` - one LoadGen run in a process of its own.
* `write_result`, `write_system`, `truncate_accuracy_log` - the tree, file by file.
* `describe_system()` - what can be known of this machine, in the words of a system description.
* `parse_user_conf(text)` - read and lint a user.conf.
* `get_benchmark(name)`, `benchmark_names()` - what can be measured.

Progress is reported through an object with `on_event(event)` (see `runner.progress`); Ctrl-C is
raised as `Interrupted`, a KeyboardInterrupt; every other failure is a `RunnerError` or, inside
`run_benchmark`, an `Outcome` with status "failed".
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# ONNX Runtime 1.32 reports to its makers as soon as it is imported: a connection and a file in the
# temporary folder beside every measurement. Who wants that sets the variable to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if TYPE_CHECKING:
    from runner.benchmarks import benchmark_names, get_benchmark
    from runner.errors import (
        BackendError,
        DatasetError,
        HopelessRun,
        InferenceError,
        Interrupted,
        OutputError,
        ResourceError,
        RunFailed,
        RunnerError,
        SettingsError,
        StalledRun,
        UserConfError,
    )
    from runner.foresight import cautions, foresee, sample_count
    from runner.plan import (
        Conduct,
        Execution,
        Inputs,
        Load,
        Plan,
        Rules,
        Tree,
        plan_for,
        plan_of,
        read_run_file,
    )
    from runner.progress import Event, Progress, Silent
    from runner.reference import Outcome, iter_benchmark, run_benchmark
    from runner.run import Job, Measurement, measure
    from runner.search import Search
    from runner.settings import SCENARIOS, RunSettings, parse_user_conf
    from runner.submission import truncate_accuracy_log, write_result, write_system
    from runner.system import default_system_name, describe_system

_HOME = {
    "benchmark_names": "runner.benchmarks",
    "get_benchmark": "runner.benchmarks",
    "BackendError": "runner.errors",
    "DatasetError": "runner.errors",
    "HopelessRun": "runner.errors",
    "StalledRun": "runner.errors",
    "InferenceError": "runner.errors",
    "Interrupted": "runner.errors",
    "OutputError": "runner.errors",
    "ResourceError": "runner.errors",
    "RunFailed": "runner.errors",
    "RunnerError": "runner.errors",
    "SettingsError": "runner.errors",
    "UserConfError": "runner.errors",
    "Event": "runner.progress",
    "Progress": "runner.progress",
    "Silent": "runner.progress",
    "Outcome": "runner.reference",
    "Conduct": "runner.plan",
    "Execution": "runner.plan",
    "Inputs": "runner.plan",
    "Load": "runner.plan",
    "Plan": "runner.plan",
    "Rules": "runner.plan",
    "Tree": "runner.plan",
    "plan_for": "runner.plan",
    "plan_of": "runner.plan",
    "read_run_file": "runner.plan",
    "cautions": "runner.foresight",
    "foresee": "runner.foresight",
    "iter_benchmark": "runner.reference",
    "run_benchmark": "runner.reference",
    "sample_count": "runner.foresight",
    "Job": "runner.run",
    "Measurement": "runner.run",
    "Search": "runner.search",
    "measure": "runner.run",
    "SCENARIOS": "runner.settings",
    "RunSettings": "runner.settings",
    "parse_user_conf": "runner.settings",
    "truncate_accuracy_log": "runner.submission",
    "write_result": "runner.submission",
    "write_system": "runner.submission",
    "default_system_name": "runner.system",
    "describe_system": "runner.system",
}

__all__ = [
    "SCENARIOS",
    "BackendError",
    "Conduct",
    "DatasetError",
    "Event",
    "Execution",
    "HopelessRun",
    "InferenceError",
    "Inputs",
    "Interrupted",
    "Job",
    "Load",
    "Measurement",
    "Outcome",
    "OutputError",
    "Plan",
    "Progress",
    "ResourceError",
    "Rules",
    "RunFailed",
    "RunSettings",
    "RunnerError",
    "Search",
    "SettingsError",
    "Silent",
    "StalledRun",
    "Tree",
    "UserConfError",
    "benchmark_names",
    "cautions",
    "default_system_name",
    "describe_system",
    "foresee",
    "get_benchmark",
    "iter_benchmark",
    "measure",
    "parse_user_conf",
    "plan_for",
    "plan_of",
    "read_run_file",
    "run_benchmark",
    "sample_count",
    "truncate_accuracy_log",
    "write_result",
    "write_system",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'runner' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
