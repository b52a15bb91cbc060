"""What this machine has for measuring, and which benchmarks could run on it.

Nothing is built, allocated or changed; libraries are imported, and the GPU is asked through its
management library.  Only `examine_gpu` uses the GPU: some seconds of copies and a matrix product.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from runner.backends import preflight
from runner.backends.trt.memory import library_version, resolve
from runner.benchmarks import benchmark_names, get_benchmark
from runner.errors import RunnerError
from runner.gpu import Gpu, Gpus, power, read_gpus
from runner.system import free_memory_bytes

State = Literal["ok", "warning", "absent"]


@dataclass(frozen=True)
class Item:
    """One thing looked at: what was found, and how to fix it where something is wrong."""

    name: str
    state: State
    text: str
    fix: str = ""


@dataclass(frozen=True)
class Runnable:
    """Whether a benchmark could run with a backend at a precision; `text` says why not."""

    benchmark: str
    backend: str
    precision: str
    ready: bool
    text: str = ""


@dataclass(frozen=True)
class Diagnosis:
    items: tuple[Item, ...]
    benchmarks: tuple[Runnable, ...]

    def complete(self) -> bool:
        """Whether nothing that TensorRT needs is absent; ONNX Runtime's CUDA is an extra."""
        return not any(i.state == "absent" and i.name != "ONNX Runtime CUDA" for i in self.items)

    def usable(self, backend: str) -> bool:
        """Whether something could be measured with this backend."""
        return any(r.ready for r in self.benchmarks if r.backend == backend)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def text(self) -> str:
        """For a terminal."""
        marks = {"ok": "ok", "warning": "!", "absent": "--"}
        wide = max(len(item.name) for item in self.items)
        lines = []
        for item in self.items:
            lines.append(f"{marks[item.state]:>3} {item.name:<{wide}}  {item.text}")
            if item.fix:
                lines.append(f"    {'':<{wide}}  {item.fix}")
        if not self.benchmarks:
            return "\n".join(lines) + "\n"
        lines += ["", "Benchmarks that could run:"]
        wide = max((len(r.benchmark) for r in self.benchmarks), default=0)
        for backend in dict.fromkeys(r.backend for r in self.benchmarks):
            for name in dict.fromkeys(r.benchmark for r in self.benchmarks):
                these = [r for r in self.benchmarks if (r.benchmark, r.backend) == (name, backend)]
                ready = [r.precision for r in these if r.ready]
                why = next((r.text for r in these if not r.ready), "")
                what = ", ".join(ready) or f"no: {why}"
                lines.append(f"{'ok' if ready else '--':>3} {backend:<11} {name:<{wide}}  {what}")
        return "\n".join(lines) + "\n"


def examine(nvml: Any = None) -> Diagnosis:
    """Look at everything.

    Args:
        nvml: what replaces `pynvml` in a test.
    """
    gpus = read_gpus(nvml)
    items = (
        _python(),
        _package("LoadGen", "mlperf_loadgen", "mlcommons-loadgen"),
        _onnxruntime(),
        _tensorrt(),
        _device_library(),
        _driver(gpus),
        *(item for gpu in gpus.gpus for item in _gpu(gpu)),
        _host_memory(),
    )
    return Diagnosis(items, tuple(_runnable()))


def examine_gpu(
    nvml: Any = None,
    open_device: Callable[[int], Any] | None = None,
    trt: Any = None,
    seconds: float = 5.0,
) -> Diagnosis:
    """What `examine` says of GPUs, and what each does in some seconds; nothing about benchmarks.

    Args:
        open_device, trt: what replaces device memory and TensorRT in a test.
        seconds: of measurement, for all GPUs together.
    """
    gpus = read_gpus(nvml)
    items = [_tensorrt() if trt is None else Item("TensorRT", "ok", trt.__version__)]
    items.append(_device_library() if open_device is None else Item("Device memory", "ok", "given"))
    items += [_onnxruntime_cuda(), _driver(gpus)]
    for gpu in gpus.gpus:
        items += _gpu(gpu)
    if not any(item.state == "absent" for item in items[:2]):
        items += _figures(max(1, len(gpus.gpus)), open_device, trt, seconds)
    absent = {item.name for item in items if item.state == "absent"}
    line = install_line(
        gpus.cuda, absent | ({"NVML"} if "NVML bindings" in gpus.problem else set())
    )
    if line:
        items.append(Item("To install", "warning", line))
    return Diagnosis(tuple(items), ())


