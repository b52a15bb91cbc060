"""Endpoints results: the run was whole, long and fast enough, and its figures agree."""

from __future__ import annotations

from checker import metrics
from checker.model import Result
from checker.parse.documents import Document
from checker.parse.endpoints import Endpoints, as_number
from checker.rule import ERROR, WARNING, Problem, Problems, rule
from checker.wording import listed, milliseconds, number, pair, quantity, shown
from schemas.round import Round, Scenario

_TIMER_SLACK = 0.999
"""A measured duration may fall short of the setting by the client's own timer."""


@rule("P155", ERROR, needs={"summary": "endpoints.summary"})
def endpoints_complete(
    result: Result, round: Round, endpoints: Endpoints, summary: Document
) -> Problems:
    """The run ended, and every sample that was issued was answered.

    Why: a failed or missing answer is a lost query; the run is not valid.
    Fix: run again until no sample fails.
    Source: inference_rules.adoc: a run must be valid; result_summary.json: n_samples_failed, complete.
    """
    failed = endpoints.measured("n_samples_failed")
    if failed:
        text = f"n_samples_failed is {shown(failed)}; expected 0"
        yield Problem(
            text, path=summary.path, pointer="/n_samples_failed", found=failed, required=0
        )
    issued, done = endpoints.number("n_samples_issued"), endpoints.number("n_samples_completed")
    if issued is not None and done is not None and done < issued:
        yield Problem(
            f"n_samples_completed is {number(done)}; expected {number(issued)}, as many as issued",
            path=summary.path,
            pointer="/n_samples_completed",
            found=done,
            required=issued,
        )
    complete, state = endpoints.measured("complete"), endpoints.measured("state")
    if complete is False or state not in (None, "complete"):
        yield Problem(
            f"state is {shown(state)} and complete is {shown(complete)}; expected a run that ended",
            path=summary.path,
            pointer="/complete",
            found=state,
            required="complete",
        )


@rule("P156", ERROR, cases={"offline-ended-early": WARNING})
def endpoints_duration(
    result: Result, round: Round, endpoints: Endpoints, rules: Scenario
) -> Problems:
    """The run was set to last at least the round's minimum duration, and did.

    Why: a short run shows neither thermal limits nor rare slow queries. Offline issues all samples
    at once, so that its measured time may be shorter than the setting.
    Fix: raise settings.runtime.min_duration_ms and run again.
    Source: inference_rules.adoc, "Scenarios": minimum duration.
    """
    least = rules.min_duration_ms
    asked = as_number(endpoints.setting("settings", "runtime", "min_duration_ms"))
    if endpoints.config is not None and asked is not None and not asked >= least:
        yield Problem(
            f"min_duration_ms is {quantity(asked, 'ms')}; expected at least {quantity(least, 'ms')}",
            path=endpoints.config.path,
            pointer="/settings/runtime/min_duration_ms",
            found=asked,
            required=least,
        )
    lasted = endpoints.number("duration_ns")
    if endpoints.summary is None or lasted is None or lasted / 1e6 >= least * _TIMER_SLACK:
        return
    decided = asked is not None and asked >= least and result.scenario == "Offline"
    yield Problem(
        f"the run lasted {quantity(lasted / 1e9, 's')}; expected at least "
        f"{quantity(least / 1000, 's')}",
        path=endpoints.summary.path,
        pointer="/duration_ns",
        found=lasted,
        required=least * 1_000_000,
        case="offline-ended-early" if decided else None,
    )


_PATTERNS = {
    "max_throughput": ("Offline",),
    "poisson": ("Server", "Interactive"),
}
"""How the client issues samples, and the scenarios that are measured so."""


