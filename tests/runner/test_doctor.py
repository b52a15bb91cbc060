"""What the machine has: `assay doctor`, and GPUs as NVML tells of them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from assay.cli import main
from runner import doctor
from runner.doctor import examine
from runner.gpu import UNKNOWN, Gpu, accelerator_fields, accelerator_notes, read_gpus, used_gpus
from runner.system import describe_system

GIB = 2**30


class NotSupported(Exception):
    pass


class Nvml:
    """pynvml with two GPUs; what is in `silent` is not supported."""

    NVMLError = NotSupported
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_NVLINK_MAX_LINKS = 1, 2, 18

    def __init__(self, count: int = 2, silent: tuple[str, ...] = (), **values: Any) -> None:
        self.open = 0
        self.silent = silent
        self.values = {
            "Count": count,
            "Name": "NVIDIA H200",
            "MemoryInfo": SimpleNamespace(total=141 * GIB, free=140 * GIB),
            "MemoryBusWidth": 6016,
            "CudaComputeCapability": (9, 0),
            "EccMode": [1, 1],
            "MigMode": [0, 0],
            "PersistenceMode": 1,
            "EnforcedPowerLimit": 700_000,
            "PowerManagementDefaultLimit": 700_000,
            "PowerUsage": 75_300,
            "Temperature": 31,
            "PerformanceState": 0,
            "MaxPcieLinkGeneration": 5,
            "MaxPcieLinkWidth": 16,
            "NvLinkState": 1,
            "NvLinkVersion": 4,
            "ComputeRunningProcesses": [],
            "ClockInfo": {1: 345, 2: 3201},
            "MaxClockInfo": {1: 1980, 2: 3201},
            **values,
        }

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.65.06"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 13000

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def __getattr__(self, name: str) -> Any:
        key = name.removeprefix("nvmlDeviceGet")
        if key == name or key not in self.values:
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            if key in self.silent:
                raise NotSupported("Not Supported")
            value = self.values[key]
            return value[arguments[1]] if isinstance(value, dict) else value

        return call


def test_every_name_is_in_the_real_library() -> None:
    library = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    names = [f"nvmlDeviceGet{key}" for key in Nvml().values] + [
        name for name in vars(Nvml) if name.startswith(("nvml", "NVML"))
    ]
    assert [name for name in names if not hasattr(library, name)] == []


def test_gpu_facts_reach_a_system_description() -> None:
    nvml = Nvml()
    found = read_gpus(nvml)
    assert nvml.open == 0 and found.problem == ""
    assert (found.driver, found.cuda) == ("580.65.06", "13.0")
    fields = accelerator_fields(found.gpus)
    assert fields == {
        "accelerators_per_node": "2",
        "accelerator_model_name": "NVIDIA H200",
        "accelerator_memory_capacity": "141 GiB",
        "accelerator_memory_configuration": "6016 bit, 3201 MHz, ECC on",
        "accelerator_frequency": "1980 MHz (maximum)",
        "accelerator_host_interconnect": "PCIe Gen5 x16",
        "accelerator_interconnect": "NVLink 4, 18 links, 900 GB/s",
        "accelerator_interconnect_topology": UNKNOWN,
    }
    known = describe_system(system_name="s", submitter="s", division="open", framework="f")
    assert set(fields) <= set(known)
    assert accelerator_notes(found, found.gpus) == (
        "NVIDIA driver 580.65.06, ECC on, power limit 700 W, MIG off."
    )


def test_what_a_gpu_does_not_tell_is_not_invented() -> None:
    nvml = Nvml(count=1)
    nvml.silent = tuple(key for key in nvml.values if key not in ("Count", "Name"))
    (gpu,) = read_gpus(nvml).gpus
    assert gpu == Gpu(0, "NVIDIA H200", nvlinks=0)
    fields = accelerator_fields([gpu])
    assert fields["accelerator_memory_capacity"] == UNKNOWN
    assert fields["accelerator_host_interconnect"] == UNKNOWN
    assert fields["accelerator_interconnect"] == "N/A"
    assert "ECC not told" in accelerator_notes(read_gpus(nvml), [gpu])
    assert accelerator_fields([]) == {}


def test_different_gpus_are_both_named() -> None:
    gpus = [Gpu(0, "A", power_limit=300.0), Gpu(1, "B"), Gpu(2, "B")]
    assert accelerator_fields(gpus)["accelerator_model_name"] == "1 x A, 2 x B"
    lowered = Gpu(0, "A", power_limit=300.0, power_limit_default=700.0)
    assert "power limit 300 W (default 700 W)" in accelerator_notes(read_gpus(Nvml()), [lowered])


@pytest.mark.parametrize(
    ("framework", "count"),
    [
        ("TensorRT 11.4 (CUDA 13.0, NVIDIA H200 x 2, pycuda 2026.1, fp16 model)", 2),
        ("TensorRT 11.4 (CUDA 13.0, NVIDIA H200, pycuda 2026.1, fp16 model)", 1),
        ("ONNX Runtime 1.32 (CUDAExecutionProvider)", 1),
        ("ONNX Runtime 1.32 (CPUExecutionProvider)", 0),
    ],
)
def test_the_gpus_that_were_used(framework: str, count: int) -> None:
    assert len(used_gpus(read_gpus(Nvml(count=4)), framework)) == count


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("LibraryNotFound", "found no NVIDIA driver"),
        ("DriverNotLoaded", "it is not loaded"),
        ("LibRmVersionMismatch", "another version than the loaded driver"),
        ("Unknown", "NVML answers: no"),
    ],
)
def test_why_nvml_tells_nothing(error: str, text: str) -> None:
    nvml = Nvml()
    kind = type(f"NVMLError_{error}", (NotSupported,), {})

    def refuse() -> None:
        raise kind("no")

    nvml.nvmlInit = refuse  # type: ignore[method-assign]
    found = read_gpus(nvml)
    assert found.gpus == () and text in found.problem


def test_a_driver_without_gpus() -> None:
    found = read_gpus(Nvml(count=0))
    assert "found an NVIDIA driver, but no GPU" in found.problem and found.driver


# --- the command -------------------------------------------------------------------------------


def test_this_machine_can_measure_on_its_processor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    told = capsys.readouterr()
    for word in ("LoadGen", "ONNX Runtime", "TensorRT", "NVIDIA driver", "Host memory", "digits"):
        assert word in told.out
    assert told.err == ""


def test_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {item["state"] for item in told["items"]} <= {"ok", "warning", "absent"}
    ready = [r for r in told["benchmarks"] if r["ready"]]
    assert {"digits"} <= {r["benchmark"] for r in ready}
    for item in told["items"]:
        assert item["state"] != "absent" or item["fix"] or ";" not in item["text"]


def test_a_gpu_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "preflight", lambda backend, options: None)
    found = examine(Nvml(count=1, MigMode=[1, 1], EnforcedPowerLimit=300_000))
    text = found.text()
    for line in (
        "NVIDIA H200, compute capability 9.0, ECC on, PCIe Gen5 x16, 18 NVLinks",
        "140.0 of 141.0 GiB free",
        "SM 345 of 1980 MHz, memory 3201 of 3201 MHz, state P0, persistence on",
        "limit 300 W (default 700 W), draws 75 W, 31 degrees C",
        "The limit is below its default",
        "A result is of one MIG instance",
    ):
        assert line in text
    assert found.usable("tensorrt") and found.usable("onnxruntime")
    ready = {
        (r.benchmark, r.precision) for r in found.benchmarks if r.backend == "tensorrt" and r.ready
    }
    assert {("digits", "fp32"), ("digits", "fp16"), ("digits", "int8")} <= ready


def test_exit_status_2_where_the_backend_asked_for_cannot_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorrt", None)
    assert main(["doctor", "--backend", "tensorrt"]) == 2
    assert "found no TensorRT" in capsys.readouterr().out


# --- assay doctor --gpu --------------------------------------------------------------------------


def test_gpu_figures_come_from_copies_and_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    from runner.backends.trt import sanity
    from tests.runner.trt.fake import Device, Module

    monkeypatch.setattr(sanity, "COPY_BYTES", 1 << 16)
    monkeypatch.setattr(sanity.time_copies, "__defaults__", (1 << 16,))
    monkeypatch.setattr(sanity.time_matmul, "__defaults__", (64,))
    module, opened = Module(), []

    def open_device(number: int) -> Any:
        opened.append(Device(module, number))
        return opened[-1]

    found = doctor.examine_gpu(Nvml(), open_device, module, seconds=0.1)
    names = [item.name for item in found.items]
    for name in ("GPU 0 copies", "GPU 1 copies", "GPU 0 FP16 matmul", "GPU 1 power", "GPU 0 MIG"):
        assert name in names
    text = found.text()
    assert "GB/s from pinned host memory" in text and "TFLOP/s in TensorRT" in text
    assert "Benchmarks that could run" not in text and found.complete()
    assert len(opened) == 2 and all(memory.live == {} for memory in opened)


def test_a_gpu_that_cannot_be_opened_is_an_item() -> None:
    from runner.errors import BackendError
    from tests.runner.trt.fake import Module

    def refuse(number: int) -> Any:
        raise BackendError(
            "cudaSetDevice failed with cudaErrorDevicesUnavailable. Look at nvidia-smi"
        )

    found = doctor.examine_gpu(Nvml(1), refuse, Module(), seconds=0.1)
    (item,) = [item for item in found.items if item.name == "GPU 0 figures"]
    assert item.state == "absent" and item.fix == "Look at nvidia-smi" and not found.complete()


def test_without_anything_the_line_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("tensorrt", "pycuda", "pycuda.driver", "cuda", "cuda.bindings.runtime", "pynvml"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    assert main(["doctor", "--gpu"]) == 2
    told = capsys.readouterr().out
    assert "pip install nvidia-ml-py tensorrt-cu12 'cuda-bindings==12.*' onnxruntime-gpu" in told


def test_the_line_is_for_the_driver_s_cuda() -> None:
    assert doctor.install_line("13.0", {"TensorRT"}) == "pip install tensorrt-cu13"
    assert doctor.install_line("12.8", {"Device memory"}) == "pip install 'cuda-bindings==12.*'"
    assert doctor.install_line("12.8", {"NVIDIA driver"}) == ""
