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


_HEADS = ("Submitter", "Results", "Invalid", "Errors", "Warnings", "Notes", "Report")


def _rows(made: list[Part], suffixes: list[str]) -> list[tuple[str, list[str], list[str]]]:
    rows = []
    for part in made:
        s = part.report.summary
        counts = [f"{n:,}" for n in (s.results, s.invalid, s.errors, s.warnings, s.notes)]
        rows.append((part.submitter, counts, [f"{part.stem}{suffix}" for suffix in suffixes]))
    return rows


def index_markdown(report: Report, made: list[Part], suffixes: list[str]) -> str:
    """The index as Markdown: a row for each submitter, with links to the files beside it."""
    lines = [
        f"# {markdown_text(report.tree)}, {markdown_text(report.round or 'round unknown')}",
        "",
        markdown_text(arrange.verdict_text(report)),
        "",
        f"| {' | '.join(_HEADS)} |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for name, counts, files in _rows(made, suffixes):
        links = " ".join(f"[{file.rpartition('.')[2]}]({file})" for file in files)
        lines.append(f"| {markdown_text(name)} | {' | '.join(counts)} | {links} |")
    loose = tree_findings(report)
    if loose:
        lines += ["", "Findings that concern no submitter:", ""]
        lines += [f"- {markdown_text(_line(finding))}" for finding in loose]
    return "\n".join(lines) + "\n"


def index_html(report: Report, made: list[Part], suffixes: list[str]) -> str:
    """The index as a page without scripts."""
    title = html_text(f"{report.tree}, {report.round or 'round unknown'}")
    head = "".join(f'<th scope="col">{name}</th>' for name in _HEADS)
    body = ""
    for name, counts, files in _rows(made, suffixes):
        cells = "".join(f"<td>{count}</td>" for count in counts)
        links = " ".join(f'<a href="{file}">{file.rpartition(".")[2]}</a>' for file in files)
        body += f'<tr><th scope="row">{html_text(name)}</th>{cells}<td>{links}</td></tr>\n'
    loose = "".join(f"<li>{html_text(_line(finding))}</li>\n" for finding in tree_findings(report))
    if loose:
        loose = f"<h2>Findings that concern no submitter</h2>\n<ul>\n{loose}</ul>\n"
    policy = "default-src 'none'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{title}</title>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        f"<p>{html_text(arrange.verdict_text(report))}</p>\n"
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n{loose}"
        "</main>\n</body>\n</html>\n"
    )


def _line(finding: Finding) -> str:
    return f"{finding.severity} {finding.rule} {arrange.place(finding)}: {finding.message}"
