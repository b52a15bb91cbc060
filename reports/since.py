"""What changed since an earlier report of the same tree, shown first in a report and at each finding."""

from __future__ import annotations

from reports import arrange, figures
from reports.diff import Change, diff
from reports.escape import NAME_LIMIT, one_line
from schemas.report import Finding, Report

_SHOWN = 10


class Since:
    """A report held against an earlier one, the baseline.

    ``gone`` are the baseline's findings that the report lacks, ``unchanged`` how many both have.
    ``verdicts`` are the results of both whose verdict is another one. A finding is the same one as
    in ``assay diff``: by rule, path, pointer and subject.
    """

    def __init__(self, baseline: str, old: Report, new: Report) -> None:
        self.baseline = baseline
        self._report = new
        changes = diff(old, new)
        self._new = {id(finding) for finding in changes.findings_new}
        self.new = changes.findings_new
        self.gone = changes.findings_gone
        self.unchanged = len(new.findings) - len(self.new)
        self.verdicts: list[Change] = changes.verdicts
        self.results_new, self.results_gone = changes.results_new, changes.results_gone
        self._waived = len(changes.findings_waived), len(changes.findings_unwaived)

    def is_new(self, finding: Finding) -> bool:
        """Whether a finding of the report was not in the baseline."""
        return id(finding) in self._new

    def mark(self, finding: Finding) -> str:
        """``new`` for a new finding, else nothing."""
        return "new" if self.is_new(finding) else ""

    @property
    def headline(self) -> str:
        """The counts in one line, errors among them named."""
        parts = [
            f"{len(self.new):,} new{_errors(self.new)}",
            f"{len(self.gone):,} gone{_errors(self.gone)}",
            f"{self.unchanged:,} unchanged",
        ]
        waived, unwaived = self._waived
        parts += [f"{waived:,} now waived"] if waived else []
        parts += [f"{unwaived:,} no longer waived"] if unwaived else []
        return f"Since {one_line(self.baseline, NAME_LIMIT)}: {', '.join(parts)}"

    def changes(self, limit: int | None = _SHOWN) -> list[tuple[str, str]]:
        """What changed as pairs of a word and a text: verdicts, results, then findings, worst first.

        At most ``limit`` of each kind, the rest counted.
        """
        kinds = [
            ("verdict", [f"{c.result}: {c.old} before, {c.new} now" for c in self.verdicts]),
            ("result new", self.results_new),
            ("result gone", self.results_gone),
            ("new", [_text(finding) for finding in _worst_first(self.new)]),
            ("gone", [_text(finding) for finding in _worst_first(self.gone)]),
        ]
        lines = []
        for word, texts in kinds:
            shown = texts if limit is None else texts[:limit]
            lines += [(word, text) for text in shown]
            if len(shown) < len(texts):
                lines.append((word, f"and {len(texts) - len(shown):,} more"))
        return lines


def _worst_first(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda f: (f.waived is not None, arrange.rank(f.severity)))


def _errors(findings: list[Finding]) -> str:
    errors = arrange.standing_errors(findings)
    return f" ({figures.plural(errors, 'error')})" if errors else ""


def _text(finding: Finding) -> str:
    severity = f"waived {finding.severity}" if finding.waived else finding.severity
    return f"{severity} {finding.rule} {finding.name}: {arrange.place(finding)}: {finding.message}"
