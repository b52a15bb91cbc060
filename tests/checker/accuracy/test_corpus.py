"""Real logs of round v0.5: decoded without a finding of our own making.

The ground truth (ImageNet, COCO, newstest2014) is not to be had here, so agreement is shown on
what the logs themselves hold: complete sets of indices, ranges, number formats, text.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from checker.accuracy import bleu, detection, top1
from checker.accuracy.log import read_samples
from checker.accuracy.problem import Problems

pytestmark = pytest.mark.corpus
LOG = "mlperf_log_accuracy.json"


def logs(root: Path, *benchmarks: str) -> list[Path]:
    """Accuracy runs of results and of TEST03 (a whole data set too), not empty ones."""
    return [
        path
        for path in sorted(root.rglob(LOG))
        if path.parent.name == "accuracy"
        and any(f"/{name}/" in path.as_posix() for name in benchmarks)
        and ("/results/" in path.as_posix() or "/TEST03/" in path.as_posix())
        and path.stat().st_size > 100_000
    ]


def test_every_log_is_read_without_malformed_records(v05: Path) -> None:
    found: dict[str, int] = {}
    paths = sorted(v05.rglob(LOG))
    for path in paths:
        samples = read_samples(path)
        for _ in samples:
            pass
        for problem in samples.problems:
            found[problem.kind] = found.get(problem.kind, 0) + 1
        assert not samples.truncated
    assert len(paths) == 135
    # Empty logs are performance runs; holes are TEST01's samples; the contradictions stand in
    # performance-mode logs (Habana resnet Offline TEST01, Qualcomm mobilenet MultiStream TEST01).
    assert set(found) == {"empty", "missing", "contradiction"}
    assert found["contradiction"] == 3


def test_imagenet_logs(v05: Path) -> None:
    paths = logs(v05, "resnet", "resnet50", "mobilenet")
    assert len(paths) >= 14
    for path in paths:
        score = top1.score_log(path, np.arange(50_000) % 1000)
        assert (score.total, score.missing) == (50_000, 0), path
        assert score.dtype in ("int32", "float32"), path
        # Answers against labels of our own making are near chance, and nothing else is wrong.
        assert {p.kind for p in score.problems} <= {"near-chance"}, path


def test_stated_accuracy_is_consistent(v05: Path) -> None:
    """good/total of accuracy.txt gives its percentage, and total is the number of records."""
    checked = 0
    for path in logs(v05, "resnet", "resnet50", "mobilenet"):
        text = path.with_name("accuracy.txt").read_text()
        good, total = (int(text.split(name + "=")[1].split(",")[0]) for name in ("good", "total"))
        assert top1.Top1Score(100 * good / total, good, total, "", 0).line() in text
        samples = read_samples(path)
        assert sum(1 for _ in samples) == total
        checked += 1
    assert checked >= 14


def test_ssd_mobilenet_logs(v05: Path) -> None:
    paths = logs(v05, "ssd-small")
    assert len(paths) == 4
    for path in paths:
        problems = Problems()
        samples = read_samples(path, expected=5000)
        found = detection.read_detections(samples, problems)
        assert problems.listed() == [] and samples.problems == [], path
        rows = found.rows
        assert sorted(found.seen) == list(range(5000))
        assert set(np.unique(rows[:, 6])) <= set(range(1, 91))
        assert (rows[:, 5] > 0).all() and (rows[:, 5] <= 1).all()
        assert rows[:, 1:5].min() > -0.5 and rows[:, 1:5].max() < 1.5
        assert (rows[:, 3] >= rows[:, 1]).all() and (rows[:, 4] >= rows[:, 2]).all()


def test_gnmt_logs(v05: Path) -> None:
    paths = logs(v05, "gnmt")
    assert len(paths) == 2
    texts = []
    for path in paths:
        samples = read_samples(path, expected=3003)
        texts.append({r.qsl_idx: r.data.decode("utf-8") for r in samples})
        assert samples.problems == [] and len(texts[-1]) == 3003
        assert not any("@@" in text for text in texts[-1].values())
    assert bleu.is_tokenised(list(texts[0].values()))
    one, two = ([text[at] for at in range(3003)] for text in texts)
    # Two runs of one model in two scenarios: nearly the same sentences.
    assert bleu.score_texts(one, two).bleu > 95.0
