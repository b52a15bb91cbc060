"""``assay quantize``: a static INT8 model, scored beside its FP32 model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from assay.arguments import add_no_progress, positive
from assay.progress import Line
from assay.status import EXIT_ERRORS, EXIT_OK, Usage
from assay.terminal import write


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "quantize",
        allow_abbrev=False,
        help="make a static INT8 model with a benchmark's calibration samples, and score both",
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="the FP32 ONNX model")
    parser.add_argument(
        "--benchmark", required=True, metavar="B", help="the benchmark the model belongs to"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="FILE")
    parser.add_argument(
        "--calibration",
        type=positive,
        metavar="N",
        help="number of calibration samples (default: the whole calibration list)",
    )
    parser.add_argument(
        "--calibration-list",
        type=Path,
        metavar="FILE",
        help="samples by index or file name, one per line, instead of the benchmark's own list",
    )
    parser.add_argument(
        "--op-types",
        metavar="T,…",
        help="quantize these operators only, e.g. Conv (default: all that can be)",
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="NODE",
        help="do not quantize this node; repeatable, * is a wildcard",
    )
    parser.add_argument(
        "--method",
        choices=("minmax", "percentile", "entropy"),
        default="minmax",
        help="how activation ranges are taken from the samples (default: minmax)",
    )
    parser.add_argument(
        "--reduce-range",
        action="store_true",
        help="7-bit weights: the same accuracy on every processor, with or without VNNI",
    )
    parser.add_argument(
        "--activations",
        choices=("int8", "uint8"),
        default="int8",
        help="int8 (default), which TensorRT needs, or uint8, which ONNX Runtime runs faster on x86 processors",
    )
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="the data set (default: the benchmark's own)"
    )
    parser.add_argument(
        "--round",
        metavar="R",
        help="round whose accuracy target applies (default: the newest that has B)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE")
    add_no_progress(parser)
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Run ``assay quantize``: 0 the gate is met, 1 it is missed, 2 it cannot be done."""
    from runner import RunnerError
    from runner.plan import rules_of
    from runner.quantize import quantize as make

    line = Line(enabled=not options.no_progress)
    try:
        round, benchmark = rules_of(options.benchmark, options.round)
        gate = benchmark.accuracy[0].bound if benchmark is not None and benchmark.accuracy else None
        made = make(
            options.model,
            options.benchmark,
            options.out,
            calibration=options.calibration,
            calibration_list=options.calibration_list,
            op_types=tuple(t.strip() for t in (options.op_types or "").split(",") if t.strip()),
            exclude=tuple(options.exclude),
            method=options.method,
            reduce_range=options.reduce_range,
            activations=options.activations,
            data=options.data,
            overwrite=options.overwrite,
            say=lambda text: line.show(text, force=True),
        )
    except RunnerError as error:
        raise Usage(str(error)) from error
    finally:
        line.clear()
    write(made.text(gate, round.name if gate is not None else None))
    return EXIT_OK if gate is None or made.after.value >= gate else EXIT_ERRORS
