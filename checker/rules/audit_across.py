"""Family R, across runs, results, systems and rounds: what two files cannot both be."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from datetime import UTC, datetime

from checker.audit.evidence import evidence
from checker.audit.lines import KNOWN_LINES
from checker.audit.traces import Field, ResultTrace, RunTrace, base_name
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, rule
from checker.wording import listed, milliseconds, number, pair
from schemas.round import Round

_CASES = {"no measurement": WARNING}

_FAR = 20
"""Most partners that one finding names."""


def _field(trace: RunTrace | ResultTrace) -> Field:
    if trace.field is None:
        raise NotJudged
    found: Field = trace.field
    return found


def _in_check(one: RunTrace, other: RunTrace) -> bool:
    """Whether P149 names the two already: the same performance log under two systems of a division."""
    return (
        one.kind == other.kind == "performance"
        and one.digest == other.digest
        and one.owner != other.owner
        and (one.tree, one.division) == (other.tree, other.division)
    )


def _first_other(trace: RunTrace, group: list[RunTrace]) -> list[RunTrace]:
    """The runs before this one: each pair is reported once, by the later."""
    others = (o for o in group if o is not trace and _order(o) < _order(trace))
    return sorted((o for o in others if not _in_check(trace, o)), key=_order)


def _order(trace: RunTrace) -> tuple[str, bool, str]:
    """The later round's, then the compliance run: it is the one that needs a run of its own."""
    return trace.round, trace.kind.startswith("TEST"), trace.path


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


def _case(run: RunTrace, others: list[RunTrace]) -> str | None:
    """An accuracy log holds no measurement, and an Interactive run may do for Server."""
    for other in others:
        same_owner = run.owner[0] == other.owner[0]
        both = run.accuracy and other.accuracy and run.kind == other.kind and same_owner
        served = {run.scenario, other.scenario} == {"Server", "Interactive"} and (
            run.owner == other.owner and run.kind == other.kind
        )
        if not both and not served:
            return None
    return "no measurement"


@rule("R301", ERROR, cases=_CASES)
def log_of_its_own(run: RunTrace, round: Round) -> Iterator[Problem]:
    """No two runs have the same log, except where the rules allow a shared one.

    Why: two runs never have the same times to the nanosecond. One run may be used for both accuracy
    targets (99 and 99.9), for inferred scenarios and for the open copy of a closed result.
    Fix: put each run's own log into its folder.
    Source: submission_rules.adoc, "Directory structure"; SHA-256 of the detail logs.
    """
    group = _field(run).by_digest.get(run.digest or "", []) if run.digest else []
    if run.digest is None:
        raise NotJudged
    others = [o for o in _first_other(run, group) if allowed_copy(run, o, round) is None]
    if not others:
        return
    # A copy with an allowed reason beside it is told of once, with the first of its group.
    if any(allowed_copy(run, o, round) for o in _first_other(run, group)):
        return
    yield _same(
        run, others, "the same bytes", "SHA-256 of the two detail logs is equal", run.digest,
        _case(run, others),
    )  # fmt: skip


def _same(
    run: RunTrace,
    others: list[RunTrace],
    what: str,
    formula: str,
    mark: str | None,
    case: str | None = None,
) -> Problem:
    other = others[0]
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    kinds = f" ({run.kind} and {other.kind} run)" if run.kind != other.kind else ""
    line = run.lines.get("result_mean_latency_ns") or run.lines.get("test_datetime")
    return Problem(
        f"found {what} as in {other.path}{more}{kinds}; expected a log of its own", path=run.path, line=line,
        found=[o.path for o in others[:_FAR]], required="a log of its own", case=case,
        evidence=evidence(
            formula, "certain",
            {"this log": run.path, "other log": other.path, "value": mark,
             "mean, longest latency (ns), queries": list(run.triple) if run.triple else None,
             "this date": _iso(run.began), "other date": _iso(other.began)},
            {run.path: line or 0,
             other.path: other.lines.get("result_mean_latency_ns") or 0},
        ),
    )  # fmt: skip


