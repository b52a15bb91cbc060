"""The backend on a TensorRT that is played: building, caching, several GPUs, every refusal."""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

from runner.backends import make_backend, open_backend, preflight
from runner.backends.onnxrt import OnnxRuntime
from runner.backends.trt.api import load_tensorrt, messages_of, version_tuple
from runner.backends.trt.backend import TensorRT
from runner.backends.trt.builder import build
from runner.backends.trt.calibration import cache_text, scales_of
from runner.backends.trt.memory import HostMemory
from runner.backends.trt.plan import EnginePlan, make_plan
from runner.benchmarks import open_benchmark
from runner.benchmarks.digits import DIGITS
from runner.errors import BackendError, InferenceError
from tests.runner.trt.fake import MAGIC, Context, FakeTensorRT, Module

FP32 = DIGITS.models["fp32"]
DATA = DIGITS.make_dataset(None)


def loaded(cache: Path, model: Path = FP32, **options: Any) -> FakeTensorRT:
    backend = FakeTensorRT(cache=str(cache), **options)
    backend.load(DIGITS, model, DATA)
    return backend


def reference(count: int, model: Path = FP32) -> Any:
    session = OnnxRuntime(threads=1)
    session.load(DIGITS, model, DATA)
    return session.infer(DATA.load(range(count)), range(count))[0]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.mark.parametrize("version", ["10.1.0", "10.16.1.11", "11.4.0.106"])
@pytest.mark.parametrize("count", [1, 7, 128, 300])
def test_the_same_answers_as_onnx_runtime(cache: Path, version: str, count: int) -> None:
    backend = loaded(cache, version=version)
    (seen,) = backend.infer(DATA.load(range(count)), range(count))
    assert np.allclose(seen, reference(count), rtol=1e-3, atol=1e-4)
    backend.close()
    assert all(memory.live == {} for memory in backend.opened)


def test_embedded_benchmarks_run_whatever_their_outputs(cache: Path) -> None:
    """Lists of boxes (sizes known afterwards), and a decode loop over two graphs."""
    for name in ("scenes", "phrasebook"):
        benchmark = open_benchmark(name)
        dataset = benchmark.make_dataset(None)
        indices = range(6)
        feed = dataset.load(indices)
        answers = []
        for backend, options in (
            ("onnxruntime", {"threads": 1}),
            ("tests.runner.trt.fake:FakeTensorRT", {"cache": str(cache)}),
        ):
            made = open_backend(benchmark, backend, options)
            made.load(benchmark, benchmark.models["fp32"], dataset)
            answers.append([np.array(part) for part in made.infer(feed, indices)])
            made.close()
        for asked, found in zip(*answers, strict=True):
            assert np.allclose(asked, found, rtol=1e-3)


def test_an_engine_is_built_once_and_then_found(cache: Path) -> None:
    first = loaded(cache)
    assert first.module.builds == 1
    assert "because there is no engine of this model yet" in first.notes[0]
    second = loaded(cache)
    assert second.module.builds == 0 and second.notes == []
    assert second.framework == first.framework
    # Timings of the first build help the next one of that device.
    third = loaded(cache, max_batch=16)
    assert third.module.builds == 1
    assert first.module.timings == [b""] and third.module.timings == [b"measured,"]
    assert "because something changed since one was built: shapes" in third.notes[0]
    newer = loaded(cache, version="11.5.0.1")
    assert "TensorRT was '11.4.0.106', is '11.5.0.1'" in newer.notes[0]


def test_a_damaged_engine_is_built_again(cache: Path) -> None:
    loaded(cache)
    (engine,) = cache.glob("*.engine")
    engine.write_bytes(engine.read_bytes()[:-1])
    again = loaded(cache)
    assert again.module.builds == 1 and "it was damaged" in again.notes[0]


