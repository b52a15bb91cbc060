"""Mean average precision of object detection (COCO, OpenImages), computed by pycocotools.

A record holds n x 7 float32: [qsl_idx, ymin, xmin, ymax, xmax, score, class], boxes as fractions
of the image's height and width, n = 0 for an image without detections. ``qsl_idx`` is the image's
place in the annotation file. Classes are category ids (SSD-MobileNet; RetinaNet, whose ids start
at 0) or 1, 2, 3, … in the order of the category ids (SSD-ResNet34: the inverse map).

pycocotools is called with its own parameters on data built here, which keeps clear of its known
traps: nothing is printed, no result file is written, an empty set of detections is scored as 0,
an annotation whose id is 0 can be matched, and only the area range that enters mAP is evaluated
(four times less time and memory than its summary, same value).

Source: the official scorers for COCO and OpenImages; 4 rounds of logs for the layout.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from checker.accuracy.log import Progress, SampleReader, read_samples
from checker.accuracy.problem import AccuracyError, Problems
from checker.accuracy.score import LogScore

Classes = Literal["auto", "direct", "inverse"]
Boxes = Literal["auto", "normalised", "pixels"]
Array = npt.NDArray[np.float32]

MAX_DETECTIONS = 100
"""Detections that count per image and category, as in COCO's own evaluation."""

_MANY = 1000
_THRESHOLDS = np.linspace(0.5, 0.95, 10)


Id = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What arrays of 64-bit integers hold."""


class Image(msgspec.Struct, frozen=True):
    """An image of the ground truth; height and width in pixels."""

    id: Id
    height: float
    width: float
    file_name: str = ""


class Annotation(msgspec.Struct, frozen=True):
    """A true box: ``bbox`` is [x, y, width, height] in pixels."""

    id: Id
    image_id: Id
    category_id: Id
    bbox: tuple[float, float, float, float]
    area: float | None = None
    iscrowd: int = 0


class Category(msgspec.Struct, frozen=True):
    """A class of objects."""

    id: Id
    name: str = ""


class GroundTruth(msgspec.Struct, frozen=True):
    """What an annotation file in COCO's form holds; order is that of the file."""

    images: list[Image]
    annotations: list[Annotation]
    categories: list[Category]

    def image_order(self, remove_empty: bool = False) -> list[Image]:
        """The images in the order of qsl_idx.

        ``remove_empty`` leaves out those without annotation, numbered as the official scorer's
        ``--remove-48-empty-images`` does (by the order of a set of their ids).
        """
        if not remove_empty:
            return self.images
        by_category: dict[int, list[int]] = {category.id: [] for category in self.categories}
        for annotation in self.annotations:
            by_category.setdefault(annotation.category_id, []).append(annotation.image_id)
        ids: list[int] = []
        for category in self.categories:
            ids += by_category[category.id]
        images = {image.id: image for image in self.images}
        return [images[at] for at in set(ids) if at in images]  # a set's own order


@dataclass(frozen=True, slots=True)
class CategoryScore:
    """Average precision of one category in percent (NaN where it has no true box)."""

    id: int
    name: str
    ap: float
    truths: int
    detections: int


@dataclass(frozen=True, slots=True)
class DetectionScore(LogScore):
    """mAP in percent (IoU 0.50 to 0.95, all areas, 100 detections) and its parts.

    ``classes`` and ``boxes`` say how labels and coordinates were understood. Images without
    detections are in ``images``; images without a record are ``missing`` and not scored.
    """

    map: float
    ap50: float
    ap75: float
    categories: list[CategoryScore]
    images: int
    empty_images: int
    detections: int
    classes: str
    boxes: str

    @property
    def count(self) -> int | None:
        return self.images

    def line(self) -> str:
        """The line that rounds expect in accuracy.txt."""
        return f"mAP={self.map:.3f}%"


@dataclass(slots=True)
class Detections:
    """Boxes of a log: row i is [qsl_idx, ymin, xmin, ymax, xmax, score, class], float32.

    ``seen`` are the sample indices with a record, in the log's order, empty ones included.
    """

    rows: Array
    seen: list[int]
    empty: int


