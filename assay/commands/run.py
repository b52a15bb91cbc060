"""``assay run``: measures a benchmark and writes a submission tree."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.arguments import above_zero, add_no_progress, percent, positive
from assay.measure import Listener, measured
from assay.status import EXIT_ERRORS, EXIT_OK, Usage
from assay.terminal import say

if TYPE_CHECKING:
    from runner import Plan
    from schemas.run_file import RunFile


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "run",
        allow_abbrev=False,
        help="measure a benchmark under the official LoadGen and write a submission tree",
    )
    add_run_options(parser)
    parser.set_defaults(handler=run)


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
    add_what(run.add_argument_group("what to measure"))
    add_tree(run.add_argument_group("the submission tree"))
    _load(run.add_argument_group("load and length"))
    add_execution(run.add_argument_group("execution"))
    add_no_progress(run)


def add_what(what: Any) -> None:
    """The benchmark, its model and data."""
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


def add_tree(tree: Any) -> None:
    """The submission tree and the names in it."""
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


def _load(load: Any) -> None:
    load.add_argument(
        "--target-qps", type=above_zero, metavar="X", help="default: estimated by a warm-up"
    )
    load.add_argument(
        "--min-duration", type=above_zero, metavar="SECONDS", help="default: the round's"
    )
    load.add_argument(
        "--warm-up",
        type=above_zero,
        metavar="SECONDS",
        help="warm up for so long before LoadGen begins (default: 0.3)",
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
        type=above_zero,
        metavar="SECONDS",
        help="minimum duration of the search's short runs (default: 3)",
    )
    load.add_argument(
        "--tolerance",
        type=percent,
        metavar="PERCENT",
        help="stop once the rate is known to within PERCENT (default: 5)",
    )
    load.add_argument(
        "--margin",
        type=percent,
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
        "--grader",
        metavar="COMMAND",
        help="runs the code in answers of deepseek-r1 and gpt-oss-120b against its tests; without it "
        "those answers count as wrong (see docs/measuring-llms.md)",
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
        type=above_zero,
        metavar="S",
        help="end a run after S seconds without progress; loading gets ten times as long "
        "(default: 60)",
    )
    load.add_argument(
        "--energy",
        action="store_true",
        default=None,
        help="note what RAPL and NVML count during the performance run in TREE.traces; unofficial, never a "
        "power result",
    )
    load.add_argument("--dry-run", action="store_true", help="only show what would be done")


def add_execution(group: Any) -> None:
    """What executes the model, and how."""
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
    group.add_argument(
        "--provider-option",
        action="append",
        type=_provider_option,
        metavar="[EP.]NAME=VALUE",
        help="an option of a provider, of the first where none is named: device_id=1, "
        "tensorrt.trt_fp16_enable=1; repeatable",
    )
    group.add_argument(
        "--session-config",
        action="append",
        type=_entry,
        metavar="NAME=VALUE",
        help="a session config entry of ONNX Runtime; repeatable",
    )
    group.add_argument(
        "--devices",
        action="append",
        type=_devices,
        metavar="N,…",
        help="run on several devices at once: an ONNX Runtime session on each, a worker for each",
    )
    group.add_argument(
        "--cpus",
        metavar="LIST",
        help="bind the run to these processors: 0-7,16 or NUMA nodes: node0",
    )
    group.add_argument("--threads", type=positive, metavar="N", help="threads per inference")
    group.add_argument(
        "--inter-op-threads",
        type=positive,
        metavar="N",
        help="ONNX Runtime's threads for independent branches of the graph (default: 1)",
    )
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
        "--io-binding",
        action="store_true",
        default=None,
        help="use ONNX Runtime's I/O binding, in device memory where the provider has some",
    )
    group.add_argument(
        "--profile",
        action="store_true",
        default=None,
        help="write ONNX Runtime's profile of the performance run to TREE.traces (it slows the run)",
    )
    group.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="concurrent inferences in Offline and Server (default: 1; kserve: 8 per URL; openai: "
        "answers in work at once, 256 per URL)",
    )
    group.add_argument("--batch", type=positive, metavar="N", help="samples per Offline inference")
    group.add_argument(
        "--max-batch", type=positive, metavar="N", help="most samples per Server inference"
    )
    group.add_argument(
        "--batch-deadline-us",
        type=above_zero,
        metavar="US",
        help="how long a Server query may wait for others to share its batch (default: 0)",
    )


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


def _entry(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def _provider_option(text: str) -> tuple[str, str, str]:
    place, value = _entry(text)
    provider, _, name = place.rpartition(".")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form [EP.]NAME=VALUE")
    return provider, name, value


def _devices(text: str) -> list[int]:
    numbers = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of device numbers such as 0,1")
    return [int(part) for part in numbers]


def run(options: argparse.Namespace) -> int:
    """Run ``assay run``: 0 every scenario valid, 1 some not, 2 cannot be done, 130 interrupted."""
    from runner import RunnerError, cautions, foresee

    plan = plan_of(options, sys.argv[1:] if sys.argv[1:2] == ["run"] else None)
    try:
        say(f"{plan.benchmark} by the rules of round {plan.rules.round}: {foresee(plan)}")
    except RunnerError as error:
        raise Usage(str(error)) from error
    for warning in cautions(plan):
        say(f"note: {warning}")
    if options.save_config is not None:
        save(settings_of(options), options.save_config)
    if options.dry_run:
        return EXIT_OK
    outcomes = measured(plan, Listener(enabled=not options.no_progress))
    if any(o.path is not None and o.path.is_relative_to(plan.tree.out) for o in outcomes):
        say(
            f"written to {plan.tree.out}; check it with: assay check {plan.tree.out} "
            f"--round {plan.rules.round}"
        )
    return EXIT_OK if all(o.status == "valid" for o in outcomes) else EXIT_ERRORS


# An option of the command to the setting of a run file, where the names differ.
_SETTINGS = {
    "scenario": "scenarios", "task": "scored_as", "url": "urls", "provider": "providers",
    "backend_option": "backend_options", "provider_option": "provider_options",
}  # fmt: skip
_NOT_SETTINGS = frozenset(
    ("command", "handler", "version", "config", "save_config", "dry_run", "no_progress")
)


def settings_of(options: argparse.Namespace, *besides: str) -> RunFile:
    """The run file that the command line means: what `--config` says, changed by its options.

    Args:
        besides: options that are no settings of a run.

    Raises:
        Usage: an option or the file cannot be.
    """
    from runner import SettingsError
    from runner.plan import read_run_file

    given = {
        _SETTINGS.get(name, name): value
        for name, value in vars(options).items()
        if value is not None and name not in _NOT_SETTINGS and name not in besides
    }
    if "scenarios" in given:
        names = [name.strip() for text in given["scenarios"] for name in text.split(",")]
        given["scenarios"] = _scenarios(names)
    if "backend_options" in given:
        given["backend_options"] = dict(given["backend_options"])
    if "session_config" in given:
        given["session_config"] = dict(given["session_config"])
    if "devices" in given:
        given["devices"] = [number for numbers in given["devices"] for number in numbers]
    if "spinning" in given:
        given["spinning"] = given["spinning"] == "on"
    try:
        if "provider_options" in given:
            given["provider_options"] = _by_provider(given, options.config)
        return read_run_file(options.config, **given)
    except SettingsError as error:
        raise Usage(str(error)) from error


def _by_provider(given: dict[str, Any], config: Path | None) -> dict[str, dict[str, str]]:
    """The options of each provider; one without a provider belongs to the first."""
    from runner.plan import read_run_file

    providers = given.get("providers") or read_run_file(config).execution.providers or ["cpu"]
    found: dict[str, dict[str, str]] = {}
    for provider, name, value in given["provider_options"]:
        found.setdefault(provider or providers[0], {})[name] = value
    return found


def _scenarios(names: list[str]) -> list[str]:
    """As they are spelled in a run file."""
    from runner.settings import RESULTS

    by_low = {s.lower(): s for s in RESULTS}
    for name in names:
        if name.lower() not in by_low:
            raise Usage(f"unknown scenario {name!r}; the scenarios are {', '.join(RESULTS)}")
    return list(dict.fromkeys(by_low[name.lower()] for name in names))


def plan_of(options: argparse.Namespace, arguments: list[str] | None = None) -> Plan:
    """The measurement that the command line asks for, by its round's rules.

    Raises:
        Usage: it cannot be made.
    """
    from runner import RunnerError
    from runner.plan import plan_of as made

    try:
        plan = made(settings_of(options))
    except RunnerError as error:
        raise Usage(str(error)) from error
    return replace(plan, command=shlex.join(["assay", *arguments]) if arguments else "")


def save(run_file: RunFile, path: Path) -> None:
    """Write the run file, its paths as they are from its folder."""
    from runner.plan import relative_to
    from schemas.run_file import write
    from schemas.writing import write_file

    text = write(relative_to(run_file, path.parent))
    try:
        write_file(path, f"# assay run --config {path.name}\n{text}".encode())
    except OSError as error:
        raise Usage(f"--save-config {path} cannot be written: {error.strerror}") from error
