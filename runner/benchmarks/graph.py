"""A small writer of ONNX graphs, for the training scripts: what is exported is what is read here.

Exporters of training frameworks trace, fold and rename; a graph of thirty nodes is clearer written
by hand, and the shipped files then depend on the `onnx` package alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

OPSET, IR = 17, 8  # read by every ONNX Runtime this package supports
Shape = Sequence[str | int | None]


class Graph:
    """Nodes in order; every method returns the name of what it makes.

    Args:
        name: the graph's name.
        doc: what the model is and where it comes from; kept in the file.
    """

    def __init__(self, name: str, doc: str = "") -> None:
        self._name, self._doc = name, doc
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, dtype: str, shape: Shape) -> str:
        self._inputs.append(_info(name, dtype, shape))
        return name

    def output(self, name: str, dtype: str, shape: Shape) -> None:
        self._outputs.append(_info(name, dtype, shape))

    def weight(self, value: NDArray[Any] | Sequence[int] | Sequence[float], name: str = "") -> str:
        """A constant; float64 becomes float32."""
        from onnx import numpy_helper

        array = np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = name or f"c{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.require(array, requirements="C"), name))
        return name

    def add(self, op: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """A node with one output, called `name` (made up where empty)."""
        return self.add_many(op, inputs, [name], **attributes)[0]

    def add_many(
        self, op: str, inputs: Sequence[str], names: Sequence[str], **attributes: Any
    ) -> list[str]:
        """A node with several outputs."""
        from onnx import helper

        number = len(self._nodes)
        out = [name or f"v{number}_{place}" for place, name in enumerate(names)]
        self._nodes.append(helper.make_node(op, list(inputs), out, f"{op}_{number}", **attributes))
        return out

    def save(self, path: Path, metadata: Mapping[str, str] | None = None) -> None:
        """Check the model and write it."""
        import onnx
        from onnx import helper

        graph = helper.make_graph(
            self._nodes, self._name, self._inputs, self._outputs, self._weights
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR,
            producer_name="assay",
            doc_string=self._doc,
        )
        if metadata:
            helper.set_model_props(model, dict(metadata))
        onnx.checker.check_model(model, full_check=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(model.SerializeToString())


def _info(name: str, dtype: str, shape: Shape) -> Any:
    from onnx import TensorProto, helper

    kinds = {
        "float32": TensorProto.FLOAT,
        "float16": TensorProto.FLOAT16,
        "int32": TensorProto.INT32,
        "int64": TensorProto.INT64,
        "uint8": TensorProto.UINT8,
    }
    return helper.make_tensor_value_info(name, kinds[dtype], list(shape))
