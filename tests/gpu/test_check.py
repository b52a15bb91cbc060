"""The GPU check itself, on a TensorRT that is played: so that it works when a GPU is lent."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.gpu.check import COLUMNS, Line, difference, main, table

FAKE = "tests.runner.trt.fake:FakeTensorRT"


def test_a_row_of_everything(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command = ["--backend", FAKE, "--benchmark", "digits", "--precision", "fp16"]
    status = main([*command, "--seconds", "0.5", "--markdown", str(tmp_path / "table.md")])
    told = capsys.readouterr()
    assert status == 0, told.out
    header, _rule, row, *_ = told.out.splitlines()
    assert [cell.strip() for cell in header.strip("|").split("|")] == list(COLUMNS)
    cells = dict(zip(COLUMNS, (c.strip() for c in row.strip("|").split("|")), strict=True))
    assert cells["verdict"] == "ok" and all(cells.values())
    assert (tmp_path / "table.md").read_text().startswith("| benchmark")


def test_out_of_time_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--backend", FAKE, "--budget", "-1", "--benchmark", "digits"]) == 0
    assert capsys.readouterr().out.count("not run: out of time") == 3


def test_without_a_gpu_it_says_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorrt", None)
    assert main([]) == 2
    assert "found no TensorRT" in capsys.readouterr().err


def test_differences() -> None:
    boxes = np.arange(14, dtype=np.float32).reshape(2, 7)
    assert difference(boxes, boxes[::-1]) == 0
    assert difference(np.ones(4), np.ones(5)) == float("inf")
    assert difference(np.array([10.0, 0]), np.array([10.0, 1])) == pytest.approx(0.1)
    assert "| digits" in table([Line({"benchmark": "digits"})])


def test_the_script_is_sound() -> None:
    script = Path(__file__).with_name("check.sh")
    assert script.stat().st_mode & 0o100
    subprocess.run(["bash", "-n", str(script)], check=True)
