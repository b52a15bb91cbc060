"""What one run, and one result, leaves for the rules that compare them with others.

A worker makes the traces beside its findings; the parent gathers those of one or several trees in
a `Field` and hands each to the rules whose target it is. A trace holds no log.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from checker import loadgen_keys as keys
from checker import metrics
from checker.audit.answer_log import digest_of
from checker.audit.evidence import PERCENTS
from checker.consistency import exact_tokens_per_sample
from checker.model import PerformanceRun, Result, Run, fingerprint_of
from checker.parse.detail import DetailLog
from checker.parse.reading import Unreadable, sha256_of
from schemas.hardware import Device, accelerator
from schemas.report import Finding, Report, Subject
from schemas.report import Result as ResultRow

CORE = (
    "/loadgen.cc", "/results.cc", "/logging.cc", "/early_stopping.cc",
    "/issue_query_controller.cc", "/test_settings_internal.cc",
)  # fmt: skip
_TRIPLE = ("result_mean_latency_ns", "result_max_latency_ns", "result_query_count")
_TIMES = {
    "test_datetime", "power_begin", "power_end", "loadgen_build_date_local",
    "loadgen_build_date_utc", "loadgen_git_commit_date", "get_sut_name_duration_ns",
}  # fmt: skip
_FINGERPRINT = ("loadgen_", "effective_", "requested_", "result_", "generated_", "qsl_", "num_")
_TWIN = re.compile(r"-(?:95|99|99\.9)$")
_RATES = (
    "result_tokens_per_second", "result_samples_per_second", "result_completed_tokens_per_second",
    "result_completed_samples_per_sec", "result_scheduled_samples_per_sec",
    "result_99.00_percentile_latency_ns", "result_99.00_percentile_per_query_latency_ns",
)  # fmt: skip
_OWN = {"submitter", "division", "status"}


class Written(msgspec.Struct, frozen=True):
    """From where LoadGen writes each record: key -> (source file, source line).

    digest: what tells it from others; most logs of one LoadGen share one.
    """

    digest: str
    places: dict[str, tuple[str, int]]


class RunTrace(msgspec.Struct):
    """One run: ``path`` is its detail log's.

    digest: SHA-256 of the log; content: digest of its records without times and process numbers
    (JSON logs of performance runs); triple: mean and longest latency and query count;
    process: pid, date and power_begin; began, ended:
    seconds since 1970, in the zone the log takes for UTC; built, committed: LoadGen, likewise;
    sources: SHA-1 of LoadGen's core files; written: from which source lines its records come;
    at: the log line of each of those; lines: where some keys stand in the log.
    latencies: mean, greatest and six percentiles in ns, where all are there. mark, identity: what
    P149 and C124 tell a log by. commit: of LoadGen's sources. contradictions: ids of rules that
    found an error in the log; beside: of those that found another log of the result to contradict it.
    """

    path: str
    subject: Subject
    round: str
    directory: str
    kind: str
    scenario: str
    logged_scenario: str | None
    accuracy: bool
    text_format: bool
    digest: str | None
    content: str | None
    triple: tuple[float, float, float] | None
    process: tuple[int, str, str] | None
    began: float | None
    ended: float | None
    version: str | None
    sut: str | None
    sources: tuple[tuple[str, str], ...]
    written: Written | None
    at: tuple[int, ...]
    lines: dict[str, int]
    results: tuple[str, ...] = ()
    tree: str = ""
    field: Any = None  # a Field; a cache of traces holds none
    latencies: tuple[float, ...] = ()
    mark: tuple[str, ...] | None = None
    identity: tuple[float | None, ...] | None = None
    built: float | None = None
    committed: float | None = None
    commit: str | None = None
    equal_issue: bool | None = None
    contradictions: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def division(self) -> str | None:
        """The division of the result."""
        return self.subject.division

    @property
    def owner(self) -> tuple[str | None, str | None]:
        """Submitter and system: the same machine in every division."""
        return self.subject.submitter, self.subject.system


class Answers(msgspec.Struct, frozen=True):
    """An accuracy log of a result: of its accuracy run, or of a compliance test (``kind``)."""

    kind: str
    path: str
    digest: str
    contradictions: tuple[str, ...] = ()


class Named(msgspec.Struct, frozen=True):
    """A path that a verification text holds: the text, the line, the path's folders."""

    path: str
    line: int
    folders: tuple[str, ...]


