"""Audit of one or several trees: each is checked by itself, then all runs are compared.

Paths of several trees are distinguished by a first part, the tree's name; one tree's stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from checker.audit.copies import CopiedRuns, copied_runs
from checker.audit.field import Field
from checker.audit.traces import ResultTrace, RunTrace, Traces
from checker.causes import identity
from checker.discover import Place
from checker.judging import Judge
from checker.rule import Rule
from schemas.load import load_round
from schemas.report import Finding, Report
from schemas.report import Result as ResultRow
from schemas.round import Round

TARGETS = (RunTrace, ResultTrace, CopiedRuns)


class Examined(msgspec.Struct):
    """One tree, judged by itself: what `audit` joins. ``label`` distinguishes several trees."""

    round: Round
    detected_from: str
    place: Place
    tree: str
    rows: list[ResultRow]
    findings: list[Finding]
    traces: list[Traces]
    label: str = ""


def compare(
    traces: list[Traces], rules: Sequence[Rule], old: Report | None = None, *, audit: bool = True
) -> list[Finding]:
    """What the rules across runs and results find in all traces together."""
    chosen = [rule for rule in rules if rule.target in TARGETS]
    if not chosen:
        return []
    field = Field(traces, old)
    findings: list[Finding] = []
    judges: dict[str, Judge] = {}
    things: list[RunTrace | ResultTrace | CopiedRuns] = [*field.runs, *field.results]
    if any(rule.target is CopiedRuns for rule in chosen):
        things.extend(copied_runs(field, rules))
    for thing in things:
        if thing.round not in judges:
            judges[thing.round] = Judge(chosen, load_round(thing.round), audit=audit)
        findings.extend(judges[thing.round](thing).findings)
    return findings


def labels(roots: Sequence[str | Path]) -> list[str]:
    """A short name for each tree, each once: its folder's, with its number where two are alike."""
    names: list[str] = []
    for number, root in enumerate(roots, 1):
        where = Path(root)
        name = where.name if where.name not in ("", ".", "..") else where.resolve().name or "tree"
        name = name.replace("/", "_")
        names.append(name if name not in names else f"{name}-{number}")
    return names


def relabelled(examined: Examined, label: str) -> Examined:
    """The same with every path below ``label``."""

    def put(path: str | None) -> str:
        return label if path in (None, "", ".") else f"{label}/{path}"

    def keys(results: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{label}/{key}" for key in results)

    rows: list[ResultRow] = [
        msgspec.structs.replace(
            row,
            path=put(row.path),
            key=f"{label}/{row.key}",
            runs=[msgspec.structs.replace(run, path=put(run.path)) for run in row.runs],
        )
        for row in examined.rows
    ]
    findings = [
        msgspec.structs.replace(
            f, path=put(f.path), results=keys(f.results), invalidates=keys(f.invalidates)
        )
        for f in examined.findings
    ]
    names = {
        before.id: identity(after)
        for before, after in zip(examined.findings, findings, strict=True)
        if before.id
    }
    findings = [
        msgspec.structs.replace(
            f, id=names.get(f.id, ""), follows=names[f.follows] if f.follows else None
        )
        for f in findings
    ]
    for traces in examined.traces:
        traces.result.path = put(traces.result.path)
        traces.result.detail_path = put(traces.result.detail_path)
        traces.result.results = keys(traces.result.results)
        traces.result.answers = tuple(
            msgspec.structs.replace(one, path=put(one.path)) for one in traces.result.answers
        )
        traces.result.named = tuple(
            msgspec.structs.replace(one, path=put(one.path)) for one in traces.result.named
        )
        traces.result.tree = label
        for run in traces.runs:
            run.results = keys(run.results)
            run.tree = label
            run.path = put(run.path)
    return msgspec.structs.replace(examined, rows=rows, findings=findings, label=label)
