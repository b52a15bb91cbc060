"""Calibration caches, Q/DQ pairs by what they hold, bfloat16, and what layers run in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from runner.backends.trt.calibration import (
    HEAD,
    cache_text,
    fp8_bits,
    insert,
    read_cache,
    scales_of,
)
from runner.backends.trt.fp16 import bf16_bits, to_bf16
from runner.backends.trt.int8 import is_fp8, to_symmetric
from runner.backends.trt.layers import parse_layers, summary, table
from runner.backends.trt.model import held_precision, prepare
from runner.benchmarks.digits import DIGITS
from runner.errors import BackendError

FP32, INT8 = DIGITS.models["fp32"], DIGITS.models["int8"]
DATA = DIGITS.make_dataset(None)
FEED = {name: np.array(array) for name, array in DATA.load(range(200)).items()}


def answers(model: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, FEED)[0].argmax(1)


@given(
    st.dictionaries(
        st.text(st.characters(blacklist_categories=["C", "Z"]), min_size=1),
        st.floats(0, 2.0**90, width=32),
        max_size=6,
    )
)
def test_a_cache_is_read_as_it_was_written(scales: dict[str, float]) -> None:
    place = Path("calibration.cache")
    text = cache_text(scales)
    assert text.startswith(HEAD + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", lambda self, mode: __import__("io").BytesIO(text.encode()))
        assert read_cache(place) == scales


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected a calibration cache of TensorRT"),
        ("{}\n", "found '{}' in the first line"),
        (f"{HEAD}\nimage 3c010a14\n", "line 2: found 'image 3c010a14'"),
        (f"{HEAD}\nimage: 3c010a1\n", "line 2"),
        (f"{HEAD}\n\nimage: 7fc00000\n", "line 3.*positive float32"),
        (f"{HEAD}\nimage: bf800000\n", "line 2"),
    ],
)
def test_a_damaged_cache_is_refused(text: str, told: str, tmp_path: Path) -> None:
    place = tmp_path / "x.cache"
    place.write_text(text)
    with pytest.raises(BackendError, match=told):
        read_cache(place)


def test_a_published_line_is_read(tmp_path: Path) -> None:
    place = tmp_path / "x.cache"
    place.write_text("TRT-8601-EntropyCalibration2\r\ninput: 3c010a14\r\n")
    assert read_cache(place) == {"input": pytest.approx(0.0078759, rel=1e-5)}


def test_scales_are_those_of_the_symmetric_model() -> None:
    given_model, made = onnx.load(str(INT8)), onnx.load(str(INT8))
    to_symmetric(made)
    weights = {w.name: numpy_helper.to_array(w) for w in made.graph.initializer}
    scales = scales_of(given_model)
    assert len(scales) >= 3
    by_output = {
        node.output[0]: float(weights[node.input[1]])
        for node in made.graph.node
        if node.op_type == "QuantizeLinear"
    }
    named = {
        node.output[0]: node.input[0]
        for node in given_model.graph.node
        if node.op_type == "QuantizeLinear"
    }
    for output, scale in by_output.items():
        assert scales[named[output]] == pytest.approx(scale, rel=1e-6)


@pytest.mark.parametrize("kind", ["int8", "fp8"])
def test_pairs_by_a_cache_keep_the_answers(kind: str) -> None:
    model = onnx.load(str(FP32))
    expected = answers(model)
    notes = insert(model, scales_of(onnx.load(str(INT8))), kind)
    onnx.checker.check_model(model)
    assert held_precision(model) == kind and is_fp8(model) == (kind == "fp8")
    assert notes[0].endswith(f"were made {kind.upper()} by the calibration cache.")
    least = {"int8": 0.98, "fp8": 0.95}[kind]  # three bits of mantissa, one scale for a tensor
    assert (answers(model) == expected).mean() > least
    # TensorRT takes it as it is: nothing is left to rewrite.
    before = model.SerializeToString()
    assert to_symmetric(model) == []
    assert [n.op_type for n in model.graph.node] == [
        n.op_type for n in onnx.load_from_string(before).graph.node
    ]
    assert (answers(model) == expected).mean() > least


def test_what_the_cache_does_not_know_stays_float32() -> None:
    model = onnx.load(str(FP32))
    scales = scales_of(onnx.load(str(INT8)))
    first = next(n for n in model.graph.node if n.op_type == "Conv").input[0]
    notes = insert(model, {first: scales[first]}, "int8")
    assert notes[0].startswith("1 of ")
    with pytest.raises(BackendError, match="found 1 tensors in the calibration cache, and none"):
        insert(onnx.load(str(FP32)), {"other": 1.0}, "int8")


@given(arrays.arrays(np.float32, st.integers(1, 40), elements=st.floats(-500, 500, width=32)))
def test_fp8_is_the_nearest_value(array: Any) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    expected = np.clip(array, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    assert np.array_equal(fp8_bits(array), expected.view(np.uint8))


@given(arrays.arrays(np.float32, st.integers(1, 40), elements=st.floats(width=32, allow_nan=False)))
def test_bfloat16_is_the_nearest_value(array: Any) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert np.array_equal(bf16_bits(array), array.astype(ml_dtypes.bfloat16).view(np.uint16))


def test_a_model_in_bfloat16_keeps_the_answers() -> None:
    """By ONNX's own evaluator: ONNX Runtime has no bfloat16 on a CPU."""
    model = onnx.load(str(FP32))
    assert to_bf16(model) == [] and held_precision(model) == "bf16"
    feed = {name: array[:20] for name, array in FEED.items()}
    seen = ReferenceEvaluator(model).run(None, feed)[0]
    assert seen.dtype == np.float32
    assert (seen.argmax(1) == answers(onnx.load(str(FP32)))[:20]).all()


