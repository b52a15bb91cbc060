"""What the machine did to a run, from counters as Linux has them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from runner import conditions
from runner.conditions import Conditions
from tests.runner.test_run import job


class Machine:
    """The files of a machine of two processors in one package."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
        monkeypatch.setattr(os, "cpu_count", lambda: 2)
        monkeypatch.setattr(conditions, "CLOCKS_EVERY_S", 0.0)
        now = [100.0]
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        self.now = now

    def write(self, name: str, text: object) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def cpu(self, number: int, name: str, value: object) -> None:
        self.write(f"sys/devices/system/cpu/cpu{number}/{name}", value)

    def steal(self, seconds: float) -> None:
        ticks = round(seconds * os.sysconf("SC_CLK_TCK"))
        self.write("proc/stat", f"cpu  1 2 3 4 5 6 7 {ticks} 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_a_disturbed_run_says_by_what(machine: Machine) -> None:
    machine.steal(50)
    machine.write("proc/self/cgroup", "0::/slurm/job")
    quota = "nr_periods 10\nnr_throttled 2\nthrottled_usec {}"
    machine.write("sys/fs/cgroup/slurm/job/cpu.stat", quota.format(1_000_000))
    for number in (0, 1):
        machine.cpu(number, "topology/core_id", number)
        machine.cpu(number, "topology/physical_package_id", 0)
        machine.cpu(number, "thermal_throttle/core_throttle_count", 3)
        machine.cpu(number, "thermal_throttle/package_throttle_count", 7)
        machine.cpu(number, "cpufreq/cpuinfo_max_freq", 3_800_000)
        machine.cpu(number, "cpufreq/scaling_governor", ("powersave", "performance")[number])
    began = Conditions(machine.root)
    for clock in (3_500_000, 1_200_000):
        machine.cpu(0, "cpufreq/scaling_cur_freq", clock)
        began.look()
    machine.now[0] = 110.0
    machine.steal(52)
    machine.write("sys/fs/cgroup/slurm/job/cpu.stat", quota.format(3_500_000))
    machine.cpu(1, "thermal_throttle/core_throttle_count", 5)
    for number in (0, 1):
        machine.cpu(number, "thermal_throttle/package_throttle_count", 8)
    rows, said = began.found()
    assert rows == {
        "Processor time taken by the host (steal)": "10.00%",  # 2 of 20 s
        "Held back by the cgroup's processor quota": "2.50 s",
        "Thermal throttling of the processors": "3 events",  # the package's counts once
        "Processor clocks": "1.20 to 3.50 GHz as seen, at most 3.80 GHz",
        "Frequency governor": "performance, powersave",
    }
    assert [text.split(" ")[:4] for text in said] == [
        ["the", "host", "of", "this"],
        ["the", "cgroup's", "processor", "quota"],
        ["processors", "throttled", "their", "clocks"],
    ]


def test_what_is_little_is_recorded_and_not_said(machine: Machine) -> None:
    machine.steal(1)
    machine.write("proc/self/cgroup", "3:cpuset:/\n1:cpu,cpuacct:/docker/x")
    quota = "nr_periods 10\nthrottled_time {}"
    machine.write("sys/fs/cgroup/cpu/cpu.stat", quota.format(0))
    machine.cpu(0, "thermal_throttle/core_throttle_count", 3)
    began = Conditions(machine.root)
    machine.now[0] = 200.0
    machine.steal(1.5)
    machine.write("sys/fs/cgroup/cpu/cpu.stat", quota.format(500_000_000))
    rows, said = began.found()
    assert list(rows.values()) == ["0.25%", "0.50 s", "0 events"] and said == []


@pytest.mark.parametrize("text", ["", "cpu", "cpu a b", "\xff", "cpu  1 2 3 4 5 6 7 -8"])
def test_a_kernel_that_says_nothing_is_asked_nothing(machine: Machine, text: str) -> None:
    machine.write("proc/stat", text)
    machine.cpu(0, "thermal_throttle/core_throttle_count", "?")
    began = Conditions(machine.root)
    began.look()
    assert began.found() == ({}, [])


def test_a_real_run_records_them(tmp_path: Path) -> None:
    from runner import measure

    run = measure(job("SingleStream"), tmp_path / "run")
    if Path("/proc/stat").is_file():
        assert run.conditions["Processor time taken by the host (steal)"].endswith("%")
