"""Family R: runs and results of one system among each other, and against other submitters and rounds."""

from __future__ import annotations

import math
import statistics

from checker.audit.evidence import evidence, moment
from checker.audit.field import Field
from checker.audit.traces import ResultTrace, RunTrace
from checker.rule import NOTE, WARNING, NotJudged, Problem, Problems, given, rule
from checker.wording import listed, milliseconds, number, pair
from schemas.round import Round

_FAR = 20
"""Most partners that one finding names."""

_OVERLAP_S = 30.0


@rule("R304", NOTE)
def runs_one_after_another(run: RunTrace, round: Round, field: Field) -> Problems:
    """Runs of one system do not overlap in time by more than 30 s.

    Why: a system that runs two tests at once does not give either all of its performance. There are
    valid reasons: several identical machines, or a partitioned system.
    Fix: say in the description when several machines or partitions were used.
    Source: LoadGen: test_datetime and the time of the last record.
    """
    if run.began is None or run.ended is None:
        raise NotJudged
    worst: tuple[float, RunTrace] | None = None
    count = 0
    for other in field.by_owner.get((run.tree, *run.owner), []):
        if other.began is None or other.ended is None or other.began > run.began:
            break
        if (
            other is run
            or other.digest == run.digest
            or (other.began, other.path) > (run.began, run.path)
        ):
            continue
        overlap = min(run.ended, other.ended) - run.began
        if overlap > _OVERLAP_S:
            count += 1
            if worst is None or overlap > worst[0]:
                worst = overlap, other
    if worst is not None:
        overlap, other = worst
        more = f" ({count} runs in all)" if count > 1 else ""
        yield Problem(
            f"found an overlap of {overlap:,.0f} s with another run of the system, {other.path}{more}; "
            f"expected at most {_OVERLAP_S:g} s",
            path=run.path,
            line=run.lines.get("test_datetime"),
            found=float(f"{overlap:.1f}"),
            required=f"<= {_OVERLAP_S:g} s",
            evidence=evidence(
                "test_datetime >= end of every earlier run of the system",
                "low",
                {
                    "this run": f"{moment(run.began)} to {moment(run.ended)}",
                    "other run": f"{moment(other.began)} to {moment(other.ended)}",
                    "other log": other.path,
                },
                {"test_datetime": run.lines.get("test_datetime", 0)},
            ),
        )


def _result(field: Field, trace: ResultTrace, scenario: str) -> list[ResultTrace]:
    subject = trace.subject
    key = (trace.tree, subject.division, subject.submitter, subject.system, trace.directory)
    return [o for o in field.by_system.get(key, []) if o.scenario == scenario]


@rule("R311", WARNING)
def server_below_offline(result: ResultTrace, round: Round, field: Field) -> Problems:
    """Server's throughput is at most 1.05 times Offline's.

    Why: Offline may order and batch everything; with arrivals and latency bounds no system is
    clearly faster.
    Fix: look for different builds or settings of the two runs, and measure Offline again.
    Source: LoadGen: tokens or samples per second of both runs; 1% of published pairs are above.
    """
    if result.scenario != "Server" or result.inferred_from is not None:
        raise NotJudged
    offline = given(
        next((o for o in _result(field, result, "Offline") if o.inferred_from is None), None)
    )
    pairs = (
        ("result_completed_tokens_per_second", "result_tokens_per_second"),
        ("result_completed_samples_per_sec", "result_samples_per_second"),
        ("result_scheduled_samples_per_sec", "result_samples_per_second"),
    )
    for mine, theirs in pairs:
        server, batch = result.rates.get(mine), offline.rates.get(theirs)
        if not server or not batch:
            continue
        if server / batch > 1.05:
            yield Problem(
                f"found {mine} {pair(server, batch)[0]}, {server / batch:.3f} times Offline's "
                f"{pair(server, batch)[1]}; expected at most 1.05 times",
                path=result.detail_path,
                line=result.line,
                found=float(f"{server / batch:.4g}"),
                required="<= 1.05",
                evidence=evidence(
                    f"{mine} / {theirs} <= 1.05",
                    "moderate",
                    {
                        f"Server {mine}": server,
                        f"Offline {theirs}": batch,
                        "Offline": offline.detail_path,
                    },
                ),
            )
        return
    raise NotJudged


@rule("R312", NOTE)
def per_accelerator_as_others(result: ResultTrace, round: Round, field: Field) -> Problems:
    """The result per accelerator is near that of other submitters with the same accelerator.

    The narrowest of five groups with three submitters: the same accelerator, count and precision; the
    same accelerator and precision; the same accelerator; any accuracy target of the model; the same
    family of accelerators. A result is far off by more than 15% and six median deviations (of the
    logarithm).

    Why: the same part in the same benchmark gives nearly the same; what is far off is worth a look.
    Fix: nothing, if scaling, clocks or software explain it.
    Source: closed throughputs per accelerator of one benchmark, scenario and round.
    """
    if not result.metric or result.metric <= 0 or not result.accelerators:
        raise NotJudged
    same, group = field.peers_of(result)
    if not group:
        raise NotJudged
    submitters = len({one.subject.submitter for one in group})
    logs = [math.log(o.metric / o.accelerators) for o in group if o.metric and o.accelerators]
    middle = statistics.median(logs)
    deviation = statistics.median(abs(value - middle) for value in logs)
    mine = result.metric / result.accelerators
    off = math.log(mine) - middle
    if abs(off) > math.log(1.15) and abs(off) > 6 * deviation:
        median = math.exp(middle)
        yield Problem(
            f"found {number(mine)} {result.unit} per accelerator ({result.accelerators} x {result.accelerator}); "
            f"expected about {number(median)}, the median of {len(group)} results of "
            f"{submitters} submitters with the same {same} ({(mine / median - 1) * 100:+,.1f}%)",
            path=result.detail_path,
            line=result.line,
            found=float(f"{mine:.6g}"),
            required=f"about {median:.6g}",
            evidence=evidence(
                "|log(result / median)| <= max(log 1.15, 6 median deviations)",
                "low",
                {
                    "this result": mine,
                    "median": median,
                    "results": len(group),
                    "submitters": submitters,
                    "the same": same,
                    "median deviation": deviation,
                    "accelerators": result.accelerators,
                },
            ),
        )


