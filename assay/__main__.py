"""``assay`` and ``python -m assay``."""

import signal
import sys


def main() -> int:
    """The command, with Ctrl-C as in a program without Python until `assay.signals` answers it.

    An exception in the middle of the import of a native module is lost, and the module broken. Up
    to there nothing has been made that would be left behind.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from assay.cli import main as command

    return command()


if __name__ == "__main__":
    sys.exit(main())