def _figures(
    count: int, open_device: Callable[[int], Any] | None, trt: Any, seconds: float
) -> list[Item]:
    from runner.backends.trt.api import load_tensorrt
    from runner.backends.trt.memory import open_memory
    from runner.backends.trt.sanity import time_copies, time_matmul

    items = []
    each = seconds / count / 2
    for number in range(count):
        name = f"GPU {number}"
        try:
            memory = open_device(number) if open_device else open_memory("auto", number)
        except RunnerError as error:
            text, _, fix = str(error).partition(". ")
            items.append(Item(f"{name} figures", "absent", text, fix))
            continue
        try:
            copies = time_copies(memory, each)
            told = (
                f"{copies.up:.1f} GB/s from pinned host memory, {copies.down:.1f} GB/s to it, "
                f"{copies.within:,.0f} GB/s within"
            )
            items.append(Item(f"{name} copies", "ok", told))
            rate = time_matmul(trt or load_tensorrt(), memory, each)
            items.append(Item(f"{name} FP16 matmul", "ok", f"{rate:,.1f} TFLOP/s in TensorRT"))
        except RunnerError as error:
            text, _, fix = str(error).partition(". ")
            items.append(Item(f"{name} figures", "absent", text, fix))
        finally:
            memory.close()
    return items


def _onnxruntime_cuda() -> Item:
    name = "ONNX Runtime CUDA"
    try:
        module = import_module("onnxruntime")
    except ImportError as error:
        return Item(name, "absent", f"cannot be imported ({error})")
    if "CUDAExecutionProvider" not in module.get_available_providers():
        return Item(
            name, "absent", f"{module.__version__} has no CUDA provider; the wheel for CPUs is here"
        )
    cuda = getattr(module, "cuda_version", "") or "not told"
    return Item(name, "ok", f"{module.__version__}, built for CUDA {cuda}")


_PACKAGES = {
    "NVML": {"12": "nvidia-ml-py", "13": "nvidia-ml-py"},
    "TensorRT": {"12": "tensorrt-cu12", "13": "tensorrt-cu13"},
    "Device memory": {"12": "'cuda-bindings==12.*'", "13": "'cuda-bindings==13.*'"},
    "ONNX Runtime CUDA": {"12": "onnxruntime-gpu", "13": "onnxruntime-gpu"},
}


def install_line(cuda: str, absent: set[str]) -> str:
    """The command that installs what is absent, for the driver's CUDA; "" if it is all there.

    ONNX Runtime's wheel for GPUs replaces the one for CPUs: both have the same module.
    """
    major = "13" if cuda.partition(".")[0].isdigit() and int(cuda.partition(".")[0]) >= 13 else "12"
    wanted = [packages[major] for name, packages in _PACKAGES.items() if name in absent]
    if not wanted:
        return ""
    line = f"pip install {' '.join(wanted)}"
    if "ONNX Runtime CUDA" in absent:
        line = f"pip uninstall -y onnxruntime; {line}"
    return line


def _python() -> Item:
    text = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return Item("Python", "ok", text)


def _package(name: str, module: str, package: str) -> Item:
    try:
        import_module(module)
    except ImportError as error:
        return Item(name, "absent", f"cannot be imported ({error})", f"pip install {package}")
    return Item(name, "ok", f"{_version(package)} ({package})")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "version not known"


def _onnxruntime() -> Item:
    try:
        module = import_module("onnxruntime")
    except ImportError as error:
        return Item(
            "ONNX Runtime", "absent", f"cannot be imported ({error})", "pip install onnxruntime"
        )
    providers = module.get_available_providers()
    return Item("ONNX Runtime", "ok", f"{module.__version__}, providers: {', '.join(providers)}")


def _tried(name: str, look: Callable[[], str]) -> Item:
    """What `look` says, or what it raises: found, and how to fix it."""
    try:
        return Item(name, "ok", look())
    except RunnerError as error:
        text, _, fix = str(error).partition(". ")
        return Item(name, "absent", text, fix)


def _tensorrt() -> Item:
    from runner.backends.trt.api import load_tensorrt

    return _tried("TensorRT", lambda: load_tensorrt().__version__)


def _device_library() -> Item:
    def look() -> str:
        name = resolve("auto")
        return f"{name} {library_version(name)}"

    return _tried("Device memory", look)


def _driver(gpus: Gpus) -> Item:
    if not gpus.driver:
        text, _, fix = gpus.problem.partition("; ")
        return Item("NVIDIA driver", "absent", text, fix)
    text = f"{gpus.driver}, for CUDA up to {gpus.cuda or '?'}"
    if gpus.problem:
        return Item("NVIDIA driver", "warning", f"{text}; {gpus.problem}")
    return Item("NVIDIA driver", "ok", text)


