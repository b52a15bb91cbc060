from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import pytest

from checker.accuracy import registry, truncate
from checker.accuracy.gate import Gate
from checker.accuracy.problem import AccuracyError
from tests.checker.accuracy.conftest import log_bytes

LABELS = [at % 1000 for at in range(1500)]
RAW = log_bytes([(at, struct.pack("<f", v if at else v + 1)) for at, v in enumerate(LABELS)])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A result folder inside a tree, with data beside it."""
    run = tmp_path / "tree" / "closed" / "X" / "results" / "s" / "resnet50" / "Offline"
    (run / "accuracy").mkdir(parents=True)
    (run / "accuracy" / "mlperf_log_accuracy.json").write_bytes(RAW)
    (run / "accuracy" / "accuracy.txt").write_text("accuracy=99.933%, good=1499, total=1500\n")
    data = tmp_path / "data"
    data.mkdir()
    lines = (f"{at}.JPEG {v}\n" for at, v in enumerate(LABELS))
    (data / "val_map.txt").write_text("".join(lines))
    return run


def test_score_with_gate(run: Path, tmp_path: Path) -> None:
    result = registry.score(run, "resnet50", tmp_path / "data", gates=[Gate("acc", 76.46)])
    assert result.line == "accuracy=99.933%, good=1499, total=1500"
    assert result.scores["acc"] == pytest.approx(100 * 1499 / 1500)
    assert result.verdicts[0].valid and not result.truncated and result.notes == []
    assert result.sha256 == hashlib.sha256(RAW).hexdigest() and result.hash_agrees is None


def test_truncated_log_and_backup(run: Path, tmp_path: Path) -> None:
    tree, backup = tmp_path / "tree", tmp_path / "backup"
    truncate.apply(truncate.plan(tree), backup)
    alone = registry.score(run, "resnet", tmp_path / "data")
    assert alone.truncated and alone.scores == {} and alone.line is None
    assert "--backup" in alone.notes[0]
    nothing = registry.score(run, "resnet", tmp_path / "data", backup=tmp_path / "data")
    assert nothing.truncated and "No whole log" in nothing.notes[0]
    whole = registry.score(run, "resnet", tmp_path / "data", backup=backup)
    assert whole.hash_agrees is True and whole.line == "accuracy=99.933%, good=1499, total=1500"
    path = next(backup.rglob("mlperf_log_accuracy.json"))
    path.write_bytes(RAW.replace(b'"0000C041"', b'"00000000"'))
    other = registry.score(run, "resnet", tmp_path / "data", backup=path)
    assert other.hash_agrees is False and any("not the same log" in n for n in other.notes)


def test_missing_samples_and_empty_logs_are_noted(run: Path, tmp_path: Path) -> None:
    log = run / "accuracy" / "mlperf_log_accuracy.json"
    log.write_bytes(log_bytes([(0, b"\x00\x00\x00\x00")]))
    assert "1499 samples" in registry.score(run, "resnet", tmp_path / "data").notes[0]
    log.write_bytes(b"[\n]\n")
    assert "accuracy run" in registry.score(run, "resnet", tmp_path / "data").notes[0]


def test_every_benchmark_says_what_it_needs(run: Path, tmp_path: Path) -> None:
    for benchmark in [*registry.BENCHMARKS, "bert-99.9", "dlrm-v2-99", "3d-unet-99", "top1"]:
        assert registry.needs(benchmark)
    empty = tmp_path / "empty"
    empty.mkdir()
    for benchmark in set(registry.BENCHMARKS) - {"dlrm", "dlrm-v2"}:
        with pytest.raises(AccuracyError):
            registry.score(run, benchmark, empty)
    with pytest.raises(AccuracyError, match="cannot be recomputed here"):
        registry.score(run, "rgat", empty)
    with pytest.raises(AccuracyError, match="no mlperf_log_accuracy"):
        registry.score(empty, "resnet", empty)


def test_other_metrics_through_the_table(run: Path, tmp_path: Path) -> None:
    log = run / "accuracy" / "mlperf_log_accuracy.json"
    data = tmp_path / "data"
    log.write_bytes(log_bytes([(0, b"a b c d e")]))
    (data / "references.txt").write_text("a b c d f\n")
    assert registry.score(run, "gnmt", data, options={"tokenize": "none"}).scores[
        "bleu"
    ] == pytest.approx(66.874, abs=1e-3)
    log.write_bytes(log_bytes([(0, struct.pack("<7f", 0, 0.1, 0.1, 0.5, 0.5, 0.9, 1))]))
    truth = {
        "images": [{"id": 7, "height": 10, "width": 10}],
        "annotations": [{"id": 1, "image_id": 7, "category_id": 1, "bbox": [1, 1, 4, 4]}],
        "categories": [{"id": 1}],
    }
    (data / "annotations.json").write_text(json.dumps(truth))
    for benchmark in ("ssd-small", "ssd-large", "retinanet", "yolo-95"):
        assert registry.score(run, benchmark, data).scores["mAP"] == pytest.approx(100.0)
    log.write_bytes(log_bytes([(0, struct.pack("<4f", 0.8, 1, 0.1, 0))]))
    assert registry.score(run, "dlrm-99.9", None).scores["AUC"] == 100.0
    log.write_bytes(log_bytes([(0, bytes([1, 0, 2]))]))
    (data / "transcripts.txt").write_text("a b\n")
    assert registry.score(run, "rnnt", data).scores["WER"] == 100.0
