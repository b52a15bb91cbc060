"""The arithmetic inside one detail log: what LoadGen computes from what else it logs.

Pure: each function takes a log and yields a `Disagreement` for every stated value that does not
follow. Family P reports those that matter for the result, family R computes further on them.
Source: LoadGen ``results.cc`` and ``loadgen.cc``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from checker import loadgen_keys as keys
from checker.parse.detail import DetailLog

RELATIVE = 2e-5
"""LoadGen prints doubles with six significant digits; a quotient of two needs twice the room."""
_TOKEN_RELATIVE = 5e-5
_PRINTED = 0.0051
"""The summary prints two decimals."""


class Disagreement(msgspec.Struct, frozen=True):
    """A stated value that does not follow from others.

    key: of the stated value. computed: what was expected, and formula: why, in words. unit: of both.
    """

    key: str
    stated: float
    computed: float
    formula: str
    unit: str = ""


def near(a: float, b: float, relative: float = RELATIVE) -> bool:
    """Whether two values agree to a relative difference."""
    return abs(a - b) <= relative * max(abs(a), abs(b))


def same_value(logged: object, printed: object) -> bool:
    """Whether a summary's printed value is the detail log's: numbers within print rounding."""
    if type(logged) is type(printed) and logged == printed:
        return True
    if isinstance(logged, bool) or isinstance(printed, bool):
        return _truth(logged) == _truth(printed)
    if isinstance(logged, int | float) and isinstance(printed, int | float):
        a, b = float(logged), float(printed)
        if a != a or b != b:
            return a != a and b != b
        return a == b or abs(a - b) <= max(_PRINTED, RELATIVE * abs(a))
    return " ".join(str(logged).split()) == " ".join(str(printed).split())


_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _truth(value: object) -> object:
    if isinstance(value, str):
        return _TRUTH.get(value.strip().lower(), value)
    return bool(value) if isinstance(value, int | float) else value


def padded_samples(detail: DetailLog, samples: int) -> list[int]:
    """The samples of Offline's query: as logged, and padded to a multiple of the loaded set, which
    LoadGen before 5.0 does after it has logged them."""
    loaded = detail.length(keys.LOADED_SET)
    found = [samples]
    if loaded:
        found.append(math.ceil(samples / loaded) * loaded)
    return found


def offline(detail: DetailLog) -> Iterator[Disagreement]:
    """Offline's rate is its samples over its longest latency."""
    rate = detail.number(keys.SAMPLES_PER_SECOND)
    longest = detail.number(keys.LATENCY.maximum)
    samples = detail.integer(keys.GENERATED_SAMPLES_PER_QUERY)
    if rate is None or not longest or samples is None:
        return
    counted = detail.integer(keys.QUERY_COUNT)
    if counted is not None and counted != 1:
        formula = "as Offline issues one query"
        yield Disagreement(
            key=keys.QUERY_COUNT, stated=counted, computed=1, formula=formula, unit="query"
        )
    if not any(near(rate, n * 1e9 / longest) for n in padded_samples(detail, samples)):
        formula = f"{samples:,} samples / the longest latency"
        yield Disagreement(
            key=keys.SAMPLES_PER_SECOND,
            stated=rate,
            computed=samples * 1e9 / longest,
            formula=formula,
            unit="samples/s",
        )


def single_stream(detail: DetailLog) -> Iterator[Disagreement]:
    """SingleStream's rate is the inverse of its mean latency; its estimate is a measured latency."""
    mean = detail.number(keys.LATENCY.mean)
    rate = detail.number(keys.QPS_WITHOUT_OVERHEAD)
    if mean and rate and not near(rate, 1e9 / mean):
        formula = "1 / the mean latency"
        yield Disagreement(
            key=keys.QPS_WITHOUT_OVERHEAD,
            stated=rate,
            computed=1e9 / mean,
            formula=formula,
            unit="queries/s",
        )
    # With token latencies LoadGen's SingleStream estimate is one of time to first token.
    tokens = detail.boolean(keys.USE_TOKEN_LATENCIES)
    family = keys.FIRST_TOKEN if tokens else keys.LATENCY
    yield from estimate(detail, keys.SINGLE_STREAM_ESTIMATE, family)


def multi_stream(detail: DetailLog) -> Iterator[Disagreement]:
    """MultiStream's estimate is a measured latency of a query."""
    yield from estimate(detail, keys.MULTI_STREAM_ESTIMATE, keys.QUERY_LATENCY)


def estimate(detail: DetailLog, key: str, family: keys.Latencies) -> Iterator[Disagreement]:
    """An early-stopping estimate is one of the measured latencies at or above its percentile."""
    stated = detail.number(key)
    percent = (detail.number(keys.TARGET_PERCENTILE) or 0) * 100
    low, high = detail.number(family.at(percent)), detail.number(family.maximum)
    if stated is None or not 0 < stated < math.inf or low is None or high is None:
        return
    if stated < low * (1 - 1e-9):
        yield Disagreement(
            key=key,
            stated=stated,
            computed=low,
            formula=f"or more, the {percent:g}th percentile",
            unit="ns",
        )
    elif stated > high * (1 + 1e-9):
        yield Disagreement(
            key=key, stated=stated, computed=high, formula="or less, the longest latency", unit="ns"
        )


