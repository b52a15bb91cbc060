"""Applying rules to one thing: problems become findings, and a rule that raises becomes one too."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checker.clean import clean
from checker.machine import MachineFault
from checker.rule import NotJudged, Problem, Rule
from schemas.report import Finding, Subject
from schemas.round import Round

_MAX_PER_RULE_AND_THING = 200


def severity_in(rule: Rule, round: Round) -> str:
    """A rule's severity in a round: its own, its family's or the default; ``off`` drops it."""
    return round.severities.get(rule.id) or round.severities.get(rule.family) or rule.severity


def judge(
    rules: Sequence[Rule], subject: Any, round: Round
) -> tuple[list[Finding], int, list[str]]:
    """Apply every rule that fits. Returns findings, how many rules were applied, ids of the rest
    that judge this type of thing but could not be applied to this one."""
    findings: list[Finding] = []
    applied = 0
    skipped: list[str] = []
    for rule in rules:
        if not isinstance(subject, rule.target):
            continue
        severity = severity_in(rule, round)
        if severity == "off" or not rule.applies(subject, round):
            skipped.append(rule.id)
            continue
        count = 0
        try:
            for problem in rule.check(subject, round):
                count += 1
                if count <= _MAX_PER_RULE_AND_THING:
                    findings.append(finding_of(rule, problem, subject, severity))
            applied += 1
        except NotJudged:
            skipped.append(rule.id)
        except (MachineFault, MemoryError):
            raise
        except Exception as error:
            findings.append(_raised(rule, error, subject))
        if count > _MAX_PER_RULE_AND_THING:
            more = count - _MAX_PER_RULE_AND_THING
            findings.append(
                finding_of(
                    rule,
                    Problem(f"{more} more findings of this rule are not shown"),
                    subject,
                    severity,
                )
            )
    return findings, applied, skipped


def finding_of(rule: Rule, problem: Problem, subject: Any, severity: str) -> Finding:
    """A problem as a finding of the report, with everything made safe to print."""
    return Finding(
        rule=rule.id,
        name=rule.name,
        severity=problem.severity or severity,  # type: ignore[arg-type]
        message=clean(problem.message, 2000),
        path=clean(problem.path if problem.path is not None else subject.path, 4096),
        line=problem.line or None,
        pointer=clean(problem.pointer, 500),
        subject=clean_subject(subject.subject),
        found=clean(problem.found),
        required=clean(problem.required),
        fix=clean(problem.fix or rule.fix, 2000),
        evidence=clean(problem.evidence),
    )


def clean_subject(subject: Subject) -> Subject:
    return Subject(
        clean(subject.division), clean(subject.submitter), clean(subject.system),
        clean(subject.benchmark), clean(subject.scenario),
    )  # fmt: skip


def _raised(rule: Rule, error: Exception, subject: Any) -> Finding:
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    where = f"{Path(last.filename).name}:{last.lineno}" if last else "?"
    return Finding(
        rule="X001",
        name="rule-raised",
        severity="error",
        message=clean(
            f"rule {rule.id} ({rule.name}) stopped with {type(error).__name__}: {error} at {where}; "
            "what it judges was not judged",
            2000,
        ),
        path=clean(getattr(subject, "path", None)),
        subject=clean_subject(getattr(subject, "subject", Subject())),
        fix="this is a mistake of assay: report it with the file named here",
    )
