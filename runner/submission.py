"""The submission tree, in the layout that the round's data describes (`runner.layout`).

As rounds v6.0 and v6.1 have it; v5.1 keeps measurements/ and compliance/ beside results/ and says
`code` for `src`:

<tree>/<division>/<submitter>/
    systems/<system>.json
    results/<system>/<benchmark>/<Scenario>/
        performance/run_1/   mlperf_log_summary.txt  mlperf_log_detail.txt
        accuracy/            the same two, mlperf_log_accuracy.json  accuracy.txt
        TEST01/ TEST04/      performance/run_1/  verify_*.txt  (accuracy/)
        measurements.json  user.conf  README.md
    src/<benchmark>/<implementation>/README.md
    documentation/calibration.md  bandwidth.md
    model_mapping.json       (open division)
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from checker.accuracy.truncate import KEPT, LIMIT, MARK, stated_hash
from runner import logs
from runner.backends import NETWORKED
from runner.benchmarks.base import Benchmark, Score
from runner.compliance import ComplianceRun
from runner.energy import ENERGY
from runner.errors import OutputError
from runner.layout import Places, check_name
from runner.provenance import Provenance
from runner.run import Job, Measurement
from runner.settings import RunSettings
from schemas.timeline import NAME as TIMELINE
from schemas.writing import replace_file

__all__ = ["Paper", "check_name", "truncate_accuracy_log", "write_result", "write_system"]


@dataclass(frozen=True)
class Paper:
    """What is to be said about a result, beside its logs.

    Attributes:
        precision: weight data types of the model that ran ("fp32", "fp32, int8").
        made_with: where they come from.
        notes: what must be disclosed about the result.
        command: the command line that measured it; "" where there was none.
        task: the round's benchmark that an open-division folder is scored as; None: its own name.
        round: the round's name.
        run_file: the run file that measured it; "" where there was none.
        outcome: what became of it: "valid", "invalid" or "not-compliant".
    """

    made_with: Provenance
    precision: str = "fp32"
    notes: Sequence[str] = field(default_factory=tuple)
    command: str = ""
    task: str | None = None
    round: str = ""
    run_file: str = ""
    outcome: str = ""


def write_system(path: Path, description: Mapping[str, str]) -> None:
    """Write a system description.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        _write(path, json.dumps(dict(description), indent=2) + "\n")
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written ({error.strerror or error}); free space or fix the "
            "permissions and run again."
        ) from error


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
        text.stat()  # an absent one is an error, not a text without a hash
        signed = stated_hash(text)
        if signed is not None:
            return signed
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
            shorter.write_bytes(head + MARK + tail)
            shorter.replace(log)
    except OSError as error:
        raise OutputError(
            f"{folder}: the accuracy log cannot be shortened ({error}); expected {log.name} and "
            "accuracy.txt, both writable."
        ) from error
    return digest.hexdigest()


