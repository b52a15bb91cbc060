"""Static INT8 models: made from calibration samples, scored by the benchmark's own metric."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from runner import DatasetError, OutputError, SettingsError
from runner.benchmarks.digits import DIGITS
from runner.quantize import quantize

MODEL = DIGITS.models["fp32"]


def test_the_whole_model_in_int8(tmp_path: Path) -> None:
    out = tmp_path / "int8.onnx"
    made = quantize(MODEL, "digits", out, calibration=40)
    assert made.calibrated == 40 and 0 < made.quantized <= made.operators
    assert made.before.value == pytest.approx(96.6)
    assert 94 <= made.after.value <= 99
    assert out.stat().st_size < 0.5 * MODEL.stat().st_size
    graph = onnx.load(out).graph
    zero_points = [
        onnx.numpy_helper.to_array(w) for w in graph.initializer if "zero_point" in w.name
    ]
    assert zero_points and all((z == 0).all() for z in zero_points if z.dtype == "int8")
    assert any(onnx.numpy_helper.to_array(w).ndim == 1 and len(onnx.numpy_helper.to_array(w)) > 1
               for w in graph.initializer if w.name.endswith("_scale"))  # fmt: skip
    text = made.text(95.634, "demo")
    assert "met by" in text and "ranges from 40 samples" in text
    assert "missed by" in made.text(100.0, "demo")
    with pytest.raises(OutputError, match="already"):
        quantize(MODEL, "digits", out)


def test_some_operators_only(tmp_path: Path) -> None:
    whole = quantize(MODEL, "digits", tmp_path / "all.onnx", calibration=10)
    some = quantize(MODEL, "digits", tmp_path / "conv.onnx", calibration=10, op_types=("Conv",))
    assert 0 < some.quantized < whole.quantized
    with pytest.raises(SettingsError, match="no node named"):
        quantize(MODEL, "digits", tmp_path / "x.onnx", exclude=("nothing*",))
    assert not (tmp_path / "x.onnx").exists()


def test_calibration_lists(tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text("3\n5\n7\n")
    made = quantize(MODEL, "digits", tmp_path / "a.onnx", calibration_list=listed)
    assert made.calibrated == 3
    for text in ("3\n500\n", "three\n", ""):
        listed.write_text(text)
        with pytest.raises(SettingsError, match=r"list\.txt"):
            quantize(MODEL, "digits", tmp_path / "b.onnx", calibration_list=listed)
    with pytest.raises(DatasetError, match="--calibration-list"):
        quantize(MODEL, "tests.runner.broken:UNCALIBRATED", tmp_path / "c.onnx")
