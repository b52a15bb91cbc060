"""``assay doctor``: what this machine can measure."""

from __future__ import annotations

import argparse
from typing import Any

from assay.status import EXIT_OK, EXIT_USAGE
from assay.terminal import write


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "doctor",
        allow_abbrev=False,
        help="what this machine has for measuring, and which benchmarks could run on it",
    )
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")
    parser.add_argument(
        "--backend",
        choices=("onnxruntime", "tensorrt", "openai"),
        default="onnxruntime",
        help="exit status 2 if nothing can be measured with this one (default: onnxruntime)",
    )
    parser.add_argument(
        "--gpu",
        action="store_true",
        help="only the GPUs, with 5 seconds of copies and a matrix product; exit status 2 if "
        "something is missing, with the line that installs it",
    )
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Exit status: 0 if it can measure, 2 if not."""
    import json

    from runner.doctor import examine, examine_gpu

    found = examine_gpu() if options.gpu else examine()
    if options.format == "json":
        write(json.dumps(found.as_dict(), indent=2) + "\n")
    else:
        write(found.text())
    good = found.complete() if options.gpu else found.usable(options.backend)
    return EXIT_OK if good else EXIT_USAGE
