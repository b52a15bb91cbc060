"""The five founding benchmarks, end to end: models of the real signature, data in the real form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

import assay
from checker.accuracy.bleu import score_texts
from checker.accuracy.detection import score_boxes
from runner import Event, Measurement, RunSettings, SettingsError, measure, run_benchmark
from runner.backends import open_backend
from runner.benchmarks import (
    ALIASES,
    BENCHMARKS,
    EMBEDDED,
    benchmark_names,
    classification,
    detection,
    get_benchmark,
    open_benchmark,
)
from runner.benchmarks.base import Benchmark
from runner.datasets.imagenet import ImageNet
from runner.errors import BackendError, DatasetError, InferenceError
from runner.run import Job
from tests.runner import models
from tests.runner.models import COLOURS
from tests.runner.plans import changed, plan_with
from tests.runner.test_datasets_text import wmt_folder

Image = pytest.importorskip("PIL.Image")

LABELS = [65, 970, 0, 999, 516, 334]
OPTIONS = {"threads": 1, "spinning": False}
MEANS = np.array([123.68, 116.78, 103.94])
DEVIATIONS = (np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225]))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))


def coloured(path: Path, colour: NDArray[Any], height: int, width: int) -> None:
    """A picture of about one colour."""
    random = np.random.RandomState(height + width)
    noise = random.randint(-20, 21, (height, width, 3))
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.clip(colour.astype(int) + noise, 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(path, quality=95)


@pytest.fixture
def imagenet(tmp_path: Path) -> Path:
    """Eight pictures; the last two are labelled as something else than they look like."""
    folder, lines = tmp_path / "imagenet", []
    for n in range(8):
        name = f"ILSVRC2012_val_{n + 1:08}.JPEG"
        coloured(folder / name, COLOURS[n % 6], *((375, 500) if n % 2 else (500, 333)))
        lines.append(f"{name} {LABELS[n % 6] if n < 6 else 7}\n")
    (folder / "val_map.txt").write_text("".join(lines))
    return folder


TRUTH: models.TrueBoxes = [
    [(0.1, 0.1, 0.5, 0.6, 1), (0.5, 0.5, 0.9, 0.9, 90)],
    [(0.2, 0.3, 0.8, 0.7, 18)],
    [],
    [(0.0, 0.25, 0.5, 1.0, 3)],
]
CATEGORIES = [1, 3, 18, 90]


def annotated(
    folder: Path, pictures: str, file: str, truth: models.TrueBoxes, categories: list[int]
) -> Path:
    """A data set with annotations in COCO's form, a picture of another colour each."""
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for n, boxes in enumerate(truth):
        height, width = ((480, 640), (427, 333))[n % 2]
        name = f"{139 + 7 * n:012}.jpg"
        coloured(folder / pictures / name, COLOURS[n], height, width)
        images.append({"id": 139 + 7 * n, "file_name": name, "height": height, "width": width})
        for ymin, xmin, ymax, xmax, label in boxes:
            w, h = (xmax - xmin) * width, (ymax - ymin) * height
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": 139 + 7 * n,
                    "category_id": label,
                    "bbox": [xmin * width, ymin * height, w, h],
                    "area": w * h,
                    "iscrowd": 0,
                }
            )
    content = {
        "images": images,
        "annotations": annotations,
        "categories": [{"id": k, "name": str(k)} for k in categories],
    }
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(json.dumps(content))
    return folder


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    return annotated(
        tmp_path / "coco", "val2017", "annotations/instances_val2017.json", TRUTH, CATEGORIES
    )


def found_boxes(inverse: bool) -> models.Boxes:
    """The true boxes, the second a little off, and a false one of low score."""
    found = []
    for boxes in TRUTH:
        rows = [
            (ymin, xmin, ymax - 0.03 * n, xmax - 0.05 * n, 0.9 - 0.2 * n, label)
            for n, (ymin, xmin, ymax, xmax, label) in enumerate(boxes)
        ]
        rows.append((0.6, 0.6, 0.7, 0.7, 0.3, 3))
        found.append(
            [(*row[:5], CATEGORIES.index(row[5]) + 1 if inverse else row[5]) for row in rows]
        )
    return found  # type: ignore[return-value] # six fields each