def write_result(
    places: Places,
    benchmark: Benchmark,
    accuracy: Measurement,
    performance: Measurement,
    score: Score,
    paper: Paper,
    tests: Sequence[ComplianceRun] = (),
    *,
    overwrite: bool = False,
) -> Path:
    """Put a finished accuracy and performance run into the tree, with its compliance tests.

    Every folder is put together beside the logs and appears in the tree in one step, the result
    itself last.  The runs' own folders are used up.

    Args:
        overwrite: replace an older result of the same name.

    Returns:
        The result's folder.

    Raises:
        OutputError: a result lies there already, or the tree cannot be written.
    """
    parcels = performance.folder.with_name("parcels")
    result, measured, tested = parcels / "result", parcels / "measured", parcels / "tested"
    if places.measurements == places.result:
        measured = result
    if places.compliance == places.result:
        tested = result
    try:
        shutil.rmtree(parcels, ignore_errors=True)
        _keep_traces(performance.folder, places.traces)
        _move_logs(performance.folder, result / "performance" / "run_1")
        _move_logs(accuracy.folder, result / "accuracy", logs.ACCURACY)
        _write(result / "accuracy" / "accuracy.txt", score.line + "\n")
        truncate_accuracy_log(result / "accuracy")
        for test in tests:
            _pack_test(test, tested / test.name)
        _write(measured / "user.conf", performance.user_conf)
        _write(
            measured / places.measurements_name,
            json.dumps(_measurements(benchmark, performance, paper), indent=2) + "\n",
        )
        _write(measured / "README.md", _result_readme(benchmark, performance, score, paper, tests))
        _write(places.code / "README.md", _code_readme(benchmark, performance, paper))
        _section(
            places.documentation / "calibration.md",
            "# Calibration and quantisation\n\n"
            "FP32 results use the weights as trained; nothing was calibrated for them.\n",
            benchmark.name,
            _quantization(benchmark, performance, paper),
        )
        _section(
            places.documentation / "bandwidth.md", _BANDWIDTH, benchmark.name, _bandwidth(benchmark)
        )
        if places.mapping is not None and paper.task and paper.task != places.result.parent.name:
            _map(places.mapping, places.result.parent.name, paper.task)
        moves = {places.result: result}
        if tests or places.compliance != places.result:
            moves[places.compliance] = tested
        moves[places.measurements] = measured
        moves[places.result] = moves.pop(places.result)  # last
        for target in moves:
            if target.exists() and not overwrite:
                raise OutputError(_occupied(target))
        for number, (target, parcel) in enumerate(moves.items()):
            if target.exists():
                target.replace(parcels / f"replaced-{number}")
            if parcel.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                parcel.replace(target)
        used = [accuracy.folder, performance.folder, *(test.folder for test in tests), parcels]
        for folder in used:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise OutputError(
            f"{places.result}: the result cannot be written ({error}); its logs are in "
            f"{performance.folder.parent}. Free space or fix the permissions and run again."
        ) from error
    return places.result


TRACES = (TIMELINE, ENERGY, "onnxruntime_profile*.json")
"""What a run leaves beside LoadGen's logs, for `assay plot` and for people."""


def _keep_traces(run: Path, folder: Path) -> None:
    """Put what is not part of a submission beside the tree, in place of an older run's."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in sorted(path for pattern in TRACES for path in run.glob(pattern)):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.move(path, folder / path.name)


def _move_logs(source: Path, target: Path, *more: str) -> None:
    target.mkdir(parents=True)
    for name in (logs.SUMMARY, logs.DETAIL, *more):
        (source / name).replace(target / name)


def _pack_test(test: ComplianceRun, folder: Path) -> None:
    """One compliance test's logs and texts, as the rounds lay them out."""
    _move_logs(test.folder, folder / "performance" / "run_1")
    for name, text in test.texts.items():
        _write(folder / name, text)
    if test.sampled:
        (folder / "accuracy").mkdir(exist_ok=True)
        (test.folder / logs.ACCURACY).replace(folder / "accuracy" / logs.ACCURACY)
        truncate_accuracy_log(folder / "accuracy")


def _map(path: Path, directory: str, task: str) -> None:
    """Say in the open division which benchmark a folder of another name is scored as."""
    known: dict[str, str] = {}
    if path.exists():
        try:
            known = dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise OutputError(
                f"{path}: cannot be read as a JSON object ({error}); fix or remove it."
            ) from error
    if known.get(directory) != task:
        _write(path, json.dumps({**known, directory: task}, indent=2) + "\n")


def refuse_occupied(target: Path) -> None:
    """Raises OutputError where a result lies already: better before the run than after."""
    if target.exists():
        raise OutputError(_occupied(target))


def _occupied(target: Path) -> str:
    return (
        f"{target}: found a result there already; expected a free place. Choose another folder "
        "or system name, keep it (--resume) or replace it (--overwrite)."
    )


