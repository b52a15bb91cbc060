"""Scenes and the phrasebook: their accuracy to the digit, and what an encoding refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runner import RunSettings, measure, run_benchmark
from runner.backends import open_backend
from runner.backends.dummy import Dummy
from runner.backends.onnxrt import OnnxRuntime
from runner.backends.pipeline import Pipeline
from runner.benchmarks import EMBEDDED, detection, open_benchmark, translation
from runner.benchmarks.digits import DIGITS
from runner.benchmarks.phrasebook import DECODING, PHRASEBOOK
from runner.benchmarks.scenes import execute
from runner.benchmarks.translation import Decoding
from runner.errors import BackendError, InferenceError
from runner.run import Job
from schemas import load_round
from tests.runner.plans import plan_with

OPTIONS = {"threads": 1, "spinning": False}
# Of the shipped files, as ONNX Runtime on a CPU computes them.
REFERENCE = {
    ("scenes", "fp32"): 79.861,
    ("scenes", "int8"): 79.449,
    ("scenes", "int8-all"): 72.434,
    ("phrasebook", "fp32"): 84.347,
    ("phrasebook", "int8"): 84.329,
}


def answers(name: str, precision: str, batch: int, count: int | None = None) -> tuple[Any, Any]:
    """Encoded answers to the first samples, straight through the backend; and the data set."""
    model = open_benchmark(name).models[precision]
    benchmark = open_benchmark(name, model)
    dataset = benchmark.make_dataset(None)
    backend = open_backend(benchmark, "onnxruntime", OPTIONS)
    backend.load(benchmark, model, dataset)
    found: list[NDArray[Any]] = []
    for start in range(0, count or len(dataset), batch):
        indices = range(start, min(start + batch, count or len(dataset)))
        found += benchmark.encode(backend.infer(dataset.load(indices), indices), len(indices))
    backend.close()
    return found, dataset


def log_of(found: Sequence[NDArray[Any]], folder: Path) -> Path:
    """An accuracy log as LoadGen writes it."""
    lines = [
        f'{{"seq_id": {n}, "qsl_idx": {n}, "data": "{part.tobytes().hex()}"}}'
        for n, part in enumerate(found)
    ]
    path = folder / "mlperf_log_accuracy.json"
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    return path


@pytest.mark.parametrize(("name", "precision"), REFERENCE)
def test_accuracy_is_what_is_recorded(name: str, precision: str, tmp_path: Path) -> None:
    found, dataset = answers(name, precision, 25)
    score = open_benchmark(name).score(log_of(found, tmp_path), dataset)
    want = REFERENCE[name, precision]
    # INT8 kernels of other processors round otherwise; dynamic ranges depend on the batch.
    assert score.value == pytest.approx(want, abs=0.01 if precision == "fp32" else 0.4)
    (gate,) = load_round("demo").benchmarks[name].accuracy
    assert gate.metric == score.metric
    if precision == "fp32":
        assert gate.reference == pytest.approx(score.value, abs=0.01)
    assert (score.value >= gate.bound) == (precision != "int8-all")


@pytest.mark.parametrize("name", EMBEDDED)
def test_files_are_small(name: str) -> None:
    for model in open_benchmark(name).models.values():
        files = [model] if model.is_file() else list(model.iterdir())
        assert 0 < sum(file.stat().st_size for file in files) < 1_200_000


@pytest.mark.parametrize("name", ["scenes", "phrasebook"])
def test_a_batch_changes_no_answer(name: str) -> None:
    one, _ = answers(name, "fp32", 1, 24)
    many, _ = answers(name, "fp32", 24, 24)
    for a, b in zip(one, many, strict=True):
        assert a.shape == b.shape and np.allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("name", ["scenes", "phrasebook"])
def test_an_accuracy_run_under_loadgen(name: str, tmp_path: Path) -> None:
    benchmark = open_benchmark(name)
    job = Job(
        name,
        RunSettings(benchmark.loadgen_model, "Offline", "accuracy"),
        backend_options=OPTIONS,
        model=str(benchmark.models["fp32"]),
        warm_up_s=0.05,
    )
    done = measure(job, tmp_path / "run")
    assert done.valid and done.samples == len(benchmark.make_dataset(None))
    log = done.folder / "mlperf_log_accuracy.json"
    score = benchmark.score(log, benchmark.make_dataset(None))
    assert score.value == pytest.approx(REFERENCE[name, "fp32"], abs=0.01)


def test_the_gate_stops_the_all_int8_detector(tmp_path: Path) -> None:
    gate = load_round("demo").benchmarks["scenes"].accuracy[0].bound
    plan = plan_with(
        "scenes",
        tmp_path / "tree",
        scenarios=("Offline",),
        system="box",
        precision="int8-all",
        gate=gate,
        backend_options={"spinning": False},
    )
    (outcome,) = run_benchmark(plan)
    assert outcome.status == "gate-missed" and outcome.score is not None
    assert outcome.score.line == f"mAP={outcome.score.value:.3f}%"
    assert not (tmp_path / "tree").exists()


@pytest.mark.parametrize("name", ["scenes", "phrasebook"])
def test_the_dummy_backend_is_perfect(name: str, tmp_path: Path) -> None:
    benchmark = open_benchmark(name)
    dataset = benchmark.make_dataset(None)
    backend = open_backend(benchmark, "dummy", {})
    assert isinstance(backend, Dummy)
    backend.load(benchmark, None, dataset)
    found: list[NDArray[Any]] = []
    for start in range(0, len(dataset), 7):
        indices = range(start, min(start + 7, len(dataset)))
        found += benchmark.encode(backend.infer({}, indices), len(indices))
    assert benchmark.score(log_of(found, tmp_path), dataset).value == pytest.approx(100, abs=0.01)


def test_a_pipeline_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="graph alone"):
        Pipeline(DIGITS, OnnxRuntime)
    pipeline = Pipeline(PHRASEBOOK, OnnxRuntime)
    dataset = PHRASEBOOK.make_dataset(None)
    with pytest.raises(BackendError, match=r"folder with encoder\.onnx, decoder\.onnx"):
        pipeline.load(PHRASEBOOK, tmp_path / "absent", dataset)
    with pytest.raises(BackendError, match="no model file"):
        pipeline.load(PHRASEBOOK, tmp_path, dataset)


def test_detections_that_no_result_may_rest_on() -> None:
    rows = np.array([[4, 0.1, 0.1, 0.2, 0.2, 0.9, 1], [9, 0, 0, 1, 1, 0.5, 2]], np.float32)
    first, second, third = detection.encode([rows, np.array([1, 0, 1])], 3)
    assert first.tolist() == rows[:1].tolist() and second.shape == (0, 7)
    assert third.tolist() == rows[1:].tolist()
    assert not np.shares_memory(first, rows)
    bad = rows.copy()
    bad[0, 3] = np.nan
    for outputs, count in (
        ([rows], 3),
        ([rows, np.array([1, 1])], 3),
        ([rows, np.array([1, 2, 0])], 3),
        ([rows, np.array([3, -1, 0])], 3),
        ([rows[:, :6], np.array([1, 0, 1])], 3),
        ([bad, np.array([1, 0, 1])], 3),
    ):
        with pytest.raises(InferenceError):
            detection.encode(outputs, count)


def test_the_scenes_table_is_put_in_order() -> None:
    table = np.array([[1, 0, 0, 1, 1, 0.5, 3], [0, 0, 0, 1, 1, 0.4, 2]], np.float32)

    def run(outputs: list[NDArray[Any]], indices: Sequence[int]) -> list[NDArray[Any]]:
        return execute({"model": lambda feed, places: outputs}, {}, indices)

    rows, counts = run([table], [40, 30, 20])
    assert counts.tolist() == [1, 1, 0]
    assert rows[:, [0, 6]].tolist() == [[40, 2], [30, 3]]
    for outputs in ([], [table[:, :6]], [table + np.float32(np.nan)], [table + np.float32(5)]):
        with pytest.raises(InferenceError):
            run(outputs, [0, 1])


class Chain:
    """A decoder that knows probabilities of the next word by the last: 1 starts, 2 ends."""

    def __init__(self, scores: Mapping[int, Sequence[float]]) -> None:
        self.scores = {k: np.log(np.array(v) + 1e-9) for k, v in scores.items()}

    def __call__(self, feed: Mapping[str, NDArray[Any]], indices: Sequence[int]) -> Any:
        last = feed["token"]
        assert len(last) == len(indices) == len(feed["mark"])
        assert (feed["mark"] == np.asarray(indices)).all()  # states stay with their sentence
        return [np.stack([self.scores.get(int(k), self.scores[1] * 0) for k in last])]


def decode(chain: Chain, count: int, **more: Any) -> list[list[int]]:
    decoding = Decoding(
        source="source",
        token="token",
        token_rank=1,
        encoder=("mark",),
        decoder_inputs=("token", "mark"),
        decoder_outputs=("scores",),
        start=1,
        end=2,
        pad=0,
        **more,
    )
    feed = {"source": np.ones((count, 3), np.int64)}
    indices = range(5, 5 + count)
    graphs = {"encoder": lambda feed, places: [np.asarray(places)], "decoder": chain}
    (words,) = decoding(graphs, feed, indices)
    return [row[: row.index(2)] if 2 in row else row for row in words.tolist()]


def test_decoding_greedy_and_with_a_beam() -> None:
    # 3 is likelier first, but leads nowhere; 4 and then the end is the likeliest sentence.
    chain = Chain(
        {
            1: [0, 0, 0, 0.6, 0.4, 0],
            3: [0, 0, 0.35, 0, 0.3, 0.35],
            4: [0, 0, 0.9, 0, 0, 0.1],
            5: [0, 0, 1, 0, 0, 0],
        }
    )
    assert decode(chain, 2) == [[3], [3]]
    assert decode(chain, 2, beam=3) == [[4], [4]]
    endless = Chain({1: [0, 0, 0, 1, 0, 0], 3: [0, 0, 0, 1, 0, 0]})
    assert decode(endless, 1, factor=1.0, extra=2) == [[3] * 5]
    assert decode(endless, 1, factor=1.0, extra=2, beam=2) == [[3] * 5]
    # A penalty on short sentences makes longer ones win.
    longer = Chain({1: [0, 0, 0.5, 0.5, 0, 0], 3: [0, 0, 0.9, 0.1, 0, 0]})
    assert decode(longer, 1, beam=2) == [[]]
    assert decode(longer, 1, beam=2, penalty=3.0) == [[3]]


def test_words_that_no_result_may_rest_on() -> None:
    german = open_benchmark("phrasebook").encode.keywords["tokenizer"]  # type: ignore[attr-defined]
    good = np.array([[german.encode(["ich"])[0], 2, 7], [5, 6, 2]])
    texts = translation.encode([good], 2, german)
    assert texts[0].tobytes() == b"Ich"
    for outputs, count in (([], 1), ([good], 1), ([good.astype(float)], 2), ([good + 9999], 2)):
        with pytest.raises(InferenceError):
            translation.encode(outputs, count, german)
    nan = Chain({1: [0.0]})
    nan.scores[1] = np.full(6, np.nan)
    for beam in (1, 2):
        with pytest.raises(InferenceError, match="NaN"):
            decode(nan, 1, beam=beam)
    assert DECODING.decoder_outputs == ("logits", "state_out")
