"""How much of a run's time other processes took from it, as Linux counts it."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path


class Disturbance:
    """From here on, how long a thread of this process waited for processors that others had.

    Threads of this process also wait for one another; so no more is counted than what other
    processes, or the host of a virtual machine, took in the same time.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._waited, self._others = _waited_s(), _others_s()

    def share(self) -> float:
        """Of the time since the beginning, for the thread that waited most; 0 where the kernel does
        not say."""
        passed = time.monotonic() - self._began
        waited = max(
            (s - self._waited.get(task, 0.0) for task, s in _waited_s().items()), default=0
        )
        taken = min(waited, _others_s() - self._others)
        return min(1.0, max(0.0, taken / passed)) if passed > 0 else 0.0


def _waited_s() -> dict[str, float]:
    """Time that each thread was ready and had no processor."""
    found = {}
    tasks = Path("/proc/self/task")
    for task in tasks.iterdir() if tasks.is_dir() else ():
        with contextlib.suppress(OSError, ValueError, IndexError):
            found[task.name] = int((task / "schedstat").read_text().split()[1]) / 1e9
    return found


def _others_s() -> float:
    """Processor time that other processes used, and that the host did not give."""
    try:
        user, nice, system, _, _, interrupts, soft, *steal = map(
            int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        )
    except (OSError, ValueError):
        return 0.0
    busy = user + nice + system + interrupts + soft + sum(steal)
    own = os.times()
    return busy / os.sysconf("SC_CLK_TCK") - own.user - own.system
