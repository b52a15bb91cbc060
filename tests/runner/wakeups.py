"""How late this machine lets a process begin that slept: what no client can be better than.

    python -m tests.runner.wakeups

sleeps 5 ms again and again, and ends with its standard input.  Then it prints how late it
was, in ms: the median, the 99th percentile and the most, which shows a machine that stood still.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

TICK_S = 0.005
PR_SET_TIMERSLACK = 29


class WakeUps:
    """The process beside a measurement; `late` is known when the block ends: (median, p99, most) in ms."""

    late: tuple[float, float, float]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-m", "tests.runner.wakeups"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        return self

    def __exit__(self, *_: object) -> None:
        said = self._process.communicate(timeout=60)[0]
        middle, tail, most = map(float, said.split())
        self.late = middle, tail, most


def _measure() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    late = []
    due = time.perf_counter()
    while not ended.is_set():
        due = max(due + TICK_S, time.perf_counter())
        time.sleep(max(0.0, due - time.perf_counter()))
        late.append(time.perf_counter() - due)
    late.sort()
    middle, tail = (1000 * late[int(share * len(late))] for share in (0.5, 0.99))
    sys.stdout.write(f"{middle} {tail} {1000 * late[-1]}\n")


if __name__ == "__main__":
    _measure()
