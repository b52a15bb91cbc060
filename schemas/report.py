"""The report: what a check or an audit found, as data.

This is the border between the checker and everything that shows or compares results. The JSON
form is public (``report.schema.json``); adding a field is free, changing one needs a new
``FORMAT_VERSION``.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from schemas.timeline import Timeline

FORMAT = "assay-report"
FORMAT_VERSION = 2

Severity = Literal["error", "warning", "note"]
State = Literal["new", "changed", "unchanged"]
"""Of a result or a finding: what it is beside an earlier report."""
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Tool(msgspec.Struct, frozen=True):
    """The program that wrote the report."""

    name: str
    version: str


class Metric(msgspec.Struct, frozen=True):
    """A performance metric as the round publishes it.

    ``name`` is the LoadGen key it was taken from; ``unit`` the round's unit text.
    """

    name: str
    value: float
    unit: str


class AccuracyScore(msgspec.Struct, frozen=True):
    """One accuracy metric against its gate.

    ``target`` is the lower bound (value >= target), ``limit`` the upper bound (value <= limit);
    either may be absent. ``passed`` is None where the division has no gate. ``printed`` is the
    number as accuracy.txt spells it. All values are in ``unit`` (percent, fraction, points, tokens,
    characters; None: not known).
    """

    metric: str
    value: float
    target: float | None = None
    limit: float | None = None
    reference: float | None = None
    factor: float | None = None
    passed: bool | None = None
    printed: str | None = None
    unit: str | None = None


class RunFacts(msgspec.Struct, frozen=True):
    """What a reader wants to see of one run: times in ns unless the name says otherwise.

    ``timeline``: only of a run folder of the runner's that is checked by itself.
    """

    kind: str
    path: str
    started: str | None = None
    duration_s: float | None = None
    loadgen_version: str | None = None
    scenario: str | None = None
    mode: str | None = None
    validity: str | None = None
    query_count: int | None = None
    latency_ns: dict[str, float] = {}
    ttft_ns: dict[str, float] = {}
    tpot_ns: dict[str, float] = {}
    settings: dict[str, Any] = {}
    timeline: Timeline | msgspec.UnsetType = msgspec.UNSET


class Limits(msgspec.Struct, frozen=True):
    """The round's limits for this result's scenario (None: no such limit)."""

    target_latency_ns: int | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    min_duration_ms: int | None = None
    min_query_count: int | None = None
    min_samples_per_query: int | None = None
    percentile: float | None = None


class Result(msgspec.Struct, frozen=True):
    """One result: system x benchmark x scenario.

    ``key`` is unique in the report: division/submitter/system/directory/scenario folder, after the
    tree's name where several trees were audited. Findings refer to it. ``baseline``: beside the
    earlier report that this one was compared with; changed: its verdict, metric, power or accuracy.
    """

    division: str
    submitter: str
    system: str
    benchmark: str | None
    directory: str
    scenario: str
    category: str | None
    status: Literal["valid", "invalid"]
    metric: Metric | None
    accuracy: list[AccuracyScore]
    inferred_from: str | None
    power: Metric | None
    path: str
    rules_applied: int
    rules_not_applied: list[str] = []
    system_description: dict[str, Any] = {}
    weight_data_types: str | None = None
    limits: Limits | None = None
    runs: list[RunFacts] = []
    key: str = ""
    baseline: State | None = None


class Subject(msgspec.Struct, frozen=True):
    """What a finding is about; a None part means "all of them"."""

    division: str | None = None
    submitter: str | None = None
    system: str | None = None
    benchmark: str | None = None
    scenario: str | None = None


class Waived(msgspec.Struct, frozen=True):
    """Why a finding does not count, and who said so."""

    reason: str
    owner: str
    expires: str | None = None


class Finding(msgspec.Struct, frozen=True):
    """One thing that was found: where, what, what was expected, how to fix it.

    ``results`` are the keys of the results that it concerns; empty: no result in particular, but
    all of its subject. ``invalidates`` are the keys of those it makes invalid. ``count`` is the
    number of places, where what repeats is one finding. ``id`` is unique in the report and the same
    in the next one: made of rule, path, pointer and subject. ``follows`` is the id of the finding
    that this one follows from, such as that of a truncated log. ``baseline``: beside the earlier
    report that this one was compared with.
    """

    rule: str
    name: str
    severity: Severity
    message: str
    path: str | None = None
    line: int | None = None
    pointer: str | None = None
    subject: Subject = Subject()
    found: Any = None
    required: Any = None
    fix: str | None = None
    waived: Waived | None = None
    evidence: dict[str, Any] | None = None
    results: tuple[str, ...] = ()
    invalidates: tuple[str, ...] = ()
    count: int = 1
    id: str = ""
    follows: str | None = None
    baseline: Literal["new", "unchanged"] | None = None


class RuleFacts(msgspec.Struct, frozen=True):
    """A rule as the report's reader needs it, so that no checker is needed to show one."""

    id: str
    name: str
    family: str
    severity: Severity
    summary: str
    why: str
    fix: str
    source: str