def read_annotations(source: str | Path | bytes | Mapping[str, Any]) -> GroundTruth:
    """Read ground truth in COCO's form: a JSON file, its bytes, or the parsed object.

    Raises ``AccuracyError`` when it cannot be read or lacks images, annotations or categories.
    """
    try:
        if isinstance(source, Mapping):
            return _convert(source)
        raw = source if isinstance(source, bytes) else Path(source).read_bytes()
        try:
            return msgspec.json.decode(raw, type=GroundTruth)
        except msgspec.DecodeError:
            # Python writes NaN, which is not JSON: read as Python does, the field can be named.
            return _convert(json.loads(raw))
    except (OSError, ValueError, RecursionError) as error:
        shown = "annotations" if isinstance(source, (bytes, Mapping)) else str(source)
        raise AccuracyError(f"{shown}: no annotations in COCO's form ({error})") from error


def _convert(source: Any) -> GroundTruth:
    """The parsed object as ground truth. Raises ValueError that names the place."""
    if not isinstance(source, Mapping):
        raise ValueError("not an object")
    annotations = source.get("annotations")
    for at, annotation in enumerate(annotations if isinstance(annotations, list) else ()):
        for name, value in annotation.items() if isinstance(annotation, dict) else ():
            numbers = value if isinstance(value, list) else [value]
            if any(isinstance(n, float) and not math.isfinite(n) for n in numbers):
                raise ValueError(
                    f"annotation {at} (id {annotation.get('id')}): {name} is not a finite number"
                )
    return msgspec.convert(dict(source), GroundTruth, strict=False)


def read_detections(samples: SampleReader, problems: Problems) -> Detections:
    """Collect the boxes of a log. Never raises for what is in it.

    Of an image with very many boxes only those that can count are kept: the 100 of highest
    score of each class.
    """
    blocks: list[Array] = []
    seen: list[int] = []
    empty = 0
    for record in samples:
        index, data = record.qsl_idx, record.data
        seen.append(index)
        if len(data) % 28:
            problems.add(
                "box-size",
                f"{len(data)} bytes are not a whole number of boxes of 28 bytes; the rest is dropped",
                index=index,
            )
        count = len(data) // 28
        if not count:
            empty += 1
            continue
        rows = np.frombuffer(data, "<f4", 7 * count).reshape(-1, 7)
        if not np.isfinite(rows).all():
            good = np.isfinite(rows).all(axis=1)
            problems.add(
                "not-finite",
                "a box has a value that is not a number; it is dropped",
                index=index,
                count=int(np.count_nonzero(~good)),
            )
            rows = rows[good]
        wrong = np.count_nonzero(rows[:, 0] != index)
        if wrong:
            problems.add(
                "index-differs",
                f"a box says image {rows[rows[:, 0] != index][0, 0]:g}, its record sample {index}",
                index=index,
                count=int(wrong),
            )
        if len(rows) > _MANY:
            rows = _highest(rows)
        rows = rows.astype(np.float32)
        rows[:, 0] = index
        blocks.append(rows)
    rows = np.concatenate(blocks) if blocks else np.empty((0, 7), np.float32)
    return Detections(rows, seen, empty)


def _highest(rows: Array) -> Array:
    order = np.argsort(-rows[:, 5], kind="stable")
    labels = rows[order, 6]
    grouped = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(labels[grouped]) != 0])
    lengths = np.diff(np.r_[starts, len(labels)])
    rank = np.arange(len(labels)) - np.repeat(starts, lengths)
    keep = np.sort(order[grouped[rank < MAX_DETECTIONS]])
    return np.asarray(rows[keep])


def score_log(
    source: str | Path | BinaryIO,
    truth: GroundTruth | str | Path | Mapping[str, Any],
    *,
    classes: Classes = "auto",
    boxes: Boxes = "auto",
    remove_empty_images: bool = False,
    sha256: bool = False,
    progress: Progress | None = None,
) -> DetectionScore:
    """mAP of an accuracy log against annotations in COCO's form.

    ``classes``: "direct" when labels are category ids, "inverse" when they are 1, 2, 3, … in the
    order of the ids, "auto" to tell from the labels used. ``boxes``: "normalised" fractions or
    "pixels". ``remove_empty_images``: see ``GroundTruth.image_order``. Raises ``AccuracyError``
    when the ground truth or pycocotools is missing, or the log is not a file.
    """
    if not isinstance(truth, GroundTruth):
        truth = read_annotations(truth)
    images = truth.image_order(remove_empty_images)
    if not images or not truth.categories:
        raise AccuracyError("the ground truth has no images or no categories")
    samples = read_samples(source, expected=len(images), progress=progress, sha256=sha256)
    problems = Problems()
    found = read_detections(samples, problems)
    labels, how = map_classes(found.rows[:, 6], truth, classes, problems)
    coordinates, unit = _pixels(found.rows, images, boxes, problems)
    inside = labels >= 0
    result = _evaluate(
        truth,
        [images[at].id for at in found.seen],
        np.array([images[int(at)].id for at in found.rows[inside, 0]], np.int64),
        labels[inside],
        coordinates[inside],
        found.rows[inside, 5].astype(np.float64),
        problems,
    )
    return DetectionScore(
        *result,
        images=len(found.seen),
        empty_images=found.empty,
        detections=len(found.rows),
        classes=how,
        boxes=unit,
    ).read_from(samples, problems)


