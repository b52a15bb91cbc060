"""Family X: what the tool itself could not do; all but X002 are made by the engine."""

from __future__ import annotations

from checker.model import (
    AccuracyRun,
    ComplianceTest,
    PerformanceRun,
    PoweredRun,
    RangingRun,
    Result,
    Submitter,
    System,
    Tree,
)
from checker.parse.reading import Fault
from checker.rule import ERROR, FAMILIES, WARNING, Problem, Problems, rule
from schemas.report import RuleFacts, Severity
from schemas.round import Round

_KINDS = {"nul": "nul"}
"""Kinds of faults that are a case of their own."""

_READ = frozenset({"encoding", "unusable"})
"""Kinds of faults in spite of which the rest of the file was read."""


def _problem(fault: Fault, case: str | None = None) -> Problem:
    # Text in another encoding is still read; what is missing from it is judged by other rules.
    return Problem(
        fault.message,
        path=fault.path,
        line=fault.line,
        fix=fault.fix,
        found=fault.kind,
        pointer=fault.pointer,
        damage=fault.kind not in _READ,
        case="encoding" if fault.kind == "encoding" else _KINDS.get(fault.kind, case),
    )


@rule(
    "X002",
    ERROR,
    cases={
        "encoding": WARNING,
        "optional": WARNING,
        "nul": ERROR,
        "compliance": ERROR,
        "power": ERROR,
    },
)
def unreadable_file(
    subject: Result
    | PerformanceRun
    | RangingRun
    | AccuracyRun
    | ComplianceTest
    | System
    | Submitter
    | Tree,
    round: Round,
) -> Problems:
    """Every file of the submission that is needed can be read.

    Why: what cannot be read cannot be judged, and what is not judged must not look like passed.
    Fix: replace the file with the complete one that LoadGen or the accuracy script wrote.
    Source: submission_rules.adoc, "Required files"; not checked never counts as passed.
    """
    if isinstance(subject, System):
        for fault in subject.document.faults if subject.document is not None else []:
            yield _problem(fault)
    elif isinstance(subject, Submitter):
        if subject.mapping is not None:
            for fault in subject.mapping.faults:
                yield _problem(fault)
    elif isinstance(subject, Tree):
        inside = tuple(f"{r.path}/" for s in subject.submitters for r in s.benchmarks)
        for folder in subject.root.walk():
            for fault in folder.faults:
                if not f"{fault.path}/".startswith(inside) or not inside:
                    yield _problem(fault)
    elif isinstance(subject, ComplianceTest):
        for fault in subject.faults():
            yield _problem(fault, "compliance")
    elif isinstance(subject, Result):
        optional = {subject.mlperf_conf.path} if subject.mlperf_conf is not None else set()
        for fault in subject.faults():
            yield _problem(fault, "optional" if fault.path in optional else None)
        if subject.endpoints is not None:
            for fault in subject.endpoints.faults:
                yield _problem(fault)
        for folder in subject.folder.walk():
            if folder is not subject.folder:
                for fault in folder.faults:
                    yield _problem(fault)
    else:
        for fault in subject.faults():
            yield _problem(fault)
        if isinstance(subject, PoweredRun) and subject.power is not None:
            for fault in subject.power.faults:
                yield _problem(fault, "power")


def _engine(id: str, name: str, severity: Severity, summary: str, why: str, fix: str) -> RuleFacts:
    source = "the command line's contract: what was not checked never looks like passed"
    return RuleFacts(
        id=id,
        name=name,
        family=FAMILIES["X"],
        severity=severity,
        summary=summary,
        why=why,
        fix=fix,
        source=source,
    )


ENGINE: tuple[RuleFacts, ...] = (
    _engine(
        "X001", "rule-raised", ERROR, "No rule stopped while it judged.",
        "what a rule could not finish was not judged, and that must not look like passed.",
        "this is a bug in Assay: report it with the file that the finding names.",
    ),
    _engine(
        "X003", "nothing-checked", ERROR, "There was something to check.",
        "a misspelt name or an empty folder would otherwise look like a success (exit status 2).",
        "give the folder that holds closed/, open/ or network/, a submitter's folder, or one run's.",
    ),
    _engine(
        "X004", "round-contradicts-tree", WARNING, "The round given is that of the tree.",
        "seeds, limits and layouts of another round give findings that mean nothing.",
        "leave out --round, or give the round that the finding names.",
    ),
    _engine(
        "X005", "archive-member-refused", ERROR, "Every member of the archive could be unpacked.",
        "a member that leaves the tree, a device or a link out of it is never written.",
        "pack the tree again with plain files and relative paths inside it.",
    ),
    _engine(
        "X006", "waiver-expired", WARNING, "No waiver is past its date.",
        "a waiver holds until the day its owner named.",
        "fix what it waives, or have its owner renew it.",
    ),
    _engine(
        "X007", "waiver-unused", WARNING, "Every waiver matches a finding.",
        "a waiver that matches nothing is misspelt or no longer needed.",
        "remove it, or correct its rule or path.",
    ),
    _engine(
        "X008", "limits-not-applied", WARNING, "The benchmark of a single run folder is known.",
        "without it none of the round's limits can be applied.",
        "add --benchmark BENCHMARK --scenario SCENARIO.",
    ),
    _engine(
        "X009", "manifest-differs", ERROR, "The tree is the one that its manifest describes.",
        "a file that was lost, added or changed after packing is not what was checked.",
        "get the archive again, or pack the tree again with assay pack.",
    ),
)  # fmt: skip
"""Findings that the engine makes itself, so that they can be explained and waived like others."""
