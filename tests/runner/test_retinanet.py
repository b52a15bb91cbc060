"""RetinaNet: a model of the reference's signature on a handful of pictures in OpenImages' form.

The real weights (146 MB) and pictures are not here; what is tested is everything around them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import assay
from assay.cli import main
from checker.accuracy.detection import score_boxes
from runner import SettingsError, Tree, plan_for
from runner.backends import open_backend
from runner.benchmarks import open_benchmark
from runner.errors import DatasetError, InferenceError
from tests.runner import models
from tests.runner.patience import undisturbed
from tests.runner.test_benchmarks_founding import annotated

pytest.importorskip("PIL.Image")
OPTIONS = {"threads": 1, "spinning": False}
FILE = "annotations/openimages-mlperf.json"

# MLPerf numbers OpenImages' 264 classes from 0.
TRUTH: models.TrueBoxes = [
    [(0.1, 0.1, 0.5, 0.6, 0), (0.5, 0.5, 0.9, 0.9, 263)],
    [(0.2, 0.3, 0.8, 0.7, 148)],
    [],
    [(0.0, 0.25, 0.5, 1.0, 0)],
]


def found_boxes() -> list[list[tuple[float, float, float, float, float, int]]]:
    """The true boxes, the second a little off; a false one; one below the least score."""
    return [
        [
            *(
                (ymin, xmin, ymax - 0.03 * n, xmax - 0.05 * n, 0.9 - 0.2 * n, label)
                for n, (ymin, xmin, ymax, xmax, label) in enumerate(boxes)
            ),
            (0.6, 0.6, 0.7, 0.7, 0.3, 5),
            (0.1, 0.1, 0.2, 0.2, 0.04, 0),
        ]
        for boxes in TRUTH
    ]


def expected_map(folder: Path) -> float:
    """By pycocotools from the boxes themselves, without a log."""
    images = json.loads((folder / FILE).read_text())["images"]
    rows = []
    for image, boxes in zip(images, found_boxes(), strict=True):
        height, width = image["height"], image["width"]
        for ymin, xmin, ymax, xmax, score, label in boxes:
            box = [xmin * width, ymin * height, (xmax - xmin) * width, (ymax - ymin) * height]
            if score >= 0.05:
                rows.append([image["id"], *box, score, label])
    return score_boxes(np.array(rows), folder / FILE).map


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def openimages(tmp_path: Path) -> Path:
    return annotated(tmp_path / "openimages", "validation/data", FILE, TRUTH, list(range(264)))


def records(model: Path, data: Path) -> list[Any]:
    """What the log would hold of each picture."""
    benchmark = open_benchmark("retinanet", model, data)
    dataset = benchmark.make_dataset(data)
    backend = open_backend(benchmark, "onnxruntime", OPTIONS)
    backend.load(benchmark, model, dataset)
    count = len(dataset)
    found = benchmark.encode(backend.infer(dataset.load(range(count)), range(count)), count)
    backend.close()
    return list(found)


def measured(tree: Path, data: Path, scenarios: list[str], **more: Any) -> list[Any]:
    """Runs of a second under the rules of v6.0."""
    conf = tree.with_name("user.conf")
    conf.write_text(
        "*.*.min_query_count = 64\n"
        "*.MultiStream.min_query_count = 662\n"
        "*.Server.min_query_count = 600\n"
        "*.Server.target_qps = 500\n"
    )
    return assay.run(
        "retinanet",
        round="v6.0",
        out=tree,
        system="box",
        data=data,
        scenarios=scenarios,
        min_duration=1,
        user_conf=conf,
        early_stop=False,
        **more,
    )


def test_every_scenario_of_a_round(
    openimages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = models.retinanet(tmp_path / "resnext50_32x4d_fpn.onnx", found_boxes())
    tree, want = tmp_path / "tree", expected_map(openimages)
    assert 40 < want < 95  # above the gate, and not all boxes are right
    ran = {"model": model, "backend_options": OPTIONS}
    outcomes = measured(tree, openimages, ["SingleStream", "Offline"], **ran)
    for outcome in outcomes:
        assert outcome.status == "valid", (outcome.scenario, outcome.message)
        assert outcome.gate == pytest.approx(37.1745)
        assert outcome.score.value == pytest.approx(want, abs=1e-4)
        text = (outcome.path / "README.md").read_text()
        assert "boxes xyxy in pixels, label offset 0, scores of 0.05 or more" in text
    # Hundreds of queries, and a latency limit, are for a backend that needs no time.
    (streams,) = measured(tree, openimages, ["MultiStream"], backend="dummy")
    server = undisturbed(
        lambda number: measured(
            tree, openimages, ["Server"], backend="dummy", overwrite=number > 1
        )[0],
        lambda outcome: outcome.status == "valid",
    )
    for outcome in (streams, server):
        assert outcome.status == "valid", (outcome.scenario, outcome.message)
        assert outcome.score.value == pytest.approx(100)
    # `assay accuracy` knows the benchmark and how its classes are numbered.
    run = str(outcomes[0].path / "accuracy")
    assert main(["accuracy", run, "--benchmark", "retinanet", "--data", str(openimages)]) == 1
    said = capsys.readouterr()
    assert f"mAP={want:.3f}%" in said.out and "equals the hash in accuracy.txt" in said.out
    assert "only 4 samples were scored; the data set has 24,781" in said.err


def test_test01_of_the_round(openimages: Path, tmp_path: Path) -> None:
    model = models.retinanet(tmp_path / "resnext50_32x4d_fpn.onnx", found_boxes())
    (outcome,) = measured(
        tmp_path / "tree",
        openimages,
        ["SingleStream"],
        model=model,
        backend_options=OPTIONS,
        compliance=True,
    )
    assert [test.name for test in outcome.tests] == ["TEST01"]
    # Its speed may differ on a busy machine; what it answers may not.
    assert "TEST PASS" in (outcome.path / "TEST01/verify_accuracy.txt").read_text()


def test_rounds() -> None:
    for name in ("v2.1", "v3.0", "v3.1", "v4.0", "v4.1", "v5.0", "v5.1", "v6.0"):
        plan = plan_for(name, "retinanet", tree=Tree(out=Path("tree")))
        assert plan.rules.gate == pytest.approx(37.1745)
        assert set(plan.scenarios) == {"SingleStream", "MultiStream", "Server", "Offline"}
        assert plan.rules.performance_sample_count == 64
    assert plan_for(None, "retinanet", tree=Tree(out=Path("tree"))).rules.round == "v6.0"
    # The newest round has no retinanet: it is measured there without a gate.
    assert plan_for("v6.1", "retinanet", tree=Tree(out=Path("tree"))).rules.gate is None


def test_seven_floats_a_box(openimages: Path, tmp_path: Path) -> None:
    rows = records(models.retinanet(tmp_path / "m.onnx", found_boxes()), openimages)
    assert [row.shape for row in rows] == [(3, 7), (2, 7), (1, 7), (2, 7)]
    assert all(row.dtype == np.float32 for row in rows)
    # [sample, ymin, xmin, ymax, xmax, score, class], as the official script reads it.
    assert rows[0][1].tolist() == pytest.approx([0, 0.5, 0.5, 0.87, 0.85, 0.7, 263])
    assert [row[0] for row in rows[3]] == [3, 3]


def test_a_graph_with_an_axis_for_the_batch(openimages: Path, tmp_path: Path) -> None:
    single = records(models.retinanet(tmp_path / "one.onnx", found_boxes()), openimages)
    model = models.retinanet(tmp_path / "many.onnx", found_boxes(), batch="N")
    for one, other in zip(single, records(model, openimages), strict=True):
        assert np.array_equal(one, other)


def test_the_file_beside_the_model(openimages: Path, tmp_path: Path) -> None:
    model = models.retinanet(tmp_path / "m.onnx", found_boxes(), normalised=False, shift=1)
    model.with_suffix(".toml").write_text(
        "white = 1\nmean = [0.485, 0.456, 0.406]\nstd = [0.229, 0.224, 0.225]\n"
        "label_offset = 1\nleast_score = 0.01\n"
    )
    assert [row[-1, -1] for row in records(model, openimages)] == [0, 0, 0, 0]
    assert [len(row) for row in records(model, openimages)] == [4, 3, 2, 3]
    for line, words in (
        ("unit = 'metres'", "expected one of 'pixels', 'fractions'"),
        ("least_score = 2", "expected 0 to 1"),
        ("side = 300", "of shape"),
        ("boxes = 'bboxes'", "expected one called 'bboxes'"),
    ):
        model.with_suffix(".toml").write_text(line + "\n")
        with pytest.raises(SettingsError, match=words):
            open_benchmark("retinanet", model, openimages)


def test_a_missed_gate_says_what_was_used(openimages: Path, tmp_path: Path) -> None:
    model = models.retinanet(tmp_path / "m.onnx", found_boxes(), shift=1)
    (outcome,) = assay.run(
        "retinanet",
        out=tmp_path / "tree",
        scenarios=["Offline"],
        model=model,
        data=openimages,
        backend_options=OPTIONS,
        target_qps=20,
        min_duration=1,
    )
    assert outcome.status == "gate-missed"
    assert "linear to 800 x 800 pixels" in outcome.message
    assert "label_offset = 1" in outcome.message and 'unit = "fractions"' in outcome.message


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    benchmark = open_benchmark("retinanet")
    with pytest.raises(DatasetError, match="no folder of OpenImages"):
        benchmark.make_dataset(None)
    with pytest.raises(DatasetError, match=r"openimages-mlperf\.json: found no such file"):
        benchmark.make_dataset(tmp_path)
    execute = cast(Any, benchmark.execute)
    with pytest.raises(InferenceError, match="expected 3"):
        execute.find([np.zeros((1, 4))])
    with pytest.raises(InferenceError, match="NaN"):
        execute.find([np.zeros((1, 4)), np.zeros(1), np.array([np.nan])])