def test_an_engine_that_tensorrt_refuses_is_built_again(cache: Path) -> None:
    backend = FakeTensorRT(cache=str(cache))
    real = Module.Runtime

    def refuses_once(self: Module, logger: Any) -> Any:
        backend.module.Runtime = lambda logger: real(self, logger)  # type: ignore[method-assign]
        return SimpleNamespace(deserialize_cuda_engine=lambda data: None)

    loaded(cache)
    backend.module.Runtime = lambda logger: refuses_once(  # type: ignore[method-assign]
        backend.module, logger
    )
    backend.load(DIGITS, FP32, DATA)
    assert backend.module.builds == 1
    assert "the stored engine could not be used" in backend.notes[0]
    assert loaded(cache).module.builds == 0


@pytest.mark.parametrize("devices", ["all", [0, 2], "0,2", 1])
def test_several_gpus_share_one_engine_file(cache: Path, devices: Any) -> None:
    backend = loaded(cache, gpus=3, devices=devices)
    used = {"all": 3, 1: 1}.get(devices if isinstance(devices, str | int) else "", 2)
    assert len(backend.opened) == used and backend.module.builds == 1
    (seen,) = backend.infer(DATA.load(range(400)), range(400))
    assert np.allclose(seen, reference(400), rtol=1e-3, atol=1e-4)
    for memory in backend.opened:
        assert [entry for entry in memory.log if entry[0] in ("execute", "graph")]
    assert (f"x {used}" in backend.framework) == (used > 1)
    backend.close()
    assert all(memory.live == {} for memory in backend.opened)


def test_the_framework_says_what_ran(cache: Path) -> None:
    text = loaded(cache, precision="fp16", streams=3, graphs=False).framework
    for word in (
        "TensorRT 11.4.0.106",
        "CUDA",
        "host memory",
        "fp16 model",
        "3 streams",
        "no CUDA graphs",
        "Converted from float32",
    ):
        assert word in text
    text = loaded(cache, DIGITS.models["int8"]).framework
    assert "int8 model" in text and "made symmetric" in text


@pytest.mark.parametrize(("precision", "model"), [("fp16", "fp32"), ("as-is", "int8")])
def test_other_precisions_stay_accurate(cache: Path, precision: str, model: str) -> None:
    backend = loaded(cache, DIGITS.models[model], precision=precision)
    (seen,) = backend.infer(DATA.load(range(500)), range(500))
    right = seen.argmax(1) == reference(500, DIGITS.models[model]).argmax(1)
    assert right.mean() > 0.99


def calibrated(folder: Path) -> Path:
    """A calibration cache of the digits model, by its quantised twin's scales."""
    place = folder / "digits.cache"
    place.write_text(cache_text(scales_of(onnx.load(str(DIGITS.models["int8"])))))
    return place


def test_int8_by_a_calibration_cache(cache: Path, tmp_path: Path) -> None:
    backend = loaded(cache, precision="int8", calibration=str(calibrated(tmp_path)))
    (seen,) = backend.infer(DATA.load(range(500)), range(500))
    assert (seen.argmax(1) == reference(500).argmax(1)).mean() > 0.98
    assert "int8 model" in backend.framework and "by the calibration cache" in backend.framework
    assert "int8" in backend.layers
    (layers,) = cache.glob("*.layers.tsv")
    assert layers.read_text().startswith("layer\tkind\tprecision\tinputs\toutputs\n")


@pytest.mark.parametrize(
    ("options", "model", "text"),
    [
        ({"precision": "int8"}, "fp32", "found a float32 model; expected int8. Give a quantised"),
        ({"precision": "fp8"}, "int8", "found a model in int8; expected fp8"),
        ({"precision": "fp32"}, "int8", "found a model in int8; expected fp32"),
        ({"precision": "bf16"}, "int8", "found a model in int8; expected bf16"),
        ({"calibration": "x.cache"}, "fp32", "is for precision int8 or fp8 of a float32 model"),
        (
            {"precision": "int8", "calibration": "x.cache"},
            "fp32",
            "cannot be read as a calibration",
        ),
    ],
)
def test_precisions_that_cannot_be_had(
    options: dict[str, Any], model: str, text: str, cache: Path
) -> None:
    with pytest.raises(BackendError, match=text):
        loaded(cache, DIGITS.models[model], **options)


