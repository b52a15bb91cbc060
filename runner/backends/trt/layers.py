"""What each layer of an engine runs in, by TensorRT's own account."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass

# In "Format/Datatype" of a tensor, in the words of 10 and 11.
_TYPES = (
    (r"bfloat16|\bbf16\b", "bf16"),
    (r"fp8|e4m3|float8", "fp8"),
    (r"fp4|int4", "4-bit"),
    (r"uint8", "uint8"),
    (r"int8", "int8"),
    (r"fp16|float16|\bhalf\b", "fp16"),
    (r"int64", "int64"),
    (r"int32", "int32"),
    (r"bool", "bool"),
    (r"fp32|float32|\bfloat\b", "fp32"),
)


@dataclass(frozen=True)
class Layer:
    """`inputs` and `outputs` are types: "fp16", "int8"; empty where TensorRT names none."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def precision(self) -> str:
        """What it computes in: the narrowest type that it reads, else writes; "" if unknown."""
        widths = {"4-bit": 0, "fp8": 1, "int8": 1, "fp16": 2, "bf16": 2, "fp32": 4}
        types = [t for t in (*self.inputs, *self.outputs) if t in widths]
        return min(types, key=lambda t: widths[t], default="")


def parse_layers(text: str) -> tuple[Layer, ...]:
    """Layers of an engine's JSON; none where it was built without details or cannot be read."""
    try:
        content = json.loads(text)
    except ValueError:
        return ()
    found = content.get("Layers") if isinstance(content, dict) else None
    return tuple(
        Layer(
            str(layer.get("Name", "")),
            str(layer.get("LayerType", "")),
            _types(layer.get("Inputs")),
            _types(layer.get("Outputs")),
        )
        for layer in (found if isinstance(found, list) else [])
        if isinstance(layer, dict)
    )


def _types(tensors: object) -> tuple[str, ...]:
    result = []
    for tensor in tensors if isinstance(tensors, list) else []:
        if isinstance(tensor, dict):
            told = str(tensor.get("Format/Datatype", tensor.get("Datatype", ""))).lower()
            result.append(next((name for form, name in _TYPES if re.search(form, told)), ""))
    return tuple(result)


def summary(layers: tuple[Layer, ...]) -> str:
    """ "41 int8, 3 fp32 layers"; "" where nothing is known."""
    counts = Counter(layer.precision for layer in layers if layer.precision)
    told = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return f"{told} layers" if told else ""


def table(layers: tuple[Layer, ...]) -> str:
    """One line a layer, tab-separated: its name, kind, precision, and the types in and out."""
    rows = [("layer", "kind", "precision", "inputs", "outputs")]
    rows += [
        (one.name, one.kind, one.precision, " ".join(one.inputs), " ".join(one.outputs))
        for one in layers
    ]
    return "\n".join("\t".join(row) for row in rows) + "\n"
