"""SSD with MobileNet v1 on COCO, 300×300.

The known file: ssd_mobilenet_v1_coco_2018_01_28.onnx (`image_tensor:0`, NHWC, uint8;
`num_detections:0`, `detection_boxes:0`, `detection_scores:0`, `detection_classes:0`, which are
COCO's category ids).  Options beside a model: `input`, `number`, `boxes`, `scores`, `classes` (names of
outputs), and those of the preprocessing (`signature.RECIPE_OPTIONS`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from runner.benchmarks import detection
from runner.benchmarks.base import Benchmark, Tensor
from runner.benchmarks.signature import (
    RECIPE_OPTIONS,
    fit_recipe,
    fixed_batch,
    read_options,
    read_signature,
)
from runner.datasets.coco import SSD_MOBILENET as RECIPE
from runner.datasets.coco import coco

OPTIONS = ("input", "number", "boxes", "scores", "classes", *RECIPE_OPTIONS)


def fit(benchmark: Benchmark, model: Path | None, data: Path | None) -> Benchmark:
    """With the names and layout of the model's graph."""
    if model is None:
        return benchmark
    signature = read_signature(model, read_options(model, OPTIONS))
    picture = signature.input(lambda t: len(t.shape) == 4, "one input of pictures, 4 axes")
    recipe = fit_recipe(RECIPE, signature, picture)
    outputs = tuple(
        detection.named_output(signature, key, parts)
        for key, parts in (
            ("number", ("num_detections",)),
            ("boxes", ("detection_boxes",)),
            ("scores", ("detection_scores",)),
            ("classes", ("detection_classes",)),
        )
    )
    batch = fixed_batch(picture)
    return replace(
        benchmark,
        preparation=recipe.text(),
        weights=model.name,
        inputs=(replace(picture, shape=(batch, *recipe.shape)),),
        outputs=outputs,
        make_dataset=coco(recipe, "direct"),
        execute=detection.ByBatch(batch, detection.by_number),
    )


SSD_MOBILENET = Benchmark(
    name="ssd-mobilenet",
    loadgen_model="ssd-mobilenet",
    title="object detection on COCO by SSD with MobileNet v1, 300x300",
    metric="mAP",
    inputs=(Tensor(RECIPE.input_name, (None, *RECIPE.shape), RECIPE.dtype),),
    outputs=(
        Tensor("num_detections:0", (None,), "float32"),
        Tensor("detection_boxes:0", (None, None, 4), "float32"),
        Tensor("detection_scores:0", (None, None), "float32"),
        Tensor("detection_classes:0", (None, None), "float32"),
    ),
    models={},
    weights="the model file that was named",
    data="COCO 2017 validation set, scaled to 300x300",
    quantization="The model was run as given; how it was quantised, if it was, is to be added",
    make_dataset=coco(RECIPE, "direct"),
    encode=detection.encode,
    answer=detection.answer,
    score=partial(detection.score, classes="direct"),
    empty_answers=True,
    payload_bytes=280,
    performance_sample_count=256,
    batch_size=8,
    unbatched=("onnxruntime",),
    execute=detection.ByBatch(None, detection.by_number),
    fit=fit,
)
