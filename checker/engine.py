"""One check from end to end: each tree is listed and judged, then all are joined to one report.

`discover` says what there is to judge, `schedule` has every result judged (`unit`), `verdict`
decides which are valid, `building` makes the report.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from checker.archive import opened
from checker.audit.join import Examined, labels, relabelled
from checker.building import build_report
from checker.cache import TreeCache, Wide
from checker.causes import linked
from checker.clean import clean
from checker.detect import Detected, detect_round
from checker.discover import Place, Plan, ResultPlan, discover, locate
from checker.judging import Judge
from checker.load import load_system
from checker.manifest import compare
from checker.model import Submitter, System
from checker.notices import about_round, no_limits, nothing_checked
from checker.options import Options, Progress
from checker.parse.reading import Folder
from checker.rule import Rule
from checker.schedule import run_units
from checker.shared_logs import shared_logs
from checker.sharing import Sharing
from checker.unit import Outcome
from schemas.load import load_round
from schemas.report import Finding, Report
from schemas.round import Round

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = ["Options", "audit", "check", "check_listing"]


def check(
    root: str | os.PathLike[str],
    options: Options | None = None,
    *,
    version: str = "0",
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check one tree (a folder or an archive) and return everything that was found.

    Raises FileNotFoundError when there is no such tree and UnknownRule, UnknownRound, BadWaivers or
    BadArchive for the request; never for what the tree contains.
    """
    return audit([root], options, version=version, executor=executor, progress=progress)


