"""Figures that bind each other in published logs, with the bounds that no genuine log leaves.

Each figure is a pure function of a run or a result: None where it does not apply. The rules of
``checker.rules.audit`` judge by them, ``python -m tools.distributions`` prints their distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from checker import loadgen_keys as keys
from checker.audit.evidence import Look
from checker.consistency import exact_tokens_per_sample
from checker.model import Result, Run
from checker.parse.documents import Document

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure(Generic[T]):
    """A figure by the rule that judges it.

    name: T1, T2 … of the distributions; formula: in words; low, high: what is expected; unit: of
    all three; of: its value for a run or a result.
    """

    rule: str
    name: str
    formula: str
    low: float
    high: float
    of: Callable[[T], float | None]
    unit: str = ""

    def holds(self, value: float) -> bool:
        """Whether a value is within the bounds."""
        return self.low <= value <= self.high


def look_at(run: Run, *scenarios: str) -> Look | None:
    """The run's log, where it measured performance in one of the scenarios (any, if none named)."""
    detail = run.detail
    if detail is None or not detail or detail.format != "mllog" or run.kind == "ranging":
        return None
    if run.mode not in ("PerformanceOnly", "SubmissionRun"):
        return None
    return Look(detail) if not scenarios or run.scenario in scenarios else None


_LEAST_QUERIES = 500
"""Fewer queries than this do not make a distribution."""


def token_time(run: Run, look: Look | None = None) -> float | None:
    """What is left of the mean latency after the first token, against the time of its tokens."""
    look = look or look_at(run, "Server")
    if look is None:
        return None
    count, tokens = look.integer(keys.QUERY_COUNT), exact_tokens_per_sample(look.detail)
    mean, first = look.number(keys.LATENCY.mean), look.number(keys.FIRST_TOKEN.mean)
    each = look.number(keys.PER_TOKEN.mean)
    if count is None or tokens is None or mean is None or first is None or each is None:
        return None
    if count < _LEAST_QUERIES or tokens <= 1 or each <= 0:
        return None
    return (mean - first) / (each * (tokens - 1))


def clock_difference(run: Run) -> float | None:
    """By how many seconds the log's own clock ran longer than the wall clock."""
    detail, lasted = run.detail, run.lasted
    if detail is None or detail.format != "mllog" or run.kind == "ranging" or lasted is None:
        return None
    begin, end = detail.entry(keys.GENERATED_QUERY_COUNT), detail.entry(keys.POWER_END)
    if begin is None or end is None:
        return None
    return (end.time_ms - begin.time_ms) / 1000 - lasted


def _busy(run: Run, scenario: str, look: Look | None) -> float | None:
    look = look or look_at(run, scenario)
    if look is None or run.scenario != scenario:
        return None
    count, mean = look.integer(keys.QUERY_COUNT), look.number(keys.LATENCY.mean)
    if not count or not mean or not run.lasted or run.lasted < 5:
        return None
    return count * mean / 1e9 / run.lasted


def single_stream_busy(run: Run, look: Look | None = None) -> float | None:
    """The share of a SingleStream run that its queries' latencies fill."""
    return _busy(run, "SingleStream", look)


def multi_stream_busy(run: Run, look: Look | None = None) -> float | None:
    """The share of a MultiStream run that its queries' latencies fill."""
    return _busy(run, "MultiStream", look)


@dataclass(frozen=True, slots=True)
class Tail:
    """Queries over the latency limit.

    share: found; expected: by the line through p99 and p99.9, None where the limit is not between
    them; limit, p99, p999: ns.
    """

    over: int
    count: int
    limit: float
    p99: float
    p999: float

    @property
    def share(self) -> float:
        """The share of queries over the limit."""
        return self.over / self.count

    @property
    def expected(self) -> float | None:
        """The share where the tail falls evenly in log10 from p99 to p99.9."""
        if not self.p99 <= self.limit < self.p999:
            return None
        return float(10 ** (-2 - (self.limit - self.p99) / (self.p999 - self.p99)))

    @property
    def distance(self) -> float | None:
        """log10(found / expected)."""
        expected = self.expected
        return (
            None if expected is None else math.log10(max(self.share, 0.1 / self.count) / expected)
        )