@rule("R313", NOTE)
def description_of_its_own(result: ResultTrace, round: Round, field: Field) -> Problems:
    """Two systems have two descriptions.

    Why: one description under two systems, or two submitters, is one machine named twice, or a
    copied description. Joint submissions do so openly.
    Fix: describe each system, or say that two entries are one machine.
    Source: submission_rules.adoc, "System description"; compared without submitter, division, status.
    """
    if result.description is None:
        raise NotJudged
    group = [o for o in field.by_description[result.description] if o.tree == result.tree]
    mine = (result.subject.submitter, result.subject.system)
    first = min(
        o.path
        for o in group
        if (o.subject.submitter, o.subject.system, o.subject.division)
        == (*mine, result.subject.division)
    )
    others = sorted({(o.subject.submitter, o.subject.system) for o in group} - {mine}, key=str)
    # Told once for a system, by the later of the two.
    if first != result.path or not any(str(o) < str(mine) for o in others):
        return
    names = [f"{a} {b}" for a, b in others]
    yield Problem(
        f"found the description of {listed(names, limit=5)}, submitter, division and status aside; "
        "expected one of its own",
        found=names[:_FAR],
        required="a description of its own",
        evidence=evidence(
            "digest of the description without submitter, division and status",
            "low",
            {
                "this system": " ".join(str(m) for m in mine),
                "other systems": ", ".join(names[:_FAR]),
            },
        ),
    )


@rule("R314", NOTE)
def multi_over_single(result: ResultTrace, round: Round, field: Field) -> Problems:
    """MultiStream's 99th percentile is 1 to 8.5 times SingleStream's.

    Why: eight samples take at least as long as one, and at most as long as eight in a row.
    Fix: look for different builds or settings of the two runs.
    Source: LoadGen: 99th percentile latencies of both runs.
    """
    if result.scenario != "MultiStream" or result.inferred_from is not None:
        raise NotJudged
    single = next(
        (o for o in _result(field, result, "SingleStream") if o.inferred_from is None), None
    )
    eight = given(result.rates.get("result_99.00_percentile_per_query_latency_ns") or None)
    one = given(
        (single.rates.get("result_99.00_percentile_latency_ns") if single is not None else None)
        or None
    )
    if single is None:
        raise NotJudged
    ratio = eight / one
    if not 1 <= ratio <= 8.5:
        yield Problem(
            f"found a MultiStream 99th percentile of {milliseconds(eight)}, {ratio:.2f} times SingleStream's "
            f"{milliseconds(one)}; expected 1 to 8.5 times",
            path=result.detail_path,
            found=float(f"{ratio:.3g}"),
            required="1 to 8.5",
            evidence=evidence(
                "1 <= MultiStream p99 / SingleStream p99 <= 8.5",
                "low",
                {
                    "MultiStream p99 (ns)": eight,
                    "SingleStream p99 (ns)": one,
                    "SingleStream": single.detail_path,
                },
            ),
        )


@rule("R321", NOTE, cases={"far": WARNING})
def moved_since(result: ResultTrace, round: Round, field: Field) -> Problems:
    """How far a result moved since the earlier round's report.

    Why: one system's result changes with its software, by a few percent as a rule; the very same
    number in two rounds, whose seeds differ, is not a second measurement.
    Fix: nothing, if the change is explained; run again where the number is the same.
    Source: `assay audit --since`: the metric of the same system, benchmark and scenario.
    """
    if field.old is None:
        raise NotJudged
    subject = result.subject
    row = given(
        field.old_rows.get(
            (
                subject.division,
                subject.submitter,
                subject.system,
                subject.benchmark or result.directory,
                (subject.scenario or result.scenario).lower(),
            )
        )
    )
    if row.metric is None or result.metric is None or row.metric.unit != result.unit:
        raise NotJudged
    before, now = row.metric.value, result.metric
    if not before or not math.isfinite(now):
        raise NotJudged
    change = (now / before - 1) * 100
    same = now == before
    case = "far" if same or abs(change) > 15 else None
    what = "exactly as much" if same else f"{abs(change):,.2f}% {'more' if change > 0 else 'less'}"
    yield Problem(
        f"found {pair(now, before, '')[0]} {result.unit}, {what} than "
        f"{pair(now, before, '')[1]} {result.unit} in {field.old.round or 'the earlier report'}",
        path=result.detail_path,
        line=result.line,
        found=now,
        required=before,
        case=case,
        evidence=evidence(
            "metric now / metric then",
            "low" if not same else "high",
            {
                "now": now,
                field.old.round or "then": before,
                "change %": float(f"{change:.4g}"),
                "then at": row.path,
                "now available as": result.availability,
                "then available as": row.system_description.get("status"),
            },
            {result.key or "metric": result.line or 0},
        ),
    )
