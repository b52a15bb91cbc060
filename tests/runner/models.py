"""Small models with the names, shapes and layouts of the real ones.

What they answer is known: the mean colour of a picture, after preprocessing, picks the nearest of
a few colours, and that picks the answer.  A wrong mean, scale, layout, order of colours or label
offset picks another.  The translator looks each word up in a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from runner.benchmarks.graph import Graph

COLOURS: NDArray[np.uint8] = np.array(
    [(200, 60, 40), (40, 190, 70), (50, 70, 210), (190, 190, 50), (60, 180, 190), (180, 50, 180)],
    np.uint8,
)
FLOAT, INT64 = 1, 7


def nearest_colour(g: Graph, picture: str, layout: str, colours: NDArray[Any]) -> str:
    """Scores (N, colours): highest for the colour nearest to the picture's mean."""
    if layout == "NCHW":
        mean = g.add("Flatten", g.add("GlobalAveragePool", picture))
    else:
        flat = g.add("Cast", picture, to=FLOAT)
        mean = g.add("ReduceMean", flat, axes=[1, 2], keepdims=0)
    weights = np.asarray(colours, np.float32)
    product = g.add("MatMul", mean, g.weight(2 * weights.T))
    return g.add("Sub", product, g.weight((weights**2).sum(1)))


def classifier(
    path: Path,
    labels: Sequence[int],
    colours: NDArray[Any],
    *,
    input_name: str = "input_tensor:0",
    layout: Literal["NCHW", "NHWC"] = "NCHW",
    batch: int | str = "N",
    classes: int = 1001,
    outputs: Mapping[str, str] | None = None,
    hide_classes: bool = False,
) -> Path:
    """A picture's nearest colour to a class of `classes`.

    Args:
        labels: the class of each colour, 0..999; with 1001 classes one is added.
        colours: as the model sees them, after preprocessing.
        outputs: name to "classes" or "scores"; the real ResNet-50's two if None.
        hide_classes: leave nothing in the graph that tells the number of classes.
    """
    g = Graph("classifier")
    shape = (batch, 3, 224, 224) if layout == "NCHW" else (batch, 224, 224, 3)
    picture = g.input(input_name, "float32", shape)
    near = nearest_colour(g, picture, layout, colours)
    places = np.asarray(labels, np.int64) + (classes - 1000)
    wanted = outputs or {"ArgMax:0": "classes", "softmax_tensor:0": "scores"}
    if hide_classes:
        best = g.add("ArgMax", near, axis=1, keepdims=0)
        (name,) = wanted
        g.add("Gather", g.weight(places), best, name=name)
        g.output(name, "int64", [batch])
        g.save(path)
        return path
    spread = np.full((len(labels), classes), 0, np.float32)
    spread[np.arange(len(labels)), places] = 1
    # The nearest colour's score becomes its class's; all others are far below.
    least = g.add("ReduceMin", near, axes=[1], keepdims=1)
    scores = g.add("MatMul", g.add("Sub", near, least), g.weight(spread))
    for name, kind in wanted.items():
        if kind == "scores":
            g.add("Softmax", scores, name=name, axis=1)
            g.output(name, "float32", [batch, classes])
        else:
            g.add("ArgMax", scores, name=name, axis=1, keepdims=0)
            g.output(name, "int64", [batch])
    g.save(path)
    return path


Boxes = Sequence[Sequence[tuple[float, float, float, float, float, int]]]
"""For each colour its detections: ymin, xmin, ymax, xmax (fractions), score, class."""


TrueBoxes = Sequence[Sequence[tuple[float, float, float, float, int]]]
"""For each picture its true boxes: ymin, xmin, ymax, xmax (fractions), category."""


def _table(found: Boxes) -> tuple[NDArray[Any], ...]:
    most = max(map(len, found))
    numbers = np.array([len(boxes) for boxes in found], np.float32)
    table = np.zeros((len(found), most, 6), np.float32)
    for row, boxes in enumerate(found):
        table[row, : len(boxes)] = boxes
    return numbers, table[:, :, :4], table[:, :, 4], table[:, :, 5]


def ssd_mobilenet(path: Path, found: Boxes, suffix: str = ":0") -> Path:
    """`image_tensor:0` (N, 300, 300, 3) uint8 to the four outputs of TensorFlow's detectors."""
    g = Graph("ssd-mobilenet")
    picture = g.input("image_tensor" + suffix, "uint8", ["N", "H", "W", 3])
    near = nearest_colour(g, picture, "NHWC", COLOURS[: len(found)])
    best = g.add("ArgMax", near, axis=1, keepdims=0)
    names = ("num_detections", "detection_boxes", "detection_scores", "detection_classes")
    for name, values in zip(names, _table(found), strict=True):
        g.add("Gather", g.weight(values), best, name=name + suffix)
        g.output(name + suffix, "float32", ["N", *values.shape[1:]])
    g.save(path)
    return path


