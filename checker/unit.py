"""One result: read, judged and summed up as a row of the report. This is what runs in a worker.

Findings and the row travel back, nothing else.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import msgspec

from checker import metrics
from checker.audit.copies import CopiedRuns
from checker.audit.traces import ResultTrace, RunTrace, Traces
from checker.audit.tracing import BETWEEN_RUNS, note_contradictions, traces_of
from checker.causes import Link, linked
from checker.clean import clean
from checker.discover import ResultPlan
from checker.judging import Judge, clean_subject
from checker.load import load_result
from checker.model import Result
from checker.shared_logs import Fingerprint, fingerprint_of
from schemas.load import load_round
from schemas.machine import MachineFault
from schemas.report import Finding, Subject
from schemas.report import Result as ResultRow
from schemas.round import Round


class Outcome(msgspec.Struct):
    """What a worker sends back of one result.

    The row lacks the system's description, which the parent reads once for all of its results.
    """

    row: ResultRow
    findings: list[Finding]
    traces: Traces | None = None
    prints: list[Fingerprint] = []


def work(
    plans: list[ResultPlan],
    round_name: str,
    rule_ids: tuple[str, ...],
    data: dict[str, str],
    audit: bool = False,
) -> list[Outcome]:
    """Parse and judge some results: what runs in a worker."""
    judge = judge_of(round_name, rule_ids, audit)
    return [_one(plan.whole(), judge, data) for plan in plans]


def work_packed(
    plans: list[ResultPlan],
    round_name: str,
    rule_ids: tuple[str, ...],
    data: dict[str, str],
    audit: bool = False,
) -> bytes | list[Outcome]:
    """What `work` returns, as MessagePack: a fifth of the size until its turn comes.

    As it is where MessagePack cannot hold it.
    """
    outcomes = work(plans, round_name, rule_ids, data, audit)
    try:
        return msgspec.msgpack.encode(outcomes)
    except (TypeError, ValueError, OverflowError):
        return outcomes


def outcomes_of(packed: bytes | list[Outcome]) -> list[Outcome]:
    """The outcomes that `work_packed` sent."""
    if isinstance(packed, list):
        return packed
    return msgspec.msgpack.decode(packed, type=list[Outcome])


@functools.lru_cache(maxsize=1)
def judge_of(round_name: str, rule_ids: tuple[str, ...], audit: bool) -> Judge:
    """The judge of a check, made once in each process."""
    from checker.rules import by_id

    return Judge((by_id(id) for id in rule_ids), load_round(round_name), audit=audit)


def _one(plan: ResultPlan, judge: Judge, data: dict[str, str]) -> Outcome:
    round = judge.round
    result = None
    try:
        result = load_result(plan, round)
        if data:
            from checker.recompute import recompute_accuracy

            recompute_accuracy(result, data)
        return _judge_result(result, judge)
    except (MachineFault, MemoryError):
        raise
    except Exception as error:
        return broken(plan, round, error)
    finally:
        if result is not None:
            # Runs and tests point back to their result: without this only the garbage collector,
            # which is off during a command's check, would free their logs.
            result.runs.clear()
            result.tests.clear()
            result.accuracy = result.ranging = None


class NoMemory(RuntimeError):
    """A result that ends its worker even when it is judged alone."""

    fix = "check it again with more memory, or with --jobs 1"


def broken(plan: ResultPlan, round: Round, error: BaseException) -> Outcome:
    subject = clean_subject(
        Subject(
            division=plan.division,
            submitter=plan.submitter,
            system=plan.system,
            benchmark=plan.name or plan.directory,
            scenario=plan.scenario or plan.scenario_folder,
        )
    )
    finding = Finding(
        rule="X001",
        name="rule-raised",
        severity="error",
        message=clean(
            f"this result could not be read or judged: {type(error).__name__}: {error}", 2000
        ),
        path=clean(plan.path),
        subject=subject,
        results=(plan.key,),
        invalidates=(plan.key,),
        fix=getattr(error, "fix", "this is a bug in Assay: report it, with the folder named here"),
    )
    row = ResultRow(
        division=clean(plan.division),
        submitter=clean(plan.submitter),
        system=clean(plan.system),
        benchmark=plan.name,
        directory=clean(plan.directory),
        scenario=clean(plan.scenario_folder),
        category=None,
        status="invalid",
        metric=None,
        accuracy=[],
        inferred_from=None,
        power=None,
        path=clean(plan.path),
        rules_applied=0,
        key=plan.key,
    )
    return Outcome(row, [finding])


def _one_for_each_cause(findings: list[Finding]) -> list[Finding]:
    """Without the findings of unusable values that a rule of its own has reported."""
    said: dict[str | None, list[str]] = {}
    for finding in findings:
        if finding.rule != "X002":
            said.setdefault(finding.path, []).append(finding.message)
    return [
        f
        for f in findings
        if f.rule != "X002"
        or f.pointer is None
        or not any(f.pointer in message for message in said.get(f.path, []))
    ]


def things_of(result: Result) -> Iterator[Any]:
    """The result and everything of it that rules judge by itself, in the order of judging."""
    yield result
    yield from result.runs
    if result.accuracy is not None:
        yield result.accuracy
    for test in result.tests.values():
        # What is asked of a run's log in vain is reported with its test, so the run comes first.
        if test.run is not None:
            yield test.run
        yield test
    if result.ranging is not None:
        yield result.ranging


def _judge_result(result: Result, judge: Judge) -> Outcome:
    # First what the row, the rules across runs and LoadGen's twins need: a record that they ask for
    # in vain is then reported with the others. Rules across runs are applied by the parent, which
    # alone sees all of them.
    across = not judge.targets.isdisjoint((RunTrace, ResultTrace, CopiedRuns))
    traces = traces_of(result) if across else None
    prints = [mark for run in result.runs if (mark := fingerprint_of(run)) is not None]
    runs = clean_facts(metrics.facts_of(result))
    findings: list[Finding] = []
    links: list[Link] = []
    applied = 0
    skipped: list[str] = []
    for thing in things_of(result):
        judged = judge(thing)
        findings.extend(judged.findings)
        links.extend(judged.links)
        applied += judged.applied
        skipped.extend(judged.skipped)
    findings = linked(_one_for_each_cause(findings), links)
    prints = [_doubted(mark, findings) for mark in prints]
    if traces is not None:
        note_contradictions(traces, findings)
    weights = result.measurements.fields.get("weight_data_types") if result.measurements else None
    row = ResultRow(
        division=clean(result.division),
        submitter=clean(result.submitter),
        system=clean(result.system.name),
        benchmark=result.name,
        directory=clean(result.directory),
        scenario=clean(result.scenario_folder),
        category=result.category,
        status="valid",  # until `verdict` has seen every finding, waivers included
        metric=_finite(metrics.metric_of(result)),
        accuracy=[score for score in metrics.accuracy_of(result) if math.isfinite(score.value)],
        inferred_from=clean(result.inferred_from),
        power=_finite(metrics.power_of(result)),
        path=clean(result.path) or ".",
        rules_applied=applied,
        rules_not_applied=sorted(set(skipped)),
        weight_data_types=_weights(weights),
        limits=metrics.limits_of(result),
        runs=runs,
        key=result.key,
    )
    return Outcome(row, findings, traces, prints)


def _doubted(log: Fingerprint, findings: list[Finding]) -> Fingerprint:
    doubts = {
        f.rule
        for f in findings
        if f.severity == "error" and (f.path == log.path or f.rule in BETWEEN_RUNS)
    }
    return msgspec.structs.replace(log, doubts=tuple(sorted(doubts))) if doubts else log


def clean_facts(facts: list[Any]) -> list[Any]:
    """Run facts with every text made safe to print."""
    return [
        msgspec.structs.replace(
            f,
            path=clean(f.path),
            started=clean(f.started),
            loadgen_version=clean(f.loadgen_version),
            scenario=clean(f.scenario),
            mode=clean(f.mode),
            validity=clean(f.validity),
            settings=clean(f.settings),
            query_count=f.query_count
            if f.query_count is None or abs(f.query_count) < 2**63
            else None,
        )
        for f in facts
    ]


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
