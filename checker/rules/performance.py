"""Family P: the performance run: was it run as the round asks, and is its number sound."""

from __future__ import annotations

import math
from collections.abc import Iterator

from checker import metrics
from checker.early_stopping import minimum_queries
from checker.model import AccuracyRun, ComplianceRun, LogPrint, PerformanceRun, Result, Run
from checker.parse.detail import DetailLog
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, rule
from schemas.round import Round

UNCOMMITTED = "Loadgen built with uncommitted changes"
_SEEDS = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
_EARLY_STOPPING = {"SingleStream": 0.9, "MultiStream": 0.99}
"""The percentile that early stopping estimates."""
# LoadGen prints doubles with six significant digits; quotients of two such need twice the room.
_REL = 2e-5


def _detail(run: Run) -> DetailLog:
    if run.detail is None or not run.detail:
        raise NotJudged
    return run.detail


def _is_ranging(run: Run) -> bool:
    return run.kind == "ranging"


@rule("P101", ERROR)
def performance_log_present(result: Result, round: Round) -> Iterator[Problem]:
    """The performance run's detail log is there.

    Why: it is the measurement; without it there is no result.
    Fix: put LoadGen's mlperf_log_detail.txt and mlperf_log_summary.txt into performance/run_1.
    Source: submission_rules.adoc, "Directory structure": performance/run_1.
    """
    if result.scope == "run" or result.endpoints is not None:
        raise NotJudged
    if result.folder.folder("performance") is None:
        yield Problem(
            f"{result.path} has no folder performance/; performance/run_1 with LoadGen's logs was asked for",
            path=result.path, required="performance/run_1",
        )  # fmt: skip
        return
    if not result.runs:
        yield Problem(
            f"{result.path}/performance has no folder run_1 with LoadGen's logs",
            path=f"{result.path}/performance",
            found=sorted(result.folder.folder("performance").folders),  # type: ignore[union-attr]
            required="run_1",
        )
    for run in result.runs:
        if run.detail is None:
            yield Problem(f"{run.path} has no mlperf_log_detail.txt", path=run.detail_path)


