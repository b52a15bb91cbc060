"""GitHub workflow commands: findings as annotations on the files of a pull request."""

from __future__ import annotations

from reports import arrange, figures
from reports.escape import github_data, github_property
from reports.since import Since, mark
from schemas.report import Finding, Report

_COMMAND = {"error": "error", "warning": "warning", "note": "notice"}

# GitHub shows ten annotations of a kind and drops the rest of a step without a word.
SHOWN_PER_SEVERITY = 10


def render(report: Report, *, prefix: str = "", limit: int = SHOWN_PER_SEVERITY) -> str:
    """One command per finding, errors first, and a line that sums up.

    ``prefix`` is the tree's path inside the repository. At most ``limit`` findings of each
    severity become annotations, each rule's first place before any rule's second; the rest is
    counted; so is what follows from another finding, while there are others. Waived findings are only
    counted. Findings that are new since the report's baseline come first and are marked.
    """
    lines = []
    folded = arrange.Folded(report.findings)
    for severity, command in _COMMAND.items():
        findings = _spread(report, severity)
        findings.sort(key=lambda f: (f.baseline != "new", folded.cause(f) is not None))
        lines += [_command(command, finding, prefix) for finding in findings[:limit]]
        rest = len(findings) - limit
        if rest > 0:
            text = f"{figures.plural(rest, f'more {severity}')} without an annotation of its own"
            lines.append(f"assay: {text}; the report lists all.")
    since = Since.of(report)
    if since is not None:
        lines.append(f"::notice title=Assay::{github_data(since.headline)}")
    level = "error" if report.failed or not report.summary.results else "notice"
    verdict = github_data(arrange.verdict_text(report))
    lines.append(f"::{level} title=Assay::{verdict}")
    return "\n".join(lines) + "\n"


def _spread(report: Report, severity: str) -> list[Finding]:
    """The standing findings of a severity, so ordered that every rule is heard early."""
    seen: dict[str, int] = {}
    ranked = []
    for finding in report.findings:
        if finding.severity == severity and finding.waived is None:
            seen[finding.rule] = seen.get(finding.rule, 0) + 1
            ranked.append((seen[finding.rule], finding))
    return [finding for _, finding in sorted(ranked, key=lambda pair: pair[0])]


def _command(command: str, finding: Finding, prefix: str) -> str:
    properties = []
    if finding.path:
        path = f"{prefix.rstrip('/')}/{finding.path}" if prefix else finding.path
        properties.append(f"file={github_property(path, 1000)}")
        if finding.line is not None:
            properties.append(f"line={max(finding.line, 1)}")
    title = "new: " if mark(finding) else ""
    properties.append(f"title={github_property(f'{title}{finding.rule} {finding.name}')}")
    message = finding.message
    if not finding.path:
        message = f"{arrange.place(finding)}: {message}"
    if finding.fix:
        message += f"\nFix: {finding.fix}"
    return f"::{command} {','.join(properties)}::{github_data(message)}"
