"""What can be known of this machine, in the words of a system description.

Linux tells most of it without privileges; what cannot be known is said in words, never left
empty, so that the submitter sees what is to be filled in.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from runner import gpu
from runner.gpu import UNKNOWN

NONE = "N/A"
_OF_THE_MACHINE = ("host_", "accelerator")
_PACKAGES = (
    "numpy",
    "onnxruntime",
    "onnxruntime-gpu",
    "mlcommons-loadgen",
    "tensorrt",
    "pycuda",
    "cuda-bindings",
    "tritonclient",
)


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def free_memory_bytes() -> int:
    """Memory this process may still take: the machine's, or less where a cgroup limits it."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    if match:
        free = int(match[1]) * 1024
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit, used = _read("/sys/fs/cgroup/memory.max"), _read("/sys/fs/cgroup/memory.current")
    if limit.isdigit() and used.isdigit():
        free = min(free, max(0, int(limit) - int(used)))
    return free


def _processor() -> dict[str, str]:
    text = _read("/proc/cpuinfo")
    fields: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, separator, value = line.partition(":")
        if separator:
            fields.setdefault(key.strip(), []).append(value.strip())
    model = (fields.get("model name") or fields.get("Hardware") or [platform.processor()])[0]
    packages = set(fields.get("physical id", [])) or {"0"}
    threads = len(fields.get("processor", [])) or os.cpu_count() or 1
    # One core is one (package, core) pair; architectures that do not say have no such lines.
    places = list(zip(fields.get("physical id", []), fields.get("core id", []), strict=False))
    cores = len(set(places)) or threads
    per_package = cores // len(packages) or 1
    highest = _read("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    if highest.isdigit():
        frequency = f"{int(highest) / 1e6:.2f} GHz (maximum)"
    elif fields.get("cpu MHz"):
        frequency = f"{float(fields['cpu MHz'][0]) / 1000:.2f} GHz (as read)"
    else:
        frequency = UNKNOWN
    return {
        "host_processor_model_name": model or platform.machine() or UNKNOWN,
        "host_processors_per_node": str(len(packages)),
        "host_processor_core_count": str(per_package),
        "host_processor_vcpu_count": str(threads),
        "host_processor_frequency": frequency,
        "host_processor_caches": _caches() or UNKNOWN,
        "host_processor_interconnect": NONE if len(packages) == 1 else UNKNOWN,
    }


def _caches() -> str:
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (_read(index / name) for name in ("level", "type", "size"))
        if level and size:
            letter = {"Data": "d", "Instruction": "i"}.get(kind, "")
            found.append(f"L{level}{letter} {size.replace('K', ' KiB')}")
    return ", ".join(found)


def _memory() -> str:
    match = re.search(r"^MemTotal:\s+(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    return f"{int(match[1]) / 2**20:.1f} GiB" if match else UNKNOWN


def _storage(folder: Path) -> tuple[str, str]:
    kinds = set()
    for disk in sorted(Path("/sys/block").glob("*")):
        if disk.name.startswith(("loop", "ram", "zram", "dm-", "sr", "md")):
            continue
        rotational = _read(disk / "queue" / "rotational")
        if disk.name.startswith("nvme"):
            kinds.add("NVMe SSD")
        elif disk.name.startswith("vd"):
            kinds.add("virtual disk")
        elif rotational in ("0", "1"):
            kinds.add("SSD" if rotational == "0" else "HDD")
    try:
        size = f"{shutil.disk_usage(folder).total / 2**30:.0f} GiB"
    except OSError:
        size = UNKNOWN
    return size, ", ".join(sorted(kinds)) or UNKNOWN


def _network() -> tuple[str, str]:
    cards = []
    for card in sorted(Path("/sys/class/net").glob("*")):
        if (card / "device").exists():
            speed = _read(card / "speed")
            cards.append(f"{speed} Mbit/s" if speed.isdigit() else "")
    if not cards:
        return NONE, "0"
    speeds = sorted({speed for speed in cards if speed})
    return "Ethernet" + (f" {', '.join(speeds)}" if speeds else ""), str(len(cards))


def _accelerators() -> list[str]:
    """Names of the NVIDIA devices that the driver shows."""
    names = []
    for card in sorted(Path("/proc/driver/nvidia/gpus").glob("*")):
        match = re.search(r"^Model:\s*(.+)$", _read(card / "information"), re.MULTILINE)
        names.append(match[1] if match else UNKNOWN)
    return names


def _operating_system() -> str:
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        name = ""
    return f"{name or platform.system()} ({platform.system()} {platform.release()})"


def _versions(packages: Iterable[str]) -> str:
    found = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def describe_system(
    *,
    system_name: str,
    submitter: str,
    division: str,
    framework: str,
    system_type: str = "edge",
    status: str = "rdi",
    uses_accelerator: bool = False,
    storage: Path | None = None,
    remote: bool = False,
    network: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """A system description of this machine with every field that round v6.1 wants.

    Args:
        framework: what executes the model, with its version.
        system_type: "edge", "datacenter" or "datacenter,edge".
        status: "available", "preview" or "rdi" (research, development or internal).
        uses_accelerator: whether the model runs on one; devices that lie idle are only a note.
        storage: whose disk to describe; the working directory's if None.
        remote: whether the system under test is another machine: what this one is made of is
            then only a note.
        network: the fields of the network division.

    Returns:
        Field to text; values are strings throughout, since a number 0 counts as empty.
    """
    disk_size, disk_kind = _storage(storage or Path.cwd())
    cabling, cards = _network()
    found = _accelerators()
    used = found if uses_accelerator else []
    nvidia = gpu.read_gpus() if uses_accelerator else gpu.Gpus()
    working = gpu.used_gpus(nvidia, framework)
    told = f"{gpu.accelerator_notes(nvidia, working)} " if working else ""
    unknown = UNKNOWN if used or working else NONE
    idle = f"Accelerators present but not used: {', '.join(found)}. " if found and not used else ""
    described = {
        "division": division,
        "submitter": submitter,
        "status": status,
        "system_type": system_type,
        "system_type_detail": NONE,
        "system_name": system_name,
        "number_of_nodes": "1",
        **_processor(),
        "host_memory_capacity": _memory(),
        "host_memory_configuration": UNKNOWN,
        "host_storage_capacity": disk_size,
        "host_storage_type": disk_kind,
        "host_networking": cabling,
        "host_network_card_count": cards,
        "host_networking_topology": "one node; LoadGen and the system under test share it",
        "accelerators_per_node": str(len(used)),
        "accelerator_model_name": ", ".join(sorted(set(used))) or NONE,
        "accelerator_memory_capacity": unknown,
        "accelerator_memory_configuration": unknown,
        "accelerator_frequency": unknown,
        "accelerator_host_interconnect": unknown,
        "accelerator_interconnect": unknown,
        "accelerator_interconnect_topology": unknown,
        "accelerator_on-chip_memories": unknown,
        **gpu.accelerator_fields(working),
        "cooling": UNKNOWN,
        "framework": framework,
        "operating_system": _operating_system(),
        "other_software_stack": _versions(_PACKAGES),
        "hw_notes": f"{told}{idle}Captured by Assay; fields it could not detect say so",
        "sw_notes": (
            "Server runs ask the kernel for 1 ns of timer slack in the LoadGen thread; Python's "
            "garbage collector is off while LoadGen runs"
        ),
    }
    if remote:
        processor = _processor()
        described |= {key: UNKNOWN for key in described if key.startswith(_OF_THE_MACHINE)}
        described |= {
            "number_of_nodes": UNKNOWN,
            "host_networking_topology": "LoadGen's machine and the system under test, by a network",
            "operating_system": UNKNOWN,
            "hw_notes": (
                f"LoadGen ran on another machine: {processor['host_processor_model_name']}, "
                f"{processor['host_processor_vcpu_count']} threads, {_memory()}, "
                f"{_operating_system()}. Captured by Assay; fields it could not detect say so"
            ),
        }
    return {**described, **(network or {})}


def default_system_name(framework: str) -> str:
    """A folder name for this machine: its processor and what executes, never its host name."""
    processor = _processor()["host_processor_model_name"]
    words = re.sub(r"\((R|TM|r|tm)\)|\bCPU\b|@.*| w/.*", "", processor)
    text = f"{words.strip()}_{framework.split('(')[0].strip()}"
    name = re.sub(r"[^A-Za-z0-9_.+-]+", "-", text).strip("-.")
    return name[:64].strip("-.") or "this-machine"