class ResultTrace(msgspec.Struct):
    """One result: ``path`` is its folder's.

    metric, unit: the published number; key, line: where it is in ``detail_path``; rates: other
    numbers of the performance run by key; accelerator, accelerators: of the whole system;
    description: digest of the system description without submitter, division and status.
    tokens: output tokens per sample of the performance run. answers: every accuracy log. named:
    paths in the texts of its compliance tests; ran: the scenario that was run. precision: the data
    types of the weights; family: of the accelerator.
    """

    path: str
    subject: Subject
    round: str
    directory: str
    scenario: str
    detail_path: str
    metric: float | None
    unit: str | None
    key: str | None
    line: int | None
    rates: dict[str, float]
    inferred_from: str | None
    accelerator: str | None
    accelerators: int | None
    description: str | None
    availability: str | None
    results: tuple[str, ...] = ()
    tree: str = ""
    field: Any = None  # a Field; a cache of traces holds none
    tokens: float | None = None
    answers: tuple[Answers, ...] = ()
    named: tuple[Named, ...] = ()
    ran: str | None = None
    precision: str | None = None
    family: str | None = None

    @property
    def division(self) -> str | None:
        """The division of the result."""
        return self.subject.division


class Traces(msgspec.Struct):
    """The traces of one result."""

    result: ResultTrace
    runs: list[RunTrace] = []


def base_name(benchmark: str | None) -> str:
    """A benchmark's name without its accuracy target: 99 and 99.9 twins share it."""
    return _TWIN.sub("", benchmark or "")


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


_BETWEEN_RUNS = {"C121", "C122", "R138", "R139", "R140", "W108", "W120", "W124"}
"""Rules that hold a result's performance run against its tests, its accuracy run or its meter."""