def expected_map(folder: Path) -> float:
    truth = json.loads((folder / "annotations" / "instances_val2017.json").read_text())
    rows = []
    for image, boxes in zip(truth["images"], found_boxes(False), strict=True):
        for ymin, xmin, ymax, xmax, score, label in boxes:
            rows.append(
                {
                    "image_id": image["id"],
                    "category_id": label,
                    "score": score,
                    "bbox": [
                        xmin * image["width"],
                        ymin * image["height"],
                        (xmax - xmin) * image["width"],
                        (ymax - ymin) * image["height"],
                    ],
                }
            )
    return score_boxes(rows, truth).map


def both_runs(
    name: str, model: Path, data: Path, folder: Path, scenario: str, **more: Any
) -> tuple[Any, Measurement]:
    """An accuracy run and a performance run of about a second; score and the latter."""
    benchmark = open_benchmark(name, model, data)
    runs = {}
    for mode in ("accuracy", "performance"):
        settings = RunSettings(
            benchmark.loadgen_model,
            scenario,
            cast(Any, mode),
            min_duration_ms=1000,
            min_query_count=more.get("min_query_count", 64),
            target_qps=50 if scenario == "Server" else None,
            target_latency_ms=5000 if scenario == "Server" else None,
        )
        job = Job(
            name,
            settings,
            backend_options=OPTIONS,
            model=str(model),
            data=str(data),
            warm_up_s=0.1,
            performance_sample_count=more.get("held"),
            early_stop=False,
        )
        runs[mode] = measure(job, folder / f"{name}-{mode}")
    accuracy, performance = runs["accuracy"], runs["performance"]
    assert accuracy.valid, accuracy.reasons
    assert performance.metric and performance.metric > 0
    log = accuracy.folder / "mlperf_log_accuracy.json"
    return benchmark.score(log, benchmark.make_dataset(data)), performance


def test_resnet50(imagenet: Path, tmp_path: Path) -> None:
    model = models.classifier(tmp_path / "resnet50_v1.onnx", LABELS, COLOURS - MEANS)
    score, run = both_runs("resnet50", model, imagenet, tmp_path, "Offline")
    assert (score.metric, score.value) == ("acc", 75.0)
    assert score.line == "accuracy=75.000%, good=6, total=8"
    assert run.unit == "samples/s"


def test_mobilenet(imagenet: Path, tmp_path: Path) -> None:
    model = models.classifier(
        tmp_path / "mobilenet_v1_1.0_224.onnx",
        LABELS,
        COLOURS / 127.5 - 1,
        input_name="input:0",
        layout="NHWC",
        outputs={"MobilenetV1/Predictions/Reshape_1:0": "scores"},
    )
    score, _ = both_runs("mobilenet", model, imagenet, tmp_path, "Server")
    assert score.value == 75.0


def test_ssd_mobilenet(coco: Path, tmp_path: Path) -> None:
    model = models.ssd_mobilenet(tmp_path / "ssd_mobilenet_v1.onnx", found_boxes(False))
    score, _ = both_runs("ssd-mobilenet", model, coco, tmp_path, "SingleStream")
    assert 0 < expected_map(coco) < 95
    assert score.value == pytest.approx(expected_map(coco), abs=1e-6)


def test_ssd_resnet34(coco: Path, tmp_path: Path) -> None:
    mean, deviation = DEVIATIONS
    colours = (COLOURS[: len(TRUTH)] / 255 - mean) / deviation
    model = models.ssd_resnet34(tmp_path / "resnet34-ssd1200.onnx", found_boxes(True), colours)
    score, _ = both_runs("ssd-resnet34", model, coco, tmp_path, "Offline", min_query_count=16)
    assert score.value == pytest.approx(expected_map(coco), abs=1e-6)


