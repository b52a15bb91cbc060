"""The ONNX file before TensorRT sees it: signature, float16, symmetric INT8."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from runner.backends.trt.fp16 import GREATEST, half_of, to_fp16
from runner.backends.trt.int8 import to_symmetric
from runner.backends.trt.model import file_digest, has_free_rows, prepare
from runner.benchmarks.base import Tensor
from runner.benchmarks.digits import DIGITS
from runner.errors import BackendError

F, I64 = TensorProto.FLOAT, TensorProto.INT64


def model(
    nodes: list[Any],
    inputs: dict[str, tuple[int, list[Any]]],
    outputs: dict[str, tuple[int, list[Any]]],
    weights: dict[str, Any] | None = None,
) -> Any:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in outputs.items()],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (weights or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    onnx.checker.check_model(made, full_check=True)
    return made


def run(made: Any, **feed: Any) -> list[np.ndarray[Any, Any]]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    outputs: list[np.ndarray[Any, Any]] = session.run(None, feed)
    return outputs


def kinds(made: Any) -> list[str]:
    return [node.op_type for node in made.graph.node]


# --- preparing ---------------------------------------------------------------------------------


def test_a_model_that_needs_nothing_is_parsed_where_it_lies(tmp_path: Path) -> None:
    path = DIGITS.models["fp32"]
    made = prepare(path, DIGITS, "as-is", tmp_path)
    assert (made.path, made.precision, made.notes, made.fixed_batch) == (path, "fp32", (), None)
    assert made.sha256 == file_digest(path)
    assert not made.whole and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_digits_keep_their_accuracy(precision: str, tmp_path: Path) -> None:
    dataset: Any = DIGITS.make_dataset(None)
    feed = dict(dataset.load(range(len(dataset))))
    before = onnx.load(str(DIGITS.models[precision]))
    asked = "fp16" if precision == "fp32" else "as-is"
    made = prepare(DIGITS.models[precision], DIGITS, asked, tmp_path)
    assert made.precision == ("fp16" if precision == "fp32" else "int8")
    assert made.notes and made.path.parent == tmp_path
    (old,), (new,) = run(before, **feed), run(onnx.load(str(made.path)), **feed)
    right = [(logits.argmax(1) == dataset.labels).mean() for logits in (old, new)]
    assert right[1] >= 0.995 * right[0]
    assert new.dtype == np.float32
    # The same again is the same file.
    assert prepare(DIGITS.models[precision], DIGITS, asked, tmp_path) == made


def test_another_signature_is_refused(tmp_path: Path) -> None:
    other = replace(DIGITS, inputs=(Tensor("picture", (None, 1, 28, 28), "float32"),))
    with pytest.raises(BackendError, match=r"found inputs 'image' \[None, 1, 28, 28\] float32"):
        prepare(DIGITS.models["fp32"], other, "as-is", tmp_path)
    half = replace(DIGITS, outputs=(Tensor("logits", (None, 10), "float16"),))
    with pytest.raises(BackendError, match="expected 'logits'"):
        prepare(DIGITS.models["fp32"], half, "as-is", tmp_path)


def test_files_that_are_no_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="found no file"):
        prepare(tmp_path / "absent.onnx", DIGITS, "as-is", tmp_path)
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(BackendError, match="cannot be read as ONNX"):
        prepare(tmp_path / "text.onnx", DIGITS, "as-is", tmp_path)


def test_a_quantised_model_is_not_made_fp16(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="found a model in int8; expected fp16"):
        prepare(DIGITS.models["int8"], DIGITS, "fp16", tmp_path)


def test_a_fixed_batch_is_told(tmp_path: Path) -> None:
    fixed = onnx.load(str(DIGITS.models["fp32"]))
    for value in (fixed.graph.input[0], fixed.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_value = 4
    onnx.save(fixed, str(tmp_path / "m.onnx"))
    assert prepare(tmp_path / "m.onnx", DIGITS, "as-is", tmp_path).fixed_batch == 4


def test_weights_in_other_files_count_for_the_digest(tmp_path: Path) -> None:
    made = onnx.load(str(DIGITS.models["fp32"]))
    onnx.save(
        made, str(tmp_path / "m.onnx"), save_as_external_data=True, location="w", size_threshold=0
    )
    before = file_digest(tmp_path / "m.onnx")
    data = bytearray((tmp_path / "w").read_bytes())
    data[0] ^= 1
    (tmp_path / "w").write_bytes(data)
    assert file_digest(tmp_path / "m.onnx") != before


def test_rows_that_are_no_samples_are_seen_by_their_name() -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["i"]), helper.make_node("Transpose", ["i"], ["y"])]
    assert has_free_rows(model(nodes, {"x": (F, ["N", 2])}, {"y": (I64, ["K", 2])}))
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    assert not has_free_rows(model(relu, {"x": (F, ["N", 2])}, {"y": (F, ["N", 2])}))


# --- float16 -----------------------------------------------------------------------------------


def test_inputs_and_outputs_stay_float32_and_the_middle_does_not() -> None:
    made = model(
        [
            helper.make_node("MatMul", ["x", "w"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Add", ["a", "b"], ["y"]),
        ],
        {"x": (F, ["N", 3])},
        {"y": (F, ["N", 2]), "b": (F, ["N", 2])},
        {"w": np.ones((3, 2), np.float32)},
    )
    before = run(made, x=np.ones((2, 3), np.float32))
    assert to_fp16(made) == []
    assert kinds(made) == ["Cast", "MatMul", "Relu", "Cast", "Add", "Cast"]
    assert {w.name: w.data_type for w in made.graph.initializer} == {"w_fp16": TensorProto.FLOAT16}
    for old, new in zip(before, run(made, x=np.ones((2, 3), np.float32)), strict=True):
        assert new.dtype == np.float32 and np.allclose(old, new)


def test_what_float16_cannot_carry_stays_float32() -> None:
    made = model(
        [
            helper.make_node("Resize", ["x", "", "scales"], ["a"]),
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Cast", ["s"], ["f"], to=F),
            helper.make_node("Mul", ["f", "many"], ["g"]),
            helper.make_node("Cast", ["f"], ["exact"], to=I64),
            helper.make_node("Relu", ["a"], ["y"]),
        ],
        {"x": (F, [1, 1, 2, 2])},
        {"y": (F, [1, 1, 6, 6]), "g": (F, [4]), "exact": (I64, [4])},
        {"scales": np.array([1, 1, 3, 3], np.float32), "many": np.float32(2)},
    )
    to_fp16(made)
    kept = {w.name: w.data_type for w in made.graph.initializer}
    assert kept["scales"] == F
    y, g, exact = run(made, x=np.ones((1, 1, 2, 2), np.float32))
    assert y.shape == (1, 1, 6, 6) and g.tolist() == [2, 2, 4, 4] and exact.tolist() == [1, 1, 2, 2]


def test_quantised_islands_keep_their_types() -> None:
    made = model(
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("Mul", ["d", "s"], ["y"]),
        ],
        {"x": (F, ["N"])},
        {"y": (F, ["N"])},
        {"s": np.float32(0.5), "z": np.int8(0)},
    )
    to_fp16(made)
    assert sorted(w.name for w in made.graph.initializer) == ["s", "s_fp16", "z"]
    assert run(made, x=np.array([-1, 3], np.float32))[0].tolist() == [0, 1.5]


def test_constants_and_filled_tensors_are_converted() -> None:
    made = model(
        [
            helper.make_node("Constant", [], ["c"], value_floats=[1.0, 2.0]),
            helper.make_node("Constant", [], ["shape"], value_ints=[2]),
            helper.make_node(
                "ConstantOfShape",
                ["shape"],
                ["full"],
                value=numpy_helper.from_array(np.array([3], np.float32)),
            ),
            helper.make_node("ConstantOfShape", ["shape"], ["zero"]),
            helper.make_node("Sum", ["x", "c", "full", "zero"], ["y"]),
        ],
        {"x": (F, [2])},
        {"y": (F, [2])},
    )
    to_fp16(made)
    assert run(made, x=np.zeros(2, np.float32))[0].tolist() == [4, 5]


def test_control_flow_is_refused() -> None:
    branch = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["b"])],
        "b",
        [],
        [helper.make_tensor_value_info("b", F, [2])],
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    made = model([node], {"x": (F, [2]), "c": (TensorProto.BOOL, [])}, {"y": (F, [2])})
    with pytest.raises(BackendError, match=r"found If in the model.*Export the model in float16"):
        to_fp16(made)


def test_values_beyond_float16_are_clamped_and_told() -> None:
    half, clamped = half_of(np.array([1e9, -1e9, np.inf, 1e-12, -1e-12, 0, 1.5], np.float32))
    assert clamped == 2
    assert half.tolist()[:3] == [GREATEST, -GREATEST, np.inf]
    assert half[3] > 0 > half[4] and half[5] == 0 and half[6] == 1.5
    made = model(
        [helper.make_node("Add", ["x", "mask"], ["y"])],
        {"x": (F, [1])},
        {"y": (F, [1])},
        {"mask": np.array([-1e9], np.float32)},
    )
    assert to_fp16(made) == ["1 of 1 values of 'mask' were beyond float16 and clamped."]


# --- INT8 --------------------------------------------------------------------------------------


def quantised(zero: Any, **more: Any) -> Any:
    weights = {"s": np.float32(0.1), "z": np.asarray(zero), **more.pop("weights", {})}
    nodes = more.pop("nodes", [])
    return model(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            *nodes,
        ],
        {"x": (F, ["N", 2])},
        more.pop("outputs", {"d": (F, ["N", 2])}),
        weights,
    )


def test_a_symmetric_model_is_left_alone() -> None:
    made = quantised(np.int8(0))
    before = made.SerializeToString()
    assert to_symmetric(made) == []
    assert kinds(made) == ["QuantizeLinear", "DequantizeLinear"]
    assert made.SerializeToString() == before


@pytest.mark.parametrize("zero", [np.int8(-128), np.uint8(0)])
def test_a_one_sided_range_gets_its_relu_back(zero: Any) -> None:
    made = quantised(zero)
    x = np.array([[-3.0, 0.04], [25.5, 12.3]], np.float32)
    (before,) = run(made, x=x)
    assert to_symmetric(made) == [
        "1 asymmetric quantisations were made symmetric, with 1 ReLUs put back."
    ]
    assert kinds(made) == ["Relu", "QuantizeLinear", "DequantizeLinear"]
    (after,) = run(made, x=x)
    assert after[0, 0] == 0 and np.abs(after - before).max() <= 0.1 * 255 / 127
    assert after.max() == pytest.approx(25.5)


def test_a_two_sided_range_keeps_its_reach() -> None:
    made = quantised(np.int8(36))
    x = np.array([[-16.4, 9.1]], np.float32)
    (before,) = run(made, x=x)
    assert "with 0 ReLUs" in to_symmetric(made)[0]
    assert np.abs(run(made, x=x)[0] - before).max() <= 0.1 * 164 / 127


def test_biases_and_unsigned_weights() -> None:
    made = quantised(
        np.int8(0),
        nodes=[
            helper.make_node("DequantizeLinear", ["w8", "ws", "wz"], ["w"], axis=0),
            helper.make_node("DequantizeLinear", ["b32", "bs", "bz"], ["b"], axis=0),
            helper.make_node("Gemm", ["d", "w", "b"], ["y"], transB=1),
        ],
        outputs={"y": (F, ["N", 2])},
        weights={
            "w8": np.array([[1, 255], [7, 30]], np.uint8),
            "ws": np.array([0.5, 0.25], np.float32),
            "wz": np.array([128, 0], np.uint8),
            "b32": np.array([100, -7], np.int32),
            "bs": np.array([0.05, 0.025], np.float32),
            "bz": np.array([0, 0], np.int32),
        },
    )
    x = np.array([[1.0, -2.0]], np.float32)
    (before,) = run(made, x=x)
    notes = to_symmetric(made)
    assert notes == [
        "1 asymmetric quantisations were made symmetric, with 0 ReLUs put back.",
        "1 INT32 biases were restored to float32.",
    ]
    onnx.checker.check_model(made, full_check=True)
    assert np.allclose(run(made, x=x)[0], before, atol=0.6)


def test_what_cannot_be_rewritten_is_refused() -> None:
    with pytest.raises(BackendError, match="ends at zero from below"):
        to_symmetric(quantised(np.int8(127)))
    dynamic = model(
        [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])],
        {"x": (F, [2])},
        {"q": (TensorProto.UINT8, [2])},
    )
    with pytest.raises(BackendError, match="quantised while it runs"):
        to_symmetric(dynamic)