def _gpu(gpu: Gpu) -> list[Item]:
    name = f"GPU {gpu.index}"
    items = [
        Item(
            name,
            "ok",
            f"{gpu.name}, compute capability {gpu.capability or '?'}, ECC {_on(gpu.ecc)}, "
            f"PCIe Gen{gpu.pcie_generation or '?'} x{gpu.pcie_width or '?'}, "
            f"{gpu.nvlinks or 0} NVLinks",
        )
    ]
    if gpu.memory_bytes is not None and gpu.memory_free_bytes is not None:
        full = gpu.memory_free_bytes < 0.5 * gpu.memory_bytes
        others = f", {gpu.processes} processes" if gpu.processes else ""
        items.append(
            Item(
                f"{name} memory",
                "warning" if full else "ok",
                f"{gpu.memory_free_bytes / 2**30:.1f} of {gpu.memory_bytes / 2**30:.1f} GiB "
                f"free{others}",
                "Others use it: a measurement would not be of this GPU alone." if full else "",
            )
        )
    items.append(
        Item(
            f"{name} clocks",
            "ok",
            f"SM {_clock(gpu.clock_sm, gpu.clock_sm_most)}, memory "
            f"{_clock(gpu.clock_memory, gpu.clock_memory_most)}, state "
            f"P{'?' if gpu.performance_state is None else gpu.performance_state}, "
            f"persistence {_on(gpu.persistence)}",
        )
    )
    draw = "" if gpu.power_draw is None else f", draws {gpu.power_draw:.0f} W"
    heat = "" if gpu.temperature is None else f", {gpu.temperature} degrees C"
    lowered = (
        gpu.power_limit is not None
        and gpu.power_limit_default is not None
        and gpu.power_limit < gpu.power_limit_default
    )
    items.append(
        Item(
            f"{name} power",
            "warning" if lowered else "ok",
            f"limit {power(gpu)}{draw}{heat}",
            "The limit is below its default; say so in the system description." if lowered else "",
        )
    )
    items.append(
        Item(
            f"{name} MIG",
            "warning" if gpu.mig else "ok",
            _on(gpu.mig),
            "A result is of one MIG instance; say so in the system description." if gpu.mig else "",
        )
    )
    return items


def _clock(now: int | None, most: int | None) -> str:
    return f"{'?' if now is None else now} of {'?' if most is None else most} MHz"


def _on(state: bool | None) -> str:
    return "not told" if state is None else "on" if state else "off"


def _host_memory() -> Item:
    return Item("Host memory", "ok", f"{free_memory_bytes() / 2**30:.1f} GiB free")


def _runnable() -> list[Runnable]:
    result = []
    for backend in ("onnxruntime", "tensorrt", "openai"):
        problem = _import_problem("mlperf_loadgen")
        if not problem and backend == "onnxruntime":
            problem = _import_problem("onnxruntime")
        if not problem:
            try:
                preflight(backend, {})
            except RunnerError as error:
                problem = str(error).partition(". ")[0]
        for name in benchmark_names():
            if _streams(name) == (backend == "openai"):
                result += _of(name, backend, problem)
    return result


def _streams(name: str) -> bool:
    """Whether it is a language benchmark, which only a streaming backend can run."""
    try:
        return get_benchmark(name).generation is not None
    except (RunnerError, ImportError):
        return False


def _import_problem(module: str) -> str:
    try:
        import_module(module)
    except ImportError as error:
        return f"{module} cannot be imported ({error})"
    return ""


def _of(name: str, backend: str, problem: str) -> list[Runnable]:
    try:
        benchmark = get_benchmark(name)
    except (RunnerError, ImportError) as error:
        return [
            Runnable(
                benchmark=name,
                backend=backend,
                precision="",
                ready=False,
                text=str(error).partition(". ")[0],
            )
        ]
    if not benchmark.models:
        yours = "a server" if benchmark.generation is not None else "a model"
        option = "--url" if benchmark.generation is not None else "--model"
        text = problem or f"needs {yours} and a data set of yours ({option}, --data)"
        return [Runnable(benchmark=name, backend=backend, precision="", ready=False, text=text)]
    precisions = {
        precision: "" if path.exists() else f"{path.name} is absent"
        for precision, path in benchmark.models.items()
    }
    if backend == "tensorrt":
        if not problem:
            for precision, path in benchmark.models.items():
                precisions[precision] = precisions[precision] or refusal(path)
        if "fp32" in precisions:
            precisions["fp16"] = precisions["fp32"]
    return [
        Runnable(
            benchmark=name,
            backend=backend,
            precision=precision,
            ready=not (problem or absent),
            text=problem or absent,
        )
        for precision, absent in precisions.items()
    ]


def refusal(place: Path) -> str:
    """Why TensorRT would not take a quantised model (a file or folder); "" where it would."""
    import onnx

    from runner.backends.trt.int8 import is_quantized, to_symmetric

    for path in sorted(place.glob("*.onnx")) if place.is_dir() else [place]:
        if not path.is_file():
            return f"{path.name} is absent"
        model = onnx.load(str(path))
        try:
            if is_quantized(model):
                to_symmetric(model)
        except RunnerError as error:
            return str(error).partition(". ")[0]
    return ""
