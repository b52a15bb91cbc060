"""What only a GPU can show.  Skipped, with the reason, where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runner.backends import make_backend, preflight
from runner.backends.trt.memory import open_memory, resolve
from runner.benchmarks.digits import DIGITS
from runner.errors import BackendError
from runner.gpu import read_gpus

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def gpu() -> None:
    try:
        preflight("tensorrt", {})
    except BackendError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engines")


@pytest.fixture(scope="module", params=["pycuda", "cuda-bindings"])
def memory(request: pytest.FixtureRequest) -> Iterator[Any]:
    try:
        resolve(request.param)
    except BackendError as error:
        pytest.skip(str(error))
    opened = open_memory(request.param, 0)
    yield opened
    opened.close()


def test_data_goes_there_and_back(memory: Any) -> None:
    memory.activate()
    stream, event = memory.stream(), memory.event()
    source, target = memory.pinned(1 << 20), memory.pinned(1 << 20)
    source[:] = np.random.RandomState(0).randint(0, 255, len(source))
    device = memory.alloc(len(source))

    def copy() -> None:
        memory.h2d(device, source, stream)
        memory.d2h(target, device, stream)

    copy()
    memory.record(event, stream)
    memory.wait(event)
    assert (source == target).all()
    graph = memory.capture(stream, copy)
    source[:] = 7
    memory.launch(graph, stream)
    memory.synchronize(stream)
    assert (target == 7).all()
    memory.free(device)
    memory.unpin(source)
    memory.unpin(target)


@pytest.mark.parametrize("library", ["pycuda", "cuda-bindings"])
@pytest.mark.parametrize("graphs", [True, False])
def test_fp32_is_onnx_runtime_to_a_thousandth(cache: Path, library: str, graphs: bool) -> None:
    try:
        resolve(library)
    except BackendError as error:
        pytest.skip(str(error))
    data = DIGITS.make_dataset(None)
    model = DIGITS.models["fp32"]
    feed = data.load(range(500))
    outputs = []
    for name, options in (
        ("onnxruntime", {"threads": 1}),
        ("tensorrt", {"cache": str(cache), "memory": library, "graphs": graphs}),
    ):
        backend = make_backend(name, options)
        backend.load(DIGITS, model, data)
        parts = []
        for count in (1, 7, 128, 364):
            start = sum(len(part) for part in parts)
            part = {key: array[start : start + count] for key, array in feed.items()}
            parts.append(np.array(backend.infer(part, range(count))[0]))
        outputs.append(np.concatenate(parts))
        if name == "tensorrt":
            assert ("no CUDA graphs" in backend.framework) != graphs
        backend.close()
    want, have = outputs
    assert np.abs(want - have).max() <= 1e-3 * np.abs(want).max()


def test_nvml_knows_the_gpu() -> None:
    found = read_gpus()
    if "NVML bindings" in found.problem:
        pytest.skip(found.problem)
    assert found.gpus and found.driver
    assert found.gpus[0].memory_bytes
