"""A report's results and findings put in the order in which they are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reports import figures
from schemas.report import SEVERITIES, AccuracyScore, Finding, Report, Result, RuleFacts, Subject

_RANK: dict[str, int] = {severity: rank for rank, severity in enumerate(SEVERITIES)}


def rank(severity: str) -> int:
    """A severity's place in order, the worst first."""
    return _RANK[severity]


SystemKey = tuple[str, str, str]


def system_key(result: Result) -> SystemKey:
    """What makes a system one: division, submitter, system."""
    return (result.division, result.submitter, result.system)


def by_system(report: Report) -> list[tuple[SystemKey, list[Result]]]:
    """The results of each system, systems in the order of the report."""
    systems: dict[SystemKey, list[Result]] = {}
    for result in report.results:
        systems.setdefault(system_key(result), []).append(result)
    return list(systems.items())


def benchmark_of(result: Result) -> str:
    """The benchmark's canonical name, or the folder's where the round knows no such benchmark."""
    return result.benchmark or result.directory


_SCENARIOS = {
    "".join(c for c in name.lower() if c.isalpha()): name
    for name in ("SingleStream", "MultiStream", "Server", "Offline", "Interactive")
}


def scenario_of(result: Result) -> str:
    """The scenario in its canonical spelling, or as the folder has it where it is none of the five."""
    return _SCENARIOS.get(
        "".join(c for c in result.scenario.lower() if c.isalpha()), result.scenario
    )


def title_of(result: Result) -> str:
    """The result in one line."""
    return (
        f"{result.division} / {result.submitter} / {result.system} / "
        f"{result.directory} / {result.scenario}"
    )


@dataclass
class RuleGroup:
    """All findings of one rule; ``standing`` ones count, ``waived`` ones do not.

    ``following`` are findings of any rule that are folded into these, because they follow from them.
    """

    rule: str
    name: str
    severity: str
    facts: RuleFacts | None
    standing: list[Finding] = field(default_factory=list)
    waived: list[Finding] = field(default_factory=list)
    following: list[Finding] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        """Standing findings first, then the waived ones."""
        return [*self.standing, *self.waived]

    @property
    def counts(self) -> str:
        """How many there are of each severity, worst first, and how many are waived."""
        return ", ".join(_counts(self.findings))

    @property
    def folded(self) -> str:
        """How many findings follow from these, in words; empty where none do."""
        return following_text(self.following)

    @property
    def results(self) -> set[str]:
        """The keys of the results that the standing findings concern, and what follows from them."""
        concerned = [*self.standing, *(f for f in self.following if f.waived is None)]
        return {key for finding in concerned for key in finding.results}

    @property
    def submitters(self) -> list[str]:
        """The submitters that the standing findings concern."""
        return sorted({f.subject.submitter for f in self.standing if f.subject.submitter})

    @property
    def fixes(self) -> list[str]:
        """The distinct fixes of the findings, or the rule's own where they name none."""
        found = list(dict.fromkeys(f.fix for f in self.findings if f.fix))
        if not found and self.facts and self.facts.fix:
            return [self.facts.fix]
        return found


def _counts(findings: Sequence[Finding]) -> list[str]:
    counts = Counter(finding.severity for finding in findings if finding.waived is None)
    parts = [figures.plural(counts[s], s) for s in SEVERITIES if counts[s]]
    waived = sum(finding.waived is not None for finding in findings)
    return [*parts, f"{waived:,} waived"] if waived else parts


def following_text(findings: Sequence[Finding]) -> str:
    """How many findings follow from another one, in words; empty where none do."""
    if not findings:
        return ""
    return f"{', '.join(_counts(findings))} that follow{'s' if len(findings) == 1 else ''} from it"


