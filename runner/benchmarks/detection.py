"""What object detection benchmarks share: records of boxes, and their score.

An answer is any number of rows of 7 float32: [place in the data set, ymin, xmin, ymax, xmax,
score, class], boxes as fractions of the image.  Between `execute` and `encode` they are two
arrays: the rows of all samples one after another, and how many belong to each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from runner.benchmarks.base import Infer, Score, Tensor
from runner.benchmarks.signature import Signature, options_file
from runner.datasets import Dataset
from runner.errors import InferenceError, RunFailed, SettingsError

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
        raise InferenceError(f"found {len(outputs)} model outputs; expected 2, boxes and counts.")
    rows, counts = outputs
    if rows.ndim != 2 or rows.shape[1] != FIELDS or counts.shape != (count,):
        raise InferenceError(
            f"found boxes of shape {list(rows.shape)} and counts of shape {list(counts.shape)}; "
            f"expected [any, {FIELDS}] and [{count}]."
        )
    ends = np.cumsum(counts)
    if counts.min(initial=0) < 0 or (count and ends[-1] != len(rows)):
        raise InferenceError(f"found {len(rows)} boxes; the counts say {ends[-1]}.")
    if not np.isfinite(rows).all():
        raise InferenceError("found boxes that are NaN or infinite; expected finite numbers.")
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


@dataclass(frozen=True)
class Found:
    """Boxes of a batch, one sample after another.

    Attributes:
        counts: boxes of each sample; `boxes`: (k, 4) [ymin, xmin, ymax, xmax], fractions.
    """

    counts: NDArray[np.int64]
    boxes: NDArray[Any]
    scores: NDArray[Any]
    classes: NDArray[Any]


@dataclass(frozen=True)
class ByBatch:
    """Runs a detector's graph and turns its outputs into rows; see `base.Execute`.

    Attributes:
        batch: samples that the graph takes at a time, None for any number.
        find: the graph's outputs to boxes.
    """

    batch: int | None
    find: Callable[[Sequence[NDArray[Any]]], Found]

    def __call__(
        self, graphs: Mapping[str, Infer], feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> list[NDArray[Any]]:
        count = len(indices)
        size = self.batch or count
        parts = []
        for start in range(0, count, size):
            # What is lacking in the last batch is filled up with the last sample.
            rows = np.minimum(np.arange(start, start + size), count - 1)
            whole = size == count
            part = feed if whole else {name: array[rows] for name, array in feed.items()}
            places = indices if whole else [indices[k] for k in rows]
            found = self.find(graphs["model"](part, places))
            if len(found.counts) != size:
                raise InferenceError(
                    f"found boxes of {len(found.counts)} samples in a batch of {size}."
                )
            real = min(size, count - start)
            boxes = int(found.counts[:real].sum())
            parts.append(
                rows_of(
                    indices[start : start + real],
                    found.counts[:real],
                    found.boxes[:boxes],
                    found.scores[:boxes],
                    found.classes[:boxes],
                )
            )
        if len(parts) == 1:
            return parts[0]
        return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


def by_number(outputs: Sequence[NDArray[Any]]) -> Found:
    """num_detections (n), boxes (n, m, 4) [ymin, xmin, ymax, xmax], scores (n, m), classes (n, m).

    Raises:
        InferenceError: other shapes, or a number of detections that cannot be.
    """
    numbers, boxes, scores, classes = outputs
    _check_shapes(boxes, scores, classes)
    most = scores.shape[1]
    numbers = numbers.reshape(-1)
    if len(numbers) != len(boxes) or not ((numbers >= 0) & (numbers <= most)).all():
        raise InferenceError(
            f"found {numbers[:8].tolist()} detections; expected 0 to {most} for each of "
            f"{len(boxes)} samples."
        )
    counts = numbers.astype(np.int64)
    real = np.arange(most) < counts[:, None]
    return Found(counts, boxes[real], scores[real], classes[real])


def by_score(
    outputs: Sequence[NDArray[Any]], least: float, order: Literal["xyxy", "yxyx"]
) -> Found:
    """boxes (n, m, 4), classes (n, m), scores (n, m): those of at least a score.

    Raises:
        InferenceError: other shapes, or a score that is not finite.
    """
    boxes, classes, scores = outputs
    _check_shapes(boxes, scores, classes)
    if not np.isfinite(scores).all():
        raise InferenceError("found scores that are NaN or infinite; expected finite numbers.")
    real = scores >= least
    chosen = boxes[real]
    if order == "xyxy":
        chosen = chosen[:, [1, 0, 3, 2]]
    return Found(real.sum(1), chosen, scores[real], classes[real])


def _check_shapes(boxes: NDArray[Any], scores: NDArray[Any], classes: NDArray[Any]) -> None:
    if scores.ndim != 2 or classes.shape != scores.shape or boxes.shape != (*scores.shape, 4):
        raise InferenceError(
            f"found boxes {list(boxes.shape)}, scores {list(scores.shape)} and classes "
            f"{list(classes.shape)}; expected [n, m, 4] and twice [n, m]."
        )


def named_output(signature: Signature, key: str, parts: Sequence[str]) -> Tensor:
    """The output that the option `key` names, else the one whose name has one of `parts` in it."""
    return signature.output(
        lambda tensor: any(part in tensor.name.lower() for part in parts),
        f"an output with {' or '.join(parts)} in its name",
        key,
    )


def least_score(signature: Signature, default: float) -> float:
    """The option `least_score`: boxes of a lower score are left out of the log.

    Raises:
        SettingsError: it is not a number from 0 up to 1.
    """
    least = signature.options.get("least_score", default)
    if not isinstance(least, (int, float)) or not 0 <= least < 1:
        raise SettingsError(
            f"{options_file(signature.path)}: found least_score = {least}; expected 0 to 1."
        )
    return float(least)


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
