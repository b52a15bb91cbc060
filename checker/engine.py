"""discover -> parse -> model -> rules -> findings: the whole of one check.

One work unit is a few result folders of one system, parsed and judged in a worker; findings and
the summary row travel back, nothing else. The order of the output never depends on the number
of workers.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from checker import metrics
from checker.archive import Limits, opened
from checker.audit.traces import ResultTrace, RunTrace, Traces, traces_of
from checker.clean import clean
from checker.detect import detect_round
from checker.discover import Place, Plan, ResultPlan, discover, locate
from checker.judging import Judge, clean_subject
from checker.load import load_result, load_system
from checker.machine import MachineFault
from checker.model import LogPrint, Result, System, print_of
from checker.parse.reading import list_tree
from checker.rule import Rule
from checker.workers import one_worker, workers
from schemas.load import load_round
from schemas.report import (
    FORMAT,
    FORMAT_VERSION,
    Finding,
    Report,
    Severity,
    Subject,
    Summary,
    Tool,
)
from schemas.report import Result as ResultRow
from schemas.round import Round

_CHUNK = 6

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Options:
    """What to check and how. select and ignore hold rule ids, names or family letters.

    since: an earlier round's report to compare an audit's results with. unpack: how much of an
    archive may be unpacked.
    """

    round: str | None = None
    divisions: frozenset[str] | None = None
    submitters: frozenset[str] | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    waivers: Path | None = None
    jobs: int | None = None
    audit: bool = False
    data: dict[str, str] = field(default_factory=dict)
    benchmark: str | None = None
    scenario: str | None = None
    since: Report | None = None
    unpack: Limits | None = None


@dataclass(slots=True)
class Outcome:
    """What a worker sends back of one result."""

    row: ResultRow
    findings: list[Finding]
    traces: Traces | None = None
    prints: list[LogPrint] = field(default_factory=list)


@dataclass(slots=True)
class Examined:
    """One tree, judged by itself: what `audit` joins. ``label`` tells several trees apart."""

    round: Round
    detected_from: str
    place: Place
    tree: str
    rows: list[ResultRow]
    findings: list[Finding]
    traces: list[Traces]
    label: str = ""


def _work(
    plans: list[ResultPlan],
    round_name: str,
    rule_ids: tuple[str, ...],
    data: dict[str, str],
    audit: bool = False,
) -> list[Outcome]:
    """Parse and judge some results: what runs in a worker."""
    from checker.rules import by_id

    judge = Judge((by_id(id) for id in rule_ids), load_round(round_name), audit=audit)
    return [_one(plan, judge, data) for plan in plans]


def _one(plan: ResultPlan, judge: Judge, data: dict[str, str]) -> Outcome:
    round = judge.round
    try:
        result = load_result(plan, round)
        if data:
            from checker.recompute import recompute_accuracy

            recompute_accuracy(result, data)
        return _judge_result(result, judge)
    except (MachineFault, MemoryError):
        raise
    except Exception as error:
        return _broken(plan, round, error)


class _NoMemory(RuntimeError):
    """A result that ends its worker even when it is judged alone."""

    fix = "check it again with more memory, or with --jobs 1"


def _broken(plan: ResultPlan, round: Round, error: BaseException) -> Outcome:
    subject = clean_subject(
        Subject(plan.division, plan.submitter, plan.system, plan.name or plan.directory,
                plan.scenario or plan.scenario_folder)
    )  # fmt: skip
    finding = Finding(
        "X001", "rule-raised", "error",
        clean(f"this result could not be read or judged: {type(error).__name__}: {error}", 2000),
        clean(plan.path), subject=subject,
        fix=getattr(error, "fix", "this is a mistake of assay: report it with the folder named here"),
    )  # fmt: skip
    row = ResultRow(
        clean(plan.division), clean(plan.submitter), clean(plan.system), plan.name,
        clean(plan.directory), clean(plan.scenario_folder), None, "invalid", None, [], None, None,
        clean(plan.path), 0,
    )  # fmt: skip
    return Outcome(row, [finding])


def _judge_result(result: Result, judge: Judge) -> Outcome:
    findings: list[Finding] = []
    applied = 0
    skipped: list[str] = []
    things: list[Any] = [result, *result.runs]
    if result.accuracy is not None:
        things.append(result.accuracy)
    for test in result.tests.values():
        things.append(test)
        if test.run is not None:
            things.append(test.run)
    if result.ranging is not None:
        things.append(result.ranging)
    for thing in things:
        judged = judge(thing)
        findings.extend(judged.findings)
        applied += judged.applied
        skipped.extend(judged.skipped)
    weights = result.measurements.fields.get("weight_data_types") if result.measurements else None
    row = ResultRow(
        division=clean(result.division),
        submitter=clean(result.submitter),
        system=clean(result.system.name),
        benchmark=result.name,
        directory=clean(result.directory),
        scenario=clean(result.scenario_folder),
        category=result.category,
        status="valid",  # until `_with_status` has seen every finding, waivers included
        metric=_finite(metrics.metric_of(result)),
        accuracy=[
            score for score in metrics.accuracy_of(result) if math.isfinite(score.value)
        ],
        inferred_from=clean(result.inferred_from),
        power=_finite(metrics.power_of(result)),
        path=clean(result.path) or ".",
        rules_applied=applied,
        rules_not_applied=sorted(set(skipped)),
        system_description={
            str(clean(k)): clean(v, 2000) for k, v in list(result.system.fields.items())[:200]
        },
        weight_data_types=_weights(weights),
        limits=metrics.limits_of(result),
        runs=clean_facts(metrics.facts_of(result)),
    )  # fmt: skip
    # Rules across runs are applied by the parent, which alone sees all of them.
    across = any(rule.target in (RunTrace, ResultTrace) for rule in judge.rules)
    prints = [mark for run in result.runs if (mark := print_of(run)) is not None]
    return Outcome(row, findings, traces_of(result) if across else None, prints)


def clean_facts(facts: list[Any]) -> list[Any]:
    """Run facts with every text made safe to print."""
    return [
        msgspec.structs.replace(
            f, path=clean(f.path), started=clean(f.started), loadgen_version=clean(f.loadgen_version),
            scenario=clean(f.scenario), mode=clean(f.mode), validity=clean(f.validity),
            settings=clean(f.settings),
            query_count=f.query_count if f.query_count is None or abs(f.query_count) < 2**63 else None,
        )
        for f in facts
    ]  # fmt: skip


def _weights(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return clean(", ".join(str(v) for v in value), 500)
    if isinstance(value, dict):
        return clean(", ".join(f"{k}: {v}" for k, v in value.items()), 500)
    return clean(str(value), 500)


def _finite(metric: Any) -> Any:
    return metric if metric is not None and math.isfinite(metric.value) else None


def _chunks(plans: list[ResultPlan], jobs: int) -> list[list[ResultPlan]]:
    size = max(1, min(_CHUNK, len(plans) // (jobs * 4) + 1))
    return [plans[i : i + size] for i in range(0, len(plans), size)]


def run_units(
    plans: list[ResultPlan],
    round: Round,
    rules: Sequence[Rule],
    *,
    jobs: int,
    data: dict[str, str] | None = None,
    audit: bool = False,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Judge every result, in the order of the plans whatever carries the work."""
    ids = tuple(rule.id for rule in rules)
    outcomes: dict[int, list[Outcome]] = {}
    data = data or {}
    chunks = _chunks(plans, jobs)
    done = 0
    with workers(jobs if len(chunks) > 1 else 1, executor) as pool:
        if pool is None:
            for index, chunk in enumerate(chunks):
                try:
                    outcomes[index] = _work(chunk, round.name, ids, data, audit)
                except MemoryError:
                    outcomes[index] = []
                done += len(chunk)
                if progress:
                    progress(done, len(plans))
        else:
            waiting = {
                pool.submit(_work, chunk, round.name, ids, data, audit): i
                for i, chunk in enumerate(chunks)
            }
            for future in as_completed(waiting):
                index = waiting[future]
                try:
                    outcomes[index] = future.result()
                except (BrokenExecutor, MemoryError):
                    outcomes[index] = []
                except MachineFault:
                    raise
                except Exception as error:
                    outcomes[index] = [_broken(plan, round, error) for plan in chunks[index]]
                done += len(chunks[index])
                if progress:
                    progress(done, len(plans))
    for index, chunk in enumerate(chunks):
        if not outcomes[index]:
            # A worker died (killed, out of memory): each of its results is tried alone, in a
            # process of its own, so that one of them cannot take the others along.
            outcomes[index] = [_alone(plan, round, ids, data, audit) for plan in chunk]
    return [outcome for index in range(len(chunks)) for outcome in outcomes[index]]