def _write(path: Path, text: str) -> None:
    """Write a whole file or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text.encode("utf-8"))


def _section(path: Path, head: str, name: str, text: str) -> None:
    """Say something about one benchmark in a document of all; what it said of others stays."""
    title = f"## {name}\n"
    document = path.read_text(encoding="utf-8") if path.exists() else head
    before, found, rest = document.partition(f"\n{title}")
    following = rest.find("\n## ")
    after = rest[following:] if found and following >= 0 else ""
    _write(path, f"{before.rstrip()}\n\n{title}\n{text}\n{after}")


def _measurements(benchmark: Benchmark, performance: Measurement, paper: Paper) -> dict[str, str]:
    job = performance.job
    model = Path(job.model).name if job.model else "none (dummy backend)"
    if not job.model and job.backend in NETWORKED:
        transformations = "none by this system: the model was run as the server has it"
    elif not paper.made_with.own:
        transformations = f"none by this system: {model} was run as given"
    elif paper.precision in ("fp32", "none"):
        transformations = f"none ({model} as trained)"
    else:
        transformations = (
            f"quantised to {paper.precision} ({model}), see documentation/calibration.md"
        )
    return {
        "starting_weights_filename": paper.made_with.weights,
        "retraining": "no",
        "input_data_types": ", ".join(sorted({_short(t.dtype) for t in benchmark.inputs})),
        "weight_data_types": paper.precision,
        "weight_transformations": transformations,
    }


def _quantization(benchmark: Benchmark, performance: Measurement, paper: Paper) -> str:
    if paper.made_with.own or not performance.job.model:
        return f"{benchmark.quantization}."
    return (
        f"{Path(performance.job.model).name} (weights of {paper.precision}, SHA-256 "
        f"{paper.made_with.model_sha256}) was run as given; how it was quantised, if it was, is to "
        "be added."
    )


def _short(dtype: str) -> str:
    return {"float32": "fp32", "float16": "fp16"}.get(dtype, dtype)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _result_readme(
    benchmark: Benchmark,
    performance: Measurement,
    score: Score,
    paper: Paper,
    tests: Sequence[ComplianceRun],
) -> str:
    settings, job = performance.job.settings, performance.job
    lines = [
        f"# {benchmark.name}, {settings.result}",
        "",
        f"{_sentence(benchmark.title)}. Measured with Assay under the "
        f"official LoadGen {performance.detail.get('loadgen_version', '')}"
        f"{f', by the rules of round {paper.round}' if paper.round else ''}.",
        "",
        "| | |",
        "|---|---|",
        f"| Result | {performance.metric or 0:,.6g} {performance.unit} |",
        f"| Outcome | {paper.outcome or performance.detail.get('result_validity')} |",
        f"| LoadGen's verdict | {performance.detail.get('result_validity')} |",
        f"| Accuracy | {score.metric} = {score.value:.6g} |",
        *(f"| {name} | {value:,.10g} |" for name, value in score.others.items()),
        f"| Executed by | {performance.framework} |",
        f"| Model | {_model(job)}, {paper.precision} |",
    ]
    if benchmark.generation is not None:
        lines.append(f"| Answers in work at once | at most {job.workers:,} |")
        lines += _token_rows(performance.detail, settings)
    else:
        lines.append(
            f"| Samples in one inference | {_batching(job.batch_size, settings.scenario)} |"
        )
    if settings.scenario in ("Server", "Offline") and benchmark.generation is None:
        lines.append(f"| Inferences at once | {job.workers} |")
    if settings.scenario == "Server" and benchmark.generation is None:
        lines.append(f"| A batch waits for more | {f'{job.batch_deadline_us:g}'} us at most |")
    lines += [
        f"| Data | {_data(benchmark, performance)} |",
        f"| LoadGen ran for | {performance.seconds:.1f} s |",
    ]
    lines += [f"| {title} | {text} |" for title, text in performance.conditions.items()]
    made_with = paper.made_with
    for title, text in (
        ("Weights", made_with.weights),
        ("SHA-256 of the model", made_with.model_sha256),
        ("SHA-256 of the data", made_with.data_sha256),
        ("Preprocessing", made_with.preprocessing),
    ):
        if text:
            lines.append(f"| {title} | {text} |")
    for test in tests:
        said = {True: "passed", False: "failed", None: "not decided"}[test.passed]
        lines.append(f"| {test.name} | {'; '.join((said, *test.failures))} |")
    lines += [
        "",
        "`user.conf` is the file that was run; what nobody chose was measured in a warm-up.",
        "The accuracy run was made before the performance run, with the same model and settings.",
    ]
    told = (*paper.notes, *performance.warnings, *performance.reasons)
    if told:
        lines += ["", "To be known about this result:", ""]
        lines += [f"- {note}" for note in told]
    lines += ["", "To repeat it:", "", f"    {_command(benchmark, performance, paper)}", ""]
    if paper.run_file:
        lines += ["The same as a run file, for `assay run --config`:", "", "```toml"]
        lines += [paper.run_file.rstrip("\n"), "```", ""]
    return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What the README of a result states of the measurement.

    Attributes:
        rows: title to text of its table.
        run_file: "" where there is none.
    """

    rows: Mapping[str, str]
    run_file: str


