"""Drive the real LoadGen with a system under test that answers at once, and keep what it did."""

from __future__ import annotations

import array
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlperf_loadgen as lg

from checker.replay import RunFacts

SEEDS: dict[str, int] = {
    "qsl_rng_seed": 2085463073848966840,
    "sample_index_rng_seed": 2747215439041700203,
    "schedule_rng_seed": 16159082839903944936,
    "accuracy_log_rng_seed": 720381539243781796,
}


@dataclass(frozen=True)
class RealRun:
    """What LoadGen logged, and the samples it asked for in the order of their seq_id."""

    values: dict[str, list[Any]]
    records: list[tuple[int, int]]
    issued: list[int]

    @property
    def facts(self) -> RunFacts:
        return RunFacts.from_log({key: found[-1] for key, found in self.values.items()})

    @property
    def sets(self) -> list[list[int]]:
        return self.values["loaded_qsl_set"]

    @property
    def counts(self) -> list[int]:
        return self.values["generated_query_count"]

    @property
    def durations(self) -> list[int]:
        return self.values["generated_query_duration"]


def run(
    out: Path,
    scenario: str,
    *,
    accuracy: bool = False,
    total: int = 100,
    loaded: int = 100,
    **settings: object,
) -> RealRun:
    """Run LoadGen once, with its logs under ``out``; ``settings`` are fields of TestSettings."""
    wanted = lg.TestSettings()
    wanted.scenario = getattr(lg.TestScenario, scenario)
    mode = "AccuracyOnly" if accuracy else "PerformanceOnly"
    wanted.mode = getattr(lg.TestMode, mode)
    for key, value in {**SEEDS, **settings}.items():
        setattr(wanted, key, value)
    logs = lg.LogSettings()
    logs.log_output.outdir = str(out)
    logs.enable_trace = False
    answer = array.array("B", b"\1\2\3\4")
    address = answer.buffer_info()[0]
    issued: list[int] = []

    def issue(ids: list[int], indices: list[int]) -> None:
        issued.extend(indices)
        lg.QuerySamplesComplete([lg.QuerySampleResponse(i, address, 4) for i in ids])

    def nothing(*_: object) -> None:
        return None

    sut = lg.ConstructFastSUT(issue, nothing)
    qsl = lg.ConstructQSL(total, loaded, nothing, nothing)
    try:
        # A path that does not exist: LoadGen would take an audit.config from the working folder.
        lg.StartTestWithLogSettings(sut, qsl, wanted, logs, str(out / "no-audit.config"))
    finally:
        lg.DestroyQSL(qsl)
        lg.DestroyFastSUT(sut)
    values: dict[str, list[Any]] = {}
    for line in (out / "mlperf_log_detail.txt").read_text().splitlines():
        if line.startswith(":::MLLOG"):
            entry = json.loads(line[len(":::MLLOG") :])
            values.setdefault(entry["key"], []).append(entry["value"])
    records = [
        (record["seq_id"], record["qsl_idx"])
        for record in json.loads((out / "mlperf_log_accuracy.json").read_text())
    ]
    return RealRun(values, records, issued)