def tail(run: Run, look: Look | None = None) -> Tail | None:
    """Server's queries over the limit, of 10,000 queries and more."""
    look = look or look_at(run, "Server")
    if look is None:
        return None
    count, over = look.integer(keys.QUERY_COUNT), look.integer(keys.OVERLATENCY_COUNT)
    limit = look.number(keys.TARGET_LATENCY)
    p99, p999 = look.number(keys.LATENCY.at(99)), look.number(keys.LATENCY.at(99.9))
    if count is None or over is None or limit is None or p99 is None or p999 is None:
        return None
    return (
        Tail(over=over, count=count, limit=limit, p99=p99, p999=p999)
        if count >= 10_000 and p999 > p99
        else None
    )


def tail_distance(run: Run) -> float | None:
    """log10 of the share over the limit, against the line from p99 to p99.9."""
    found = tail(run)
    return found.distance if found is not None else None


def percentile_step(run: Run, look: Look | None = None) -> float | None:
    """The step from p97 to p99 against that from p95 to p97."""
    look = look or look_at(run, "SingleStream", "MultiStream", "Server")
    if look is None:
        return None
    count = look.integer(keys.QUERY_COUNT)
    p95, p97, p99 = (look.number(keys.LATENCY.at(percent)) for percent in (95, 97, 99))
    if count is None or count < 1000 or p95 is None or p97 is None or p99 is None or p97 <= p95:
        return None
    return (p99 - p97) / (p97 - p95)


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """The accuracy run's last loaded set: seconds, queries, mean latency of the performance run, ns."""

    seconds: float
    queries: int
    mean: float

    @property
    def ratio(self) -> float:
        """How long it took against what the performance run's mean latency gives."""
        return self.seconds * 1e9 / (self.queries * self.mean)


def stopwatch(result: Result) -> Stopwatch | None:
    """The accuracy run as a second stopwatch, where queries take 50 ms and the set 30 s or more."""
    run, other = result.performance, result.accuracy
    if run is None or other is None or other.mode != "AccuracyOnly" or result.inferred_from:
        return None
    if run.scenario not in ("SingleStream", "MultiStream") or other.scenario != run.scenario:
        return None
    measured, accuracy = run.detail, other.detail
    if not measured or not accuracy or measured.format != "mllog":
        return None
    mean = measured.number(keys.LATENCY.mean)
    end, loaded = accuracy.entry(keys.POWER_END), accuracy.entry(keys.LOADED_SET)
    per_query = measured.number(keys.SAMPLES_PER_QUERY) if run.scenario == "MultiStream" else 1
    if not mean or mean < 5e7 or end is None or loaded is None or not per_query:
        return None
    samples = accuracy.length(keys.LOADED_SET)
    seconds = (end.time_ms - loaded.time_ms) / 1000
    if samples is None or samples < 200 or seconds < 30:
        return None
    return Stopwatch(seconds, math.ceil(samples / per_query), mean)


def stopwatch_ratio(result: Result) -> float | None:
    """The accuracy run's last loaded set against the performance run's mean latency."""
    found = stopwatch(result)
    return found.ratio if found is not None else None


@dataclass(frozen=True, slots=True)
class Range:
    """A range that the meter was set to for the run, and the greatest reading of the ranging run."""

    command: str
    set_to: float
    greatest: float

    @property
    def ratio(self) -> float:
        """What was set against what was read."""
        return self.set_to / self.greatest


