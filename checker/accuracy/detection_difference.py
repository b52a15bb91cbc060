"""Two accuracy logs of one detection benchmark beside each other: what makes their mAP differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from checker.accuracy.detection import (
    Array,
    Boxes,
    Classes,
    Detections,
    DetectionScore,
    GroundTruth,
    map_classes,
    read_annotations,
    read_detections,
    score_log,
)
from checker.accuracy.log import Progress, read_samples
from checker.accuracy.problem import Problems

_MANY = 1000
"""Most boxes of an image that are compared."""


@dataclass(frozen=True, slots=True)
class CategoryDifference:
    """Average precision of one category in two logs, percent; ``change`` is second - first."""

    id: int
    name: str
    first: float
    second: float

    @property
    def change(self) -> float:
        """Points of AP that the second log has more."""
        return self.second - self.first


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two accuracy logs of one data set beside each other.

    ``categories`` are sorted by how much they differ. Box counts are over images in both logs:
    ``same_boxes`` agree in class and coordinates (IoU >= 0.99), of which ``same_scores`` also in
    score within 1e-3; ``only_first`` and ``only_second`` have no partner. ``notes`` say in words
    what the pattern points to.
    """

    first: DetectionScore
    second: DetectionScore
    categories: list[CategoryDifference]
    same_boxes: int
    same_scores: int
    only_first: int
    only_second: int
    overlapping_first: int
    overlapping_second: int
    notes: list[str]


