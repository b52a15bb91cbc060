"""`assay compliance verify` on trees made here."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.cli import main
from tests.trees import good_tree


@pytest.fixture
def tree(tmp_path: Path) -> list[str]:
    made = good_tree(tmp_path, round="v6.0", benchmark="resnet", scenarios=["Offline"])
    paths = made.result("Offline")
    return [
        "compliance",
        "verify",
        str(made.root / paths.compliance("TEST01")),
        "--main",
        str(made.root / paths.path),
        "--benchmark",
        "resnet50",
        "--scenario",
        "offline",
        "--round",
        "6.0",
    ]


def test_good_test_passes_and_is_written(
    tree: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*tree, "--write"]) == 0
    out, err = capsys.readouterr()
    assert "TEST01: TEST PASS" in out
    assert "verify_performance.txt" in err
    assert "TEST PASS" in (Path(tree[2]) / "verify_performance.txt").read_text()


def test_slow_test_fails_and_says_why(tree: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    log = Path(tree[2]) / "performance" / "run_1" / "mlperf_log_detail.txt"
    lines = log.read_text().splitlines()
    key = '"key": "result_samples_per_second", "value": '
    at = next(i for i, line in enumerate(lines) if key in line)
    head, tail = lines[at].split(key)
    lines[at] = f"{head}{key}1.5,{tail.split(',', 1)[1]}"
    log.write_text("\n".join(lines) + "\n")
    assert main(tree) == 1
    assert "TEST FAIL" in capsys.readouterr().out


@pytest.mark.parametrize(
    "change",
    [("--round", "v9.9"), ("--benchmark", "nope"), ("--scenario", "nope"), ("--main", "nowhere")],
)
def test_usage_errors(
    tree: list[str], change: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    tree[tree.index(change[0]) + 1] = change[1]
    assert main(tree) == 2
    assert capsys.readouterr().err


def test_unknown_test(tree: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*tree, "--test", "TEST05"]) == 2
    assert "TEST05" in capsys.readouterr().err


def test_write_replaces_a_link_and_leaves_its_target(tree: list[str], tmp_path: Path) -> None:
    secret = tmp_path / "outside.txt"
    secret.write_text("keep me")
    place = Path(tree[2]) / "verify_performance.txt"
    place.unlink()
    place.symlink_to(secret)
    assert main([*tree, "--write"]) == 0
    assert secret.read_text() == "keep me"
    assert not place.is_symlink() and "TEST PASS" in place.read_text()
