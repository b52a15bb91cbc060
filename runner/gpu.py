"""NVIDIA GPUs as the driver's management library (NVML) tells of them.

Reading costs no device memory and needs no CUDA.  What a GPU does not tell is None, and shown as
not detected.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

UNKNOWN = "not detected; to be filled in by the submitter"
INSTALL = "pip install nvidia-ml-py"
# Marks of the interface generations, as a link's own number names them.
_NVLINK_GB_S = {1: 40, 2: 50, 3: 50, 4: 50, 5: 100}  # both directions of one link


@dataclass(frozen=True)
class Gpu:
    """One GPU; powers in W, clocks in MHz."""

    index: int
    name: str
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    memory_bus_bits: int | None = None
    capability: str | None = None
    ecc: bool | None = None
    mig: bool | None = None
    persistence: bool | None = None
    power_limit: float | None = None
    power_limit_default: float | None = None
    power_draw: float | None = None
    temperature: int | None = None
    clock_sm: int | None = None
    clock_sm_most: int | None = None
    clock_memory: int | None = None
    clock_memory_most: int | None = None
    performance_state: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    nvlinks: int | None = None
    nvlink_version: int | None = None
    processes: int | None = None


@dataclass(frozen=True)
class Gpus:
    """What NVML reported; `problem` says why it reported nothing, and how to fix that."""

    gpus: tuple[Gpu, ...] = ()
    driver: str = ""
    cuda: str = ""
    problem: str = ""


def read_gpus(library: Any = None) -> Gpus:
    """Ask NVML.  Never raises: without a driver there is a `problem` in place of GPUs.

    Args:
        library: what replaces `pynvml` in a test.
    """
    if library is None:
        try:
            library = import_module("pynvml")
        except ImportError:
            return Gpus(problem=f"found no NVML bindings; install them with {INSTALL}")
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        return Gpus(problem=_explain(type(error).__name__, str(error)))
    try:
        count = library.nvmlDeviceGetCount()
        gpus = tuple(_Reader(library, index).gpu() for index in range(count))
        driver = _text(_ask(library, library.nvmlSystemGetDriverVersion))
        number = _ask(library, library.nvmlSystemGetCudaDriverVersion_v2)
        cuda = f"{number // 1000}.{number % 1000 // 10}" if number else ""
        problem = "" if gpus else "found an NVIDIA driver, but no GPU; look at nvidia-smi -L"
        return Gpus(gpus, driver, cuda, problem)
    except library.NVMLError as error:
        return Gpus(problem=f"NVML answers: {error}; look at nvidia-smi")
    finally:
        with contextlib.suppress(library.NVMLError):
            library.nvmlShutdown()


def _explain(kind: str, text: str) -> str:
    if "LibraryNotFound" in kind:
        return (
            "found no NVIDIA driver (libnvidia-ml.so is absent); install it "
            "from its maker, or start the container with --gpus all"
        )
    if "DriverNotLoaded" in kind:
        return "found NVIDIA's driver, but it is not loaded (modprobe nvidia, or restart)"
    if "LibRmVersionMismatch" in kind:
        return "found a driver library of another version than the loaded driver; restart"
    return f"NVML answers: {text}; look at nvidia-smi"


def _ask(library: Any, call: Any, *arguments: Any) -> Any:
    """An answer, or None: many GPUs cannot tell everything."""
    try:
        return call(*arguments)
    except (library.NVMLError, AttributeError, TypeError):
        return None


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


class _Reader:
    def __init__(self, library: Any, index: int) -> None:
        self.library = library
        self.index = index
        self.handle = library.nvmlDeviceGetHandleByIndex(index)

    def get(self, name: str, *arguments: Any) -> Any:
        call = getattr(self.library, f"nvmlDeviceGet{name}", None)
        return None if call is None else _ask(self.library, call, self.handle, *arguments)

    def watts(self, name: str) -> float | None:
        milliwatts = self.get(name)
        return None if milliwatts is None else milliwatts / 1000

    def switch(self, name: str) -> bool | None:
        """The present state of something that can be switched on."""
        state = self.get(name)
        if isinstance(state, Sequence):  # present and pending
            state = state[0]
        return None if state is None else bool(state)

    def links(self) -> Iterator[int]:
        """Versions of the NVLinks that are up."""
        for link in range(getattr(self.library, "NVML_NVLINK_MAX_LINKS", 0)):
            if self.get("NvLinkState", link) == 1:
                yield self.get("NvLinkVersion", link) or 0

    def gpu(self) -> Gpu:
        sm = getattr(self.library, "NVML_CLOCK_SM", 1)
        memory_clock = getattr(self.library, "NVML_CLOCK_MEM", 2)
        memory = self.get("MemoryInfo")
        capability = self.get("CudaComputeCapability")
        links = list(self.links())
        processes = self.get("ComputeRunningProcesses")
        return Gpu(
            index=self.index,
            name=_text(self.get("Name")) or UNKNOWN,
            memory_bytes=None if memory is None else int(memory.total),
            memory_free_bytes=None if memory is None else int(memory.free),
            memory_bus_bits=self.get("MemoryBusWidth"),
            capability=None if capability is None else f"{capability[0]}.{capability[1]}",
            ecc=self.switch("EccMode"),
            mig=self.switch("MigMode"),
            persistence=self.switch("PersistenceMode"),
            power_limit=self.watts("EnforcedPowerLimit"),
            power_limit_default=self.watts("PowerManagementDefaultLimit"),
            power_draw=self.watts("PowerUsage"),
            temperature=self.get("Temperature", 0),
            clock_sm=self.get("ClockInfo", sm),
            clock_sm_most=self.get("MaxClockInfo", sm),
            clock_memory=self.get("ClockInfo", memory_clock),
            clock_memory_most=self.get("MaxClockInfo", memory_clock),
            performance_state=self.get("PerformanceState"),
            pcie_generation=self.get("MaxPcieLinkGeneration"),
            pcie_width=self.get("MaxPcieLinkWidth"),
            nvlinks=len(links),
            nvlink_version=max(links, default=None),
            processes=None if processes is None else len(processes),
        )


def accelerator_fields(gpus: Sequence[Gpu]) -> dict[str, str]:
    """The accelerator part of a system description for GPUs that were used.

    Returns:
        Field to text; {} where there are none.
    """
    if not gpus:
        return {}
    return {
        "accelerators_per_node": str(len(gpus)),
        "accelerator_model_name": _same(gpu.name for gpu in gpus),
        "accelerator_memory_capacity": _same(_gib(gpu.memory_bytes) for gpu in gpus),
        "accelerator_memory_configuration": _same(_memory(gpu) for gpu in gpus),
        "accelerator_frequency": _same(_frequency(gpu) for gpu in gpus),
        "accelerator_host_interconnect": _same(_pcie(gpu) for gpu in gpus),
        "accelerator_interconnect": _same(_nvlink(gpu) for gpu in gpus),
        "accelerator_interconnect_topology": "N/A" if len(gpus) == 1 else UNKNOWN,
    }


def accelerator_notes(found: Gpus, used: Sequence[Gpu]) -> str:
    """What a description has no field for: driver, ECC, power limit, MIG, persistence."""
    parts = [f"NVIDIA driver {found.driver}"] if found.driver else []
    parts.append(f"ECC {_same(_on(gpu.ecc) for gpu in used)}")
    parts.append(f"power limit {_same(power(gpu) for gpu in used)}")
    parts.append(f"MIG {_same(_on(gpu.mig) for gpu in used)}")
    return ", ".join(parts) + "."


def used_gpus(found: Gpus, framework: str) -> tuple[Gpu, ...]:
    """The GPUs that a backend's `framework` text speaks of: the first N of the name it gives."""
    for name, same in _by_name(found.gpus).items():
        if name in framework:
            text = framework.partition(name)[2]
            number = text[3:].split(",")[0].split(")")[0] if text.startswith(" x ") else "1"
            return same[: int(number)] if number.isdigit() else same[:1]
    return found.gpus[:1] if "CUDA" in framework else ()


