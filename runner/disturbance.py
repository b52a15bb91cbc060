"""How much of a run's time other processes took from it, or the host of a virtual machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

WAKING_S = 100e-6  # that a sleeping thread may take to start, also on a quiet machine


class Disturbance:
    """From here on, how long a thread of this process waited for processors that others had.

    Threads of this process also wait for one another; so no more is counted than what other
    processes, or the host of a virtual machine, took in the same time, and nothing of the first
    100 us of each wait.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._waited, self._others, self._stolen = _waited_s(), _others_s(), _stolen_s()

    def share(self) -> float:
        """Of the time since the beginning, for the thread that waited most; 0 where the kernel does
        not say."""
        passed = time.monotonic() - self._began
        waited = 0.0
        for task, (seconds, turns) in _waited_s().items():
            before, then = self._waited.get(task, (0.0, 0))
            waited = max(waited, seconds - before - (turns - then) * WAKING_S)
        taken = max(
            min(waited, _others_s() - self._others),
            (_stolen_s() - self._stolen) / (os.cpu_count() or 1),
        )
        return min(1.0, max(0.0, taken / passed)) if passed > 0 else 0.0


def _waited_s() -> dict[str, tuple[float, int]]:
    """Time that each thread was ready and had no processor, and how often it then got one."""
    found = {}
    tasks = Path("/proc/self/task")
    for task in tasks.iterdir() if tasks.is_dir() else ():
        with contextlib.suppress(OSError, ValueError, IndexError):
            _, nanoseconds, turns = map(int, (task / "schedstat").read_text().split())
            found[task.name] = nanoseconds / 1e9, turns
    return found


def _others_s() -> float:
    """Processor time that other processes used, and that the host did not give."""
    user, nice, system, _, _, interrupts, soft, steal = _processors_s()
    own = os.times()
    return user + nice + system + interrupts + soft + steal - own.user - own.system


def _stolen_s() -> float:
    """Time that the host gave to others while a processor of this machine had work."""
    return _processors_s()[7]


def _processors_s() -> list[float]:
    """What /proc/stat counts of all processors: user, nice, system, idle, waiting for disks,
    interrupts, soft interrupts, steal; zeros where the kernel does not say."""
    try:
        ticks = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        seconds = [int(n) / os.sysconf("SC_CLK_TCK") for n in ticks]
    except (OSError, ValueError):
        seconds = []
    return [*seconds, *[0.0] * (8 - len(seconds))]


_TICKS = """
import sys, threading, time
TICK, LATE = 0.01, 0.005
stop, again = threading.Event(), threading.Event()
def listen():
    for _ in sys.stdin:
        again.set()
    stop.set()
threading.Thread(target=listen, daemon=True).start()
began = last = time.monotonic()
lost = 0.0
while not stop.is_set():
    time.sleep(TICK)
    now = time.monotonic()
    if again.is_set():
        again.clear()
        began = last = now
        lost = 0.0
    late, last = now - last - TICK, now
    if late > LATE:
        lost += late
print(lost / (last - began) if last > began else 0.0)
"""


class Ticks:
    """A second process that sleeps 10 ms again and again, and sees how much too late it wakes.

    It notices what no counter of the kernel holds: a host that stops the whole machine, a limit on
    the container's processor time.  It costs a hundred wake-ups a second, so it accompanies the
    short runs of a search, never a run that is submitted.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Ticks:
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _TICKS],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def reset(self) -> None:
        """Count from here on."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(b"\n")
                self._process.stdin.flush()

    def share(self) -> float:
        """Of the time since then, what was lost in wake-ups more than 5 ms late; ends it."""
        process, self._process = self._process, None
        if process is None:
            return 0.0
        try:
            said = process.communicate(b"", timeout=10)[0]
            return min(1.0, max(0.0, float(said)))
        except (OSError, ValueError, subprocess.TimeoutExpired):
            process.kill()
            process.communicate()
            return 0.0