def _alone(
    plan: ResultPlan, round: Round, ids: tuple[str, ...], data: dict[str, str], audit: bool
) -> Outcome:
    try:
        with one_worker() as pool:
            return pool.submit(_work, [plan], round.name, ids, data, audit).result()[0]
    except MachineFault:
        raise
    except (BrokenExecutor, MemoryError):
        return _broken(plan, round, _NoMemory("its worker ended early, twice: out of memory?"))
    except Exception as error:
        return _broken(plan, round, error)


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
    BadArchive for what was asked for; never for what the tree holds.
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
    from checker.audit.join import compare, labels, relabelled
    from checker.rules import all_facts, select_rules, tool
    from checker.waivers import apply_waivers

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
    findings = [finding for part in parts for finding in part.findings]
    findings.extend(
        compare(
            [t for part in parts for t in part.traces], rules, options.since, audit=options.audit
        )
    )
    findings = apply_waivers(findings, options.waivers)
    findings = sorted(set_order(findings), key=finding_order)
    rows: list[ResultRow] = []
    for part in parts:
        own = findings
        if part.label:
            own = [f for f in findings if f"{f.path}/".startswith(part.label + "/")]
        rows.extend(_with_status(row, own) for row in part.rows)
    rows.sort(key=lambda r: (r.division, r.submitter, r.system, r.directory, r.scenario, r.path))
    applied_ids = {rule.id for rule in rules}
    gaps = [(part.label, gap) for part in parts for gap in _not_checked(part.place)]
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
        rules=[f for f in all_facts() if f.id in applied_ids or f in tool.ENGINE],
        scope=parts[0].place.scope if len(parts) == 1 else "tree",
        not_checked=[f"{label}: {gap}" if label else gap for label, gap in gaps],
    )


