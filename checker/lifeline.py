"""A process that must not outlive the one that started it."""

from __future__ import annotations

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def ends_with(parent: int) -> bool:
    """Have the kernel kill this process when ``parent``, which started it, ends.

    False where the kernel cannot. Where the parent has ended already, so does this process.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        return False
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)
    return True
