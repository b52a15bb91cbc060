"""Data set, model files, backends, library and responses, without LoadGen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import runner
from runner import benchmark_names, default_system_name, describe_system, get_benchmark
from runner.backends import make_backend
from runner.backends.onnx_session import verify_providers
from runner.backends.onnxrt import OnnxRuntime
from runner.benchmarks.base import Tensor
from runner.benchmarks.digits import DIGITS, encode
from runner.benchmarks.graph import Graph
from runner.datasets.digits import Digits, preprocess
from runner.errors import BackendError, DatasetError, InferenceError, SettingsError
from runner.qsl import Library
from runner.sut import Responses

SYSTEM_FIELDS = [
    "division",
    "submitter",
    "status",
    "system_name",
    "number_of_nodes",
    "host_processor_model_name",
    "host_processors_per_node",
    "host_processor_core_count",
    "host_memory_capacity",
    "host_storage_capacity",
    "host_storage_type",
    "accelerators_per_node",
    "accelerator_model_name",
    "accelerator_memory_capacity",
    "framework",
    "operating_system",
    "system_type",
    "other_software_stack",
    "host_processor_frequency",
    "host_processor_caches",
    "host_memory_configuration",
    "host_processor_interconnect",
    "host_networking",
    "host_networking_topology",
    "accelerator_frequency",
    "accelerator_host_interconnect",
    "accelerator_interconnect",
    "accelerator_interconnect_topology",
    "accelerator_memory_configuration",
    "accelerator_on-chip_memories",
    "cooling",
    "hw_notes",
    "sw_notes",
    "host_network_card_count",
    "system_type_detail",
]


def test_importing_the_runner_is_free() -> None:
    code = (
        "import sys, runner, runner.benchmarks, runner.settings; runner.Plan; "
        "heavy = {'numpy', 'onnxruntime', 'mlperf_loadgen', 'onnx'} & set(sys.modules); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_nothing_is_reported_to_the_makers_of_a_library(tmp_path: Path) -> None:
    """ONNX Runtime's telemetry begins with its import, by a file in the temporary folder."""
    code = "import runner, onnxruntime"
    environment = {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"}
    environment["TMPDIR"] = str(tmp_path)
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert list(tmp_path.iterdir()) == []


def test_every_public_name_is_there() -> None:
    for name in runner.__all__:
        assert getattr(runner, name) is not None
    with pytest.raises(AttributeError):
        _ = runner.nothing


def test_registry() -> None:
    assert "digits" in benchmark_names()
    assert get_benchmark("digits") is DIGITS
    for name in ("resnet", "no.such:THING", "runner.benchmarks.digits:NOTHING"):
        with pytest.raises(SettingsError):
            get_benchmark(name)


def test_digits_is_the_tail_of_the_public_set() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    source, ours = datasets.load_digits(), Digits()
    assert len(ours) == 500
    assert (ours.images == source.images[-500:].astype(np.uint8)).all()
    assert (ours.labels == source.target[-500:]).all()
    assert len(ours.calibration) == 100
    known = {image.tobytes() for image in source.images[:-500].astype(np.uint8)}
    assert all(image.tobytes() in known for image in ours.calibration)


def test_preprocessing_is_bilinear() -> None:
    flat = preprocess(np.full((2, 8, 8), 16, np.uint8))
    assert flat.shape == (2, 1, 28, 28)
    assert flat.dtype == np.float32
    assert np.allclose(flat, 1)
    ramp = preprocess(np.tile(np.arange(8, dtype=np.uint8), (1, 8, 1)))[0, 0]
    centres = np.clip((np.arange(28) + 0.5) * 8 / 28 - 0.5, 0, 7)
    assert np.allclose(ramp, centres[None] / 16, atol=1e-6)


def test_a_broken_data_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "digits.npz"
    path.write_bytes(b"nothing")
    with pytest.raises(DatasetError, match=r"digits\.npz"):
        Digits(path)
    np.savez(path, images=np.zeros((3, 8, 8)), labels=np.zeros(2))
    with pytest.raises(DatasetError, match="n labels"):
        Digits(path)


@pytest.mark.parametrize(("precision", "low", "high"), [("fp32", 0.95, 0.995), ("int8", 0.94, 1)])
def test_shipped_models_are_as_good_as_said(precision: str, low: float, high: float) -> None:
    path, dataset = DIGITS.models[precision], Digits()
    assert path.stat().st_size < 300_000
    backend = make_backend("onnxruntime", {"threads": 1, "spinning": False})
    backend.load(DIGITS, path, dataset)
    everything = range(len(dataset))
    answers = DIGITS.encode(backend.infer(dataset.load(everything), everything), len(dataset))
    backend.close()
    assert low <= float((np.asarray(answers) == dataset.labels).mean()) <= high


def test_encoding_refuses_what_no_result_may_rest_on() -> None:
    good = np.eye(10, dtype=np.float32)
    assert encode([good], 10).tolist() == list(range(10))
    assert encode([good[3:4]], 1).tobytes() == b"\x03\x00\x00\x00"
    bad = good.copy()
    bad[4, 2] = np.nan
    cases: list[tuple[Sequence[Any], int]] = [
        ([], 1),
        ([good, good], 10),
        ([good], 9),
        ([good[:, :9]], 10),
        ([bad], 10),
        ([bad[4:5]], 1),
        ([np.full_like(good[:1], np.inf)], 1),
    ]
    for outputs, count in cases:
        with pytest.raises(InferenceError):
            encode(outputs, count)


def test_providers_are_never_replaced() -> None:
    backend = OnnxRuntime(providers=("cuda",))
    with pytest.raises(BackendError, match="CUDAExecutionProvider"):
        backend.load(DIGITS, DIGITS.models["fp32"], Digits())
    with pytest.raises(BackendError, match="did not start"):
        verify_providers(["CUDAExecutionProvider"], ["CPUExecutionProvider"])
    with pytest.raises(BackendError, match="none"):
        OnnxRuntime(providers=()).load(DIGITS, DIGITS.models["fp32"], Digits())


def test_models_of_another_signature_are_refused(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    def info(name: str, shape: list[str | int | None]) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        [helper.make_node("Identity", ["picture"], ["logits"])],
        "other",
        [info("picture", ["N", 10])],
        [info("logits", ["N", 10])],
    )
    path = tmp_path / "other.onnx"
    opset = [helper.make_opsetid("", 17)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    )
    backend = OnnxRuntime()
    with pytest.raises(BackendError, match=r"found inputs .*picture"):
        backend.load(DIGITS, path, Digits())
    path.write_bytes(b"no model")
    with pytest.raises(BackendError, match="cannot load"):
        backend.load(DIGITS, path, Digits())
    with pytest.raises(BackendError, match="no model file"):
        backend.load(DIGITS, tmp_path / "absent.onnx", Digits())


def test_backends_say_what_they_do_not_know() -> None:
    for name, options in (
        ("tpu", {}),
        ("no.such:Thing", {}),
        ("onnxruntime", {"fast": 1}),
        ("onnxruntime", {"threads": -1}),
        ("onnxruntime", {"optimization": "most"}),
        ("dummy", {"answer": "random"}),
    ):
        with pytest.raises(BackendError):
            make_backend(name, options)


def test_library_gives_views_of_neighbours_and_copies_of_others() -> None:
    dataset = Digits()
    library = Library(dataset)
    library.load([7, 3, 9, 1])
    asked = [3, 9, 1, 7, 9, 3, 7, 3, 9, 1, 7]
    for size in (1, 2, 3, 4, 20):
        feeds = [feed["image"].copy() for feed in library.batches(asked, size)]
        assert [len(feed) for feed in feeds[:-1]] == [size] * (len(feeds) - 1)
        assert np.array_equal(np.concatenate(feeds), dataset.load(asked)["image"])
    held = library.single[7]["image"]
    views = [np.shares_memory(held.base, feed["image"]) for feed in library.batches(asked, 3)]
    assert views == [True, False, True, False]
    assert np.array_equal(library.single[9]["image"], dataset.load([9])["image"])
    library.unload([7, 3, 9, 1])
    assert not library.single


def test_a_bound_feed_gives_what_a_plain_one_gives() -> None:
    dataset = Digits()
    backend = OnnxRuntime(threads=1)
    backend.load(DIGITS, DIGITS.models["fp32"], dataset)
    samples = dataset.load(range(40))
    for first, last in ((0, 1), (7, 8), (0, 20), (20, 40)):
        feed = {"image": samples["image"][first:last]}
        bound = backend.bind(feed)
        assert bound is not feed and dict(bound) == feed
        (plain,) = backend.infer(feed, range(first, last))
        for _ in range(2):
            (found,) = backend.infer(bound, range(first, last))
            assert np.array_equal(found, plain)
    backend.close()


def test_what_cannot_be_bound_is_inferred_as_it_is(tmp_path: Path) -> None:
    def loaded(name: str, declared: Sequence[int | str]) -> OnnxRuntime:
        g = Graph(name)
        picture = g.input("image", "float32", ("N", 1, 28, 28))
        # A graph whose sizes come from the data: nobody can tell that a declared one is wrong.
        rows = g.add("Shape", picture, start=0, end=1)
        shape = g.add("Concat", rows, g.add("Cast", g.weight([784.0]), to=7), axis=0)
        g.add("Reshape", picture, shape, name="logits")
        g.output("logits", "float32", declared)
        path = tmp_path / f"{name}.onnx"
        g.save(path)
        backend = OnnxRuntime(threads=1, optimization="disable")
        backend.load(benchmark, path, dataset)
        return backend

    dataset = Digits()
    feed = dataset.load(range(3))
    benchmark = replace(DIGITS, outputs=(Tensor("logits", (None, None), "float32"),))
    for name, declared, binds in (
        ("right", ("N", 784), True),
        ("unknown", ("N", "K"), False),
        ("another-batch", ("M", 784), False),
        ("wrong", ("N", 10), False),
    ):
        backend = loaded(name, declared)
        ready = backend.bind(feed)
        assert (ready is not feed) == binds
        assert backend.infer(ready, range(3))[0].shape == (3, 784)


class _Response:
    __slots__ = ("data", "id", "size")

    def __init__(self, id: int, data: int, size: int) -> None:
        self.id, self.data, self.size = id, data, size


def test_responses_carry_the_right_bytes_to_the_right_query() -> None:
    import ctypes

    sent: dict[int, bytes] = {}

    def complete(responses: list[Any]) -> None:
        for r in responses:
            sent[r.id] = ctypes.string_at(r.data, r.size)

    responses = Responses(complete, _Response)
    responses.send([5], np.array([50], np.int32))
    responses.send([1, 2, 3], np.array([10, 20, 30], np.int32))
    responses.send([8, 9], np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))
    responses.send([6, 7], [np.array([1], np.uint8), np.array([], np.uint8)])
    assert sent[5] == np.int32(50).tobytes()
    assert sent[3] == np.int32(30).tobytes()
    assert sent[9] == np.array([3, 4], np.float32).tobytes()
    assert sent[6] == b"\x01"
    assert sent[7] == b""
    with pytest.raises(InferenceError, match="2 answers for 3"):
        responses.send([1, 2, 3], np.array([1, 2], np.int32))


def test_system_description_has_every_field_of_v6_1() -> None:
    found = describe_system(
        system_name="s", submitter="me", division="closed", framework="ONNX Runtime 1"
    )
    assert not set(SYSTEM_FIELDS) - set(found)
    assert all(isinstance(value, str) and value for value in found.values())
    assert found["accelerators_per_node"] == "0"
    assert int(found["host_processor_core_count"]) >= 1


def test_system_name_is_a_folder_name() -> None:
    from runner.submission import check_name

    check_name(default_system_name("ONNX Runtime"), "system")
    for name in ("", ".hidden", "two words", "a/b", "-x"):
        with pytest.raises(SettingsError):
            check_name(name, "system")