def read_readme(folder: Path) -> Stated:
    """The README that `write_result` wrote beside the measurements.

    Raises:
        OutputError: it cannot be read.
    """
    path = folder / "README.md"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OutputError(f"{path}: cannot be read ({error}).") from error
    rows = dict(re.findall(r"^\| ([^|]+) \| (.*) \|$", text, re.MULTILINE))
    found = re.search(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return Stated(rows=rows, run_file=found[1] if found else "")


def _token_rows(detail: Mapping[str, object], settings: RunSettings) -> list[str]:
    """Times to first token and per output token, as LoadGen has them, and their limits."""
    rows = []
    for title, key, limit in (
        ("first token", "result_first_token_99.00_percentile_latency_ns", settings.ttft_ms),
        ("output token", "result_time_per_output_token_99.00_percentile_ns", settings.tpot_ms),
    ):
        value = detail.get(key)
        if isinstance(value, (int, float)):
            bound = f" (limit {limit:g} ms)" if limit and settings.scenario == "Server" else ""
            verb = "to" if title.startswith("first") else "per"
            rows.append(f"| Time {verb} {title}, p99 | {value / 1e6:.3f} ms{bound} |")
    return rows


def _model(job: Job) -> str:
    if job.model:
        return Path(job.model).name
    return "as the server has it" if job.backend in NETWORKED else "none"


def _data(benchmark: Benchmark, performance: Measurement) -> str:
    """What was given is named: the benchmark's words hold for its own data only."""
    given = performance.job.data
    if given:
        return f"{Path(given).name}, as given; the benchmark's own: {benchmark.data}"
    return benchmark.data


def _command(benchmark: Benchmark, performance: Measurement, paper: Paper) -> str:
    return paper.command or (
        f"assay run --benchmark {benchmark.name} --scenario "
        f"{performance.job.settings.result} --out FOLDER"
    )


def _batching(batch_size: int | None, scenario: str) -> str:
    if scenario == "SingleStream":
        return "1"
    if scenario == "MultiStream":
        return "8"
    return f"at most {batch_size}" if scenario == "Server" else f"{batch_size}"


def _code_readme(benchmark: Benchmark, performance: Measurement, paper: Paper) -> str:
    return (
        f"# {benchmark.name}: code\n\n"
        f"{_sentence(benchmark.title)}.\n\n"
        "The measurement is made by Assay's reference runner: `runner/benchmarks/"
        f"{benchmark.name.replace('-', '_')}.py` holds the model's signature, preprocessing, encoding and metric, "
        "`runner/sut.py` the system under test, `runner/settings.py` LoadGen's settings. "
        "LoadGen is the official one, unaltered, from the package mlcommons-loadgen.\n\n"
        f"- Executed by: {performance.framework}\n"
        f"- Weights: {paper.made_with.weights}\n- Data: {_data(benchmark, performance)}\n\n"
        f"The last result was measured by\n\n    {_command(benchmark, performance, paper)}\n"
    )


_BANDWIDTH = (
    "# Bandwidth\n\n"
    "LoadGen and the system under test run in one process on one node: queries and answers "
    "stay in the host memory and cross no network. Samples are preprocessed and in memory "
    "before LoadGen starts its clock.\n"
)


def _bandwidth(benchmark: Benchmark) -> str:
    """What a datacenter system must say: how much data its queries move, and over what."""
    size = 0
    for tensor in benchmark.inputs:
        bits = re.search(r"\d+$", tensor.dtype)
        values = math.prod(n for n in tensor.shape if n is not None)
        size += values * (int(bits[0]) if bits else 8) // 8
    return (
        f"{size:,} bytes of model input a sample, about "
        f"{benchmark.payload_bytes:,} bytes of answer; times the samples per second of a result, "
        "that is what a network in front of the system would have to carry."
    )
