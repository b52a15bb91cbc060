"""SSD with ResNet-34 on COCO, 1200×1200.

The known files: resnet34-ssd1200.onnx (`image`, NCHW, one picture at a time; `bboxes` from left
and top, `labels` 1 to 80 in the order of COCO's category ids, `scores`) and the TensorFlow
version's export (`image:0`; `detection_bboxes:0` from top and left, `detection_classes:0`,
`detection_scores:0`).  Options beside a model: `input`, `boxes`, `classes`, `scores` (names of
outputs), `order` ("xyxy" or "yxyx"), `preprocessing` ("ssd-resnet34" or "ssd-resnet34-tf"),
`least_score`, and those of the preprocessing (`signature.RECIPE_OPTIONS`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from runner.benchmarks import detection
from runner.benchmarks.base import Benchmark, Tensor
from runner.benchmarks.signature import (
    RECIPE_OPTIONS,
    fit_recipe,
    fixed_batch,
    read_options,
    read_signature,
)
from runner.datasets.coco import RECIPES, coco
from runner.datasets.coco import SSD_RESNET34 as RECIPE

OPTIONS = (
    "input", "boxes", "classes", "scores", "order", "preprocessing", "least_score",
    *RECIPE_OPTIONS,
)  # fmt: skip
LEAST_SCORE = 0.05  # as in the reference's accuracy run


def fit(benchmark: Benchmark, model: Path | None, data: Path | None) -> Benchmark:
    """With the names, layout and order of corners of the model's graph."""
    if model is None:
        return benchmark
    signature = read_signature(model, read_options(model, OPTIONS))
    picture = signature.input(lambda t: len(t.shape) == 4, "one input of pictures, 4 axes")
    outputs = tuple(
        detection.named_output(signature, key, parts)
        for key, parts in (
            ("boxes", ("boxes",)),
            ("classes", ("classes", "labels")),
            ("scores", ("scores",)),
        )
    )
    tensorflow = outputs[0].name.startswith("detection_")
    order: Literal["xyxy", "yxyx"] = "yxyx" if tensorflow else "xyxy"
    order = signature.option("order", ("xyxy", "yxyx")) or order
    name = signature.option("preprocessing", RECIPES)
    recipe = RECIPES[name or ("ssd-resnet34-tf" if tensorflow else "ssd-resnet34")]
    recipe = fit_recipe(recipe, signature, picture)
    least = detection.least_score(signature, LEAST_SCORE)
    batch = fixed_batch(picture)
    return replace(
        benchmark,
        preparation=recipe.text(),
        weights=model.name,
        inputs=(replace(picture, shape=(batch, *recipe.shape)),),
        outputs=outputs,
        make_dataset=coco(recipe, "inverse"),
        execute=detection.ByBatch(batch, partial(detection.by_score, least=least, order=order)),
    )


SSD_RESNET34 = Benchmark(
    name="ssd-resnet34",
    loadgen_model="ssd-resnet34",
    title="object detection on COCO by SSD with ResNet-34, 1200x1200",
    metric="mAP",
    inputs=(Tensor(RECIPE.input_name, (None, *RECIPE.shape), RECIPE.dtype),),
    outputs=(
        Tensor("bboxes", (None, None, 4), "float32"),
        Tensor("labels", (None, None), "int64"),
        Tensor("scores", (None, None), "float32"),
    ),
    models={},
    weights="the model file that was named",
    data="COCO 2017 validation set, scaled to 1200x1200",
    quantization="The model was run as given; how it was quantised, if it was, is to be added",
    make_dataset=coco(RECIPE, "inverse"),
    encode=detection.encode,
    answer=detection.answer,
    score=partial(detection.score, classes="inverse"),
    empty_answers=True,
    payload_bytes=1400,
    performance_sample_count=64,
    batch_size=1,
    server_batch_size=1,
    execute=detection.ByBatch(None, partial(detection.by_score, least=LEAST_SCORE, order="xyxy")),
    fit=fit,
)
