"""A report for each submitter of a round, ready to send, and an index of them."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from reports import arrange, since
from reports.escape import html_text, markdown_text
from reports.page import asset, environment, policy_hash
from schemas.report import Finding, Report, Result, Selection, Summary

_FOREIGN = re.compile(r"[^A-Za-z0-9._-]+")
_NAME = 80
# Windows refuses these names, whatever the suffix.
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


@dataclass(frozen=True)
class Part:
    """One submitter's report; ``stem`` is the name of its files without their suffix."""

    submitter: str
    stem: str
    report: Report


def parts(report: Report) -> list[Part]:
    """A report for each submitter that has results or findings, by name.

    A finding that concerns results of several submitters is in the report of each. One that concerns
    no submitter, but the tree, is in none: the index counts it.
    """
    owner = {result.key: result.submitter for result in report.results}
    found: dict[str, list[Finding]] = {result.submitter: [] for result in report.results}
    for finding in report.findings:
        for name in arrange.submitters_of(finding, owner):
            found.setdefault(name, []).append(finding)
    gone: dict[str, list[Finding]] = {}
    if report.baseline is not None:
        for result in report.baseline.results_gone:
            owner.setdefault(result.key, result.submitter)
            gone.setdefault(result.submitter, [])
        for finding in report.baseline.gone:
            for name in arrange.submitters_of(finding, owner):
                gone.setdefault(name, []).append(finding)
        for name in gone:
            found.setdefault(name, [])
    chosen = report.selection or Selection()
    made = []
    stems: set[str] = {"index"}
    for name in sorted(found, key=lambda text: (text.casefold(), text)):
        results = [result for result in report.results if result.submitter == name]
        part = msgspec.structs.replace(
            report,
            results=results,
            findings=found[name],
            summary=_summary(results, found[name]),
            selection=msgspec.structs.replace(chosen, submitters=(name,)),
        )
        part = msgspec.structs.replace(
            part, baseline=since.narrowed(report, name, part, gone.get(name, []))
        )
        stem = _stem(name, stems)
        stems.add(stem.casefold())
        made.append(Part(name, stem, part))
    return made


def _summary(results: Sequence[Result], findings: Sequence[Finding]) -> Summary:
    verdicts = Counter(result.status for result in results)
    counts = Counter(f.severity for f in findings if f.waived is None)
    return Summary(
        results=len(results),
        valid=verdicts["valid"],
        invalid=verdicts["invalid"],
        errors=counts["error"],
        warnings=counts["warning"],
        notes=counts["note"],
        waived=sum(f.waived is not None for f in findings),
    )


def _stem(name: str, taken: set[str]) -> str:
    """A file name for a submitter on every system; a digest keeps changed names distinct."""
    safe = _FOREIGN.sub("_", name[:_NAME]).strip(".") or "_"
    if safe == name and safe.casefold() not in taken and not _RESERVED.fullmatch(safe):
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{safe}-{digest}"


def tree_findings(report: Report) -> list[Finding]:
    """The findings that concern no submitter."""
    owner = {result.key: result.submitter for result in report.results}
    return [f for f in report.findings if not arrange.submitters_of(f, owner)]


_HEADS = ("Submitter", "Results", "Invalid", "Errors", "Warnings", "Notes")
_CHANGE_HEADS = ("New", "Gone")


@dataclass(frozen=True)
class _Row:
    """A line of the index: a submitter, its counts by column, its files with their suffixes."""

    submitter: str
    counts: dict[str, int]
    files: list[tuple[str, str]]


def _rows(made: list[Part], suffixes: list[str]) -> list[_Row]:
    rows = []
    for part in made:
        s = part.report.summary
        counts = dict(
            zip(_HEADS[1:], (s.results, s.invalid, s.errors, s.warnings, s.notes), strict=True)
        )
        if part.report.baseline is not None:
            told = part.report.baseline
            counts |= dict(zip(_CHANGE_HEADS, (told.new, len(told.gone)), strict=True))
        files = [(f"{part.stem}{suffix}", suffix.lstrip(".")) for suffix in suffixes]
        rows.append(_Row(part.submitter, counts, files))
    return rows


def _heads(report: Report) -> tuple[str, ...]:
    changes = () if report.baseline is None else _CHANGE_HEADS
    return (*_HEADS, *changes, "Report")


def _title(report: Report) -> str:
    return f"{report.tree}, {report.round or 'round unknown'}"


def index_markdown(report: Report, made: list[Part], suffixes: list[str]) -> str:
    """The index as Markdown: a row for each submitter, with links to the files beside it."""
    heads = _heads(report)
    lines = [
        f"# {markdown_text(_title(report))}",
        "",
        markdown_text(arrange.verdict_text(report)),
        "",
    ]
    told = since.Since.of(report)
    if told is not None:
        lines += [markdown_text(told.headline), ""]
    lines += [f"| {' | '.join(heads)} |", f"|---|{'--:|' * (len(heads) - 2)}---|"]
    for row in _rows(made, suffixes):
        links = " ".join(f"[{name}]({file})" for file, name in row.files)
        counts = " | ".join(f"{count:,}" for count in row.counts.values())
        lines.append(f"| {markdown_text(row.submitter)} | {counts} | {links} |")
    loose = tree_findings(report)
    if loose:
        lines += ["", "Findings that concern no submitter:", ""]
        lines += [f"- {markdown_text(_line(finding))}" for finding in loose]
    return "\n".join(lines) + "\n"


def index_html(report: Report, made: list[Part], suffixes: list[str]) -> str:
    """The index as a page without scripts."""
    from markupsafe import Markup

    style = asset("style.css")
    told = since.Since.of(report)
    return (
        environment()
        .get_template("index.html")
        .render(
            title=_title(report),
            report=report,
            verdict=arrange.verdict_text(report).removeprefix("SUMMARY: "),
            headline=told.headline if told is not None else "",
            heads=_heads(report),
            rows=_rows(made, suffixes),
            loose=[_line(finding) for finding in tree_findings(report)],
            style=Markup(style),
            style_hash=policy_hash(style),
            t=lambda value: Markup(html_text(str(value))),
        )
    )


def _line(finding: Finding) -> str:
    return f"{finding.severity} {finding.rule} {arrange.place(finding)}: {finding.message}"
