"""Every audit rule applied to one result by itself, with the values that it read, passed ones too."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from checker import loadgen_keys as keys
from checker import metrics
from checker.archive import opened
from checker.audit import figures
from checker.audit.copies import RULES, CopiedRuns, copied_runs
from checker.audit.evidence import Noted, noting
from checker.audit.field import Field
from checker.audit.join import TARGETS
from checker.audit.traces import RunTrace, Traces
from checker.audit.tracing import note_contradictions, traces_of
from checker.clean import clean
from checker.detect import detect_round
from checker.discover import ResultPlan, discover, locate
from checker.judging import Judge
from checker.load import load_result
from checker.model import Result, Run
from checker.options import Options, Progress
from checker.parse.reading import list_tree
from checker.rule import Rule, attribute, is_present
from checker.unit import things_of
from checker.wording import listed, shown
from schemas.explanation import FORMAT, Bounded, Explanation, Percentiles, Tested
from schemas.load import load_round
from schemas.round import Round

_PERCENTS = (50, 90, 95, 97, 99, 99.9)


class UnknownResult(ValueError):
    """The tree has no such result; the message names similar ones."""


def explain(
    root: str | os.PathLike[str],
    name: str,
    options: Options | None = None,
    *,
    progress: Progress | None = None,
) -> Explanation:
    """Apply the audit's rules to one result of a tree, and keep what each of them compared.

    name: the result's key (division/submitter/system/benchmark/scenario) or its folder.
    options.select and options.ignore choose the rules; without them, family R. Raises UnknownResult,
    FileNotFoundError, BadArchive, UnknownRound or UnknownRule.
    """
    options = options or Options()
    from checker.rules import select_rules

    rules = select_rules(options.select or ("R",), options.ignore, audit=True)
    if not Path(root).exists():
        raise FileNotFoundError(f"no such file or folder: {root}")
    with opened(Path(root), options.unpack) as (folder, _):
        listing = list_tree(folder)
        place = locate(folder, listing)
        round = load_round(options.round or detect_round(listing).name)
        plans = discover(listing, round, place).results
        chosen = _chosen(plans, name)
        result = load_result(chosen, round)
        tested = [
            one for thing in things_of(result) for one in _applied(rules, thing, round, result)
        ]
        tested += _across(plans, chosen, round, rules, result, progress)
        return Explanation(
            format=FORMAT,
            format_version=1,
            round=round.name,
            key=clean(chosen.key),
            path=clean(result.path) or ".",
            scenario=clean(result.scenario or result.scenario_folder),
            metric=metrics.metric_of(result),
            accuracy=[s for s in metrics.accuracy_of(result) if math.isfinite(s.value)],
            tested=sorted(tested, key=lambda one: (_ORDER.index(one.outcome), one.rule, one.path)),
            latencies=list(_latencies(result)),
        )


_ORDER = ("finding", "agrees", "not tested")


def _chosen(plans: Sequence[ResultPlan], name: str) -> ResultPlan:
    wanted = name.strip().strip("/").lower()
    found = [plan for plan in plans if wanted in (plan.key.lower(), plan.path.strip("/").lower())]
    if not found:
        found = [plan for plan in plans if plan.key.lower().endswith(f"/{wanted}")]
    if len(found) == 1:
        return found[0]
    if found:
        which = ", ".join(plan.key for plan in found[:4])
        raise UnknownResult(f"{name} names {len(found)} results: {which}; give the whole key")
    import difflib

    near = difflib.get_close_matches(name, [plan.key for plan in plans], 3, 0.3)
    raise UnknownResult(
        f"the tree has no result {name}" + (f"; near names: {', '.join(near)}" if near else "")
    )


def _across(
    plans: Sequence[ResultPlan],
    chosen: ResultPlan,
    round: Round,
    rules: Sequence[Rule],
    result: Result,
    progress: Progress | None,
) -> Iterator[Tested]:
    """What the rules across results say of the chosen one: its traces among all of the tree's."""
    if not any(rule.target in TARGETS for rule in rules):
        return
    traces: list[Traces] = []
    own: Traces | None = None
    for number, plan in enumerate(plans, 1):
        traces.append(traces_of(load_result(plan, round)))
        if plan is chosen:
            own = traces[-1]
        if progress is not None:
            progress(number, len(plans))
    if own is None:
        return
    field = Field(traces, own=own.runs)
    for thing in (own.result, *own.runs):
        yield from _applied(rules, thing, round, result)
    yield from _copies(
        field, own, dict(zip(map(id, traces), plans, strict=True)), traces, rules, result
    )