@rule("P102", ERROR, needs="detail")
def run_valid(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """LoadGen called the run VALID.

    Why: an INVALID run missed its duration, its query count or its latency bound.
    Fix: follow the recommendations at the end of mlperf_log_summary.txt and run again.
    Source: inference_rules.adoc, "LoadGen": a run must be valid to be submitted.
    """
    if _is_ranging(run):
        raise NotJudged
    detail = _detail(run)
    validity = detail.text("result_validity")
    if validity is None:
        yield Problem(
            f"{run.detail_path} does not say whether the run was VALID (no result_validity): the run did not end",
            path=run.detail_path, found=None, required="VALID",
        )  # fmt: skip
    elif validity != "VALID":
        hints = run.summary.recommendations if run.summary is not None else []
        why = detail.text("result_invalid_reason") or "; ".join(hints)
        yield Problem(
            f"the run is {validity}, VALID was asked for" + (f" ({why})" if why else ""),
            path=run.detail_path, line=detail.line("result_validity"), found=validity, required="VALID",
        )  # fmt: skip


@rule("P103", ERROR, needs="detail")
def no_loadgen_errors(run: PerformanceRun | AccuracyRun, round: Round) -> Iterator[Problem]:
    """LoadGen recorded no error in the run.

    Why: an error record means that LoadGen could not run the test as it was set up.
    Fix: read the error's text in the log, mend its cause and run again.
    Source: inference_rules.adoc, "LoadGen"; the log's records with is_error.
    """
    detail = _detail(run)
    for entry in detail.errors:
        text = str(entry.value)
        if UNCOMMITTED in text or any(known in text for known in round.loadgen.ignored_errors):
            continue
        if entry.key == "error_uncommitted_loadgen_changes":
            continue
        yield Problem(
            f"LoadGen recorded an error in the {run.kind} run: {entry.key}: {text[:300]}",
            path=run.detail_path, line=entry.line, found=text[:300], required="no error record",
        )  # fmt: skip


@rule("P104", ERROR, needs=("detail", "rules"))
def min_query_count(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The run was set to issue at least the round's minimum number of queries.

    Why: with fewer queries the tail latency is not known at the required confidence.
    Fix: raise min_query_count in user.conf to the minimum and run again.
    Source: inference_rules.adoc, "Scenarios": minimum query count.
    """
    rules = run.rules
    if _is_ranging(run) or rules is None or rules.min_query_count is None:
        raise NotJudged
    detail = _detail(run)
    asked = detail.integer("effective_min_query_count")
    if asked is None:
        yield _missing(run, "effective_min_query_count", rules.min_query_count)
    elif asked < rules.min_query_count:
        yield Problem(
            f"min_query_count was set to {asked}, the round asks for at least {rules.min_query_count} "
            f"in {run.scenario}",
            path=run.detail_path, line=detail.line("effective_min_query_count"), found=asked,
            required=rules.min_query_count,
        )  # fmt: skip


def _missing(run: Run, key: str, required: object) -> Problem:
    return Problem(
        f"{run.detail_path} does not state {key}", path=run.detail_path, found=None, required=required,
        fix="use the detail log as LoadGen wrote it",
    )  # fmt: skip


@rule("P105", ERROR, needs="detail")
def query_count_reached(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The run really issued as many queries as it was set to.

    Why: a setting shows what was intended, only the count shows what happened.
    Fix: run again without max_query_count and let the run end by itself.
    Source: inference_rules.adoc, "Scenarios"; LoadGen's result_query_count and result_min_queries_met.
    """
    if _is_ranging(run):
        raise NotJudged
    detail = _detail(run)
    met = detail.boolean("result_min_queries_met")
    if met is False:
        yield Problem(
            "LoadGen says that the minimum number of queries was not reached", path=run.detail_path,
            line=detail.line("result_min_queries_met"), found=False, required=True,
        )  # fmt: skip
    count, asked = detail.integer("result_query_count"), detail.integer("effective_min_query_count")
    if count is None or asked is None:
        return
    per_query = _generated_per_query(detail) or 1
    samples = detail.integer("effective_min_sample_count") or 0
    if run.scenario == "Offline":
        # Offline issues one query that holds all samples.
        if max(count, count * per_query) < min(asked, samples or asked):
            yield _too_few(run, detail, count, asked)
    elif count < asked and met is not True:
        yield _too_few(run, detail, count, asked)


def _too_few(run: Run, detail: DetailLog, count: int, asked: int) -> Problem:
    return Problem(
        f"{count} queries were completed, at least {asked} were set", path=run.detail_path,
        line=detail.line("result_query_count"), found=count, required=asked,
    )  # fmt: skip


def _generated_per_query(detail: DetailLog) -> int | None:
    return detail.integer("generated_samples_per_query")


@rule("P106", ERROR, needs=("detail", "rules"))
def min_duration(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The run was set to last at least the round's minimum duration.

    Why: a short run shows neither thermal limits nor rare slow queries.
    Fix: take min_duration out of user.conf (the official configuration sets it) and run again.
    Source: inference_rules.adoc, "Scenarios": minimum duration.
    """
    rules = run.rules
    if _is_ranging(run) or rules is None:
        raise NotJudged
    detail = _detail(run)
    asked = detail.number("effective_min_duration_ms")
    if asked is None:
        yield _missing(run, "effective_min_duration_ms", rules.min_duration_ms)
    elif not asked >= rules.min_duration_ms:
        yield Problem(
            f"min_duration was set to {asked:g} ms, the round asks for at least {rules.min_duration_ms} ms",
            path=run.detail_path, line=detail.line("effective_min_duration_ms"), found=asked,
            required=rules.min_duration_ms,
        )  # fmt: skip


@rule("P107", ERROR, needs="detail")
def duration_reached(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The run really lasted as long as it was set to.

    Why: a setting shows what was intended, only the clock shows what happened.
    Fix: raise the expected load (target_qps or the latency hint) so that LoadGen generates enough
        queries, and run again.
    Source: inference_rules.adoc, "Scenarios"; LoadGen's result_min_duration_met and power interval.
    """
    if _is_ranging(run):
        raise NotJudged
    detail = _detail(run)
    if detail.boolean("result_min_duration_met") is False:
        yield Problem(
            "LoadGen says that the minimum duration was not reached", path=run.detail_path,
            line=detail.line("result_min_duration_met"), found=False, required=True,
        )  # fmt: skip
    asked = detail.number("effective_min_duration_ms")
    lasted = run.lasted
    if asked is None or lasted is None or not math.isfinite(asked):
        return
    # Server ends when its last query was scheduled; one query's latency and the clock's
    # milliseconds are the room that a run needs.
    slack = 50.0 + 0.002 * asked
    if run.scenario == "Server":
        slack += (detail.number("result_max_latency_ns") or 0) / 1e6 + asked * 0.02
    if lasted * 1000 + slack < asked:
        yield Problem(
            f"the run lasted {lasted:.3f} s, at least {asked / 1000:g} s were set", path=run.detail_path,
            line=detail.line("power_end"), found=lasted, required=asked / 1000,
        )  # fmt: skip


@rule("P108", ERROR, needs=("detail", "result.benchmark"))
def performance_sample_count(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The performance run drew from at least the benchmark's number of loaded samples.

    Why: a small set of samples stays in caches and flatters the measurement.
    Fix: let the QSL report the benchmark's performance sample count and run again.
    Source: inference_rules.adoc, "Benchmarks": QSL size; LoadGen's effective_performance_sample_count.
    """
    benchmark = run.result.benchmark
    required = benchmark.performance_sample_count if benchmark is not None else None
    if _is_ranging(run) or required is None:
        raise NotJudged
    detail = _detail(run)
    found = detail.integer("effective_performance_sample_count")
    if found is None:
        yield _missing(run, "effective_performance_sample_count", required)
    elif found < required:
        yield Problem(
            f"performance_sample_count was {found}, the round asks for at least {required}",
            path=run.detail_path, line=detail.line("effective_performance_sample_count"),
            found=found, required=required,
        )  # fmt: skip


def seed_problems(run: Run, round: Round) -> Iterator[Problem]:
    """Every effective seed of a run that is not the round's."""
    detail = _detail(run)
    for key in _SEEDS:
        required = getattr(round.seeds, key)
        value = detail.integer(f"effective_{key}")
        if value is None:
            yield _missing(run, f"effective_{key}", required)
        elif str(value) != required:
            hint = "; the official configuration was not loaded" if value == 0 else ""
            yield Problem(
                f"{key} is {value}, the round's is {required}{hint}", path=run.detail_path,
                line=detail.line(f"effective_{key}"), found=str(value), required=required,
            )  # fmt: skip


@rule("P109", ERROR, needs="detail")
def seeds(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The performance run used the round's three announced seeds.

    Why: announced seeds fix which samples are issued when, the same for everybody.
    Fix: use the LoadGen release of the round (it holds the seeds) and run again.
    Source: inference_rules.adoc, "LoadGen"; mlperf.conf of the round.
    """
    if _is_ranging(run):
        raise NotJudged
    yield from seed_problems(run, round)


@rule("P110", ERROR)
def scenario_matches(result: Result, round: Round) -> Iterator[Problem]:
    """The log's scenario is the folder's, or one from which the round lets it be inferred.

    Why: a scenario's number means nothing in another scenario's place.
    Fix: put the run into the folder of the scenario that was run, or run the missing scenario.
    Source: inference_rules.adoc, "Scenarios"; the round's inference rules.
    """
    run = result.performance
    if run is None or run.detail is None or not run.detail or result.scope == "run":
        raise NotJudged
    ran = run.scenario
    line = run.detail.line("effective_scenario")
    if ran is None:
        yield _missing(run, "effective_scenario", result.scenario)
        return
    if result.scenario is None:
        # The folder's name is judged by the structure's rules.
        raise NotJudged
    if result.inferred_from is None:
        return
    formula = metrics.inference_for(result)
    if formula is None:
        yield Problem(
            f"the log in folder {result.scenario_folder} is of scenario {ran}, which {round.name} does not "
            f"let stand for {result.scenario}",
            path=run.detail_path, line=line, found=ran, required=result.loadgen_scenario,
        )  # fmt: skip
        return
    category = result.category
    if formula.categories and category is not None:
        parts = category.split(",")
        if not any(part in formula.categories for part in parts):
            yield Problem(
                f"{result.scenario} is inferred from {ran}, which {round.name} allows only for "
                f"{' and '.join(formula.categories)} systems; this system is {category}",
                path=run.detail_path, line=line, found=category, required=formula.categories,
            )  # fmt: skip


@rule("P111", ERROR, needs="detail")
def performance_mode(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The performance run was made in performance mode.

    Why: accuracy mode measures nothing that may be published as performance.
    Fix: run LoadGen with TestMode.PerformanceOnly (or SubmissionRun) for performance/run_1.
    Source: inference_rules.adoc, "LoadGen": modes of operation.
    """
    detail = _detail(run)
    mode = run.mode
    if mode not in ("PerformanceOnly", "SubmissionRun"):
        yield Problem(
            f"the test mode is {mode}, PerformanceOnly was asked for", path=run.detail_path,
            line=detail.line("effective_test_mode"), found=mode, required="PerformanceOnly",
        )  # fmt: skip


@rule("P112", ERROR, needs=("detail", "rules"))
def offline_min_samples(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The Offline query holds at least the benchmark's minimum number of samples.

    Why: Offline is one query; with few samples its throughput is dominated by start and end.
    Fix: raise min_query_count (or the expected target_qps) so that the query holds that many samples.
    Source: inference_rules.adoc, "Scenarios": 24,576 samples, or the data set where it is smaller.
    """
    rules = run.rules
    if (
        _is_ranging(run)
        or rules is None
        or run.scenario != "Offline"
        or rules.min_samples_per_query is None
    ):
        raise NotJudged
    if round.offline_minimum_divisions and run.division not in round.offline_minimum_divisions:
        raise NotJudged
    detail = _detail(run)
    found = detail.integer("effective_samples_per_query")
    if found is None:
        yield _missing(run, "effective_samples_per_query", rules.min_samples_per_query)
    elif found < rules.min_samples_per_query:
        yield Problem(
            f"the Offline query holds {found} samples, the round asks for at least {rules.min_samples_per_query}",
            path=run.detail_path, line=detail.line("effective_samples_per_query"), found=found,
            required=rules.min_samples_per_query,
        )  # fmt: skip


@rule("P113", ERROR, needs=("detail", "rules"))
def samples_per_query(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """A query holds the number of samples that the scenario fixes (MultiStream: 8).

    Why: the MultiStream latency is that of a query of eight samples.
    Fix: take samples_per_query out of user.conf and run again.
    Source: inference_rules.adoc, "Scenarios": MultiStream.
    """
    rules = run.rules
    if _is_ranging(run) or rules is None or rules.samples_per_query is None:
        raise NotJudged
    detail = _detail(run)
    found = detail.integer("effective_samples_per_query")
    if found != rules.samples_per_query:
        yield Problem(
            f"a query holds {found} samples, {run.scenario} asks for {rules.samples_per_query}",
            path=run.detail_path, line=detail.line("effective_samples_per_query"), found=found,
            required=rules.samples_per_query,
        )  # fmt: skip


@rule("P114", ERROR, needs=("detail", "rules"))
def early_stopping(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """LoadGen's early-stopping criterion was met.

    Why: it is what stands in for a fixed number of queries: the tail is known at 99 % confidence.
    Fix: run longer, or lower the load so that fewer queries miss the latency bound.
    Source: inference_rules.adoc, "Early stopping".
    """
    rules = run.rules
    if _is_ranging(run) or rules is None or not rules.early_stopping:
        raise NotJudged
    detail = _detail(run)
    met = detail.boolean("early_stopping_met")
    if met is None:
        yield _missing(run, "early_stopping_met", True)
    elif not met:
        said = detail.text("early_stopping_result") or ""
        yield Problem(
            "early stopping was not met" + (f": {' '.join(said.split())[:300]}" if said else ""),
            path=run.detail_path, line=detail.line("early_stopping_met"), found=False, required=True,
        )  # fmt: skip


@rule("P115", ERROR, needs=("detail", "rules"))
def early_stopping_minimum(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The run processed the fewest queries from which early stopping can estimate its percentile.

    Why: below 64 (90th percentile) or 662 queries (99th) there is no estimate at 99 % confidence.
    Fix: run longer.
    Source: inference_rules.adoc, "Early stopping": the table of query counts.
    """
    rules = run.rules
    estimated = _EARLY_STOPPING.get(run.scenario or "")
    if _is_ranging(run) or rules is None or not rules.early_stopping or estimated is None:
        raise NotJudged
    if rules.percentile is not None and run.scenario == "SingleStream" and rules.percentile > 0.9:
        raise NotJudged
    detail = _detail(run)
    count = detail.integer("result_query_count")
    if count is None:
        raise NotJudged
    needed = minimum_queries(estimated)
    if count < needed:
        yield Problem(
            f"{count} queries were processed, {run.scenario} needs at least {needed} for early stopping",
            path=run.detail_path, line=detail.line("result_query_count"), found=count, required=needed,
        )  # fmt: skip


@rule("P116", ERROR, needs=("detail", "rules"))
def target_latency_setting(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The latency bound that LoadGen was given is not above the round's.

    Why: a run judged against a looser bound is a run of another benchmark.
    Fix: take target_latency out of user.conf (the official configuration sets it) and run again.
    Source: inference_rules.adoc, "Benchmarks": server latency constraint.
    """
    rules = run.rules
    if (
        _is_ranging(run)
        or rules is None
        or rules.target_latency_ns is None
        or run.scenario != "Server"
    ):
        raise NotJudged
    detail = _detail(run)
    found = detail.number("effective_target_latency_ns")
    if found is None:
        yield _missing(run, "effective_target_latency_ns", rules.target_latency_ns)
    elif not found <= rules.target_latency_ns:
        yield Problem(
            f"target_latency was set to {found / 1e6:g} ms, the round allows at most "
            f"{rules.target_latency_ns / 1e6:g} ms",
            path=run.detail_path, line=detail.line("effective_target_latency_ns"), found=found,
            required=rules.target_latency_ns,
        )  # fmt: skip


@rule("P117", ERROR, needs=("detail", "rules"))
def latency_within_limit(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The measured tail latency is within the round's bound.

    Why: the Server result is the load at which the tail stays below the bound.
    Fix: lower target_qps and run again.
    Source: inference_rules.adoc, "Benchmarks": server latency constraint at the 99th percentile.
    """
    rules = run.rules
    if _is_ranging(run) or rules is None or not rules.target_latency_ns or run.scenario != "Server":
        raise NotJudged
    if rules.token_latencies:
        raise NotJudged
    detail = _detail(run)
    percent = (rules.percentile or 0.99) * 100
    key = f"result_{percent:.2f}_percentile_latency_ns"
    found = detail.number(key)
    if found is None:
        yield _missing(run, key, rules.target_latency_ns)
    elif not found <= rules.target_latency_ns:
        yield Problem(
            f"the {percent:g}th percentile latency is {found / 1e6:.6g} ms, the round allows at most "
            f"{rules.target_latency_ns / 1e6:g} ms",
            path=run.detail_path, line=detail.line(key), found=found, required=rules.target_latency_ns,
        )  # fmt: skip


@rule("P118", ERROR, needs=("detail", "rules"))
def token_latencies(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """Token latencies were recorded, as the benchmark asks.

    Why: time to first token and time per output token are the benchmark's latency bounds.
    Fix: use the round's LoadGen with the benchmark's own name so that use_token_latencies is set.
    Source: mlperf.conf of the round: use_token_latencies.
    """
    rules = run.rules
    if _is_ranging(run) or rules is None or not rules.token_latencies:
        raise NotJudged
    detail = _detail(run)
    if detail.boolean("requested_use_token_latencies") is not True:
        yield Problem(
            f"use_token_latencies is {detail.get('requested_use_token_latencies')}, the benchmark asks for true",
            path=run.detail_path, line=detail.line("requested_use_token_latencies"),
            found=detail.get("requested_use_token_latencies"), required=True,
        )  # fmt: skip


def _token_limit(
    run: PerformanceRun, limit_ms: float | None, setting: str, measured: str, what: str
) -> Iterator[Problem]:
    if _is_ranging(run) or limit_ms is None or run.scenario != "Server":
        raise NotJudged
    detail = _detail(run)
    asked = detail.number(setting)
    folder = run.result.scenario
    if asked is not None and not asked <= limit_ms * 1e6:
        yield Problem(
            f"the {what} bound was set to {asked / 1e6:g} ms, {folder} allows at most {limit_ms:g} ms",
            path=run.detail_path, line=detail.line(setting), found=asked, required=limit_ms * 1e6,
            fix="use the round's LoadGen with the benchmark's own name (for Interactive the name ends "
            "in -interactive) and run again",
        )  # fmt: skip
    value = detail.number(measured)
    if value is None:
        yield _missing(run, measured, limit_ms * 1e6)
    elif not value <= limit_ms * 1e6:
        yield Problem(
            f"the 99th percentile {what} is {value / 1e6:.6g} ms, {folder} allows at most {limit_ms:g} ms",
            path=run.detail_path, line=detail.line(measured), found=value, required=limit_ms * 1e6,
        )  # fmt: skip


@rule("P119", ERROR, needs=("detail", "rules"))
def time_to_first_token(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """Time to first token, as set and as measured, is within the limit of the folder's scenario.

    Why: Interactive results are held to tighter limits than Server results; LoadGen calls both Server.
    Fix: lower target_qps and run again.
    Source: inference_rules.adoc, "Benchmarks": TTFT at the 99th percentile.
    """
    rules = run.rules
    yield from _token_limit(
        run, rules.ttft_ms if rules else None, "requested_server_ttft_latency",
        "result_first_token_99.00_percentile_latency_ns", "time to first token",
    )  # fmt: skip


@rule("P120", ERROR, needs=("detail", "rules"))
def time_per_output_token(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """Time per output token, as set and as measured, is within the limit of the folder's scenario.

    Why: Interactive results are held to tighter limits than Server results; LoadGen calls both Server.
    Fix: lower target_qps and run again.
    Source: inference_rules.adoc, "Benchmarks": TPOT at the 99th percentile.
    """
    rules = run.rules
    yield from _token_limit(
        run, rules.tpot_ms if rules else None, "requested_server_tpot_latency",
        "result_time_per_output_token_99.00_percentile_ns", "time per output token",
    )  # fmt: skip


@rule("P121", ERROR, needs=("detail", "rules"))
def equal_issue(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """Samples of unequal cost were issued equally often.

    Why: with random choice a run can draw more of the cheap samples than another.
    Fix: use the round's LoadGen with the benchmark's own name so that sample_concatenate_permutation
        is set; user.conf cannot set it.
    Source: inference_rules.adoc, "Scenarios"; mlperf.conf: sample_concatenate_permutation.
    """
    rules = run.rules
    if _is_ranging(run) or rules is None or not rules.equal_issue:
        raise NotJudged
    detail = _detail(run)
    found = detail.boolean("effective_sample_concatenate_permutation")
    if found is not True:
        yield Problem(
            f"sample_concatenate_permutation is {found}, the benchmark asks for true", path=run.detail_path,
            line=detail.line("effective_sample_concatenate_permutation"), found=found, required=True,
        )  # fmt: skip


@rule("P122", ERROR)
def metric_sound(result: Result, round: Round) -> Iterator[Problem]:
    """The published number is there, finite and greater than zero.

    Why: a result without a number, or with NaN, infinity, zero or less, is no measurement.
    Fix: run again; use the detail log as LoadGen wrote it.
    Source: inference_rules.adoc, "Scenarios": metric of each scenario.
    """
    run = result.performance
    if result.endpoints is None and (run is None or run.detail is None or not run.detail):
        raise NotJudged
    if metrics.scenario_rules(result, result.scenario) is None:
        raise NotJudged
    path = run.detail_path if run is not None else f"{result.path}/performance/result_summary.json"
    metric = metrics.metric_of(result)
    if metric is None:
        rules = metrics.scenario_rules(result, result.scenario)
        key = rules.metric.key if rules else None
        yield Problem(f"{path} holds no number for the result ({key})", path=path, required=key)
        return
    line = run.detail.line(metric.name) if run is not None and run.detail is not None else None
    if not math.isfinite(metric.value) or metric.value <= 0:
        yield Problem(
            f"the result {metric.name} is {metric.value:g} {metric.unit}; a finite number above 0 was asked for",
            path=path, line=line, found=metric.value, required="> 0",
        )  # fmt: skip


_SINGLE = ("result_", "effective_", "requested_", "early_stopping_latency", "early_stopping_met")


@rule("P123", ERROR, needs="detail")
def no_contradicting_records(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """No setting or result is recorded twice with different values.

    Why: LoadGen writes each once; a second one means that the log was edited or joined.
    Fix: use the detail log of one run as LoadGen wrote it.
    Source: LoadGen's log: one record for each setting and result.
    """
    detail = _detail(run)
    for key, entries in detail.entries.items():
        if len(entries) < 2 or not key.startswith(_SINGLE):
            continue
        first = entries[0].value
        for entry in entries[1:]:
            if entry.value != first and not (entry.value != entry.value and first != first):
                yield Problem(
                    f"{key} is recorded with {first!r} on line {entries[0].line} and with {entry.value!r} "
                    f"on line {entry.line}",
                    path=run.detail_path, line=entry.line, found=[first, entry.value],
                    required="one value",
                )  # fmt: skip
                break


@rule("P124", ERROR, needs="detail")
def no_audit_settings(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The submitted run was not made with a compliance test's settings.

    Why: audit settings change which samples are issued (issue_same) or what is logged.
    Fix: remove audit.config from the working directory and run again.
    Source: compliance tests: audit.config overrides; inference_rules.adoc, "Audit".
    """
    if _is_ranging(run):
        raise NotJudged
    detail = _detail(run)
    for key in ("effective_performance_issue_same", "effective_performance_issue_unique"):
        if detail.boolean(key):
            yield Problem(
                f"{key} is true in the submitted run", path=run.detail_path, line=detail.line(key),
                found=True, required=False,
            )  # fmt: skip
    for key in ("effective_accuracy_log_sampling_target", "effective_accuracy_log_probability"):
        value = detail.number(key)
        if value:
            yield Problem(
                f"{key} is {value:g} in the submitted run, 0 was asked for", path=run.detail_path,
                line=detail.line(key), found=value, required=0,
                severity=WARNING if key.endswith("probability") else None,
            )  # fmt: skip


@rule("P125", ERROR, needs=("detail", "rules"))
def target_percentile(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The run was judged at the scenario's tail percentile.

    Why: a lower percentile hides the slow queries.
    Fix: take target_latency_percentile out of user.conf and run again.
    Source: inference_rules.adoc, "Scenarios": tail latency percentile.
    """
    rules = run.rules
    if _is_ranging(run) or rules is None or rules.percentile is None or run.scenario == "Offline":
        raise NotJudged
    detail = _detail(run)
    found = detail.number("effective_target_latency_percentile")
    if found is None:
        raise NotJudged
    if found < rules.percentile - 1e-6:
        yield Problem(
            f"the latency percentile is {found:g}, {run.scenario} asks for {rules.percentile:g}",
            path=run.detail_path, line=detail.line("effective_target_latency_percentile"),
            found=found, required=rules.percentile,
        )  # fmt: skip


@rule("P126", WARNING, needs="detail")
def not_ended_early(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """No upper bound on queries or time ended the run.

    Why: max_query_count and max_duration can end a run before its minimum is reached.
    Fix: take max_query_count and max_duration out of user.conf and run again.
    Source: LoadGen's test settings: max_query_count, max_duration.
    """
    if _is_ranging(run):
        raise NotJudged
    detail = _detail(run)
    for key in ("effective_max_query_count", "effective_max_duration_ms"):
        value = detail.number(key)
        if value:
            yield Problem(
                f"{key} is {value:g} in the submitted run, 0 (no bound) was asked for",
                path=run.detail_path, line=detail.line(key), found=value, required=0,
            )  # fmt: skip


@rule("P127", WARNING, needs=("detail", "result.benchmark"))
def whole_dataset_in_qsl(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The performance run's sample library is the whole data set.

    Why: LoadGen draws from what the library reports; a part of the data set may be easier.
    Fix: let the QSL report the data set's size.
    Source: inference_rules.adoc, "Benchmarks"; LoadGen's qsl_reported_total_count.
    """
    benchmark = run.result.benchmark
    if _is_ranging(run) or benchmark is None or benchmark.dataset.size is None:
        raise NotJudged
    detail = _detail(run)
    found = detail.integer("qsl_reported_total_count")
    accepted = {benchmark.dataset.size, benchmark.dataset.accuracy_sample_count}
    accepted |= set(benchmark.dataset.accuracy_sample_count_by_scenario.values())
    accepted.add(benchmark.performance_sample_count)
    if found is not None and found not in accepted:
        yield Problem(
            f"the sample library reports {found} samples, the data set has {benchmark.dataset.size}",
            path=run.detail_path, line=detail.line("qsl_reported_total_count"), found=found,
            required=benchmark.dataset.size,
        )  # fmt: skip


@rule("P128", WARNING, needs="loadgen_version")
def loadgen_version(run: PerformanceRun | AccuracyRun, round: Round) -> Iterator[Problem]:
    """LoadGen's version belongs to the round.

    Why: rounds change seeds, metrics and checks inside LoadGen.
    Fix: build or install the LoadGen release of the round and run again.
    Source: inference_rules.adoc, "LoadGen": an unaltered, approved revision.
    """
    if not round.loadgen.versions:
        raise NotJudged
    version = run.loadgen_version or ""
    short = ".".join(version.split(".")[:2])
    # LoadGen 0.5 prints itself as ".5a1".
    if not any(
        known in (short, version) or f"0{known}" == version for known in round.loadgen.versions
    ):
        detail = _detail(run)
        yield Problem(
            f"LoadGen is {version}, {round.name} was run with {', '.join(round.loadgen.versions)}",
            path=run.detail_path, line=detail.line("loadgen_version"), found=version,
            required=round.loadgen.versions,
        )  # fmt: skip


@rule("P129", WARNING, needs="detail")
def loadgen_unmodified(run: PerformanceRun | AccuracyRun, round: Round) -> Iterator[Problem]:
    """LoadGen was built without uncommitted changes.

    Why: LoadGen must be used unaltered; a changed working copy may be a changed LoadGen.
    Fix: build LoadGen from a clean checkout of the round's release.
    Source: inference_rules.adoc, "LoadGen"; LoadGen's own error record.
    """
    detail = _detail(run)
    for entry in detail.errors:
        if UNCOMMITTED in str(entry.value) or entry.key == "error_uncommitted_loadgen_changes":
            yield Problem(
                "LoadGen was built with uncommitted changes", path=run.detail_path, line=entry.line,
                found=str(entry.value)[:300], required="a clean checkout",
            )  # fmt: skip
            return


@rule("P130", ERROR)
def summary_present(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The performance run's summary log is there.

    Why: it is one of the two required logs and what reviewers read.
    Fix: put LoadGen's mlperf_log_summary.txt beside mlperf_log_detail.txt.
    Source: submission_rules.adoc, "Directory structure": performance/run_1.
    """
    if run.summary is None:
        yield Problem(f"{run.path} has no mlperf_log_summary.txt", path=run.summary_path)


@rule("P131", ERROR, needs=("detail", "summary"))
def summary_agrees(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The summary log and the detail log state the same.

    Why: LoadGen writes both from the same numbers; a difference means one is edited or of another run.
    Fix: put the two logs of one and the same run into the folder.
    Source: LoadGen's log_summary and log_detail; the summary rounds to two decimals.
    """
    detail = _detail(run)
    summary = run.summary
    if summary is None or detail.format == "text" or _is_ranging(run):
        raise NotJudged
    metric = metrics.metric_of(run.result)
    for key, (value, line) in summary.values.items():
        logged = detail.get(key)
        if logged is None or same_value(logged, value):
            continue
        decisive = key == "result_validity" or (metric is not None and key == metric.name)
        yield Problem(
            f"{key} is {value} in the summary and {logged} in the detail log (line {detail.line(key)})",
            path=run.summary_path, line=line, found=value, required=logged,
            severity=None if decisive else WARNING,
        )  # fmt: skip


def same_value(logged: object, printed: object) -> bool:
    """Whether a summary's printed value is the detail log's: numbers within print rounding."""
    if isinstance(logged, bool) or isinstance(printed, bool):
        return _truth(logged) == _truth(printed)
    if isinstance(logged, int | float) and isinstance(printed, int | float):
        a, b = float(logged), float(printed)
        if a != a or b != b:
            return a != a and b != b
        return a == b or abs(a - b) <= max(0.0051, 2e-5 * abs(a))
    return str(logged).strip() == str(printed).strip()


def _truth(value: object) -> object:
    if isinstance(value, str):
        return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(
            value.strip().lower(), value
        )
    return bool(value) if isinstance(value, int | float) else value


def _near(a: float, b: float, relative: float = _REL) -> bool:
    return abs(a - b) <= relative * max(abs(a), abs(b))


@rule("P132", ERROR, needs="detail")
def metric_arithmetic(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The published number follows from the run's own counts and times.

    Why: LoadGen computes it from them; where they disagree, one of them was changed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: samples / longest latency (Offline), 1e9 / mean latency (SingleStream),
        scheduled queries / schedule length (Server).
    """
    if _is_ranging(run):
        raise NotJudged
    detail = _detail(run)
    if detail.format == "text":
        raise NotJudged
    if run.scenario == "Offline":
        yield from _offline_arithmetic(run, detail)
    elif run.scenario == "SingleStream":
        yield from _single_stream_arithmetic(run, detail)
    elif run.scenario == "Server":
        yield from _server_arithmetic(run, detail)
    elif run.scenario == "MultiStream":
        yield from _estimate_arithmetic(
            run, detail, "early_stopping_latency_ms", "result_{}_percentile_per_query_latency_ns",
            "result_max_query_latency_ns",
        )  # fmt: skip


def _disagree(run: Run, key: str, stated: float, computed: float, formula: str) -> Problem:
    detail = run.detail
    return Problem(
        f"{key} is {stated:g}, but {formula} gives {computed:.6g}", path=run.detail_path,
        line=detail.line(key) if detail is not None else None, found=stated, required=computed,
    )  # fmt: skip


def _offline_arithmetic(run: Run, detail: DetailLog) -> Iterator[Problem]:
    rate = detail.number("result_samples_per_second")
    longest = detail.number("result_max_latency_ns")
    per_query = _generated_per_query(detail)
    if rate is None or not longest or per_query is None:
        return
    # Offline is one query. LoadGen before 5.0 logs its samples before they are padded to a
    # multiple of the loaded set, and some versions log the samples as queries too.
    samples = per_query
    candidates = {samples}
    loaded = detail.length("loaded_qsl_set")
    if loaded:
        candidates.add(math.ceil(samples / loaded) * loaded)
    counted = detail.integer("result_query_count")
    if counted is not None and counted != 1:
        yield _disagree(run, "result_query_count", counted, 1, "Offline, which issues one query,")
    computed = [n * 1e9 / longest for n in candidates]
    if not any(_near(rate, value) for value in computed):
        yield _disagree(run, "result_samples_per_second", rate, samples * 1e9 / longest,
                        f"{samples} samples / longest latency {longest / 1e9:g} s")  # fmt: skip


def _single_stream_arithmetic(run: Run, detail: DetailLog) -> Iterator[Problem]:
    mean = detail.number("result_mean_latency_ns")
    rate = detail.number("result_qps_without_loadgen_overhead")
    if mean and rate and not _near(rate, 1e9 / mean):
        yield _disagree(
            run, "result_qps_without_loadgen_overhead", rate, 1e9 / mean, "1e9 / mean latency"
        )
    if detail.boolean("requested_use_token_latencies"):
        # With token latencies LoadGen's SingleStream estimate is one of time to first token.
        template, highest = (
            "result_first_token_{}_percentile_latency_ns",
            "result_first_token_max_latency_ns",
        )
    else:
        template, highest = "result_{}_percentile_latency_ns", "result_max_latency_ns"
    yield from _estimate_arithmetic(run, detail, "early_stopping_latency_ss", template, highest)


def _estimate_arithmetic(
    run: Run, detail: DetailLog, key: str, template: str, highest: str
) -> Iterator[Problem]:
    """An early-stopping estimate is one of the measured latencies at or above its percentile."""
    estimate = detail.number(key)
    percent = (detail.number("effective_target_latency_percentile") or 0) * 100
    low = detail.number(template.format(f"{percent:.2f}"))
    high = detail.number(highest)
    if estimate is None or not 0 < estimate < math.inf or low is None or high is None:
        return
    if not low * (1 - 1e-9) <= estimate <= high * (1 + 1e-9):
        yield _disagree(run, key, estimate, low,
                        f"a latency between the {percent:g}th percentile and the longest ({high:g} ns), at least")  # fmt: skip


def _server_arithmetic(run: Run, detail: DetailLog) -> Iterator[Problem]:
    count = detail.integer("result_query_count")
    generated = detail.integer("generated_query_count")
    length = detail.number("generated_query_duration")
    scheduled = detail.number("result_scheduled_samples_per_sec")
    completed = detail.number("result_completed_samples_per_sec")
    longest = detail.number("result_max_latency_ns")
    if count is None or count < 2:
        return
    if generated is not None and count != generated and detail.boolean("result_min_queries_met"):
        yield _disagree(
            run, "result_query_count", count, generated, "the number of queries generated"
        )
    if scheduled:
        span = (count - 1) / scheduled
        if length and span > length / 1e9 * (1 + _REL) + 1e-6:
            yield _disagree(run, "result_scheduled_samples_per_sec", scheduled, (count - 1) * 1e9 / length,
                            "queries / length of the schedule")  # fmt: skip
        if length and span < length / 1e9 * 0.9 and count > 2000:
            yield _disagree(run, "result_scheduled_samples_per_sec", scheduled, (count - 1) * 1e9 / length,
                            "queries / length of the schedule")  # fmt: skip
        if completed:
            if completed > scheduled * (1 + _REL):
                yield _disagree(run, "result_completed_samples_per_sec", completed, scheduled,
                                "the scheduled rate, which no run can exceed,")  # fmt: skip
            elif (
                longest is not None
                and (count - 1) / completed > (span + longest / 1e9) * (1 + _REL) + 1e-3
            ):
                yield _disagree(run, "result_completed_samples_per_sec", completed,
                                (count - 1) / (span + longest / 1e9),
                                "queries / (schedule + longest latency)")  # fmt: skip
    tokens = detail.number("result_completed_tokens_per_second")
    throughput = detail.number("result_token_throughput")
    mean = detail.number("result_mean_latency_ns")
    if tokens and completed and throughput and mean:
        total = tokens * (count - 1) / completed
        if not _near(throughput, total / (mean * count), 5e-5):
            yield _disagree(run, "result_completed_tokens_per_second", tokens,
                            throughput * mean * count * completed / (count - 1),
                            "token throughput, mean latency and completed queries")  # fmt: skip


@rule("P133", ERROR, needs="detail")
def percentiles_ordered(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """Latency percentiles rise: minimum, 50th, 90th, …, 99.9th, maximum.

    Why: percentiles of one set of latencies cannot fall.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc.
    """
    detail = _detail(run)
    families = (
        ("result_min_latency_ns", "result_{}_percentile_latency_ns", "result_max_latency_ns"),
        (
            "result_min_query_latency_ns",
            "result_{}_percentile_per_query_latency_ns",
            "result_max_query_latency_ns",
        ),
        (
            "result_first_token_min_latency_ns",
            "result_first_token_{}_percentile_latency_ns",
            "result_first_token_max_latency_ns",
        ),
        (
            "result_time_to_output_token_min",
            "result_time_per_output_token_{}_percentile_ns",
            "result_time_to_output_token_max",
        ),
    )
    for low, template, high in families:
        keys = [
            low,
            *(template.format(p) for p in ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")),
            high,
        ]
        last: tuple[str, float] | None = None
        for key in keys:
            value = detail.number(key)
            if value is None or not math.isfinite(value):
                continue
            if last is not None and value < last[1]:
                yield Problem(
                    f"{key} is {value:g} ns, less than {last[0]} ({last[1]:g} ns)", path=run.detail_path,
                    line=detail.line(key), found=value, required=f">= {last[1]:g}",
                )  # fmt: skip
                break
            last = (key, value)


@rule("P134", ERROR, needs="detail")
def validity_follows(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """VALID or INVALID follows from the conditions that LoadGen recorded.

    Why: LoadGen computes the verdict from them; where they disagree, one of them was changed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: a run is valid when duration, query count, early stopping and (Server)
        the latency constraint are met.
    """
    detail = _detail(run)
    validity = detail.text("result_validity")
    if validity is None or detail.format == "text" or _is_ranging(run):
        raise NotJudged
    keys = ["result_min_duration_met", "result_min_queries_met", "early_stopping_met"]
    if run.scenario == "Server":
        keys.append("result_perf_constraints_met")
    flags = {key: detail.boolean(key) for key in keys if key in detail}
    if not flags or None in flags.values():
        raise NotJudged
    expected = "VALID" if all(flags.values()) else "INVALID"
    if validity in ("VALID", "INVALID") and validity != expected:
        wrong = [key for key, value in flags.items() if not value]
        yield Problem(
            f"the run is recorded as {validity}, but "
            + (f"{', '.join(wrong)} is false" if wrong else "every condition is recorded as met"),
            path=run.detail_path, line=detail.line("result_validity"), found=validity, required=expected,
        )  # fmt: skip


@rule("P135", WARNING, needs="detail")
def error_count_agrees(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The number of errors that LoadGen states is the number of error records.

    Why: LoadGen counts what it wrote; a difference means that records were added or removed.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen (from 5.0): num_errors.
    """
    detail = _detail(run)
    stated = detail.integer("num_errors")
    if stated is None:
        raise NotJudged
    if stated != detail.error_count:
        yield Problem(
            f"num_errors is {stated}, the log holds {detail.error_count} error records",
            path=run.detail_path, line=detail.line("num_errors"), found=detail.error_count, required=stated,
        )  # fmt: skip


@rule("P136", ERROR, needs="detail")
def seeds_as_requested(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """The effective seeds are those that were requested.

    Why: LoadGen copies one to the other; a difference means that the log was edited.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen test_settings_internal.cc.
    """
    detail = _detail(run)
    if detail.format == "text":
        raise NotJudged
    for key in _SEEDS:
        asked, used = detail.integer(f"requested_{key}"), detail.integer(f"effective_{key}")
        if asked is not None and used is not None and asked != used:
            yield Problem(
                f"requested_{key} is {asked}, effective_{key} is {used}", path=run.detail_path,
                line=detail.line(f"effective_{key}"), found=str(used), required=str(asked),
            )  # fmt: skip


@rule("P137", ERROR)
def run_count(result: Result, round: Round) -> Iterator[Problem]:
    """The folder holds as many runs as the scenario asks for.

    Why: v0.5 and v0.7 asked for five Server runs; later rounds for one.
    Fix: add the missing run_N folders.
    Source: inference_rules.adoc of the round, "Scenarios": number of runs.
    """
    rules = result.rules
    if rules is None or result.endpoints is not None or not result.runs or result.scope == "run":
        raise NotJudged
    # Only a folder spelled exactly as the scenario was held to five runs.
    wanted = rules.runs if result.scenario_folder == result.scenario else 1
    if len(result.runs) < wanted:
        yield Problem(
            f"{len(result.runs)} performance runs were found, {result.scenario} asks for {wanted}",
            path=f"{result.path}/performance", found=len(result.runs), required=wanted,
        )  # fmt: skip
    elif result.runs[0].index != 1:
        yield Problem(
            f"the performance run is in {result.runs[0].path.rsplit('/', 1)[-1]}, run_1 was asked for",
            path=result.runs[0].path, found=result.runs[0].index, required=1,
        )  # fmt: skip


@rule("P138", WARNING)
def no_extra_runs(result: Result, round: Round) -> Iterator[Problem]:
    """No further run lies beside the ones the scenario asks for.

    Why: only the asked-for runs count; others let a reader wonder which one was meant.
    Fix: remove the run folders that are not part of the submission.
    Source: submission_rules.adoc, "Directory structure": performance/run_1.
    """
    for path in result.extra_runs:
        yield Problem(f"{path} is not one of the asked-for runs and was not judged", path=path)


@rule("P139", WARNING, needs="detail")
def same_setup(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """The accuracy run was made with the performance run's system, scenario and LoadGen.

    Why: the accuracy must be that of the system whose performance is published.
    Fix: make both runs with the same build and configuration.
    Source: inference_rules.adoc, "Scenarios": the same code in both modes.
    """
    other = run.result.performance
    detail = _detail(run)
    if other is None or other.detail is None or not other.detail:
        raise NotJudged
    for key in ("effective_scenario", "qsl_name", "requested_use_token_latencies"):
        mine, theirs = detail.get(key), other.detail.get(key)
        if mine is not None and theirs is not None and mine != theirs:
            yield Problem(
                f"{key} is {mine!r} in the accuracy run and {theirs!r} in the performance run",
                path=run.detail_path, line=detail.line(key), found=mine, required=theirs,
            )  # fmt: skip


@rule("P140", NOTE, needs="loadgen_version")
def same_loadgen(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """The accuracy run was made with the performance run's LoadGen version.

    Why: both runs should come from one build; another version is worth a look.
    Fix: make both runs with one LoadGen.
    Source: inference_rules.adoc, "LoadGen".
    """
    other = run.result.performance
    if other is None or other.loadgen_version is None:
        raise NotJudged
    if other.loadgen_version != run.loadgen_version:
        yield Problem(
            f"LoadGen is {run.loadgen_version} in the accuracy run and {other.loadgen_version} in the performance run",
            path=run.detail_path, line=run.detail.line("loadgen_version") if run.detail else None,
            found=run.loadgen_version, required=other.loadgen_version,
        )  # fmt: skip


@rule("P141", ERROR)
def performance_files(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """Beside its two logs the run's folder holds every further file that the round asks for.

    Why: v0.5 asked for the accuracy log of the performance run too, and power runs for spl.txt.
    Fix: put the file that LoadGen or the power client wrote into the run's folder.
    Source: submission_rules.adoc of the round, "Directory structure".
    """
    folder = run.folder
    if folder is None or run.result.scope == "run":
        raise NotJudged
    wanted = (
        round.layout.power_run if run.result.power_folder is not None else round.layout.performance
    )
    logs = {"mlperf_log_detail.txt", "mlperf_log_summary.txt"}
    for name in wanted.required:
        if name not in folder.files and name not in logs:
            yield Problem(f"{run.path} has no {name}", path=f"{run.path}/{name}", required=name)


@rule("P142", ERROR, needs="detail")
def offline_interval(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """Offline's longest latency is the time between LoadGen's power_begin and power_end.

    Why: Offline is one query, so the two are one time, taken by two clocks.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen loadgen.cc and results.cc; they agree within milliseconds in published logs.
    """
    detail = _detail(run)
    longest = detail.number("result_max_latency_ns")
    lasted = run.lasted
    if _is_ranging(run) or run.scenario != "Offline" or detail.format == "text":
        raise NotJudged
    if not longest or lasted is None:
        raise NotJudged
    if abs(lasted * 1e9 - longest) > 20e6 + 5e-5 * longest:
        yield _disagree(
            run, "result_max_latency_ns", longest, lasted * 1e9,
            "the time between power_begin and power_end, which is Offline's one query,",
        )  # fmt: skip


@rule("P147", ERROR, needs="summary", cases={"compliance": ERROR})
def summary_whole(
    run: PerformanceRun | AccuracyRun | ComplianceRun, round: Round
) -> Iterator[Problem]:
    """The summary log is whole: it ends with LoadGen's count of errors.

    Why: a summary that ends before is cut off, and with it what LoadGen had to say of the run.
    Fix: use the summary log as LoadGen wrote it.
    Source: LoadGen logging.cc: every run ends with its counts of warnings and errors.
    """
    summary = run.summary
    if summary is None or summary.errors is not None or summary.faults:
        raise NotJudged
    yield Problem(
        f"{run.summary_path} ends before LoadGen's count of errors: it is cut off",
        path=run.summary_path, line=summary.lines, required="No errors encountered during test.",
        case="compliance" if isinstance(run, ComplianceRun) else None,
    )  # fmt: skip


@rule("P143", WARNING)
def performance_accuracy_log_small(run: PerformanceRun, round: Round) -> Iterator[Problem]:
    """An accuracy log beside the performance run is not larger than what the round publishes.

    Why: a performance run logs no answers, or the few that a test samples.
    Fix: remove mlperf_log_accuracy.json from performance/run_1, or run `assay truncate`.
    Source: submission_rules.adoc, "Truncation of accuracy logs".
    """
    limit = round.accuracy_log.max_bytes
    file = run.folder.files.get("mlperf_log_accuracy.json") if run.folder is not None else None
    if limit is None or file is None:
        raise NotJudged
    if file.size > limit:
        yield Problem(
            f"{file.path} is {file.size} bytes, at most {limit} bytes are published", path=file.path,
            found=file.size, required=limit,
        )  # fmt: skip


@rule("P149", ERROR)
def log_of_one_system(log: LogPrint, round: Round) -> Iterator[Problem]:
    """A performance log belongs to one system.

    Why: a measurement of one system says nothing of another.
    Fix: put the log of each system's own run into its folder.
    Source: submission_rules.adoc: results are those of the system that is described.
    """
    if log.twins:
        yield Problem(
            f"the same log lies in {', '.join(log.twins[:3])}", path=log.path,
            found=list(log.twins[:10]), required="a log of this system's own",
        )  # fmt: skip