SENTENCES = ["a ho@@ use .", "the old door is red .", "a do@@ or", "a red house or two"]
TRANSLATIONS = ["ein Ha@@ us .", "die alte Tür ist rot .", "eine Tür", "ein rotes Haus oder zwei"]


@pytest.fixture
def wmt(tmp_path: Path) -> Path:
    wmt_folder(tmp_path / "wmt", SENTENCES, TRANSLATIONS)
    return tmp_path / "wmt"


def word_table(folder: Path) -> tuple[NDArray[np.int64], int]:
    """Each source word's number to that of the word at its place in the first translation."""
    english = (folder / "vocab.bpe.32000.en").read_text("utf-8").split()
    german = (folder / "vocab.bpe.32000.de").read_text("utf-8").split()
    table = np.zeros(len(english), np.int64)
    table[english.index("</s>")] = german.index("</s>")
    pairs: dict[str, str] = {}
    for source, target in zip(SENTENCES, TRANSLATIONS, strict=True):
        for word, other in zip(source.split(), target.split(), strict=False):
            pairs.setdefault(word, other)
    for word, other in pairs.items():
        table[english.index(word)] = german.index(other)
    return table, len(german)


@pytest.mark.parametrize("options", ["", "beam = 3\nlength_penalty = 0.6\n"])
def test_gnmt(wmt: Path, tmp_path: Path, options: str) -> None:
    table, words = word_table(wmt)
    folder = models.translator(tmp_path / "gnmt", table, words, column=bool(options))
    if options:
        (folder / "signature.toml").write_text(options)
    english = (wmt / "vocab.bpe.32000.en").read_text("utf-8").split()
    german = (wmt / "vocab.bpe.32000.de").read_text("utf-8").split()
    said = [
        " ".join(german[table[english.index(w)]] for w in s.split()).replace("@@ ", "")
        for s in SENTENCES
    ]
    want = score_texts(
        said, [text.replace("@@ ", "") for text in TRANSLATIONS], tokenize="none"
    ).bleu
    if options:
        benchmark = open_benchmark("gnmt", folder, wmt)
        dataset = benchmark.make_dataset(wmt)
        backend = open_backend(benchmark, "onnxruntime", OPTIONS)
        backend.load(benchmark, folder, dataset)
        found = benchmark.encode(backend.infer(dataset.load(range(4)), range(4)), 4)
        assert [bytes(part).decode() for part in found] == said
        return
    score, _ = both_runs("gnmt", folder, wmt, tmp_path, "MultiStream", min_query_count=662)
    assert 20 < want < 100
    assert score.value == pytest.approx(want, abs=1e-6)


def test_gnmt_as_one_file(wmt: Path, tmp_path: Path) -> None:
    from runner.benchmarks.graph import Graph

    table, _ = word_table(wmt)
    g = Graph("whole")
    g.add("Gather", g.weight(table.astype(np.int32)), g.input("src", "int32", ["N", "T"]), name="y")
    g.output("y", "int32", ["N", "T"])
    g.save(tmp_path / "whole.onnx")
    benchmark = open_benchmark("gnmt", tmp_path / "whole.onnx", wmt)
    dataset = benchmark.make_dataset(wmt)
    backend = open_backend(benchmark, "onnxruntime", OPTIONS)
    backend.load(benchmark, tmp_path / "whole.onnx", dataset)
    found = benchmark.encode(backend.infer(dataset.load([0]), [0]), 1)
    assert bytes(found[0]).decode() == "ein Haus ."