def test_custom_fp8_of_older_exporters_is_known() -> None:
    node = helper.make_node("TRT_FP8QuantizeLinear", ["x", "s"], ["y"], domain="trt")
    model = helper.make_model(helper.make_graph([node], "g", [], []))
    assert held_precision(model) == "fp8"


def test_the_signature_is_checked_before_anything_is_made(tmp_path: Path) -> None:
    prepared = prepare(FP32, DIGITS, "bf16", tmp_path)
    assert prepared.precision == "bf16" and prepared.notes == (
        "Converted from float32 to bfloat16.",
    )
    kinds = {w.data_type for w in onnx.load(str(prepared.path)).graph.initializer}
    assert TensorProto.BFLOAT16 in kinds and TensorProto.FLOAT not in kinds


def test_layers_by_tensorrts_account() -> None:
    tensor = lambda text: [{"Name": "t", "Format/Datatype": text}]  # noqa: E731
    told = {
        "Layers": [
            {"Name": "a", "LayerType": "CaskConvolution",
             "Inputs": tensor("Thirty-two wide channel vectorized row major Int8 format"),
             "Outputs": tensor("Channel major FP16 format where channel % 8 == 0")},
            {"Name": "b", "LayerType": "gemm", "Inputs": tensor("Row major linear FP8 format"),
             "Outputs": tensor("BFloat16")},
            {"Name": "c", "LayerType": "Reformat", "Inputs": tensor("Row major linear FP32"),
             "Outputs": tensor("Half")},
            {"Name": "d", "LayerType": "Shape", "Inputs": tensor("Int64"), "Outputs": []},
        ]
    }  # fmt: skip
    layers = parse_layers(json.dumps(told))
    assert [layer.precision for layer in layers] == ["int8", "fp8", "fp16", ""]
    assert layers[1].outputs == ("bf16",)
    assert summary(layers) == "1 int8, 1 fp8, 1 fp16 layers"
    assert table(layers).splitlines()[1] == "a\tCaskConvolution\tint8\tint8\tfp16"
    for text in ("", "[]", '{"Layers": ["names only"]}', '{"Layers": 3}', "null"):
        assert parse_layers(text) == () and summary(()) == ""
