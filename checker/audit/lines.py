"""From which source line LoadGen writes each record, for builds that were run to learn it.

A log states the SHA-1 of its LoadGen's sources and the line of every record; the two must fit. The
table holds LoadGen 6.0.17 as its wheel was built; other builds are compared among themselves.
"""

from __future__ import annotations

Sources = tuple[tuple[str, str], ...]

_6_0_17: Sources = (
    ("/loadgen.cc", "86bc3765857092b9d1f380604b101c771679842a"),
    ("/results.cc", "fde4e173d3ec8461dd439ff0d8e605b52c4becf5"),
    ("/logging.cc", "49e63158ebca654fa4b7c5f3321054cf4d6c3a30"),
    ("/early_stopping.cc", "0cd7b546a389deac73f7955cd39255ed76557d62"),
    ("/issue_query_controller.cc", "02fcfe6d9cf958eeb4b6f1f4dbe87ba7eb4d7dec"),
    ("/test_settings_internal.cc", "1e6b962f1e22450b3e0ced24292230c64d23e20a"),
)

# file -> line -> the keys written there
_PLACES: dict[str, dict[int, str]] = {
    "loadgen.cc": {
        427: "generated_query_count",
        428: "generated_samples_per_query",
        429: "generated_query_duration",
        1214: "qsl_name",
        1215: "qsl_reported_total_count",
        1216: "qsl_reported_performance_count",
    },
    "results.cc": {
        674: "result_validity",
        677: "result_perf_constraints_met",
        679: "result_min_duration_met",
        680: "result_min_queries_met",
        681: "early_stopping_met",
        695: "result_invalid_reason",
        712: "result_query_count",
        714: "result_overlatency_query_count",
        719: "result_min_query_latency_ns",
        720: "result_max_query_latency_ns",
        721: "result_mean_query_latency_ns",
        724: (
            "result_50.00_percentile_per_query_latency_ns "
            "result_90.00_percentile_per_query_latency_ns "
            "result_95.00_percentile_per_query_latency_ns "
            "result_97.00_percentile_per_query_latency_ns "
            "result_99.00_percentile_per_query_latency_ns "
            "result_99.90_percentile_per_query_latency_ns"
        ),
        735: "result_qps_with_loadgen_overhead",
        736: "result_qps_without_loadgen_overhead",
        760: "result_scheduled_samples_per_sec",
        763: "result_completed_samples_per_sec",
        768: "result_samples_per_second",
        774: "result_min_latency_ns",
        775: "result_max_latency_ns",
        776: "result_mean_latency_ns",
        778: (
            "result_50.00_percentile_latency_ns result_90.00_percentile_latency_ns "
            "result_95.00_percentile_latency_ns result_97.00_percentile_latency_ns "
            "result_99.00_percentile_latency_ns result_99.90_percentile_latency_ns"
        ),
        852: "num_errors",
    },
    "test_settings_internal.cc": {
        278: "requested_scenario",
        279: "requested_test_mode",
        284: "requested_single_stream_expected_latency_ns",
        286: "requested_single_stream_target_latency_percentile",
        290: "requested_multi_stream_expected_latency_ns",
        292: "requested_multi_stream_target_latency_percentile",
        294: "requested_multi_stream_samples_per_query",
        298: "requested_server_target_qps",
        299: "requested_server_target_latency_ns",
        301: "requested_server_target_latency_percentile",
        303: "requested_server_coalesce_queries",
        305: "requested_server_find_peak_qps_decimals_of_precision",
        308: "requested_server_find_peak_qps_boundary_step_size",
        310: "requested_server_max_async_queries",
        312: "requested_server_num_issue_query_threads",
        316: "requested_offline_expected_qps",
        322: "requested_min_duration_ms",
        323: "requested_max_duration_ms",
        324: "requested_min_query_count",
        325: "requested_max_query_count",
        326: "requested_qsl_rng_seed",
        327: "requested_sample_index_rng_seed",
        329: "requested_schedule_rng_seed",
        330: "requested_accuracy_log_rng_seed",
        332: "requested_accuracy_log_probability",
        334: "requested_accuracy_log_sampling_target",
        336: "requested_print_timestamps",
        337: "requested_performance_issue_unique",
        339: "requested_performance_issue_same",
        341: "requested_performance_issue_same_index",
        343: "requested_performance_sample_count_override",
        345: "requested_accuracy_sample_count_override",
        347: "requested_sample_concatenate_permutation",
        428: "effective_scenario",
        429: "effective_test_mode",
        431: "effective_samples_per_query",
        432: "effective_target_qps",
        433: "effective_target_latency_ns",
        434: "effective_target_latency_percentile",
        436: "effective_max_async_queries",
        437: "effective_target_duration_ms",
        439: "effective_min_duration_ms",
        440: "effective_max_duration_ms",
        441: "effective_min_query_count",
        442: "effective_max_query_count",
        443: "effective_min_sample_count",
        444: "effective_qsl_rng_seed",
        445: "effective_sample_index_rng_seed",
        447: "effective_schedule_rng_seed",
        448: "effective_accuracy_log_rng_seed",
        450: "effective_accuracy_log_probability",
        452: "effective_accuracy_log_sampling_target",
        454: "effective_print_timestamps",
        455: "effective_performance_issue_unique",
        457: "effective_performance_issue_same",
        459: "effective_performance_issue_same_index",
        461: "effective_performance_sample_count",
        463: "effective_accuracy_sample_count",
        465: "effective_sample_concatenate_permutation",
    },
    "version.cc": {
        53: "loadgen_version",
        55: "loadgen_build_date_local",
        56: "loadgen_build_date_utc",
        57: "loadgen_git_commit_date",
        58: "loadgen_git_log_message",
        60: "loadgen_git_status_message",
        67: "loadgen_file_sha1",
    },
}

KNOWN_LINES: dict[Sources, dict[str, tuple[str, int]]] = {
    _6_0_17: {
        key: (file, line)
        for file, lines in _PLACES.items()
        for line, keys in lines.items()
        for key in keys.split()
    }
}
"""Sources -> key -> (source file, line)."""
