from __future__ import annotations

import contextlib
import io
import json
import struct
from typing import Any

import numpy as np
import pytest

from checker.accuracy import detection, detection_difference
from checker.accuracy.problem import AccuracyError
from tests.checker.accuracy.conftest import Writer

Row = tuple[float, float, float, float, float, int]


def record(index: int, rows: list[Row]) -> tuple[int, bytes]:
    return index, b"".join(struct.pack("<7f", index, *row) for row in rows)


def coco(
    boxes: list[tuple[int, int, list[float]]], images: int, categories: list[int], first: int = 1
) -> dict[str, Any]:
    return {
        "images": [
            {"id": 1000 + at, "height": 100, "width": 200, "file_name": f"{at}.jpg"}
            for at in range(images)
        ],
        "annotations": [
            {
                "id": at,
                "image_id": 1000 + image,
                "category_id": category,
                "bbox": box,
                "area": box[2] * box[3],
                "iscrowd": 0,
            }
            for at, (image, category, box) in enumerate(boxes, first)
        ],
        "categories": [{"id": at, "name": f"c{at}"} for at in categories],
    }


# Two true boxes of one class; detections: hit, miss, hit. Precision is 1 up to recall 0.5, then
# 2/3: 51 of the 101 recall points at 1, 50 at 2/3, the same at every IoU threshold.
BY_HAND = 100.0 * (51 + 50 * 2 / 3) / 101
TRUTH = coco([(0, 3, [20, 10, 40, 30]), (0, 3, [100, 50, 60, 40])], 2, [1, 3])
HITS: list[Row] = [
    (0.1, 0.1, 0.4, 0.3, 0.9, 3),
    (0.8, 0.8, 0.9, 0.9, 0.8, 3),
    (0.5, 0.5, 0.9, 0.8, 0.7, 3),
]


def test_by_hand(write_log: Writer) -> None:
    score = detection.score_log(write_log([record(0, HITS), (1, b"")]), TRUTH)
    assert score.map == pytest.approx(BY_HAND, abs=1e-9)
    assert score.line() == f"mAP={BY_HAND:.3f}%"
    assert (score.images, score.empty_images, score.detections) == (2, 1, 3)
    assert (score.classes, score.boxes, score.problems) == ("direct", "normalised", [])
    by_id = {c.id: c for c in score.categories}
    assert by_id[3].ap == pytest.approx(BY_HAND) and by_id[3].truths == 2
    assert np.isnan(by_id[1].ap)


