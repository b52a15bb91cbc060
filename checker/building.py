"""The report of what was examined: findings of all trees together, verdicts, counts."""

from __future__ import annotations

from collections.abc import Sequence

from checker.audit.join import Examined, compare
from checker.causes import identified
from checker.notices import not_checked
from checker.options import Options
from checker.rule import Rule
from checker.verdict import in_order, summarise, with_verdicts
from schemas.report import FORMAT, FORMAT_VERSION, Report, Tool


def build_report(
    parts: Sequence[Examined], rules: Sequence[Rule], options: Options, version: str
) -> Report:
    """One report of all trees. Raises BadWaivers."""
    from checker.rules import tool
    from checker.waivers import apply_waivers

    findings = [finding for part in parts for finding in part.findings]
    traces = [trace for part in parts for trace in part.traces]
    findings.extend(compare(traces, rules, options.since, audit=options.audit))
    findings = identified(in_order(apply_waivers(findings, options.waivers)))
    rows = with_verdicts([row for part in parts for row in part.rows], findings)
    rows.sort(key=lambda r: (r.division, r.submitter, r.system, r.directory, r.scenario, r.path))
    facts = [*(rule.facts() for rule in rules), *tool.ENGINE]
    gaps = [(part.label, gap) for part in parts for gap in not_checked(part.place)]
    return Report(
        format=FORMAT,
        format_version=FORMAT_VERSION,
        tool=Tool("assay", version),
        round=", ".join(dict.fromkeys(part.round.name for part in parts)),
        round_detected_from="; ".join(dict.fromkeys(part.detected_from for part in parts)),
        tree=", ".join(part.label or part.tree for part in parts),
        results=rows,
        findings=findings,
        summary=summarise(rows, findings),
        rules=sorted(facts, key=lambda facts: facts.id),
        scope=parts[0].place.scope if len(parts) == 1 else "tree",
        not_checked=[f"{label}: {gap}" if label else gap for label, gap in gaps],
        selection=options.selection,
    )
