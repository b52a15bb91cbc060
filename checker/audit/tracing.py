"""Making the traces of a result: of every run, of its answers, of what its texts name."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from checker import loadgen_keys as keys
from checker import metrics
from checker.audit.answer_log import digest_of, digest_of_beginning, same_answers
from checker.audit.evidence import PERCENTS
from checker.audit.traces import Answers, Named, ResultTrace, RunTrace, Traces, Written
from checker.consistency import exact_tokens_per_sample
from checker.model import PerformanceRun, Result, Run
from checker.parse.detail import DetailLog
from checker.parse.reading import Unreadable, sha256_of
from checker.shared_logs import fingerprint_of
from schemas.hardware import Device, accelerator
from schemas.report import Finding

CORE = (
    "/loadgen.cc", "/results.cc", "/logging.cc", "/early_stopping.cc",
    "/issue_query_controller.cc", "/test_settings_internal.cc",
)  # fmt: skip
_TRIPLE = ("result_mean_latency_ns", "result_max_latency_ns", "result_query_count")
_PRINTED = ("result_mean_latency_ns", "result_max_latency_ns", "result_min_latency_ns")
_TIMES = {
    "test_datetime", "power_begin", "power_end", "loadgen_build_date_local",
    "loadgen_build_date_utc", "loadgen_git_commit_date", "get_sut_name_duration_ns",
}  # fmt: skip
_FINGERPRINT = ("loadgen_", "effective_", "requested_", "result_", "generated_", "qsl_", "num_")
_RATES = (
    "result_tokens_per_second", "result_samples_per_second", "result_completed_tokens_per_second",
    "result_completed_samples_per_sec", "result_scheduled_samples_per_sec",
    "result_99.00_percentile_latency_ns", "result_99.00_percentile_per_query_latency_ns",
)  # fmt: skip
_OWN = {"submitter", "division", "status"}


def traces_of(result: Result) -> Traces:
    """Everything that other results are compared with."""
    found = Traces(_result_trace(result))
    runs: list[tuple[str, Run]] = [("performance", run) for run in result.runs]
    if result.accuracy is not None:
        runs.append(("accuracy", result.accuracy))
    runs.extend((name, test.run) for name, test in result.tests.items() if test.run is not None)
    if result.ranging is not None:
        runs.append(("ranging", result.ranging))
    for kind, run in runs:
        if run.detail is not None and run.detail:
            found.runs.append(_run_trace(result, kind, run, run.detail))
    return found


BETWEEN_RUNS = {"C121", "C122", "R138", "R139", "R140", "W108", "W120", "W124"}
"""Rules that hold a result's performance run against its tests, its accuracy run or its meter."""


def note_contradictions(traces: Traces, findings: Sequence[Finding]) -> None:
    """Keep with each run, and each log of answers, which rules found something wrong with it."""
    errors: dict[str | None, set[str]] = defaultdict(set)
    for finding in findings:
        if finding.severity == "error":
            errors[finding.path].add(finding.rule)
    beside = {f.rule for f in findings if f.severity == "error" and f.rule in BETWEEN_RUNS}
    for run in traces.runs:
        run.contradictions = tuple(sorted(errors.get(run.path, ())))
        if run.kind == "performance":
            run.beside = tuple(sorted(beside))
    doubts: dict[str | None, set[str]] = defaultdict(set)
    for finding in findings:
        if finding.severity in ("error", "warning"):
            doubts[finding.path].add(finding.rule)
    traces.result.answers = tuple(
        msgspec.structs.replace(one, contradictions=tuple(sorted(doubts.get(one.path, ()))))
        for one in traces.result.answers
    )


