"""What changed between two reports: verdicts, metrics, accuracy, findings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from reports import arrange, figures
from reports import to_json as to_json_format
from reports.escape import NAME_LIMIT, one_line
from reports.pairing import Pair, renamed
from schemas.report import Finding, Limits, Metric, Report, Result

_SHOWN = 50


class Change(msgspec.Struct, frozen=True):
    """One value of one result, before and after; None where there was none."""

    result: str
    what: str
    old: float | str | None
    new: float | str | None
    relative: float | None = None


class Diff(msgspec.Struct, frozen=True):
    """What changed. Results are named by division, submitter, system, folder and scenario.

    systems_renamed: systems that have another name but seem to be the same; their results are
    compared under the new name. limits: limits of the round that changed for a result of both.
    """

    old_tree: str
    new_tree: str
    systems_renamed: list[Pair]
    results_new: list[str]
    results_gone: list[str]
    verdicts: list[Change]
    metrics: list[Change]
    accuracy: list[Change]
    limits: list[Change]
    findings_new: list[Finding]
    findings_gone: list[Finding]
    findings_waived: list[Finding]
    findings_unwaived: list[Finding]

    @property
    def empty(self) -> bool:
        """Whether nothing changed."""
        return not any(
            (
                self.results_new,
                self.results_gone,
                self.verdicts,
                self.metrics,
                self.accuracy,
                self.limits,
                self.systems_renamed,
                self.findings_new,
                self.findings_gone,
                self.findings_waived,
                self.findings_unwaived,
            )
        )

    @property
    def worse(self) -> bool:
        """Whether a result that was valid is not any more, or an error is new."""
        return any(change.new == "invalid" for change in self.verdicts) or any(
            finding.severity == "error"
            for finding in [
                *(f for f in self.findings_new if f.waived is None),
                *self.findings_unwaived,
            ]
        )


def diff(old: Report, new: Report) -> Diff:
    """Compare two reports.

    A finding is the same one when rule, path, pointer and subject are the same: its line and the
    numbers in its message may move. Results are compared by where they stand in the tree.
    """
    pairs = renamed(old, new)
    before = titled(old, new, pairs)
    after = {_name(result): result for result in new.results}
    both = [name for name in after if name in before]
    verdicts = [
        Change(name, "verdict", before[name].status, after[name].status)
        for name in both
        if before[name].status != after[name].status
    ]
    metrics: list[Change] = []
    accuracy: list[Change] = []
    limits: list[Change] = []
    for name in both:
        a, b = before[name], after[name]
        metrics += _metric_changes(name, "metric", a.metric, b.metric)
        metrics += _metric_changes(name, "power", a.power, b.power)
        accuracy += _accuracy_changes(name, a, b)
        limits += _limit_changes(name, a, b)

    return Diff(
        old_tree=old.tree,
        new_tree=new.tree,
        results_new=[name for name in after if name not in before],
        results_gone=[name for name in before if name not in after],
        verdicts=verdicts,
        metrics=metrics,
        accuracy=accuracy,
        limits=limits,
        systems_renamed=pairs,
        findings_new=_beyond(new.findings, old.findings),
        findings_gone=_beyond(old.findings, new.findings),
        findings_waived=_turned(old.findings, new.findings, lambda f: f.waived is not None),
        findings_unwaived=_turned(old.findings, new.findings, lambda f: f.waived is None),
    )


def to_json(changes: Diff) -> bytes:
    """The comparison as JSON."""
    return to_json_format.encode(changes)


def to_text(changes: Diff, *, limit: int | None = _SHOWN) -> str:
    """The comparison as plain text; at most ``limit`` lines a section, the rest counted."""
    if changes.empty:
        return "No difference.\n"
    sections: list[tuple[str, list[str]]] = [
        ("Verdicts", [_change_text(change) for change in changes.verdicts]),
        ("Systems under a new name", [_pair_text(pair) for pair in changes.systems_renamed]),
        ("New results", [one_line(name) for name in changes.results_new]),
        ("Results gone", [one_line(name) for name in changes.results_gone]),
        ("Faster", [_change_text(c) for c in changes.metrics if _gain(c) > 0]),
        ("Slower", [_change_text(c) for c in changes.metrics if _gain(c) < 0]),
        ("Metrics otherwise changed", [_change_text(c) for c in changes.metrics if not _gain(c)]),
        ("Accuracy", [_change_text(change) for change in changes.accuracy]),
        ("Limits", [_change_text(change) for change in changes.limits]),
        ("New findings", [_finding_text(f) for f in changes.findings_new]),
        ("Findings gone", [_finding_text(f) for f in changes.findings_gone]),
        ("Findings now waived", [_finding_text(f) for f in changes.findings_waived]),
        ("Findings no longer waived", [_finding_text(f) for f in changes.findings_unwaived]),
    ]
    lines = []
    for title, items in sections:
        if not items:
            continue
        lines.append(f"{title} ({len(items):,})")
        shown = items if limit is None else items[:limit]
        lines += [f"  {item}" for item in shown]
        if len(shown) < len(items):
            lines.append(f"  and {len(items) - len(shown):,} more")
        lines.append("")
    counts = ", ".join(f"{title.lower()} {len(items):,}" for title, items in sections if items)
    lines.append(f"SUMMARY: {counts}")
    return "\n".join(lines) + "\n"


def titled(old: Report, new: Report, pairs: list[Pair] | None = None) -> dict[str, Result]:
    """The old results by their titles, those of systems that have another name now by the new one."""
    found = renamed(old, new) if pairs is None else pairs
    names = {(pair.division, pair.old): pair.new for pair in found}
    return {_name(_renamed(result, names)): result for result in old.results}


def _name(result: Result) -> str:
    return arrange.title_of(result)


def _renamed(result: Result, names: dict[tuple[str, str], str]) -> Result:
    name = names.get((result.division, result.system))
    return result if name is None else msgspec.structs.replace(result, system=name)


def _limit_changes(name: str, old: Result, new: Result) -> list[Change]:
    if old.limits is None or new.limits is None:
        return []
    changes = []
    for field in msgspec.structs.fields(Limits):
        a, b = getattr(old.limits, field.name), getattr(new.limits, field.name)
        if a != b:
            changes.append(Change(name, field.name, a, b))
    return changes


def _relative(old: float, new: float) -> float | None:
    return (new - old) / abs(old) if old and math.isfinite(old) and math.isfinite(new) else None


def _metric_changes(name: str, what: str, old: Metric | None, new: Metric | None) -> list[Change]:
    if old == new:
        return []
    if old is not None and new is not None and old.unit == new.unit:
        if old.value == new.value:
            return []
        title = f"{what} ({new.unit})"
        return [
            Change(
                result=name,
                what=title,
                old=old.value,
                new=new.value,
                relative=_relative(old.value, new.value),
            )
        ]
    return [Change(name, what, _metric_text(old), _metric_text(new))]


def _metric_text(metric: Metric | None) -> str | None:
    return None if metric is None else f"{figures.number(metric.value)} {metric.unit}"


def _accuracy_changes(name: str, old: Result, new: Result) -> list[Change]:
    before = {score.metric: score.value for score in old.accuracy}
    after = {score.metric: score.value for score in new.accuracy}
    changes = []
    for metric in {**before, **after}:
        a, b = before.get(metric), after.get(metric)
        if a != b:
            relative = _relative(a, b) if a is not None and b is not None else None
            changes.append(Change(result=name, what=metric, old=a, new=b, relative=relative))
    return changes


_Key = tuple[str, str, str, str]


def _key(finding: Finding) -> _Key:
    subject = arrange.subject_text(finding.subject)
    return (finding.rule, finding.path or "", finding.pointer or "", subject)


def _beyond(these: Iterable[Finding], those: Iterable[Finding]) -> list[Finding]:
    """The findings of ``these`` that ``those`` lack, counting repeated ones."""
    known = Counter(map(_key, those))
    more = []
    for finding in these:
        key = _key(finding)
        if known[key] > 0:
            known[key] -= 1
        else:
            more.append(finding)
    return more


def _turned(
    old: Iterable[Finding], new: Iterable[Finding], wanted: Callable[[Finding], bool]
) -> list[Finding]:
    """Findings in both reports that are as ``wanted`` now and none of their like were before."""
    before: dict[_Key, list[Finding]] = {}
    for finding in old:
        before.setdefault(_key(finding), []).append(finding)
    return [
        finding
        for finding in new
        if wanted(finding)
        and _key(finding) in before
        and not any(map(wanted, before[_key(finding)]))
    ]


def _value_text(value: float | str | None) -> str:
    if value is None:
        return "none"
    return one_line(value, NAME_LIMIT) if isinstance(value, str) else figures.number(value)


def _change_text(change: Change) -> str:
    text = f"{one_line(change.result)}: {one_line(change.what, NAME_LIMIT)} "
    text += f"{_value_text(change.old)} -> {_value_text(change.new)}"
    return text if change.relative is None else f"{text} ({change.relative * 100:+.2f}%)"


def _gain(change: Change) -> float:
    """How much better a performance metric became; 0 where that cannot be computed."""
    if change.relative is None or not change.what.startswith("metric ("):
        return 0.0
    latency = figures.latency_unit(change.what.removeprefix("metric ("))
    return -change.relative if latency else change.relative


def _pair_text(pair: Pair) -> str:
    text = f"{pair.division}/{pair.submitter}: {pair.old} -> {pair.new}"
    return one_line(f"{text} ({pair.built_of}; {figures.plural(pair.shared, 'shared result')})")


def _finding_text(finding: Finding) -> str:
    head = f"{finding.severity} {one_line(finding.rule, 60)} {one_line(finding.name, 100)}"
    where = one_line(arrange.place(finding), NAME_LIMIT)
    return f"{head}: {where}: {one_line(finding.message, 500)}"