class Folded:
    """Which findings follow from which: a truncated log is one cause, the rest is folded into it.

    A finding that stands is not folded into one that is waived, nor into one that follows itself.
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        leads = {f.id: f for f in findings if f.id and f.follows is None}
        self._following: dict[int, list[Finding]] = {}
        self._causes: dict[int, Finding] = {}
        for finding in findings:
            cause = leads.get(finding.follows) if finding.follows else None
            if cause is not None and (cause.waived is None or finding.waived is not None):
                self._following.setdefault(id(cause), []).append(finding)
                self._causes[id(finding)] = cause
        for found in self._following.values():
            found.sort(key=lambda f: (f.waived is not None, _RANK[f.severity]))

    def cause(self, finding: Finding) -> Finding | None:
        """The finding that this one is folded into, if any."""
        return self._causes.get(id(finding))

    def following(self, finding: Finding) -> list[Finding]:
        """What is folded into a finding, the worst first."""
        return self._following.get(id(finding), [])

    def in_order(self, findings: Iterable[Finding]) -> list[Finding]:
        """Findings, the worst first, what follows from one right behind it."""

        def worst(lead: Finding) -> int:
            heard = (lead, *self.following(lead))
            return min(len(_RANK) if f.waived else _RANK[f.severity] for f in heard)

        leads = [finding for finding in findings if self.cause(finding) is None]
        return [f for lead in sorted(leads, key=worst) for f in (lead, *self.following(lead))]

    def why(self, findings: Iterable[Finding]) -> tuple[Finding | None, int]:
        """Of a result's findings the one that makes it invalid, and how many more errors there are.

        The cause, where the first error follows from one.
        """
        errors = [f for f in findings if f.severity == "error" and f.waived is None]
        errors.sort(key=lambda finding: self.cause(finding) is not None)
        if not errors:
            return None, 0
        first = self.cause(errors[0]) or errors[0]
        return first, sum(finding is not first for finding in errors)


def by_rule(report: Report, folded: Folded | None = None) -> list[RuleGroup]:
    """The findings of each rule: errors first, rules of which all is waived last.

    With ``folded`` a finding that follows from another is in the group of that one only, as one of
    its ``following``, and a group is as severe as they are.
    """
    facts = {rule.id: rule for rule in report.rules}
    groups: dict[str, RuleGroup] = {}
    for finding in report.findings:
        if folded is not None and folded.cause(finding) is not None:
            continue
        group = groups.get(finding.rule)
        if group is None:
            group = RuleGroup(finding.rule, finding.name, "note", facts.get(finding.rule))
            groups[finding.rule] = group
        (group.waived if finding.waived else group.standing).append(finding)
        if folded is not None:
            group.following += folded.following(finding)
    for group in groups.values():
        heard = [*group.standing, *(f for f in group.following if f.waived is None)]
        group.severity = min((f.severity for f in heard or group.waived), key=lambda s: _RANK[s])
    return sorted(groups.values(), key=lambda g: (not g.standing, _RANK[g.severity], g.rule))


def causes(groups: Iterable[RuleGroup]) -> list[RuleGroup]:
    """What to fix first: of groups by rule those with errors, those on most results first."""
    bad = [group for group in groups if group.standing and group.severity == "error"]

    def order(group: RuleGroup) -> tuple[int, int, str]:
        return -len(group.results), -len(group.standing) - len(group.following), group.rule

    return sorted(bad, key=order)


def selection_text(report: Report) -> str:
    """What a narrowed check was narrowed to; empty for a whole one."""
    chosen = report.selection
    if chosen is None:
        return ""
    parts = []
    if chosen.select:
        parts.append(f"only rules {', '.join(chosen.select)}")
    if chosen.ignore:
        parts.append(f"without rules {', '.join(chosen.ignore)}")
    if chosen.submitters:
        parts.append(f"only {', '.join(chosen.submitters)}")
    if chosen.divisions:
        parts.append(f"only {', '.join(chosen.divisions)}")
    return "; ".join(parts)


def unchecked(report: Report) -> list[str]:
    """What was not checked: what the check was narrowed by, then what was not there."""
    narrowed = selection_text(report)
    return (
        [f"this check was narrowed: {narrowed}", *report.not_checked]
        if narrowed
        else report.not_checked
    )


def place(finding: Finding) -> str:
    """Where a finding is: path, line and pointer, as far as known."""
    text = finding.path or ""
    if finding.line is not None:
        text += f":{finding.line}"
    if finding.pointer:
        text += f" {finding.pointer}" if text else finding.pointer
    return text or subject_text(finding.subject) or "whole tree"


def subject_text(subject: Subject) -> str:
    """What a finding is about, as one line; empty for the whole tree."""
    parts = (
        subject.division,
        subject.submitter,
        subject.system,
        subject.benchmark,
        subject.scenario,
    )
    return " / ".join(part for part in parts if part)


class Attached:
    """Which findings concern which result, as the findings state it.

    ``loose`` are those that concern no result of the report: a whole submitter, the whole tree.
    """

    def __init__(self, report: Report) -> None:
        self._by_key: dict[str, list[Finding]] = {result.key: [] for result in report.results}
        self.loose: list[Finding] = []
        for finding in report.findings:
            known = [key for key in finding.results if key in self._by_key]
            for key in known:
                self._by_key[key].append(finding)
            if not known:
                self.loose.append(finding)

    def of(self, result: Result) -> list[Finding]:
        """The findings of one result, in the order of the report."""
        return self._by_key[result.key]


def submitters_of(finding: Finding, owner: Mapping[str, str]) -> list[str]:
    """The submitters that a finding concerns; ``owner`` has the submitter of each result's key."""
    names = {owner[key] for key in finding.results if key in owner}
    return sorted(names | ({finding.subject.submitter} if finding.subject.submitter else set()))


