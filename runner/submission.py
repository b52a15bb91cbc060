"""The submission tree, in the layout of round v6.1.

<tree>/<division>/<submitter>/
    systems/<system>.json
    results/<system>/<benchmark>/<Scenario>/
        performance/run_1/   mlperf_log_summary.txt  mlperf_log_detail.txt
        accuracy/            the same two, mlperf_log_accuracy.json  accuracy.txt
        measurements.json  user.conf  README.md
    src/<benchmark>/README.md
    documentation/calibration.md  bandwidth.md
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from runner import logs
from runner.benchmarks.base import Benchmark, Score
from runner.errors import OutputError, SettingsError
from runner.run import Measurement

LIMIT = 10_240  # bytes of accuracy log that a submission may hold
KEPT = 4_096  # bytes kept of each end of a longer one
GAP = b"\n\n...\n\n"
DIVISIONS = ("closed", "open")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@=-]*\Z")


def check_name(name: str, what: str) -> str:
    """A folder name that every file system and checker takes.

    Raises:
        SettingsError: empty, with blanks or separators, or beginning with a dot or dash.
    """
    if not _NAME.match(name):
        raise SettingsError(
            f"found {what} {name!r}; asked for letters, digits and _ . + @ = -, beginning with a "
            "letter, digit or _."
        )
    return name


def home(tree: Path, division: str, submitter: str) -> Path:
    """The submitter's folder in a tree.

    Raises:
        SettingsError: no such division, or a name that is no folder name.
    """
    if division not in DIVISIONS:
        raise SettingsError(f"found division {division!r}; asked for {' or '.join(DIVISIONS)}.")
    return tree / division / check_name(submitter, "submitter")


def write_system(folder: Path, system: str, description: Mapping[str, str]) -> Path:
    """Write `systems/<system>.json` below a submitter's folder; returns its path."""
    path = folder / "systems" / f"{check_name(system, 'system')}.json"
    _write(path, json.dumps(dict(description), indent=2) + "\n")
    return path


def truncate_accuracy_log(folder: Path) -> str:
    """Shorten `mlperf_log_accuracy.json` as a submission wants it; sign it in `accuracy.txt`.

    A log above 10 KiB keeps its first and last 4096 bytes.  The hash is that of the whole file,
    so this must happen once: a folder whose accuracy.txt has a hash already is left alone.

    Args:
        folder: an accuracy run's folder with both files.

    Returns:
        The SHA-256 of the whole log, in hex.

    Raises:
        OutputError: a file is absent or cannot be written.
    """
    log, text = folder / logs.ACCURACY, folder / "accuracy.txt"
    try:
        signed = re.search(r"^hash=([0-9a-f]{64})$", text.read_text("utf-8"), re.MULTILINE)
        if signed:
            return signed[1]
        digest = hashlib.sha256()
        with log.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
            size = stream.tell()
            stream.seek(0)
            head = stream.read(KEPT)
            stream.seek(max(0, size - KEPT))
            tail = stream.read()
        # Signed before it is cut: whatever happens in between, the hash is not lost.
        with text.open("a", encoding="utf-8") as lines:
            lines.write(f"hash={digest.hexdigest()}\n")
        if size > LIMIT:
            shorter = log.with_name(log.name + ".shorter")
            shorter.write_bytes(head + GAP + tail)
            shorter.replace(log)
    except OSError as error:
        raise OutputError(
            f"{folder}: the accuracy log cannot be shortened ({error}); asked for {log.name} and "
            "accuracy.txt, both writable."
        ) from error
    return digest.hexdigest()


def write_result(
    folder: Path,
    system: str,
    benchmark: Benchmark,
    accuracy: Measurement,
    performance: Measurement,
    score: Score,
    *,
    precision: str,
    notes: tuple[str, ...] = (),
    overwrite: bool = False,
) -> Path:
    """Put a finished accuracy and performance run into a submitter's folder.

    The result is put together beside the logs and appears in the tree in one step.  The runs'
    own folders are used up.

    Args:
        folder: see `home`.
        precision: weight data type of the model that ran ("fp32", "int8").
        notes: what must be disclosed about the result.
        overwrite: replace an older result of the same name.

    Returns:
        The result's folder.

    Raises:
        OutputError: a result lies there already, or the tree cannot be written.
    """
    scenario = performance.job.settings.scenario
    target = result_folder(folder, system, benchmark, scenario)
    parcel = performance.folder.with_name("result")
    try:
        run = parcel / "performance" / "run_1"
        run.mkdir(parents=True)
        for name in (logs.SUMMARY, logs.DETAIL):
            (performance.folder / name).replace(run / name)
        checked = parcel / "accuracy"
        checked.mkdir()
        for name in (logs.SUMMARY, logs.DETAIL, logs.ACCURACY):
            (accuracy.folder / name).replace(checked / name)
        _write(checked / "accuracy.txt", score.line + "\n")
        truncate_accuracy_log(checked)
        _write(parcel / "user.conf", performance.user_conf)
        _write(
            parcel / "measurements.json",
            json.dumps(_measurements(benchmark, performance, precision), indent=2) + "\n",
        )
        _write(
            parcel / "README.md",
            _result_readme(benchmark, performance, score, precision, notes),
        )
        _write(folder / "src" / benchmark.name / "README.md", _code_readme(benchmark))
        _write(folder / "documentation" / "calibration.md", _calibration(benchmark))
        _write(folder / "documentation" / "bandwidth.md", _bandwidth(benchmark))
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            if not overwrite:
                raise OutputError(_occupied(target))
            target.replace(parcel.with_name("replaced"))
        parcel.replace(target)
        for used in (accuracy.folder, performance.folder, parcel.with_name("replaced")):
            shutil.rmtree(used, ignore_errors=True)
    except OSError as error:
        raise OutputError(
            f"{target}: the result cannot be written ({error}); its logs are in "
            f"{performance.folder.parent}. Free space or mend permissions and run again."
        ) from error
    return target


