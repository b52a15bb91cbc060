"""The names under which LoadGen's detail log records settings and results.

Times are in ns, but for the ``_ms`` settings. Source: LoadGen ``logging.cc``, ``results.cc``,
``test_settings_internal.cc`` and real logs of every round.
"""

from __future__ import annotations

import functools

import msgspec

LOADGEN_VERSION = "loadgen_version"
LOADGEN_BUILD_DATE = "loadgen_build_date_utc"
LOADGEN_COMMIT_DATE = "loadgen_git_commit_date"
TEST_DATETIME = "test_datetime"
SUT_NAME = "sut_name"
SUT_NAME_TIME = "get_sut_name_duration_ns"
QSL_NAME = "qsl_name"
QSL_TOTAL_COUNT = "qsl_reported_total_count"
QSL_PERFORMANCE_COUNT = "qsl_reported_performance_count"
LOADED_SET = "loaded_qsl_set"

SCENARIO = "effective_scenario"
TEST_MODE = "effective_test_mode"
MIN_QUERY_COUNT = "effective_min_query_count"
MAX_QUERY_COUNT = "effective_max_query_count"
MIN_SAMPLE_COUNT = "effective_min_sample_count"
MIN_DURATION_MS = "effective_min_duration_ms"
MAX_DURATION_MS = "effective_max_duration_ms"
TARGET_DURATION_MS = "effective_target_duration_ms"
TARGET_QPS = "effective_target_qps"
TARGET_LATENCY = "effective_target_latency_ns"
TARGET_PERCENTILE = "effective_target_latency_percentile"
SAMPLES_PER_QUERY = "effective_samples_per_query"
PERFORMANCE_SAMPLE_COUNT = "effective_performance_sample_count"
ACCURACY_SAMPLE_COUNT = "effective_accuracy_sample_count"
EQUAL_ISSUE = "effective_sample_concatenate_permutation"
ISSUE_SAME = "effective_performance_issue_same"
ISSUE_SAME_INDEX = "effective_performance_issue_same_index"
ISSUE_UNIQUE = "effective_performance_issue_unique"
LOG_SAMPLING_TARGET = "effective_accuracy_log_sampling_target"
LOG_PROBABILITY = "effective_accuracy_log_probability"
LOG_SEED = "effective_accuracy_log_rng_seed"
USE_TOKEN_LATENCIES = "requested_use_token_latencies"
TTFT_LIMIT = "requested_server_ttft_latency"
TPOT_LIMIT = "requested_server_tpot_latency"

SEEDS = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")

GENERATED_QUERY_COUNT = "generated_query_count"
GENERATED_QUERY_DURATION = "generated_query_duration"
GENERATED_SAMPLES_PER_QUERY = "generated_samples_per_query"
POWER_BEGIN = "power_begin"
POWER_END = "power_end"

VALIDITY = "result_validity"
INVALID_REASON = "result_invalid_reason"
CONSTRAINTS_MET = "result_perf_constraints_met"
MIN_DURATION_MET = "result_min_duration_met"
MIN_QUERIES_MET = "result_min_queries_met"
EARLY_STOPPING_MET = "early_stopping_met"
EARLY_STOPPING_RESULT = "early_stopping_result"
EARLY_STOPPING_TTFT = "early_stopping_ttft_result"
EARLY_STOPPING_TPOT = "early_stopping_tpot_result"
SINGLE_STREAM_ESTIMATE = "early_stopping_latency_ss"
MULTI_STREAM_ESTIMATE = "early_stopping_latency_ms"

QUERY_COUNT = "result_query_count"
OVERLATENCY_COUNT = "result_overlatency_query_count"
SAMPLES_PER_SECOND = "result_samples_per_second"
TOKENS_PER_SECOND = "result_tokens_per_second"
INFERRED_TOKENS_PER_SECOND = "result_inferred_tokens_per_second"
SCHEDULED_SAMPLES_PER_SECOND = "result_scheduled_samples_per_sec"
COMPLETED_SAMPLES_PER_SECOND = "result_completed_samples_per_sec"
COMPLETED_TOKENS_PER_SECOND = "result_completed_tokens_per_second"
INFERRED_COMPLETED_TOKENS_PER_SECOND = "result_inferred_completed_tokens_per_second"
TOKEN_THROUGHPUT = "result_token_throughput"
"""Tokens per ns of the queries' latencies, not of the run."""
QPS_WITH_OVERHEAD = "result_qps_with_loadgen_overhead"
QPS_WITHOUT_OVERHEAD = "result_qps_without_loadgen_overhead"

NUM_ERRORS = "num_errors"
ERROR_RUNTIME = "error_runtime"
ERROR_UNCOMMITTED = "error_uncommitted_loadgen_changes"

PERCENTILES = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")


def effective(setting: str) -> str:
    """The key of a setting as it was used."""
    return f"effective_{setting}"


def requested(setting: str) -> str:
    """The key of a setting as it was asked of LoadGen."""
    return f"requested_{setting}"


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """One family of latencies: its name in words and its keys; template takes a percentile."""

    name: str
    minimum: str
    mean: str
    template: str
    maximum: str

    def at(self, percent: float) -> str:
        """The key of a percentile, given in percent."""
        return self.template.format(f"{percent:.2f}")

    @property
    def percentiles(self) -> tuple[str, ...]:
        """The keys of all percentiles that LoadGen logs, lowest first."""
        return _percentiles(self.template)

    @property
    def rising(self) -> tuple[str, ...]:
        """Minimum, percentiles, maximum."""
        return (self.minimum, *self.percentiles, self.maximum)


@functools.cache
def _percentiles(template: str) -> tuple[str, ...]:
    return tuple(template.format(percent) for percent in PERCENTILES)


LATENCY = Latencies(
    name="latency",
    minimum="result_min_latency_ns",
    mean="result_mean_latency_ns",
    template="result_{}_percentile_latency_ns",
    maximum="result_max_latency_ns",
)
QUERY_LATENCY = Latencies(
    name="latency per query",
    minimum="result_min_query_latency_ns",
    mean="result_mean_query_latency_ns",
    template="result_{}_percentile_per_query_latency_ns",
    maximum="result_max_query_latency_ns",
)
FIRST_TOKEN = Latencies(
    name="time to first token",
    minimum="result_first_token_min_latency_ns",
    mean="result_first_token_mean_latency_ns",
    template="result_first_token_{}_percentile_latency_ns",
    maximum="result_first_token_max_latency_ns",
)
PER_TOKEN = Latencies(
    name="time per output token",
    minimum="result_time_to_output_token_min",
    mean="result_time_to_output_token_mean",
    template="result_time_per_output_token_{}_percentile_ns",
    maximum="result_time_to_output_token_max",
)
LATENCIES = (LATENCY, QUERY_LATENCY, FIRST_TOKEN, PER_TOKEN)
