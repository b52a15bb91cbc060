"""The arguments of ``assay run`` and ``assay quantize``."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any


def _whole(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def _above_zero(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0 or value == float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def _percent(text: str) -> float:
    try:
        value = float(text.rstrip("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage from 0 to below 100")
    return value


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    words = {"true": True, "false": False}
    if value.lower() in words:
        return name, words[value.lower()]
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        if math.isfinite(number):  # "nan" and "inf" are words like any other
            return name, number
    return name, value


def add_run_options(run: argparse.ArgumentParser) -> None:
    """Everything that ``assay run`` takes."""
    run.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a run file (TOML) with any of the options below; those given here win",
    )
    run.add_argument(
        "--save-config", type=Path, metavar="FILE", help="write the options to a run file as well"
    )
    what = run.add_argument_group("what to measure")
    what.add_argument(
        "--benchmark",
        metavar="B",
        help="default: digits, an embedded one; module:NAME or folder/file.py:NAME for your own",
    )
    what.add_argument(
        "--as",
        dest="task",
        metavar="B",
        help="open division: the round's benchmark that this one is scored as",
    )
    what.add_argument(
        "--scenario",
        action="append",
        metavar="S",
        help="SingleStream, MultiStream, Server, Offline, Interactive (default: all of the benchmark)",
    )
    what.add_argument("--model", type=Path, metavar="FILE", help="ONNX file to use instead")
    what.add_argument(
        "--engine",
        type=Path,
        metavar="PLAN",
        help="with --backend tensorrt: a plan from trtexec --saveEngine in place of one built here",
    )
    what.add_argument(
        "--precision",
        metavar="P",
        help="the benchmark's model: fp32 (default), int8, or fp16 and bf16 with --backend tensorrt; with "
        "--model the type of its weights (default: read from the file)",
    )
    what.add_argument(
        "--data", type=Path, metavar="FOLDER", help="the data set (default: the benchmark's own)"
    )
    tree = run.add_argument_group("the submission tree")
    tree.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="the submission tree, created or added to",
    )
    tree.add_argument(
        "--round",
        metavar="R",
        help="round whose rules and layout apply (default: demo for embedded benchmarks)",
    )
    tree.add_argument("--division", choices=("closed", "open", "network"), help="default: closed")
    tree.add_argument("--submitter", metavar="NAME", help="default: Assay")
    tree.add_argument("--system", metavar="NAME", help="default: made from the processor's name")
    tree.add_argument(
        "--system-type",
        metavar="T",
        help="datacenter, edge or 'datacenter,edge' (default)",
    )
    tree.add_argument(
        "--overwrite",
        action="store_true",
        default=None,
        help="replace older results of the same names",
    )
    tree.add_argument(
        "--resume",
        action="store_true",
        default=None,
        help="keep scenarios that were finished with the same settings; measure the rest",
    )
    load = run.add_argument_group("load and length")
    load.add_argument(
        "--target-qps", type=_above_zero, metavar="X", help="default: estimated by a warm-up"
    )
    load.add_argument(
        "--min-duration", type=_above_zero, metavar="SECONDS", help="default: the round's"
    )
    load.add_argument("--user-conf", type=Path, metavar="FILE", help="a user.conf to start from")
    load.add_argument(
        "--find-qps",
        action="store_true",
        default=None,
        help="search for the highest valid rate: short runs, bisection, one full run to confirm; resumable",
    )
    load.add_argument(
        "--probe-duration",
        type=_above_zero,
        metavar="SECONDS",
        help="minimum duration of the search's short runs (default: 3)",
    )
    load.add_argument(
        "--tolerance",
        type=_percent,
        metavar="PERCENT",
        help="stop once the rate is known to within PERCENT (default: 5)",
    )
    load.add_argument(
        "--margin",
        type=_percent,
        metavar="PERCENT",
        help="how far below the highest valid rate to make the full run (default: 5)",
    )
    load.add_argument(
        "--compliance",
        action="store_true",
        default=None,
        help="also run and verify the compliance tests the round requires",
    )
    load.add_argument(
        "--measure-anyway",
        action="store_true",
        default=None,
        help="measure even when the accuracy target is missed; the result goes to open",
    )
    load.add_argument(
        "--no-early-stop",
        action="store_const",
        const=False,
        dest="early_stop",
        help="finish a run even when it can only become INVALID",
    )
    load.add_argument(
        "--stall-timeout",
        type=_above_zero,
        metavar="S",
        help="end a run after S seconds without progress; loading gets ten times as long "
        "(default: 60)",
    )
    load.add_argument("--dry-run", action="store_true", help="only show what would be done")
    _execution(run.add_argument_group("execution"))
    run.add_argument("--no-progress", action="store_true", help="no progress on standard error")


def _execution(group: Any) -> None:
    group.add_argument(
        "--backend",
        metavar="B",
        help="onnxruntime (default), openai (default of language benchmarks), tensorrt, kserve, dummy, "
        "or module:Class or folder/file.py:Class",
    )
    group.add_argument(
        "--backend-option",
        action="append",
        type=_option,
        metavar="NAME=VALUE",
        help="an option of the backend; may be repeated",
    )
    group.add_argument(
        "--url",
        action="append",
        metavar="URL",
        help="kserve, openai: http://host:port of a server (kserve also grpc://); the load is balanced "
        "over several",
    )
    group.add_argument(
        "--provider",
        action="append",
        metavar="EP",
        help="ONNX Runtime execution provider (cpu, cuda, tensorrt), in order; never replaced "
        "silently",
    )
    group.add_argument("--threads", type=_whole, metavar="N", help="threads per inference")
    group.add_argument(
        "--spinning",
        choices=("on", "off"),
        help="whether ONNX Runtime's idle threads spin; turn off where cores are shared",
    )
    group.add_argument(
        "--graph-optimization",
        choices=("disable", "basic", "extended", "all"),
        help="ONNX Runtime's graph optimization (default: all)",
    )
    group.add_argument(
        "--io-binding", action="store_true", default=None, help="use ONNX Runtime's I/O binding"
    )
    group.add_argument(
        "--workers",
        type=_whole,
        metavar="N",
        help="concurrent inferences in Offline and Server (default: 1; kserve: 8 per URL; openai: "
        "answers in work at once, 256 per URL)",
    )
    group.add_argument("--batch", type=_whole, metavar="N", help="samples per Offline inference")
    group.add_argument(
        "--max-batch", type=_whole, metavar="N", help="most samples per Server inference"
    )
    group.add_argument(
        "--batch-deadline-us",
        type=_above_zero,
        metavar="US",
        help="how long a Server query may wait for others to share its batch (default: 0)",
    )


def add_quantize_options(quantize: argparse.ArgumentParser) -> None:
    """Everything that ``assay quantize`` takes."""
    quantize.add_argument("model", type=Path, metavar="MODEL", help="the FP32 ONNX model")
    quantize.add_argument(
        "--benchmark", required=True, metavar="B", help="the benchmark the model belongs to"
    )
    quantize.add_argument("--out", required=True, type=Path, metavar="FILE")
    quantize.add_argument(
        "--calibration",
        type=_whole,
        metavar="N",
        help="number of calibration samples (default: the whole calibration list)",
    )
    quantize.add_argument(
        "--calibration-list",
        type=Path,
        metavar="FILE",
        help="samples by index or file name, one per line, instead of the benchmark's own list",
    )
    quantize.add_argument(
        "--op-types",
        metavar="T,…",
        help="quantize these operators only, e.g. Conv (default: all that can be)",
    )
    quantize.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="NODE",
        help="do not quantize this node; repeatable, * is a wildcard",
    )
    quantize.add_argument(
        "--method",
        choices=("minmax", "percentile", "entropy"),
        default="minmax",
        help="how activation ranges are taken from the samples (default: minmax)",
    )
    quantize.add_argument(
        "--reduce-range",
        action="store_true",
        help="7-bit weights: the same accuracy on every processor, with or without VNNI",
    )
    quantize.add_argument(
        "--data", type=Path, metavar="FOLDER", help="the data set (default: the benchmark's own)"
    )
    quantize.add_argument(
        "--round",
        metavar="R",
        help="round whose accuracy target applies (default: the newest that has B)",
    )
    quantize.add_argument("--overwrite", action="store_true", help="replace FILE")
    quantize.add_argument(
        "--no-progress", action="store_true", help="no progress on standard error"
    )
