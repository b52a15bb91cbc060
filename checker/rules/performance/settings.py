"""Family P: what the performance run was set to do."""

from __future__ import annotations

from checker import loadgen_keys as keys
from checker.model import PerformanceRun, PoweredRun
from checker.parse.detail import DetailLog
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, Problems, given, rule
from checker.rules.comparing import at, compare_setting, seed_problems
from checker.wording import listed, quantity, shown
from schemas.round import Benchmark, Round


@rule("P104", ERROR, needs={"least": "limits.min_query_count"})
def min_query_count(run: PerformanceRun, round: Round, detail: DetailLog, least: int) -> Problems:
    """The run was set to issue at least the round's minimum number of queries.

    Why: with fewer queries the tail latency is not known at the required confidence.
    Fix: raise min_query_count in user.conf to the minimum and run again.
    Source: inference_rules.adoc, "Scenarios": minimum query count.
    """
    yield from compare_setting(run, detail, keys.MIN_QUERY_COUNT, least=least, unit="query")


@rule("P106", ERROR, needs={"least": "limits.min_duration_ms"})
def min_duration(run: PerformanceRun, round: Round, detail: DetailLog, least: int) -> Problems:
    """The run was set to last at least the round's minimum duration.

    Why: a short run shows neither thermal limits nor rare slow queries.
    Fix: remove min_duration from user.conf (the official configuration sets it) and run again.
    Source: inference_rules.adoc, "Scenarios": minimum duration.
    """
    yield from compare_setting(run, detail, keys.MIN_DURATION_MS, least=least, unit="ms")


@rule("P108", ERROR, needs={"least": "result.benchmark.performance_sample_count"})
def performance_sample_count(
    run: PerformanceRun, round: Round, detail: DetailLog, least: int
) -> Problems:
    """The performance run drew from at least the benchmark's number of loaded samples.

    Why: a small set of samples stays in caches and flatters the measurement.
    Fix: let the QSL report the benchmark's performance sample count and run again.
    Source: inference_rules.adoc, "Benchmarks": QSL size; LoadGen's effective_performance_sample_count.
    """
    key = keys.PERFORMANCE_SAMPLE_COUNT
    yield from compare_setting(run, detail, key, least=least, unit="sample")