def _iso(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


@rule("R302", ERROR)
def measurement_of_its_own(run: RunTrace, round: Round) -> Iterator[Problem]:
    """No two logs of different bytes state the same mean, longest latency and query count.

    Why: the three never meet by chance; two such logs are one log and a changed copy.
    Fix: put each run's own log into its folder, as LoadGen wrote it.
    Source: LoadGen results.cc: latencies in nanoseconds.
    """
    if run.triple is None or run.digest is None or run.accuracy or run.text_format:
        raise NotJudged
    group = _field(run).by_triple.get(run.triple, [])
    others = [
        o for o in _first_other(run, group)
        if o.digest != run.digest and not o.text_format and not o.accuracy
    ]  # fmt: skip
    if others:
        yield _same(
            run, others, "the same mean latency, longest latency and query count",
            "(mean, longest latency, queries) of logs that differ are different", None,
        )  # fmt: skip


@rule("R303", ERROR)
def content_of_its_own(run: RunTrace, round: Round) -> Iterator[Problem]:
    """No two logs have the same content apart from dates, times and process ids.

    Why: two runs never measure the same; such a pair is one log and a copy under another date.
    Fix: put each run's own log into its folder, as LoadGen wrote it.
    Source: every record's key and value but dates; no such pair in published rounds.
    """
    if run.content is None or run.digest is None or run.triple is None:
        raise NotJudged
    group = _field(run).by_content.get(run.content, [])
    others = [o for o in _first_other(run, group) if o.digest != run.digest]
    if others:
        yield _same(
            run, others, "the same records, dates and process ids aside,",
            "all records but dates are equal", run.content,
        )  # fmt: skip


@rule("R307", ERROR, cases=_CASES)
def process_of_its_own(run: RunTrace, round: Round) -> Iterator[Problem]:
    """No two runs were made by the same process at the same millisecond.

    Why: a process runs one test at a time on one machine, whatever its log says of the results.
    Fix: put each run's own log into its folder, as LoadGen wrote it.
    Source: LoadGen: pid, test_datetime and power_begin of every log; allowed copies as in R301.
    """
    if run.process is None:
        raise NotJudged
    group = _field(run).by_process.get(run.process, [])
    before = _first_other(run, group)
    others = [o for o in before if allowed_copy(run, o, round) is None]
    if not others or len(others) < len(before):
        return
    other = others[0]
    pid, when, begin = run.process
    line = run.lines.get("power_begin")
    yield Problem(
        f"found pid {pid}, test_datetime {when} and power_begin {begin}, as in {other.path}; expected a "
        "process or a time of its own",
        path=run.path, line=line, found=[o.path for o in others[:_FAR]],
        required="a process or a time of its own", case=_case(run, others),
        evidence=evidence(
            "(pid, test_datetime, power_begin) differ between runs", "certain",
            {"this log": run.path, "other log": other.path, "pid": pid, "test_datetime": when,
             "power_begin": begin, "same bytes": run.digest == other.digest},
            {run.path: line or 0, other.path: other.lines.get("power_begin") or 0},
        ),
    )  # fmt: skip


_OVERLAP_S = 30.0


@rule("R304", NOTE)
def runs_one_after_another(run: RunTrace, round: Round) -> Iterator[Problem]:
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
    for other in _field(run).by_owner.get((run.tree, *run.owner), []):
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
            path=run.path, line=run.lines.get("test_datetime"), found=float(f"{overlap:.1f}"),
            required=f"<= {_OVERLAP_S:g} s",
            evidence=evidence(
                "test_datetime >= end of every earlier run of the system", "low",
                {"this run": f"{_iso(run.began)} to {_iso(run.ended)}",
                 "other run": f"{_iso(other.began)} to {_iso(other.ended)}", "other log": other.path},
                {"test_datetime": run.lines.get("test_datetime", 0)},
            ),
        )  # fmt: skip


