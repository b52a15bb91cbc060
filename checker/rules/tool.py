"""Family X: what the tool itself could not do. X001, X003 to X007 are raised by the engine."""

from __future__ import annotations

from collections.abc import Iterator

from checker.model import (
    AccuracyRun,
    ComplianceTest,
    PerformanceRun,
    Result,
    Submitter,
    System,
    Tree,
)
from checker.parse.reading import Fault
from checker.rule import ERROR, WARNING, Problem, rule
from schemas.report import Severity
from schemas.round import Round


def _problem(fault: Fault, severity: Severity | None = None) -> Problem:
    return Problem(
        fault.message, path=fault.path, line=fault.line, fix=fault.fix, severity=severity,
        found=fault.kind,
    )  # fmt: skip


def _weight(fault: Fault, otherwise: Severity | None = None) -> Severity | None:
    # Text in another encoding is still read; what is missing from it is judged by other rules.
    return WARNING if fault.kind == "encoding" else otherwise


@rule("X002", ERROR)
def unreadable_file(
    subject: Result | PerformanceRun | AccuracyRun | ComplianceTest | System | Submitter | Tree,
    round: Round,
) -> Iterator[Problem]:
    """Every file of the submission that is needed can be read.

    Why: what cannot be read cannot be judged, and what is not judged must not look like passed.
    Fix: replace the file by the one that was written by LoadGen or the accuracy script, whole.
    Source: submission_rules.adoc, "Required files"; not checked never counts as passed.
    """
    family = round.severities.get("C")
    lowered: Severity | None = family if family in ("warning", "note") else None
    if isinstance(subject, System):
        for fault in subject.document.faults if subject.document is not None else []:
            yield _problem(fault, _weight(fault))
    elif isinstance(subject, Submitter):
        if subject.mapping is not None:
            for fault in subject.mapping.faults:
                yield _problem(fault, _weight(fault))
    elif isinstance(subject, Tree):
        inside = tuple(f"{r.path}/" for s in subject.submitters for r in s.benchmarks)
        for folder in subject.root.walk():
            for fault in folder.faults:
                if not f"{fault.path}/".startswith(inside) or not inside:
                    yield _problem(fault)
    elif isinstance(subject, ComplianceTest):
        for fault in subject.faults():
            yield _problem(fault, _weight(fault, lowered))
    elif isinstance(subject, Result):
        optional = {subject.mlperf_conf.path} if subject.mlperf_conf is not None else set()
        for fault in subject.faults():
            yield _problem(fault, WARNING if fault.path in optional else _weight(fault))
        if subject.endpoints is not None:
            for fault in subject.endpoints.faults:
                yield _problem(fault, _weight(fault))
        for folder in subject.folder.walk():
            if folder is not subject.folder:
                for fault in folder.faults:
                    yield _problem(fault)
    else:
        for fault in subject.faults():
            yield _problem(fault, _weight(fault))
        if isinstance(subject, PerformanceRun) and subject.power is not None:
            for fault in subject.power.faults:
                yield _problem(fault, _weight(fault, None if round.power.mandatory else WARNING))
