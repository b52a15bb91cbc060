from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from checker.accuracy import top1
from checker.accuracy.problem import AccuracyError
from tests.checker.accuracy.conftest import Writer

LABELS = [(at * 37) % 1000 for at in range(500)]
ANSWERS = [label if at % 40 else (label + 5) % 1000 for at, label in enumerate(LABELS)]
GOOD = 500 - 13  # 0, 40, …, 480 are wrong

FORMS = {
    "int32": lambda v: struct.pack("<i", v),
    "float32": lambda v: struct.pack("<f", v),
    "int64": lambda v: struct.pack("<q", v),
    "float64": lambda v: struct.pack("<d", v),
    "int32 in 8 bytes": lambda v: struct.pack("<i", v) + os.urandom(3) + b"\x7f",
    "float32 in 8 bytes": lambda v: struct.pack("<fi", v, 0),
}


@pytest.mark.parametrize("dtype", FORMS)
def test_every_number_format_gives_one_value(write_log: Writer, dtype: str) -> None:
    score = top1.score_log(
        write_log([(at, FORMS[dtype](v)) for at, v in enumerate(ANSWERS)]), LABELS
    )
    assert score.line() == "accuracy=97.400%, good=487, total=500"
    assert (score.good, score.total, score.dtype, score.offset) == (GOOD, 500, dtype, 0)
    assert score.problems == [] and score.missing == 0


def test_first_of_several_values_counts(write_log: Writer) -> None:
    path = write_log([(at, struct.pack("<fff", v, 0.25, 7.5)) for at, v in enumerate(ANSWERS)])
    score = top1.score_log(path, LABELS)
    assert (score.good, score.dtype) == (GOOD, "float32")


@pytest.mark.parametrize("background", [0, 1])
def test_scores_of_all_classes(write_log: Writer, background: int) -> None:
    size = max(LABELS) + 1 + background
    rows = np.zeros((500, size), "<f4")
    rows[np.arange(500), np.array(ANSWERS) + background] = 0.7
    score = top1.score_log(write_log([(at, row.tobytes()) for at, row in enumerate(rows)]), LABELS)
    assert (score.good, score.offset) == (GOOD, background)
    assert score.dtype == "float32 class scores"


@pytest.mark.parametrize("shift", [1, -1])
def test_background_class_is_found_and_said(write_log: Writer, shift: int) -> None:
    path = write_log([(at, struct.pack("<i", v + shift)) for at, v in enumerate(ANSWERS)])
    score = top1.score_log(path, LABELS)
    assert (score.good, score.offset) == (GOOD, shift)
    assert [p.kind for p in score.problems] == ["offset"]
    assert top1.score_log(path, LABELS, offset=0).good == 0
    assert top1.score_log(path, LABELS, offset=shift).good == GOOD


def test_duplicates_and_missing(write_log: Writer) -> None:
    records = [(at, struct.pack("<i", v)) for at, v in enumerate(ANSWERS[:400])]
    score = top1.score_log(write_log([*records, *records[:50]]), LABELS)
    assert (score.total, score.missing) == (400, 100)
    assert [p.kind for p in score.problems] == ["missing"]


def test_answers_that_are_no_labels_count_as_wrong(write_log: Writer) -> None:
    records = [(at, struct.pack("<i", v)) for at, v in enumerate(ANSWERS)]
    records[1] = (1, b"")
    records[2] = (2, struct.pack("<i", 123_456_789))
    score = top1.score_log(write_log(records), LABELS)
    assert score.good == GOOD - 2 and score.total == 500
    assert {p.kind: (p.count, p.index) for p in score.problems} == {
        "mixed-width": (1, None),
        "no-answer": (1, 1),
        "not-a-label": (1, 2),
    }


def test_near_chance_is_said(write_log: Writer) -> None:
    labels = [at % 10 for at in range(1000)]
    path = write_log([(at, struct.pack("<i", (v + 5) % 10)) for at, v in enumerate(labels)])
    assert [p.kind for p in top1.score_log(path, labels).problems] == ["near-chance"]


def test_val_map(tmp_path: Path) -> None:
    path = tmp_path / "val_map.txt"
    path.write_text("ILSVRC2012_val_00000001.JPEG 65\nb c.JPEG 970\n\n")
    assert top1.read_val_map(path).tolist() == [65, 970]
    assert list(top1.iter_val_map(path))[1] == ("b c.JPEG", 970)
    for wrong in ("a b\n", "65\n", ""):
        path.write_text(wrong)
        with pytest.raises(AccuracyError):
            top1.read_val_map(path)
    with pytest.raises(AccuracyError):
        top1.read_val_map(tmp_path / "absent")


def test_labels_without_log() -> None:
    assert top1.score_labels([1, 2, 3, 4], [1, 2, 3, 5]).accuracy == 75.0
    scores = np.eye(4)[[0, 1, 2, 2]]
    assert top1.score_labels(scores, [0, 1, 2, 3]).accuracy == 75.0
    with pytest.raises(AccuracyError):
        top1.score_labels([1], [1, 2])
    with pytest.raises(AccuracyError):
        top1.score_labels([], [])
