"""What a rule is: a function with an id, a severity and a docstring that explains it.

A rule takes the smallest thing it can judge and the round's data and yields a `Problem` for
everything that is wrong. It never opens a file. Its docstring is its documentation: the demand,
then ``Why:``, ``Fix:`` and ``Source:``.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from schemas.report import RuleFacts, Severity
from schemas.round import Round

ERROR: Severity = "error"
WARNING: Severity = "warning"
NOTE: Severity = "note"

FAMILIES = {
    "S": "structure",
    "D": "system description",
    "M": "measurements and configuration",
    "P": "performance",
    "A": "accuracy",
    "C": "compliance",
    "W": "power",
    "N": "network division",
    "R": "audit",
    "X": "the tool itself",
}


class NotJudged(Exception):
    """Raised by a rule before it yields: what it needs is not there, so it says nothing."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong. ``message`` says what was found, then what was asked, with units.

    path, line: where, when it is not the judged thing's own path. severity: replaces the rule's
    where one rule has two degrees. evidence: for audit rules, the values side by side.
    """

    message: str
    found: Any = None
    required: Any = None
    path: str | None = None
    line: int | None = None
    pointer: str | None = None
    fix: str | None = None
    severity: Severity | None = None
    evidence: dict[str, Any] | None = None


Check = Callable[[Any, Round], Iterator[Problem]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A registered rule. ``target`` is the type it judges; ``needs`` what must be there."""

    id: str
    name: str
    severity: Severity
    check: Check
    target: Any
    needs: tuple[str, ...]
    divisions: tuple[str, ...]
    when: Callable[[Round], bool] | None
    summary: str
    why: str
    fix: str
    source: str

    @property
    def family(self) -> str:
        """The family's letter."""
        return self.id[0]

    def applies(self, subject: Any, round: Round) -> bool:
        """Whether this rule can say anything about ``subject``."""
        if not isinstance(subject, self.target):
            return False
        if self.when is not None and not self.when(round):
            return False
        if self.divisions and getattr(subject, "division", None) not in self.divisions:
            return False
        return all(_present(subject, need) for need in self.needs)

    def facts(self) -> RuleFacts:
        """The rule as a report carries it."""
        return RuleFacts(
            self.id, self.name, FAMILIES[self.family], self.severity, self.summary, self.why,
            self.fix, self.source,
        )  # fmt: skip


def _present(subject: Any, need: str) -> bool:
    value = subject
    for part in need.split("."):
        value = getattr(value, part, None)
        if value is None:
            return False
    return bool(value) or isinstance(value, int | float)


def rule(
    id: str,
    severity: Severity,
    *,
    needs: str | tuple[str, ...] = (),
    divisions: tuple[str, ...] = (),
    when: Callable[[Round], bool] | None = None,
) -> Callable[[Check], Rule]:
    """Make a rule of a function.

    needs: attributes (dotted) of the judged thing without which the rule is not applied.
    when: whether the round has such a rule at all.
    """

    def decorate(check: Check) -> Rule:
        parts = _docstring(check)
        # functools.partial and the like never reach here: rules are plain functions.
        function: Any = check
        hints = typing.get_type_hints(function)
        first = next(iter(inspect.signature(function).parameters))
        target = hints[first]
        return Rule(
            id=id,
            name=function.__name__.replace("_", "-"),
            severity=severity,
            check=check,
            target=target,
            needs=(needs,) if isinstance(needs, str) else needs,
            divisions=divisions,
            when=when,
            summary=parts["summary"],
            why=parts["why"],
            fix=parts["fix"],
            source=parts["source"],
        )

    return decorate


def rules_of(module: ModuleType) -> list[Rule]:
    """The rules that a module defines, in the order of their ids."""
    return sorted((v for v in vars(module).values() if isinstance(v, Rule)), key=lambda r: r.id)


_HEADINGS = re.compile(r"^(Why|Fix|Source):\s*", re.MULTILINE)


def _docstring(check: Check) -> dict[str, str]:
    text = inspect.getdoc(check) or ""
    pieces = _HEADINGS.split(text)
    parts = {"summary": pieces[0], "why": "", "fix": "", "source": ""}
    for heading, body in zip(pieces[1::2], pieces[2::2], strict=True):
        parts[heading.lower()] = body
    return {key: " ".join(value.split()) for key, value in parts.items()}
