"""Progress on standard error: one line that is rewritten in a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO


class Line:
    """A line of progress. Does nothing when the stream is not a terminal or ``enabled`` is False."""

    def __init__(self, *, enabled: bool = True, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.enabled = enabled and self.stream.isatty()
        self._last = 0.0
        self._shown = False

    def show(self, text: str, *, force: bool = False) -> None:
        """Rewrite the line, at most ten times a second."""
        now = time.monotonic()
        if not self.enabled or (not force and now - self._last < 0.1):
            return
        self._last = now
        width = _width()
        self.stream.write("\r" + text[:width].ljust(width))
        self.stream.flush()
        self._shown = True

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            width = _width()
            self.stream.write("\r" + " " * width + "\r")
            self.stream.flush()
            self._shown = False


def _width() -> int:
    import shutil  # takes longer to import than many a command runs, and few write to a terminal

    return max(20, shutil.get_terminal_size().columns - 1)


def bytes_read(line: Line, what: str) -> Callable[[int, int], None]:
    """A callback for (bytes done, bytes in all) that shows them on ``line``."""

    def progress(done: int, total: int) -> None:
        share = f" {100 * done // total}%" if total else ""
        line.show(f"{what}{share} ({done / 1e6:.0f} MB)")

    return progress