def _run_trace(result: Result, kind: str, run: Run, detail: DetailLog) -> RunTrace:
    digest = None
    file = run.folder.files.get("mlperf_log_detail.txt") if run.folder is not None else None
    if file is not None:
        try:
            digest = sha256_of(file)
        except Unreadable:
            digest = None
    accuracy = run.mode == "AccuracyOnly"
    logged = triple = tuple(detail.number(key) for key in _TRIPLE)
    if detail.format != "mllog" and isinstance(run, PerformanceRun) and run.summary is not None:
        # There the summary alone has the results, or has them with all digits.
        printed = (run.summary.get(key) for key in _PRINTED)
        triple = tuple(float(v) if type(v) in (int, float) else None for v in printed)
    began = _seconds(detail.text("test_datetime"))
    last = max([found[-1].time_ms for found in detail.entries.values()], default=0.0)
    if last >= 1e11:
        # Unsigned times of a negative delta wrap around.
        times = (found[-1].time_ms for found in detail.entries.values())
        last = max((time for time in times if 0 <= time < 1e11), default=0.0)
    last = max(last, 0.0) / 1000
    sources = detail.get("loadgen_file_sha1")
    core = tuple(
        (name, str(sources[name])) for name in CORE if isinstance(sources, dict) and name in sources
    )
    mllog = detail.format == "mllog"
    written, at = _written(detail) if mllog and core else (None, ())
    fingerprint = fingerprint_of(run) if isinstance(run, PerformanceRun) else None
    return RunTrace(
        path=run.detail_path,
        subject=result.subject,
        round=result.round.name,
        directory=result.directory,
        kind=kind,
        scenario=result.scenario or result.scenario_folder,
        logged_scenario=run.scenario,
        accuracy=accuracy,
        text_format=not mllog,
        digest=digest,
        content=_content(detail) if mllog and not accuracy else None,
        triple=triple if None not in triple and any(triple) else None,  # type: ignore[arg-type]
        process=_process(detail) if mllog else None,
        began=began,
        ended=began + last if began is not None else None,
        version=run.loadgen_version,
        sut=detail.text("sut_name"),
        sources=core,
        written=written,
        at=at,
        lines={
            k: line
            for k in (
                *_TRIPLE,
                "test_datetime",
                "power_begin",
                keys.LOADGEN_BUILD_DATE,
                keys.LOADGEN_COMMIT_DATE,
                "loadgen_file_sha1",
                keys.EQUAL_ISSUE,
            )
            if (line := detail.line(k))
        },
        results=run.results,
        latencies=_latencies(detail),
        built=_seconds(detail.text(keys.LOADGEN_BUILD_DATE)) if mllog else None,
        committed=_seconds(detail.text(keys.LOADGEN_COMMIT_DATE)) if mllog else None,
        commit=_commit(detail) if mllog else None,
        equal_issue=detail.boolean(keys.EQUAL_ISSUE),
        mark=fingerprint.mark if fingerprint is not None else None,
        identity=(*logged, detail.number("result_min_latency_ns"))
        if None not in logged[:2]
        else None,
    )


_FIGURES = (
    "result_mean_latency_ns",
    "result_max_latency_ns",
    *(f"result_{p}_percentile_latency_ns" for p in PERCENTS),
)


def _latencies(detail: DetailLog) -> tuple[float, ...]:
    values = [detail.number(key) for key in _FIGURES]
    return tuple(v for v in values if v) if all(v is not None and v > 0 for v in values) else ()


_LEAST_ANSWERS = 200
"""Bytes of an accuracy log that holds at least one answer."""


def _answers(result: Result) -> Iterator[Answers]:
    logs = {name: test.accuracy_log for name, test in result.tests.items()}
    accuracy = result.accuracy.log_file if result.accuracy is not None else None
    if accuracy is not None:
        logs["accuracy"] = accuracy
    for kind, file in logs.items():
        if file is not None and file.size >= _LEAST_ANSWERS:
            try:
                repeats = None
                if kind != "accuracy" and accuracy is not None:
                    repeats = same_answers(file, accuracy)
                stated, at = _stated(result) if kind == "accuracy" else (None, ("", 0))
                yield Answers(
                    kind=kind,
                    path=file.path,
                    digest=digest_of(file),
                    repeats=repeats,
                    begins=digest_of_beginning(file),
                    stated=stated,
                    stated_at=at,
                )
            except Unreadable:
                continue


_SHA256 = re.compile(r"[0-9a-f]{64}")
_OF_NOTHING = hashlib.sha256().hexdigest()


def _stated(result: Result) -> tuple[str | None, tuple[str, int]]:
    """The hash in accuracy.txt, and where it is; None where it cannot be a log's."""
    text = result.accuracy.text if result.accuracy is not None else None
    if text is None or not text.hashes:
        return None, ("", 0)
    value, line = text.hashes[-1]
    value = value.lower()
    if not _SHA256.fullmatch(value) or value == _OF_NOTHING:
        return None, ("", 0)
    return value, (text.path, line)


_LOG_PATH = re.compile(r"[\w.+@~-]*(?:/+[\w.+@~-]+){2,30}")
_MOST_NAMED = 40


def _named(result: Result) -> Iterator[Named]:
    """The paths of logs that the tests' verification texts hold."""
    count = 0
    for test in result.tests.values():
        for text in test.verifications.values():
            if "/" not in text.text:
                continue
            for number, line in enumerate(text.text.splitlines(), 1):
                for found in _LOG_PATH.findall(line[:4096]):
                    folders = tuple(part for part in found.split("/") if part)
                    logs = "mlperf_log_" in folders[-1] or "performance" in folders
                    if logs and count < _MOST_NAMED:
                        count += 1
                        yield Named(text.path, number, folders)


def _process(detail: DetailLog) -> tuple[int, str, str] | None:
    when, begin = detail.text("test_datetime"), detail.text("power_begin")
    if len(detail.pids) != 1 or when is None or begin is None:
        return None
    if not when.strip() or not begin.strip():
        return None
    return next(iter(detail.pids)), when, begin