def _spread(places: dict[tuple[str, int], int]) -> tuple[str, int]:
    """The source line that most logs have."""
    return max(places, key=lambda place: (places[place], place))


_SEVERAL = {"early_stopping_latency_ms", "result_validity", "result_invalid_reason"}
_SOURCE_ROOM = 3


@rule("R305", ERROR)
def source_lines_agree(run: RunTrace, round: Round) -> Iterator[Problem]:
    """A record comes from the source line from which all logs of the same LoadGen sources write it.

    Why: one source file writes a key in one place; another line number means another source than
    the one whose SHA-1 the log states, or a line that LoadGen did not write.
    Fix: use the log as LoadGen wrote it, and an unaltered LoadGen.
    Source: LoadGen logging: file and line_no of every record; compilers differ by up to 3 lines.
    """
    if not run.places:
        raise NotJudged
    table = _field(run).source_lines
    wrong: list[tuple[str, tuple[str, int, int], tuple[str, int], int]] = []
    for key, (file, line, at) in run.places.items():
        if key in _SEVERAL:
            continue
        places = table[run.sources, key]
        known = KNOWN_LINES.get(run.sources, {}).get(key)
        usual = known or _spread(places)
        if (file, abs(line - usual[1]) > _SOURCE_ROOM) == (usual[0], False):
            continue
        total = sum(places.values())
        if known is None and (total < 3 or places[usual] <= total / 2):
            continue
        wrong.append((key, (file, line, at), usual, total))
    if wrong:
        key, (file, line, at), usual, total = wrong[0]
        more = f" ({len(wrong)} keys in all)" if len(wrong) > 1 else ""
        yield Problem(
            f"found {key} written from {file}:{line}{more}; expected {usual[0]}:{usual[1]}, as in other logs "
            "with the same LoadGen sources",
            path=run.path, line=at, found=f"{file}:{line}", required=f"{usual[0]}:{usual[1]}",
            evidence=evidence(
                "one source line for each key of one source set (+-3 lines)", "high",
                {"keys": ", ".join(w[0] for w in wrong[:20]), "logs compared": total,
                 **{name[1:]: sha for name, sha in run.sources[:2]}},
                {key: at},
            ),
        )  # fmt: skip


@rule("R306", NOTE)
def sources_of_several(run: RunTrace, round: Round) -> Iterator[Problem]:
    """LoadGen's core sources are those that other submitters of the round used too.

    Why: sources that only one submitter has are worth a comparison with the official ones.
    Fix: use the LoadGen release of the round.
    Source: LoadGen: loadgen_file_sha1. Judged where a round has three submitters or more.
    """
    field = _field(run)
    if not run.sources or run.kind != "performance" or len(field.submitters.get(run.round, ())) < 3:
        raise NotJudged
    users = field.source_users[run.round, run.sources]
    if len(users) > 1:
        return
    common: dict[tuple[str, str], int] = {}
    for (name, sources), who in field.source_users.items():
        if name == run.round:
            for source in sources:
                common[source] = common.get(source, 0) + len(who)
    own = [source for source in run.sources if common[source] == 1]
    if own:
        names = ", ".join(name[1:] for name, _ in own)
        yield Problem(
            f"found SHA-1 of {names} in no other submission of {run.round}; expected sources that other "
            "submitters used too",
            path=run.path, line=run.places.get("loadgen_file_sha1", ("", 0, 0))[2] or None,
            found={name[1:]: sha for name, sha in own}, required="sources that others have too",
            evidence=evidence(
                "each core source's SHA-1 occurs with two submitters or more", "low",
                {name[1:]: sha for name, sha in own},
            ),
        )  # fmt: skip


# --- results among themselves --------------------------------------------------------------------


def _result(trace: ResultTrace, scenario: str) -> list[ResultTrace]:
    subject = trace.subject
    key = (trace.tree, subject.division, subject.submitter, subject.system, trace.directory)
    return [o for o in _field(trace).by_system.get(key, []) if o.scenario == scenario]


