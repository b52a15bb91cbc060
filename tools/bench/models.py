"""Models and data for the runner's benchmark: made when needed, nothing is kept in the repository.

`resnet` has the topology of ResNet-50 v1.5 (25.5 million weights, 102 MB, random), so that an
inference costs what a real one costs; `tiny` reads the same image and answers in about 20 us, so
that the runner's own cost is all there is to see.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, save_model

from runner.benchmarks.base import Benchmark, Score, Tensor
from runner.errors import InferenceError

SAMPLES, SIDE, CLASSES = 64, 224, 1000


class Noise:
    """Random images; every one is in memory from the beginning."""

    def __init__(self, path: Path | None = None) -> None:
        self._images = np.random.RandomState(1).rand(SAMPLES, 3, SIDE, SIDE).astype(np.float32)

    def __len__(self) -> int:
        return SAMPLES

    def load(self, indices: Sequence[int]) -> Mapping[str, NDArray[Any]]:
        return {"image": self._images[np.asarray(indices)]}

    def unload(self, indices: Sequence[int]) -> None:
        return None


def _encode(outputs: Sequence[NDArray[Any]], count: int) -> NDArray[np.int64]:
    answers: NDArray[np.int64] = outputs[0]
    if answers.shape != (count,):
        raise InferenceError(f"found answers of shape {list(answers.shape)}; expected [{count}].")
    return answers.copy()


def _score(log: Path, dataset: Any) -> Score:
    return Score("acc", 0.0, "accuracy=0.000%, good=0, total=64")


def _benchmark(name: str, batch: int) -> Benchmark:
    return Benchmark(
        name=name,
        loadgen_model=name,
        title=f"{name}: a benchmark of the runner itself",
        metric="acc",
        inputs=(Tensor("image", (None, 3, SIDE, SIDE), "float32"),),
        outputs=(Tensor("answer", (None,), "int64"),),
        models={"fp32": Path(tempfile.gettempdir()) / f"assay-bench-{name}.onnx"},
        weights="random",
        data="random",
        quantization="none",
        make_dataset=Noise,
        encode=_encode,
        answer=lambda dataset, indices: [np.zeros(len(indices), np.int64)],
        score=_score,
        payload_bytes=8,
        performance_sample_count=SAMPLES,
        batch_size=batch,
    )


RESNET = _benchmark("resnet", 8)
TINY = _benchmark("tiny", 32)


class _Graph:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.random = np.random.RandomState(0)

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        fan = max(1, int(np.prod(shape[1:])))
        values = self.random.standard_normal(shape).astype(np.float32) * np.float32(fan**-0.5)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def add(self, kind: str, inputs: Sequence[str], **more: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **more))
        return name

    def conv(self, source: str, channels: int, out: int, size: int, stride: int = 1) -> str:
        pad = size // 2
        return self.add(
            "Conv",
            [source, self.weight(out, channels, size, size), self.weight(out)],
            kernel_shape=[size, size],
            strides=[stride, stride],
            pads=[pad] * 4,
        )

    def save(self, path: Path, result: str) -> None:
        self.nodes.append(helper.make_node("ArgMax", [result], ["answer"], axis=1, keepdims=0))
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, SIDE, SIDE])
        answer = helper.make_tensor_value_info("answer", TensorProto.INT64, ["N"])
        graph = helper.make_graph(self.nodes, "bench", [image], [answer], self.weights)
        opset = [helper.make_opsetid("", 17)]
        save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))


def _resnet(path: Path) -> None:
    g = _Graph()
    x = g.add("Relu", [g.conv("image", 3, 64, 7, 2)])
    x = g.add("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for blocks, width, stride in ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)):
        for block in range(blocks):
            step = stride if block == 0 else 1
            y = g.add("Relu", [g.conv(x, channels, width, 1)])
            y = g.add("Relu", [g.conv(y, width, width, 3, step)])
            y = g.conv(y, width, 4 * width, 1)
            side = g.conv(x, channels, 4 * width, 1, step) if block == 0 else x
            x = g.add("Relu", [g.add("Add", [y, side])])
            channels = 4 * width
    flat = g.add("Flatten", [g.add("GlobalAveragePool", [x])])
    g.save(path, g.add("Gemm", [flat, g.weight(CLASSES, channels), g.weight(CLASSES)], transB=1))


def _tiny(path: Path) -> None:
    g = _Graph()
    starts, ends = (
        numpy_helper.from_array(np.array(v, np.int64), n)
        for n, v in (("starts", [0, 0]), ("ends", [16, 16]))
    )
    axes = numpy_helper.from_array(np.array([2, 3], np.int64), "axes")
    g.weights += [starts, ends, axes]
    corner = g.add("Slice", ["image", "starts", "ends", "axes"])
    flat = g.add("Flatten", [corner])
    hidden = g.add("Relu", [g.add("MatMul", [flat, g.weight(3 * 16 * 16, 64)])])
    g.save(path, g.add("MatMul", [hidden, g.weight(64, CLASSES)]))


def make(benchmark: Benchmark) -> Path:
    """The model's file, made if it is not there; never half of it, whoever else makes it."""
    path = Path(benchmark.models["fp32"])
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="assay-bench-") as folder:
            made = Path(folder) / path.name
            {"resnet": _resnet, "tiny": _tiny}[benchmark.name](made)
            made.replace(path)
    return path
