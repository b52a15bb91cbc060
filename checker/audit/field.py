"""All traces of an audit, indexed for the rules that compare runs and results."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from checker.audit.traces import Answers, ResultTrace, RunTrace, Traces, base_name
from schemas.report import Report
from schemas.report import Result as ResultRow


def _kind_of_log(run: RunTrace) -> tuple[Any, ...] | None:
    """What the set of records of a log depends on; None where that is not known."""
    if run.written is None:
        return None
    places = run.written.places
    tokens = "result_first_token_mean_latency_ns" in places or "result_token_throughput" in places
    return run.sources, run.logged_scenario, run.accuracy, tokens


class Field:
    """All traces of an audit, indexed.

    old: the report of an earlier round, if one was given; own: the runs that findings about several
    runs are made at, where they are among them.
    """

    def __init__(
        self, traces: list[Traces], old: Report | None = None, own: Sequence[RunTrace] = ()
    ) -> None:
        self._own = {id(run) for run in own}
        self.runs = [run for one in traces for run in one.runs]
        self.results = [one.result for one in traces]
        self.old = old
        self._wrong: dict[Any, list[RunTrace]] = {}
        self._odd: dict[Any, list[Any]] = {}
        for run in self.runs:
            run.field = self
        for result in self.results:
            result.field = self

    @cached_property
    def by_digest(self) -> dict[str, list[RunTrace]]:
        """Runs with the same bytes."""
        return _grouped(self.runs, lambda run: run.digest)

    @cached_property
    def by_triple(self) -> dict[Any, list[RunTrace]]:
        """Runs with the same mean, longest latency and query count."""
        return _grouped(self.runs, lambda run: run.triple)

    @cached_property
    def by_content(self) -> dict[str, list[RunTrace]]:
        """Runs that say the same but for times."""
        return _grouped(self.runs, lambda run: run.content)

    @cached_property
    def by_process(self) -> dict[Any, list[RunTrace]]:
        """Runs of the same process that began at the same millisecond."""
        return _grouped(self.runs, lambda run: run.process)

    @cached_property
    def by_answers(self) -> dict[str, list[tuple[ResultTrace, Answers]]]:
        """Accuracy logs with the same bytes."""
        pairs = [(one, answers) for one in self.results for answers in one.answers]
        return _grouped(pairs, lambda pair: pair[1].digest)

    @cached_property
    def by_stated_hash(self) -> dict[str, list[tuple[ResultTrace, Answers]]]:
        """Accuracy runs whose accuracy.txt states one hash."""
        pairs = [(one, answers) for one in self.results for answers in one.answers]
        return _grouped(pairs, lambda pair: pair[1].stated)

    @cached_property
    def scaled(self) -> dict[int, tuple[RunTrace, float]]:
        """By id of a run: a run whose eight latency figures are this one's times one factor."""
        return scaled_pairs(self.runs)

    @cached_property
    def by_task(self) -> dict[Any, list[ResultTrace]]:
        """Results of one system and benchmark, whatever the accuracy target."""
        return _grouped(
            self.results,
            lambda one: (
                one.tree,
                one.subject.division,
                one.subject.submitter,
                one.subject.system,
                base_name(one.subject.benchmark or one.directory),
            ),
        )

    @cached_property
    def by_owner(self) -> dict[Any, list[RunTrace]]:
        """Dated runs of one system, by their beginning."""
        dated = [run for run in self.runs if run.began is not None]
        found = _grouped(dated, lambda run: (run.tree, *run.owner))
        for runs in found.values():
            runs.sort(key=lambda run: (run.began or 0.0, run.path))
        return found

    @cached_property
    def systems(self) -> dict[Any, set[str]]:
        """(tree, submitter) -> the names of its systems."""
        found: dict[Any, set[str]] = defaultdict(set)
        for one in self.results:
            found[one.tree, one.subject.submitter].add(one.subject.system or "")
        return found

    def first_of(
        self, run: RunTrace, what: str, wrong: Callable[[RunTrace], bool]
    ) -> list[RunTrace]:
        """The runs of one system and kind that are wrong in one way, where this is the first; else []."""
        key = (run.tree, run.division, run.owner, run.kind, what)
        if key not in self._wrong:
            members = self._of_kind.get(key[:4], [])
            found = [r for r in members if wrong(r)]
            self._wrong[key] = sorted(found, key=lambda r: (id(r) not in self._own, r.path))
        found = self._wrong[key]
        return found if found and found[0] is run else []

    @cached_property
    def _of_kind(self) -> dict[Any, list[RunTrace]]:
        return _grouped(self.runs, lambda run: (run.tree, run.division, run.owner, run.kind))

    @cached_property
    def submitted(self) -> dict[Any, RunTrace]:
        """(tree, key of a result) -> its performance run."""
        runs = (run for run in reversed(self.runs) if run.kind == "performance")
        return {(run.tree, key): run for run in runs for key in run.results}

    @cached_property
    def commits(self) -> dict[Any, set[float]]:
        """(tree, owner, date of a build) -> the commit dates that its logs state."""
        found: dict[Any, set[float]] = defaultdict(set)
        for run in self.runs:
            if run.built is not None and run.committed is not None:
                found[run.tree, run.owner, run.built].add(run.committed)
        return found

    @cached_property
    def dates_of_commits(self) -> dict[str, Counter[float]]:
        """LoadGen commit -> how many logs name which date for it."""
        found: dict[str, Counter[float]] = defaultdict(Counter)
        for run in self.runs:
            if run.commit is not None and run.committed is not None:
                found[run.commit][run.committed] += 1
        return found

    @cached_property
    def sources_of_commits(self) -> dict[str, Counter[tuple[tuple[str, str], ...]]]:
        """LoadGen commit -> how many logs name which core sources for it."""
        found: dict[str, Counter[tuple[tuple[str, str], ...]]] = defaultdict(Counter)
        for run in self.runs:
            if run.commit is not None and run.sources:
                found[run.commit][run.sources] += 1
        return found

    @cached_property
    def by_kind_of_log(self) -> dict[Any, dict[str, list[RunTrace]]]:
        """LoadGen, scenario and mode -> digest of the records' places -> runs."""
        kinds = _grouped(self.runs, _kind_of_log)
        return {
            kind: _grouped(runs, lambda run: run.written.digest if run.written else None)
            for kind, runs in kinds.items()
        }

    def logs_of_its_kind(self, run: RunTrace) -> dict[str, list[RunTrace]]:
        """The runs of the same LoadGen, scenario and mode, by the digest of their records' places."""
        return self.by_kind_of_log.get(_kind_of_log(run), {})

    @cached_property
    def by_description(self) -> dict[str, list[ResultTrace]]:
        """Results whose system descriptions are the same."""
        return _grouped(self.results, lambda one: one.description)

    @cached_property
    def by_system(self) -> dict[Any, list[ResultTrace]]:
        """Results of one system and benchmark folder."""
        return _grouped(
            self.results,
            lambda one: (
                one.tree,
                one.subject.division,
                one.subject.submitter,
                one.subject.system,
                one.directory,
            ),
        )

    @cached_property
    def comparable(self) -> dict[tuple[Any, ...], list[ResultTrace]]:
        """Closed throughputs by what `peers_of` compares, from all alike to the accelerator alone."""
        found: dict[tuple[Any, ...], list[ResultTrace]] = defaultdict(list)
        for one in self.results:
            throughput = one.metric and one.metric > 0 and (one.unit or "").endswith("/s")
            if throughput and one.subject.division == "closed" and one.inferred_from is None:
                for _, key in _kinds(one):
                    found[key].append(one)
        return found

    def peers_of(self, result: ResultTrace) -> tuple[str, list[ResultTrace]]:
        """The results, with this one, that it is compared with, and what they have in common.

        The narrowest group with three submitters, [] where there is none.
        """
        for what, key in _kinds(result):
            group = self.comparable.get(key, [])
            if result in group and len({one.subject.submitter for one in group}) >= _SUBMITTERS:
                return what, group
        return "", []

    @cached_property
    def source_lines(self) -> dict[tuple[Any, str], dict[tuple[str, int], int]]:
        """(sources, key) -> how many logs write the key from which source line."""
        found: dict[tuple[Any, str], dict[tuple[str, int], int]] = defaultdict(
            lambda: defaultdict(int)
        )
        alike: dict[Any, list[RunTrace]] = _grouped(
            self.runs, lambda run: (run.sources, run.written.digest) if run.written else None
        )
        for runs in alike.values():
            assert runs[0].written is not None
            for key, place in runs[0].written.places.items():
                found[runs[0].sources, key][place] += len(runs)
        return found

    def odd_lines(self, run: RunTrace, odd: Callable[[RunTrace], list[Any]]) -> list[Any]:
        """What ``odd`` says of a run's source lines; asked once for all runs with the same."""
        key = (run.sources, run.written.digest if run.written else None)
        if key not in self._odd:
            self._odd[key] = odd(run)
        return self._odd[key]

    @cached_property
    def source_users(self) -> dict[Any, set[str]]:
        """(round, sources) -> the submitters whose logs have them."""
        found: dict[Any, set[str]] = defaultdict(set)
        for run in self.runs:
            if run.sources:
                found[run.round, run.sources].add(run.subject.submitter or "")
        return found

    @cached_property
    def submitters(self) -> dict[str, set[str]]:
        """The submitters of each round."""
        found: dict[str, set[str]] = defaultdict(set)
        for one in self.results:
            found[one.round].add(one.subject.submitter or "")
        return found

    @cached_property
    def old_rows(self) -> dict[Any, ResultRow]:
        """Valid results of the earlier report by division, submitter, system, benchmark, scenario."""
        if self.old is None:
            return {}
        return {
            (
                row.division,
                row.submitter,
                row.system,
                row.benchmark or row.directory,
                row.scenario.lower(),
            ): row
            for row in self.old.results
            if row.metric is not None
        }