def server(detail: DetailLog) -> Iterator[Disagreement]:
    """Server's rates follow from its queries, its schedule and its longest latency."""
    count = detail.integer(keys.QUERY_COUNT)
    generated = detail.integer(keys.GENERATED_QUERY_COUNT)
    length = detail.number(keys.GENERATED_QUERY_DURATION)
    scheduled = detail.number(keys.SCHEDULED_SAMPLES_PER_SECOND)
    completed = detail.number(keys.COMPLETED_SAMPLES_PER_SECOND)
    longest = detail.number(keys.LATENCY.maximum)
    if count is None or count < 2:
        return
    if generated is not None and count != generated and detail.boolean(keys.MIN_QUERIES_MET):
        formula = "the number of queries generated"
        yield Disagreement(
            key=keys.QUERY_COUNT, stated=count, computed=generated, formula=formula, unit="query"
        )
    if scheduled:
        span = (count - 1) / scheduled
        if length:
            late = span > length / 1e9 * (1 + RELATIVE) + 1e-6
            early = span < length / 1e9 * 0.9 and count > 2000
            if late or early:
                yield Disagreement(
                    key=keys.SCHEDULED_SAMPLES_PER_SECOND,
                    stated=scheduled,
                    computed=(count - 1) * 1e9 / length,
                    formula="queries / length of the schedule",
                    unit="samples/s",
                )
        if completed:
            yield from _completed(completed, scheduled, count, span, longest)
    yield from _tokens(detail, count, completed)


def _completed(
    completed: float, scheduled: float, count: int, span: float, longest: float | None
) -> Iterator[Disagreement]:
    key = keys.COMPLETED_SAMPLES_PER_SECOND
    if completed > scheduled * (1 + RELATIVE):
        formula = "or less, the scheduled rate, which no run can exceed"
        yield Disagreement(
            key=key, stated=completed, computed=scheduled, formula=formula, unit="samples/s"
        )
    elif longest is not None:
        slowest = span + longest / 1e9
        if (count - 1) / completed > slowest * (1 + RELATIVE) + 1e-3:
            formula = "queries / (schedule + longest latency), or more"
            yield Disagreement(
                key=key,
                stated=completed,
                computed=(count - 1) / slowest,
                formula=formula,
                unit="samples/s",
            )


def _tokens(detail: DetailLog, count: int, completed: float | None) -> Iterator[Disagreement]:
    tokens = detail.number(keys.COMPLETED_TOKENS_PER_SECOND)
    throughput = detail.number(keys.TOKEN_THROUGHPUT)
    mean = detail.number(keys.LATENCY.mean)
    if not (tokens and completed and throughput and mean):
        return
    total = tokens * (count - 1) / completed
    if not near(throughput, total / (mean * count), _TOKEN_RELATIVE):
        computed = throughput * mean * count * completed / (count - 1)
        formula = "from the token throughput, mean latency and completed queries"
        yield Disagreement(
            key=keys.COMPLETED_TOKENS_PER_SECOND,
            stated=tokens,
            computed=computed,
            formula=formula,
            unit="tokens/s",
        )


BY_SCENARIO = {
    "Offline": offline,
    "SingleStream": single_stream,
    "Server": server,
    "MultiStream": multi_stream,
}


def falling(detail: DetailLog, family: keys.Latencies) -> tuple[str, float, str, float] | None:
    """The first percentile of a family that is below the one before: key, value, that key, its
    value."""
    last: tuple[str, float] | None = None
    for key in family.rising:
        value = detail.number(key)
        if value is None or not math.isfinite(value):
            continue
        if last is not None and value < last[1]:
            return key, value, *last
        last = (key, value)
    return None


def conditions(detail: DetailLog, scenario: str | None) -> dict[str, bool | None]:
    """The conditions that LoadGen logs for VALID: key and whether it was met."""
    names = [keys.MIN_DURATION_MET, keys.MIN_QUERIES_MET, keys.EARLY_STOPPING_MET]
    if scenario == "Server":
        names.append(keys.CONSTRAINTS_MET)
    return {key: detail.boolean(key) for key in names if key in detail}


def tokens_per_sample(detail: DetailLog) -> tuple[str, float] | None:
    """The mean number of output tokens by the log's two rates, with the token rate's key."""
    for tokens, samples in (
        (keys.COMPLETED_TOKENS_PER_SECOND, keys.COMPLETED_SAMPLES_PER_SECOND),
        (keys.TOKENS_PER_SECOND, keys.SAMPLES_PER_SECOND),
    ):
        rate, base = detail.number(tokens), detail.number(samples)
        if rate is not None and base:
            return tokens, rate / base
    return None


def exact_tokens_per_sample(detail: DetailLog) -> float | None:
    """Output tokens per sample of a performance run; None where its log has no rate of tokens.

    Server's rate of samples counts the queries less one, its rate of tokens all of them.
    """
    found = tokens_per_sample(detail)
    if found is None or not found[1]:
        return None
    key, mean = found
    if key == keys.TOKENS_PER_SECOND:
        return mean
    count = detail.number(keys.QUERY_COUNT)
    return mean * (count - 1) / count if count is not None and count >= 2 else None


def offline_interval(detail: DetailLog, lasted: float) -> Iterator[Disagreement]:
    """Offline's longest latency is the time between power_begin and power_end (``lasted``, s)."""
    longest = detail.number(keys.LATENCY.maximum)
    if longest and abs(lasted * 1e9 - longest) > 20e6 + 5e-5 * longest:
        formula = "the time from power_begin to power_end, as Offline issues one query"
        yield Disagreement(
            key=keys.LATENCY.maximum,
            stated=longest,
            computed=lasted * 1e9,
            formula=formula,
            unit="ns",
        )
