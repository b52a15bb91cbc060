"""Static INT8 models: made from calibration samples, scored by the benchmark's own metric."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from runner import DatasetError, OutputError, SettingsError
from runner.benchmarks import open_benchmark
from runner.benchmarks.base import Score
from runner.benchmarks.digits import DIGITS
from runner.datasets.scenes import Scenes
from runner.quantize import Quantized, _indices, _keep_options, has_vnni, quantize

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
    assert any(
        onnx.numpy_helper.to_array(w).ndim == 1 and len(onnx.numpy_helper.to_array(w)) > 1
        for w in graph.initializer
        if w.name.endswith("_scale")
    )
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


def largest_weight(path: Path) -> int:
    """Of the INT8 weights; a zero point has no second dimension."""
    arrays = [onnx.numpy_helper.to_array(w) for w in onnx.load(path).graph.initializer]
    return max(
        int(np.abs(a.astype(np.int64)).max()) for a in arrays if a.dtype == np.int8 and a.ndim > 1
    )


def test_activations_with_a_zero_point(tmp_path: Path) -> None:
    out = tmp_path / "uint8.onnx"
    made = quantize(MODEL, "digits", out, calibration=40, activations="uint8")
    assert 94 <= made.after.value <= 99
    graph = onnx.load(out).graph
    points = [onnx.numpy_helper.to_array(w) for w in graph.initializer if "zero_point" in w.name]
    assert {str(point.dtype) for point in points} == {"uint8", "int8", "int32"}
    # What ReLU cuts off is below the type's own limit.
    assert "Relu" in {node.op_type for node in onnx.load(MODEL).graph.node}
    assert "Relu" not in {node.op_type for node in graph.node}
    with pytest.raises(SettingsError, match="activations 'int4'; expected int8 or uint8"):
        quantize(MODEL, "digits", tmp_path / "x.onnx", calibration=4, activations="int4")


def test_weights_of_seven_bits(tmp_path: Path) -> None:
    options: dict[str, Any] = {"calibration": 20, "op_types": ("Conv",)}
    made = quantize(MODEL, "digits", tmp_path / "7.onnx", reduce_range=True, **options)
    assert largest_weight(made.out) <= 64 and not made.cut_off
    full = quantize(MODEL, "digits", tmp_path / "8.onnx", **options)
    assert largest_weight(full.out) == 127


@pytest.mark.parametrize("model", ["digits:int8", "scenes:int8", "scenes:int8-all"])
def test_shipped_models_are_as_accurate_on_every_processor(model: str) -> None:
    name, precision = model.split(":")
    assert largest_weight(open_benchmark(name).models[precision]) <= 64


def test_processors_that_cut_sums_off_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"model")
    before, after = Score("acc", 90.0, ""), Score("acc", 89.0, "")
    made = Quantized(tmp_path / "a", tmp_path / "b", 1, 1, 1, before, after)
    assert "VNNI" not in made.text(None, None)
    text = replace(made, cut_off=True).text(None, None)
    assert "VNNI" in text and "--reduce-range" in text
    better = replace(made, cut_off=True, after=made.before)
    assert "VNNI" not in better.text(None, None)
    for flags, has in (("fma avx2", False), ("avx2 avx_vnni", True), ("avx512_vnni", True)):
        monkeypatch.setattr(
            Path, "read_text", lambda *_, flags=flags, **__: f"flags\t\t: fpu {flags}\n"
        )
        assert has_vnni() == has
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "Features : asimddp\n")
    assert has_vnni()


def test_the_library_s_own_words_do_not_reach_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quantize(MODEL, "digits", tmp_path / "p.onnx", calibration=10, method="percentile")
    assert capsys.readouterr().out == ""


def test_scenes_have_calibration_samples_of_their_own() -> None:
    data = Scenes()
    (samples,) = data.calibration_inputs().values()
    assert samples.shape == (100, 1, 96, 96) and 0 <= samples.min() < samples.max() <= 1
    assert not set(map(bytes, (255 * samples).astype(np.uint8))) & set(map(bytes, data.images))


def test_calibration_lists_may_name_files(tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text("b.JPEG\n0\n")
    data: Any = type(
        "Data",
        (),
        {"__len__": lambda _: 3, "paths": [Path("x/a.JPEG"), Path("x/b.JPEG"), Path("x/c.JPEG")]},
    )()
    assert _indices(listed, data) == [1, 0]
    # A published list: the label of each file in a second column is not a sample.
    listed.write_text("c.JPEG\t2\r\na.JPEG\t0\r\n\r\n")
    assert _indices(listed, data) == [2, 0]
    listed.write_text("0\n1 2\n")
    with pytest.raises(SettingsError, match="1 2"):
        _indices(listed, data)
    listed.write_text("d.JPEG\n")
    with pytest.raises(SettingsError, match="name of a file"):
        _indices(listed, data)


def test_the_file_beside_the_model_goes_with_it(tmp_path: Path) -> None:
    source, beside = tmp_path / "m.onnx", tmp_path / "m.toml"
    source.write_bytes(b"")
    _keep_options(source, tmp_path / "none.onnx", overwrite=False)
    assert not (tmp_path / "none.toml").exists()
    beside.write_text("label_offset = 1\n")
    out = tmp_path / "int8" / "q.onnx"
    out.parent.mkdir()
    _keep_options(source, out, overwrite=False)
    kept = out.with_suffix(".toml")
    assert kept.read_text() == "label_offset = 1\n"
    kept.write_text("label_offset = 0\n")
    with pytest.raises(OutputError, match="other settings"):
        _keep_options(source, out, overwrite=False)
    _keep_options(source, out, overwrite=True)
    assert kept.read_text() == "label_offset = 1\n"
