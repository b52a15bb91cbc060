"""How a command ends: its exit status, and the error that the user can fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schemas.report import Report

EXIT_OK, EXIT_ERRORS, EXIT_USAGE = 0, 1, 2


class Usage(Exception):
    """The request cannot be carried out; the message says what can."""


def exit_status(report: Report, *, strict: bool = False) -> int:
    """The exit status that a report asks for."""
    if any(f.rule == "X003" and f.waived is None for f in report.findings):
        return EXIT_USAGE
    if report.summary.errors or (strict and report.summary.warnings):
        return EXIT_ERRORS
    return EXIT_OK
