"""Which results are valid: decided here, once, by what findings say they invalidate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from schemas.report import Finding, Result, Summary


def with_verdicts(rows: Iterable[Result], findings: Iterable[Finding]) -> list[Result]:
    """The rows with their status: invalid where a finding invalidates them, else valid.

    Only unwaived findings of severity error invalidate anything.
    """
    invalid = {key for finding in findings for key in finding.invalidates}
    return [
        msgspec.structs.replace(row, status="invalid" if row.key in invalid else "valid")
        for row in rows
    ]


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Findings without exact repeats, by path, line and rule.

    Then by message and by all that they hold, so that the order is total.
    """
    encode = msgspec.json.Encoder().encode
    kept = {encode(finding): finding for finding in findings}

    def order(item: tuple[bytes, Finding]) -> tuple[Any, ...]:
        data, finding = item
        return finding.path or "", finding.line or 0, finding.rule, finding.message, data

    return [finding for _, finding in sorted(kept.items(), key=order)]


def summarise(rows: Sequence[Result], findings: Sequence[Finding]) -> Summary:
    """Counts of results and of unwaived findings."""

    count = Counter(f.severity for f in findings if f.waived is None)
    valid = sum(row.status == "valid" for row in rows)
    return Summary(
        results=len(rows),
        valid=valid,
        invalid=len(rows) - valid,
        errors=count["error"],
        warnings=count["warning"],
        notes=count["note"],
        waived=sum(f.waived is not None for f in findings),
    )
