"""Train the digits classifier and write everything the digits benchmark ships.

    pip install "assay[train]"
    python -m tools.train.digits            # about two minutes on one core

writes `runner/datasets/data/digits.npz` (500 held-out images with labels, 100 calibration
images), `runner/benchmarks/models/digits_fp32.onnx` and `digits_int8.onnx`, and says the Top-1
of both on the held-out images as ONNX Runtime computes it.  NumPy is the whole training
framework: the network is small enough, and nobody has to install another one to repeat it.
Seeds are fixed; another BLAS may still round differently, so the accuracy may move by an image.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.datasets.digits import DATA, INPUT, SIDE, preprocess
from tools.train import command
from tools.train.command import say

HELD_OUT = 500
CALIBRATION = 100
OUTPUT = "logits"
Array = NDArray[np.float32]


class Conv:
    """3×3 or 5×5 convolution, stride 1, zero padding to the same size, then ReLU."""

    def __init__(self, rng: np.random.RandomState, inputs: int, outputs: int, size: int) -> None:
        scale = np.sqrt(2 / (inputs * size * size))
        self.weight: Array = (rng.randn(outputs, inputs, size, size) * scale).astype(np.float32)
        self.bias: Array = np.zeros(outputs, np.float32)
        self.size = size

    def forward(self, x: Array) -> Array:
        pad = self.size // 2
        n, c, h, w = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (self.size, self.size), (2, 3))
        self.columns = np.ascontiguousarray(windows.transpose(0, 2, 3, 1, 4, 5)).reshape(
            n * h * w, c * self.size**2
        )
        out = self.columns @ self.weight.reshape(len(self.weight), -1).T + self.bias
        self.shape = x.shape
        self.active = out > 0
        return (out * self.active).reshape(n, h, w, -1).transpose(0, 3, 1, 2)

    def backward(self, grad: Array) -> Array:
        n, c, h, w = self.shape
        flat = grad.transpose(0, 2, 3, 1).reshape(n * h * w, -1) * self.active
        self.grads = [(flat.T @ self.columns).reshape(self.weight.shape), flat.sum(0)]
        columns = (flat @ self.weight.reshape(len(self.weight), -1)).reshape(
            n, h, w, c, self.size, self.size
        )
        pad = self.size // 2
        back = np.zeros((n, c, h + 2 * pad, w + 2 * pad), np.float32)
        for i in range(self.size):
            for j in range(self.size):
                back[:, :, i : i + h, j : j + w] += columns[..., i, j].transpose(0, 3, 1, 2)
        return back[:, :, pad : pad + h, pad : pad + w]

    @property
    def parameters(self) -> list[Array]:
        return [self.weight, self.bias]


class Pool:
    """2×2 maximum."""

    parameters: list[Array] = []  # noqa: RUF012 - the class has none, and never gets any
    grads: list[Array] = []  # noqa: RUF012

    def forward(self, x: Array) -> Array:
        n, c, h, w = x.shape
        self.tiles = x.reshape(n, c, h // 2, 2, w // 2, 2)
        out: Array = self.tiles.max((3, 5))
        self.out = out
        return out

    def backward(self, grad: Array) -> Array:
        chosen = self.tiles == self.out[:, :, :, None, :, None]
        shared = grad[:, :, :, None, :, None] * chosen / chosen.sum((3, 5), keepdims=True)
        n, c, h, _, w, _ = self.tiles.shape
        back: Array = shared.reshape(n, c, h * 2, w * 2).astype(np.float32)
        return back


class Dense:
    """Flatten and one linear layer."""

    def __init__(self, rng: np.random.RandomState, inputs: int, outputs: int) -> None:
        self.weight: Array = (rng.randn(outputs, inputs) * np.sqrt(1 / inputs)).astype(np.float32)
        self.bias: Array = np.zeros(outputs, np.float32)

    def forward(self, x: Array) -> Array:
        self.shape = x.shape
        self.x = x.reshape(len(x), -1)
        out: Array = self.x @ self.weight.T + self.bias
        return out

    def backward(self, grad: Array) -> Array:
        self.grads = [grad.T @ self.x, grad.sum(0)]
        back: Array = (grad @ self.weight).reshape(self.shape)
        return back

    @property
    def parameters(self) -> list[Array]:
        return [self.weight, self.bias]


Layer = Conv | Pool | Dense


def network(rng: np.random.RandomState) -> list[Layer]:
    """1×28×28 to 10 logits, about 22,000 weights, 1.7 million multiply-adds an image."""
    return [
        Conv(rng, 1, 16, 5),
        Pool(),
        Conv(rng, 16, 32, 3),
        Pool(),
        Conv(rng, 32, 32, 3),
        Dense(rng, 32 * (SIDE // 4) ** 2, 10),
    ]


def forward(layers: list[Layer], x: Array) -> Array:
    for layer in layers:
        x = layer.forward(x)
    return x


def batches(
    rng: np.random.RandomState, images: NDArray[np.uint8], labels: NDArray[np.int64], size: int
) -> Iterator[tuple[Array, NDArray[np.int64]]]:
    """One epoch of shuffled batches, each moved by up to two pixels and slightly noisy."""
    order = rng.permutation(len(images))
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        x = preprocess(images[chosen])
        x = np.roll(x, tuple(rng.randint(-2, 3, 2)), (2, 3))
        yield x + rng.randn(*x.shape).astype(np.float32) * 0.05, labels[chosen]


def train(
    images: NDArray[np.uint8], labels: NDArray[np.int64], epochs: int, seed: int
) -> list[Layer]:
    """Adam with a linear decay of the step."""
    rng = np.random.RandomState(seed)
    layers = network(rng)
    tensors = [p for layer in layers for p in layer.parameters]
    first = [np.zeros_like(p) for p in tensors]
    second = [np.zeros_like(p) for p in tensors]
    size, step = 64, 0
    steps = epochs * -(-len(images) // size)
    for epoch in range(epochs):
        loss = 0.0
        for x, y in batches(rng, images, labels, size):
            logits = forward(layers, x)
            shares = np.exp(logits - logits.max(1, keepdims=True))
            shares /= shares.sum(1, keepdims=True)
            loss -= float(np.log(shares[np.arange(len(y)), y] + 1e-9).sum())
            shares[np.arange(len(y)), y] -= 1
            grad: Array = (shares / len(y)).astype(np.float32)
            for layer in reversed(layers):
                grad = layer.backward(grad)
            step += 1
            rate = 2e-3 * (1 - step / (steps + 1))
            grads = [g for layer in layers for g in layer.grads]
            for p, g, m, v in zip(tensors, grads, first, second, strict=True):
                m += 0.1 * (g - m)
                v += 0.001 * (g * g - v)
                p -= rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
        say(f"epoch {epoch + 1}/{epochs}: loss {loss / len(images):.4f}")
    return layers


def export(layers: list[Layer], path: Path) -> None:
    """Write the network as ONNX: `image` (N, 1, 28, 28) float32 to `logits` (N, 10) float32."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes, weights, value = [], [], INPUT
    for number, layer in enumerate(layers):
        name, out = f"layer{number}", f"value{number}"
        if isinstance(layer, Pool):
            nodes.append(
                helper.make_node(
                    "MaxPool", [value], [out], name, kernel_shape=[2, 2], strides=[2, 2]
                )
            )
        else:
            weights += [
                numpy_helper.from_array(layer.weight, f"{name}.weight"),
                numpy_helper.from_array(layer.bias, f"{name}.bias"),
            ]
            inputs = [f"{name}.weight", f"{name}.bias"]
            if isinstance(layer, Conv):
                pads = [layer.size // 2] * 4
                nodes.append(
                    helper.make_node(
                        "Conv",
                        [value, *inputs],
                        [f"{name}.conv"],
                        name,
                        pads=pads,
                        kernel_shape=[layer.size] * 2,
                    )
                )
                nodes.append(helper.make_node("Relu", [f"{name}.conv"], [out], f"{name}.relu"))
            else:
                nodes.append(helper.make_node("Flatten", [value], [f"{name}.flat"], f"{name}.flat"))
                out = OUTPUT
                nodes.append(
                    helper.make_node("Gemm", [f"{name}.flat", *inputs], [out], name, transB=1)
                )
        value = out
    shape: list[str | int | None] = ["N", 1, SIDE, SIDE]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["N", 10])],
        weights,
    )
    # Opset 17 and IR 8 are read by every ONNX Runtime this package supports.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())


