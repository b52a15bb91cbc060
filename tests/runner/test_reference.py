"""The whole path: gate, performance, submission tree."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner import (
    SCENARIOS,
    Event,
    Measurement,
    OutputError,
    Plan,
    SettingsError,
    run_benchmark,
    truncate_accuracy_log,
)
from runner.foresight import foresee
from runner.reference import better_hint
from tests.runner.plans import changed, plan_with
from tests.runner.test_run import LIMIT_MS, job


def plan(out: Path, **more: Any) -> Plan:
    values: dict[str, Any] = {
        "backend": "dummy",
        "system": "box",
        "min_duration_ms": 700,
        "target_latency_ms": LIMIT_MS,
        "share": 0.1,
        "gate": 95.0,
    }
    return plan_with("digits", out, **{**values, **more})


class Runs:
    """Which runs were started, in order."""

    def __init__(self) -> None:
        self.started: list[tuple[str, str]] = []

    def on_event(self, event: Event) -> None:
        if event.phase == "start":
            self.started.append((event.scenario, event.mode))


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_all_four_scenarios_become_a_submission(tmp_path: Path) -> None:
    out, runs = tmp_path / "tree", Runs()
    outcomes = run_benchmark(
        plan(out, backend="onnxruntime", backend_options={"spinning": False}), runs
    )
    for scenario in SCENARIOS:  # the gate comes first
        modes = [mode for name, mode in runs.started if name == scenario]
        assert modes[:2] == ["accuracy", "performance"]
    assert [o.scenario for o in outcomes] == list(SCENARIOS)
    result_files = {
        "README.md",
        "measurements.json",
        "user.conf",
        "accuracy/accuracy.txt",
        "accuracy/mlperf_log_accuracy.json",
        "accuracy/mlperf_log_detail.txt",
        "accuracy/mlperf_log_summary.txt",
        "performance/run_1/mlperf_log_detail.txt",
        "performance/run_1/mlperf_log_summary.txt",
    }
    expected = {
        "systems/box.json",
        "src/digits/onnxruntime/README.md",
        "documentation/calibration.md",
    }
    expected |= {"documentation/bandwidth.md"}
    for scenario in SCENARIOS:
        expected |= {f"results/box/digits/{scenario}/{name}" for name in result_files}
    assert files(out) == {f"closed/Assay/{name}" for name in expected}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tree", "tree.traces"]
    for outcome in outcomes:
        # On a busy machine LoadGen may call a run INVALID; it is never called failed.
        assert outcome.status in ("valid", "invalid"), outcome.message
        assert outcome.path is not None and outcome.metric
        assert outcome.score is not None and 95 <= outcome.score.value <= 99.5
        for name in files(outcome.path):
            assert (outcome.path / name).stat().st_size > 0
        accuracy = outcome.path / "accuracy"
        lines = (accuracy / "accuracy.txt").read_text().splitlines()
        assert lines[0].startswith("accuracy=") and "total=500" in lines[0]
        assert lines[-1].startswith("hash=") and len(lines[-1]) == 5 + 64
        assert (accuracy / "mlperf_log_accuracy.json").stat().st_size < 10_240
    measurements = json.loads((outcomes[0].path / "measurements.json").read_text())  # type: ignore[operator]
    assert measurements["weight_data_types"] == "fp32"
    assert measurements["input_data_types"] == "fp32"
    assert measurements["retraining"] == "no"
    system = json.loads((out / "closed/Assay/systems/box.json").read_text())
    assert system["division"] == "closed" and system["submitter"] == "Assay"
    assert "ONNX Runtime" in system["framework"]


def test_a_missed_gate_is_not_measured(tmp_path: Path) -> None:
    runs = Runs()
    wrong = plan(tmp_path / "tree", scenarios=("Offline",), backend_options={"answer": "constant"})
    (outcome,) = run_benchmark(wrong, runs)
    assert outcome.status == "gate-missed"
    assert "expected at least 95" in outcome.message and "short" in outcome.message
    assert runs.started == [("Offline", "accuracy")]
    assert not (tmp_path / "tree").exists()

    (outcome,) = run_benchmark(changed(wrong, measure_anyway=True))
    assert outcome.division == "open" and outcome.path is not None
    assert (tmp_path / "tree/open/Assay/results/box/digits/Offline") == outcome.path
    assert not (tmp_path / "tree/closed").exists()
    assert "gate was missed" in (outcome.path / "README.md").read_text()
    system = json.loads((tmp_path / "tree/open/Assay/systems/box.json").read_text())
    assert system["division"] == "open"


def test_a_failing_scenario_is_an_outcome(tmp_path: Path) -> None:
    (outcome,) = run_benchmark(
        plan(
            tmp_path / "tree",
            scenarios=("SingleStream",),
            backend="tests.runner.broken:Broken",
            backend_options={"how": "raises"},
        )
    )
    assert outcome.status == "failed" and "the device is gone" in outcome.message
    assert not (tmp_path / "tree").exists()
    assert outcome.path is not None and list(outcome.path.glob("accuracy.failed"))


def test_older_results_are_kept_unless_told(tmp_path: Path) -> None:
    mine = plan(tmp_path / "tree", scenarios=("SingleStream",))
    (first,) = run_benchmark(mine)
    with pytest.raises(OutputError, match="already"):
        run_benchmark(mine)
    assert first.path is not None
    (first.path / "mark").write_text("old")
    (second,) = run_benchmark(changed(mine, overwrite=True))
    assert second.path == first.path and not (first.path / "mark").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tree", "tree.traces"]


def test_a_plan_is_refused_before_anything_runs(tmp_path: Path) -> None:
    good = plan(tmp_path / "tree")
    for bad in (
        changed(good, submitter="two words"),
        changed(good, system=".hidden"),
        changed(good, division="semi"),
        changed(good, scenarios=()),
        changed(good, scenarios=("Batch",)),
        changed(good, user_conf="digits.Server.mode = 1"),
        changed(good, backend="onnxruntime", precision="fp4"),
    ):
        with pytest.raises(SettingsError):
            run_benchmark(bad)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        run_benchmark(plan(tmp_path / "file" / "tree"))
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_long_accuracy_logs_are_cut_and_signed(tmp_path: Path) -> None:
    whole = bytes(range(256)) * 100
    log, text = tmp_path / "mlperf_log_accuracy.json", tmp_path / "accuracy.txt"
    log.write_bytes(whole)
    text.write_text("accuracy=97.400%, good=487, total=500\n")
    digest = hashlib.sha256(whole).hexdigest()
    assert truncate_accuracy_log(tmp_path) == digest
    cut = log.read_bytes()
    assert len(cut) <= 10_240
    assert cut.startswith(whole[:4096]) and cut.endswith(whole[-4096:])
    assert text.read_text().splitlines()[-1] == f"hash={digest}"
    # A second time would sign the cut log.
    assert truncate_accuracy_log(tmp_path) == digest
    assert log.read_bytes() == cut and text.read_text().count("hash=") == 1


def test_short_accuracy_logs_stay_whole(tmp_path: Path) -> None:
    log = tmp_path / "mlperf_log_accuracy.json"
    log.write_bytes(b"x" * 10_240)
    (tmp_path / "accuracy.txt").write_text("accuracy=1%\n")
    truncate_accuracy_log(tmp_path)
    assert log.stat().st_size == 10_240
    with pytest.raises(OutputError, match="both writable"):
        truncate_accuracy_log(tmp_path / "absent")


def finished(
    scenario: str, detail: dict[str, Any], metric: float = 0.0, **more: Any
) -> Measurement:
    base = job(scenario)
    settings = replace(base.settings, **more)
    return Measurement(
        Path(), replace(base, settings=settings), False, metric, "", (), detail, "", "", 1.0, 1
    )


def test_only_our_own_guesses_are_made_again() -> None:
    short = {"result_min_duration_met": False, "result_mean_latency_ns": 2_000_000}
    again = better_hint(finished("SingleStream", short))
    assert again is not None and again[0].expected_latency_ms == pytest.approx(1)
    assert better_hint(finished("SingleStream", short, expected_latency_ms=5.0)) is None
    again = better_hint(finished("Offline", short, 1000.0))
    assert again is not None and again[0].target_qps == pytest.approx(1300)
    late = {"result_perf_constraints_met": False, "effective_target_qps": 100.0}
    again = better_hint(finished("Server", late))
    assert again is not None and again[0].target_qps == pytest.approx(40)
    assert again[0].min_query_count == 1000  # 28 in its 0.7 s
    again = better_hint(finished("Server", late, min_duration_ms=600_000))
    assert again is not None and again[0].min_query_count is None
    assert better_hint(finished("Server", late, target_qps=100.0)) is None
    assert better_hint(finished("MultiStream", {"result_min_duration_met": True})) is None


def test_the_forecast_counts_the_samples_that_loadgen_asks_for(tmp_path: Path) -> None:
    resnet = plan_with(
        "resnet50",
        tmp_path,
        scenarios=("Offline",),
        backend="dummy",
        target_qps=20,
        min_duration_ms=4000,
    )
    assert "24,576 samples or more in Offline" in foresee(resnet)
    assert "samples or more" not in foresee(changed(resnet, benchmark="digits"))
    several = changed(resnet, scenarios=("SingleStream", "MultiStream"))
    assert "5,296 samples or more in MultiStream" in foresee(several)  # 662 queries of 8
    slow = plan(tmp_path, scenarios=("Server",), target_qps=1.0, min_query_count=300)
    assert "at least 5 min" in foresee(slow)
