"""Train the scenes detector and write everything the scenes benchmark ships.

    pip install "assay[train]"
    python -m tools.train.scenes            # about ten minutes on one core

writes `runner/datasets/data/scenes/annotations.json` (200 scenes of held-out digits) and, into
`runner/benchmarks/models/`, `scenes_fp32.onnx`, `scenes_int8.onnx` (convolutions in INT8, the
last one excepted) and `scenes_int8_all.onnx` (every operator that can be), and says the mAP of
each as ONNX Runtime and pycocotools find it.  One thread and fixed seeds: the same machine and
the same versions give the same files; another may move the mAP by some tenths.

The network looks at the canvas on a grid of 12×12 places, 8 pixels apart.  Each place says
whether a digit's centre is there, which digit, and how far it is to the four sides of its box.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.benchmarks.graph import Graph
from runner.datasets.digits import Digits
from runner.datasets.scenes import (
    CANVAS,
    CLASSES,
    DATA,
    INPUT,
    Scene,
    calibration_pictures,
    coco_annotations,
    draw_many,
    preprocess,
)
from tools.train import command
from tools.train.command import say

OUTPUT = "detections"
SCENES, SEED = 200, 2024
STEP = 8  # pixels between two places of the grid
GRID = CANVAS // STEP
REACH = 16  # pixels that the number 1 of a distance stands for
# Channels in, channels out, stride of each 3×3 convolution.
LAYERS = ((1, 16, 2), (16, 32, 2), (32, 64, 1), (64, 64, 2), (64, 96, 1), (96, 96, 1))
HEAD = 1 + CLASSES + 4
# In the graph's NonMaxSuppression.
MOST_PER_CLASS, OVERLAP, LEAST_SCORE = 20, 0.5, 0.05

Array = NDArray[np.float32]


def targets(scenes: Sequence[Scene]) -> tuple[Array, NDArray[np.int64], Array]:
    """What the grid should say: digit here (n, 12, 12), which, and distances (n, 12, 12, 4).

    A place is responsible for a digit if its middle is less than 0.8 steps from the box's.
    """
    here = np.zeros((len(scenes), GRID, GRID), np.float32)
    which = np.zeros((len(scenes), GRID, GRID), np.int64)
    sides = np.ones((len(scenes), GRID, GRID, 4), np.float32)
    middle = (np.arange(GRID) + 0.5) * STEP
    for n, scene in enumerate(scenes):
        for (ymin, xmin, ymax, xmax), label in zip(scene.boxes, scene.digits, strict=True):
            rows = np.flatnonzero(np.abs(middle - (ymin + ymax) / 2) < 0.8 * STEP)
            columns = np.flatnonzero(np.abs(middle - (xmin + xmax) / 2) < 0.8 * STEP)
            for i in rows:
                for j in columns:
                    y, x = middle[i], middle[j]
                    here[n, i, j], which[n, i, j] = 1, label
                    sides[n, i, j] = (y - ymin, x - xmin, ymax - y, xmax - x)
    return here, which, sides / np.float32(REACH)


def train(scenes: Sequence[Scene], epochs: int, seed: int) -> list[tuple[Array, Array, int]]:
    """Weights, bias and stride of every convolution, batch normalisation folded in."""
    torch: Any = import_module("torch")
    nn, f = torch.nn, torch.nn.functional
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    parts: list[Any] = []
    for inputs, outputs, stride in LAYERS:
        parts += [
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        ]
    parts.append(nn.Conv2d(LAYERS[-1][1], HEAD, 1))
    net = nn.Sequential(*parts).to(memory_format=torch.channels_last)

    pictures = torch.from_numpy(preprocess(np.stack([scene.image for scene in scenes])))
    here, which, sides = (torch.from_numpy(array) for array in targets(scenes))
    size = 32
    steps = epochs * (len(scenes) // size)
    optimiser = torch.optim.AdamW(net.parameters(), weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 6e-3, total_steps=steps)
    for epoch in range(epochs):
        total = 0.0
        order = torch.randperm(len(scenes))
        for start in range(0, len(scenes) - size + 1, size):
            chosen = order[start : start + size]
            out = net(pictures[chosen].contiguous(memory_format=torch.channels_last))
            out = out.permute(0, 2, 3, 1)
            truth = here[chosen]
            some = truth > 0
            presence = f.binary_cross_entropy_with_logits(
                out[..., 0], truth, pos_weight=torch.tensor(2.0)
            )
            naming = f.cross_entropy(out[..., 1 : 1 + CLASSES][some], which[chosen][some])
            found, asked = f.softplus(out[..., 1 + CLASSES :][some]), sides[chosen][some]
            shared = torch.minimum(found, asked)
            both = (shared[:, 0] + shared[:, 2]) * (shared[:, 1] + shared[:, 3])
            areas = [(s[:, 0] + s[:, 2]) * (s[:, 1] + s[:, 3]) for s in (found, asked)]
            fit = (both / (areas[0] + areas[1] - both).clamp(min=1e-6)).mean()
            loss = 2 * presence + naming + 2 * (1 - fit)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item()
        say(f"epoch {epoch + 1}/{epochs}: loss {total / (len(scenes) // size):.4f}")
    net.eval()
    folded = []
    for at, (_, _, stride) in zip(range(0, len(parts), 3), LAYERS, strict=False):
        conv, norm = parts[at], parts[at + 1]
        scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        weight = conv.weight * scale[:, None, None, None]
        bias = norm.bias - norm.running_mean * scale
        folded.append((weight.detach().numpy(), bias.detach().numpy(), stride))
    folded.append((parts[-1].weight.detach().numpy(), parts[-1].bias.detach().numpy(), 1))
    return folded


def export(layers: Sequence[tuple[Array, Array, int]], path: Path) -> None:
    """Write the detector as ONNX.

    `image` (N, 1, 96, 96) float32 to `detections` (K, 7) float32: [place in the batch, ymin, xmin,
    ymax, xmax, score, category id], boxes as fractions of the canvas.
    """
    g = Graph(
        "scenes",
        "Detects handwritten digits on a 96x96 canvas. Trained on the UCI handwritten digits "
        "(CC BY 4.0) by tools/train/scenes.py.",
    )
    value = g.input(INPUT, "float32", ["N", 1, CANVAS, CANVAS])
    for number, (weight, bias, stride) in enumerate(layers):
        size, last = weight.shape[2], number == len(layers) - 1
        value = g.add(
            "Conv",
            value,
            g.weight(weight, f"conv{number}.weight"),
            g.weight(bias, f"conv{number}.bias"),
            name="head" if last else "",
            kernel_shape=[size, size],
            pads=[size // 2] * 4,
            strides=[stride, stride],
        )
        if not last:
            value = g.add("Relu", value)
    places = GRID * GRID
    flat = g.add("Reshape", value, g.weight([0, HEAD, places]))
    presence, names, sides = g.add_many(
        "Split", [flat, g.weight([1, CLASSES, 4])], ["", "", ""], axis=1
    )
    scores = g.add("Mul", g.add("Sigmoid", presence), g.add("Softmax", names, axis=1))
    middle = ((np.arange(GRID) + 0.5) * STEP / CANVAS).astype(np.float32)
    grid = np.stack([np.repeat(middle, GRID), np.tile(middle, GRID)])  # (2, places): y, x
    lengths = g.add("Mul", g.add("Softplus", sides), g.weight(np.array(REACH / CANVAS, np.float32)))
    signs = np.array([-1, -1, 1, 1], np.float32)[:, None]
    boxes = g.add(
        "Add", g.add("Mul", lengths, g.weight(signs)), g.weight(np.concatenate([grid, grid]))
    )
    boxes = g.add("Transpose", boxes, perm=[0, 2, 1])
    chosen = g.add(
        "NonMaxSuppression",
        boxes,
        scores,
        g.weight(np.array([MOST_PER_CLASS], np.int64)),
        g.weight(np.array([OVERLAP], np.float32)),
        g.weight(np.array([LEAST_SCORE], np.float32)),
    )  # (K, 3): image, class, place
    image, label, place = g.add_many("Split", [chosen, g.weight([1, 1, 1])], ["", "", ""], axis=1)
    corners = g.add("GatherND", boxes, g.add("Concat", image, place, axis=1))
    score = g.add("GatherND", scores, chosen)
    one = g.weight([1])
    category = g.add("Add", label, one)
    g.add(
        "Concat",
        g.add("Cast", image, to=1),
        corners,
        g.add("Unsqueeze", score, one),
        g.add("Cast", category, to=1),
        name=OUTPUT,
        axis=1,
    )
    g.output(OUTPUT, "float32", ["K", 7])
    g.save(path)


def quantize(source: Path, target: Path, calibration: Array, everything: bool) -> None:
    """Static INT8 in QDQ form, symmetric weights per channel, of 7 bits (see `train_digits`).

    Args:
        everything: all operators that can be, up to the NonMaxSuppression (what follows it counts
            and copies), ranges by minimum and maximum; else the convolutions without the last,
            ranges by the 99.99th percentile.
    """
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc] # the base is untyped
        def __init__(self) -> None:
            starts = range(0, len(calibration), 10)
            self.rest = iter([{INPUT: calibration[i : i + 10]} for i in starts])

        def get_next(self) -> Any:
            return next(self.rest, None)

    import onnx

    nodes = list(onnx.load(str(source)).graph.node)
    suppression = next(n for n, node in enumerate(nodes) if node.op_type == "NonMaxSuppression")
    some: dict[str, Any] = {"nodes_to_exclude": [node.name for node in nodes[suppression:]]}
    if not everything:
        some = {
            "op_types_to_quantize": ["Conv"],
            "nodes_to_exclude": [node.name for node in nodes if "head" in node.output],
            "calibrate_method": CalibrationMethod.Percentile,
            "extra_options": {"CalibPercentile": 99.99},
        }
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        # ONNX's own shape inference is enough here; the symbolic one would want sympy.
        quant_pre_process(
            str(source), str(prepared), skip_symbolic_shape=True, skip_optimization=True
        )
        quantize_static(
            str(prepared),
            str(target),
            Reader(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            reduce_range=True,
            **some,
        )


def mean_precision(model: Path, scenes: Sequence[Scene]) -> tuple[float, float]:
    """mAP and AP50 in percent of a model on ONNX Runtime's CPU."""
    import onnxruntime

    from checker.accuracy.detection import score_boxes

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    pictures = preprocess(np.stack([scene.image for scene in scenes]))
    rows = []
    for start in range(0, len(pictures), 20):
        found = session.run([OUTPUT], {INPUT: pictures[start : start + 20]})[0]
        ymin, xmin, ymax, xmax = CANVAS * found[:, 1:5].T
        columns = [found[:, 0] + start, xmin, ymin, xmax - xmin, ymax - ymin]
        rows.append(np.stack([*columns, found[:, 5], found[:, 6]], 1))
    score = score_boxes(np.concatenate(rows), coco_annotations(scenes, SEED))
    return score.map, score.ap50


