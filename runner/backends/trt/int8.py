"""Q/DQ models the way TensorRT takes them: symmetric INT8, biases in float32.

ONNX Runtime's quantiser by default writes asymmetric activations, leaves out a ReLU whose work the
range does, and quantises biases to INT32.  None of that runs in TensorRT.  The rewriting keeps
every range (so the step grows where it was one-sided), puts the ReLU back, and restores the biases.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from runner.errors import BackendError

_DYNAMIC = ("DynamicQuantizeLinear", "MatMulInteger", "ConvInteger")
_RANGES = {np.dtype(np.int8): (-128, 127), np.dtype(np.uint8): (0, 255)}


# FP8 as ModelOpt wrote it before ONNX had the type.
_CUSTOM_FP8 = ("TRT_FP8QuantizeLinear", "TRT_FP8DequantizeLinear")


def is_quantized(model: Any) -> bool:
    """Whether the model holds Q/DQ pairs."""
    names = ("DequantizeLinear", *_DYNAMIC, *_CUSTOM_FP8)
    return any(node.op_type in names for node in model.graph.node)


def is_fp8(model: Any) -> bool:
    """Whether a quantised model's pairs are of 8-bit floats (E4M3)."""
    return any(w.data_type == TensorProto.FLOAT8E4M3FN for w in model.graph.initializer) or any(
        node.op_type in _CUSTOM_FP8 for node in model.graph.node
    )


def to_symmetric(model: Any) -> list[str]:
    """Rewrite a Q/DQ model in place; a symmetric one without quantised biases stays as it is.

    Returns:
        What was changed, in sentences.

    Raises:
        BackendError: it is quantised dynamically, a scale or zero point is not constant, or a
            type is not 8-bit.
    """
    dynamic = {node.op_type for node in model.graph.node} & set(_DYNAMIC)
    if dynamic:
        raise BackendError(
            f"found {', '.join(sorted(dynamic))}: the model is quantised while it runs. TensorRT "
            "takes fixed ranges: quantise it statically in QDQ form (INT8, symmetric), or use "
            "--backend onnxruntime."
        )
    return _Rewriting(model).run()