_SUBMITTERS = 3
"""Fewer submitters do not show what others reach."""


def _kinds(one: ResultTrace) -> list[tuple[str, tuple[Any, ...]]]:
    """What a result is compared by, from the narrowest group to the widest, with its key."""
    if not one.accelerator or not one.accelerators:
        return []
    task = (one.round, one.scenario, one.unit, one.accelerator)
    exact, model = one.subject.benchmark, base_name(one.subject.benchmark)
    groups: list[tuple[str, tuple[Any, ...]]] = []
    if one.precision is not None:
        groups = [
            ("accelerator, count and precision", (*task, exact, one.accelerators, one.precision)),
            ("accelerator and precision", (*task, exact, None, one.precision)),
        ]
    groups += [
        ("accelerator", (*task, exact, None, None)),
        ("accelerator and model", (*task, model, "any target", None)),
    ]
    if one.family is not None:
        wide = (one.round, one.scenario, one.unit, one.family, model, "family")
        groups.append(("accelerator family and model", wide))
    return groups


_ONE_FACTOR = 2e-5
_OWN_SPREAD = 0.05


def scaled_pairs(runs: list[RunTrace]) -> dict[int, tuple[RunTrace, float]]:
    """Runs whose latency figures are another run's times one factor, and that factor.

    Two logs are such a pair where the natural logarithms of the eight ratios differ by less than
    2e-5, while each log's own figures spread by more than 5%; the factor is not 1.
    """
    shapes = []
    for run in runs:
        # Offline's latencies rise evenly, so that two genuine runs can have one shape.
        if run.latencies and run.logged_scenario != "Offline":
            logs = [math.log(value) for value in run.latencies]
            if max(logs) - min(logs) > _OWN_SPREAD:
                shapes.append((tuple(log - logs[0] for log in logs[1:]), logs[0], run))
    # Sorted by the first figure of the shape, only neighbours can be alike.
    shapes.sort(key=lambda shape: (shape[0], shape[2].path))
    found: dict[int, tuple[RunTrace, float]] = {}
    for index, (shape, scale, run) in enumerate(shapes):
        for other_shape, other_scale, other in shapes[index + 1 :]:
            if other_shape[0] - shape[0] > _ONE_FACTOR:
                break
            if abs(other_scale - scale) < _ONE_FACTOR:
                continue
            if max(abs(a - b) for a, b in zip(shape, other_shape, strict=True)) < _ONE_FACTOR:
                found.setdefault(id(run), (other, math.exp(scale - other_scale)))
                found.setdefault(id(other), (run, math.exp(other_scale - scale)))
    return found


def _grouped(items: list[Any], key: Any) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for item in items:
        mark = key(item)
        if mark is not None:
            found[mark].append(item)
    return found