def test_gnmt_says_what_is_missing(wmt: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(BackendError, match=r"encoder\.onnx: found no such file"):
        open_benchmark("gnmt", folder, wmt)
    table, words = word_table(wmt)
    models.translator(folder, table, words)
    (folder / "encoder.onnx").write_bytes((folder / "decoder.onnx").read_bytes())
    with pytest.raises(SettingsError):
        open_benchmark("gnmt", folder, wmt)
    models.translator(folder, table, words)
    (folder / "signature.toml").write_text("beam = 0\n")
    with pytest.raises(SettingsError, match="beam = 0"):
        open_benchmark("gnmt", folder, wmt)
    (folder / "signature.toml").write_text("beams = 4\n")
    with pytest.raises(SettingsError, match="found beams; expected some of"):
        open_benchmark("gnmt", folder, wmt)
    with pytest.raises(DatasetError, match="none was named"):
        open_benchmark("gnmt", folder, None)


def offset_of(benchmark: Benchmark) -> int:
    return int(cast(Any, benchmark.encode).keywords["offset"])


@pytest.mark.parametrize("classes", [1000, 1001])
@pytest.mark.parametrize(
    "outputs",
    [
        {"ArgMax:0": "classes"},
        {"ArgMax:0": "classes", "softmax_tensor:0": "scores"},
        {"output": "scores"},
    ],
)
def test_label_offsets_are_found(classes: int, outputs: Mapping[str, str], tmp_path: Path) -> None:
    model = models.classifier(
        tmp_path / "m.onnx", LABELS, COLOURS - MEANS, classes=classes, outputs=outputs
    )
    benchmark = open_benchmark("resnet50", model)
    assert offset_of(benchmark) == classes - 1000
    # The chosen class costs less to carry than a thousand scores.
    assert [tensor.name for tensor in benchmark.outputs] == [next(iter(outputs))]


def test_what_the_graph_does_not_say_is_asked_for(tmp_path: Path) -> None:
    model = models.classifier(
        tmp_path / "m.onnx", LABELS, COLOURS, outputs={"y": "classes"}, hide_classes=True
    )
    with pytest.raises(SettingsError, match=r"label_offset = 0' or 1 in .*m\.toml"):
        open_benchmark("resnet50", model)
    options = tmp_path / "m.toml"
    options.write_text("label_offset = 1\n")
    assert offset_of(open_benchmark("resnet50", model)) == 1
    options.write_text("label_offset = 0\npreprocessing = 'pytorch'\noutput = 'y'\n")
    fitted = open_benchmark("resnet50", model)
    assert offset_of(fitted) == 0
    assert cast(Any, fitted.make_dataset).keywords["recipe"].scaling == "pillow-crop"
    for text, said in (
        ("label_offset = 2\n", "label_offset = 2; expected one of 0, 1"),
        ("offset = 1\n", "found offset; expected some of"),
        ("input = 'x'\nlabel_offset = 0\n", "expected one called 'x'"),
        ("label_offset = \n", "cannot be read"),
    ):
        options.write_text(text)
        with pytest.raises(SettingsError, match=said):
            open_benchmark("resnet50", model)


def test_other_shapes_are_refused(tmp_path: Path) -> None:
    from runner.benchmarks.graph import Graph

    for shape, said in (
        (["N", 3, 299, 299], r"expected \[any, 3, 224, 224\]"),
        (["N", 3, 224, 3], "expected one axis of 3 colours"),
        (["N", 5], "expected one input of pictures"),
    ):
        g = Graph("other")
        flat = g.add("Flatten", g.input("x", "float32", cast(Any, shape)))
        g.add("ArgMax", flat, name="y", axis=1, keepdims=0)
        g.output("y", "int64", ["N"])
        g.save(tmp_path / "m.onnx")
        with pytest.raises(SettingsError, match=said):
            open_benchmark("resnet50", tmp_path / "m.onnx")
    (tmp_path / "m.onnx").write_bytes(b"none")
    for name in ("resnet50", "ssd-mobilenet", "ssd-resnet34"):
        with pytest.raises(BackendError, match="cannot be read as an ONNX model"):
            open_benchmark(name, tmp_path / "m.onnx")


@pytest.mark.parametrize("batch", [1, 4])
def test_models_of_a_fixed_batch(batch: int, imagenet: Path, tmp_path: Path) -> None:
    model = models.classifier(tmp_path / "m.onnx", LABELS, COLOURS - MEANS, batch=batch)
    benchmark = open_benchmark("resnet50", model)
    dataset = benchmark.make_dataset(imagenet)
    backend = open_backend(benchmark, "onnxruntime", OPTIONS)
    backend.load(benchmark, model, dataset)
    found = np.asarray(benchmark.encode(backend.infer(dataset.load(range(6)), range(6)), 6))
    assert found.tolist() == LABELS and found.dtype == np.int32


def test_outputs_that_no_result_may_rest_on() -> None:
    labels = classification.encode([np.array([0, 1000])], 2, 1)
    assert labels.tolist() == [-1, 999]
    scores = np.zeros((2, 1000), np.float32)
    bad = scores.copy()
    bad[1, 4] = np.nan
    for outputs in ([], [scores[:1]], [scores[:, :999]], [bad], [np.array([0, 1000])]):
        with pytest.raises(InferenceError):
            classification.encode(outputs, 2, 0)
    numbers, boxes = np.array([1.0, 3.0]), np.zeros((2, 2, 4))
    flat = np.zeros((2, 2))
    with pytest.raises(InferenceError, match="0 to 2"):
        detection.by_number([numbers, boxes, flat, flat])
    with pytest.raises(InferenceError, match="expected"):
        detection.by_number([numbers, boxes[:, :, :3], flat, flat])
    with pytest.raises(InferenceError, match="NaN"):
        detection.by_score([boxes, flat, flat + np.nan], 0.05, "xyxy")


def test_a_file_beside_the_model_describes_its_preprocessing(
    imagenet: Path, tmp_path: Path
) -> None:
    colours = (COLOURS / 255 - DEVIATIONS[0]) / DEVIATIONS[1]
    model = models.classifier(
        tmp_path / "mine.onnx", LABELS, colours[:, ::-1], classes=1000, outputs={"scores": "scores"}
    )
    said = model.with_suffix(".toml")
    said.write_text(
        'side = 224\nresize = 232\nresize_rule = "bicubic-crop"\nwhite = 1\n'
        'mean = [0.485, 0.456, 0.406]\nstd = [0.229, 0.224, 0.225]\ncolour_order = "BGR"\n'
    )
    benchmark = open_benchmark("resnet50", model, imagenet)
    assert benchmark.preparation == (
        "bicubic-crop to 224 x 224 pixels from 232 on the shorter side, (value - mean) * scale with "
        "mean 123.675, 116.28, 103.53 and scale 0.0171248, 0.017507, 0.0174292 for red, green and "
        "blue; NCHW, BGR, float32; label offset 0"
    )
    plan = plan_with(
        "resnet50",
        tmp_path / "tree",
        scenarios=("Offline",),
        backend_options=OPTIONS,
        model=model,
        data=imagenet,
        gate=75.0,
        min_duration_ms=300,
        early_stop=False,
        user_conf="*.Offline.min_query_count = 100\n",
    )
    (outcome,) = run_benchmark(plan)
    assert outcome.score is not None and outcome.score.value == 75  # two of eight are mislabelled
    assert outcome.path is not None
    assert benchmark.preparation in (outcome.path / "README.md").read_text()
    # One line is wrong: the message says what was used and what other models need.
    said.write_text(said.read_text().replace("BGR", "RGB"))
    (missed,) = run_benchmark(changed(plan, out=tmp_path / "other"))
    assert missed.status == "gate-missed"
    assert "Preprocessing used: bicubic-crop to 224 x 224" in missed.message
    assert 'colour_order = "BGR"' in missed.message and "label_offset = 1" in missed.message
    assert (
        'preprocessing = "pytorch" (pillow-crop' in missed.message and str(said) in missed.message
    )


class Forecast:
    """Keeps what was told before the performance run."""

    seconds = 0.0

    def on_event(self, event: Event) -> None:
        if event.phase == "ready" and event.mode == "performance":
            self.seconds = event.remaining_s or 0.0

    def verify(self, run: Measurement, batch_s: float) -> None:
        """Not below what the inferences sleep, and not far above what the run took.

        The run may have taken any time more, where the machine stood still.
        """
        assert run.job.batch_size is not None
        assert self.seconds >= 0.99 * batch_s * run.samples / run.job.batch_size
        assert self.seconds < 1.5 * run.seconds


def test_an_offline_run_of_loadgen_s_24576_samples_is_valid_and_foreseen(
    imagenet: Path, tmp_path: Path
) -> None:
    """8 ms for each of 768 batches of 32: longer than the 4 s that are asked for."""
    forecast = Forecast()
    model = models.classifier(tmp_path / "m.onnx", LABELS, COLOURS - MEANS)
    (outcome,) = assay.run(
        "resnet50",
        out=tmp_path / "tree",
        scenarios=["Offline"],
        system="box",
        data=imagenet,
        target_qps=20,
        min_duration=4,
        backend="tests.runner.cheats:Sleeps",
        backend_options={"seconds": 0.008},
        model=model,
        progress=forecast,
    )
    assert outcome.status == "valid", outcome.message
    assert outcome.performance_run is not None and outcome.metric is not None
    assert outcome.performance_run.samples == 24_576
    forecast.verify(outcome.performance_run, 0.008)


@pytest.mark.parametrize(
    ("name", "seconds", "qps"),
    [("digits", 0.01, 8_000), ("scenes", 0.01, 1_500), ("phrasebook", 0.002, 12_000)],
)
def test_an_offline_run_is_foreseen(name: str, seconds: float, qps: int, tmp_path: Path) -> None:
    """More samples than can be answered in the second that is asked for; each model for itself."""
    forecast = Forecast()
    (outcome,) = assay.run(
        name,
        out=tmp_path / "tree",
        scenarios=["Offline"],
        system="box",
        target_qps=3 * qps,
        min_duration=1,
        backend="tests.runner.cheats:Sleeps",
        backend_options={"seconds": seconds},
        progress=forecast,
    )
    run = outcome.performance_run
    assert outcome.status == "valid" and run is not None
    assert run.samples == pytest.approx(3.3 * qps, rel=0.01)
    forecast.verify(run, seconds)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("mean = 'x'", "expected a number, or three for red, green and blue"),
        ("std = [1, 0, 1]", "found 0 in std"),
        ("side = 0", "expected 1 to 8,192 pixels"),
        ("resize = 200", r"expected 224 \(side\) or more"),
        ("white = 2", "found white = 2"),
        ("resize_rule = 'nearest'", "found resize_rule"),
        ("side = 299", "of shape"),
    ],
)
def test_a_wrong_line_beside_the_model_is_named(line: str, words: str, tmp_path: Path) -> None:
    model = models.classifier(tmp_path / "mine.onnx", LABELS, COLOURS)
    model.with_suffix(".toml").write_text(line + "\n")
    with pytest.raises(SettingsError, match=words):
        open_benchmark("resnet50", model)


def test_names(tmp_path: Path) -> None:
    assert set(EMBEDDED) < set(benchmark_names())
    for name in BENCHMARKS:
        assert get_benchmark(name).name == name
    for alias, name in ALIASES.items():
        assert get_benchmark(alias) is get_benchmark(name)
    with pytest.raises(SettingsError, match="comes without a model; give one with --model"):
        run_benchmark(plan_with("resnet50", tmp_path / "tree", scenarios=("Offline",)))


def test_the_dummy_backend_needs_no_model(imagenet: Path, coco: Path, wmt: Path) -> None:
    for name, data in (
        ("resnet50", imagenet),
        ("mobilenet", imagenet),
        ("ssd-mobilenet", coco),
        ("ssd-resnet34", coco),
        ("gnmt", wmt),
    ):
        benchmark = open_benchmark(name, None, data)
        dataset = benchmark.make_dataset(data)
        backend = open_backend(benchmark, "dummy", {})
        backend.load(benchmark, None, dataset)
        count = len(dataset)
        found = benchmark.encode(backend.infer({}, range(count)), count)
        assert len(found) == count
        if isinstance(dataset, ImageNet):
            assert (np.asarray(found) == dataset.labels).all()