class _Rewriting:
    def __init__(self, model: Any) -> None:
        self.graph = model.graph
        # FP8 is symmetric by itself: it stays as it is.
        self.fp8 = {
            w.name: w for w in self.graph.initializer if w.data_type == TensorProto.FLOAT8E4M3FN
        }
        self.weights = {
            w.name: numpy_helper.to_array(w)
            for w in self.graph.initializer
            if w.name not in self.fp8
        }
        self.made_by = {name: node for node in self.graph.node for name in node.output}
        # Output of a QuantizeLinear to its new scale and zero point.
        self.steps: dict[str, tuple[str, str]] = {}
        self.one_sided = self.relus = self.biases = 0

    def run(self) -> list[str]:
        nodes: list[Any] = []
        for node in self.graph.node:
            if node.op_type == "QuantizeLinear":
                nodes += self._quantize(node)
            elif node.op_type == "DequantizeLinear":
                nodes += self._dequantize(node)
            else:
                nodes.append(node)
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        used = {name for node in nodes for name in node.input}
        used |= {value.name for value in self.graph.output}
        del self.graph.initializer[:]
        self.graph.initializer.extend(
            numpy_helper.from_array(array, name)
            for name, array in self.weights.items()
            if name in used
        )
        self.graph.initializer.extend(w for name, w in self.fp8.items() if name in used)
        notes = []
        if self.one_sided:
            notes.append(
                f"{self.one_sided} asymmetric quantisations were made symmetric, with "
                f"{self.relus} ReLUs put back."
            )
        if self.biases:
            notes.append(f"{self.biases} INT32 biases were restored to float32.")
        return notes

    def _constant(self, node: Any, index: int) -> NDArray[Any]:
        if index >= len(node.input) or not node.input[index]:
            return np.zeros((), np.uint8)  # ONNX's default zero point
        array = self.weights.get(node.input[index])
        if array is None:
            raise BackendError(
                f"found {node.op_type} {node.name!r} whose scale or zero point is computed; "
                "TensorRT takes constants. Quantise the model again, statically."
            )
        return array

    def _quantize(self, node: Any) -> list[Any]:
        if len(node.input) > 2 and node.input[2] in self.fp8:
            self.steps[node.output[0]] = (node.input[1], node.input[2])
            return [node]
        scale, zero = self._constant(node, 1), self._constant(node, 2)
        if not zero.any() and zero.dtype == np.int8:
            self.steps[node.output[0]] = (node.input[1], node.input[2])
            return [node]
        if zero.size != 1 or zero.dtype not in _RANGES:
            raise BackendError(
                f"found {node.op_type} {node.name!r} with zero points of type {zero.dtype}, "
                f"{zero.size} of them; expected one of 8 bits. Quantise the model again, "
                "symmetrically (INT8)."
            )
        least, most = _RANGES[zero.dtype]
        point = int(zero.reshape(-1)[0])
        reach = max(point - least, most - point)
        new_scale = (scale * np.float32(reach / 127)).astype(scale.dtype)
        names = (f"{node.output[0]}_scale", f"{node.output[0]}_zero")
        self.weights[names[0]] = np.asarray(new_scale)
        self.weights[names[1]] = np.zeros(zero.shape, np.int8)
        self.steps[node.output[0]] = names
        self.one_sided += 1
        before: list[Any] = []
        source = node.input[0]
        maker = self.made_by.get(source)
        if point == least and (maker is None or maker.op_type not in ("Relu", "Sigmoid")):
            # The range ended at zero, and did a ReLU's work if there was none.
            positive = f"{node.output[0]}_positive"
            before = [helper.make_node("Relu", [source], [positive], name=positive)]
            source = positive
            self.relus += 1
        elif point == most:
            raise BackendError(
                f"found {node.op_type} {node.name!r} whose range ends at zero from below; "
                "quantise the model again, symmetrically (INT8)."
            )
        kept = [a for a in node.attribute if a.name not in ("output_dtype",)]
        new = helper.make_node("QuantizeLinear", [source, *names], list(node.output), node.name)
        new.attribute.extend(kept)
        return [*before, new]

    def _dequantize(self, node: Any) -> list[Any]:
        if node.input[0] in self.fp8:
            return [node]
        stored = self.weights.get(node.input[0])
        if stored is not None:
            return self._weight(node, stored)
        steps = self.steps.get(node.input[0])
        if steps is None:
            raise BackendError(
                f"found DequantizeLinear {node.name!r} of a value that no QuantizeLinear made; "
                "TensorRT takes Q/DQ pairs. Quantise the model again in QDQ form."
            )
        node.input[1] = steps[0]
        del node.input[2:]
        node.input.append(steps[1])
        return [node]

    def _weight(self, node: Any, stored: NDArray[Any]) -> list[Any]:
        scale, zero = self._constant(node, 1), self._constant(node, 2)
        symmetric = stored.dtype == np.int8 and not zero.any()
        if symmetric:
            return [node]
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        real = (stored.astype(np.float64) - _along(zero, stored.ndim, axis)) * _along(
            scale, stored.ndim, axis
        )
        if stored.dtype == np.int32:
            self.weights[node.output[0]] = real.astype(np.float32)
            self.biases += 1
            return []
        if stored.dtype not in _RANGES:
            raise BackendError(
                f"found weights of type {stored.dtype} in {node.name!r}; expected INT8."
            )
        others = tuple(i for i in range(stored.ndim) if scale.size == 1 or i != axis)
        new_scale = np.maximum(np.abs(real).max(axis=others), 1e-12) / 127
        steps = _along(new_scale, stored.ndim, axis)
        name = node.output[0]
        self.weights[f"{name}_int8"] = np.clip(np.rint(real / steps), -127, 127).astype(np.int8)
        self.weights[f"{name}_scale"] = new_scale.astype(np.float32).reshape(scale.shape)
        self.weights[f"{name}_zero"] = np.zeros(scale.shape, np.int8)
        self.one_sided += 1
        new = helper.make_node(
            "DequantizeLinear",
            [f"{name}_int8", f"{name}_scale", f"{name}_zero"],
            [name],
            node.name,
        )
        new.attribute.extend(node.attribute)
        return [new]


def _along(values: NDArray[Any], dimensions: int, axis: int) -> NDArray[Any]:
    """One value, or one for each channel, shaped to be broadcast."""
    if values.size == 1:
        return values.reshape(())
    shape = [1] * dimensions
    shape[axis] = -1
    return values.reshape(shape)
