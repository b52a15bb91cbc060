"""Runs that share what no two runs share: at most one of each group was measured where it is.

A pair of runs is named once, by the strongest of five relations, and pairs of the same two systems
are one group. Where exactly one run of a group contradicts neither itself nor its place, the others
are the copies; otherwise it is not known which is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, Literal

import msgspec

from checker.audit.field import Field
from checker.audit.traces import RunTrace, base_name
from checker.rule import Rule
from checker.shared_logs import common_folder
from schemas.load import load_round
from schemas.report import Subject
from schemas.round import Round

Relation = Literal["bytes", "process", "content", "measurement", "scaled"]
"""Strongest first: the same bytes; pid, date and power_begin; all records but dates; mean latency,
longest latency and query count; all latency figures times one factor."""

RULES: dict[Relation, str] = {
    "bytes": "R301",
    "process": "R307",
    "content": "R303",
    "measurement": "R302",
    "scaled": "R308",
}
"""The rule that each relation is a finding of."""


class CopiedRuns(msgspec.Struct, kw_only=True):
    """Runs of which at most one is genuine.

    groups: the runs of each shared log, one for each place, first those that are shown; copies: the
    runs of the first group that contradict themselves or their place, where one does not.
    factor: of the second run's latencies over the first's, where they are scaled.
    """

    relation: Relation
    round: str
    groups: list[tuple[RunTrace, ...]]
    copies: tuple[RunTrace, ...]
    factor: float | None = None
    no_measurement: bool = False

    @property
    def runs(self) -> tuple[RunTrace, ...]:
        """The runs that are shown."""
        return self.groups[0]

    @property
    def genuine(self) -> RunTrace | None:
        """The run that contradicts nothing, where the others do."""
        if not self.copies:
            return None
        return next(run for run in self.runs if run not in self.copies)

    @property
    def path(self) -> str:
        """The copy's log; where it is not known which is the copy, the folder of all."""
        if self.copies:
            return self.copies[0].path
        return common_folder(run.path for run in self.runs)

    @property
    def division(self) -> str | None:
        """The division, where it is the same for all."""
        found = {run.division for run in self.runs}
        return found.pop() if len(found) == 1 else None

    @property
    def subject(self) -> Subject:
        """What the copy, or else all runs, belong to."""
        if self.copies:
            return self.copies[0].subject
        first, *others = (run.subject for run in self.runs)
        same: dict[str, Any] = {}
        for name in ("division", "submitter", "system", "benchmark", "scenario"):
            value = getattr(first, name)
            if any(getattr(other, name) != value for other in others):
                break
            same[name] = value
        return Subject(**same)

    @property
    def results(self) -> tuple[str, ...]:
        """The keys of the results that rest on the copies, or on any of the runs."""
        runs = self.copies or tuple(run for group in self.groups for run in group)
        return tuple(dict.fromkeys(key for run in runs for key in run.results))

    @property
    def one_submitter(self) -> bool:
        """Whether all runs are one submitter's, whichever is the copy."""
        return len({(run.tree, run.subject.submitter) for run in self.runs}) == 1


def allowed_copy(one: RunTrace, other: RunTrace, round: Round) -> str | None:
    """Why two folders may hold one and the same log; None when no reason is known."""
    a, b = one.subject, other.subject
    if one.kind != other.kind or one.round != other.round:
        return None
    # An open model folder may stand for one benchmark under several names.
    if (a.submitter, a.system) != (b.submitter, b.system):
        return None
    if base_name(a.benchmark) != base_name(b.benchmark):
        return None
    if one.scenario != other.scenario:
        ran = one.logged_scenario
        for scenario in {one.scenario, other.scenario} - {ran}:
            if not any(i.source == ran and i.target == scenario for i in round.inference):
                return None
        return "a scenario inferred from another's run"
    if a.division != b.division:
        return "one run submitted in two divisions"
    return "one run for two accuracy targets"


def copied_runs(field: Field, rules: Sequence[Rule]) -> list[CopiedRuns]:
    """Every group of runs that share what no two runs share, in the order of their paths.

    rules: those of the audit; a pair that P149 or C124 names is left to them.
    """
    named = _named_by_check(rules)
    selected = {rule.id for rule in rules}
    told: set[frozenset[int]] = set()
    found: list[CopiedRuns] = []
    for relation, groups in _related(field):
        if RULES[relation] not in selected:
            continue
        shared = relation in ("bytes", "process")
        for group, factor in groups:
            runs = sorted(group, key=_order)
            pairs = {frozenset((id(a), id(b))) for a, b in combinations(runs, 2)}
            if pairs <= told:
                continue
            places = _places(runs, told, named, shared=shared)
            told |= pairs
            if len(places) < 2:
                continue
            copies = _copies(places)
            found.append(
                CopiedRuns(
                    relation=relation,
                    round=max(run.round for run in places),
                    groups=[tuple(places)],
                    copies=copies,
                    factor=factor,
                    no_measurement=shared and _no_measurement(places),
                )
            )
    return sorted(_by_systems(found), key=lambda one: (one.path, one.runs[0].path))