def test_flags_of_the_builder(cache: Path) -> None:
    assert loaded(cache, precision="tf32").module.cleared == []
    assert loaded(cache, precision="fp32").module.cleared == ["TF32"]
    sparse = loaded(cache, sparsity=True)
    assert sparse.module.flags == ["SPARSE_WEIGHTS"] and "sparse weights" in sparse.framework


def test_another_driver_gets_another_engine(cache: Path) -> None:
    loaded(cache)
    backend = FakeTensorRT(cache=str(cache))
    backend.driver = "580.65.06"
    backend.load(DIGITS, FP32, DATA)
    assert backend.module.builds == 1
    assert "driver was '570.86.15', is '580.65.06'" in backend.notes[0]


# --- a plan from elsewhere -----------------------------------------------------------------------


@pytest.fixture
def plan_file(cache: Path, tmp_path: Path) -> Path:
    loaded(cache, max_batch=16)
    (engine,) = cache.glob("*.engine")
    return engine.rename(tmp_path / "digits.plan")


@pytest.mark.parametrize("model", [FP32, None])
def test_a_given_plan_runs_as_its_profiles_say(
    cache: Path, plan_file: Path, model: Path | None
) -> None:
    backend = FakeTensorRT(cache=str(cache), engine=str(plan_file))
    backend.load(DIGITS, model, DATA)
    assert backend.module.builds == 0 and backend.batch_size == 16
    (seen,) = backend.infer(DATA.load(range(300)), range(300))
    assert np.allclose(seen, reference(300), rtol=1e-3, atol=1e-4)
    assert "plan built elsewhere" in backend.framework
    assert hashlib.sha256(plan_file.read_bytes()).hexdigest() in backend.framework
    assert "shows in its accuracy alone" in backend.notes[0]


def test_a_plan_that_does_not_suit_is_refused(cache: Path, plan_file: Path, tmp_path: Path) -> None:
    def refuses(
        text: str, *, batch: int | None = None, benchmark: Any = DIGITS, **options: Any
    ) -> None:
        backend = FakeTensorRT(**{"cache": str(cache), "engine": str(plan_file), **options})
        backend.batch_size = batch
        with pytest.raises(BackendError, match=text):
            backend.load(benchmark, FP32, DATA)
        assert all(memory.live == {} for memory in backend.opened)

    refuses("found a plan for batches of up to 16; expected 17", batch=17)
    refuses(
        "does not take the plan: built by another version.*runs with the TensorRT version",
        version="10.16.1.11",
    )
    refuses("a plan was built with its precision", precision="fp16")
    refuses("cannot be read .*trtexec --saveEngine", engine=str(tmp_path / "none"))
    (tmp_path / "empty").touch()
    refuses("found an empty file", engine=str(tmp_path / "empty"))
    refuses(
        "found a plan with the tensors image, .*; expected the inputs",
        benchmark=replace(DIGITS, inputs=(replace(DIGITS.inputs[0], name="pixels"),)),
    )
    refuses(
        "found the engine's tensor 'image'",
        benchmark=replace(DIGITS, inputs=(replace(DIGITS.inputs[0], shape=(None, 1, 9, 9)),)),
    )


def test_progress_is_told_and_the_build_can_be_ended(cache: Path) -> None:
    lines: list[str] = []
    backend = FakeTensorRT(cache=str(cache))
    backend.on_progress = lines.append
    backend.load(DIGITS, FP32, DATA)
    assert lines[0] == "building the engine: there is no engine of this model yet"
    assert "Building" in lines[1]
    for name in ("digits", "scenes"):
        benchmark = open_benchmark(name)
        told: list[str] = []
        made = open_backend(
            benchmark,
            "tests.runner.trt.fake:FakeTensorRT",
            {"cache": str(cache), "max_batch": 2},
            told.append,
        )
        made.load(benchmark, benchmark.models["fp32"], benchmark.make_dataset(None))
        assert told[0].startswith("building the engine: ")
    assert backend.module.phases == ["step 0", "step 1"]


