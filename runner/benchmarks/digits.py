"""Image classification on real handwritten digits: the benchmark that needs no download.

Answers are logged as int32 class ids, little-endian, the way image classification logs them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from runner.benchmarks.base import Benchmark, Score, Tensor
from runner.datasets import Dataset
from runner.datasets.digits import INPUT, SIDE, Digits
from runner.errors import InferenceError, RunFailed

MODELS = Path(__file__).parent / "models"
CLASSES = 10
ANSWERS = [np.array((label,), np.int32) for label in range(CLASSES)]


def encode(outputs: Sequence[NDArray[Any]], count: int) -> NDArray[np.int32]:
    """Logits (count, 10) to class ids (count,), int32.

    Raises:
        InferenceError: another number of outputs, another shape, or a winning logit that is NaN
            or infinite (argmax takes NaN for the largest, so looking at the winner is enough).
    """
    if len(outputs) != 1:
        raise InferenceError(f"found {len(outputs)} model outputs; expected 1, the logits.")
    logits = outputs[0]
    if logits.shape != (count, CLASSES):
        raise InferenceError(
            f"found logits of shape {list(logits.shape)}; expected [{count}, {CLASSES}]."
        )
    if count == 1:  # SingleStream: numpy's code has left the caches by then, 15 us to have it back
        row: list[float] = logits.tolist()[0]
        if math.isfinite(sum(row)):
            return ANSWERS[row.index(max(row))]
    chosen = logits.argmax(1)
    if not np.isfinite(logits[np.arange(count), chosen]).all():
        raise InferenceError("found logits that are NaN or infinite; expected finite numbers.")
    classes: NDArray[np.int32] = chosen.astype(np.int32)
    return classes


def answer(dataset: Dataset, indices: Sequence[int]) -> list[NDArray[Any]]:
    labels = cast(Digits, dataset).labels
    return [np.eye(CLASSES, dtype=np.float32)[labels[np.asarray(indices)]]]


def score(log: Path, dataset: Dataset) -> Score:
    from checker.accuracy.problem import AccuracyError
    from checker.accuracy.top1 import score_log

    try:
        result = score_log(log, cast(Digits, dataset).labels)
    except AccuracyError as error:
        raise RunFailed(f"{log}: the accuracy cannot be computed: {error}") from error
    return Score("acc", result.accuracy, result.line())


DIGITS = Benchmark(
    name="digits",
    loadgen_model="digits",
    title="image classification of handwritten digits, 10 classes",
    metric="acc",
    inputs=(Tensor(INPUT, (None, 1, SIDE, SIDE), "float32"),),
    outputs=(Tensor("logits", (None, CLASSES), "float32"),),
    models={"fp32": MODELS / "digits_fp32.onnx", "int8": MODELS / "digits_int8.onnx"},
    weights="digits_fp32.onnx, trained by tools/train/digits.py",
    data=(
        "UCI Optical Recognition of Handwritten Digits (CC BY 4.0): 500 held-out 8x8 images, "
        "scaled to 28x28 by bilinear interpolation, grey values 0..1"
    ),
    quantization=(
        "Static post-training quantisation with onnxruntime.quantization: QDQ form, INT8 "
        "activations and INT8 weights of 7 bits (per channel), ranges by minimum and maximum over 100 "
        "training images (the array 'calibration' of runner/datasets/data/digits.npz)"
    ),
    make_dataset=Digits,
    encode=encode,
    answer=answer,
    score=score,
    payload_bytes=4,
    performance_sample_count=500,
    batch_size=125,  # divides the 500 samples, so that the batches are always the same
    unbatched=("onnxruntime",),  # 125 at once take as long there as one after the other
    # A model of 30 us an image loses more by waking a second thread than it gains.
    backend_options={"onnxruntime": {"threads": 1}},
)