class Summary(msgspec.Struct, frozen=True):
    """Counts. Errors, warnings and notes leave waived findings out; ``waived`` counts those."""

    results: int
    valid: int
    invalid: int
    errors: int
    warnings: int
    notes: int
    waived: int


class Selection(msgspec.Struct, frozen=True):
    """What a check was narrowed to.

    ``select`` and ``ignore`` hold rule ids, names or family letters; empty: no restriction.
    ``round`` is the round that was given, if one was.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    submitters: tuple[str, ...] = ()
    divisions: tuple[str, ...] = ()
    round: str | None = None


class Verdict(msgspec.Struct, frozen=True):
    """A result, by its title, whose verdict is another one than in the baseline."""

    result: str
    old: Literal["valid", "invalid"]
    new: Literal["valid", "invalid"]


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """What changed since an earlier report, beside what results and findings say of themselves.

    ``name`` is the file of the earlier report. ``gone`` are its findings that this report lacks,
    ``results_gone`` its results (without their runs). Results are named by their titles. ``waived``
    and ``unwaived`` are the ids of findings of both that are waived only now, or no longer.
    """

    name: str
    new: int
    unchanged: int
    gone: list[Finding] = []
    verdicts: list[Verdict] = []
    results_new: list[str] = []
    results_gone: list[Result] = []
    waived: list[str] = []
    unwaived: list[str] = []


class Report(msgspec.Struct, frozen=True):
    """Everything one call of ``assay check`` or ``assay audit`` found."""

    format: str
    format_version: int
    tool: Tool
    round: str | None
    round_detected_from: str | None
    tree: str
    results: list[Result]
    findings: list[Finding]
    summary: Summary
    rules: list[RuleFacts] = []
    scope: str = "tree"
    not_checked: list[str] = []
    selection: Selection | None = None
    baseline: Baseline | None = None

    @property
    def failed(self) -> bool:
        """Whether any finding of severity error stands unwaived."""
        return self.summary.errors > 0


def encode(report: Report) -> bytes:
    """The report as JSON, the same bytes for the same report (two-space indent, final newline)."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def decode(data: bytes) -> Report:
    """Read a saved report.

    Raises ValueError when the data is not an Assay report of a version this program knows.
    """
    try:
        head = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if head.get("format") != FORMAT:
        raise ValueError(f'not an Assay report: "format" is {head.get("format")!r}, not {FORMAT!r}')
    version = head.get("format_version")
    if version not in (1, FORMAT_VERSION):
        raise ValueError(
            f"report format_version is {version!r}; this version of assay reads 1 to "
            f"{FORMAT_VERSION}. Check the tree again to make a new one"
        )
    try:
        report = msgspec.json.decode(data, type=Report)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"damaged report: {error}") from error
    return linked(report) if version == 1 else report


def linked(report: Report) -> Report:
    """A report of format version 1 with the links that version 2 has, as far as they can be known.

    A finding belongs to the result whose folder it is in, or else to all results that its subject
    names. Verdicts stay as they were.
    """
    seen: dict[str, int] = {}
    results = []
    by_subject: dict[tuple[str | None, ...], list[Result]] = {}
    for result in report.results:
        parts = (result.division, result.submitter, result.system, result.directory)
        key = "/".join((*parts, result.scenario))
        seen[key] = seen.get(key, 0) + 1
        key = key if seen[key] == 1 else f"{key}#{seen[key]}"
        result = msgspec.structs.replace(result, key=key)
        results.append(result)
        system = parts[:3]
        for benchmark in {None, result.benchmark, result.directory}:
            for scenario in (None, result.scenario.casefold()):
                by_subject.setdefault((*system, benchmark, scenario), []).append(result)
    findings = []
    for finding in report.findings:
        about = finding.subject
        scenario = about.scenario.casefold() if about.scenario is not None else None
        meant = by_subject.get(
            (about.division, about.submitter, about.system, about.benchmark, scenario), []
        )
        inside = [r for r in meant if f"{finding.path}/".startswith(f"{r.path}/")]
        keys = tuple(r.key for r in inside or meant)
        invalid = tuple(r.key for r in inside or meant if r.status == "invalid")
        error = finding.severity == "error" and finding.waived is None
        findings.append(
            msgspec.structs.replace(finding, results=keys, invalidates=invalid if error else ())
        )
    return msgspec.structs.replace(
        report, format_version=FORMAT_VERSION, results=results, findings=findings
    )
