"""What changed since an earlier report of the same tree, shown first in a report and at each finding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from reports import arrange, figures
from reports.diff import diff, titled
from reports.escape import NAME_LIMIT, one_line
from schemas.report import Baseline, Finding, Report, State, Verdict

_SHOWN = 10


def compared(name: str, old: Report, new: Report) -> Report:
    """The new report with what changed since the old one, whose file is called ``name``.

    A finding is the same one as in ``assay diff``: by rule, path, pointer and subject.
    """
    changes = diff(old, new)
    is_new = {id(finding) for finding in changes.findings_new}
    results_new, results_gone = set(changes.results_new), set(changes.results_gone)
    changed = {change.result for change in [*changes.verdicts, *changes.metrics, *changes.accuracy]}

    def state(title: str) -> State:
        if title in results_new:
            return "new"
        return "changed" if title in changed else "unchanged"

    replace = msgspec.structs.replace
    return replace(
        new,
        results=[replace(r, baseline=state(arrange.title_of(r))) for r in new.results],
        findings=[
            replace(f, baseline="new" if id(f) in is_new else "unchanged") for f in new.findings
        ],
        baseline=Baseline(
            name=name,
            new=len(is_new),
            unchanged=len(new.findings) - len(is_new),
            gone=[replace(f, baseline=None) for f in changes.findings_gone],
            verdicts=[Verdict(c.result, str(c.old), str(c.new)) for c in changes.verdicts],  # type: ignore[arg-type]
            results_new=changes.results_new,
            results_gone=[
                replace(r, runs=[], rules_not_applied=[], limits=None, baseline=None)
                for title, r in titled(old, new).items()
                if title in results_gone
            ],
            waived=[f.id for f in changes.findings_waived],
            unwaived=[f.id for f in changes.findings_unwaived],
        ),
    )


def narrowed(
    report: Report, submitter: str, part: Report, gone: Iterable[Finding]
) -> Baseline | None:
    """What changed since the baseline for one submitter.

    ``part`` has the submitter's results and findings, ``gone`` are the baseline's.
    """
    whole = report.baseline
    if whole is None:
        return None
    titles = {arrange.title_of(result) for result in part.results}
    ids = {finding.id for finding in part.findings}
    new = sum(finding.baseline == "new" for finding in part.findings)
    return Baseline(
        name=whole.name,
        new=new,
        unchanged=len(part.findings) - new,
        gone=list(gone),
        verdicts=[v for v in whole.verdicts if v.result in titles],
        results_new=[title for title in whole.results_new if title in titles],
        results_gone=[r for r in whole.results_gone if r.submitter == submitter],
        waived=[id for id in whole.waived if id in ids],
        unwaived=[id for id in whole.unwaived if id in ids],
    )


@dataclass(frozen=True)
class Changed:
    """One thing that changed: what kind of change, in words, and where, if that is a place."""

    word: str
    text: str
    place: str = ""


class Since:
    """The words for what a report says of its baseline."""

    def __init__(self, report: Report, baseline: Baseline) -> None:
        self.baseline = baseline
        self.new = [finding for finding in report.findings if finding.baseline == "new"]

    @staticmethod
    def of(report: Report) -> Since | None:
        """What changed since the report's baseline; None where it was compared with none."""
        return None if report.baseline is None else Since(report, report.baseline)

    @property
    def headline(self) -> str:
        """The counts in one line, errors among them named."""
        told = self.baseline
        parts = [
            f"{told.new:,} new{_errors(self.new)}",
            f"{len(told.gone):,} gone{_errors(told.gone)}",
            f"{told.unchanged:,} unchanged",
        ]
        parts += [f"{len(told.waived):,} now waived"] if told.waived else []
        parts += [f"{len(told.unwaived):,} no longer waived"] if told.unwaived else []
        return f"Since {one_line(told.name, NAME_LIMIT)}: {', '.join(parts)}"

    def changes(self, limit: int | None = _SHOWN) -> list[Changed]:
        """What changed: verdicts, results, then findings, the worst first.

        At most ``limit`` of each kind, the rest counted. What follows from a finding that is listed is
        counted with it.
        """
        told = self.baseline
        kinds = [
            ("verdict", [(f"{v.result}: {v.old} before, {v.new} now", "") for v in told.verdicts]),
            ("result new", [(title, "") for title in told.results_new]),
            ("result gone", [(arrange.title_of(result), "") for result in told.results_gone]),
            ("new", _texts(self.new)),
            ("gone", _texts(told.gone)),
        ]
        lines = []
        for word, texts in kinds:
            shown = texts if limit is None else texts[:limit]
            lines += [Changed(word, *text) for text in shown]
            if len(shown) < len(texts):
                lines.append(Changed(word, f"and {len(texts) - len(shown):,} more"))
        return lines


def mark(finding: Finding) -> str:
    """``new`` for a finding that the baseline lacks, else nothing."""
    return "new" if finding.baseline == "new" else ""


def _errors(findings: list[Finding]) -> str:
    errors = arrange.standing_errors(findings)
    return f" ({figures.plural(errors, 'error')})" if errors else ""


def _texts(findings: list[Finding]) -> list[tuple[str, str]]:
    """Each finding that follows from none of the others, in words, and its place."""
    folded = arrange.Folded(findings)
    texts = []
    for finding in folded.in_order(findings):
        if folded.cause(finding) is None:
            severity = f"waived {finding.severity}" if finding.waived else finding.severity
            text = f"{severity} {finding.rule} {finding.name}: {finding.message}"
            more = arrange.following_text(folded.following(finding))
            texts.append((f"{text}; {more}" if more else text, arrange.place(finding)))
    return texts