@rule("R311", WARNING)
def server_below_offline(result: ResultTrace, round: Round) -> Iterator[Problem]:
    """Server's throughput is at most 1.05 times Offline's.

    Why: Offline may order and batch everything; with arrivals and latency bounds no system is
    clearly faster.
    Fix: look for different builds or settings of the two runs, and measure Offline again.
    Source: LoadGen: tokens or samples per second of both runs; 1 % of published pairs are above.
    """
    if result.scenario != "Server" or result.inferred_from is not None:
        raise NotJudged
    offline = next((o for o in _result(result, "Offline") if o.inferred_from is None), None)
    if offline is None:
        raise NotJudged
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
                path=result.detail_path, line=result.line, found=float(f"{server / batch:.4g}"),
                required="<= 1.05",
                evidence=evidence(
                    f"{mine} / {theirs} <= 1.05", "moderate",
                    {f"Server {mine}": server, f"Offline {theirs}": batch, "Offline": offline.detail_path},
                ),
            )  # fmt: skip
        return
    raise NotJudged


@rule("R312", NOTE)
def per_accelerator_as_others(result: ResultTrace, round: Round) -> Iterator[Problem]:
    """The result per accelerator is near that of other submitters with the same accelerator.

    Why: the same part in the same benchmark gives nearly the same; what is far off is worth a look.
    Fix: nothing, if scaling, clocks or software explain it.
    Source: closed throughputs of one accelerator, benchmark and scenario from three submitters or
    more: more than 15 % and six median deviations (of the logarithm) off.
    """
    if not result.metric or result.metric <= 0 or not result.accelerators:
        raise NotJudged
    key = (result.round, result.accelerator, result.subject.benchmark, result.scenario, result.unit)
    group = _field(result).by_accelerator.get(key, [])
    if result not in group or len({o.subject.submitter for o in group}) < 3:
        raise NotJudged
    logs = [math.log(o.metric / o.accelerators) for o in group if o.metric and o.accelerators]
    middle = statistics.median(logs)
    deviation = statistics.median(abs(value - middle) for value in logs)
    mine = result.metric / result.accelerators
    off = math.log(mine) - middle
    if abs(off) > math.log(1.15) and abs(off) > 6 * deviation:
        median = math.exp(middle)
        yield Problem(
            f"found {number(mine)} {result.unit} per accelerator ({result.accelerators} x {result.accelerator}); "
            f"expected about {number(median)}, the median of {len(group)} results "
            f"({(mine / median - 1) * 100:+,.1f}%)",
            path=result.detail_path, line=result.line, found=float(f"{mine:.6g}"),
            required=f"about {median:.6g}",
            evidence=evidence(
                "|log(result / median)| <= max(log 1.15, 6 median deviations)", "low",
                {"this result": mine, "median": median, "results": len(group),
                 "median deviation": deviation, "accelerators": result.accelerators},
            ),
        )  # fmt: skip


@rule("R313", NOTE)
def description_of_its_own(result: ResultTrace, round: Round) -> Iterator[Problem]:
    """Two systems have two descriptions.

    Why: one description under two systems, or two submitters, is one machine named twice, or a
    copied description. Joint submissions do so openly.
    Fix: describe each system, or say that two entries are one machine.
    Source: submission_rules.adoc, "System description"; compared without submitter, division, status.
    """
    if result.description is None:
        raise NotJudged
    group = [o for o in _field(result).by_description[result.description] if o.tree == result.tree]
    mine = (result.subject.submitter, result.subject.system)
    first = min(o.path for o in group if (o.subject.submitter, o.subject.system, o.subject.division)
                == (*mine, result.subject.division))  # fmt: skip
    others = sorted({(o.subject.submitter, o.subject.system) for o in group} - {mine}, key=str)
    # Told once for a system, by the later of the two.
    if first != result.path or not any(str(o) < str(mine) for o in others):
        return
    names = [f"{a} {b}" for a, b in others]
    yield Problem(
        f"found the description of {listed(names, limit=5)}, submitter, division and status aside; "
        "expected one of its own",
        found=names[:_FAR], required="a description of its own",
        evidence=evidence(
            "digest of the description without submitter, division and status", "low",
            {"this system": " ".join(str(m) for m in mine), "other systems": ", ".join(names[:_FAR])},
        ),
    )  # fmt: skip


