"""What the commands that make a submission share: a tree checked, and its verdict in one line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from assay.status import Usage

if TYPE_CHECKING:
    from schemas.report import Report


def round_of(name: str) -> str:
    """A round's own name, ``v6.0`` for ``6.0``."""
    from schemas import UnknownRound, canonical_round_name

    try:
        return canonical_round_name(name)
    except UnknownRound as error:
        raise Usage(str(error)) from error


def checked(tree: Path, round: str | None) -> Report:
    """What the checker says of a tree; other packages' errors as the command line states them."""
    import assay
    from checker.archive import BadArchive
    from checker.engine import Options, check
    from schemas.machine import MachineFault

    try:
        return check(tree, Options(round=round), version=assay.__version__)
    except (FileNotFoundError, BadArchive, MachineFault) as error:
        raise Usage(str(error)) from error


def verdict(report: Report) -> str:
    """One line: what is left to do by hand, the rules with most errors first."""
    s = report.summary
    text = f"{s.valid} of {s.results} results valid; {s.errors} errors, {s.warnings} warnings"
    if not s.errors:
        return text
    counts: dict[str, int] = {}
    for finding in report.findings:
        if finding.severity == "error" and finding.waived is None:
            counts[finding.rule] = counts.get(finding.rule, 0) + 1
    most = sorted(counts, key=lambda rule: (-counts[rule], rule))[:8]
    return f"{text}; left to fix: {', '.join(f'{rule} ({counts[rule]})' for rule in most)}"