@dataclass
class Tally:
    """Results by verdict and findings by severity, of one submitter or benchmark."""

    name: str
    valid: int = 0
    invalid: int = 0
    error: int = 0
    warning: int = 0
    note: int = 0
    waived: int = 0


WHOLE_TREE = "whole tree"


def counted(
    results: Iterable[tuple[str, str]], findings: Iterable[tuple[str, Iterable[str]]]
) -> list[Tally]:
    """A row for each name, most invalid results first.

    results: name and verdict of each; findings: the severity of each and the names that it concerns.
    """
    rows: dict[str, Tally] = {}
    for name, status in results:
        row = rows.setdefault(name, Tally(name))
        setattr(row, status, getattr(row, status) + 1)
    for severity, names in findings:
        for name in names:
            row = rows.setdefault(name, Tally(name))
            setattr(row, severity, getattr(row, severity) + 1)
    return sorted(
        rows.values(), key=lambda t: (-t.invalid, -t.error, -t.warning, t.name.casefold())
    )


def tallies(report: Report) -> list[Tally]:
    """A row for each submitter.

    A finding counts for each submitter that it concerns, whether or not it names a result; one that
    concerns none counts for the whole tree.
    """
    owner = {result.key: result.submitter for result in report.results}
    return counted(
        ((result.submitter, result.status) for result in report.results),
        (
            (finding.severity, submitters_of(finding, owner) or [WHOLE_TREE])
            for finding in report.findings
            if finding.waived is None
        ),
    )


def standing_errors(findings: Iterable[Finding]) -> int:
    """How many findings are errors that nobody waived."""
    return sum(f.severity == "error" and f.waived is None for f in findings)


def counts_text(report: Report) -> str:
    """The summary's counts of findings as words."""
    summary = report.summary
    parts = [
        figures.plural(summary.errors, "error"),
        figures.plural(summary.warnings, "warning"),
        figures.plural(summary.notes, "note"),
    ]
    if summary.waived:
        parts.append(f"{summary.waived:,} waived")
    return ", ".join(parts)


def verdict_text(report: Report) -> str:
    """The last line of every readable format.

    It begins as the official checker's does, because scripts and mails look for those words.
    """
    summary = report.summary
    if report.failed:
        head = "SUMMARY: submission has errors"
    elif summary.results == 0:
        return f"SUMMARY: nothing was checked ({counts_text(report)})"
    else:
        head = "SUMMARY: submission looks OK"
    narrowed = selection_text(report)
    if narrowed:
        head += f" for what was selected ({narrowed})"
    return (
        f"{head}: {summary.valid:,} of {figures.plural(summary.results, 'result')} valid; "
        f"{counts_text(report)}"
    )


