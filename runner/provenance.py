"""What ran, read from the files that ran: weight types, SHA-256, preprocessing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.benchmarks.base import Benchmark
from runner.errors import BackendError, SettingsError

# Operators whose weights are what "weight data types" is about, and what may lie between.
_COMPUTE = frozenset({
    "Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN", "Gather", "Einsum",
    "QLinearConv", "QLinearMatMul", "QGemm", "ConvInteger", "MatMulInteger", "Attention",
})  # fmt: skip
_PASSED = frozenset(("Cast", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"))
_TYPES = {
    "FLOAT": "fp32", "DOUBLE": "fp64", "FLOAT16": "fp16", "BFLOAT16": "bf16", "INT8": "int8",
    "UINT8": "uint8", "INT4": "int4", "UINT4": "uint4", "FLOAT8E4M3FN": "fp8",
    "FLOAT8E5M2": "fp8", "FLOAT4E2M1": "fp4",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What a result is made with.

    Attributes:
        weights: the model's own name of its weights, or the file that was given.
        weight_types: such as ("fp32",) or ("fp32", "int8"), sorted; () where no file says it.
        own: whether the model is one that comes with the benchmark.
        model_sha256, data_sha256: in hex; "" where there is no file.
        preprocessing: one line; "" where the benchmark has only one, which `data` describes.
    """

    weights: str
    weight_types: tuple[str, ...] = ()
    own: bool = True
    model_sha256: str = ""
    data_sha256: str = ""
    preprocessing: str = ""


def provenance(benchmark: Benchmark, model: Path | None, data: Path | None) -> Provenance:
    """Read the model and the data set of a run.

    Args:
        model: a file, or a folder of graphs; None where the model is not on this machine.
        data: the data set's file or folder; None for the benchmark's own.

    Raises:
        BackendError: the model or the data set cannot be read.
    """
    own = model is None or any(model.samefile(p) for p in benchmark.models.values() if p.exists())
    return Provenance(
        weights=benchmark.weights if own or model is None else model.name,
        weight_types=weight_types(model) if model is not None else (),
        own=own,
        model_sha256=sha256(model) if model is not None else "",
        data_sha256=sha256(data) if data is not None else "",
        preprocessing=benchmark.preparation,
    )


def refuse_contradiction(asked: str, model: Path, types: tuple[str, ...]) -> None:
    """Compare the precision that was stated with what the model holds.

    Raises:
        SettingsError: the weights are of other types.
    """
    stated = asked.split("-")[0]
    same = {"int8": {"int8", "uint8"}, "int4": {"int4", "uint4"}}.get(stated, {stated})
    # Layers that were left in FP32 are usual beside lower types, never the reverse.
    if types and (not same & set(types) or not set(types) <= same | {"fp32"}):
        raise SettingsError(
            f"found weights of {', '.join(types)} in {model}; expected {stated} (--precision "
            f"{asked}). Leave --precision out, or give the model you mean."
        )


def weight_types(model: Path) -> tuple[str, ...]:
    """Types of the weights of convolutions, products, recurrent layers and embeddings, sorted.

    A weight behind DequantizeLinear has the type that is stored; one behind QuantizeLinear (which
    training with quantisation leaves as FP32) the type that it is quantised to.

    Args:
        model: an ONNX file, or a folder of them.

    Raises:
        BackendError: a file cannot be read as an ONNX model.
    """
    import onnx

    found: set[str] = set()
    for path in sorted(model.glob("*.onnx")) if model.is_dir() else [model]:
        try:
            graph = onnx.load(str(path), load_external_data=False).graph
        except Exception as error:  # protobuf's own, OSError, and what onnx makes of both
            raise BackendError(f"{path}: cannot be read as an ONNX model ({error}).") from error
        found |= set(_types(graph, {}, {}))
    return tuple(sorted(found))


def _types(graph: Any, tensors: dict[str, Any], makers: dict[str, Any]) -> Iterator[str]:
    from onnx import AttributeProto

    tensors = {**tensors, **{tensor.name: tensor for tensor in graph.initializer}}
    makers = {**makers, **{name: node for node in graph.node for name in node.output}}
    for node in graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.type == AttributeProto.TENSOR:
                    tensors[node.output[0]] = attribute.t
    for node in graph.node:
        if node.op_type == "MatMulNBits":
            bits = next((a.i for a in node.attribute if a.name == "bits"), 4)
            yield f"int{bits}"
        elif node.op_type in _COMPUTE:
            # Of a Gather only the table is a weight.
            for name in node.input[:1] if node.op_type == "Gather" else node.input:
                kind = _stored(name, tensors, makers)
                if kind in _TYPES:
                    yield _TYPES[kind]
        for attribute in node.attribute:
            bodies = [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
            for body in bodies:
                yield from _types(body, tensors, makers)


def _stored(name: str, tensors: dict[str, Any], makers: dict[str, Any]) -> str | None:
    """Type name of the weight behind this input; None where it is not a weight."""
    from onnx import TensorProto

    quantized: str | None = None
    seen: set[str] = set()
    while name not in tensors:
        node = makers.get(name)
        if node is None or name in seen or not node.input:
            return None
        seen.add(name)
        if node.op_type == "QuantizeLinear":
            zero = tensors.get(node.input[2]) if len(node.input) > 2 else None
            # By the operator's definition: uint8 where no zero point says otherwise.
            quantized = TensorProto.DataType.Name(zero.data_type) if zero is not None else "UINT8"
        elif node.op_type not in _PASSED and node.op_type != "DequantizeLinear":
            return None
        name = node.input[0]
    tensor = tensors[name]
    # Biases and scalars have one axis at most.
    return (
        (quantized or TensorProto.DataType.Name(tensor.data_type)) if len(tensor.dims) > 1 else None
    )


def sha256(path: Path) -> str:
    """SHA-256 of a file in hex; of a folder, that of its lines `hash  name`, sorted by name, as
    `sha256sum` writes them.

    Raises:
        BackendError: a file cannot be read.
    """
    try:
        if not path.is_dir():
            with path.open("rb") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        whole = hashlib.sha256()
        for file in sorted(p for p in path.rglob("*") if p.is_file()):
            whole.update(f"{sha256(file)}  {file.relative_to(path).as_posix()}\n".encode())
        return whole.hexdigest()
    except OSError as error:
        raise BackendError(f"{path}: cannot be read ({error.strerror or error}).") from error