def _related(
    field: Field,
) -> Iterator[tuple[Relation, Iterator[tuple[list[RunTrace], float | None]]]]:
    tables: list[tuple[Relation, Iterable[list[RunTrace]]]] = [
        ("bytes", field.by_digest.values()),
        ("process", field.by_process.values()),
        ("content", field.by_content.values()),
        ("measurement", field.by_triple.values()),
    ]
    for relation, groups in tables:
        yield relation, ((_fit(relation, group), None) for group in groups if len(group) > 1)
    scaled = field.scaled
    yield (
        "scaled",
        (
            ([run, scaled[id(run)][0]], scaled[id(run)][1])
            for run in field.runs
            if id(run) in scaled
        ),
    )


def _fit(relation: Relation, group: list[RunTrace]) -> list[RunTrace]:
    """The runs that the relation says something of: measurements, in logs with all their digits."""
    if relation == "content":
        return [run for run in group if run.triple is not None]
    if relation == "measurement":
        measured = [run for run in group if not run.accuracy]
        return [run for run in measured if not run.text_format or run.kind == "performance"]
    return group


def _order(run: RunTrace) -> tuple[str, bool, str]:
    """The later round's last, then the compliance run: it is the one that needs a run of its own."""
    return run.round, run.kind.startswith("TEST"), run.path


def _places(
    runs: list[RunTrace],
    told: set[frozenset[int]],
    named: Callable[[RunTrace, RunTrace], bool],
    *,
    shared: bool,
) -> list[RunTrace]:
    """One run for each place that needs a log of its own; runs that may share one are one place.

    shared: whether the runs have one log, which several results may rest on.
    """
    places: list[list[RunTrace]] = []
    for run in runs:
        together = [
            place
            for place in places
            if any(
                frozenset((id(run), id(other))) in told
                or named(run, other)
                or (shared and allowed_copy(run, other, load_round(run.round)) is not None)
                for other in place
            )
        ]
        if together:
            together[0].append(run)
            for place in together[1:]:
                together[0].extend(place)
                places.remove(place)
        else:
            places.append([run])
    return [place[0] for place in places]


def _named_by_check(rules: Sequence[Rule]) -> Callable[[RunTrace, RunTrace], bool]:
    by_id = {rule.id: rule for rule in rules}
    tests = by_id.get("C124")

    def named(one: RunTrace, other: RunTrace) -> bool:
        if (one.tree, one.division) != (other.tree, other.division):
            return False
        if "P149" in by_id and one.kind == other.kind == "performance" and one.owner != other.owner:
            return one.mark is not None and one.mark == other.mark
        if tests is None or (tests.divisions and one.division not in tests.divisions):
            return False
        kinds = one.kind, other.kind
        test = any(kind.startswith("TEST") for kind in kinds) and "accuracy" not in kinds
        same = one.identity is not None and one.identity == other.identity
        return test and same and one.results == other.results

    return named


def _doubts(run: RunTrace) -> frozenset[str]:
    """What speaks against a run where it is: errors in its log, another mode or scenario."""
    doubts = {*run.contradictions, *run.beside}
    if run.kind == "accuracy" and not run.accuracy:
        doubts.add("mode")
    if run.kind != "accuracy" and run.accuracy:
        doubts.add("mode")
    ran, served = run.logged_scenario, {"Server", "Interactive"}
    if ran is not None and ran != run.scenario and not {ran, run.scenario} <= served:
        round = load_round(run.round)
        if not any(i.source == ran and i.target == run.scenario for i in round.inference):
            doubts.add("scenario")
    return frozenset(doubts)


def _copies(places: list[RunTrace]) -> tuple[RunTrace, ...]:
    """The runs against which more speaks than against one of the others."""
    for genuine in places:
        others = [run for run in places if run is not genuine]
        newer = all(run.round > genuine.round for run in others)
        # A test needs a run of its own, the submitted run is the one that it is compared with.
        own = all(
            run.kind.startswith("TEST") and run.results == genuine.results for run in others
        ) and not genuine.kind.startswith("TEST")
        if newer or own or all(_doubts(genuine) < _doubts(run) for run in others):
            return tuple(others)
    return ()


def _no_measurement(places: list[RunTrace]) -> bool:
    """Accuracy logs hold no measurement, and an Interactive run may do for Server."""
    for one, other in combinations(places, 2):
        both = one.accuracy and other.accuracy and one.kind == other.kind
        same_owner = one.owner[0] == other.owner[0]
        served = {one.scenario, other.scenario} == {"Server", "Interactive"} and (
            one.owner == other.owner and one.kind == other.kind
        )
        if not (both and same_owner) and not served:
            return False
    return True


def _by_systems(found: list[CopiedRuns]) -> Iterator[CopiedRuns]:
    """Groups of the same two systems as one."""
    kept: dict[Any, list[CopiedRuns]] = defaultdict(list)
    for one in found:
        owners = {(run.tree, run.division, run.owner) for run in one.runs}
        if len(owners) < 2:
            yield one
            continue
        blamed = frozenset((run.tree, run.owner) for run in one.copies)
        kept[one.relation, frozenset(owners), blamed, one.no_measurement].append(one)
    for members in kept.values():
        members.sort(key=lambda one: one.path)
        members[0].groups = [group for one in members for group in one.groups]
        if members[0].copies and len(members) > 1:
            first = members[0]
            first.copies = (*first.copies, *(run for one in members[1:] for run in one.copies))
        yield members[0]
