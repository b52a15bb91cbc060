"""Applying rules to one thing: problems become findings, and a rule that raises becomes one too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from checker.causes import Link
from checker.clean import clean
from checker.model import Submitter, Tree
from checker.rule import NotJudged, Problem, Rule, attribute, is_present
from schemas.enforcement import severity_of
from schemas.enforcement_file import Severity
from schemas.machine import MachineFault
from schemas.report import Finding, Subject
from schemas.round import Round

_MAX_PER_RULE_AND_THING = 200

_UNREAD: Any = object()


class _Ready(msgspec.Struct, frozen=True):
    """A rule with what is decided once for a type, a division and a round."""

    rule: Rule
    severity: Severity
    needs: int


class _Needs(msgspec.Struct, frozen=True):
    """What some rules need of a thing: attributes that must be there, those that must have one of
    some values, and those handed over, with whether they may be absent."""

    required: tuple[str, ...]
    only: tuple[tuple[str, tuple[Any, ...]], ...]
    handed: tuple[tuple[str, bool], ...]


class _Prepared(msgspec.Struct, frozen=True):
    """The rules that fit a type in a division, what they need (`_Ready.needs` counts in it), and the
    ids of those that do not fit."""

    ready: list[_Ready]
    needs: list[_Needs]
    left_out: list[str]


class Judged(msgspec.Struct, frozen=True):
    """What a set of rules says of one thing.

    applied: how many rules were applied. skipped: ids of the rest that judge this type of thing but
    could not be applied to this one. links: what is known of the findings' causes.
    """

    findings: list[Finding]
    applied: int
    skipped: list[str]
    links: list[Link] = []


class Judge:
    """Rules, ready to be applied in one round; which of them fit a thing is looked up, not asked.

    audit: severities are those of `audit`.
    """

    def __init__(self, rules: Iterable[Rule], round: Round, *, audit: bool = False) -> None:
        self.rules: Sequence[Rule] = tuple(rules)
        self.targets = frozenset(rule.target for rule in self.rules)
        self.round = round
        self.audit = audit
        self._prepared: dict[tuple[type, str | None], _Prepared] = {}

    def __call__(self, thing: Any) -> Judged:
        """Apply every rule that fits. ``thing`` has ``path``, ``subject`` and ``division``."""
        division = getattr(thing, "division", None)
        key = (type(thing), division)
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = self._prepare(type(thing), division)
        findings: list[Finding] = []
        skipped = list(prepared.left_out)
        links: list[Link] = []
        applied = 0
        read: dict[str, tuple[Any, bool]] = {}
        given: list[Any] = [_UNREAD] * len(prepared.needs)
        for entry in prepared.ready:
            arguments = given[entry.needs]
            if arguments is _UNREAD:
                arguments = _arguments(thing, prepared.needs[entry.needs], read)
                given[entry.needs] = arguments
            if arguments is None:
                skipped.append(entry.rule.id)
                continue
            applied += self._apply(entry, thing, arguments, findings, skipped, links)
        return Judged(findings, applied, skipped, links)

    def _prepare(self, kind: type, division: str | None) -> _Prepared:
        ready, left_out = [], []
        places: dict[_Needs, int] = {}
        for rule in self.rules:
            if not issubclass(kind, rule.target):
                continue
            severity = self._severity(rule, None, division)
            fits = rule.when is None or rule.when(self.round)
            fits = fits and (not rule.divisions or division in rule.divisions)
            if severity == "off" or not fits:
                left_out.append(rule.id)
                continue
            handed = tuple((need.path, need.optional) for need in rule.needs)
            place = places.setdefault(_Needs(rule.required, rule.only, handed), len(places))
            ready.append(_Ready(rule, severity, place))
        return _Prepared(ready, list(places), left_out)

    def _severity(self, rule: Rule, case: str | None, division: str | None) -> Severity:
        default = rule.severity if case is None else rule.cases[case]
        return severity_of(
            rule.id,
            default,
            round=self.round.name,
            case=case,
            division=division,
            audit=self.audit,
        )

    def _apply(
        self,
        entry: _Ready,
        thing: Any,
        arguments: list[Any],
        findings: list[Finding],
        skipped: list[str],
        links: list[Link],
    ) -> int:
        rule = entry.rule
        count = 0
        try:
            for problem in rule.check(thing, self.round, *arguments):
                severity = entry.severity
                if problem.case is not None:
                    severity = self._severity(rule, problem.case, getattr(thing, "division", None))
                if severity == "off":
                    continue
                count += 1
                if count <= _MAX_PER_RULE_AND_THING:
                    finding = finding_of(rule, problem, thing, severity)
                    findings.append(finding)
                    presumed = problem.if_whole or (finding.path if not problem.line else None)
                    if problem.damage or presumed is not None:
                        links.append(Link(finding, problem.damage, presumed))
        except NotJudged:
            skipped.append(rule.id)
            return 0
        except (MachineFault, MemoryError):
            raise
        except Exception as error:
            findings.append(_raised(rule, error, thing))
            return 0
        if count > _MAX_PER_RULE_AND_THING:
            more = count - _MAX_PER_RULE_AND_THING
            rest = Problem(f"{more:,} more findings of this rule are not shown")
            findings.append(finding_of(rule, rest, thing, entry.severity))
        return 1


def _arguments(thing: Any, needs: _Needs, read: dict[str, tuple[Any, bool]]) -> list[Any] | None:
    """The values of rules' needs, each read once for a thing; None where one is absent.

    read: what was read of the thing so far, and whether it is present.
    """
    for path in needs.required:
        found = read.get(path)
        if found is None:
            found = read[path] = _read(thing, path)
        if not found[1]:
            return None
    for path, wanted in needs.only:
        found = read.get(path)
        if found is None:
            found = read[path] = _read(thing, path)
        if found[0] not in wanted:
            return None
    arguments = []
    for path, optional in needs.handed:
        found = read.get(path)
        if found is None:
            found = read[path] = _read(thing, path)
        if not (optional or found[1]):
            return None
        arguments.append(found[0])
    return arguments


def _read(thing: Any, path: str) -> tuple[Any, bool]:
    value = attribute(thing, path)
    return value, is_present(value)


_WIDE = (Submitter, Tree)
"""What is too large for its findings to name every result below, or to make them all invalid."""


def finding_of(rule: Rule, problem: Problem, thing: Any, severity: str) -> Finding:
    """A problem as a finding of the report, with everything made safe to print."""
    results = concerned(rule, problem.results, thing)
    invalidates = rule.invalidates
    if invalidates is None:
        invalidates = not isinstance(thing, _WIDE)
    return Finding(
        rule=rule.id,
        name=rule.name,
        severity=severity,  # type: ignore[arg-type]
        message=clean(problem.message, 2000),
        path=clean(problem.path if problem.path is not None else thing.path, 4096),
        line=problem.line or None,
        pointer=clean(problem.pointer, 500),
        subject=clean_subject(thing.subject),
        found=clean(problem.found),
        required=clean(problem.required),
        fix=clean(problem.fix or rule.fix, 2000),
        evidence=clean(problem.evidence),
        results=results,
        invalidates=()
        if severity != "error" or not invalidates
        else results
        if problem.invalidates is None
        else problem.invalidates,
        count=1 if problem.count is None else problem.count,
    )


def concerned(rule: Rule, narrowed: tuple[str, ...] | None, thing: Any) -> tuple[str, ...]:
    """The keys of the results that a finding about ``thing`` concerns."""
    if narrowed is not None:
        return narrowed
    if isinstance(thing, _WIDE) and not rule.invalidates:
        return ()
    return tuple(getattr(thing, "results", ()))


def clean_subject(subject: Subject) -> Subject:
    """A subject with every text made safe to print."""
    return Subject(
        division=clean(subject.division),
        submitter=clean(subject.submitter),
        system=clean(subject.system),
        benchmark=clean(subject.benchmark),
        scenario=clean(subject.scenario),
    )


def _raised(rule: Rule, error: Exception, thing: Any) -> Finding:
    results = concerned(rule, None, thing)
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    where = f"{Path(last.filename).name}:{last.lineno}" if last else "?"
    return Finding(
        rule="X001",
        name="rule-raised",
        severity="error",
        message=clean(
            f"rule {rule.id} ({rule.name}) stopped with {type(error).__name__}: {error} at {where}; "
            "the rule was not applied here",
            2000,
        ),
        path=clean(getattr(thing, "path", None)),
        subject=clean_subject(getattr(thing, "subject", Subject())),
        fix="this is a bug in Assay: please report it with the file named here",
        results=results,
        invalidates=results,
    )
