"""Family P: whether the run's numbers follow from one another."""

from __future__ import annotations

from checker import consistency, metrics
from checker import loadgen_keys as keys
from checker.consistency import Disagreement, same_value
from checker.model import AccuracyRun, ComplianceRun, PerformanceRun, RangingRun, Run
from checker.parse.detail import DetailLog
from checker.parse.summary import SummaryLog
from checker.rule import ERROR, WARNING, NotJudged, Problem, Problems, given, rule
from checker.rules.comparing import at
from checker.wording import listed, milliseconds, number, pair, quantity, shown
from schemas.round import Gate, Round

_LONGEST_ANSWER = 200_000
"""Tokens. The longest context of any benchmark's model is 163,840 tokens."""
_TOKENS_FACTOR = 2


def _problem(run: Run, wrong: Disagreement) -> Problem:
    scale, unit = (1e6, "ms") if wrong.unit == "ns" else (1.0, wrong.unit)
    stated, computed = pair(wrong.stated / scale, wrong.computed / scale, unit)
    text = f"{wrong.key} is {stated}; expected {computed}, {wrong.formula}"
    return at(run, wrong.key, text, wrong.stated, wrong.computed)


@rule("P131", ERROR, cases={"other": WARNING, "of another run": WARNING})
def summary_agrees(
    run: PerformanceRun | AccuracyRun | ComplianceRun | RangingRun,
    round: Round,
    detail: DetailLog,
    summary: SummaryLog,
) -> Problems:
    """The summary log and the detail log state the same.

    Why: LoadGen writes both from the same numbers; a difference means that one was edited or is of
        another run.
    Fix: put the two logs of one and the same run into the folder.
    Source: LoadGen's log_summary and log_detail; the summary rounds to two decimals.
    """
    decisive: set[str] = set()
    case = "of another run"  # published accuracy folders have the summary of the performance run
    if isinstance(run, PerformanceRun):
        case = "other"
        metric = metrics.metric_of(run.result)
        decisive = {keys.VALIDITY, metric.name if metric is not None else keys.VALIDITY}
    others = []
    for key, (value, line) in summary.values.items():
        logged = detail.get(key)
        # Of a seed every digit counts.
        alike = logged == value if type(logged) is type(value) is int else same_value(logged, value)
        if logged is None or alike:
            continue
        if isinstance(value, str) and type(logged) in (int, float):
            continue  # a number that is none is X002's
        text = (
            f"{key} is {shown(value)}; the detail log has {shown(logged)} (line {detail.line(key)})"
        )
        if key in decisive:
            ends = run.summary_path if line == summary.lines else None
            yield Problem(
                text, found=value, required=logged, path=run.summary_path, line=line, if_whole=ends
            )
        else:
            others.append((text, value, logged, line))
    if others:
        text, value, logged, line = others[0]
        more = (
            f"; {quantity(len(others), 'value')} of the two logs differ" if len(others) > 1 else ""
        )
        yield Problem(
            text + more,
            found=value,
            required=logged,
            path=run.summary_path,
            line=line,
            case=case,
            count=len(others),
            if_whole=run.summary_path if line == summary.lines and not more else None,
        )


