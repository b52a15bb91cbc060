"""Family R: a log that is another run's, or another run's in disguise."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from datetime import UTC

from checker.audit.evidence import evidence
from checker.audit.traces import Field, ResultTrace, RunTrace, base_name
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, rule
from checker.wording import number
from schemas.round import Round

_CASES = {"no measurement": WARNING}


FAR = 20
"""Most partners that one finding names."""


def field_of(trace: RunTrace | ResultTrace) -> Field:
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
    group = field_of(run).by_digest.get(run.digest or "", []) if run.digest else []
    if run.digest is None:
        raise NotJudged
    others = [o for o in _first_other(run, group) if allowed_copy(run, o, round) is None]
    if not others:
        return
    # A copy with an allowed reason beside it is told of once, with the first of its group.
    if any(allowed_copy(run, o, round) for o in _first_other(run, group)):
        return
    yield _same(
        run,
        others,
        "the same bytes",
        "SHA-256 of the two detail logs is equal",
        run.digest,
        _case(run, others),
    )


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
        f"found {what} as in {other.path}{more}{kinds}; expected a log of its own",
        path=run.path,
        line=line,
        found=[o.path for o in others[:FAR]],
        required="a log of its own",
        case=case,
        evidence=evidence(
            formula,
            "certain",
            {
                "this log": run.path,
                "other log": other.path,
                "value": mark,
                "mean, longest latency (ns), queries": list(run.triple) if run.triple else None,
                "this date": iso(run.began),
                "other date": iso(other.began),
            },
            {run.path: line or 0, other.path: other.lines.get("result_mean_latency_ns") or 0},
        ),
    )


def iso(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


@rule("R302", ERROR)
def measurement_of_its_own(run: RunTrace, round: Round) -> Iterator[Problem]:
    """No two logs of different bytes state the same mean, longest latency and query count.

    Why: the three never meet by chance; two such logs are one log and a changed copy.
    Fix: put each run's own log into its folder, as LoadGen wrote it.
    Source: LoadGen results.cc: latencies in nanoseconds.
    """
    if run.triple is None or run.digest is None or run.accuracy or run.text_format:
        raise NotJudged
    group = field_of(run).by_triple.get(run.triple, [])
    others = [
        o
        for o in _first_other(run, group)
        if o.digest != run.digest and not o.text_format and not o.accuracy
    ]
    if others:
        yield _same(
            run,
            others,
            "the same mean latency, longest latency and query count",
            "(mean, longest latency, queries) of logs that differ are different",
            None,
        )


@rule("R303", ERROR)
def content_of_its_own(run: RunTrace, round: Round) -> Iterator[Problem]:
    """No two logs have the same content apart from dates, times and process ids.

    Why: two runs never measure the same; such a pair is one log and a copy under another date.
    Fix: put each run's own log into its folder, as LoadGen wrote it.
    Source: every record's key and value but dates; no such pair in published rounds.
    """
    if run.content is None or run.digest is None or run.triple is None:
        raise NotJudged
    group = field_of(run).by_content.get(run.content, [])
    others = [o for o in _first_other(run, group) if o.digest != run.digest]
    if others:
        yield _same(
            run,
            others,
            "the same records, dates and process ids aside,",
            "all records but dates are equal",
            run.content,
        )


@rule("R307", ERROR, cases=_CASES)
def process_of_its_own(run: RunTrace, round: Round) -> Iterator[Problem]:
    """No two runs were made by the same process at the same millisecond.

    Why: a process runs one test at a time on one machine, whatever its log says of the results.
    Fix: put each run's own log into its folder, as LoadGen wrote it.
    Source: LoadGen: pid, test_datetime and power_begin of every log; allowed copies as in R301.
    """
    if run.process is None:
        raise NotJudged
    group = field_of(run).by_process.get(run.process, [])
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
        path=run.path,
        line=line,
        found=[o.path for o in others[:FAR]],
        required="a process or a time of its own",
        case=_case(run, others),
        evidence=evidence(
            "(pid, test_datetime, power_begin) differ between runs",
            "certain",
            {
                "this log": run.path,
                "other log": other.path,
                "pid": pid,
                "test_datetime": when,
                "power_begin": begin,
                "same bytes": run.digest == other.digest,
            },
            {run.path: line or 0, other.path: other.lines.get("power_begin") or 0},
        ),
    )


@rule("R315", NOTE)
def one_run_for_several(run: RunTrace, round: Round) -> Iterator[Problem]:
    """A run that is used for several results is reported.

    Why: it is allowed for two accuracy targets, inferred scenarios and open copies, but readers count runs.
    Fix: nothing.
    Source: SHA-256 of the detail logs; the allowed classes of R301.
    """
    if run.digest is None or run.kind != "performance":
        raise NotJudged
    for other in _first_other(run, field_of(run).by_digest.get(run.digest, [])):
        reason = allowed_copy(run, other, round)
        if reason is not None:
            yield Problem(
                f"found the log of {other.path}, which is allowed: {reason}",
                path=run.path,
                found=other.path,
                evidence=evidence(
                    "SHA-256 of the two detail logs is equal",
                    "certain",
                    {"this log": run.path, "other log": other.path, "reason": reason},
                ),
            )
            return


@rule("R308", ERROR, needs=("field", "latencies"))
def latencies_of_its_own(run: RunTrace, round: Round) -> Iterator[Problem]:
    """No run's latency figures are another run's times one factor.

    The natural logarithms of the ratios of mean, greatest and six percentile latencies differ by
    less than 2e-5, where each log's own figures spread by more than 5 %. No pair among 2,000 logs of
    v0.5 to v6.1, nor across rounds.

    Why: two runs never have one shape to five digits; such a pair is one log and a scaled copy.
    Fix: put each run's own log into its folder, as LoadGen wrote it.
    Source: LoadGen results.cc: latency percentiles; published rounds.
    """
    assert run.field is not None
    pair = run.field.scaled.get(id(run))
    if pair is None:
        return
    other, factor = pair
    # Each pair is one finding, at its later path; which of the two is genuine is not said.
    if run.path < other.path and run.field.scaled.get(id(other), (None, 0.0))[0] is run:
        return
    yield Problem(
        f"all eight latency figures are those of {other.path} times {number(factor)}: one of the two "
        "logs is a scaled copy of the other",
        path=run.path,
        line=run.lines.get("result_mean_latency_ns"),
        found=[other.path],
        required="latencies of its own",
        results=tuple(dict.fromkeys([*run.results, *other.results])),
        evidence=evidence(
            "spread of log(ratio) of eight latency figures < 2e-5",
            "certain",
            {
                "this log": run.path,
                "other log": other.path,
                "factor": float(f"{factor:.8g}"),
                "mean latency here, ns": run.latencies[0],
                "mean latency there, ns": other.latencies[0],
            },
        ),
    )
