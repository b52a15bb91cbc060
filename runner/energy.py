"""Energy beside a run, as the processor and the GPUs themselves count it: `energy.json`.

Unofficial, and never a power result: MLPerf's power results need a calibrated meter at the wall, its
PTDaemon and a ranging run.  What is read here are the counters of RAPL (/sys/class/powercap; processor
packages and, where it has a zone of its own, memory) and of NVML (whole GPU boards).  Fans, disks,
network and the losses of power supplies are in none of them.

The counters are read once a second by a thread of the process that waits for the measuring one: so
often, because RAPL's run over within a minute or so at full power.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

ENERGY = "energy.json"
INTERVAL_S = 1.0
POWERCAP = Path("/sys/class/powercap")
UNOFFICIAL = (
    "Unofficial: counters of the hardware itself, of parts of the system only. This is not an MLPerf power "
    "result and may not be submitted as one."
)
# nvmlClocksEventReason…: why a GPU's clock is lower than it could be.  Idle is none of them.
THROTTLED = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


class Source(Protocol):
    """One thing that counts energy."""

    def read(self) -> None:
        """Look at the counter; called now and then from one thread."""
        ...

    def summary(self, seconds: float) -> dict[str, Any]:
        """What was counted since the first look, over so many seconds."""
        ...


@dataclass
class Zone:
    """A zone of RAPL; `range_uj`: where its counter runs over."""

    path: Path
    name: str
    range_uj: int
    joules: float = 0.0
    wraps: int = 0
    lost: bool = False
    _last: int | None = None

    def read(self) -> None:
        try:
            now = int((self.path / "energy_uj").read_text())
        except (OSError, ValueError):
            self.lost = True
            return
        if self._last is not None:
            passed = now - self._last
            if passed < 0:
                passed += self.range_uj
                self.wraps += 1
            self.joules += passed / 1e6
        self._last = now

    def summary(self, seconds: float) -> dict[str, Any]:
        return {
            "name": self.name,
            "counter": "RAPL",
            **_energy(None if self.lost else self.joules, seconds),
            "wraps": self.wraps,
        }


def read_zones(folder: Path = POWERCAP) -> tuple[list[Zone], str]:
    """Packages, and memory where it has its own zone; why there are none, else "".

    A zone within a package (cores, integrated graphics) is part of its count and left out, and so is
    the second interface (mmio) to the same package.
    """
    zones, refused = [], ""
    for path in sorted(folder.glob("intel-rapl:*")):  # AMD's have the same name
        try:
            name = (path / "name").read_text().strip()
            if path.name.count(":") == 2:
                parent = (folder / path.name.rpartition(":")[0] / "name").read_text().strip()
                if name != "dram":
                    continue
                name = f"{name} of {parent}"
            most = int((path / "max_energy_range_uj").read_text())
            int((path / "energy_uj").read_text())
        except PermissionError:
            refused = f"{path}/energy_uj can be read by root only (chmod a+r, or run as root)"
            continue
        except (OSError, ValueError):
            continue
        if name != "psys":  # holds the packages
            zones.append(Zone(path, name, most))
    return zones, "" if zones else refused or f"no zone of RAPL that can be read in {folder}"


@dataclass
class GpuMeter:
    """A GPU by NVML: its energy counter, or else the power it draws at each look."""

    library: Any
    handle: Any
    name: str
    looks: int = 0
    first_mj: int | None = None
    last_mj: int | None = None
    watts: list[float] = field(default_factory=list)
    clocks: list[int] = field(default_factory=list)
    hottest: int | None = None
    throttled: dict[str, int] = field(default_factory=dict)

    def _ask(self, *names: str, more: tuple[Any, ...] = ()) -> Any:
        """The answer to the first of these that the library and the GPU know; else None."""
        for name in names:
            call = getattr(self.library, name, None)
            if call is not None:
                with contextlib.suppress(self.library.NVMLError, TypeError):
                    return call(self.handle, *more)
        return None

    def read(self) -> None:
        self.looks += 1
        energy = self._ask("nvmlDeviceGetTotalEnergyConsumption")
        if energy is not None:
            self.first_mj = energy if self.first_mj is None else self.first_mj
            self.last_mj = energy
        power = self._ask("nvmlDeviceGetPowerUsage")
        if power is not None:
            self.watts.append(power / 1000)
        clock = self._ask("nvmlDeviceGetClockInfo", more=(1,))
        if clock is not None:
            self.clocks.append(clock)
        heat = self._ask("nvmlDeviceGetTemperature", more=(0,))
        if heat is not None:
            self.hottest = heat if self.hottest is None else max(heat, self.hottest)
        reasons = self._ask(
            "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
        )
        for bit, words in THROTTLED.items():
            if reasons is not None and reasons & bit:
                self.throttled[words] = self.throttled.get(words, 0) + 1

    def summary(self, seconds: float) -> dict[str, Any]:
        joules, how = None, "NVML"
        if self.first_mj is not None and self.last_mj is not None and self.last_mj >= self.first_mj:
            joules = (self.last_mj - self.first_mj) / 1000
        elif self.watts:
            joules, how = (
                sum(self.watts) / len(self.watts) * seconds,
                "NVML, mean of power readings",
            )
        return {
            "name": self.name,
            "counter": how,
            **_energy(joules, seconds),
            "most_watts": max(self.watts, default=None),
            "sm_clock_mhz": [min(self.clocks), max(self.clocks)] if self.clocks else None,
            "most_celsius": self.hottest,
            # Share of the looks at which the clock was held down, by reason.
            "throttled": {k: round(n / self.looks, 4) for k, n in sorted(self.throttled.items())},
        }


def _energy(joules: float | None, seconds: float) -> dict[str, Any]:
    if joules is None or seconds <= 0:
        return {"joules": None, "mean_watts": None}
    return {"joules": round(joules, 3), "mean_watts": round(joules / seconds, 3)}


class EnergyLog:
    """Counts from here until `stop`.

    Args:
        folder: of RAPL's zones; library: what replaces `pynvml`; None: the real ones.
    """

    def __init__(self, folder: Path | None = None, library: Any = None) -> None:
        zones, why = read_zones(folder or POWERCAP)
        self._problems = [why] if why else []
        self._library: Any = None
        self._sources: list[Source] = [*zones, *self._gpus(library)]
        self._seconds = 0.0
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._read()
        self._thread = threading.Thread(target=self._sample, name="energy", daemon=True)
        self._thread.start()

    def _gpus(self, library: Any) -> Iterator[GpuMeter]:
        try:
            library = library or import_module("pynvml")
        except ImportError:
            self._problems.append("no NVML bindings (pip install nvidia-ml-py)")
            return
        try:
            library.nvmlInit()
            self._library = library
            for index in range(library.nvmlDeviceGetCount()):
                handle = library.nvmlDeviceGetHandleByIndex(index)
                name = library.nvmlDeviceGetName(handle)
                text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
                yield GpuMeter(library, handle, f"GPU {index}, {text}")
        except library.NVMLError as error:
            self._problems.append(f"NVML answers: {error}")

    def _read(self) -> None:
        for source in self._sources:
            source.read()

    def _sample(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            self._read()

    def stop(self) -> None:
        """The last look; harmless when repeated."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._thread.join()
        self._read()
        self._seconds = time.monotonic() - self._began
        if self._library is not None:
            with contextlib.suppress(self._library.NVMLError):
                self._library.nvmlShutdown()

    def summary(self) -> dict[str, Any]:
        """What was counted, after `stop`."""
        return {
            "kind": "assay-energy",
            "version": 1,
            "note": UNOFFICIAL,
            "seconds": round(self._seconds, 3),
            "sources": [source.summary(self._seconds) for source in self._sources],
            "problems": self._problems,
        }

    def write(self, path: Path) -> str:
        """Write the file; returns it in a sentence."""
        found = self.summary()
        path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        parts = []
        for source in found["sources"]:
            if source["joules"] is not None:
                held = "".join(
                    f", {share:.0%} of the time held down by {reason}"
                    for reason, share in source.get("throttled", {}).items()
                )
                parts.append(
                    f"{source['name']} {source['joules']:,.1f} J, {source['mean_watts']:,.1f} W{held}"
                )
        if not parts:
            return f"found no energy counter: {'; '.join(self._problems) or 'none can be read'}"
        return (
            f"energy by RAPL and NVML: {'; '.join(parts)}. Unofficial, not an MLPerf power result"
        )
