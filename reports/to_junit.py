"""JUnit XML, which CI servers show as tests: one suite per system, one case per result."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from reports import arrange, figures
from reports.escape import NAME_LIMIT, one_line, visible
from reports.since import Since, mark
from schemas.report import Finding, Report, Result

_FINDINGS_PER_CASE = 50

# XML 1.0 has no way at all to write these, not even as a reference.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def render(report: Report) -> str:
    """The report as JUnit XML: an invalid result fails, what names no result has its own suite.

    The counts of what changed since the report's baseline are a property of every suite, and new
    findings are marked. What follows from another finding comes after it.
    """
    since = Since.of(report)
    folded = arrange.Folded(report.findings)
    attached = arrange.Attached(report)
    suites = []
    for key, results in arrange.by_system(report):
        name = " / ".join(key)
        suites.append(
            _suite(name, [_case(name, r, attached.of(r), folded) for r in results], since)
        )
    groups: dict[str, list[Finding]] = {}
    for finding in attached.loose:
        groups.setdefault(finding.rule, []).append(finding)
    if groups:
        cases = [
            _Case(
                suite="tree",
                name=f"{rule} {found[0].name}",
                findings=found,
                result=None,
                folded=folded,
            )
            for rule, found in groups.items()
        ]
        suites.append(_suite("tree", cases, since))
    narrowed = arrange.selection_text(report)
    name = f"assay ({narrowed})" if narrowed else "assay"
    tests = sum(suite.tests for suite in suites)
    failures = sum(suite.failures for suite in suites)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name={_attribute(name)} tests="{tests}" failures="{failures}" errors="0">',
        *(suite.text for suite in suites),
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


class _Case:
    def __init__(
        self,
        suite: str,
        name: str,
        findings: list[Finding],
        result: Result | None,
        folded: arrange.Folded,
    ) -> None:
        self.suite, self.name, self.folded = suite, name, folded
        findings = sorted(findings, key=lambda finding: folded.cause(finding) is not None)
        self.errors = [f for f in findings if f.severity == "error" and f.waived is None]
        self.others = [f for f in findings if f.severity != "error" or f.waived is not None]
        self.result = result
        self.failed = bool(self.errors) or (result is not None and result.status == "invalid")


class _Suite:
    def __init__(self, tests: int, failures: int, text: str) -> None:
        self.tests, self.failures, self.text = tests, failures, text


def _case(suite: str, result: Result, findings: list[Finding], folded: arrange.Folded) -> _Case:
    return _Case(
        suite=suite,
        name=f"{result.directory} {result.scenario}",
        findings=findings,
        result=result,
        folded=folded,
    )


def _suite(name: str, cases: list[_Case], since: Since | None) -> _Suite:
    failures = sum(case.failed for case in cases)
    lines = [
        f'  <testsuite name={_attribute(name)} tests="{len(cases)}" failures="{failures}" '
        'errors="0" skipped="0">',
        *_properties(since),
        *(line for case in cases for line in _case_lines(case)),
        "  </testsuite>",
    ]
    return _Suite(len(cases), failures, "\n".join(lines))


def _properties(since: Since | None) -> Iterable[str]:
    if since is not None:
        headline = _attribute(since.headline)
        yield f'    <properties><property name="since" value={headline}/></properties>'


def _case_lines(case: _Case) -> Iterable[str]:
    yield f"    <testcase classname={_attribute(case.suite)} name={_attribute(case.name)}>"
    if case.failed:
        kind = case.errors[0].rule if case.errors else "invalid"
        message = case.errors[0].message if case.errors else "the result is invalid"
        if len(case.errors) > 1:
            message = f"{message} (and {figures.plural(len(case.errors) - 1, 'more error')})"
        yield (
            f"      <failure type={_attribute(kind)} message={_attribute(message)}>"
            f"{_listed(case.errors, case.folded)}</failure>"
        )
    told = _told(case.result) if case.result else ""
    if case.others or told:
        yield f"      <system-out>{_text(told)}{_listed(case.others, case.folded)}</system-out>"
    yield "    </testcase>"


def _told(result: Result) -> str:
    metric = result.metric
    value = "no metric" if metric is None else f"{figures.number(metric.value)} {metric.unit}"
    scores = "".join(
        f"{score.metric} {figures.number(score.value)} {arrange.gate_text(score)}".rstrip() + "\n"
        for score in result.accuracy
    )
    return f"{value}\n{scores}"


def _listed(findings: list[Finding], folded: arrange.Folded) -> str:
    lines = []
    # What is new must not be among what is only counted.
    findings = sorted(findings, key=lambda finding: finding.baseline != "new")
    for finding in findings[:_FINDINGS_PER_CASE]:
        cause = folded.cause(finding)
        state = f"follows from {one_line(cause.rule)}: " if cause is not None else ""
        state += f"{mark(finding)} ".lstrip() + ("waived " if finding.waived else "")
        head = f"{state}{finding.severity} {finding.rule} {one_line(arrange.place(finding))}"
        lines.append(f"{head}: {one_line(finding.message)}")
        if finding.fix:
            lines.append(f"  fix: {one_line(finding.fix)}")
    if len(findings) > _FINDINGS_PER_CASE:
        lines.append(f"and {figures.plural(len(findings) - _FINDINGS_PER_CASE, 'more finding')}")
    return _text("\n".join(lines))


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("?", visible(text, 100_000)))


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("?", one_line(text, NAME_LIMIT)))