def main() -> None:
    parser = command.parser(__doc__, epochs=24)
    parser.add_argument("--scenes", type=int, default=3000, help="scenes to train on")
    parser.add_argument("--quantize-only", action="store_true", help="keep the FP32 model")
    arguments = parser.parse_args()
    data, models = command.places(arguments.out, DATA)

    held_out = Digits()
    test = draw_many(SCENES, SEED, held_out.images, held_out.labels)
    data.write_text(json.dumps(coco_annotations(test, SEED), separators=(",", ":")) + "\n", "utf-8")

    fp32 = models / "scenes_fp32.onnx"
    if not arguments.quantize_only:
        from sklearn.datasets import load_digits

        source = load_digits()
        known = source.images[: -len(held_out)].astype(np.uint8)
        labels = source.target[: -len(held_out)].astype(np.int64)
        scenes = draw_many(arguments.scenes, arguments.seed, known, labels)
        export(train(scenes, arguments.epochs, arguments.seed), fp32)
    calibration = preprocess(calibration_pictures())
    some, everything = models / "scenes_int8.onnx", models / "scenes_int8_all.onnx"
    quantize(fp32, some, calibration, everything=False)
    quantize(fp32, everything, calibration, everything=True)
    reference, _ = mean_precision(fp32, test)
    for path in (fp32, some, everything):
        value, half = mean_precision(path, test)
        say(
            f"{path}: {path.stat().st_size} bytes, mAP {value:.3f} % ({value / reference:.2%} of "
            f"FP32), AP50 {half:.2f} %"
        )


if __name__ == "__main__":
    main()