def quantize(source: Path, target: Path, calibration: Array) -> None:
    """Static INT8: symmetric weights per channel, QDQ form, ranges from `calibration`.

    The weights have 7 bits: ONNX Runtime adds two products in 16 bits on processors that have no
    VNNI, and with 8 bits those sums are cut off, so that a model is less accurate there.
    """
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc] # the base is untyped
        def __init__(self) -> None:
            self.rest = iter([{INPUT: calibration[i : i + 1]} for i in range(len(calibration))])

        def get_next(self) -> Any:
            return next(self.rest, None)

    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        # ONNX's own shape inference is enough here; the symbolic one would want sympy.
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared),
            str(target),
            Reader(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            reduce_range=True,
        )


def top1(model: Path, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> int:
    """Images that ONNX Runtime on the CPU classifies rightly."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    logits = session.run([OUTPUT], {INPUT: preprocess(images)})[0]
    return int((logits.argmax(1) == labels).sum())


def main() -> None:
    arguments = command.parser(__doc__, epochs=25).parse_args()
    data, models = command.places(arguments.out, DATA)

    from sklearn.datasets import load_digits

    source = load_digits()
    images = source.images.astype(np.uint8)
    labels = source.target.astype(np.int64)
    known, held_out = images[:-HELD_OUT], images[-HELD_OUT:]
    layers = train(known, labels[:-HELD_OUT], arguments.epochs, arguments.seed)

    calibration = known[np.random.RandomState(1).permutation(len(known))[:CALIBRATION]]
    np.savez_compressed(
        data,
        images=held_out,
        labels=labels[-HELD_OUT:].astype(np.uint8),
        calibration=calibration,
    )
    fp32, int8 = models / "digits_fp32.onnx", models / "digits_int8.onnx"
    export(layers, fp32)
    quantize(fp32, int8, preprocess(calibration))
    for path in (fp32, int8):
        good = top1(path, held_out, labels[-HELD_OUT:])
        say(f"{path}: {path.stat().st_size} bytes, Top-1 {good}/{HELD_OUT} = {good / HELD_OUT:.2%}")


if __name__ == "__main__":
    main()
