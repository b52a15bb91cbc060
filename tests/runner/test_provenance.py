"""Statements about a result come from the files that ran."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from runner import BackendError, SettingsError, run_benchmark
from runner.benchmarks.digits import DIGITS
from runner.provenance import sha256, weight_types
from tests.runner.plans import changed
from tests.runner.test_reference import plan

FP32, INT8 = DIGITS.models["fp32"], DIGITS.models["int8"]


def test_a_given_model_is_described_by_what_it_holds(tmp_path: Path) -> None:
    model = tmp_path / "mine.onnx"
    shutil.copy(INT8, model)
    (outcome,) = run_benchmark(
        plan(tmp_path / "tree", scenarios=("SingleStream",), backend="onnxruntime", model=model)
    )
    assert outcome.path is not None
    measurements = json.loads((outcome.path / "measurements.json").read_text())
    assert measurements["weight_data_types"] == "int8"
    assert measurements["starting_weights_filename"] == "mine.onnx"
    assert measurements["weight_transformations"].startswith("none by this system: mine.onnx")
    readme = (outcome.path / "README.md").read_text()
    digest = hashlib.sha256(INT8.read_bytes()).hexdigest()
    assert "| Model | mine.onnx, int8 |" in readme
    assert f"| SHA-256 of the model | {digest} |" in readme
    assert "tools/train" not in readme
    calibration = tmp_path / "tree/closed/Assay/documentation/calibration.md"
    assert digest in calibration.read_text()
    assert "ranges by minimum and maximum" not in calibration.read_text()


@pytest.mark.parametrize(
    ("model", "precision", "found"), [(FP32, "int8", "fp32"), (INT8, "fp32", "int8")]
)
def test_a_contradiction_is_refused_before_the_run(
    model: Path, precision: str, found: str, tmp_path: Path
) -> None:
    wrong = plan(tmp_path / "tree", backend="onnxruntime", model=model, precision=precision)
    with pytest.raises(SettingsError, match=f"found weights of {found} in .*expected {precision}"):
        run_benchmark(wrong)
    assert list(tmp_path.iterdir()) == []
    # The dummy backend runs no model, so that there is nothing to contradict.
    quick = changed(wrong, backend="dummy", scenarios=("SingleStream",))
    assert run_benchmark(quick)[0].path is not None


def test_fake_quantised_weights_and_constants(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    scale = numpy_helper.from_array(np.float32(0.1), "scale")
    zero = numpy_helper.from_array(np.int8(0), "zero")
    half = numpy_helper.from_array(np.ones((4, 4), np.float16))
    nodes = [
        helper.make_node("QuantizeLinear", ["w", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
        helper.make_node("Constant", [], ["half"], value=half),
        helper.make_node("Cast", ["half"], ["single"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["y", "single"], ["z"]),
        helper.make_node("Add", ["z", "w"], ["out"]),  # not a weight of a product
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in ("x", "out")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight, scale, zero])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    assert weight_types(tmp_path / "m.onnx") == ("fp16", "int8")


def test_a_folder_s_hash_changes_with_names_and_content(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"1")
    line = f"{hashlib.sha256(b'1').hexdigest()}  a/b\n"
    assert sha256(tmp_path) == hashlib.sha256(line.encode()).hexdigest()


def test_a_backend_of_three_methods_is_named_by_its_place(tmp_path: Path) -> None:
    # It is given a model, as a named backend is; it need not read it.
    name = "tests.runner.broken:Plain"
    short = plan(tmp_path / "tree", scenarios=("SingleStream",), backend=name)
    (outcome,) = run_benchmark(short)
    assert outcome.path is not None, outcome.message
    assert f"| Executed by | {name} |" in (outcome.path / "README.md").read_text()


def test_a_backend_that_lacks_methods_is_refused_before_the_run(tmp_path: Path) -> None:
    lacking = plan(tmp_path / "tree", backend="tests.runner.broken:Half")
    with pytest.raises(BackendError, match="found no infer, close in backend"):
        run_benchmark(lacking)
    assert list(tmp_path.iterdir()) == []
