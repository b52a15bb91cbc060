"""Code that a signal interrupts: at each moment at which CPython answers one, in turn."""

from __future__ import annotations

import dis
import gc
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_ANSWERS = frozenset({"CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD", "RESUME"})
"""After these the interpreter runs the handlers of signals, and one that raises raises there."""


class Interrupted(KeyboardInterrupt):
    """As raised by a signal's handler."""


def interruptions(action: Callable[[], Any], limit: int = 20_000) -> Iterator[bool]:
    """Run it again and again, each time interrupted one moment later, until it ends by itself.

    Yields after each run: whether it was interrupted. Further signals are not sent: `assay.signals`
    ignores them while the first one is answered.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    for moment in range(limit):
        interrupted = _run(action, moment)
        still = signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        assert still == blocked, "every process started from now on would ignore signals"
        yield interrupted
        if not interrupted:
            return
    raise AssertionError(f"it has not ended by itself after {limit:,} interruptions")


def _run(action: Callable[[], Any], moment: int) -> bool:
    left = [moment]
    answering: dict[FrameType, bool] = {}

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "exception":
            answering[frame] = False  # what raises goes to its handler at once
        if event != "opcode":
            return trace
        name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        if answering.get(frame):
            if not left[0]:
                sys.settrace(None)
                answering.clear()
                raise Interrupted
            left[0] -= 1
        answering[frame] = name in _ANSWERS
        return trace

    before = sys.gettrace()
    collecting = gc.isenabled()
    gc.disable()  # what is called when it collects, swallows what is raised there
    sys._getframe().f_trace_opcodes = True  # Python 3.12 traces none unless it is asked to by now
    sys.settrace(trace)
    try:
        action()
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
        if collecting:
            gc.enable()
    return False
