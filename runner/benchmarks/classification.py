"""What image classification on ImageNet shares: ResNet-50 and MobileNet differ in preprocessing.

Options beside a model (see `runner.benchmarks.signature` and docs/models.md): `input`, `output`,
`label_offset` (0 or 1), `preprocessing` (resnet50, mobilenet or pytorch) and `RECIPE_OPTIONS`, which
change single parts of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from runner.benchmarks.base import Benchmark, Score, Tensor
from runner.benchmarks.signature import (
    RECIPE_OPTIONS,
    fit_recipe,
    fixed_batch,
    in_batches,
    label_offset,
    open_batch,
    options_file,
    read_options,
    read_signature,
)
from runner.datasets import Dataset
from runner.datasets.imagenet import CLASSES, RECIPES, ImageNet, imagenet
from runner.datasets.images import Recipe
from runner.errors import InferenceError, RunFailed

OPTIONS = ("input", "output", "label_offset", "preprocessing", *RECIPE_OPTIONS)


def encode(outputs: Sequence[NDArray[Any]], count: int, offset: int = 0) -> NDArray[np.int32]:
    """Classes (n,) or (n, 1), or their scores (n, classes), to int32 labels 0..999.

    Args:
        offset: taken off: 1 where class 0 is a background; that then is -1, never right.

    Raises:
        InferenceError: another shape, a score that is not finite, or a class that is none.
    """
    if len(outputs) != 1:
        raise InferenceError(f"found {len(outputs)} model outputs; expected 1.")
    output = outputs[0]
    if output.dtype.kind in "iu" and output.shape in ((count,), (count, 1)):
        classes = output.reshape(count).astype(np.int32)
    elif output.dtype.kind == "f" and output.shape == (count, CLASSES + offset):
        classes = output.argmax(1).astype(np.int32)
        if not np.isfinite(output[np.arange(count), classes]).all():
            raise InferenceError("found scores that are NaN or infinite; expected finite numbers.")
    else:
        raise InferenceError(
            f"found an output of shape {list(output.shape)}, {output.dtype}; expected [{count}] "
            f"classes or [{count}, {CLASSES + offset}] scores."
        )
    labels: NDArray[np.int32] = classes - np.int32(offset)
    if count and not -offset <= int(labels.min()) <= int(labels.max()) < CLASSES:
        raise InferenceError(
            f"found classes {int(classes.min())} to {int(classes.max())}; expected 0 to "
            f"{CLASSES - 1 + offset}."
        )
    return labels


def answer(dataset: Dataset, indices: Sequence[int], offset: int = 0) -> list[NDArray[Any]]:
    return [cast(ImageNet, dataset).true(indices) + offset]


def score(log: Path, dataset: Dataset) -> Score:
    from checker.accuracy.problem import AccuracyError
    from checker.accuracy.top1 import score_log

    try:
        result = score_log(log, cast(ImageNet, dataset).labels, offset=0)
    except AccuracyError as error:
        raise RunFailed(f"{log}: the accuracy cannot be computed: {error}") from error
    return Score("acc", result.accuracy, result.line())


def fit(
    benchmark: Benchmark, model: Path | None, data: Path | None, preprocessing: str
) -> Benchmark:
    """With the names, layout and label offset of the model's graph."""
    if model is None:
        return benchmark
    signature = read_signature(model, read_options(model, OPTIONS))
    picture = signature.input(lambda t: len(t.shape) == 4, "one input of pictures, 4 axes")
    output = signature.output(_is_answer, "an output of classes or of their scores")
    base = signature.option("preprocessing", RECIPES) or preprocessing
    recipe = fit_recipe(RECIPES[base], signature, picture)
    offset = label_offset(signature, output)
    batch = fixed_batch(picture)
    return replace(
        benchmark,
        weights=model.name,
        inputs=(replace(picture, shape=(batch, *recipe.shape)),),
        outputs=(output if batch else open_batch(output),),
        make_dataset=imagenet(recipe),
        encode=partial(encode, offset=offset),
        answer=partial(answer, offset=offset),
        execute=in_batches(batch) if batch else None,
        preparation=f"{recipe.text()}; label offset {offset}",
        alternatives=_alternatives(base, recipe, offset, options_file(model)),
    )


def _alternatives(base: str, recipe: Recipe, offset: int, file: Path) -> str:
    """What usually differs between models of the same benchmark."""
    others = [
        f'preprocessing = "{name}" ({other.scaling}, mean {other.mean[0]:.4g}, scale '
        f"{other.scale[0]:.4g} for red)"
        for name, other in RECIPES.items()
        if name != base
    ]
    swapped = "BGR" if recipe.order == "RGB" else "RGB"
    return (
        f'{"; ".join(others)}; label_offset = {1 - offset}; colour_order = "{swapped}"; or side, '
        f"resize, resize_rule, white, mean and std one by one, in {file} (see docs/models.md)"
    )


def _is_answer(tensor: Tensor) -> bool:
    if tensor.dtype.startswith("int"):
        return len(tensor.shape) == 1 or tensor.shape[1:] == (1,)
    return len(tensor.shape) == 2 and tensor.shape[1] in (CLASSES, CLASSES + 1, None)


def quantization(name: str) -> str:
    """For the calibration document."""
    return f"{name} was run as given; how its model was quantised, if it was, is to be filled in"


def make(name: str, title: str, preprocessing: str, input_name: str) -> Benchmark:
    """A classification benchmark on ImageNet."""
    recipe = replace(RECIPES[preprocessing], input_name=input_name)
    return Benchmark(
        name=name,
        loadgen_model=name,
        title=title,
        metric="acc",
        inputs=(Tensor(input_name, (None, *recipe.shape), recipe.dtype),),
        outputs=(Tensor("ArgMax:0", (None,), "int64"),),
        models={},
        weights="the model file that was named",
        data="ImageNet 2012 validation set, scaled and cut to 224x224",
        quantization="The model was run as given; how it was quantised, if it was, is to be added",
        make_dataset=imagenet(recipe),
        encode=encode,
        answer=answer,
        score=score,
        payload_bytes=4,
        performance_sample_count=1024,
        unbatched=("onnxruntime",),
        fit=partial(fit, preprocessing=preprocessing),
    )