# --- the builder -------------------------------------------------------------------------------


def digits_plan(**more: Any) -> EnginePlan:
    values = {
        "fixed_batch": None,
        "whole": False,
        "precision": "fp32",
        "batch": 125,
        "max_batch": None,
        "longest": 8,
        "tf32": False,
        "workspace_mib": 0,
        "optimization_level": 3,
    }
    return make_plan(DIGITS, **{**values, **more})


def test_the_workspace_and_profiles_reach_the_builder() -> None:
    module = Module()
    built = build(module, messages_of(module), FP32, digits_plan(workspace_mib=64))  # type: ignore[arg-type]
    assert module.workspace == 64 << 20 and module.cleared == ["TF32"]
    assert built.engine.startswith(MAGIC) and built.timings == b"measured,"
    assert b'"image": [[1, 1, 28, 28], [125, 1, 28, 28], [125, 1, 28, 28]]' in built.engine


def test_float32_is_float32_unless_tf32_is_asked_for(cache: Path) -> None:
    exact, fast = loaded(cache), loaded(cache, tf32=True)
    assert exact.module.cleared == ["TF32"] and fast.module.cleared == []
    assert "fp32 model with TF32" in fast.framework and "TF32" not in exact.framework


def test_a_listener_ends_the_build_or_its_error_does() -> None:
    module = Module()
    with pytest.raises(BackendError, match="the build of the engine was ended"):
        build(  # type: ignore[call-overload]
            module,  # type: ignore[arg-type]
            messages_of(module),  # type: ignore[arg-type]
            FP32,
            digits_plan(),
            on_progress=lambda phase, done, total: False,
        )
    assert module.phases == ["step 0"]

    def broken(phase: str, done: int, total: int) -> None:
        raise OSError("the terminal is gone")

    with pytest.raises(OSError, match="the terminal is gone"):
        build(module, messages_of(module), FP32, digits_plan(), on_progress=broken)  # type: ignore[arg-type]


def test_what_tensorrt_says_reaches_the_user(cache: Path) -> None:
    module = Module()
    module.build_fails = True
    with pytest.raises(BackendError, match="could not build an engine: no implementation for node"):
        build(module, messages_of(module), FP32, digits_plan())  # type: ignore[arg-type]
    with pytest.raises(BackendError, match="cannot take this model: only symmetric quantization"):
        build(module, messages_of(module), DIGITS.models["int8"], digits_plan())  # type: ignore[arg-type]


def test_there_is_one_logger_and_it_stays() -> None:
    """TensorRT keeps the first logger of a process without owning it."""
    module: Any = Module()
    first = messages_of(module)
    assert messages_of(module) is first and messages_of(module).logger is first.logger
    first.logger.log(SimpleNamespace(name="ERROR"), "a  b")
    first.logger.log(SimpleNamespace(name="VERBOSE"), "c")
    assert first.last_errors() == "a b" and first.lines == []
    for number in range(100):
        first.logger.log(SimpleNamespace(name="WARNING"), str(number))
    assert len(first.lines) == first.KEPT
    first.forget()
    assert first.last_errors() == "TensorRT logged no error"