@rule("R314", NOTE)
def multi_over_single(result: ResultTrace, round: Round) -> Iterator[Problem]:
    """MultiStream's 99th percentile is 1 to 8.5 times SingleStream's.

    Why: eight samples take at least as long as one, and at most as long as eight in a row.
    Fix: look for different builds or settings of the two runs.
    Source: LoadGen: 99th percentile latencies of both runs.
    """
    if result.scenario != "MultiStream" or result.inferred_from is not None:
        raise NotJudged
    single = next((o for o in _result(result, "SingleStream") if o.inferred_from is None), None)
    eight = result.rates.get("result_99.00_percentile_per_query_latency_ns")
    one = single.rates.get("result_99.00_percentile_latency_ns") if single is not None else None
    if not eight or not one or single is None:
        raise NotJudged
    ratio = eight / one
    if not 1 <= ratio <= 8.5:
        yield Problem(
            f"found a MultiStream 99th percentile of {milliseconds(eight)}, {ratio:.2f} times SingleStream's "
            f"{milliseconds(one)}; expected 1 to 8.5 times",
            path=result.detail_path, found=float(f"{ratio:.3g}"), required="1 to 8.5",
            evidence=evidence(
                "1 <= MultiStream p99 / SingleStream p99 <= 8.5", "low",
                {"MultiStream p99 (ns)": eight, "SingleStream p99 (ns)": one,
                 "SingleStream": single.detail_path},
            ),
        )  # fmt: skip


@rule("R315", NOTE)
def one_run_for_several(run: RunTrace, round: Round) -> Iterator[Problem]:
    """A run that is used for several results is reported.

    Why: it is allowed for two accuracy targets, inferred scenarios and open copies, but readers count runs.
    Fix: nothing.
    Source: SHA-256 of the detail logs; the allowed classes of R301.
    """
    if run.digest is None or run.kind != "performance":
        raise NotJudged
    for other in _first_other(run, _field(run).by_digest.get(run.digest, [])):
        reason = allowed_copy(run, other, round)
        if reason is not None:
            yield Problem(
                f"found the log of {other.path}, which is allowed: {reason}", path=run.path,
                found=other.path,
                evidence=evidence(
                    "SHA-256 of the two detail logs is equal", "certain",
                    {"this log": run.path, "other log": other.path, "reason": reason},
                ),
            )  # fmt: skip
            return


@rule("R321", NOTE, cases={"far": WARNING})
def moved_since(result: ResultTrace, round: Round) -> Iterator[Problem]:
    """How far a result moved since the earlier round's report.

    Why: one system's result changes with its software, by a few percent as a rule; the very same
    number in two rounds, whose seeds differ, is not a second measurement.
    Fix: nothing, if the change is explained; run again where the number is the same.
    Source: `assay audit --since`: the metric of the same system, benchmark and scenario.
    """
    field = _field(result)
    if field.old is None:
        raise NotJudged
    subject = result.subject
    row = field.old_rows.get((
        subject.division, subject.submitter, subject.system,
        subject.benchmark or result.directory, (subject.scenario or result.scenario).lower(),
    ))  # fmt: skip
    if row is None or row.metric is None or result.metric is None or row.metric.unit != result.unit:
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
        path=result.detail_path, line=result.line, found=now, required=before, case=case,
        evidence=evidence(
            "metric now / metric then", "low" if not same else "high",
            {"now": now, field.old.round or "then": before, "change %": float(f"{change:.4g}"),
             "then at": row.path, "now available as": result.availability,
             "then available as": row.system_description.get("status")},
            {result.key or "metric": result.line or 0},
        ),
    )  # fmt: skip
