"""What object detection benchmarks share: records of boxes, and their score.

An answer is any number of rows of 7 float32: [place in the data set, ymin, xmin, ymax, xmax,
score, class], boxes as fractions of the image.  Between `execute` and `encode` they are two
arrays: the rows of all samples one after another, and how many belong to each.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from runner.benchmarks.base import Score
from runner.datasets import Dataset
from runner.errors import InferenceError, RunFailed

FIELDS = 7


class WithBoxes(Protocol):
    """A data set that knows the true boxes."""

    annotation_file: Path

    def truth(self, index: int) -> NDArray[np.float32]:
        """True boxes of a sample: (k, 5) [ymin, xmin, ymax, xmax, class], fractions."""
        ...


def encode(outputs: Sequence[NDArray[Any]], count: int) -> list[NDArray[Any]]:
    """Rows and their numbers to one array a sample, none where nothing was found.

    Raises:
        InferenceError: other shapes, numbers that do not add up, or a value that is not finite.
    """
    if len(outputs) != 2:
        raise InferenceError(f"found {len(outputs)} model outputs; asked for 2, boxes and counts.")
    rows, counts = outputs
    if rows.ndim != 2 or rows.shape[1] != FIELDS or counts.shape != (count,):
        raise InferenceError(
            f"found boxes of shape {list(rows.shape)} and counts of shape {list(counts.shape)}; "
            f"asked for [any, {FIELDS}] and [{count}]."
        )
    ends = np.cumsum(counts)
    if counts.min(initial=0) < 0 or (count and ends[-1] != len(rows)):
        raise InferenceError(f"found {len(rows)} boxes; the counts say {ends[-1]}.")
    if not np.isfinite(rows).all():
        raise InferenceError("found boxes that are NaN or infinite; asked for finite numbers.")
    rows = rows.astype(np.float32)  # a copy, also where it is float32 already
    return np.split(rows, ends[:-1])


def rows_of(
    indices: Sequence[int],
    counts: NDArray[np.int64],
    boxes: NDArray[Any],
    scores: NDArray[Any],
    classes: NDArray[Any],
) -> list[NDArray[Any]]:
    """What `encode` takes, of the boxes of several samples one after another."""
    rows = np.empty((len(boxes), FIELDS), np.float32)
    rows[:, 0] = np.repeat(np.asarray(indices, np.int64), counts)
    rows[:, 1:5] = boxes
    rows[:, 5] = scores
    rows[:, 6] = classes
    return [rows, counts]


def answer(dataset: Dataset, indices: Sequence[int]) -> list[NDArray[Any]]:
    """The true boxes, as a perfect model would give them."""
    true = [cast(WithBoxes, dataset).truth(index) for index in indices]
    counts = np.array([len(boxes) for boxes in true], np.int64)
    boxes = np.concatenate(true)
    return rows_of(indices, counts, boxes[:, :4], np.ones(len(boxes)), boxes[:, 4])


def score(log: Path, dataset: Dataset, classes: Literal["direct", "inverse"]) -> Score:
    """mAP of an accuracy log.

    Args:
        classes: "direct" where the model gives category ids, "inverse" where it gives 1, 2, 3, …
            in the order of the annotation file's categories.

    Raises:
        RunFailed: the log cannot be scored.
    """
    from checker.accuracy.detection import score_log
    from checker.accuracy.problem import AccuracyError

    try:
        result = score_log(log, cast(WithBoxes, dataset).annotation_file, classes=classes)
    except AccuracyError as error:
        raise RunFailed(f"{log}: the accuracy cannot be computed: {error}") from error
    return Score("mAP", result.map, result.line())