def score_boxes(
    predictions: Sequence[Mapping[str, Any]] | npt.NDArray[Any],
    truth: GroundTruth | str | Path | Mapping[str, Any],
) -> DetectionScore:
    """mAP of predicted boxes against annotations in COCO's form, all images counting.

    ``predictions``: COCO results (mappings with image_id, category_id, bbox [x, y, w, h] in
    pixels, score) or an array of shape (n, 7): image_id, x, y, w, h, score, category_id. Raises
    ``AccuracyError`` when either cannot be understood or pycocotools is missing.
    """
    if not isinstance(truth, GroundTruth):
        truth = read_annotations(truth)
    try:
        if isinstance(predictions, np.ndarray):
            table = np.asarray(predictions, np.float64).reshape(-1, 7)
        else:
            table = np.array(
                [[p["image_id"], *p["bbox"], p["score"], p["category_id"]] for p in predictions],
                np.float64,
            ).reshape(-1, 7)
    except (KeyError, TypeError, ValueError) as error:
        raise AccuracyError(f"predictions are not in COCO's result form ({error!r})") from error
    problems = Problems()
    ids = np.array([image.id for image in truth.images], np.int64)
    known = np.isin(table[:, 0], ids)
    if not known.all():
        problems.add(
            "surplus",
            "a box is for an image that the ground truth lacks; it is dropped",
            count=int(np.count_nonzero(~known)),
        )
        table = table[known]
    labels, how = map_classes(table[:, 6], truth, "direct", problems)
    inside = labels >= 0
    with_boxes = len(np.unique(table[:, 0]))
    result = _evaluate(
        truth,
        [image.id for image in truth.images],
        table[inside, 0].astype(np.int64),
        labels[inside],
        table[inside, 1:5],
        table[inside, 5],
        problems,
    )
    return DetectionScore(
        *result,
        images=len(ids),
        empty_images=len(ids) - with_boxes,
        detections=len(table),
        classes=how,
        boxes="pixels",
        problems=problems.listed(),
    )


def map_classes(
    labels: npt.NDArray[Any], truth: GroundTruth, how: Classes, problems: Problems
) -> tuple[npt.NDArray[np.int64], str]:
    """Category ids of the labels (-1 where there is none) and the mapping used.

    The inverse map numbers the categories from 1 in the annotation file's order.
    """
    ids = np.array([category.id for category in truth.categories], np.int64)
    with np.errstate(invalid="ignore"):
        numbers = np.trunc(np.clip(labels, -1e9, 1e9)).astype(np.int64)
    direct = np.isin(numbers, ids)
    inverse = (numbers >= 1) & (numbers <= len(ids))
    if how == "auto":
        how = "direct" if direct.all() or not inverse.all() else "inverse"
    if how == "direct":
        fits, mapped = direct, np.where(direct, numbers, -1)
    else:
        table = np.concatenate([[-1], ids])
        fits, mapped = inverse, table[np.where(inverse, numbers, 0)]
    if not fits.all():
        problems.add(
            "not-a-category",
            f"a box has class {numbers[~fits][0]}, which is not a category ({how}); it is dropped",
            count=int(np.count_nonzero(~fits)),
        )
    return mapped, how


def _pixels(
    rows: Array, images: list[Image], boxes: Boxes, problems: Problems
) -> tuple[npt.NDArray[np.float64], str]:
    """Boxes as [x, y, width, height] in pixels; arithmetic in float32 as the official scorer."""
    if boxes == "auto":
        outside = np.count_nonzero((rows[:, 1:5] > 2).any(axis=1)) if len(rows) else 0
        boxes = "pixels" if len(rows) and outside > 0.5 * len(rows) else "normalised"
        if boxes == "pixels":
            problems.add("pixel-boxes", "boxes are in pixels, not in fractions of the image")
    corners = rows[:, 1:5]
    if boxes == "normalised":
        size = np.array([[im.height, im.width] * 2 for im in images], np.float32)
        corners = corners * size[rows[:, 0].astype(np.int64)]
    ymin, xmin, ymax, xmax = corners.T
    xywh = np.stack([xmin, ymin, xmax - xmin, ymax - ymin], axis=1)
    return xywh.astype(np.float64), boxes


