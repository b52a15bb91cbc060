"""Float32 to float16 or bfloat16 in the ONNX file itself, where TensorRT takes every type from.

Inputs and outputs of the model stay float32.  What 16 bits cannot carry stays float32 behind casts:
quantisation, non-maximum suppression, random numbers, a resize's scales, and numbers that come
from integers (a size of 100,000 is infinite in float16).

    python -m runner.backends.trt.fp16 model.onnx model_fp16.onnx [bf16]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, shape_inference

from runner.backends.trt.onnx_file import save
from runner.errors import BackendError

GREATEST = float(np.finfo(np.float16).max)
SMALLEST = float(np.finfo(np.float16).smallest_subnormal)

# Operators that stay float32 whole, or in the inputs named.
_FLOAT32_OPERATORS = frozenset(
    (
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "NonMaxSuppression",
        "Range",
        "EyeLike",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
    )
)
_FLOAT32_INPUTS = {"Resize": {1, 2}, "Upsample": {1}}
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)


def to_fp16(model: Any) -> list[str]:
    """Convert a model in place.

    Returns:
        What a reader of the result should know, in sentences.

    Raises:
        BackendError: the model has control flow, sequences, functions or operators whose types
            cannot be inferred.
    """
    return _Conversion(model, _FP16).run()


def to_bf16(model: Any) -> list[str]:
    """As `to_fp16`; bfloat16 has float32's range and 8 bits of mantissa, so nothing is clamped."""
    return _Conversion(model, _BF16).run()


@dataclass(frozen=True)
class _Half:
    """A type of 16 bits: `tensor` makes (tensor, values clamped) of an array and a name."""

    name: str
    short: str
    onnx_type: int
    tensor: Callable[[NDArray[Any], str], tuple[Any, int]]


def _fp16_tensor(array: NDArray[Any], name: str) -> tuple[Any, int]:
    half, clamped = half_of(array)
    return numpy_helper.from_array(half, name), clamped


def _bf16_tensor(array: NDArray[Any], name: str) -> tuple[Any, int]:
    tensor = TensorProto(
        name=name,
        data_type=TensorProto.BFLOAT16,
        dims=array.shape,
        raw_data=bf16_bits(array).tobytes(),
    )
    return tensor, 0