def _examine(
    where: Path,
    options: Options,
    rules: Sequence[Rule],
    executor: Executor | None,
    progress: Progress | None,
) -> Examined:
    """Judge one tree by itself."""
    with opened(where, options.unpack) as (folder, archive_findings):
        listing = list_tree(folder)
        place = _with_names(locate(folder, listing), options)
        above = (place.benchmark,) if place.scope in ("benchmark", "result", "run") else ()
        detected = detect_round(listing, above)
        name = options.round or detected.name
        round = load_round(name)
        plan = discover(
            listing, round, place, divisions=options.divisions, submitters=options.submitters
        )
        outcomes = run_units(
            plan.results, round, rules, jobs=_jobs(options.jobs), data=options.data,
            audit=options.audit,
            executor=executor, progress=progress,
        )  # fmt: skip
        findings = [*archive_findings]
        findings.extend(f for outcome in outcomes for f in outcome.findings)
        rows = [outcome.row for outcome in outcomes]
        judge = Judge(rules, round, audit=options.audit)
        findings.extend(_whole(plan, judge))
        for log in _twins([p for outcome in outcomes for p in outcome.prints]):
            findings.extend(judge(log).findings)
    findings.extend(_about_round(options, detected, round))
    if not plan.results:
        findings.append(_nothing(plan, options))
    elif place.scope == "run" and plan.results[0].name is None:
        findings.append(_no_limits(place, round))
    return Examined(
        round, "given by --round" if options.round else detected.reason, place,
        clean(where.name or str(where.resolve().name)) or ".", rows, findings,
        [outcome.traces for outcome in outcomes if outcome.traces is not None],
    )  # fmt: skip


def _jobs(asked: int | None) -> int:
    if asked is not None:
        return max(1, asked)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def set_order(findings: Iterable[Finding]) -> list[Finding]:
    """Findings without exact repeats."""
    seen: set[bytes] = set()
    kept = []
    for finding in findings:
        key = msgspec.json.encode(finding)
        if key not in seen:
            seen.add(key)
            kept.append(finding)
    return kept


def finding_order(finding: Finding) -> tuple[Any, ...]:
    """By path, line, rule; then by message, so that the order is total."""
    return (finding.path or "", finding.line or 0, finding.rule, finding.message,
            msgspec.json.encode(finding))  # fmt: skip


def _whole(plan: Plan, judge: Judge) -> Iterator[Finding]:
    """Judge what is larger than one result: the tree, submitters, systems, benchmarks."""
    tree = plan.tree
    categories: dict[tuple[str, str, str], str | None] = {}
    for submitter in tree.submitters:
        loaded: list[System] = []
        for system in submitter.systems:
            key = (submitter.division, submitter.name, system.name)
            full = load_system(*key, system.path, plan.system_files[key], complete=system.complete)
            full.has_results = system.has_results
            full.power_document = system.power_document
            loaded.append(full)
            categories[key] = full.category
        submitter.systems = loaded
        yield from judge(submitter).findings
        for system in loaded:
            yield from judge(system).findings
        for group in submitter.benchmarks:
            group.category = categories.get((submitter.division, submitter.name, group.system))
            yield from judge(group).findings
    yield from judge(tree).findings


def _with_status(row: ResultRow, findings: Sequence[Finding]) -> ResultRow:
    """A result's verdict: no unwaived error on it or on its system's description."""
    bad = any(f.severity == "error" and f.waived is None and concerns(f, row) for f in findings)
    return msgspec.structs.replace(row, status="invalid" if bad else "valid")