def ranges(result: Result) -> tuple[Range, ...]:
    """Volts and amperes to which a single-channel meter was set, with the readings behind them."""
    run, ranging = result.performance, result.ranging
    if run is None or ranging is None or run.power is None or ranging.power is None:
        return ()
    samples = ranging.power.samples
    if run.power.server is None or samples is None or samples.channels:
        return ()
    found = []
    for quantity, readings in (("A", samples.amps), ("V", samples.volts)):
        value = _set_before_run(run.power.server, quantity)
        greatest = max((r for r in readings if math.isfinite(r)), default=0.0)
        if value is not None and greatest > 0:
            found.append(Range(f"SR,{quantity}", value, greatest))
    return tuple(found)


def _set_before_run(server: Document, quantity: str) -> float | None:
    """The last range, as a number, that was set before the measured run began."""
    value = None
    messages = server.fields.get("ptd_messages")
    for entry in messages if isinstance(messages, list) else []:
        command = str(entry.get("cmd", "")) if isinstance(entry, dict) else ""
        if command.startswith("Go,") and command.rstrip().endswith("_testing"):
            return value
        if command.startswith(f"SR,{quantity},"):
            try:
                value = float(command.split(",")[2])
            except ValueError:
                continue
    return None


RANGE_FACTORS = (1.0, 1.1)
"""The meter is set to the greatest reading; for amperes newer power tools take 1.1 times as much."""


def current_range(result: Result) -> float | None:
    """The range of amperes against the greatest reading of the ranging run."""
    return next((r.ratio for r in ranges(result) if r.command == "SR,A"), None)


def voltage_range(result: Result) -> float | None:
    """The range of volts against the greatest reading of the ranging run."""
    return next((r.ratio for r in ranges(result) if r.command == "SR,V"), None)


TOKEN_TIME = Figure(
    rule="R132",
    name="T1",
    formula="(mean latency - mean TTFT) / (mean TPOT x (tokens per sample - 1))",
    low=0.93,
    high=1.03,
    of=token_time,
)
CLOCKS = Figure(
    rule="R134",
    name="T2",
    formula="time_ms(power_end) - time_ms(generated_query_count) - (power_end - power_begin)",
    low=-0.05,
    high=30.0,
    of=clock_difference,
    unit="s",
)
SINGLE_STREAM_BUSY = Figure(
    rule="R135",
    name="T3",
    formula="queries x mean latency / (power_end - power_begin)",
    low=0.85,
    high=math.inf,
    of=single_stream_busy,
)
MULTI_STREAM_BUSY = Figure(
    rule="R135",
    name="T3, MultiStream",
    formula="queries x mean latency / (power_end - power_begin)",
    low=0.4,
    high=math.inf,
    of=multi_stream_busy,
)
TAIL = Figure(
    rule="R136",
    name="T4",
    formula="log10(share over the limit) against the line from p99 to p99.9",
    low=-1.0,
    high=0.5,
    of=tail_distance,
)
STEP = Figure(
    rule="R137",
    name="T9",
    formula="(p99 - p97) / (p97 - p95)",
    low=0.05,
    high=300.0,
    of=percentile_step,
)
STOPWATCH = Figure(
    rule="R138",
    name="T13",
    formula="(time_ms(power_end) - time_ms(last loaded_qsl_set)) / (queries x mean latency)",
    low=0.88,
    high=1.5,
    of=stopwatch_ratio,
)
CURRENT_RANGE = Figure(
    rule="R139",
    name="T12, amperes",
    formula="range set before the run / greatest reading of the ranging run",
    low=1.0,
    high=1.1,
    of=current_range,
)
VOLTAGE_RANGE = Figure(
    rule="R139",
    name="T12, volts",
    formula="range set before the run / greatest reading of the ranging run",
    low=1.0,
    high=1.0,
    of=voltage_range,
)

OF_RUNS: tuple[Figure[Run], ...] = (
    TOKEN_TIME,
    CLOCKS,
    SINGLE_STREAM_BUSY,
    MULTI_STREAM_BUSY,
    TAIL,
    STEP,
)
OF_RESULTS: tuple[Figure[Result], ...] = (STOPWATCH, CURRENT_RANGE, VOLTAGE_RANGE)
