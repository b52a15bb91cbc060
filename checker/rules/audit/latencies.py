"""Family R: percentiles, means and counts of latencies, which bound each other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from checker import loadgen_keys as keys
from checker.audit.evidence import PERCENTS, counted
from checker.model import ComplianceRun, PerformanceRun
from checker.parse.detail import DetailLog
from checker.rule import ERROR, WARNING, NotJudged, Problem, rule
from checker.rules.audit.found import (
    contradiction,
    measured_log,
)
from checker.wording import milliseconds, number, quantity
from schemas.round import Round

_WRAP = 2**64


@rule("R124", ERROR, needs="detail")
def first_token_within_latency(
    run: PerformanceRun | ComplianceRun, round: Round
) -> Iterator[Problem]:
    """A percentile of the time to first token is not above that of the whole latency.

    Why: the first token of an answer comes before its last.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: first-token and sample latencies of the same queries.
    """
    look = measured_log(run)
    if not look.boolean("requested_use_token_latencies"):
        raise NotJudged
    pairs = [
        (f"result_first_token_{p}_percentile_latency_ns", f"result_{p}_percentile_latency_ns")
        for p in PERCENTS
    ]
    pairs += [
        (f"result_first_token_{e}_latency_ns", f"result_{e}_latency_ns") for e in ("min", "max")
    ]
    for token, whole in pairs:
        first, last = look.detail.number(token), look.detail.number(whole)
        if first is not None and last is not None and first > last:
            look.number(token), look.number(whole)
            yield contradiction(run, look, token, first, last, f"{whole} (at most)")
            return


_SHARES = (0.5, 0.4, 0.05, 0.02, 0.02, 0.009, 0.001)


@rule("R125", ERROR, needs="detail")
def mean_within_percentiles(run: PerformanceRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """The mean latency lies within the bounds that its percentiles leave.

    Why: the percentiles say how many latencies lie between which bounds, and so bound the mean.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc. Its sum of Offline's latencies can wrap around at 2^64 ns: such
    means are tried with every whole wrap added.
    """
    look = measured_log(run)
    queries = counted(look.detail, "result_query_count") or 0
    per_query = counted(look.detail, "generated_samples_per_query") or 1
    for family in keys.LATENCIES:
        values = [look.detail.number(key) for key in family.rising]
        mean = look.detail.number(family.mean)
        if mean is None or any(v is None or not math.isfinite(v) for v in values):
            continue
        bounds = [v for v in values if v is not None]
        if any(a > b for a, b in itertools.pairwise(bounds)):
            continue
        n = queries if family is keys.QUERY_LATENCY else max(queries * per_query, 1)
        if run.scenario == "Offline":
            n = max(per_query, queries)
        room = 0.002 * bounds[-1] + 8 * bounds[-1] / max(n, 1)
        low = sum(s * v for s, v in zip(_SHARES, bounds, strict=False)) - room
        high = sum(s * v for s, v in zip(_SHARES, bounds[1:], strict=False)) + room
        if _wrapped_into(mean, low, high, n):
            continue
        for key in (family.mean, *family.percentiles):
            look.number(key)
        bound = low if mean < low else high
        yield contradiction(
            run,
            look,
            family.mean,
            mean,
            bound,
            f"the percentiles, which bound the mean to {milliseconds(low)} to {milliseconds(high)}",
        )


def _wrapped_into(mean: float, low: float, high: float, n: int) -> bool:
    if low <= mean <= high:
        return True
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(mean)):
        return True
    wrap = _WRAP / max(n, 1)
    return math.ceil((low - mean) / wrap) <= math.floor((high - mean) / wrap)


_TAIL_ROOM = (-1.0, 0.5)


@rule("R136", WARNING, cases={"far": ERROR})
def overlatency_fits_tail(
    run: PerformanceRun | ComplianceRun, round: Round, detail: DetailLog
) -> Iterator[Problem]:
    """The share of queries over the latency limit lies where the tail between p99 and p99.9 puts it.

    log10 of (share found / share expected) is -0.59 to 0.09 in 62 Server runs of v0.5 to v6.1 whose
    limit lies between p99 and p99.9; the tail is taken as a straight line in log10.

    Why: lowered latencies move the percentiles but not the count, or the other way round.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: overlatency_query_count; published rounds.
    """
    look = measured_log(run, "Server")
    count, over = look.integer(keys.QUERY_COUNT), look.integer(keys.OVERLATENCY_COUNT)
    limit = look.number(keys.TARGET_LATENCY)
    p99 = look.number("result_99.00_percentile_latency_ns")
    p999 = look.number("result_99.90_percentile_latency_ns")
    if None in (count, over, limit, p99, p999):
        raise NotJudged
    assert count is not None and over is not None and limit is not None
    assert p99 is not None and p999 is not None
    if count < 10_000 or p999 <= p99:
        raise NotJudged
    share = over / count
    if limit <= p99 or limit >= p999:
        # Outside the two percentiles only the side is known.
        wrong = share < 0.0099 if limit < p99 else share > 0.00101
        distance, expected = math.inf, "at least 1%" if limit < p99 else "at most 0.1%"
    else:
        expected_share = 10 ** (-2 - (limit - p99) / (p999 - p99))
        distance = math.log10(max(share, 0.1 / count) / expected_share)
        low, high = _TAIL_ROOM
        wrong = not low <= distance <= high
        expected = f"about {expected_share:.3%}"
    if wrong:
        yield Problem(
            f"{quantity(over, 'query')} of {number(count)} ({share:.3%}) are over the limit of "
            f"{quantity(limit / 1e6, 'ms')}; with p99 {quantity(p99 / 1e6, 'ms')} and p99.9 "
            f"{quantity(p999 / 1e6, 'ms')} expected {expected}",
            path=run.detail_path,
            line=detail.line(keys.OVERLATENCY_COUNT),
            found=float(f"{share:.4g}"),
            required=expected,
            case="far" if abs(distance) > 2 else None,
            evidence=look.evidence(
                "log10(share over the limit) against the line from p99 to p99.9", "moderate"
            ),
        )


_STEP = (0.05, 300.0)


@rule("R137", WARNING)
def percentiles_in_proportion(
    run: PerformanceRun | ComplianceRun, round: Round, detail: DetailLog
) -> Iterator[Problem]:
    """The step from p97 to p99 is in proportion to the step from p95 to p97.

    (p99 - p97) / (p97 - p95) is 0.10 to 62 in 585 runs of 1,000 and more queries of v0.5 to v6.1.

    Why: one percentile that is lowered alone leaves a step that no distribution has.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: percentiles; published rounds.
    """
    look = measured_log(run, "SingleStream", "MultiStream", "Server")
    count = look.integer(keys.QUERY_COUNT)
    p95, p97, p99 = (
        look.number(f"result_{p}_percentile_latency_ns") for p in ("95.00", "97.00", "99.00")
    )
    if count is None or count < 1000 or p95 is None or p97 is None or p99 is None or p97 <= p95:
        raise NotJudged
    ratio = (p99 - p97) / (p97 - p95)
    low, high = _STEP
    if not low <= ratio <= high:
        yield Problem(
            f"the step from p97 to p99 is {number(ratio)} times the step from p95 to p97; expected "
            f"{low:g} to {high:g}",
            path=run.detail_path,
            line=detail.line("result_99.00_percentile_latency_ns"),
            found=float(f"{ratio:.4g}"),
            required=[low, high],
            evidence=look.evidence("(p99 - p97) / (p97 - p95)", "moderate"),
        )
