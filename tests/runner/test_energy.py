"""Energy beside a run: RAPL's counters from a made tree, NVML's from a made library."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import assay
import runner.energy
from runner.energy import UNOFFICIAL, EnergyLog, GpuMeter, read_zones
from schemas.timeline import beside


def zone(folder: Path, place: str, name: str, energy: int = 0, most: int = 10_000_000) -> Path:
    path = folder / place
    path.mkdir(parents=True)
    for file, text in (("name", name), ("energy_uj", energy), ("max_energy_range_uj", most)):
        (path / file).write_text(f"{text}\n")
    return path


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    """Two packages; the first has cores and memory within it, and is there by mmio once more."""
    folder = tmp_path / "powercap"
    zone(folder, "intel-rapl:0", "package-0", 1_000_000)
    zone(folder, "intel-rapl:0:0", "core")
    zone(folder, "intel-rapl:0:1", "dram")
    zone(folder, "intel-rapl:1", "package-1", 9_500_000)
    zone(folder, "intel-rapl:2", "psys")
    zone(folder, "intel-rapl-mmio:0", "package-0")
    (folder / "intel-rapl").mkdir()
    return folder


class NotSupported(Exception):
    pass


class Nvml:
    """pynvml with one GPU that draws 300 W, at times held down."""

    NVMLError = NotSupported

    def __init__(self, counts: bool = True) -> None:
        self.counts, self.looks, self.open = counts, 0, 0

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return f"gpu{index}"

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return b"NVIDIA H200"

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        if not self.counts:
            raise NotSupported("not supported")
        self.looks += 1
        return 5_000_000 + 600_000 * self.looks  # mJ

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return 300_000  # mW

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:
        return 1980 - 300 * self.looks

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        return 60 + self.looks

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        return 0x1 | (0x24 if self.looks == 2 else 0)  # idle is no throttling


def test_packages_and_memory_are_counted_once(powercap: Path) -> None:
    zones, why = read_zones(powercap)
    assert [z.name for z in zones] == ["package-0", "dram of package-0", "package-1"]
    assert why == ""


def test_a_counter_that_runs_over(powercap: Path) -> None:
    zones, _ = read_zones(powercap)
    package = zones[2]  # at 9.5 of 10 J
    for energy in (9_500_000, 9_900_000, 300_000, 9_000_000, 200_000):
        (powercap / "intel-rapl:1" / "energy_uj").write_text(f"{energy}\n")
        package.read()
    found = package.summary(2.0)
    assert found == {
        "name": "package-1",
        "counter": "RAPL",
        "joules": pytest.approx(0.4 + 0.4 + 8.7 + 1.2),
        "mean_watts": pytest.approx(5.35),
        "wraps": 2,
    }


def test_a_counter_that_goes_away_claims_nothing(powercap: Path) -> None:
    (package, *_), _ = read_zones(powercap)
    package.read()
    (powercap / "intel-rapl:0" / "energy_uj").unlink()
    package.read()
    assert package.summary(2.0)["joules"] is None


def test_why_there_is_no_counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no zone of RAPL that can be read" in read_zones(tmp_path)[1]
    path = zone(tmp_path, "intel-rapl:0", "package-0")
    real = Path.read_text

    def refusing(self: Path, *args: Any, **more: Any) -> str:
        if self == path / "energy_uj":
            raise PermissionError(13, "Permission denied")
        return real(self, *args, **more)

    monkeypatch.setattr(Path, "read_text", refusing)
    assert "can be read by root only" in read_zones(tmp_path)[1]


def test_a_gpu() -> None:
    library = Nvml()
    meter = GpuMeter(library, "gpu0", "GPU 0, NVIDIA H200")
    for _ in range(3):
        meter.read()
    assert meter.summary(4.0) == {
        "name": "GPU 0, NVIDIA H200",
        "counter": "NVML",
        "joules": 1200.0,
        "mean_watts": 300.0,
        "most_watts": 300.0,
        "sm_clock_mhz": [1080, 1680],
        "most_celsius": 63,
        "throttled": {"software power cap": 0.3333, "software thermal slowdown": 0.3333},
    }
    # An older one has no counter: the power at each look.
    older = GpuMeter(Nvml(counts=False), "gpu0", "GPU 0")
    older.read()
    found = older.summary(4.0)
    assert (found["joules"], found["counter"]) == (1200.0, "NVML, mean of power readings")


def test_a_log(powercap: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner.energy, "INTERVAL_S", 0.02)
    library = Nvml()
    log = EnergyLog(powercap, library)
    (powercap / "intel-rapl:0" / "energy_uj").write_text("4500000\n")
    end = time.monotonic() + 60
    while library.looks <= 2:
        assert time.monotonic() < end
        time.sleep(0.01)
    log.stop()
    log.stop()
    assert library.open == 0 and library.looks > 2
    said = log.write(tmp_path / "energy.json")
    found = json.loads((tmp_path / "energy.json").read_text())
    assert found["note"] == UNOFFICIAL and "not an MLPerf power result" in found["note"]
    assert [s["joules"] for s in found["sources"][:3]] == [3.5, 0.0, 0.0]
    assert "package-0 3.5 J" in said and said.endswith("Unofficial, not an MLPerf power result")
    assert "held down by software power cap" in said


def test_a_run_leaves_it_beside_the_tree(
    powercap: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner.energy, "POWERCAP", powercap)
    notes = []

    class Listener:
        def on_event(self, event: Any) -> None:
            if event.phase == "note":
                notes.append(event.message)

    (outcome,) = assay.run(
        "digits",
        out=tmp_path / "tree",
        scenarios=["SingleStream"],
        system="box",
        backend="dummy",
        min_duration=1,
        energy=True,
        progress=Listener(),
    )
    assert outcome.path is not None
    (note,) = notes  # of the performance run alone
    assert "package-0" in note and "not an MLPerf power result" in note
    place = beside(outcome.path)
    assert place is not None and not place.is_relative_to(tmp_path / "tree")
    found = json.loads((place / "energy.json").read_text())
    assert 0.5 < found["seconds"] < 60 and found["sources"]
    # Nothing of it is in the submission.
    assert not list((tmp_path / "tree").rglob("*energy*"))
    assert not list((tmp_path / "tree").rglob("power"))