def _evaluate(
    truth: GroundTruth,
    image_ids: Iterable[int],
    det_images: npt.NDArray[np.int64],
    det_labels: npt.NDArray[np.int64],
    det_boxes: npt.NDArray[np.float64],
    det_scores: npt.NDArray[np.float64],
    problems: Problems,
) -> tuple[float, float, float, list[CategoryScore]]:
    """mAP, AP50 and AP75 in percent and the categories, by pycocotools."""
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as error:
        raise AccuracyError(
            f"mAP needs pycocotools ({error}): pip install 'pycocotools>=2.0.8'"
        ) from error
    images = [{"id": im.id, "height": im.height, "width": im.width} for im in truth.images]
    categories = [{"id": c.id, "name": c.name} for c in truth.categories]
    renumber = any(annotation.id <= 0 for annotation in truth.annotations) or len(
        {annotation.id for annotation in truth.annotations}
    ) != len(truth.annotations)
    if renumber:
        problems.add(
            "annotation-ids",
            "annotation ids repeat or are 0: pycocotools could not match them; renumbered",
        )
    truths = [
        {
            "id": number if renumber else a.id,
            "image_id": a.image_id,
            "category_id": a.category_id,
            "bbox": list(a.bbox),
            "area": a.area if a.area is not None else a.bbox[2] * a.bbox[3],
            "iscrowd": a.iscrowd,
        }
        for number, a in enumerate(truth.annotations, 1)
    ]
    found = [
        {
            "id": number,
            "image_id": image,
            "category_id": label,
            "bbox": box,
            "area": box[2] * box[3],
            "iscrowd": 0,
            "score": score,
        }
        for number, (image, label, box, score) in enumerate(
            zip(
                det_images.tolist(),
                det_labels.tolist(),
                det_boxes.tolist(),
                det_scores.tolist(),
                strict=True,
            ),
            1,
        )
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        gold, dets = COCO(), COCO()
        gold.dataset = {"images": images, "annotations": truths, "categories": categories}
        gold.createIndex()
        dets.dataset = {"images": images, "annotations": found, "categories": categories}
        dets.createIndex()
        evaluation = COCOeval(gold, dets, iouType="bbox")
        evaluation.params.imgIds = sorted(set(image_ids))
        evaluation.params.iouThrs = _THRESHOLDS
        evaluation.params.areaRng = [[0, 1e10]]
        evaluation.params.areaRngLbl = ["all"]
        evaluation.params.maxDets = [MAX_DETECTIONS]
        if not evaluation.params.imgIds:
            return 0.0, 0.0, 0.0, []
        evaluation.evaluate()
        evaluation.accumulate()
    precision = np.asarray(evaluation.eval["precision"])[:, :, :, 0, 0]
    truth_count = np.zeros(len(evaluation.params.catIds), np.int64)
    place = {category: at for at, category in enumerate(evaluation.params.catIds)}
    scored = set(evaluation.params.imgIds)
    for annotation in truth.annotations:
        if annotation.image_id in scored and annotation.category_id in place:
            truth_count[place[annotation.category_id]] += 1
    used, uses = np.unique(det_labels, return_counts=True)
    label_count = dict(zip(used.tolist(), uses.tolist(), strict=True))
    names = {category.id: category.name for category in truth.categories}
    parts = [
        CategoryScore(
            id=category,
            name=names.get(category, ""),
            ap=_mean(precision[:, :, at], float("nan")),
            truths=int(truth_count[at]),
            detections=int(label_count.get(category, 0)),
        )
        for category, at in place.items()
    ]
    return _mean(precision), _mean(precision[0]), _mean(precision[5]), parts


def _mean(precision: npt.NDArray[np.float64], nothing: float = 0.0) -> float:
    """Mean in percent of the entries that exist (-1 marks those that do not)."""
    there = precision[precision > -1]
    return 100.0 * float(there.mean()) if len(there) else nothing


_MAP_LINE = re.compile(r"mAP=(\d{1,3}(?:\.\d{1,12})?)%")


def read_line(text: str) -> float | None:
    """The mAP in percent that an accuracy.txt states, or None."""
    found = _MAP_LINE.findall(text)
    return float(found[-1]) if found else None