@rule("P132", ERROR, only={"detail.format": "mllog"})
def metric_arithmetic(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """The published number follows from the run's own counts and times.

    Why: LoadGen computes it from them; where they disagree, one of them was changed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: samples / longest latency (Offline), 1e9 / mean latency (SingleStream),
        scheduled queries / schedule length (Server).
    """
    of_scenario = given(consistency.BY_SCENARIO.get(run.scenario or ""))
    for wrong in of_scenario(detail):
        yield _problem(run, wrong)


@rule("P133", ERROR, cases={"other": WARNING})
def percentiles_ordered(
    run: PerformanceRun | ComplianceRun | RangingRun, round: Round, detail: DetailLog
) -> Problems:
    """Latency percentiles rise: minimum, 50th, 90th, …, 99.9th, maximum.

    Why: percentiles of one set of latencies cannot fall.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc.
    """
    for family in keys.LATENCIES:
        found = consistency.falling(detail, family)
        if found is not None:
            key, value, below, least = found
            text = f"{key} is {milliseconds(value)}, less than {below} ({milliseconds(least)})"
            case = None if isinstance(run, PerformanceRun) else "other"
            yield at(run, key, text, value, f">= {least}", case=case)


_NOT_BELOW_ZERO = (
    *(
        key
        for family in (keys.LATENCY, keys.QUERY_LATENCY)
        for key in (family.minimum, family.mean)
    ),
    keys.SAMPLES_PER_SECOND,
    keys.SCHEDULED_SAMPLES_PER_SECOND,
    keys.COMPLETED_SAMPLES_PER_SECOND,
    keys.QPS_WITH_OVERHEAD,
    keys.QPS_WITHOUT_OVERHEAD,
)


@rule("P169", WARNING)
def not_below_zero(
    run: PerformanceRun | ComplianceRun | RangingRun, round: Round, detail: DetailLog
) -> Problems:
    """No rate and no latency is below zero; those of tokens are judged by P144.

    Why: LoadGen takes them from the clock, and where that was set back nothing measured holds.
    Fix: measure again while nothing sets the clock.
    Source: LoadGen results.cc; a published result has a minimum latency of -1.26 s.
    """
    for key in _NOT_BELOW_ZERO:
        value = detail.number(key)
        if value is not None and value < 0:
            found = milliseconds(value) if key.endswith("_ns") else number(value)
            yield at(run, key, f"{key} is {found}; expected 0 or more", value, ">= 0")


@rule("P134", ERROR, only={"detail.format": "mllog"})
def validity_follows(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """VALID or INVALID follows from the conditions that LoadGen recorded.

    Why: LoadGen computes the verdict from them; where they disagree, one of them was changed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: a run is valid when duration, query count, early stopping and (Server)
        the latency constraint are met.
    """
    validity = detail.text(keys.VALIDITY)
    conditions = given(consistency.conditions(detail, run.scenario) or None)
    if validity not in ("VALID", "INVALID"):
        raise NotJudged
    if None in conditions.values():
        raise NotJudged
    failed = [key for key, met in conditions.items() if not met]
    expected = "INVALID" if failed else "VALID"
    if validity != expected:
        because = f"{listed(failed)} is false" if failed else "every condition is met"
        text = f"{keys.VALIDITY} is {validity}; expected {expected}, since {because}"
        yield at(run, keys.VALIDITY, text, validity, expected)


@rule("P135", WARNING)
def error_count_agrees(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """The number of errors that LoadGen states is the number of error records.

    Why: LoadGen counts what it wrote; a difference means that records were added or removed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen (from 5.0): num_errors.
    """
    stated = given(detail.integer(keys.NUM_ERRORS))
    if stated != detail.error_count:
        count = quantity(detail.error_count, "error record")
        text = f"{keys.NUM_ERRORS} is {quantity(stated)}; the log holds {count}"
        yield at(run, keys.NUM_ERRORS, text, detail.error_count, stated)


@rule("P142", ERROR, only={"detail.format": "mllog", "scenario": "Offline"})
def offline_interval(
    run: PerformanceRun, round: Round, detail: DetailLog, lasted: float
) -> Problems:
    """Offline's longest latency is the time between LoadGen's power_begin and power_end.

    Why: Offline is one query, so both are the same time, taken by two clocks.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen loadgen.cc and results.cc; they agree within milliseconds in published logs.
    """
    for wrong in consistency.offline_interval(detail, lasted):
        yield _problem(run, wrong)


@rule("P145", ERROR)
def token_rate_possible(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """Tokens per second and samples per second leave a possible number of tokens per sample.

    Why: both rates are of the same run; a rate that was edited or miscounted is published as it is.
    Fix: use the logs as LoadGen wrote them; report each answer's number of output tokens once.
    Source: LoadGen results.cc: both rates share one time. No benchmark's model can produce more than
        163,840 tokens.
    """
    found = given(consistency.tokens_per_sample(detail))
    key, tokens = found
    if not 1 <= tokens <= _LONGEST_ANSWER:
        text = (
            f"{key} is {quantity(detail.number(key), 'tokens/s')}, which is "
            f"{quantity(tokens, 'token')} per sample; expected 1 to {quantity(_LONGEST_ANSWER)}"
        )
        yield at(run, key, text, tokens, f"1 to {_LONGEST_ANSWER}")


@rule("P146", ERROR, needs={"gates": "result.gates"})
def tokens_as_in_accuracy(
    run: PerformanceRun, round: Round, detail: DetailLog, gates: list[Gate]
) -> Problems:
    """A sample takes about as many output tokens in the performance run as in the accuracy run.

    Why: both runs answer the same questions; shorter answers make a faster run, and a token rate
        that was edited shows here.
    Fix: make both runs with the same model, settings and data set.
    Source: inference_rules.adoc, "Benchmarks": tokens per sample. Published results differ by less
        than a tenth.
    """
    # Where the round has no limits on the length, the two runs may differ (low and high effort).
    if "TOKENS_PER_SAMPLE" not in {gate.metric for gate in gates}:
        raise NotJudged
    found = given(consistency.tokens_per_sample(detail))
    scores = {score.metric: score for score in metrics.accuracy_of(run.result)}
    score = given(scores.get("TOKENS_PER_SAMPLE"))
    if not score.value or score.passed is False:
        raise NotJudged
    expected = score.value
    key, tokens = found
    if not expected / _TOKENS_FACTOR <= tokens <= expected * _TOKENS_FACTOR:
        text = (
            f"{key} gives {quantity(tokens, 'token')} per sample; the accuracy run has "
            f"{quantity(expected)}, and a factor of {_TOKENS_FACTOR} is not possible"
        )
        yield at(run, key, text, tokens, expected)


_NUMBERS = (
    keys.MIN_QUERY_COUNT, keys.MIN_DURATION_MS, keys.TARGET_QPS, keys.TARGET_LATENCY,
    keys.SAMPLES_PER_QUERY, keys.PERFORMANCE_SAMPLE_COUNT, keys.QUERY_COUNT, keys.SAMPLES_PER_SECOND,
    keys.TOKENS_PER_SECOND, keys.SCHEDULED_SAMPLES_PER_SECOND, keys.COMPLETED_SAMPLES_PER_SECOND,
    keys.COMPLETED_TOKENS_PER_SECOND, keys.TOKEN_THROUGHPUT, keys.QPS_WITH_OVERHEAD,
    keys.QPS_WITHOUT_OVERHEAD, keys.SINGLE_STREAM_ESTIMATE, keys.MULTI_STREAM_ESTIMATE,
    keys.GENERATED_QUERY_COUNT, keys.GENERATED_SAMPLES_PER_QUERY, keys.QSL_TOTAL_COUNT,
    *(keys.effective(name) for name in keys.SEEDS),
    *(key for family in keys.LATENCIES for key in (family.mean, *family.rising)),
)  # fmt: skip


@rule("P160", WARNING, only={"detail.format": "mllog"})
def numbers_unquoted(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """LoadGen's numbers are numbers in the log, not text.

    Why: LoadGen writes numbers without quotes; quotes mean that the log was rewritten.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen logging.cc.
    """
    # Text that is not a number is reported by the rule that needs the number.
    texts = [key for key in _NUMBERS if isinstance(detail.get(key), str)]
    quoted = [key for key in texts if detail.number(key) is not None]
    if quoted:
        many = len(quoted) > 1
        is_text = "are text; expected numbers" if many else "is text; expected a number"
        text = f"{listed(quoted, limit=3)} {is_text}"
        yield at(run, quoted[0], text, detail.get(quoted[0]), "a number", count=len(quoted))
