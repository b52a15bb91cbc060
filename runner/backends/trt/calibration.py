"""Calibration caches, and Q/DQ pairs in a float32 model by what they hold.

A cache is TensorRT's text file: a line "TRT-<version>-<calibrator>", then "<tensor>: <hex>" lines,
where the hexadecimal digits are a big-endian float32: the tensor's INT8 scale, its greatest
absolute value divided by 127.  TensorRT 11 has no calibrator any more; the caches of older
submissions are used by writing what they say into the model.

    python -m runner.backends.trt.calibration quantised.onnx cache.txt     write a model's scales
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from runner.errors import BackendError

HEAD = "TRT-100000-EntropyCalibration2"
INT8_MOST, FP8_MOST = 127.0, 448.0
MOST_BYTES = 64 << 20  # of a cache; a real one has some thousand lines

_LINE = re.compile(r"(?P<name>.+): (?P<hex>[0-9a-fA-F]{8})\Z")
# The operators that are quantised, and the axis of a weight's output channels.
_AXES = {"Conv": 0, "MatMul": -1, "Gemm": -1}


def read_cache(path: Path) -> dict[str, float]:
    """Tensor name to INT8 scale.

    Raises:
        BackendError: no such file, another format, or a scale that is not a positive number.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BackendError(f"{path}: cannot be read as a calibration cache ({error}).") from error
    head, *lines = text.splitlines() or [""]
    if len(text) > MOST_BYTES or not re.match(r"TRT-\d+-\w+", head):
        raise BackendError(
            f"{path}: found {head[:60]!r} in the first line; expected a calibration cache of "
            "TensorRT, which begins with TRT-<version>-<calibrator>."
        )
    scales = {}
    for number, line in enumerate(lines, 2):
        if not line.strip():
            continue
        match = _LINE.match(line.strip())
        value = struct.unpack(">f", bytes.fromhex(match["hex"]))[0] if match else float("nan")
        if match is None or not (np.isfinite(value) and value >= 0):
            raise BackendError(
                f"{path}, line {number}: found {line[:60]!r}; expected a tensor's name, a colon "
                "and eight hexadecimal digits of a positive float32."
            )
        scales[match["name"]] = value
    return scales


def cache_text(scales: Mapping[str, float]) -> str:
    """A calibration cache with these scales."""
    lines = [f"{name}: {struct.pack('>f', scale).hex()}" for name, scale in scales.items()]
    return "\n".join([HEAD, *lines]) + "\n"


def scales_of(model: Any) -> dict[str, float]:
    """INT8 scale of each activation that a model quantises with one symmetric scale.

    An asymmetric range counts with its greater side, as `int8.to_symmetric` has it.
    """
    weights = {w.name: w for w in model.graph.initializer}
    scales = {}
    for node in model.graph.node:
        if node.op_type != "QuantizeLinear" or node.input[0] in weights:
            continue
        scale, zero = weights.get(node.input[1]), weights.get(node.input[2])
        if (
            scale is None
            or zero is None
            or zero.data_type not in (TensorProto.INT8, TensorProto.UINT8)
        ):
            continue
        point = numpy_helper.to_array(zero).reshape(-1)
        if len(point) != 1:
            continue
        least, most = (-128, 127) if zero.data_type == TensorProto.INT8 else (0, 255)
        at = int(point[0])
        symmetric = at == 0 and zero.data_type == TensorProto.INT8
        reach = INT8_MOST if symmetric else max(at - least, most - at)
        scales[node.input[0]] = (
            float(numpy_helper.to_array(scale).reshape(-1)[0]) * reach / INT8_MOST
        )
    return scales


def insert(model: Any, scales: Mapping[str, float], kind: str) -> list[str]:
    """Give convolutions and matrix products of a float32 model Q/DQ pairs, in place.

    Activations have one scale each, from the cache; INT8 weights one for each output channel, FP8
    weights one for the tensor.

    Args:
        kind: "int8" or "fp8" (E4M3).

    Returns:
        What was done, in sentences.

    Raises:
        BackendError: the cache speaks of none of the model's tensors.
    """
    if kind == "fp8" and model.opset_import[0].version < 19:
        try:
            newer = onnx.version_converter.convert_version(model, 19)
        except Exception as error:
            raise BackendError(
                f"the model's operators cannot be converted to opset 19, which FP8 needs ({error}). "
                "Export the model with a newer opset."
            ) from error
        model.CopyFrom(newer)
    return _Insertion(model, scales, kind).run()