@rule("P170", WARNING, needs={"config": "endpoints.config"})
def endpoints_load_pattern(
    result: Result, round: Round, endpoints: Endpoints, config: Document, scenario: str
) -> Problems:
    """The samples were issued as the folder's scenario demands.

    Why: all samples at once are Offline, arrivals by a Poisson process Server or Interactive; the
        same figures mean something else in another scenario.
    Fix: move the result to the folder of the scenario that was measured.
    Source: inference_rules.adoc, "Scenarios"; settings.load_pattern.type of all published endpoints results.
    """
    found = endpoints.setting("settings", "load_pattern", "type")
    pattern = next((name for name, scenarios in _PATTERNS.items() if scenario in scenarios), None)
    meant = _PATTERNS.get(found) if isinstance(found, str) else None
    if meant is not None and scenario not in meant:
        yield Problem(
            f"load_pattern.type is {shown(found)}, which is {listed(meant, 'or')}; expected "
            f"{pattern or 'the pattern'} of {scenario}",
            path=config.path,
            pointer="/settings/load_pattern/type",
            found=found,
            required=pattern,
        )


@rule("P157", ERROR, needs={"summary": "endpoints.summary"})
def endpoints_latency(
    result: Result, round: Round, endpoints: Endpoints, summary: Document, rules: Scenario
) -> Problems:
    """Tail latencies are within the limits of the folder's scenario.

    Why: the result is the load at which the tail stays below the limits.
    Fix: lower settings.load_pattern.target_qps and run again.
    Source: inference_rules.adoc, "Benchmarks": TTFT, TPOT and latency at the 99th percentile, by the
        early-stopping estimate.
    """
    if summary.value is None or result.scenario not in ("Server", "Interactive"):
        return
    percent = (rules.percentile or 0.99) * 100
    latency = None if rules.token_latencies else rules.target_latency_ns
    for name, limit in (
        ("ttft", rules.ttft_ms and rules.ttft_ms * 1e6),
        ("tpot", rules.tpot_ms and rules.tpot_ms * 1e6),
        ("latency", latency),
    ):
        if not limit:
            continue
        # The estimate is null where the samples are too few for it.
        value = endpoints.percentile(name, percent, early=True)
        if value is None:
            value = endpoints.percentile(name, percent)
        if value is None or not value <= limit:
            found = milliseconds(value)
            expected = milliseconds(limit)
            if value is not None:
                found, expected = pair(value / 1e6, limit / 1e6, "ms")
            text = (
                f"the {number(percent)}th percentile of {name} is {found}; {result.scenario} allows "
                f"at most {expected}"
            )
            yield Problem(text, path=summary.path, pointer=f"/{name}", found=value, required=limit)


@rule("P158", WARNING, cases={"published": ERROR}, needs={"summary": "endpoints.summary"})
def endpoints_arithmetic(
    result: Result, round: Round, endpoints: Endpoints, summary: Document
) -> Problems:
    """The rates follow from the counts and the duration.

    Why: the client computes them from these; where they disagree, one of them was changed, or has
    another unit. An error where the rate is the result's published metric.
    Fix: use result_summary.json as the endpoints client wrote it.
    Source: result_summary.json: qps and tps over the measuring window.
    """
    metric = metrics.metric_of(result)
    spans = [endpoints.number("legacy_loadgen_window_duration_ns"), endpoints.number("duration_ns")]
    for name, unit, count in (
        ("qps", "samples/s", endpoints.number("n_samples_completed")),
        ("tps", "tokens/s", endpoints.number("output_sequence_lengths", "total")),
    ):
        rate = endpoints.number(name)
        if rate is None or count is None:
            continue
        computed = [count * 1e9 / span for span in spans if span]
        if not computed or any(abs(rate - value) <= 1e-3 * abs(value) for value in computed):
            continue
        found, expected = pair(rate, computed[0], unit)
        yield Problem(
            f"{name} is {found}; expected {expected} ({number(count)} {unit.removesuffix('/s')} in the "
            "run's time)",
            path=summary.path,
            pointer=f"/{name}",
            found=rate,
            required=computed[0],
            case="published" if metric is not None and metric.name == name else None,
        )