def audit(
    roots: Sequence[str | os.PathLike[str]],
    options: Options | None = None,
    *,
    version: str = "0",
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check trees, of one round or several, each by itself and then their runs among themselves.

    With ``options.audit`` the audit rules are applied. Of several trees every path begins with the
    tree's name. Raises as `check` does.
    """
    options = options or Options()
    from checker.rules import select_rules

    rules = select_rules(options.select, options.ignore, audit=options.audit)
    if any(rule.family == "R" for rule in rules):
        # Workers are forked: what replays need is imported once, before.
        import checker.audit.replayed  # noqa: F401
    for root in roots:
        if not Path(root).exists():
            raise FileNotFoundError(f"no such file or folder: {root}")
    parts = [_examine(Path(root), options, rules, executor, progress) for root in roots]
    if len(parts) > 1:
        names = labels([Path(root) for root in roots])
        parts = [relabelled(part, name) for part, name in zip(parts, names, strict=True)]
    return build_report(parts, rules, options, version)


def check_listing(
    listing: Folder,
    options: Options | None = None,
    *,
    name: str = "submission",
    version: str = "0",
) -> Report:
    """Check a tree that is only listed: each `File` is read where it is, whatever its path here.

    Raises as `check` does.
    """
    options = options or Options()
    from checker.rules import select_rules

    rules = select_rules(options.select, options.ignore, audit=options.audit)
    part = _judged(_planned(Path(name), Path(name), listing, options), options, rules)
    return build_report([part], rules, options, version)


def _examine(
    where: Path,
    options: Options,
    rules: Sequence[Rule],
    executor: Executor | None,
    progress: Progress | None,
) -> Examined:
    """Judge one tree by itself."""
    with opened(where, options.unpack) as (folder, archive_findings):
        planned = _listed(where, folder, options)
        planned.findings += archive_findings
        return _judged(planned, options, rules, executor, progress)


class _Planned(msgspec.Struct, kw_only=True):
    """What there is to judge in one tree; ``folder`` is where it is, ``where`` what it is called.

    Nothing else holds the listing, so that it can be given up before the end.
    """

    where: Path
    folder: Path
    place: Place
    detected: Detected
    round: Round
    plan: Plan
    findings: list[Finding]


def _listed(where: Path, folder: Path, options: Options) -> _Planned:
    listing = options.listing(folder)
    planned = _planned(where, folder, listing, options)
    if options.manifest is not None:
        planned.findings += compare(listing, options.manifest)
    return planned


def _planned(where: Path, folder: Path, listing: Folder, options: Options) -> _Planned:
    place = _with_names(locate(folder, listing), options)
    above = (place.benchmark,) if place.scope in ("benchmark", "result", "run") else ()
    detected = detect_round(listing, above)
    round = load_round(options.round or detected.name)
    plan = discover(
        listing, round, place, divisions=options.divisions, submitters=options.submitters
    )
    return _Planned(
        where=where,
        folder=folder,
        place=place,
        detected=detected,
        round=round,
        plan=plan,
        findings=[],
    )


def _judged(
    planned: _Planned,
    options: Options,
    rules: Sequence[Rule],
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Examined:
    """Judge one listed tree. Its listing and its results' plans are given up as soon as they can be."""
    where, place, round, plan = planned.where, planned.place, planned.round, planned.plan
    known = _cached(where, planned.folder, options, place, round, rules)
    judge = Judge(rules, round, audit=options.audit)
    wide: list[Wide] = []
    # Only of a very large tree are results' folders packed.
    share = Sharing(any(r.folder.is_packed for r in plan.results))
    unnamed = place.scope == "run" and any(p.name is None for p in plan.results)

    def meanwhile() -> None:
        wide.extend(_wide(plan, judge, known, share))
        plan.forget()
        options.meanwhile()

    outcomes = _outcomes(
        plan,
        known,
        round,
        rules,
        options,
        share,
        executor=executor,
        progress=progress,
        meanwhile=meanwhile,
    )
    findings = planned.findings
    findings.extend(f for outcome in outcomes for f in outcome.findings)
    findings.extend(f for found in wide for f in found.findings)
    described = _by_result(plan, wide)
    rows = [
        msgspec.structs.replace(outcome.row, system_description=described[outcome.row.key])
        for outcome in outcomes
    ]
    if known is not None:
        known.save()
    prints = [mark for outcome in outcomes for mark in outcome.prints]
    for shared in shared_logs(prints, described):
        findings.extend(judge(shared).findings)
    findings.extend(about_round(options, planned.detected, round))
    if not outcomes:
        findings.append(nothing_checked(plan, options))
    elif unnamed:
        findings.append(no_limits(place, round))
    return Examined(
        round=round,
        detected_from="given by --round" if options.round else planned.detected.reason,
        place=place,
        tree=clean(where.name or str(where.resolve().name)) or ".",
        rows=rows,
        findings=findings,
        traces=[outcome.traces for outcome in outcomes if outcome.traces is not None],
    )


def _jobs(asked: int | None) -> int:
    if asked is not None:
        return max(1, asked)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _cached(
    where: Path,
    folder: Path,
    options: Options,
    place: Place,
    round: Round,
    rules: Sequence[Rule],
) -> TreeCache | None:
    """What is remembered of the tree, if anything may be: an archive's files are new each time."""
    if options.cache is None or options.data or not where.is_dir():
        return None
    context = [
        round.name,
        [rule.id for rule in rules],
        options.audit,
        place,
        sorted(options.divisions or ()),
        sorted(options.submitters or ()),
    ]
    return options.cache.of(str(folder.resolve()), context)


def _outcomes(
    plan: Plan,
    known: TreeCache | None,
    round: Round,
    rules: Sequence[Rule],
    options: Options,
    share: Sharing,
    *,
    executor: Executor | None,
    progress: Progress | None,
    meanwhile: Callable[[], None],
) -> list[Outcome]:
    """What was found about each result, from the cache or by judging it, in the plan's order.

    The plan's results are given up one by one as they are judged.
    """
    results, plan.results = plan.results, []
    found = [_remembered(known, p, share) for p in results]

    def arrived(result: ResultPlan, outcome: Outcome) -> Outcome:
        if known is not None:
            known.keep_outcome(result, outcome)
        return share.outcome(outcome, result.key)

    results = [p for p, outcome in zip(results, found, strict=True) if outcome is None]
    judged = run_units(
        results,
        round,
        rules,
        jobs=_jobs(options.jobs),
        data=options.data,
        audit=options.audit,
        executor=executor,
        progress=progress,
        meanwhile=meanwhile,
        arrived=arrived,
        fresh=options.fresh,
    )
    new = iter(judged)
    return [outcome if outcome is not None else next(new) for outcome in found]


def _remembered(known: TreeCache | None, plan: ResultPlan, share: Sharing) -> Outcome | None:
    outcome = known.outcome(plan) if known is not None else None
    return share.outcome(outcome, plan.key) if outcome is not None else None


def _wide(plan: Plan, judge: Judge, known: TreeCache | None, share: Sharing) -> Iterator[Wide]:
    """Judge what is larger than one result: submitters with their systems, and the tree."""
    tree = plan.tree
    for submitter in tree.submitters:
        name = f"{submitter.division}/{submitter.name}"
        found = known.wide(name, [submitter.folder]) if known is not None else None
        if found is None:
            found = _submitter(plan, submitter, judge)
            if known is not None:
                known.keep_wide(name, [submitter.folder], found)
        for system, description in found.descriptions.items():
            found.descriptions[system] = share.described(description)
        yield found
    found = known.wide("", [tree.root]) if known is not None else None
    if found is None:
        found = Wide(judge(tree).findings)
        if known is not None:
            known.keep_wide("", [tree.root], found)
    yield found


def _submitter(plan: Plan, submitter: Submitter, judge: Judge) -> Wide:
    """Judge a submitter, its systems and its benchmarks; describe the systems of its results."""
    categories: dict[str, str | None] = {}
    descriptions: dict[str, dict[str, Any]] = {}
    loaded: list[System] = []
    for system in submitter.systems:
        key = (submitter.division, submitter.name, system.name)
        full = load_system(*key, system.path, plan.system_files[key], complete=system.complete)
        full.results = system.results
        full.meant = system.meant
        full.has_results = system.has_results
        full.power_document = system.power_document
        loaded.append(full)
        categories[system.name] = full.category
        fields = list(full.fields.items())[:200]
        shown = {str(clean(name)): clean(value, 2000) for name, value in fields}
        descriptions[system.name] = shown
    listed, submitter.systems = submitter.systems, loaded
    findings = [*judge(submitter).findings]
    submitter.walked = None  # of 100,000 results it would hold 200 MB
    for system in loaded:
        judged = judge(system)
        findings.extend(linked(judged.findings, judged.links))
    submitter.systems = listed  # what the descriptions hold is not kept
    for group in submitter.benchmarks:
        group.category = categories.get(group.system)
        findings.extend(judge(group).findings)
    return Wide(findings, descriptions)


def _by_result(plan: Plan, wide: Sequence[Wide]) -> dict[str, dict[str, Any]]:
    """The system description of each result; all results of a system share one."""
    described = {}
    for submitter, found in zip(plan.tree.submitters, wide, strict=False):
        for system in submitter.systems:
            described.update(dict.fromkeys(system.results, found.descriptions[system.name]))
    return described


def _with_names(place: Place, options: Options) -> Place:
    """The place with the benchmark and scenario that were said, where TREE is less than a system."""
    if place.scope not in ("result", "run"):
        return place
    return msgspec.structs.replace(
        place,
        benchmark=options.benchmark or place.benchmark,
        scenario=options.scenario or place.scenario,
    )