def result_folder(folder: Path, system: str, benchmark: Benchmark, scenario: str) -> Path:
    """Where a result lies below a submitter's folder."""
    return folder / "results" / check_name(system, "system") / benchmark.name / scenario


def refuse_occupied(target: Path) -> None:
    """Raises OutputError where a result lies already: better before the run than after."""
    if target.exists():
        raise OutputError(_occupied(target))


def _occupied(target: Path) -> str:
    return (
        f"{target}: found a result there already; asked for a free place. Choose another folder "
        "or system name, or allow overwriting."
    )


def _write(path: Path, text: str) -> None:
    """Write a whole file or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def _measurements(benchmark: Benchmark, performance: Measurement, precision: str) -> dict[str, str]:
    model = Path(performance.job.model).name if performance.job.model else "none (dummy backend)"
    converted = precision != "fp32"
    return {
        "starting_weights_filename": benchmark.weights,
        "retraining": "no",
        "input_data_types": ", ".join(sorted({_short(t.dtype) for t in benchmark.inputs})),
        "weight_data_types": precision,
        "weight_transformations": (
            f"quantised to {precision} ({model}), see documentation/calibration.md"
            if converted
            else f"none ({model} as trained)"
        ),
    }


def _short(dtype: str) -> str:
    return {"float32": "fp32", "float16": "fp16"}.get(dtype, dtype)


def _result_readme(
    benchmark: Benchmark,
    performance: Measurement,
    score: Score,
    precision: str,
    notes: tuple[str, ...],
) -> str:
    settings, job = performance.job.settings, performance.job
    lines = [
        f"# {benchmark.name}, {settings.scenario}",
        "",
        f"{benchmark.title[0].upper()}{benchmark.title[1:]}. Measured with Assay under the "
        f"official LoadGen {performance.detail.get('loadgen_version', '')}.",
        "",
        "| | |",
        "|---|---|",
        f"| Result | {performance.metric or 0:.6g} {performance.unit} |",
        f"| LoadGen's verdict | {performance.detail.get('result_validity')} |",
        f"| Accuracy | {score.metric} = {score.value:.6g} |",
        f"| Executed by | {performance.framework} |",
        f"| Model | {Path(job.model).name if job.model else 'none'}, {precision} |",
        f"| Samples in one inference | {_batching(job.batch_size, settings.scenario)} |",
        f"| Data | {benchmark.data} |",
        f"| LoadGen ran for | {performance.seconds:.1f} s |",
        "",
        "`user.conf` is the file that was run; what nobody chose was measured in a warm-up.",
        "The accuracy run was made before the performance run, with the same model and settings.",
    ]
    told = (*notes, *performance.warnings, *performance.reasons)
    if told:
        lines += ["", "To be known about this result:", ""]
        lines += [f"- {note}" for note in told]
    lines += [
        "",
        "To repeat it:",
        "",
        f"    assay run {benchmark.name} --scenario {settings.scenario}",
        "",
    ]
    return "\n".join(lines)


def _batching(batch_size: int | None, scenario: str) -> str:
    if scenario == "SingleStream":
        return "1"
    if scenario == "MultiStream":
        return "8"
    return f"at most {batch_size}" if scenario == "Server" else f"{batch_size}"


def _code_readme(benchmark: Benchmark) -> str:
    return (
        f"# {benchmark.name}: code\n\n"
        f"{benchmark.title[0].upper()}{benchmark.title[1:]}.\n\n"
        "The measurement is made by Assay's reference runner: `runner/benchmarks/"
        f"{benchmark.name}.py` holds the model's signature, preprocessing, encoding and metric, "
        "`runner/sut.py` the system under test, `runner/settings.py` LoadGen's settings. "
        "LoadGen is the official one, unaltered, from the package mlcommons-loadgen.\n\n"
        f"- Weights: {benchmark.weights}\n- Data: {benchmark.data}\n"
    )


def _calibration(benchmark: Benchmark) -> str:
    return (
        "# Calibration and quantisation\n\n"
        "FP32 results use the weights as trained; nothing was calibrated for them.\n\n"
        f"{benchmark.name}: {benchmark.quantization}.\n"
    )


def _bandwidth(benchmark: Benchmark) -> str:
    """What a datacenter system must say: how much data its queries move, and over what."""
    size = 0
    for tensor in benchmark.inputs:
        bits = re.search(r"\d+$", tensor.dtype)
        values = math.prod(n for n in tensor.shape if n is not None)
        size += values * (int(bits[0]) if bits else 8) // 8
    return (
        "# Bandwidth\n\n"
        "LoadGen and the system under test run in one process on one node: queries and answers "
        "stay in the host memory and cross no network. Samples are preprocessed and in memory "
        "before LoadGen starts its clock.\n\n"
        f"{benchmark.name}: {size:,} bytes of model input a sample, about "
        f"{benchmark.payload_bytes:,} bytes of answer; times the samples per second of a result, "
        "that is what a network in front of the system would have to carry.\n"
    )
