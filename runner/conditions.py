"""What the machine did to a run: time that its host took, throttled clocks and quotas, as Linux counts them.

Counters are read before and after; clocks are looked at now and then in between.  What the kernel does not
say is left out: a virtual machine has no thermal counters, a container often no clocks.  GPUs are
`runner.energy`'s.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

CPUS = Path("sys/devices/system/cpu")
CLOCKS_EVERY_S = 2.0
MOST_CLOCKS = 16  # of many processors a few will do; each look interrupts one
NOTABLE = 0.01  # of the time: from here on stolen time and quotas are said of a result


@dataclass
class Conditions:
    """From here on.

    Args:
        root: where /proc and /sys are.
    """

    root: Path = Path("/")
    _lowest: int = 0
    _highest: int = 0
    _looked: float = 0.0

    def __post_init__(self) -> None:
        self._began = self._looked = time.monotonic()
        self._processors = sorted(os.sched_getaffinity(0))
        self._stolen, self._quota, self._heat = self._steal(), self._throttled(), self._thermal()

    def look(self) -> None:
        """Called often; reads the clocks now and then."""
        now = time.monotonic()
        if now - self._looked < CLOCKS_EVERY_S:
            return
        self._looked = now
        step = max(1, len(self._processors) // MOST_CLOCKS)
        clocks = [
            clock
            for cpu in self._processors[::step]
            if (clock := self._number(CPUS / f"cpu{cpu}/cpufreq/scaling_cur_freq")) is not None
        ]
        if clocks:
            self._lowest = min(self._lowest or min(clocks), min(clocks))
            self._highest = max(self._highest, max(clocks))

    def found(self) -> tuple[dict[str, str], list[str]]:
        """What is recorded of a run (title to text), and what must be said of its result."""
        passed = max(time.monotonic() - self._began, 1e-9)
        rows: dict[str, str] = {}
        said: list[str] = []
        stolen = _difference(self._steal(), self._stolen)
        if stolen is not None:
            # Of all processors: the kernel's line of totals.
            share = min(1.0, stolen / (passed * (os.cpu_count() or 1)))
            rows["Processor time taken by the host (steal)"] = f"{share:.2%}"
            if share >= NOTABLE:
                said.append(
                    f"the host of this virtual machine took {share:.0%} of the processors' time: on an own "
                    "machine the result would be better"
                )
        quota = _difference(self._throttled(), self._quota)
        if quota is not None:
            share = quota / passed
            rows["Held back by the cgroup's processor quota"] = f"{quota:.2f} s"
            if share >= NOTABLE:
                said.append(
                    f"the cgroup's processor quota held the run back for {quota:.1f} s of {passed:.0f} s; raise "
                    "it, or use fewer threads"
                )
        heat = {
            kind: count - self._heat[kind]
            for kind, count in self._thermal().items()
            if kind in self._heat
        }
        if heat:
            events = sum(heat.values())
            rows["Thermal throttling of the processors"] = f"{events:,} events"
            if events:
                said.append(
                    f"processors throttled their clocks for heat {events:,} times during the run: see to the "
                    "cooling"
                )
        if self._highest:
            rows["Processor clocks"] = self._clocks()
        governors = self._governors()
        if governors:
            rows["Frequency governor"] = ", ".join(governors)
        return rows, said

    def _clocks(self) -> str:
        limit = self._number(CPUS / f"cpu{self._processors[0]}/cpufreq/cpuinfo_max_freq")
        of = f", at most {limit / 1e6:.2f} GHz" if limit else ""
        return f"{self._lowest / 1e6:.2f} to {self._highest / 1e6:.2f} GHz as seen{of}"

    def _read(self, path: Path) -> str | None:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return (self.root / path).read_text(encoding="ascii")
        return None

    def _number(self, path: Path) -> int | None:
        text = self._read(path)
        return int(text) if text is not None and text.strip().isdigit() else None

    def _steal(self) -> float | None:
        """Seconds, of all processors together."""
        text = self._read(Path("proc/stat"))
        fields = text.split("\n", 1)[0].split() if text else []
        if len(fields) < 9 or fields[0] != "cpu" or not fields[8].isdigit():
            return None
        return int(fields[8]) / os.sysconf("SC_CLK_TCK")

    def _throttled(self) -> float | None:
        """Seconds for which the quota of this process's cgroup held it back; None without a quota."""
        for path in self._cgroups():
            text = self._read(path / "cpu.stat")
            values: Mapping[str, str] = dict(re.findall(r"^(\w+) (\d+)$", text or "", re.MULTILINE))
            for key, unit in (("throttled_usec", 1e6), ("throttled_time", 1e9)):
                if key in values and int(values.get("nr_periods", 0)):
                    return int(values[key]) / unit
        return None

    def _cgroups(self) -> Iterable[Path]:
        """The folders of this process's cgroup, as the host and as a container shows them."""
        for line in (self._read(Path("proc/self/cgroup")) or "").splitlines():
            _, names, place = [*line.split(":", 2), "", ""][:3]
            if names == "" or "cpu" in names.split(","):
                base = Path("sys/fs/cgroup") / ("" if names == "" else "cpu")
                yield base / place.lstrip("/")
                yield base

    def _thermal(self) -> dict[str, int]:
        """Events by counter; a package's processors all show the same one."""
        found: dict[str, int] = {}
        for cpu in self._processors:
            folder = CPUS / f"cpu{cpu}"
            core = self._number(folder / "thermal_throttle/core_throttle_count")
            if core is not None:
                number = self._number(folder / "topology/core_id")
                package = self._number(folder / "topology/physical_package_id")
                found[f"core {package}/{number}"] = core
            whole = self._number(folder / "thermal_throttle/package_throttle_count")
            if whole is not None:
                package = self._number(folder / "topology/physical_package_id")
                found[f"package {package}"] = whole
        return found

    def _governors(self) -> list[str]:
        texts = {
            self._read(CPUS / f"cpu{cpu}/cpufreq/scaling_governor") for cpu in self._processors
        }
        return sorted(text.strip() for text in texts if text)


def _difference(now: float | None, before: float | None) -> float | None:
    return None if now is None or before is None else max(0.0, now - before)
