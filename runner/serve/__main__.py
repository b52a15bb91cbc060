"""`python -m runner.serve FD stories`: the server that a measurement starts for itself.

Its URL goes to the file descriptor FD; it ends with its standard input.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading

from runner.serve.command import add_options, run


def _until_eof() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m runner.serve", description=__doc__)
    parser.add_argument("descriptor", type=int, metavar="FD")
    add_options(parser)
    options = parser.parse_args()
    threading.Thread(target=_until_eof, name="parent-watch", daemon=True).start()
    return run(options, lambda text: os.write(options.descriptor, text.encode()), _say)


if __name__ == "__main__":
    sys.exit(main())