def compare(
    first: str | Path,
    second: str | Path,
    truth: GroundTruth | str | Path | Mapping[str, Any],
    *,
    classes: Classes = "auto",
    boxes: Boxes = "auto",
    remove_empty_images: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Explain the difference of two accuracy logs of one detection benchmark.

    Average precision by category, and whether the boxes are the same ones: when they are but
    scores or suppression differ, the non-maximum suppression of the two frameworks is the
    likeliest cause. Raises as ``score_log`` does.
    """
    if not isinstance(truth, GroundTruth):
        truth = read_annotations(truth)
    scores = [
        score_log(
            path,
            truth,
            classes=classes,
            boxes=boxes,
            remove_empty_images=remove_empty_images,
            progress=progress,
        )
        for path in (first, second)
    ]
    size = len(truth.image_order(remove_empty_images))
    tables = []
    for path, score in zip((first, second), scores, strict=True):
        scratch = Problems()
        found = read_detections(read_samples(path, expected=size), scratch)
        labels, _ = map_classes(found.rows[:, 6], truth, _asked(score.classes), scratch)
        found.rows[:, 6] = labels
        tables.append(found)
    counts = _match(tables[0], tables[1])
    one = {c.id: c for c in scores[0].categories}
    differences = [
        CategoryDifference(c.id, c.name, one[c.id].ap, c.ap)
        for c in scores[1].categories
        if c.id in one and not (np.isnan(c.ap) and np.isnan(one[c.id].ap))
    ]
    differences.sort(key=lambda d: (-abs(d.change), d.id))
    return Comparison(
        scores[0], scores[1], differences, *counts, notes=_notes(scores, counts, tables)
    )


def _asked(how: str) -> Classes:
    return "inverse" if how == "inverse" else "direct"


def _by_image(found: Detections) -> dict[int, Array]:
    rows = found.rows[np.argsort(found.rows[:, 0], kind="stable")]
    images, starts = np.unique(rows[:, 0], return_index=True)
    pieces = np.split(rows, starts[1:]) if len(rows) else []
    return dict(zip(images.astype(int).tolist(), pieces, strict=True))


def overlaps(first: Array, second: Array) -> npt.NDArray[np.float64]:
    """IoU of two sets of boxes [ymin, xmin, ymax, xmax]: shape (len(first), len(second))."""
    one, two = first.astype(np.float64)[:, None], second.astype(np.float64)[None]
    low = np.maximum(one[..., :2], two[..., :2])
    high = np.minimum(one[..., 2:], two[..., 2:])
    inter = np.clip(high - low, 0, None).prod(axis=-1)
    areas = [np.clip(b[..., 2:] - b[..., :2], 0, None).prod(axis=-1) for b in (one, two)]
    union = areas[0] + areas[1] - inter
    ratio: npt.NDArray[np.float64] = np.zeros_like(inter)
    np.divide(inter, union, out=ratio, where=union > 0)
    return ratio


def _match(one: Detections, two: Detections) -> tuple[int, int, int, int, int, int]:
    same = same_score = only_one = only_two = crowded_one = crowded_two = 0
    first, second = _by_image(one), _by_image(two)
    none = np.empty((0, 7), np.float32)
    for image in sorted(set(one.seen) & set(two.seen)):
        a, b = first.get(image, none)[:_MANY], second.get(image, none)[:_MANY]
        alike = a[:, None, 6] == b[None, :, 6]
        close = (overlaps(a[:, 1:5], b[:, 1:5]) >= 0.99) & alike
        taken: set[int] = set()
        for row in range(len(a)):
            partners = [at for at in np.flatnonzero(close[row]).tolist() if at not in taken]
            if not partners:
                only_one += 1
                continue
            best = min(partners, key=lambda at: abs(float(a[row, 5]) - float(b[at, 5])))
            taken.add(best)
            same += 1
            same_score += abs(float(a[row, 5]) - float(b[best, 5])) <= 1e-3
        only_two += len(b) - len(taken)
        crowded_one += _crowded(a)
        crowded_two += _crowded(b)
    return same, same_score, only_one, only_two, crowded_one, crowded_two


def _crowded(rows: Array) -> int:
    """Boxes that overlap a higher one of their class by more than one half."""
    if len(rows) < 2:
        return 0
    near = overlaps(rows[:, 1:5], rows[:, 1:5]) > 0.5
    near &= (rows[:, None, 6] == rows[None, :, 6]) & (rows[None, :, 5] > rows[:, None, 5])
    return int(np.count_nonzero(near.any(axis=1)))


def _notes(
    scores: list[DetectionScore],
    counts: tuple[int, int, int, int, int, int],
    tables: list[Detections],
) -> list[str]:
    same, same_score, only_one, only_two, crowded_one, crowded_two = counts
    notes = []
    change = scores[1].map - scores[0].map
    every = same + only_one + only_two
    notes.append(f"mAP {scores[0].map:.3f}% and {scores[1].map:.3f}% ({change:+.3f} points)")
    if scores[0].classes != scores[1].classes:
        notes.append(
            f"labels were read as {scores[0].classes} in the first log and "
            f"{scores[1].classes} in the second: check the class map"
        )
    if every and same < 0.2 * every:
        notes.append(
            f"{same} of {every} boxes are in both logs: two models, other preprocessing, or another"
            " order of images or classes"
        )
    elif same and (only_one or only_two):
        rate = [
            c / max(1, len(t.rows)) for c, t in zip((crowded_one, crowded_two), tables, strict=True)
        ]
        text = (
            f"{same} boxes are in both logs; {only_one} only in the first, {only_two} only in the "
            "second"
        )
        if abs(rate[0] - rate[1]) > 0.005:
            looser = "first" if rate[0] > rate[1] else "second"
            text += (
                f"; the {looser} log keeps more overlapping boxes of one class ({crowded_one} and "
                f"{crowded_two} with IoU > 0.5 to a better one): non-maximum suppression differs"
                " (IoU threshold, per class or across classes, box limit before or after it)"
            )
        else:
            text += "; suppression looks alike: a score threshold or a box limit may differ"
        notes.append(text)
    if same and same_score < 0.99 * same:
        notes.append(
            f"{same - same_score} of the {same} common boxes have another score: a different "
            "score activation or precision, or an NMS that rescales scores (soft-NMS)"
        )
    return notes
