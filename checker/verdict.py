"""Which results are valid: decided here, once, by what findings say they invalidate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from schemas.report import Finding, Result, Severity, Summary


def with_verdicts(rows: Iterable[Result], findings: Iterable[Finding]) -> list[Result]:
    """The rows with their status: invalid where a finding invalidates them, else valid.

    Only unwaived findings of severity error invalidate anything.
    """
    invalid = {key for finding in findings for key in finding.invalidates}
    return [
        msgspec.structs.replace(row, status="invalid" if row.key in invalid else "valid")
        for row in rows
    ]


def set_order(findings: Iterable[Finding]) -> list[Finding]:
    """Findings without exact repeats."""
    seen: set[bytes] = set()
    kept = []
    for finding in findings:
        key = msgspec.json.encode(finding)
        if key not in seen:
            seen.add(key)
            kept.append(finding)
    return kept


def finding_order(finding: Finding) -> tuple[Any, ...]:
    """By path, line, rule; then by message, so that the order is total."""
    return (finding.path or "", finding.line or 0, finding.rule, finding.message,
            msgspec.json.encode(finding))  # fmt: skip


def summarise(rows: Sequence[Result], findings: Sequence[Finding]) -> Summary:
    """Counts of results and of unwaived findings."""

    def count(severity: Severity) -> int:
        return sum(f.severity == severity and f.waived is None for f in findings)

    valid = sum(row.status == "valid" for row in rows)
    return Summary(
        len(rows), valid, len(rows) - valid, count("error"), count("warning"), count("note"),
        sum(f.waived is not None for f in findings),
    )  # fmt: skip
