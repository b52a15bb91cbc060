"""Where the rules of family C apply, and how a test's shortfall becomes a problem."""

from __future__ import annotations

from collections.abc import Iterable

from checker.compliance.evidence import Shortfall
from checker.rule import Problem, Problems
from schemas.round import Round

JUDGED = ("closed", "network")


def has_tests(round: Round) -> bool:
    """Whether the round has compliance tests."""
    return bool(round.compliance)


def problems(shortfalls: Iterable[Shortfall], path: str) -> Problems:
    """Shortfalls as problems at one place."""
    for one in shortfalls:
        yield Problem(one.message, one.found, one.required, path=path, line=one.line, case=one.case)