def ssd_resnet34(path: Path, found: Boxes, colours: NDArray[Any]) -> Path:
    """`image` (1, 3, 1200, 1200) to `bboxes` from left and top, `labels`, `scores`."""
    g = Graph("ssd-resnet34")
    picture = g.input("image", "float32", [1, 3, 1200, 1200])
    near = nearest_colour(g, picture, "NCHW", colours)
    best = g.add("ArgMax", near, axis=1, keepdims=0)
    _, boxes, scores, classes = _table(found)
    for name, dtype, values in (
        ("bboxes", "float32", boxes[:, :, [1, 0, 3, 2]]),
        ("labels", "int64", classes.astype(np.int64)),
        ("scores", "float32", scores),
    ):
        g.add("Gather", g.weight(values), best, name=name)
        g.output(name, dtype, [1, "nbox", *values.shape[2:]])
    g.save(path)
    return path


def retinanet(
    path: Path, found: Boxes, *, batch: int | str = 1, normalised: bool = True, shift: int = 0
) -> Path:
    """`images` (N, 3, 800, 800) to `boxes` from left and top in pixels, `labels`, `scores`.

    Args:
        batch: 1: as the reference's file, outputs of one picture, as many as were found; else
            outputs with an axis for the batch, padded with scores of 0.
        normalised: takes values of 0 to 1; else whatever mean and deviation make of them.
        shift: added to the labels.
    """
    g = Graph("retinanet")
    picture = g.input("images", "float32", [batch, 3, 800, 800])
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    colours = COLOURS[: len(found)] / 255
    near = nearest_colour(
        g, picture, "NCHW", colours if normalised else (colours - mean) / deviation
    )
    best = g.add("ArgMax", near, axis=1, keepdims=0)
    _, boxes, scores, classes = _table(found)
    tables = (
        ("boxes", "float32", boxes[:, :, [1, 0, 3, 2]] * 800),
        ("labels", "int64", classes.astype(np.int64) + shift),
        ("scores", "float32", scores),
    )
    if batch != 1:
        for name, dtype, values in tables:
            g.add("Gather", g.weight(values), best, name=name)
            g.output(name, dtype, [batch, *values.shape[1:]])
    else:
        one = g.add("Squeeze", best, g.weight([0]))
        real = g.add("Greater", g.add("Gather", g.weight(scores), one), g.weight([0.01]))
        for name, dtype, values in tables:
            every = g.add("Gather", g.weight(values), one)
            g.add("Compress", every, real, name=name, axis=0)
            g.output(name, dtype, ["K", *values.shape[2:]])
    g.save(path)
    return path


def translator(folder: Path, table: NDArray[np.int64], words: int, *, column: bool = False) -> Path:
    """`encoder.onnx` and `decoder.onnx` that put `table[word]` in the place of each word.

    Args:
        words: size of the target's vocabulary.
        column: the decoder takes the last word as a column (N, 1), and lengths are asked for.
    """
    g = Graph("encoder")
    source = g.input("src", "int64", ["N", "T"])
    g.add("Identity", source, name="memory")
    if column:
        lengths = g.input("src_length", "int64", ["N"])
        g.add("Sub", lengths, lengths, name="position")
    else:
        sums = g.add("ReduceSum", source, g.weight([1]), keepdims=0)
        g.add("Sub", sums, sums, name="position")
    g.output("memory", "int64", ["N", "T"])
    g.output("position", "int64", ["N"])
    g.save(folder / "encoder.onnx")

    g = Graph("decoder")
    token = g.input("token", "int64", ["N", 1] if column else ["N"])
    memory = g.input("memory", "int64", ["N", "T"])
    position = g.input("position", "int64", ["N"])
    one = g.weight([1])
    here = g.add("GatherElements", memory, g.add("Unsqueeze", position, one), axis=1)
    word = g.add("Gather", g.weight(table), g.add("Squeeze", here, one))
    scores = np.zeros((words, words), np.float32)
    np.fill_diagonal(scores, 5)
    last = g.add("Mul", token, g.weight([0]))  # the last word is asked for, and ignored
    flat = g.add("Squeeze", last, one) if column else last
    g.add("Gather", g.weight(scores), g.add("Add", word, flat), name="logits")
    length = g.add("Sub", g.add("Gather", g.add("Shape", memory), one), one)
    g.add("Min", g.add("Add", position, one), length, name="position_out")
    g.output("logits", "float32", ["N", words])
    g.output("position_out", "int64", ["N"])
    g.save(folder / "decoder.onnx")
    return folder
