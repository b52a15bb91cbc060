"""Compliance tests: honest backends pass, cheating ones do not, and the report says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checker.engine import Options, check
from runner import Outcome, SettingsError, run_benchmark
from runner.compliance import audit_text, required_tests
from schemas import load_round
from tests.runner.test_reference import plan


def comply(out: Path, kind: str, scenario: str, **more: Any) -> Outcome:
    options: dict[str, Any] = {"min_duration_ms": 400, "batch_size": 16, **more}
    wanted = plan(
        out,
        backend=f"tests.runner.cheats:{kind}",
        scenarios=(scenario,),
        round="demo",
        compliance=True,
        **options,
    )
    (outcome,) = run_benchmark(wanted)
    return outcome


def findings(tree: Path) -> dict[str, str]:
    report = check(str(tree), Options(round="demo", jobs=1), version="test")
    return {f.rule: f.message for f in report.findings if f.severity == "error"}


def test_settings_come_from_the_round() -> None:
    demo, real = load_round("demo"), load_round("v6.1")
    assert required_tests(demo, "digits", "Offline") == ("TEST01", "TEST04")
    assert required_tests(demo, "digits", "MultiStream") == ()
    assert required_tests(real, "resnet", "Server") == ("TEST01", "TEST04")
    with pytest.raises(SettingsError, match="does not have"):
        required_tests(real, "digits", "Server")
    text = audit_text(real, "TEST01", "resnet", "Server")
    assert "*.Server.accuracy_log_rng_seed = 720381539243781796\n" in text
    assert "*.Server.accuracy_log_sampling_target = 4096\n" in text
    text = audit_text(real, "TEST07", "gpt-oss-120b", "Offline")
    assert "threshold" not in text and "min_query_count = 990" in text
    assert "performance_issue_same_index = 3" in audit_text(demo, "TEST04", "digits", "Offline")


def test_an_honest_backend_passes(tmp_path: Path) -> None:
    outcome = comply(tmp_path / "tree", "Honest", "Offline", attempts=4)
    assert outcome.status == "valid", outcome.message
    assert [test.name for test in outcome.tests] == ["TEST01", "TEST04"]
    assert all(test.passed for test in outcome.tests)
    path = outcome.path
    assert path is not None
    for name in ("TEST01", "TEST04"):
        assert "TEST PASS" in (path / name / "verify_performance.txt").read_text()
        assert (path / name / "performance/run_1/mlperf_log_detail.txt").stat().st_size
    assert "TEST PASS" in (path / "TEST01/verify_accuracy.txt").read_text()
    assert "hash=" in (path / "TEST01/accuracy/accuracy.txt").read_text()
    assert "| TEST04 | passed |" in (path / "README.md").read_text()
    # Only the length is not the round's, and the other scenarios are not there.
    assert set(findings(tmp_path / "tree")) <= {"C131", "P106", "S116"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tree", "tree.traces"]


def test_a_cache_fails_test04(tmp_path: Path) -> None:
    outcome = comply(tmp_path / "tree", "Caching", "SingleStream", attempts=1)
    assert outcome.status == "not-compliant"
    assert "TEST04 failed" in outcome.message and "samples/s in TEST04" in outcome.message
    assert outcome.path is not None
    said = (outcome.path / "TEST04/verify_performance.txt").read_text()
    assert "TEST FAIL" in said
    found = findings(tmp_path / "tree")
    assert {"C104", "C121"} <= set(found)
    assert "TEST04" in found["C121"] and "times" in found["C121"]
    assert "TEST04" in (outcome.path / "README.md").read_text()


def test_garbage_in_performance_mode_fails_test01(tmp_path: Path) -> None:
    # Long enough, on a busy machine too, for samples to come a second time and a third.
    outcome = comply(
        tmp_path / "tree",
        "Lazy",
        "SingleStream",
        attempts=1,
        min_duration_ms=1500,
        min_query_count=3000,
    )
    assert outcome.score is not None and outcome.score.value >= 95
    assert outcome.status == "not-compliant"
    assert "TEST01 failed" in outcome.message
    assert "acc over the sampled answers is" in outcome.message and "apart" in outcome.message
    assert outcome.path is not None
    test = outcome.path / "TEST01"
    assert "TEST FAIL" in (test / "verify_accuracy.txt").read_text()
    # Both accuracies over the sampled answers are there for whoever wants to know how bad it is.
    for name in ("baseline", "compliance"):
        assert "accuracy=" in (test / f"accuracy/{name}_accuracy.txt").read_text()
    found = findings(tmp_path / "tree")
    assert "C106" in found and "apart" in found["C106"]


def test_an_invalid_run_has_no_tests(tmp_path: Path) -> None:
    # A few dozen samples in place of a minute.
    outcome = comply(
        tmp_path / "tree",
        "Honest",
        "Offline",
        target_qps=1.0,
        min_duration_ms=60_000,
        attempts=1,
    )
    assert outcome.status == "invalid"
    assert "not run, because the run is not VALID" in outcome.message or "early" in outcome.message
    assert not outcome.tests


def test_the_older_layout_keeps_the_tests_beside_the_results(tmp_path: Path) -> None:
    wanted = plan(
        tmp_path / "tree",
        backend="tests.runner.cheats:Honest",
        scenarios=("SingleStream",),
        round="v5.1",
        task="resnet",
        compliance=True,
        attempts=1,
        min_duration_ms=500,
    )
    (outcome,) = run_benchmark(wanted)
    assert [test.name for test in outcome.tests] == ["TEST01", "TEST04"]
    home = tmp_path / "tree/closed/Assay"
    beside = home / "compliance/box/resnet/SingleStream"
    assert sorted(p.name for p in beside.iterdir()) == ["TEST01", "TEST04"]
    measured = home / "measurements/box/resnet/SingleStream"
    name = "box_tests-runner-cheats-Honest_SingleStream.json"
    assert sorted(p.name for p in measured.iterdir()) == sorted(["README.md", "user.conf", name])
    result = home / "results/box/resnet/SingleStream"
    assert sorted(p.name for p in result.iterdir()) == ["accuracy", "performance"]
    assert (home / "code/resnet/tests-runner-cheats-Honest/README.md").exists()