@rule("P109", ERROR)
def seeds(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """The performance run used the three seeds announced for the round.

    Why: announced seeds fix which samples are issued when, the same for everybody.
    Fix: use the LoadGen release of the round (it holds the seeds) and run again.
    Source: inference_rules.adoc, "LoadGen"; mlperf.conf of the round.
    """
    yield from seed_problems(run, round, detail)


@rule("P111", ERROR)
def performance_mode(run: PoweredRun, round: Round, detail: DetailLog) -> Problems:
    """The performance run was made in performance mode.

    Why: accuracy mode measures nothing that may be published as performance.
    Fix: run LoadGen with TestMode.PerformanceOnly (or SubmissionRun) for performance/run_1.
    Source: inference_rules.adoc, "LoadGen": modes of operation.
    """
    mode = run.mode
    if mode not in ("PerformanceOnly", "SubmissionRun"):
        text = f"{keys.TEST_MODE} is {mode or 'absent'}; expected PerformanceOnly"
        yield at(run, keys.TEST_MODE, text, mode, "PerformanceOnly")


@rule("P112", ERROR, needs={"least": "limits.min_samples_per_query"})
def offline_min_samples(
    run: PerformanceRun, round: Round, detail: DetailLog, least: int
) -> Problems:
    """The Offline query holds at least the benchmark's minimum number of samples.

    Why: Offline is one query; with few samples its throughput is dominated by start and end.
    Fix: raise min_query_count (or the expected target_qps) so that the query holds that many samples.
    Source: inference_rules.adoc, "Scenarios": 24,576 samples, or the data set where it is smaller.
    """
    yield from compare_setting(run, detail, keys.SAMPLES_PER_QUERY, least=least, unit="sample")


@rule("P113", ERROR, needs={"wanted": "limits.samples_per_query"})
def samples_per_query(
    run: PerformanceRun, round: Round, detail: DetailLog, wanted: int
) -> Problems:
    """A query holds the number of samples that the scenario fixes (MultiStream: 8).

    Why: MultiStream's latency is that of a query of eight samples.
    Fix: remove samples_per_query from user.conf and run again.
    Source: inference_rules.adoc, "Scenarios": MultiStream.
    """
    yield from compare_setting(run, detail, keys.SAMPLES_PER_QUERY, exactly=wanted, unit="sample")


@rule("P116", ERROR, needs={"most": "limits.target_latency_ns"}, only={"scenario": "Server"})
def target_latency_setting(
    run: PerformanceRun, round: Round, detail: DetailLog, most: int
) -> Problems:
    """LoadGen's latency bound was not set above the round's.

    Why: a run held to a looser bound is a run of another benchmark.
    Fix: remove target_latency from user.conf (the official configuration sets it) and run again.
    Source: inference_rules.adoc, "Benchmarks": server latency constraint.
    """
    yield from compare_setting(run, detail, keys.TARGET_LATENCY, most=most, unit="ms", scale=1e6)


@rule("P118", ERROR, needs="limits.token_latencies")
def token_latencies(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """LoadGen recorded token latencies, as the benchmark requires.

    Why: time to first token and time per output token are the benchmark's latency bounds.
    Fix: use the round's LoadGen with the benchmark's own name so that use_token_latencies is set.
    Source: mlperf.conf of the round: use_token_latencies.
    """
    yield from compare_setting(run, detail, keys.USE_TOKEN_LATENCIES, exactly=True)


@rule("P121", ERROR, needs="limits.equal_issue")
def equal_issue(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """Samples of unequal cost were issued equally often.

    Why: with random choice, one run can draw more of the cheap samples than another.
    Fix: use the round's LoadGen with the benchmark's own name so that sample_concatenate_permutation
        is set; user.conf cannot set it.
    Source: inference_rules.adoc, "Scenarios"; mlperf.conf: sample_concatenate_permutation.
    """
    yield from compare_setting(run, detail, keys.EQUAL_ISSUE, exactly=True)


@rule("P124", ERROR, cases={"probability": WARNING})
def no_audit_settings(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """The submitted run was not made with a compliance test's settings.

    Why: audit settings change which samples are issued (issue_same) or what is logged.
    Fix: remove audit.config from the working directory and run again.
    Source: compliance tests: audit.config overrides; inference_rules.adoc, "Audit".
    """
    for key in (keys.ISSUE_SAME, keys.ISSUE_UNIQUE):
        if detail.boolean(key):
            text = f"{key} is true in the submitted run; expected false"
            yield at(run, key, text, True, False)
    for key, case in ((keys.LOG_SAMPLING_TARGET, None), (keys.LOG_PROBABILITY, "probability")):
        value = detail.number(key)
        if value:
            text = f"{key} is {quantity(value)} in the submitted run; expected 0"
            yield at(run, key, text, value, 0, **({"case": case} if case else {}))


@rule("P125", ERROR, needs={"least": "limits.percentile"})
def target_percentile(
    run: PerformanceRun, round: Round, detail: DetailLog, least: float
) -> Problems:
    """The run was judged at the scenario's tail percentile.

    Why: a lower percentile hides the slow queries.
    Fix: remove target_latency_percentile from user.conf and run again.
    Source: inference_rules.adoc, "Scenarios": tail latency percentile.
    """
    found = given(detail.number(keys.TARGET_PERCENTILE))
    if run.scenario == "Offline":
        raise NotJudged
    if found < least - 1e-6:
        text = f"{keys.TARGET_PERCENTILE} is {quantity(found)}; expected at least {quantity(least)}"
        yield at(run, keys.TARGET_PERCENTILE, text, found, least)


@rule("P126", WARNING, cases={"reached": NOTE})
def not_ended_early(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """No upper bound on queries or time could end the run before its minimum.

    Why: max_query_count and max_duration can end a run before its minimum is reached.
    Fix: remove max_query_count and max_duration from user.conf and run again.
    Source: LoadGen's test settings: max_query_count, max_duration.
    """
    # A bound above the minimum of its own kind changes nothing: LoadGen says whether that minimum
    # was met.
    pairs = (
        (keys.MAX_QUERY_COUNT, keys.MIN_QUERY_COUNT, keys.MIN_QUERIES_MET, "query"),
        (keys.MAX_DURATION_MS, keys.MIN_DURATION_MS, keys.MIN_DURATION_MET, "ms"),
    )
    for key, minimum, met, unit in pairs:
        value, least = detail.number(key), detail.number(minimum) or 0
        if not value:
            continue
        if value < least:
            text = (
                f"{key} is {quantity(value, unit)}, below {minimum} ({quantity(least, unit)}); "
                "expected 0 (no bound)"
            )
            yield at(run, key, text, value, 0)
        elif detail.boolean(met) is not True:
            text = f"{key} is {quantity(value, unit)}; expected 0 (no bound)"
            yield at(run, key, text, value, 0)
        elif unit == "query" and detail.integer(keys.QUERY_COUNT) == value:
            text = f"the run ended at {key}, {quantity(value, unit)}; expected 0 (no bound)"
            yield at(run, key, text, value, 0, case="reached")


@rule(
    "P127",
    WARNING,
    needs={"benchmark": "result.benchmark", "size": "result.benchmark.dataset.size"},
)
def whole_dataset_in_qsl(
    run: PerformanceRun, round: Round, detail: DetailLog, benchmark: Benchmark, size: int
) -> Problems:
    """The performance run's sample library is the whole data set.

    Why: LoadGen draws from what the library reports; a part of the data set may be easier.
    Fix: let the QSL report the data set's size.
    Source: inference_rules.adoc, "Benchmarks"; LoadGen's qsl_reported_total_count.
    """
    found = detail.integer(keys.QSL_TOTAL_COUNT)
    dataset = benchmark.dataset
    accepted = {
        size,
        dataset.accuracy_sample_count,
        benchmark.performance_sample_count,
        *dataset.accuracy_sample_count_by_scenario.values(),
    }
    if found is not None and found not in accepted:
        text = f"{keys.QSL_TOTAL_COUNT} is {quantity(found, 'sample')}; expected {quantity(size)}"
        yield at(run, keys.QSL_TOTAL_COUNT, text, found, size)


@rule("P136", ERROR, only={"detail.format": "mllog"})
def seeds_as_requested(run: PerformanceRun, round: Round, detail: DetailLog) -> Problems:
    """The effective seeds are those that were requested.

    Why: LoadGen copies one to the other; a difference means that the log was edited.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen test_settings_internal.cc.
    """
    for name in keys.SEEDS:
        key = keys.effective(name)
        asked, used = detail.integer(keys.requested(name)), detail.integer(key)
        if asked is not None and used is not None and asked != used:
            text = f"{key} is {used}; {keys.requested(name)} is {asked}"
            yield at(run, key, text, str(used), str(asked))


_SINGLE = ("result_", "effective_", "requested_", "early_stopping_latency", "early_stopping_met")


@rule("P123", ERROR)
def no_contradicting_records(run: PoweredRun, round: Round, detail: DetailLog) -> Problems:
    """No setting or result is recorded twice with different values.

    Why: LoadGen writes each once; a second one means that the log was edited or joined.
    Fix: use the detail log of one run as LoadGen wrote it.
    Source: LoadGen's log: one record for each setting and result.
    """
    for key, entries in detail.entries.items():
        if len(entries) < 2 or not key.startswith(_SINGLE):
            continue
        first = entries[0].value
        others = [
            e for e in entries[1:] if e.value != first and (e.value == e.value or first == first)
        ]
        if others:
            yield Problem(
                f"{key} is {shown(first)} on line {entries[0].line} and "
                f"{listed([f'{shown(e.value)} on line {e.line}' for e in others[:3]])}; expected one record",
                found=[first, others[0].value],
                required="one value",
                path=run.detail_path,
                line=others[0].line,
                count=len(others),
            )