def gate_text(score: AccuracyScore) -> str:
    """The bounds of an accuracy score as words; empty where there is no gate."""
    parts = []
    if score.target is not None:
        parts.append(f"≥ {figures.number(score.target)}")
    if score.limit is not None:
        parts.append(f"≤ {figures.number(score.limit)}")
    return " and ".join(parts)


def gated(score: AccuracyScore) -> bool:
    """Whether a gate applies to the score: the open division states accuracy and has none."""
    return score.passed is not None and (score.target is not None or score.limit is not None)


def margin(score: AccuracyScore) -> float | None:
    """By how much the score clears the nearer gate, relative to it; below zero it fails."""
    margins = []
    if score.target is not None:
        margins.append((score.value - score.target) / (abs(score.target) or 1.0))
    if score.limit is not None:
        margins.append((score.limit - score.value) / (abs(score.limit) or 1.0))
    return min(margins) if margins else None


def tightest(result: Result) -> tuple[AccuracyScore, float] | None:
    """The accuracy score with the smallest margin to a gate that applies to it."""
    margins = [(s, m) for s in result.accuracy if gated(s) and (m := margin(s)) is not None]
    return min(margins, key=lambda pair: pair[1]) if margins else None


def not_applied(report: Report) -> list[tuple[str, int]]:
    """Rules that were not applied, and to how many results; most frequent first."""
    counts: dict[str, int] = {}
    for result in report.results:
        for rule in result.rules_not_applied:
            counts[rule] = counts.get(rule, 0) + 1
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


_IDS = 8
"""How many rules are listed by their ids; more are counted."""


@dataclass(frozen=True)
class Unapplied:
    """What of one family of rules was not applied: to how many results, and why.

    ``nowhere`` are those that were applied to no result; ``all`` has these and the others.
    """

    family: str
    rules: int
    nowhere: list[str]
    all: list[tuple[str, int]]
    reason: str

    @property
    def words(self) -> str:
        """The rules that were applied to no result, in one line; empty where there are none."""
        if not self.nowhere:
            return ""
        count = f"{len(self.nowhere):,} of {figures.plural(self.rules, 'rule')}"
        if len(self.nowhere) == self.rules:
            count = figures.plural(self.rules, "rule")
        shown = f", {', '.join(self.nowhere)}" if len(self.nowhere) <= _IDS else ""
        return f"{self.family} ({count}{shown}): {self.reason}"


def unapplied(report: Report) -> list[Unapplied]:
    """The rules that were not applied to every result, by family in the order of the rules."""
    counts = dict(not_applied(report))
    families: dict[str, list[str]] = {}
    for rule in report.rules:
        families.setdefault(rule.family, []).append(rule.id)
    known = {rule.id for rule in report.rules}
    families["other"] = [rule for rule in counts if rule not in known]
    reasons = {}
    if all(result.power is None for result in report.results):
        reasons["power"] = "no result has power"
    if all(result.division != "network" for result in report.results):
        reasons["network division"] = "no result is in the network division"
    found = []
    for family, rules in families.items():
        skipped = [(rule, counts[rule]) for rule in rules if rule in counts]
        nowhere = [rule for rule, count in skipped if count == len(report.results)]
        if skipped:
            reason = reasons.get(family, "no result has what they check")
            found.append(
                Unapplied(
                    family=family, rules=len(rules), nowhere=nowhere, all=skipped, reason=reason
                )
            )
    return found


def unapplied_words(report: Report) -> list[str]:
    """What was not checked, a line each: what was left out or absent, then rules by family."""
    families = unapplied(report)
    lines = [*unchecked(report), *(each.words for each in families if each.words)]
    partly = sum(len(each.all) - len(each.nowhere) for each in families)
    if partly:
        was = "was" if partly == 1 else "were"
        lines.append(
            f"{figures.plural(partly, 'rule')} {was} applied to some results only: the HTML and JSON "
            "reports say to which"
        )
    return lines


def accelerators(result: Result) -> float | None:
    """How many accelerators the system has, or None where its description does not say."""
    nodes = figures.as_number(result.system_description.get("number_of_nodes"))
    each = figures.as_number(result.system_description.get("accelerators_per_node"))
    return None if nodes is None or each is None else nodes * each