def _content(detail: DetailLog) -> str:
    """A digest of what the log says, whenever and by whichever process it was written."""
    state = hashlib.sha256()
    for key in sorted(detail.entries):
        if key in _TIMES or key.startswith("logger_") or "generic_message" in key:
            continue
        if key == "loaded_qsl_set":
            # The same in all runs of a benchmark, and most of the log.
            continue
        for entry in detail.entries[key]:
            state.update(f"{key}={entry.value!r}\n".encode("utf-8", "backslashreplace"))
    return state.hexdigest()


_known_places: dict[tuple[Any, ...], Written] = {}


_HASH = re.compile(r"[0-9a-f]{40}\b")


def _commit(detail: DetailLog) -> str | None:
    said = _HASH.match(detail.text("loadgen_git_log_message") or "")
    return said[0] if said else None


def _written(detail: DetailLog) -> tuple[Written, tuple[int, ...]]:
    """From where the log's records were written, and on which lines they are."""
    mark: list[tuple[str, str, int]] = []
    at: list[int] = []
    for key, found in detail.entries.items():
        first = found[0]
        metadata = first.metadata
        if metadata.line_no > 0 and key.startswith(_FINGERPRINT):
            mark.append((key, metadata.file, metadata.line_no))
            at.append(first.line)
    known = tuple(mark)
    if known not in _known_places:
        if len(_known_places) >= 256:
            _known_places.clear()
        places = {key: (file.rsplit("/", 1)[-1], line) for key, file, line in known}
        digest = hashlib.sha256(repr(places).encode("utf-8", "backslashreplace")).hexdigest()
        _known_places[known] = Written(digest, places)
    return _known_places[known], tuple(at)


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return when.timestamp()


def _result_trace(result: Result) -> ResultTrace:
    metric = metrics.metric_of(result)
    run = result.performance
    detail = run.detail if run is not None else None
    fields = result.system.fields
    count = _count(fields.get("number_of_nodes")), _count(fields.get("accelerators_per_node"))
    total = count[0] * count[1] if count[0] and count[1] else None
    model = fields.get("accelerator_model_name")
    device = accelerator(model) if isinstance(model, str) else None
    if device is not None and device.count:
        total = device.count
    plain = {k: v for k, v in fields.items() if k not in _OWN}
    description = json.dumps(plain, sort_keys=True, default=str).encode("utf-8", "backslashreplace")
    rates = {}
    if detail is not None:
        rates = {k: v for k in _RATES if (v := detail.number(k)) is not None and v > 0}
    status = fields.get("status")
    return ResultTrace(
        path=result.path,
        subject=result.subject,
        round=result.round.name,
        directory=result.directory,
        scenario=result.scenario or result.scenario_folder,
        detail_path=run.detail_path if run is not None else result.path,
        metric=metric.value if metric is not None else None,
        unit=metric.unit if metric is not None else None,
        key=metric.name if metric is not None else None,
        line=detail.line(metric.name) if detail is not None and metric is not None else None,
        rates=rates,
        inferred_from=result.inferred_from,
        accelerator=_part(device),
        accelerators=total,
        description=hashlib.sha256(description).hexdigest() if plain else None,
        availability=status.strip().lower() if isinstance(status, str) else None,
        results=result.results,
        tokens=exact_tokens_per_sample(detail) if detail is not None else None,
        answers=tuple(_answers(result)),
        named=tuple(_named(result)),
        ran=run.scenario if run is not None else None,
        precision=_precision(result),
        family=_family(device),
    )


def _precision(result: Result) -> str | None:
    """The data types of the weights, as the measurements state them, in one spelling."""
    fields = result.measurements.fields if result.measurements is not None else {}
    value = fields.get("weight_data_types")
    return " ".join(value.lower().split()) if isinstance(value, str) and value.strip() else None


_FAMILY = re.compile(r"G?([A-Z]+)[- ]?(\d)", re.IGNORECASE)


def _family(device: Device | None) -> str | None:
    """Vendor, letters and first digit of a model: B200 and GB200, H200 and GH200 are one family."""
    found = _FAMILY.match(device.model or "") if device is not None and not device.mixed else None
    if device is None or found is None or device.partition:
        return None
    return f"{device.vendor} {found[1].upper()}{found[2]}"


def _part(device: Device | None) -> str | None:
    """The canonical name of an accelerator, or of the part of one that is offered as a device."""
    if device is None or device.mixed:
        return None
    return f"{device.name} ({device.partition})" if device.partition else device.name


def _count(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 < value < 1_000_000 else None
    if isinstance(value, str) and value.strip().isdigit() and len(value) < 8:
        return int(value) or None
    return None
