"""RetinaNet with ResNeXt-50 on OpenImages, 800×800.

The reference's file: resnext50_32x4d_fpn.onnx (`images`, NCHW, values 0 to 1, normalised inside the
graph; `boxes` from left and top in pixels of the scaled picture, `labels`, which are the annotation
file's category ids, and `scores`).  Its outputs are those of one picture and have no axis for the
batch; a graph whose outputs have that axis, padded with low scores, is run in batches.  Options
beside a model: `input`, `boxes`, `labels`, `scores` (names of outputs), `order` ("xyxy" or "yxyx"),
`unit` ("pixels" or "fractions"), `label_offset` (what is taken off a label to give the category
id), `least_score`, and those of the preprocessing (`signature.RECIPE_OPTIONS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from runner.benchmarks import detection
from runner.benchmarks.base import Benchmark, Tensor
from runner.benchmarks.signature import (
    RECIPE_OPTIONS,
    fit_recipe,
    fixed_batch,
    options_file,
    read_options,
    read_signature,
)
from runner.datasets.coco import OPENIMAGES, openimages
from runner.datasets.coco import RETINANET as RECIPE
from runner.errors import InferenceError

OPTIONS = (
    "input", "boxes", "labels", "scores", "order", "unit", "label_offset", "least_score",
    *RECIPE_OPTIONS,
)  # fmt: skip
LEAST_SCORE = 0.05  # as in the reference's accuracy run


@dataclass(frozen=True, kw_only=True)
class Find:
    """A graph's boxes, labels and scores to boxes as fractions and category ids.

    Attributes:
        side: pixels of the scaled picture, what the boxes are measured in; 1: fractions.
        order: of a box's corners.
        label_offset: taken off the labels.
        least: boxes of a lower score are left out.
    """

    side: int = RECIPE.side
    order: Literal["xyxy", "yxyx"] = "xyxy"
    label_offset: int = 0
    least: float = LEAST_SCORE

    def __call__(self, outputs: Sequence[NDArray[Any]]) -> detection.Found:
        """Raises InferenceError where the outputs have other shapes or are not finite."""
        if len(outputs) != 3:
            raise InferenceError(f"found {len(outputs)} model outputs; expected 3.")
        boxes, labels, scores = outputs
        if scores.ndim == 1:  # one picture, no axis for the batch
            boxes, labels, scores = boxes[None], labels[None], scores[None]
        found = detection.by_score([boxes, labels, scores], self.least, self.order)
        return replace(
            found,
            boxes=found.boxes.astype(np.float32) / np.float32(self.side),
            classes=found.classes - self.label_offset,
        )


def fit(benchmark: Benchmark, model: Path | None, data: Path | None) -> Benchmark:
    """With the names, layout and batch of the model's graph."""
    if model is None:
        return benchmark
    signature = read_signature(model, read_options(model, OPTIONS))
    picture = signature.input(lambda t: len(t.shape) == 4, "one input of pictures, 4 axes")
    outputs = tuple(
        detection.named_output(signature, key, (key,)) for key in ("boxes", "labels", "scores")
    )
    recipe = fit_recipe(RECIPE, signature, picture)
    unit = signature.option("unit", ("pixels", "fractions")) or "pixels"
    find = Find(
        side=recipe.side if unit == "pixels" else 1,
        order=signature.option("order", ("xyxy", "yxyx")) or "xyxy",
        label_offset=signature.option("label_offset", (0, 1)) or 0,
        least=detection.least_score(signature, LEAST_SCORE),
    )
    flat = len(outputs[2].shape) == 1
    batch = 1 if flat else fixed_batch(picture)
    return replace(
        benchmark,
        preparation=(
            f"{recipe.text()}; boxes {find.order} in {unit}, label offset {find.label_offset}, "
            f"scores of {find.least:g} or more"
        ),
        alternatives=_alternatives(find, unit, options_file(model)),
        weights=model.name,
        inputs=(replace(picture, shape=(batch, *recipe.shape)),),
        outputs=outputs,
        make_dataset=openimages(recipe),
        execute=detection.ByBatch(batch, find),
    )


def _alternatives(find: Find, unit: str, file: Path) -> str:
    """What usually differs between exports of the same network."""
    return (
        f"label_offset = {1 - find.label_offset}; unit = "
        f'"{"fractions" if unit == "pixels" else "pixels"}"; order = '
        f'"{"yxyx" if find.order == "xyxy" else "xyxy"}"; mean and std (white = 1) where the graph '
        f"does not normalise, or colour_order, in {file} (see docs/models.md)"
    )


RETINANET = Benchmark(
    name="retinanet",
    title="object detection on OpenImages by RetinaNet with ResNeXt-50, 800x800",
    metric="mAP",
    inputs=(Tensor(RECIPE.input_name, (None, *RECIPE.shape), RECIPE.dtype),),
    outputs=(
        Tensor("boxes", (None, 4), "float32"),
        Tensor("labels", (None,), "int64"),
        Tensor("scores", (None,), "float32"),
    ),
    data=f"{OPENIMAGES.name} (MLPerf's 24,781 pictures), scaled to 800x800",
    make_dataset=openimages(RECIPE),
    encode=detection.encode,
    answer=detection.answer,
    score=partial(detection.score, classes="direct"),
    empty_answers=True,
    payload_bytes=2800,
    performance_sample_count=64,
    batch_size=1,
    server_batch_size=1,
    execute=detection.ByBatch(1, Find()),
    fit=fit,
)