def _copies(
    field: Field,
    own: Traces,
    plans: dict[int, ResultPlan],
    traces: Sequence[Traces],
    rules: Sequence[Rule],
    result: Result,
) -> Iterator[Tested]:
    """Whether any run of the result is another's, by each of the relations that a copy leaves."""
    from checker.rules import all_rules

    round = result.round
    if _of(own, copied_runs(field, rules)):
        # Which of them is the copy follows from what is wrong with each.
        involved = {id(run) for one in _of(own, copied_runs(field, rules)) for run in _runs_of(one)}
        judge = Judge(all_rules(), round, audit=True)
        for one in traces:
            if any(id(run) in involved for run in one.runs):
                loaded = load_result(plans[id(one)], round)
                findings = [f for thing in things_of(loaded) for f in judge(thing).findings]
                note_contradictions(one, findings)
    copied = _of(own, copied_runs(field, rules))
    for rule in rules:
        if rule.target is not CopiedRuns:
            continue
        found = [one for one in copied if RULES[one.relation] == rule.id]
        for group in found:
            yield from _applied([rule], group, round, result)
        if not found:
            yield Tested(
                rule=rule.id,
                name=rule.name,
                summary=rule.summary,
                path=clean(own.result.path) or ".",
                outcome="agrees" if own.runs else "not tested",
                reason=None if own.runs else "the result has no log",
                values={"logs of the result": len(own.runs), "compared with logs": len(field.runs)},
            )


def _of(own: Traces, copied: Sequence[CopiedRuns]) -> list[CopiedRuns]:
    mine = {id(run) for run in own.runs}
    return [one for one in copied if any(id(run) in mine for run in _runs_of(one))]


def _runs_of(copied: CopiedRuns) -> Iterator[RunTrace]:
    return (run for group in copied.groups for run in group)


def _applied(rules: Sequence[Rule], thing: Any, round: Round, result: Result) -> Iterator[Tested]:
    for rule in rules:
        if not isinstance(thing, rule.target):
            continue
        with noting() as seen:
            judged = Judge([rule], round, audit=True)(thing)
        if not seen.values:
            # Rules that compare what they were handed, and read nothing by themselves.
            for need in rule.needs:
                value = attribute(thing, need.path)
                if isinstance(value, int | float | str) and value != "":
                    seen.values[need.path] = value
        if not seen.values and judged.findings and judged.findings[0].evidence:
            seen.values.update(
                (key, value)
                for key, value in judged.findings[0].evidence.items()
                if key not in ("lines", "confidence")
            )
        if not judged.findings and judged.skipped:
            outcome, reason = "not tested", _reason(rule, thing, round, seen)
        else:
            outcome, reason = ("finding" if judged.findings else "agrees"), None
        yield Tested(
            rule=rule.id,
            name=rule.name,
            summary=rule.summary,
            path=clean(getattr(thing, "detail_path", None) or thing.path) or ".",
            outcome=outcome,  # type: ignore[arg-type]
            reason=clean(reason),
            severity=judged.findings[0].severity if judged.findings else None,
            values=clean(seen.values),
            lines=clean(seen.lines),
            figure=_figure(rule, thing),
            findings=[finding.message for finding in judged.findings],
        )


def _reason(rule: Rule, thing: Any, round: Round, seen: Noted) -> str:
    if rule.when is not None and not rule.when(round):
        return f"{round.name} does not have what the rule judges"
    if rule.divisions and getattr(thing, "division", None) not in rule.divisions:
        return f"judged in {' and '.join(rule.divisions)} only"
    needs = [*rule.required, *(need.path for need in rule.needs if not need.optional)]
    absent = [path for path in needs if not is_present(attribute(thing, path))]
    if absent:
        return f"absent: {', '.join(path.replace('_', ' ') for path in absent)}"
    for path, wanted in rule.only:
        found = attribute(thing, path)
        if found not in wanted:
            return f"found {path.replace('_', ' ')} {shown(found)}; for {listed([shown(w) for w in wanted], 'or')} only"
    if "not replayed" in seen.values:
        return str(seen.values["not replayed"])
    return "not for this scenario, mode or kind of log, or a value that it needs is absent"


def _figure(rule: Rule, thing: Any) -> Bounded | None:
    known: Sequence[figures.Figure[Any]] = (
        figures.OF_RESULTS if isinstance(thing, Result) else figures.OF_RUNS
    )
    for figure in known:
        fits = figure.rule == rule.id and isinstance(thing, Result | Run)
        value = figure.of(thing) if fits else None
        if value is not None and math.isfinite(value):
            low, high = (
                bound if math.isfinite(bound) else None for bound in (figure.low, figure.high)
            )
            return Bounded(
                formula=figure.formula, value=value, low=low, high=high, unit=figure.unit
            )
    return None


def _latencies(result: Result) -> Iterator[Percentiles]:
    run = result.performance
    if run is None or run.detail is None:
        return
    rules = metrics.scenario_rules(result, result.scenario)
    limits = {
        keys.LATENCY.name: rules.target_latency_ns if rules is not None else None,
        keys.FIRST_TOKEN.name: rules.ttft_ms * 1e6 if rules is not None and rules.ttft_ms else None,
        keys.PER_TOKEN.name: rules.tpot_ms * 1e6 if rules is not None and rules.tpot_ms else None,
    }
    if limits[keys.FIRST_TOKEN.name] is not None:
        limits[keys.LATENCY.name] = None  # token latencies decide instead
    for kind in (keys.LATENCY, keys.FIRST_TOKEN, keys.PER_TOKEN):
        found = {f"{p:g}": run.detail.number(kind.at(p)) for p in _PERCENTS}
        values = {p: value for p, value in found.items() if value is not None and value > 0}
        if len(values) > 2:
            yield Percentiles(
                path=clean(run.detail_path),
                name=kind.name,
                values=values,
                mean=run.detail.number(kind.mean),
                limit=limits[kind.name],
            )
