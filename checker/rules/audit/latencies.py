"""Family R: percentiles, means and counts of latencies, which bound each other."""

from __future__ import annotations

import itertools
import math

from checker import loadgen_keys as keys
from checker.audit import figures
from checker.audit.evidence import PERCENTS, counted, evidence
from checker.model import MeasuredRun
from checker.parse.detail import DetailLog
from checker.rule import ERROR, WARNING, NotJudged, Problem, Problems, given, rule
from checker.rules.audit.found import contradiction, measured_log
from checker.wording import milliseconds, number, quantity
from schemas.round import Round

_WRAP = 2**64


@rule("R124", ERROR, needs="detail")
def first_token_within_latency(run: MeasuredRun, round: Round) -> Problems:
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
def mean_within_percentiles(run: MeasuredRun, round: Round) -> Problems:
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
        # The lower bound is made of all but the longest, so that one long latency leaves no room there.
        low = sum(s * v for s, v in zip(_SHARES, bounds, strict=False))
        low -= 0.002 * low + 8 * bounds[-2] / max(n, 1)
        high = sum(s * v for s, v in zip(_SHARES, bounds[1:], strict=False))
        high += 0.002 * bounds[-1] + 8 * bounds[-1] / max(n, 1)
        if _wrapped_into(mean, low, high, n):
            continue
        for key in (family.mean, *family.percentiles):
            look.number(key)
        bound = low if mean < low else high
        formula = (
            f"the percentiles, which bound the mean to {milliseconds(low)} to {milliseconds(high)}"
        )
        yield contradiction(run, look, family.mean, mean, bound, formula)


def _wrapped_into(mean: float, low: float, high: float, n: int) -> bool:
    if low <= mean <= high:
        return True
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(mean)):
        return True
    wrap = _WRAP / max(n, 1)
    return math.ceil((low - mean) / wrap) <= math.floor((high - mean) / wrap)


@rule("R136", WARNING, cases={"far": ERROR})
def overlatency_fits_tail(run: MeasuredRun, round: Round, detail: DetailLog) -> Problems:
    """The share of queries over the latency limit lies where the tail between p99 and p99.9 puts it.

    log10 of (share found / share expected) is -0.59 to 0.09 in 62 Server runs of v0.5 to v6.1 whose
    limit lies between p99 and p99.9; the tail is taken as a straight line in log10.

    Why: lowered latencies move the percentiles but not the count, or the other way round.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: overlatency_query_count; published rounds.
    """
    look = measured_log(run, "Server")
    figure = figures.TAIL
    tail = given(figures.tail(run, look))
    distance = tail.distance
    if tail.expected is not None and distance is not None:
        wrong, expected = not figure.holds(distance), f"about {tail.expected:.3%}"
    else:
        # Outside the two percentiles only the side is known.
        below = tail.limit <= tail.p99
        wrong = tail.share < 0.0099 if below else tail.share > 0.00101
        expected = "at least 1%" if below else "at most 0.1%"
    if wrong:
        yield Problem(
            f"found {quantity(tail.over, 'query')} of {number(tail.count)} ({tail.share:.3%}) over the "
            f"limit of {quantity(tail.limit / 1e6, 'ms')}; expected {expected}, with p99 "
            f"{quantity(tail.p99 / 1e6, 'ms')} and p99.9 {quantity(tail.p999 / 1e6, 'ms')}",
            path=run.detail_path,
            line=detail.line(keys.OVERLATENCY_COUNT),
            found=float(f"{tail.share:.4g}"),
            required=expected,
            case="far" if distance is None or abs(distance) > 2 else None,
            evidence=look.evidence(figure.formula, "moderate"),
        )


@rule("R137", WARNING)
def percentiles_in_proportion(run: MeasuredRun, round: Round, detail: DetailLog) -> Problems:
    """The step from p97 to p99 is in proportion to the step from p95 to p97.

    (p99 - p97) / (p97 - p95) is 0.10 to 62 in 585 runs of 1,000 and more queries of v0.5 to v6.1.

    Why: one percentile that is lowered alone leaves a step that no distribution has.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: percentiles; published rounds.
    """
    look = measured_log(run, "SingleStream", "MultiStream", "Server")
    figure = figures.STEP
    ratio = given(figures.percentile_step(run, look))
    if not figure.holds(ratio):
        yield Problem(
            f"found a step from p97 to p99 that is {number(ratio)} times the step from p95 to p97; "
            f"expected {figure.low:g} to {figure.high:g} times",
            path=run.detail_path,
            line=detail.line(keys.LATENCY.at(99)),
            found=float(f"{ratio:.4g}"),
            required=[figure.low, figure.high],
            evidence=look.evidence(figure.formula, "moderate"),
        )


_DIGITS = 4
_ZEROS = 4
_LEAST_FIGURES = 6


@rule("R142", WARNING, cases={"several": ERROR})
def figures_as_measured(run: MeasuredRun, round: Round, detail: DetailLog) -> Problems:
    """No latency figure of a log is a round number where its other figures are not.

    A figure is round with at most four significant digits and at least four zeros more than half of
    the log's figures end in. A clock that counts nanoseconds gives one such figure in 10,000 to
    100,000; none of 13,023 in 1,522 logs of v1.0 to v6.0 is one. Error where a log has several.

    Why: a clock does not measure 154,900,000 ns; a person types it.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: latencies in nanoseconds; published rounds.
    """
    measured_log(run)
    found: dict[str, int] = {}
    for key in detail.entries:
        if key.startswith("result_") and ("latency_ns" in key or key.startswith("result_time_")):
            value = counted(detail, key)
            if value is not None and value > 0:
                found[key] = value
    if len(found) < _LEAST_FIGURES:
        raise NotJudged
    zeros = {
        key: len(text) - len(text.rstrip("0"))
        for key, value in found.items()
        if (text := str(value))
    }
    usual = sorted(zeros.values())[len(zeros) // 2]
    typed = {
        key: found[key]
        for key, count in zeros.items()
        if count - usual >= _ZEROS and len(str(found[key])) - count <= _DIGITS
    }
    if typed:
        key, value = next(iter(typed.items()))
        more = f", and {quantity(len(typed) - 1, 'more round figure')}" if len(typed) > 1 else ""
        yield Problem(
            f"found {key} {quantity(value, 'ns')}{more}; expected a figure to the nanosecond, as the log's "
            "others are",
            path=run.detail_path,
            line=detail.line(key),
            found=value,
            required="a measured figure",
            case="several" if len(typed) > 1 else None,
            evidence=evidence(
                "a measured latency has more than four significant digits",
                "high" if len(typed) > 1 else "moderate",
                {**typed, "figures": len(found), "zeros at the end of half of them": usual},
                {name: detail.line(name) or 0 for name in typed},
            ),
        )