def note_contradictions(traces: Traces, findings: Sequence[Finding]) -> None:
    """Keep with each run, and each log of answers, which rules found something wrong with it."""
    errors: dict[str | None, set[str]] = defaultdict(set)
    for finding in findings:
        if finding.severity == "error":
            errors[finding.path].add(finding.rule)
    beside = {f.rule for f in findings if f.severity == "error" and f.rule in _BETWEEN_RUNS}
    for run in traces.runs:
        run.contradictions = tuple(sorted(errors.get(run.path, ())))
        if run.kind == "performance":
            run.beside = tuple(sorted(beside))
    doubts: dict[str | None, set[str]] = defaultdict(set)
    for finding in findings:
        if finding.severity in ("error", "warning"):
            doubts[finding.path].add(finding.rule)
    traces.result.answers = tuple(
        Answers(one.kind, one.path, one.digest, tuple(sorted(doubts.get(one.path, ()))))
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
    triple = tuple(detail.number(key) for key in _TRIPLE)
    began = _seconds(detail.text("test_datetime"))
    times = [entry.time_ms for found in detail.entries.values() for entry in found[-1:]]
    last = max((t for t in times if 0 <= t < 1e11), default=0.0) / 1000
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
        identity=(*triple, detail.number("result_min_latency_ns"))
        if None not in triple[:2]
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
    if result.accuracy is not None:
        logs["accuracy"] = result.accuracy.log_file
    for kind, file in logs.items():
        if file is not None and file.size >= _LEAST_ANSWERS:
            try:
                yield Answers(kind, file.path, digest_of(file))
            except Unreadable:
                continue


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
    firsts = [
        found[0]
        for key, found in detail.entries.items()
        if key.startswith(_FINGERPRINT) and found[0].source_line > 0
    ]
    mark = tuple([(one.key, one.source, one.source_line) for one in firsts])
    if mark not in _known_places:
        if len(_known_places) >= 256:
            _known_places.clear()
        places = {key: (file.rsplit("/", 1)[-1], line) for key, file, line in mark}
        digest = hashlib.sha256(repr(places).encode("utf-8", "backslashreplace")).hexdigest()
        _known_places[mark] = Written(digest, places)
    return _known_places[mark], tuple([one.line for one in firsts])


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    if when.tzinfo is None:
        from datetime import UTC

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


def _kind_of_log(run: RunTrace) -> tuple[Any, ...] | None:
    """What the set of records of a log depends on; None where that is not known."""
    if run.written is None:
        return None
    places = run.written.places
    tokens = "result_first_token_mean_latency_ns" in places or "result_token_throughput" in places
    return run.sources, run.logged_scenario, run.accuracy, tokens


class Field:
    """All traces of an audit, indexed.

    old: the report of an earlier round, if one was given; own: the runs that findings about several
    runs are made at, where they are among them.
    """

    def __init__(
        self, traces: list[Traces], old: Report | None = None, own: Sequence[RunTrace] = ()
    ) -> None:
        self._own = {id(run) for run in own}
        self.runs = [run for one in traces for run in one.runs]
        self.results = [one.result for one in traces]
        self.old = old
        self._wrong: dict[Any, list[RunTrace]] = {}
        self._odd: dict[Any, list[Any]] = {}
        for run in self.runs:
            run.field = self
        for result in self.results:
            result.field = self

    @cached_property
    def by_digest(self) -> dict[str, list[RunTrace]]:
        """Runs with the same bytes."""
        return _grouped(self.runs, lambda run: run.digest)

    @cached_property
    def by_triple(self) -> dict[Any, list[RunTrace]]:
        """Runs with the same mean, longest latency and query count."""
        return _grouped(self.runs, lambda run: run.triple)

    @cached_property
    def by_content(self) -> dict[str, list[RunTrace]]:
        """Runs that say the same but for times."""
        return _grouped(self.runs, lambda run: run.content)

    @cached_property
    def by_process(self) -> dict[Any, list[RunTrace]]:
        """Runs of the same process that began at the same millisecond."""
        return _grouped(self.runs, lambda run: run.process)

    @cached_property
    def by_answers(self) -> dict[str, list[tuple[ResultTrace, Answers]]]:
        """Accuracy logs with the same bytes."""
        pairs = [(one, answers) for one in self.results for answers in one.answers]
        return _grouped(pairs, lambda pair: pair[1].digest)

    @cached_property
    def scaled(self) -> dict[int, tuple[RunTrace, float]]:
        """By id of a run: a run whose eight latency figures are this one's times one factor."""
        return scaled_pairs(self.runs)

    @cached_property
    def by_task(self) -> dict[Any, list[ResultTrace]]:
        """Results of one system and benchmark, whatever the accuracy target."""
        return _grouped(
            self.results,
            lambda one: (
                one.tree,
                one.subject.division,
                one.subject.submitter,
                one.subject.system,
                base_name(one.subject.benchmark or one.directory),
            ),
        )

    @cached_property
    def by_owner(self) -> dict[Any, list[RunTrace]]:
        """Dated runs of one system, by their beginning."""
        dated = [run for run in self.runs if run.began is not None]
        found = _grouped(dated, lambda run: (run.tree, *run.owner))
        for runs in found.values():
            runs.sort(key=lambda run: (run.began or 0.0, run.path))
        return found

    @cached_property
    def systems(self) -> dict[Any, set[str]]:
        """(tree, submitter) -> the names of its systems."""
        found: dict[Any, set[str]] = defaultdict(set)
        for one in self.results:
            found[one.tree, one.subject.submitter].add(one.subject.system or "")
        return found

    def first_of(
        self, run: RunTrace, what: str, wrong: Callable[[RunTrace], bool]
    ) -> list[RunTrace]:
        """The runs of one system and kind that are wrong in one way, where this is the first; else []."""
        key = (run.tree, run.division, run.owner, run.kind, what)
        if key not in self._wrong:
            members = self._of_kind.get(key[:4], [])
            found = [r for r in members if wrong(r)]
            self._wrong[key] = sorted(found, key=lambda r: (id(r) not in self._own, r.path))
        found = self._wrong[key]
        return found if found and found[0] is run else []

    @cached_property
    def _of_kind(self) -> dict[Any, list[RunTrace]]:
        return _grouped(self.runs, lambda run: (run.tree, run.division, run.owner, run.kind))

    @cached_property
    def submitted(self) -> dict[Any, RunTrace]:
        """(tree, key of a result) -> its performance run."""
        runs = (run for run in reversed(self.runs) if run.kind == "performance")
        return {(run.tree, key): run for run in runs for key in run.results}

    @cached_property
    def commits(self) -> dict[Any, set[float]]:
        """(tree, owner, date of a build) -> the commit dates that its logs state."""
        found: dict[Any, set[float]] = defaultdict(set)
        for run in self.runs:
            if run.built is not None and run.committed is not None:
                found[run.tree, run.owner, run.built].add(run.committed)
        return found

    @cached_property
    def dates_of_commits(self) -> dict[str, Counter[float]]:
        """LoadGen commit -> how many logs name which date for it."""
        found: dict[str, Counter[float]] = defaultdict(Counter)
        for run in self.runs:
            if run.commit is not None and run.committed is not None:
                found[run.commit][run.committed] += 1
        return found

    @cached_property
    def sources_of_commits(self) -> dict[str, Counter[tuple[tuple[str, str], ...]]]:
        """LoadGen commit -> how many logs name which core sources for it."""
        found: dict[str, Counter[tuple[tuple[str, str], ...]]] = defaultdict(Counter)
        for run in self.runs:
            if run.commit is not None and run.sources:
                found[run.commit][run.sources] += 1
        return found

    @cached_property
    def by_kind_of_log(self) -> dict[Any, dict[str, list[RunTrace]]]:
        """LoadGen, scenario and mode -> digest of the records' places -> runs."""
        kinds = _grouped(self.runs, _kind_of_log)
        return {
            kind: _grouped(runs, lambda run: run.written.digest if run.written else None)
            for kind, runs in kinds.items()
        }

    def logs_of_its_kind(self, run: RunTrace) -> dict[str, list[RunTrace]]:
        """The runs of the same LoadGen, scenario and mode, by the digest of their records' places."""
        return self.by_kind_of_log.get(_kind_of_log(run), {})

    @cached_property
    def by_description(self) -> dict[str, list[ResultTrace]]:
        """Results whose system descriptions are the same."""
        return _grouped(self.results, lambda one: one.description)

    @cached_property
    def by_system(self) -> dict[Any, list[ResultTrace]]:
        """Results of one system and benchmark folder."""
        return _grouped(
            self.results,
            lambda one: (
                one.tree,
                one.subject.division,
                one.subject.submitter,
                one.subject.system,
                one.directory,
            ),
        )

    @cached_property
    def comparable(self) -> dict[tuple[Any, ...], list[ResultTrace]]:
        """Closed throughputs by what `peers_of` compares, from all alike to the accelerator alone."""
        found: dict[tuple[Any, ...], list[ResultTrace]] = defaultdict(list)
        for one in self.results:
            throughput = one.metric and one.metric > 0 and (one.unit or "").endswith("/s")
            if throughput and one.subject.division == "closed" and one.inferred_from is None:
                for _, key in _kinds(one):
                    found[key].append(one)
        return found

    def peers_of(self, result: ResultTrace) -> tuple[str, list[ResultTrace]]:
        """The results, with this one, that it is compared with, and what they have in common.

        The narrowest group with three submitters, [] where there is none.
        """
        for what, key in _kinds(result):
            group = self.comparable.get(key, [])
            if result in group and len({one.subject.submitter for one in group}) >= _SUBMITTERS:
                return what, group
        return "", []

    @cached_property
    def source_lines(self) -> dict[tuple[Any, str], dict[tuple[str, int], int]]:
        """(sources, key) -> how many logs write the key from which source line."""
        found: dict[tuple[Any, str], dict[tuple[str, int], int]] = defaultdict(
            lambda: defaultdict(int)
        )
        alike: dict[Any, list[RunTrace]] = _grouped(
            self.runs, lambda run: (run.sources, run.written.digest) if run.written else None
        )
        for runs in alike.values():
            assert runs[0].written is not None
            for key, place in runs[0].written.places.items():
                found[runs[0].sources, key][place] += len(runs)
        return found

    def odd_lines(self, run: RunTrace, odd: Callable[[RunTrace], list[Any]]) -> list[Any]:
        """What ``odd`` says of a run's source lines; asked once for all runs with the same."""
        key = (run.sources, run.written.digest if run.written else None)
        if key not in self._odd:
            self._odd[key] = odd(run)
        return self._odd[key]

    @cached_property
    def source_users(self) -> dict[Any, set[str]]:
        """(round, sources) -> the submitters whose logs have them."""
        found: dict[Any, set[str]] = defaultdict(set)
        for run in self.runs:
            if run.sources:
                found[run.round, run.sources].add(run.subject.submitter or "")
        return found

    @cached_property
    def submitters(self) -> dict[str, set[str]]:
        """The submitters of each round."""
        found: dict[str, set[str]] = defaultdict(set)
        for one in self.results:
            found[one.round].add(one.subject.submitter or "")
        return found

    @cached_property
    def old_rows(self) -> dict[Any, ResultRow]:
        """Valid results of the earlier report by division, submitter, system, benchmark, scenario."""
        if self.old is None:
            return {}
        return {
            (
                row.division,
                row.submitter,
                row.system,
                row.benchmark or row.directory,
                row.scenario.lower(),
            ): row
            for row in self.old.results
            if row.metric is not None
        }


_SUBMITTERS = 3
"""Fewer submitters do not show what others reach."""


def _kinds(one: ResultTrace) -> list[tuple[str, tuple[Any, ...]]]:
    """What a result is compared by, from the narrowest group to the widest, with its key."""
    if not one.accelerator or not one.accelerators:
        return []
    task = (one.round, one.scenario, one.unit, one.accelerator)
    exact, model = one.subject.benchmark, base_name(one.subject.benchmark)
    groups: list[tuple[str, tuple[Any, ...]]] = []
    if one.precision is not None:
        groups = [
            ("accelerator, count and precision", (*task, exact, one.accelerators, one.precision)),
            ("accelerator and precision", (*task, exact, None, one.precision)),
        ]
    groups += [
        ("accelerator", (*task, exact, None, None)),
        ("accelerator and model", (*task, model, "any target", None)),
    ]
    if one.family is not None:
        wide = (one.round, one.scenario, one.unit, one.family, model, "family")
        groups.append(("accelerator family and model", wide))
    return groups


_ONE_FACTOR = 2e-5
_OWN_SPREAD = 0.05


def scaled_pairs(runs: list[RunTrace]) -> dict[int, tuple[RunTrace, float]]:
    """Runs whose latency figures are another run's times one factor, and that factor.

    Two logs are such a pair where the natural logarithms of the eight ratios differ by less than
    2e-5, while each log's own figures spread by more than 5%; the factor is not 1.
    """
    shapes = []
    for run in runs:
        # Offline's latencies rise evenly, so that two genuine runs can have one shape.
        if run.latencies and run.logged_scenario != "Offline":
            logs = [math.log(value) for value in run.latencies]
            if max(logs) - min(logs) > _OWN_SPREAD:
                shapes.append((tuple(log - logs[0] for log in logs[1:]), logs[0], run))
    # Sorted by the first figure of the shape, only neighbours can be alike.
    shapes.sort(key=lambda shape: (shape[0], shape[2].path))
    found: dict[int, tuple[RunTrace, float]] = {}
    for index, (shape, scale, run) in enumerate(shapes):
        for other_shape, other_scale, other in shapes[index + 1 :]:
            if other_shape[0] - shape[0] > _ONE_FACTOR:
                break
            if abs(other_scale - scale) < _ONE_FACTOR:
                continue
            if max(abs(a - b) for a, b in zip(shape, other_shape, strict=True)) < _ONE_FACTOR:
                found.setdefault(id(run), (other, math.exp(scale - other_scale)))
                found.setdefault(id(other), (run, math.exp(other_scale - scale)))
    return found


def _grouped(items: list[Any], key: Any) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for item in items:
        mark = key(item)
        if mark is not None:
            found[mark].append(item)
    return found