def official(truth: dict[str, Any], results: list[dict[str, Any]], image_ids: list[int]) -> float:
    """pycocotools as the official scorer calls it."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        gold = COCO()
        gold.dataset = {**truth, "info": {}}
        gold.createIndex()
        evaluation = COCOeval(gold, gold.loadRes(results), iouType="bbox")
        evaluation.params.imgIds = image_ids
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return 100.0 * float(evaluation.stats[0])


@pytest.mark.parametrize("inverse", [False, True])
def test_equal_to_pycocotools(write_log: Writer, inverse: bool) -> None:
    random = np.random.default_rng(5)
    categories = [1, 2, 4, 8, 9]
    boxes, records, results = [], [], []
    for image in range(40):
        rows: list[Row] = []
        for _ in range(int(random.integers(0, 6))):
            place = int(random.integers(len(categories)))
            x, y = random.uniform(0, 120), random.uniform(0, 60)
            w, h = random.uniform(5, 70), random.uniform(5, 35)
            boxes.append((image, categories[place], [x, y, w, h]))
            for _ in range(int(random.integers(0, 4))):
                jitter = random.normal(0, 4, 4)
                y0, x0, y1, x1 = np.array([y, x, y + h, x + w]) + jitter
                label = place + 1 if inverse else categories[place]
                rows.append(
                    (y0 / 100, x0 / 200, y1 / 100, x1 / 200, random.uniform(0.05, 1), label)
                )
        if image % 9 == 8:
            continue  # no record: not scored
        records.append(record(image, rows))
        values = np.frombuffer(records[-1][1], np.float32).reshape(-1, 7)
        for _, ymin, xmin, ymax, xmax, score, label in values:
            ymin, ymax = ymin * 100, ymax * 100
            xmin, xmax = xmin * 200, xmax * 200
            name = ([0, *categories][int(label)]) if inverse else int(label)
            box = [float(xmin), float(ymin), float(xmax - xmin), float(ymax - ymin)]
            results.append(
                {
                    "image_id": 1000 + image,
                    "category_id": name,
                    "bbox": box,
                    "score": float(score),
                }
            )
    truth = coco(boxes, 40, categories)
    scored = [1000 + index for index, _ in records]
    wanted = official(truth, results, scored)
    found = detection.score_log(write_log(records), truth)
    assert 5 < wanted < 95
    assert found.map == pytest.approx(wanted, abs=1e-9)
    assert found.classes == ("inverse" if inverse else "direct")
    assert [p.kind for p in found.problems] == ["missing"] and found.missing == 40 - len(scored)
    if not inverse:
        whole = detection.score_boxes(results, truth)
        every = official(truth, results, [image["id"] for image in truth["images"]])
        assert whole.map == pytest.approx(every, abs=1e-9)
        table = np.array(
            [[r["image_id"], *r["bbox"], r["score"], r["category_id"]] for r in results]
        )
        assert detection.score_boxes(table, truth).map == whole.map


def test_annotation_with_id_0_is_matched(write_log: Writer) -> None:
    truth = coco([(0, 3, [20, 10, 40, 30])], 1, [3], first=0)
    score = detection.score_log(write_log([record(0, HITS[:1])]), truth)
    assert score.map == pytest.approx(100.0)
    assert [p.kind for p in score.problems] == ["annotation-ids"]


def test_pixel_boxes_are_told(write_log: Writer) -> None:
    rows: list[Row] = [(10, 20, 40, 60, 0.9, 3), (50, 100, 90, 160, 0.8, 3)]
    score = detection.score_log(write_log([record(0, rows), (1, b"")]), TRUTH)
    assert score.map == pytest.approx(100.0)
    assert score.boxes == "pixels" and [p.kind for p in score.problems] == ["pixel-boxes"]


def test_numbering_without_empty_images(write_log: Writer) -> None:
    truth = coco([(2, 3, [20, 10, 40, 30]), (0, 3, [20, 10, 40, 30])], 3, [3])
    order = detection.read_annotations(truth).image_order(remove_empty=True)
    assert [image.id for image in order] == list({1002, 1000})
    path = write_log([record(0, HITS[:1]), record(1, HITS[:1])])
    score = detection.score_log(path, truth, remove_empty_images=True)
    assert score.map == pytest.approx(100.0) and score.images == 2


def test_irregular_records_are_problems(write_log: Writer) -> None:
    wrong_index = struct.pack("<7f", 5, *HITS[0])
    not_finite = struct.pack("<7f", 1, float("nan"), *HITS[0][1:])
    no_class = struct.pack("<7f", 0, *HITS[0][:5], 77)
    path = write_log([(0, wrong_index + no_class + b"abc"), (1, not_finite), (9, b"")])
    score = detection.score_log(path, TRUTH)
    assert {p.kind for p in score.problems} == {
        "surplus",
        "box-size",
        "not-finite",
        "index-differs",
        "not-a-category",
    }
    assert score.map == pytest.approx(100.0 * 51 / 101)


def test_no_detection_at_all(write_log: Writer) -> None:
    assert detection.score_log(write_log([(0, b""), (1, b"")]), TRUTH).map == 0.0
    assert detection.score_log(write_log([]), TRUTH).images == 0


def test_a_flood_of_boxes_keeps_the_best_of_each_class(write_log: Writer) -> None:
    flood: list[Row] = [(0.8, 0.8, 0.9, 0.9, 0.1, 3)] * 3000
    path = write_log([record(0, flood + HITS), (1, b"")])
    score = detection.score_log(path, TRUTH)
    assert score.detections == 100
    assert score.map == pytest.approx(BY_HAND)


def test_ground_truth_that_is_none(tmp_path: Any) -> None:
    with pytest.raises(AccuracyError):
        detection.read_annotations({"images": []})
    with pytest.raises(AccuracyError):
        detection.read_annotations(tmp_path / "absent.json")
    with pytest.raises(AccuracyError):
        detection.score_boxes([{"image_id": 1}], TRUTH)


def test_nothing_is_printed(write_log: Writer, capfd: pytest.CaptureFixture[str]) -> None:
    detection.score_log(write_log([record(0, HITS)]), TRUTH)
    assert capfd.readouterr() == ("", "")


def test_compare_points_to_suppression(write_log: Writer) -> None:
    twins: list[Row] = [(0.11, 0.11, 0.41, 0.31, 0.6, 3), (0.5, 0.51, 0.9, 0.81, 0.5, 3)]
    one = write_log([record(0, HITS), (1, b"")], "one")
    two = write_log([record(0, HITS + twins), (1, b"")], "two")
    found = detection_difference.compare(one, two, TRUTH)
    assert (found.same_boxes, found.same_scores, found.only_second) == (3, 3, 2)
    assert any("non-maximum suppression differs" in note for note in found.notes)
    assert found.categories[0].id == 3
    assert found.categories[0].change == pytest.approx(found.second.map - found.first.map)


def test_compare_tells_scores_and_other_models_apart(write_log: Writer) -> None:
    softer: list[Row] = [(*row[:4], row[4] * 0.9, row[5]) for row in HITS]
    other: list[Row] = [(0.0, 0.0, 0.05, 0.05, row[4], row[5]) for row in HITS]
    one = write_log([record(0, HITS), (1, b"")], "one")
    two = write_log([record(0, softer), (1, b"")], "two")
    three = write_log([record(0, other), (1, b"")], "three")
    assert any("soft-NMS" in note for note in detection_difference.compare(one, two, TRUTH).notes)
    assert any(
        "two models" in note for note in detection_difference.compare(one, three, TRUTH).notes
    )
    same = detection_difference.compare(one, one, TRUTH)
    assert len(same.notes) == 1 and same.only_first == same.only_second == 0


def test_read_line() -> None:
    assert detection.read_line("…\nmAP=23.028%\n") == 23.028
    assert detection.read_line("nothing") is None


def test_ids_beyond_64_bits_are_refused() -> None:
    truth = b'{"images":[{"id":%d,"height":1,"width":1}],"annotations":[],"categories":[]}' % 10**30
    with pytest.raises(AccuracyError, match="no annotations in COCO's form"):
        detection.read_annotations(truth)


@pytest.mark.parametrize(("field", "value"), [("iscrowd", "NaN"), ("bbox", "[1, 2, Infinity, 4]")])
def test_a_value_that_is_not_a_number_is_named(field: str, value: str) -> None:
    """inf#2182: COCO annotations written by pandas hold NaN."""
    annotation = {"id": 17, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "iscrowd": 0}
    text = json.dumps(
        {
            "images": [{"id": 1, "height": 9, "width": 9}],
            "categories": [{"id": 1}],
            "annotations": [annotation | {field: "HERE"}],
        }
    ).replace('"HERE"', value)
    with pytest.raises(AccuracyError, match=rf"annotation 0 \(id 17\): {field} is not a finite"):
        detection.read_annotations(text.encode())
    with pytest.raises(AccuracyError, match=rf"\(id 17\): {field}"):
        detection.read_annotations(json.loads(text))