def _by_name(gpus: Sequence[Gpu]) -> dict[str, tuple[Gpu, ...]]:
    names = sorted({gpu.name for gpu in gpus}, key=len, reverse=True)
    return {name: tuple(gpu for gpu in gpus if gpu.name == name) for name in names}


def power(gpu: Gpu) -> str:
    """The enforced limit, and the default where another was set."""
    if gpu.power_limit is None:
        return UNKNOWN
    text = f"{gpu.power_limit:.0f} W"
    if gpu.power_limit_default is not None and gpu.power_limit_default != gpu.power_limit:
        text += f" (default {gpu.power_limit_default:.0f} W)"
    return text


def _same(texts: Iterator[str] | Sequence[str]) -> str:
    """One text where all are equal; else each with how often."""
    counts = Counter(texts)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} x {text}" for text, count in counts.items())


def _on(state: bool | None) -> str:
    return "not told" if state is None else "on" if state else "off"


def _gib(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count / 2**30:.0f} GiB"


def _memory(gpu: Gpu) -> str:
    if gpu.memory_bus_bits is None:
        return UNKNOWN
    clock = f", {gpu.clock_memory_most} MHz" if gpu.clock_memory_most else ""
    return f"{gpu.memory_bus_bits} bit{clock}, ECC {_on(gpu.ecc)}"


def _frequency(gpu: Gpu) -> str:
    return UNKNOWN if gpu.clock_sm_most is None else f"{gpu.clock_sm_most} MHz (maximum)"


def _pcie(gpu: Gpu) -> str:
    if gpu.pcie_generation is None or gpu.pcie_width is None:
        return UNKNOWN
    return f"PCIe Gen{gpu.pcie_generation} x{gpu.pcie_width}"


def _nvlink(gpu: Gpu) -> str:
    if gpu.nvlinks is None:
        return UNKNOWN
    if not gpu.nvlinks:
        return "N/A"
    speed = _NVLINK_GB_S.get(gpu.nvlink_version or 0)
    total = f", {speed * gpu.nvlinks} GB/s" if speed else ""
    return f"NVLink {gpu.nvlink_version}, {gpu.nvlinks} links{total}"
