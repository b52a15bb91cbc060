"""The official LoadGen over the whole backend, with a TensorRT and a GPU that are played."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from runner import SCENARIOS, Job, RunSettings, measure, run_benchmark
from runner.benchmarks.digits import DIGITS
from runner.logs import ACCURACY
from runner.settings import Mode
from tests.runner.plans import plan_with
from tests.runner.test_run import LIMIT_MS

BACKEND = "tests.runner.trt.fake:FakeTensorRT"


def job(scenario: str, mode: Mode, cache: Path, **more: Any) -> Job:
    settings = RunSettings(
        "digits",
        scenario,
        mode,
        min_duration_ms=600,
        target_latency_ms=LIMIT_MS if scenario == "Server" else None,
        load=0.1,
    )
    options = {"cache": str(cache), "gpus": 2, "devices": "all", "overlap": 16}
    values: dict[str, Any] = {"model": str(DIGITS.models["fp32"]), "warm_up_s": 0.05}
    return Job("digits", settings, BACKEND, options, **{**values, **more})


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_performance_run(scenario: str, tmp_path: Path) -> None:
    result = measure(job(scenario, "performance", tmp_path / "cache"), tmp_path / "run")
    assert not [reason for reason in result.reasons if "LoadGen error" in reason]
    assert result.metric is not None and result.metric > 0
    assert result.detail["effective_scenario"] == scenario
    assert "TensorRT" in result.framework and "x 2" in result.framework


@pytest.mark.parametrize("batch", [None, 20])
def test_the_batch_reaches_the_engine_and_the_result(batch: int | None, tmp_path: Path) -> None:
    result = measure(
        job("Offline", "accuracy", tmp_path / "cache", batch_size=batch), tmp_path / "run"
    )
    # Without one the backend chooses: here the benchmark's own, more than four multiprocessors fill.
    ran = batch or DIGITS.batch_size
    assert result.valid and result.job.batch_size == ran
    assert f"batches of {ran}" in result.framework
    assert "samples in pinned host memory" in result.framework


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_accuracy_run(scenario: str, tmp_path: Path) -> None:
    result = measure(job(scenario, "accuracy", tmp_path / "cache"), tmp_path / "run")
    assert result.valid
    entries = json.loads((result.folder / ACCURACY).read_text())
    assert {entry["qsl_idx"] for entry in entries} == set(range(500))
    score = DIGITS.score(result.folder / ACCURACY, DIGITS.make_dataset(None))
    assert score.value > 95


@pytest.mark.parametrize("scenario", ["Offline", "Server"])
def test_several_workers_share_the_streams(scenario: str, tmp_path: Path) -> None:
    result = measure(
        job(scenario, "accuracy", tmp_path / "cache", workers=4, batch_size=20), tmp_path / "run"
    )
    score = DIGITS.score(result.folder / ACCURACY, DIGITS.make_dataset(None))
    assert result.valid and score.value > 95


def test_a_whole_measurement_lies_in_a_tree(tmp_path: Path) -> None:
    (outcome,) = run_benchmark(
        plan_with(
            "digits",
            tmp_path / "tree",
            scenarios=("Offline",),
            backend=BACKEND,
            backend_options={"cache": str(tmp_path / "cache")},
            precision="int8",
            min_duration_ms=600,
            gate=95.0,
            division="open",
        )
    )
    assert outcome.status == "valid", outcome.message
    (system,) = (tmp_path / "tree").rglob("systems/*.json")
    assert "TensorRT" in json.loads(system.read_text())["framework"]


def test_without_tensorrt_nothing_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from assay.cli import main

    monkeypatch.setitem(sys.modules, "tensorrt", None)
    command = ["run", "--backend", "tensorrt", "--out", str(tmp_path / "tree")]
    assert main(command) == 2
    told = capsys.readouterr()
    assert told.out == "" and "found no TensorRT" in told.err and "pip install" in told.err
    assert list(tmp_path.iterdir()) == []
