"""The ``assay`` command: reads its arguments and runs the one command that they name.

Exit status: 0 checked and no error; 1 at least one finding of severity error; 2 usage error or
nothing was checked, or the machine failed (disk full, too many open files); 128 + n stopped by
signal n (130: Ctrl-C). Standard output carries the report alone.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from assay.commands import parser_of
from assay.signals import leave, stopping
from assay.status import EXIT_OK, EXIT_USAGE, Usage
from assay.terminal import drop_output, say, secure, write
from schemas.machine import MachineFault

_NO_MEMORY = ("failed to map segment", "annot allocate memory")
"""How the loader of libraries says it, of a native module that is imported late."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status; never raises for what a user or a tree did."""
    secure()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        # Answered before anything else is built: scripts ask for it often.
        import assay

        try:
            write(f"assay {assay.__version__}\n")
        except OSError:  # closed, or a full device
            drop_output()
            return EXIT_USAGE
        return EXIT_OK
    if sys.flags.optimize > 1:
        # The docstrings are gone with it, and the rules' texts are docstrings.
        say("assay: found Python without docstrings (-OO); expected it with: unset PYTHONOPTIMIZE")
        return EXIT_USAGE
    parser = parser_of(arguments[0] if arguments else None)
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:
        return int(stop.code or 0) if isinstance(stop.code, int | None) else EXIT_USAGE
    if options.command is None:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    handler: Callable[[argparse.Namespace], int] = options.handler
    try:
        with stopping():
            return handler(options)
    except (Usage, MachineFault) as error:
        say(f"assay: {error}{_nowhere()}")
        return EXIT_USAGE
    except BrokenPipeError:
        # The reader went away (head, less): not an error of ours, and nothing more to say.
        drop_output()
        return EXIT_OK
    except KeyboardInterrupt as stop:
        # Stopped, and the runner's Interrupted, carry the signal's number.
        number = getattr(stop, "number", signal.SIGINT)
        say(f"assay: stopped by {signal.Signals(number).name}")
        return leave(128 + number)
    except MemoryError:
        say("assay: not enough memory; try --jobs 1")
        return EXIT_USAGE
    except ImportError as error:
        if not any(text in str(error) for text in _NO_MEMORY):
            raise
        say("assay: not enough memory; try --jobs 1")
        return EXIT_USAGE
    except OSError as error:
        # A full device, most of the time: not the submission's fault, so never status 1.
        drop_output()
        where = f"{error.filename}: " if error.filename else ""
        say(f"assay: {where}{error.strerror or error}{_nowhere()}")
        return EXIT_USAGE


def _nowhere() -> str:
    """What to add to a message where the current folder was deleted: no relative path exists then."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return ". The current folder was deleted: change to another and try again."
    except OSError:
        pass
    return ""
