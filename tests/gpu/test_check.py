"""The GPU check itself, on a TensorRT that is played: so that it works when a GPU is lent."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.gpu import parts
from tests.gpu.check import COLUMNS, COLUMNS_OF, difference, main
from tests.gpu.rows import BEGIN, END, Rows, put_into, tables
from tools.bench import models

FAKE = "tests.runner.trt.fake:FakeTensorRT"


def kept(place: Path) -> list[dict[str, str]]:
    return [json.loads(line)["row"] for line in place.read_text().splitlines()]


def test_a_row_of_every_column_is_printed_and_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = tmp_path / "rows.jsonl"
    command = ["precisions", "--backend", FAKE, "--benchmark", "digits", "--precision", "fp16"]
    status = main([*command, "--seconds", "0.5", "--kept", str(place)])
    told = capsys.readouterr().out
    assert status == 0, told
    (row,) = kept(place)
    assert list(row) == list(COLUMNS) and row["verdict"] == "ok" and all(row.values())
    page = tmp_path / "page.md"
    page.write_text(f"# TensorRT\n\n{BEGIN}\nolder\n{END}\nbelow\n")
    assert main(["write", str(page), "--kept", str(place)]) == 0
    assert "### precisions" in page.read_text() and "older" not in page.read_text()
    assert page.read_text().endswith(f"{END}\nbelow\n")


def test_out_of_time_is_said(tmp_path: Path) -> None:
    place = tmp_path / "rows.jsonl"
    assert main(["precisions", "--backend", FAKE, "--budget", "-1", "--kept", str(place)]) == 0
    told = kept(place)
    assert {row["verdict"] for row in told} == {"not run: out of time"}
    assert [(row["benchmark"], row["precision"]) for row in told][:3] == [
        ("digits", "fp32"),
        ("digits", "fp16"),
        ("digits", "int8"),
    ]
    assert ("digits", "bf16") in [(row["benchmark"], row["precision"]) for row in told]


def test_the_parts_on_a_played_tensorrt(tmp_path: Path) -> None:
    """ResNet-50 takes too long on a CPU: `tiny` has its signature."""
    tiny, options = models.make(models.TINY), {"cache": str(tmp_path / "engines")}

    def rows(part: str) -> Rows:
        return Rows(part, COLUMNS_OF[part], tmp_path / f"{part}.jsonl")

    parts.sweep(rows("sweep"), FAKE, options, 0.01, (1, 4), (1, 2), tiny)
    swept = kept(tmp_path / "sweep.jsonl")
    assert [(r["samples"], r["streams"], r["batch"]) for r in swept] == [
        ("pinned", "1", "1"),
        ("pinned", "1", "4"),
        ("pinned", "2", "1"),
        ("pinned", "2", "4"),
        ("device", "2", "1"),
        ("device", "2", "4"),
    ]
    assert all(float(row["samples/s"].replace(",", "")) > 0 for row in swept)
    parts.libraries(rows("libraries"), FAKE, options, 0.01, 4, tiny)
    (row,) = kept(tmp_path / "libraries.jsonl")
    assert row["verdict"] == "ok" and float(row["batch 1, us"]) > 0
    parts.onnxruntime(rows("onnxruntime"), FAKE, options, 0.01, 4, tiny)
    first, second = kept(tmp_path / "onnxruntime.jsonl")
    assert first["verdict"].startswith("not run: ") and second["verdict"] == "ok"
    parts.scenarios(
        rows("scenarios"), FAKE, options, 0.3, tmp_path, "tools.bench.models:TINY", tiny
    )
    ran = kept(tmp_path / "scenarios.jsonl")
    assert [row["scenario"] for row in ran] == ["Offline", "Server", "SingleStream", "MultiStream"]
    assert not [row for row in ran if row["verdict"].startswith("FAILED")], ran
    assert all(row["metric"] for row in ran)


def test_the_pipeline_needs_no_tensorrt(tmp_path: Path) -> None:
    place = tmp_path / "rows.jsonl"
    rows = Rows("pipeline", COLUMNS_OF["pipeline"], place)
    parts.pipeline(rows, ("host", "pycuda"), 0.05, 8, 40_000, 2)
    here, absent = kept(place)
    assert here["verdict"] == "ok" and float(here["of ideal"]) > 0
    assert absent["verdict"].startswith("not run: ")


def test_a_failed_row_is_counted_and_a_page_without_marks_refused(tmp_path: Path) -> None:
    rows = Rows("libraries", COLUMNS_OF["libraries"], tmp_path / "rows.jsonl")
    rows.add({"library": "x", "verdict": "FAILED: y"})
    assert rows.failed == 1 and "| x " in tables(tmp_path / "rows.jsonl")
    (tmp_path / "page.md").write_text("none")
    with pytest.raises(SystemExit, match="found no '<!-- measured by"):
        put_into(tmp_path / "page.md", "")


def test_the_page_has_the_marks() -> None:
    page = Path(__file__).parents[2] / "docs" / "performance-tensorrt.md"
    text = page.read_text(encoding="utf-8")
    assert text.index(BEGIN) < text.index(END)


def test_without_a_gpu_it_says_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorrt", None)
    assert main(["sweep"]) == 2
    assert "found no TensorRT" in capsys.readouterr().err


def test_differences() -> None:
    boxes = np.arange(14, dtype=np.float32).reshape(2, 7)
    assert difference(boxes, boxes[::-1]) == 0
    assert difference(np.ones(4), np.ones(5)) == float("inf")
    assert difference(np.array([10.0, 0]), np.array([10.0, 1])) == pytest.approx(0.1)


def test_the_script_ends_with_2_where_nothing_can_be_measured(tmp_path: Path) -> None:
    script = Path(__file__).with_name("check.sh")
    assert script.stat().st_mode & 0o100
    environment = {
        **os.environ,
        "ROWS": str(tmp_path / "rows"),
        "PYTHON": __import__("sys").executable,
    }
    done = subprocess.run([str(script)], capture_output=True, text=True, env=environment)
    if done.returncode != 2:
        pytest.skip("there is a GPU here")
    assert "To install" in done.stdout and "is missing (see above)" in done.stderr