def bf16_bits(array: NDArray[Any]) -> NDArray[np.uint16]:
    """The upper halves of float32 values, rounded to nearest, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(array), 0x7FC0, rounded).astype(np.uint16).reshape(array.shape)


_FP16 = _Half("float16", "fp16", TensorProto.FLOAT16, _fp16_tensor)
_BF16 = _Half("bfloat16", "bf16", TensorProto.BFLOAT16, _bf16_tensor)


class _Conversion:
    def __init__(self, model: Any, to: _Half) -> None:
        self.to = to
        self.model = model
        self.graph = model.graph
        self.notes: list[str] = []
        self.nodes: list[Any] = []
        # Value to the name under which it can be had in that type.
        self.half: dict[str, str] = {}
        self.single: dict[str, str] = {}

    def run(self) -> list[str]:
        self._refuse()
        self._constants_to_initializers()
        self.types = self._infer()
        self.names = set(self.types)
        self.outputs = {value.name for value in self.graph.output}
        self.weights = {weight.name: weight for weight in self.graph.initializer}
        # Initializers that could be overridden as inputs become what they are: constants.
        kept = [value for value in self.graph.input if value.name not in self.weights]
        del self.graph.input[:]
        self.graph.input.extend(kept)
        for value in kept:
            if self._is_float(value.name):
                self.single[value.name] = value.name
        for node in list(self.graph.node):
            self._convert(node)
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        del self.graph.value_info[:]
        self._drop_unused_weights()
        onnx.checker.check_model(self.model)
        return self.notes

    def _refuse(self) -> None:
        found = {
            node.op_type
            for node in self.graph.node
            if node.op_type.startswith(("Sequence", "Optional", "SplitToSequence"))
            or any(a.type in (a.GRAPH, a.GRAPHS) for a in node.attribute)
        }
        if self.model.functions:
            found |= {function.name for function in self.model.functions}
        if found:
            raise BackendError(
                f"found {', '.join(sorted(found))} in the model; the conversion to "
                f"{self.to.name} takes graphs without control flow, sequences and functions. "
                f"Export the model in {self.to.name} and give it with --model."
            )

    def _constants_to_initializers(self) -> None:
        """So that a constant is converted where it is used, not where it is made."""
        rest = []
        for node in self.graph.node:
            value = _constant(node)
            if value is None:
                rest.append(node)
            else:
                self.graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
        del self.graph.node[:]
        self.graph.node.extend(rest)

    def _infer(self) -> dict[str, int]:
        try:
            inferred = shape_inference.infer_shapes(self.model, strict_mode=True).graph
        except Exception as error:
            raise BackendError(
                f"the types inside the model cannot be inferred ({error}); the conversion to "
                f"{self.to.name} needs them. Export the model in {self.to.name} and give it with "
                "--model."
            ) from error
        types = {
            value.name: value.type.tensor_type.elem_type
            for value in (*inferred.value_info, *inferred.input, *inferred.output)
        }
        types.update({weight.name: weight.data_type for weight in self.graph.initializer})
        unknown = [
            f"{node.op_type} {name!r}"
            for node in self.graph.node
            for name in node.output
            if name and not types.get(name)
        ]
        if unknown:
            raise BackendError(
                f"the type of {', '.join(unknown[:3])} is not known; the conversion to "
                f"{self.to.name} needs it. Export the model in {self.to.name} and give it with "
                "--model."
            )
        return types

    def _is_float(self, name: str) -> bool:
        return self.types.get(name) == TensorProto.FLOAT

    def _stays(self, node: Any) -> bool:
        if node.domain not in ("", "ai.onnx") or node.op_type in _FLOAT32_OPERATORS:
            return True
        # A number that comes from integers may be beyond float16.
        return node.op_type == "Cast" and self.types[node.input[0]] not in _FLOATS

    def _convert(self, node: Any) -> None:
        stays = self._stays(node)
        fixed = _FLOAT32_INPUTS.get(node.op_type, set())
        for index, name in enumerate(node.input):
            if self._is_float(name):
                single = stays or index in fixed
                node.input[index] = self._as_single(name) if single else self._as_half(name)
        if stays:
            self.nodes.append(node)
            self.single.update({name: name for name in node.output if self._is_float(name)})
            return
        if node.op_type == "Cast":
            for attribute in node.attribute:
                if attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                    attribute.i = self.to.onnx_type
        elif node.op_type == "ConstantOfShape":
            self._fill(node)
        self.nodes.append(node)
        for index, name in enumerate(node.output):
            if not self._is_float(name):
                continue
            self.half[name] = name
            if name in self.outputs:
                self.half[name] = node.output[index] = self._fresh(f"{name}_{self.to.short}")
                self._cast(self.half[name], name, TensorProto.FLOAT)
                self.single[name] = name

    def _as_half(self, name: str) -> str:
        if name not in self.half:
            self.half[name] = self._fresh(f"{name}_{self.to.short}")
            if name in self.weights:
                self._weight(name, self.half[name])
            else:
                self._cast(name, self.half[name], self.to.onnx_type)
        return self.half[name]

    def _as_single(self, name: str) -> str:
        if name in self.weights:
            return name
        if name not in self.single:
            self.single[name] = self._fresh(f"{name}_fp32")
            self._cast(self.half[name], self.single[name], TensorProto.FLOAT)
        return self.single[name]

    def _cast(self, source: str, target: str, to: int) -> None:
        name = self._fresh(f"{target}_cast")
        self.nodes.append(helper.make_node("Cast", [source], [target], name=name, to=to))

    def _weight(self, name: str, target: str) -> None:
        array = numpy_helper.to_array(self.weights[name])
        tensor, clamped = self.to.tensor(array, target)
        if clamped:
            self.notes.append(
                f"{clamped:,} of {array.size:,} values of {name!r} were beyond float16 and clamped."
            )
        self.graph.initializer.append(tensor)

    def _fill(self, node: Any) -> None:
        """Make a ConstantOfShape give values of 16 bits."""
        value: NDArray[Any] = np.zeros(1, np.float32)
        for attribute in node.attribute:
            if attribute.name == "value":
                if attribute.t.data_type != TensorProto.FLOAT:
                    return
                value = numpy_helper.to_array(attribute.t)
        del node.attribute[:]
        node.attribute.append(helper.make_attribute("value", self.to.tensor(value, "")[0]))

    def _fresh(self, name: str) -> str:
        candidate, number = name, 2
        while candidate in self.names:
            candidate, number = f"{name}_{number}", number + 1
        self.names.add(candidate)
        return candidate

    def _drop_unused_weights(self) -> None:
        used = {name for node in self.graph.node for name in node.input} | self.outputs
        kept = [weight for weight in self.graph.initializer if weight.name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)


def half_of(array: NDArray[Any]) -> tuple[NDArray[np.float16], int]:
    """An array in float16, and how many finite values had to be clamped.

    What is not zero stays so: an epsilon that became zero would divide by it.
    """
    finite = np.isfinite(array)
    too_great = finite & (np.abs(array) > GREATEST)
    values = np.where(too_great, np.copysign(GREATEST, array), array)
    too_small = finite & (array != 0) & (np.abs(array) < SMALLEST)
    values = np.where(too_small, np.copysign(SMALLEST, array), values)
    return values.astype(np.float16).reshape(array.shape), int(too_great.sum())


def _constant(node: Any) -> NDArray[Any] | None:
    """Value of a Constant node that holds floats; None for everything else."""
    if node.op_type != "Constant":
        return None
    attribute = node.attribute[0]
    value: NDArray[Any] | None = None
    if attribute.name == "value" and attribute.t.data_type == TensorProto.FLOAT:
        value = numpy_helper.to_array(attribute.t)
    elif attribute.name == "value_float":
        value = np.array(attribute.f, np.float32)
    elif attribute.name == "value_floats":
        value = np.array(attribute.floats, np.float32)
    return value


def _lines(arguments: list[str]) -> Iterator[str]:
    *names, kind = arguments if len(arguments) == 3 else [*arguments, "fp16"]
    if len(names) != 2 or names[0] == names[1] or kind not in ("fp16", "bf16"):
        yield "expected: python -m runner.backends.trt.fp16 MODEL.onnx NEW.onnx [bf16]"
        return
    model = onnx.load(names[0])
    yield from (to_bf16 if kind == "bf16" else to_fp16)(model)
    save(model, Path(arguments[1]))
    yield f"{arguments[1]}: written"


if __name__ == "__main__":
    for line in _lines(sys.argv[1:]):
        sys.stdout.write(line + "\n")
