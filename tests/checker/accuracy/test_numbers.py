"""AUC, Dice, the gate, and evaluate()."""

from __future__ import annotations

import gzip
import math
import struct
from pathlib import Path

import numpy as np
import pytest

from checker.accuracy import auc, dice
from checker.accuracy.evaluate import evaluate
from checker.accuracy.gate import Gate
from checker.accuracy.problem import AccuracyError
from tests.checker.accuracy.conftest import Writer


def test_auc_by_hand(write_log: Writer) -> None:
    """Positives .8 and .4, negatives .4 and .1: 3 of 4 pairs in order, one tied: 87.5 %."""
    pairs = [[(0.8, 1), (0.4, 0)], [(0.1, 0), (0.4, 1)]]
    path = write_log(
        [(at, b"".join(struct.pack("<2f", *p) for p in row)) for at, row in enumerate(pairs)]
    )
    score = auc.score_log(path)
    assert score.auc == pytest.approx(87.5)
    assert score.line() == "AUC=87.500%, accuracy=75.000%, good=3, total=4, queries=2"


def test_auc_equals_the_definition() -> None:
    random = np.random.default_rng(1)
    positives = random.integers(0, 50, 300).astype(np.float32)
    negatives = random.integers(-10, 40, 500).astype(np.float32)
    more = (positives[:, None] > negatives).mean() + 0.5 * (positives[:, None] == negatives).mean()
    assert auc.rank_auc(positives, negatives) == pytest.approx(float(more), abs=1e-12)
    assert math.isnan(auc.rank_auc(positives, negatives[:0]))


def test_auc_with_targets_of_the_data_set(write_log: Writer, tmp_path: Path) -> None:
    (tmp_path / "day_23").write_bytes(b"1\ta\n0\tb\n0\tc\n1\td\n")
    (tmp_path / "trace").write_text("0, 2, 2\n2, 4, 2\n")
    targets = auc.read_targets(tmp_path / "day_23", tmp_path / "trace")
    assert targets.labels.tolist() == [1, 0, 0, 1]
    path = write_log([(1, struct.pack("<2f", 0.1, 0.4)), (0, struct.pack("<2f", 0.8, 0.4))])
    assert auc.score_log(path, targets).auc == pytest.approx(87.5)
    (tmp_path / "trace").write_text("0, 9, 9\n")
    with pytest.raises(AccuracyError):
        auc.read_targets(tmp_path / "day_23", tmp_path / "trace")


def test_auc_irregular(write_log: Writer) -> None:
    path = write_log([(0, struct.pack("<6f", 0.5, 1, float("nan"), 0, 0.2, 0) + b"x")])
    score = auc.score_log(path)
    assert {p.kind for p in score.problems} == {"pair-size", "not-a-pair"} and score.auc == 100.0
    with pytest.raises(AccuracyError):
        auc.score_log(write_log([(0, struct.pack("<2f", 0.5, 1))]))


def volume() -> np.ndarray:
    truth = np.zeros((2, 3, 4), np.uint8)
    truth[0, 0] = 1
    truth[1, 0, :2] = 2
    return truth


@pytest.mark.parametrize("dtype", ["u1", "<i4", "<f4", "<i8"])
def test_dice_by_hand(write_log: Writer, dtype: str) -> None:
    """Kidney: 2 of 4 voxels found, none more: 2*2/(2+4). Tumor: both found: 1."""
    truth = volume()
    found = truth.copy()
    found[0, 0, 2:] = 0
    score = dice.score_log(write_log([(0, found.astype(dtype).tobytes())]), [volume])
    assert score.regions["kidney"] == pytest.approx(2 / 3, abs=1e-6)
    assert score.regions["tumor"] == pytest.approx(1.0)
    assert score.mean == pytest.approx(5 / 6, abs=1e-6)
    assert score.line().startswith("Accuracy: mean = 0.83333, kidney = 0.6667, tumor = 1.0000")
    assert score.problems == []


def test_dice_reads_volumes(tmp_path: Path, write_log: Writer) -> None:
    truth = volume()
    np.save(tmp_path / "case_b.npy", truth)
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, 3, *truth.shape, 1, 1, 1, 1)
    struct.pack_into("<h", header, 70, 2)
    struct.pack_into("<3f", header, 108, 352.0, 1.0, 0.0)
    (tmp_path / "case_a").mkdir()
    with gzip.open(tmp_path / "case_a" / "segmentation.nii.gz", "wb") as out:
        out.write(bytes(header) + truth.tobytes(order="F"))
    cases = dice.read_cases(tmp_path)
    assert [np.array_equal(case(), truth) for case in cases] == [True, True]
    (tmp_path / "cases.txt").write_text("case_b\n")
    assert len(dice.read_cases(tmp_path)) == 1
    (tmp_path / "cases.txt").write_text("case_z\n")
    with pytest.raises(AccuracyError):
        dice.read_cases(tmp_path)
    (tmp_path / "bad.nii").write_bytes(b"\x00" * 400)
    with pytest.raises(AccuracyError):
        dice.read_volume(tmp_path / "bad.nii")
    score = dice.score_log(write_log([(0, b"abc")]), [volume])
    assert score.mean == 0.0 and [p.kind for p in score.problems] == ["volume-size"]


def test_gate() -> None:
    gate = Gate("acc", 76.46)
    good, bad = gate.verdict(75.7), gate.verdict(75.69)
    assert good.target == pytest.approx(75.6954)
    assert (good.valid, bad.valid) == (True, False)
    assert good.margin == pytest.approx(0.0046) and bad.margin == pytest.approx(-0.0054)
    assert not gate.verdict(float("nan")).valid
    fid = Gate("FID_SCORE", 23.0, 1.0, limit=23.9).verdict(24.0)
    assert not fid.valid and fid.margin == pytest.approx(-0.1)
    assert "INVALID" in bad.line() and "0.99 x reference 76.46" in good.line()


def test_evaluate_top1_map_bleu() -> None:
    found = evaluate([1, 2, 3, 4], [1, 2, 3, 5], reference=75.0)
    assert (found.score, found.valid) == (75.0, True)
    assert found.target == pytest.approx(74.25) and found.margin == pytest.approx(0.75)
    assert evaluate([1], [2]).valid is None
    truth = {
        "images": [{"id": 7, "height": 10, "width": 10}],
        "annotations": [{"id": 1, "image_id": 7, "category_id": 1, "bbox": [1, 1, 4, 4]}],
        "categories": [{"id": 1}],
    }
    boxes = [{"image_id": 7, "category_id": 1, "bbox": [1, 1, 4, 4], "score": 0.5}]
    assert evaluate(boxes, truth, "map").score == pytest.approx(100.0)
    assert evaluate([], truth, "map", reference=20.0).valid is False
    same = evaluate(["a b c d e"], ["a b c d f"], "bleu", tokenize="none", reference=70, factor=0.9)
    assert same.score == pytest.approx(66.874, abs=1e-3) and same.valid
    for wrong in (lambda: evaluate("text", ["a"], "bleu"), lambda: evaluate([1], [1], "no")):
        with pytest.raises(AccuracyError):
            wrong()
