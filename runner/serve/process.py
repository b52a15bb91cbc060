"""The embedded server as a process of its own, for as long as a run needs it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from runner.errors import BackendError

STOP_S = 5.0


class Served:
    """Starts the server on a free loopback port.

    It ends when its standard input does, so that it does not outlive this process however that ends.

    Attributes:
        url: where it answers.

    Raises:
        BackendError: it did not start.
    """

    def __init__(self, name: str, model: Path | None) -> None:
        read, write = os.pipe()
        options = ["--port", "0", *(["--model", str(model)] if model is not None else [])]
        with os.fdopen(read, encoding="utf-8") as answer:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "runner.serve", str(write), name, *options],
                    stdin=subprocess.PIPE,
                    pass_fds=(write,),
                )
            finally:
                os.close(write)
            self.url = answer.readline().strip()
        if not self.url.startswith("http"):
            code = self._process.wait()
            raise BackendError(
                f"the embedded server {name} did not start: found exit status {code}; its last words "
                "are in the output of this process."
            )

    def stop(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