class _Insertion:
    def __init__(self, model: Any, scales: Mapping[str, float], kind: str) -> None:
        self.graph, self.scales, self.kind = model.graph, scales, kind
        self.weights = {w.name: w for w in self.graph.initializer}
        self.most = FP8_MOST if kind == "fp8" else INT8_MOST
        self.made: dict[tuple[str, int], str] = {}
        self.nodes: list[Any] = []

    def run(self) -> list[str]:
        quantised, left = 0, 0
        for node in list(self.graph.node):
            if node.op_type in _AXES and self._quantise(node):
                quantised += 1
            elif node.op_type in _AXES:
                left += 1
            self.nodes.append(node)
        if not quantised:
            raise BackendError(
                f"found {len(self.scales):,} tensors in the calibration cache, and none that a "
                "convolution or matrix product of this model reads. Give the cache of this model, "
                "with the tensor names of its ONNX file."
            )
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        used = {name for node in self.nodes for name in node.input}
        used |= {value.name for value in self.graph.output}
        kept = [w for w in self.graph.initializer if w.name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)
        return [
            f"{quantised} of {quantised + left} convolutions and matrix products were made "
            f"{self.kind.upper()} by the calibration cache."
        ]

    def _quantise(self, node: Any) -> bool:
        first, second = node.input[0], node.input[1]
        ready = [self._known(name) for name in (first, second)]
        if not all(ready) or (first in self.weights and second in self.weights):
            return False
        for place, name in enumerate((first, second)):
            if name in self.weights:
                node.input[place] = self._weight(node, name)
            else:
                node.input[place] = self._activation(name)
        return True

    def _known(self, name: str) -> bool:
        if name in self.weights:
            return bool(self.weights[name].data_type == TensorProto.FLOAT)
        return self.scales.get(name, 0.0) > 0

    def _zero(self) -> str:
        name = f"{self.kind}_zero"
        if ("", 0) not in self.made:
            kind = TensorProto.FLOAT8E4M3FN if self.kind == "fp8" else TensorProto.INT8
            self.graph.initializer.append(TensorProto(name=name, data_type=kind, raw_data=b"\0"))
            self.made["", 0] = name
        return name

    def _scale(self, name: str, values: NDArray[Any]) -> str:
        self.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def _activation(self, name: str) -> str:
        if (name, 0) not in self.made:
            scale = self._scale(
                f"{name}_{self.kind}_scale", np.array(self.scales[name] * INT8_MOST / self.most)
            )
            mid, out = f"{name}_{self.kind}", f"{name}_{self.kind}_dequantized"
            zero = self._zero()
            self.nodes.append(helper.make_node("QuantizeLinear", [name, scale, zero], [mid], mid))
            self.nodes.append(helper.make_node("DequantizeLinear", [mid, scale, zero], [out], out))
            self.made[name, 0] = out
        return self.made[name, 0]

    def _weight(self, node: Any, name: str) -> str:
        array = numpy_helper.to_array(self.weights[name])
        axis = _AXES[node.op_type] % array.ndim
        if node.op_type == "Gemm" and any(a.name == "transB" and a.i for a in node.attribute):
            axis = 0
        if (name, axis + 1) in self.made:
            return self.made[name, axis + 1]
        out = f"{name}_{self.kind}_{axis}_dequantized"
        stored, scale_name = f"{name}_{self.kind}_{axis}", f"{name}_{self.kind}_{axis}_scale"
        if self.kind == "fp8":
            scale = max(float(np.abs(array).max()), 1e-12) / self.most
            raw = fp8_bits(array / scale)
            tensor = TensorProto(
                name=stored,
                data_type=TensorProto.FLOAT8E4M3FN,
                dims=array.shape,
                raw_data=raw.tobytes(),
            )
            inputs = [stored, self._scale(scale_name, np.array(scale)), self._zero()]
            made = helper.make_node("DequantizeLinear", inputs, [out], out)
        else:
            others = tuple(k for k in range(array.ndim) if k != axis)
            scales = np.maximum(np.abs(array).max(axis=others), 1e-12) / self.most
            shape = [1] * array.ndim
            shape[axis] = -1
            whole = np.clip(np.rint(array / scales.reshape(shape)), -127, 127).astype(np.int8)
            tensor = numpy_helper.from_array(whole, stored)
            zeros = f"{stored}_zero"
            self.graph.initializer.append(
                numpy_helper.from_array(np.zeros(len(scales), np.int8), zeros)
            )
            inputs = [stored, self._scale(scale_name, scales), zeros]
            made = helper.make_node("DequantizeLinear", inputs, [out], out, axis=axis)
        self.graph.initializer.append(tensor)
        self.nodes.append(made)
        self.made[name, axis + 1] = out
        return out


def _fp8_values() -> NDArray[np.float64]:
    codes = np.arange(127)
    exponent, mantissa = codes >> 3, codes & 7
    small = mantissa * 2.0**-9
    return np.where(exponent == 0, small, (1 + mantissa / 8) * 2.0 ** (exponent - 7))


def fp8_bits(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Codes of the nearest E4M3 values, ties to even; beyond 448 the greatest is taken."""
    values = _fp8_values()
    size = np.minimum(np.abs(array.astype(np.float64)), FP8_MOST)
    middles = (values[:-1] + values[1:]) / 2
    codes = np.searchsorted(middles, size, side="left")
    tie = (codes < len(middles)) & (size == middles[np.minimum(codes, len(middles) - 1)])
    codes = codes + (tie & (codes % 2 == 1))
    signs = np.where(np.signbit(array), 0x80, 0)
    bits: NDArray[np.uint8] = (codes | signs).astype(np.uint8).reshape(array.shape)
    return bits


def _lines(arguments: list[str]) -> Iterator[str]:
    if len(arguments) != 2:
        yield "expected: python -m runner.backends.trt.calibration QUANTISED.onnx CACHE"
        return
    scales = scales_of(onnx.load(arguments[0]))
    Path(arguments[1]).write_text(cache_text(scales), encoding="utf-8")
    yield f"{arguments[1]}: {len(scales):,} scales written"


if __name__ == "__main__":
    for line in _lines(sys.argv[1:]):
        sys.stdout.write(line + "\n")