def test_an_output_that_outgrows_its_room_is_told(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = open_benchmark("scenes")
    data = benchmark.make_dataset(None)
    monkeypatch.setattr(Context, "get_max_output_size", lambda self, name: 28)
    backend = FakeTensorRT(cache=str(cache))
    backend.load(benchmark, benchmark.models["fp32"], data)
    with pytest.raises(InferenceError, match=r"wants \d+ bytes for 'detections', more than the 28"):
        backend.infer(data.load(range(16)), range(16))


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"precision": "int4"}, "found precision='int4'; expected as-is, fp32, tf32, fp16"),
        ({"precision": "fp16", "tf32": True}, "found tf32=True"),
        ({"memory": "cupy"}, "found memory='cupy'"),
        ({"samples": "disk"}, "found samples='disk'; expected pinned, device, pageable"),
        ({"streams": 0}, "found streams=0; expected 1 to 16"),
        ({"max_batch": 0}, "found max_batch=0"),
        ({"longest": 0}, "found longest=0"),
        ({"overlap": 0}, "found overlap=0"),
        ({"workspace_mib": -1}, "found workspace_mib=-1"),
        ({"optimization_level": 6}, "found optimization_level=6; expected 0 to 5"),
        ({"threads": 2}, "does not take these options"),
    ],
)
def test_options_are_checked(options: dict[str, Any], text: str) -> None:
    with pytest.raises(BackendError, match=text):
        make_backend("tensorrt", options)


@pytest.mark.parametrize("devices", [3, [0, 0], "x", [], -1, "0,9"])
def test_devices_that_are_not_there(cache: Path, devices: Any) -> None:
    with pytest.raises(BackendError, match=r"found 3 GPUs and devices=.*from 0 to 2"):
        loaded(cache, gpus=3, devices=devices)
    assert not cache.exists()


def test_without_tensorrt_the_message_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorrt", None)
    for attempt in (
        lambda: preflight("tensorrt", {}),
        lambda: TensorRT(cache=str(cache)).load(DIGITS, FP32, DATA),
    ):
        with pytest.raises(BackendError, match=r"found no TensorRT.*pip install 'assay\[tensorrt"):
            attempt()
    assert not cache.exists()


def test_an_old_tensorrt_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = __import__("sys").modules
    monkeypatch.setitem(modules, "tensorrt", SimpleNamespace(__version__="8.6.1"))
    with pytest.raises(BackendError, match=r"found TensorRT 8\.6\.1; expected 10\.1 or newer"):
        load_tensorrt()
    assert version_tuple("10.13.3.9.post1") == (10, 13, 3, 9)


def test_preflight_asks_the_backends_that_have_one() -> None:
    preflight("onnxruntime", {})
    preflight("tests.runner.trt.fake:FakeTensorRT", {"gpus": 2, "devices": "all"})
    with pytest.raises(BackendError, match="found 2 GPUs"):
        preflight("tests.runner.trt.fake:FakeTensorRT", {"gpus": 2, "devices": 5})
    with pytest.raises(BackendError, match="found backend 'x'"):
        preflight("x", {})


def test_a_failure_while_loading_leaves_no_memory_behind(cache: Path) -> None:
    backend = FakeTensorRT(cache=str(cache), gpus=2, devices="all")
    real = backend._open

    def second_fails(device: int) -> Any:
        memory = real(device)
        if device == 1:
            memory.pinned = lambda nbytes: (_ for _ in ()).throw(BackendError("full"))  # type: ignore[method-assign]
        return memory

    backend._open = second_fails  # type: ignore[method-assign]
    with pytest.raises(BackendError, match="full"):
        backend.load(DIGITS, FP32, DATA)
    assert all(isinstance(m, HostMemory) and m.live == {} for m in backend.opened)


def test_every_option_is_in_the_table_with_its_default() -> None:
    page = Path(__file__).parents[3] / "docs" / "performance-tensorrt.md"
    text = page.read_text().partition("## Options")[2].partition("## Precisions")[0]
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    told = {row[1].strip("` "): row[2].strip("` ") for row in rows}
    options = inspect.signature(TensorRT.__init__).parameters
    for name, option in list(options.items())[1:]:
        default = "" if option.default is None else str(option.default)
        assert told.get(name) == (default.lower() if isinstance(option.default, bool) else default)