def concerns(finding: Finding, row: ResultRow) -> bool:
    """Whether a finding is about this result or about the description of its system."""
    subject = finding.subject
    if (subject.division, subject.submitter, subject.system) != (
        row.division,
        row.submitter,
        row.system,
    ):
        return False
    if subject.scenario is not None:
        inside = finding.path is None or row.path == "." or finding.path == row.path
        inside = inside or (finding.path or "").startswith(row.path + "/")
        named = subject.benchmark in (row.benchmark, row.directory)
        same_scenario = subject.scenario.lower() == row.scenario.lower()
        if not (named and (same_scenario or inside)):
            return False
        # Two folders may mean one benchmark: the path tells whose finding it is.
        other = f"/{row.system}/" in (finding.path or "") and f"/{row.directory}/" not in (
            finding.path or ""
        )
        return same_scenario and not other
    return subject.benchmark is None and finding.rule[0] in "DNX"


def _about_round(options: Options, detected: Any, round: Round) -> Iterator[Finding]:
    if not options.round or not detected.sure or detected.name == round.name:
        return
    # Seeds are the evidence; of rounds that share them either may be meant.
    if load_round(detected.name).seeds != round.seeds:
        yield Finding(
            "X004", "round-contradicts-tree", "warning",
            f"the tree looks like {detected.name} ({detected.reason}), and {round.name} was asked for",
            ".", found=detected.name, required=round.name,
            fix=f"leave --round out, or say --round {detected.name}",
        )  # fmt: skip


def _twins(prints: Sequence[LogPrint]) -> Iterator[LogPrint]:
    """Each performance log with the logs of other systems that are the same."""
    groups: dict[Any, list[LogPrint]] = {}
    for log in prints:
        groups.setdefault((log.division, log.mark), []).append(log)
    for log in prints:
        group = groups[log.division, log.mark]
        yield replace(log, twins=tuple(o.path for o in group if o.system != log.system))


def _with_names(place: Place, options: Options) -> Place:
    """The place with the benchmark and scenario that were said, where TREE is less than a system."""
    if place.scope not in ("result", "run"):
        return place
    return replace(
        place, benchmark=options.benchmark or place.benchmark,
        scenario=options.scenario or place.scenario,
    )  # fmt: skip


def _no_limits(place: Place, round: Round) -> Finding:
    return Finding(
        "X008", "limits-not-applied", "warning",
        clean(
            f"the run's benchmark is not known ({place.benchmark!r} is none of {round.name}): none of the "
            "round's limits was applied to it",
            1000,
        ),
        ".", fix="say which it is: --benchmark B --scenario S, and --round R if it is another round's",
    )  # fmt: skip


def _nothing(plan: Plan, options: Options) -> Finding:
    seen = sorted({f"{s.division}/{s.name}" for s in plan.tree.submitters})
    if options.submitters:
        asked = ", ".join(sorted(options.submitters))
        message = f"nothing was checked: no results of submitter {asked}"
        near = [
            n for n in plan.other_submitters if n.lower() in {a.lower() for a in options.submitters}
        ]
        if near:
            message += f"; did you mean {' or '.join(near)}?"
        elif plan.other_submitters:
            message += f"; there are {', '.join(plan.other_submitters[:20])}"
    elif seen:
        message = f"nothing was checked: no result folder below {', '.join(seen[:5])}"
    else:
        message = "nothing was checked: no folder closed/, open/ or network/ with results in it"
    return Finding(
        "X003", "nothing-checked", "error", clean(message, 1000), ".",
        fix="give the folder that holds closed/, open/ or network/, a submitter's folder, or one run's folder",
    )  # fmt: skip


def _not_checked(place: Place) -> list[str]:
    outside = (
        "system description, code, documentation and, before v6.0, measurements and compliance "
        "tests: they stand outside the folder that was given"
    )
    return {
        "tree": [],
        "division": ["what stands beside the division's folder"],
        "submitter": ["what stands beside the submitter's folder"],
        "system": [outside],
        "benchmark": [outside, "the system's other benchmarks"],
        "result": [outside, "whether the benchmark's other required scenarios are there"],
        "run": [
            "everything but this run's own logs: accuracy, measurements, compliance tests and "
            "system description stand outside the folder that was given"
        ],
    }[place.scope]


def summarise(rows: Sequence[ResultRow], findings: Sequence[Finding]) -> Summary:
    """Counts of results and of findings that stand."""

    def count(severity: Severity) -> int:
        return sum(f.severity == severity and f.waived is None for f in findings)

    valid = sum(row.status == "valid" for row in rows)
    return Summary(
        len(rows), valid, len(rows) - valid, count("error"), count("warning"), count("note"),
        sum(f.waived is not None for f in findings),
    )  # fmt: skip
