"""Family P: a good tree has no finding; one thing broken gives exactly what is listed here."""

from __future__ import annotations

import datetime
import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.checker.rules.breaking import Break, both, broken, run_break
from tests.conftest import Grow
from tests.trees import DELETE, GoodTree, stamp

EDGE: dict[str, Any] = {"benchmark": "yolo-99", "category": "edge"}
DEMO: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "datacenter"}
TEXT: dict[str, Any] = {"round": "v0.7", "benchmark": "3d-unet-99", "division": "open"}
FIRST_TEXT: dict[str, Any] = {**TEXT, "text": True, "division": "closed"}
PLAIN: dict[str, Any] = {**EDGE, "division": "open"}
"""Without compliance tests, whose own rules would also tell of another number."""
TOKENS: dict[str, Any] = {"benchmark": "llama2-70b-99", "category": "datacenter"}


def _remove_performance(tree: GoodTree) -> None:
    tree.remove(tree.result("Offline").performance.parent)


def _remove_run(tree: GoodTree) -> None:
    place = tree.result("Offline").performance
    tree.remove(place)
    tree.write(place.parent / "notes.md", "none\n")


def _remove_detail(tree: GoodTree) -> None:
    tree.remove(tree.result("Offline").detail)


def _invalid(tree: GoodTree) -> None:
    both(tree, "Offline", "result_validity", "INVALID", "Result is")


def _no_validity(tree: GoodTree) -> None:
    tree.set_log(tree.result("Offline").detail, "result_validity", DELETE)


def _loadgen_error(tree: GoodTree) -> None:
    place = tree.result("Offline").detail
    tree.add_log(place, "error_runtime", "the SUT did not answer", is_error=True)
    tree.set_log(place, "num_errors", 1)


def _accuracy_error(tree: GoodTree) -> None:
    place = tree.result("Offline").accuracy_detail
    tree.add_log(place, "error_runtime", "the SUT did not answer", is_error=True)
    tree.set_log(place, "num_errors", 1)


def _few_queries_set(tree: GoodTree) -> None:
    both(tree, "SingleStream", "effective_min_query_count", 1000)
    tree.set_log(tree.result("SingleStream").detail, "requested_min_query_count", 1000)


def _no_setting(key: str, scenario: str) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        tree.set_log(tree.result(scenario).detail, key, DELETE)

    return change


def _queries_not_met(tree: GoodTree) -> None:
    both(tree, "SingleStream", "result_min_queries_met", False, "Min queries satisfied")


def _few_queries_done(tree: GoodTree) -> None:
    detail = tree.result("SingleStream").detail
    tree.set_log(detail, "result_min_queries_met", DELETE)
    tree.set_log(detail, "result_query_count", 70)


def _short_set(tree: GoodTree) -> None:
    both(tree, "SingleStream", "effective_min_duration_ms", 60_000)
    tree.set_log(tree.result("SingleStream").detail, "requested_min_duration_ms", 60_000)


def _duration_not_met(tree: GoodTree) -> None:
    both(tree, "SingleStream", "result_min_duration_met", False, "Min duration satisfied")


def _short_clock(tree: GoodTree) -> None:
    detail = tree.result("SingleStream").detail
    begin = datetime.datetime.strptime(tree.get_log(detail, "power_begin"), "%m-%d-%Y %H:%M:%S.%f")
    tree.set_log(detail, "power_end", stamp(begin + datetime.timedelta(seconds=300)))


def _longer_clock(tree: GoodTree) -> None:
    detail = tree.result("Offline").detail
    end = datetime.datetime.strptime(tree.get_log(detail, "power_end"), "%m-%d-%Y %H:%M:%S.%f")
    tree.set_log(detail, "power_end", stamp(end + datetime.timedelta(seconds=1)))


def _remove_run_accuracy(tree: GoodTree) -> None:
    tree.remove(tree.result("Server").performance / "mlperf_log_accuracy.json")


def _without_counts(text: str) -> str:
    return text[: text.index("No warnings encountered")]


def _cut_summary(tree: GoodTree) -> None:
    place = tree.result("Offline").summary
    tree.write(place, _without_counts(place.read_text()))


def _summary_without(beginning: str, scenario: str = "Offline") -> Callable[[GoodTree], None]:
    """Without the lines that begin so; where it is the heading of a section, without the section."""

    def change(tree: GoodTree) -> None:
        place = tree.result(scenario).summary
        head, found, tail = place.read_text().partition(f"\n{beginning}")
        assert found
        rest = tail.partition("\n\n" if beginning == "Test Parameters" else "\n")[2]
        tree.write(place, f"{head}\n{rest}")

    return change


def _label_twice(tree: GoodTree) -> None:
    place = tree.result("Offline").summary
    tree.write(place, re.sub(r"(SUT name : ).*", r"\g<0>\n\1Other", place.read_text(), count=1))


def _logged_twice(log: str) -> Callable[[GoodTree], None]:
    """A log with the settings of a second run at its end."""

    def change(tree: GoodTree) -> None:
        place = getattr(tree.result("Offline"), log)
        lines = place.read_text().splitlines(keepends=True)
        tree.write(place, "".join([*lines, *(x for x in lines if '"effective_' in x)]))

    return change


def _ends_early(scenario: str) -> Callable[[GoodTree], None]:
    """The accuracy run's log, cut between two lines."""

    def change(tree: GoodTree) -> None:
        place = tree.result(scenario).accuracy_detail
        text = place.read_text()
        tree.write(place, text[: text.index(':::MLLOG {"key": "power_begin"')])

    return change


def _cut_test_summary(tree: GoodTree) -> None:
    place = tree.result("Offline").compliance("TEST01") / "performance/run_1/mlperf_log_summary.txt"
    tree.write(place, _without_counts(place.read_text()))


def _test_percentile(tree: GoodTree) -> None:
    place = tree.result("Offline").compliance("TEST01") / "performance/run_1/mlperf_log_summary.txt"
    tree.set_summary(place, "95.00 percentile latency (ns)", "-5")


def _test_summary_twice(tree: GoodTree) -> None:
    place = tree.result("Offline").compliance("TEST01") / "performance/run_1/mlperf_log_summary.txt"
    tree.write(place, place.read_text() * 2)


def _few_samples_loaded(tree: GoodTree) -> None:
    both(tree, "SingleStream", "effective_performance_sample_count", 8)
    detail = tree.result("SingleStream").detail
    tree.set_log(detail, "loaded_qsl_set", list(range(8)))
    tree.set_log(detail, "qsl_reported_performance_count", 8)
    tree.set_log(detail, "requested_performance_sample_count_override", 8)


def _seed(tree: GoodTree) -> None:
    both(tree, "SingleStream", "effective_qsl_rng_seed", 7)
    tree.set_log(tree.result("SingleStream").detail, "requested_qsl_rng_seed", 7)


def _no_seeds(tree: GoodTree) -> None:
    detail = tree.result("SingleStream").detail
    tree.set_log(detail, "effective_schedule_rng_seed", DELETE)


def _other_scenario(tree: GoodTree) -> None:
    source, target = tree.result("Offline").performance, tree.result("SingleStream").performance
    shutil.copytree(source, target, dirs_exist_ok=True)


def _unknown_folder(tree: GoodTree) -> None:
    place = tree.root / tree.result("Offline").path
    place.rename(place.parent / "Offlin")


def _mode(tree: GoodTree) -> None:
    both(tree, "Offline", "effective_test_mode", "AccuracyOnly", "Mode")
    tree.set_log(tree.result("Offline").detail, "requested_test_mode", "AccuracyOnly")


def _few_offline(tree: GoodTree) -> None:
    both(tree, "Offline", "effective_samples_per_query", 1000)


def _streams(tree: GoodTree) -> None:
    both(tree, "MultiStream", "effective_samples_per_query", 4)


def _early(tree: GoodTree) -> None:
    both(tree, "SingleStream", "early_stopping_met", False, "Early stopping satisfied")


def _few_for_early(tree: GoodTree) -> None:
    tree.set_log(tree.result("SingleStream").detail, "result_query_count", 63)


def _few_for_early_multi(tree: GoodTree) -> None:
    tree.set_log(tree.result("MultiStream").detail, "result_query_count", 661)


def _loose_latency(tree: GoodTree) -> None:
    both(tree, "Server", "effective_target_latency_ns", 100_000_001)
    tree.set_log(tree.result("Server").detail, "requested_server_target_latency_ns", 100_000_001)


def _slow_server(tree: GoodTree) -> None:
    for number, key in enumerate(("99.00_percentile", "99.90_percentile", "max")):
        both(tree, "Server", f"result_{key}_latency_ns", 100_000_001 + number)


def _no_tokens(tree: GoodTree) -> None:
    tree.set_log(tree.result("Server").detail, "requested_use_token_latencies", False)
    tree.set_log(tree.result("Server").accuracy_detail, "requested_use_token_latencies", False)


def _slow_first_token(tree: GoodTree) -> None:
    keys = ("99.00_percentile_latency_ns", "99.90_percentile_latency_ns", "max_latency_ns")
    for number, key in enumerate(keys):
        both(tree, "Server", f"result_first_token_{key}", 2_000_000_001 + number)


def _loose_first_token(tree: GoodTree) -> None:
    both(tree, "Server", "requested_server_ttft_latency", 2_000_000_001)


def _slow_tokens(tree: GoodTree) -> None:
    for number, key in enumerate(
        (
            "per_output_token_99.00_percentile_ns",
            "per_output_token_99.90_percentile_ns",
            "to_output_token_max",
        )
    ):
        both(tree, "Server", f"result_time_{key}", 200_000_001 + number)


def _loose_tokens(tree: GoodTree) -> None:
    both(tree, "Server", "requested_server_tpot_latency", 200_000_001)


def _unequal(tree: GoodTree) -> None:
    detail = tree.result("Server").detail
    tree.set_log(detail, "effective_sample_concatenate_permutation", False)
    tree.set_log(detail, "requested_sample_concatenate_permutation", False)


def _no_metric(tree: GoodTree) -> None:
    tree.set_log(tree.result("Offline").detail, "result_samples_per_second", DELETE)


def _metric(value: Any) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        tree.set_log(tree.result("SingleStream").detail, "early_stopping_latency_ss", value)

    return change


def _twice(tree: GoodTree) -> None:
    tree.add_log(tree.result("Offline").detail, "requested_max_duration_ms", 5)


def _audited(key: str, value: Any) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        both(tree, "Offline", f"effective_{key}", value, key, int(value))
        tree.set_log(tree.result("Offline").detail, f"requested_{key}", value)

    return change


def _median(tree: GoodTree) -> None:
    detail = tree.result("SingleStream").detail
    tree.set_log(detail, "effective_target_latency_percentile", 0.5)
    tree.set_log(detail, "requested_single_stream_target_latency_percentile", 0.5)


def _bounded(key: str, bound: int) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        both(tree, "SingleStream", f"effective_{key}", bound)
        tree.set_log(tree.result("SingleStream").detail, f"requested_{key}", bound)

    return change


def _part_of_data(tree: GoodTree) -> None:
    tree.set_log(tree.result("Offline").detail, "qsl_reported_total_count", 100)


def _old_loadgen(tree: GoodTree) -> None:
    tree.set_log(tree.result("Offline").detail, "loadgen_version", "3.1.2 @ 0123456789")
    tree.set_log(tree.result("Offline").accuracy_detail, "loadgen_version", "3.1.2 @ 0123456789")


def _other_loadgen(tree: GoodTree) -> None:
    tree.set_log(tree.result("Offline").accuracy_detail, "loadgen_version", "6.0.5 @ 0123456789")


def _uncommitted(tree: GoodTree) -> None:
    detail = tree.result("Offline").detail
    tree.add_log(
        detail,
        "error_uncommitted_loadgen_changes",
        "Loadgen built with uncommitted changes!",
        is_error=True,
    )
    tree.set_log(detail, "num_errors", 1)


def _remove_summary(tree: GoodTree) -> None:
    tree.remove(tree.result("Offline").summary)


def _summary(label: str, text: Any, scenario: str = "Offline") -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        tree.set_summary(tree.result(scenario).summary, label, text)

    return change


def _test_without_mode(tree: GoodTree) -> None:
    log = tree.result("Offline").compliance("TEST01") / "performance/run_1/mlperf_log_detail.txt"
    tree.set_log(log, "effective_test_mode", DELETE)


def _seed_beside(tree: GoodTree) -> None:
    """The summary's seed differs in its last digit."""
    path = tree.result("Offline").summary
    text = re.sub(
        r"(?m)^(qsl_rng_seed : \d+)(\d)$", lambda m: f"{m[1]}{9 - int(m[2])}", path.read_text()
    )
    assert text != path.read_text()
    path.write_text(text)


def _summary_of_another(run: str) -> Callable[[GoodTree], None]:
    """The performance run's summary in place of another run's."""

    def change(tree: GoodTree) -> None:
        own = tree.result("Offline")
        place = own.accuracy_log.with_name(own.summary.name)
        if run != "accuracy":
            place = own.compliance(run) / "performance/run_1/mlperf_log_summary.txt"
        tree.write(place, own.summary.read_text())

    return change


def _scaled(
    scenario: str, key: str, factor: float, label: str | None = None
) -> Callable[[GoodTree], None]:
    """A better number in both logs, and nothing else."""

    def change(tree: GoodTree) -> None:
        value = tree.get_log(tree.result(scenario).detail, key) * factor
        both(tree, scenario, key, int(value) if key.endswith("_ns") else value, label)

    return change


def _estimate(scenario: str, key: str) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        detail = tree.result(scenario).detail
        tree.set_log(detail, key, tree.get_log(detail, key) // 2)

    return change


def _disordered(tree: GoodTree) -> None:
    low = tree.get_log(tree.result("Offline").detail, "result_50.00_percentile_latency_ns")
    both(tree, "Offline", "result_90.00_percentile_latency_ns", low - 1)


def _valid_all_the_same(tree: GoodTree) -> None:
    both(tree, "Server", "result_perf_constraints_met", False, "Performance constraints satisfied")


def _error_count(tree: GoodTree) -> None:
    tree.set_log(tree.result("Offline").detail, "num_errors", 3)


def _requested_seed(tree: GoodTree) -> None:
    tree.set_log(tree.result("Offline").detail, "requested_sample_index_rng_seed", 5)


def _remove_fifth(tree: GoodTree) -> None:
    tree.remove(tree.result("Server").performance.parent / "run_5")


def _second_run_only(tree: GoodTree) -> None:
    place = tree.result("Server").performance.parent
    shutil.move(place / "run_5", place / "run_6")


def _extra_run(tree: GoodTree) -> None:
    place = tree.result("Offline").performance
    shutil.copytree(place, place.parent / "run_2")


def _other_qsl(tree: GoodTree) -> None:
    tree.set_log(tree.result("Offline").accuracy_detail, "qsl_name", "AnotherQSL")


LONG = b'[\n{ "seq_id" : 0, "qsl_idx" : 0, "data" : "00" }' + b" " * 10_300 + b"\n]\n"
_OLD_SERVER = {
    "round": "v0.5",
    "benchmark": "resnet",
    "category": "datacenter",
    "scenarios": ["Server"],
}


def _negative(key: str, value: int) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        both(tree, "Server", key, value)

    return change


def _impossible_tokens(tree: GoodTree) -> None:
    """As a submitter published it: tokens per second of 1.1e14 beside the same samples per second."""
    both(
        tree, "Offline", "result_tokens_per_second", 1.1e14, "Tokens per second", "110000000000000"
    )


def _half_the_tokens(tree: GoodTree) -> None:
    rate = tree.get_log(tree.result("Offline").detail, "result_tokens_per_second")
    both(tree, "Offline", "result_tokens_per_second", rate * 0.4, "Tokens per second")


def _quoted(tree: GoodTree) -> None:
    detail = tree.result("Offline").detail
    for key in ("effective_min_duration_ms", "result_mean_latency_ns"):
        tree.set_log(detail, key, str(tree.get_log(detail, key)))


def _other_sut(tree: GoodTree) -> None:
    tree.set_log(tree.result("Offline").accuracy_detail, "sut_name", "another SUT")


BREAKS: dict[str, list[Break]] = {
    "P101": [
        Break(_remove_performance, [("P101", "Offline")], EDGE),
        Break(_remove_run, [("P101", "Offline/performance")], EDGE),
        Break(_remove_detail, [("P101", "Offline/detail")], EDGE),
    ],
    "P102": [
        Break(_invalid, [("P102", "Offline/detail"), ("P134", "Offline/detail")], EDGE),
        Break(_no_validity, [("P102", "Offline/detail")], EDGE),
    ],
    "P103": [
        Break(_loadgen_error, [("P103", "Offline/detail")], EDGE),
        Break(_accuracy_error, [("P103", "Offline/accuracy/detail")], EDGE),
    ],
    "P104": [
        Break(
            _few_queries_set,
            [("P104", "SingleStream/detail")],
            {"round": "v1.0", "benchmark": "resnet"},
        ),
        Break(
            _no_setting("effective_min_query_count", "Offline"), [("P104", "Offline/detail")], EDGE
        ),
    ],
    "P105": [
        Break(
            _queries_not_met,
            [("P105", "SingleStream/detail"), ("P134", "SingleStream/detail")],
            EDGE,
        ),
        Break(_few_queries_done, [("P105", "SingleStream/detail")], EDGE),
    ],
    "P106": [
        Break(_short_set, [("P106", "SingleStream/detail")], EDGE),
        Break(
            _no_setting("effective_min_duration_ms", "Offline"), [("P106", "Offline/detail")], EDGE
        ),
    ],
    "P107": [
        Break(
            _duration_not_met,
            [("P107", "SingleStream/detail"), ("P134", "SingleStream/detail")],
            EDGE,
        ),
        Break(_short_clock, [("P107", "SingleStream/detail")], EDGE),
    ],
    "P108": [
        Break(_few_samples_loaded, [("P108", "SingleStream/detail")], EDGE),
        Break(
            _no_setting("effective_performance_sample_count", "Offline"),
            [("P108", "Offline/detail")],
            EDGE,
        ),
    ],
    "P109": [
        Break(_seed, [("P109", "SingleStream/detail")], EDGE),
        Break(_no_seeds, [("P109", "SingleStream/detail")], EDGE),
    ],
    "P110": [
        Break(
            _other_scenario,
            [("P110", "SingleStream/detail"), ("P139", "SingleStream/accuracy/detail")],
            PLAIN,
        ),
    ],
    "P111": [Break(_mode, [("P111", "Offline/detail")], EDGE)],
    "P112": [
        Break(_few_offline, [("P112", "Offline/detail")], EDGE),
        Break(
            _no_setting("effective_samples_per_query", "Offline"),
            [("P112", "Offline/detail")],
            EDGE,
        ),
    ],
    "P113": [Break(_streams, [("P113", "MultiStream/detail")], EDGE)],
    "P114": [
        Break(_early, [("P114", "SingleStream/detail"), ("P134", "SingleStream/detail")], EDGE),
        Break(
            _no_setting("early_stopping_met", "MultiStream"), [("P114", "MultiStream/detail")], EDGE
        ),
    ],
    "P115": [
        Break(_few_for_early, [("P115", "SingleStream/detail")], EDGE),
        Break(_few_for_early_multi, [("P115", "MultiStream/detail")], EDGE),
    ],
    "P116": [
        Break(_loose_latency, [("P116", "Server/detail")], DEMO),
        Break(
            _no_setting("effective_target_latency_ns", "Server"), [("P116", "Server/detail")], DEMO
        ),
    ],
    "P117": [
        Break(_slow_server, [("P117", "Server/detail")], DEMO),
        Break(
            _no_setting("result_99.00_percentile_latency_ns", "Server"),
            [("P117", "Server/detail")],
            DEMO,
        ),
    ],
    "P118": [Break(_no_tokens, [("P118", "Server/detail")], TOKENS)],
    "P119": [
        Break(_slow_first_token, [("P119", "Server/detail")], TOKENS),
        Break(_loose_first_token, [("P119", "Server/detail")], TOKENS),
        Break(
            _no_setting("result_first_token_99.00_percentile_latency_ns", "Server"),
            [("P119", "Server/detail")],
            TOKENS,
        ),
    ],
    "P120": [
        Break(_slow_tokens, [("P120", "Server/detail")], TOKENS),
        Break(_loose_tokens, [("P120", "Server/detail")], TOKENS),
    ],
    "P121": [Break(_unequal, [("P121", "Server/detail")], TOKENS)],
    "P122": [
        Break(_no_metric, [("P122", "Offline/detail")], PLAIN),
        Break(_metric(0), [("P122", "SingleStream/detail")], PLAIN),
        Break(_metric(-5), [("P122", "SingleStream/detail")], PLAIN),
        Break(
            _metric(float("nan")),
            [("P122", "SingleStream/detail")],
            PLAIN,
        ),
        Break(_metric("fast"), [("P122", "SingleStream/detail")], PLAIN),
    ],
    "P123": [Break(_twice, [("P123", "Offline/detail")], EDGE)],
    "P124": [
        Break(_audited("performance_issue_same", True), [("P124", "Offline/detail")], EDGE),
        Break(_audited("performance_issue_unique", True), [("P124", "Offline/detail")], EDGE),
        Break(_audited("accuracy_log_sampling_target", 64), [("P124", "Offline/detail")], EDGE),
        Break(_audited("accuracy_log_probability", 1), [("P124", "Offline/detail")], EDGE),
    ],
    "P125": [Break(_median, [("P125", "SingleStream/detail")], EDGE)],
    "P126": [
        Break(_bounded("max_duration_ms", 300_000), [("P126", "SingleStream/detail")], EDGE),
        Break(_bounded("max_query_count", 50), [("P126", "SingleStream/detail")], EDGE),
    ],
    "P127": [Break(_part_of_data, [("P127", "Offline/detail")], PLAIN)],
    "P128": [
        Break(
            _old_loadgen, [("P128", "Offline/accuracy/detail"), ("P128", "Offline/detail")], PLAIN
        )
    ],
    "P129": [Break(_uncommitted, [("P129", "Offline/detail")], EDGE)],
    "P130": [Break(_remove_summary, [("P130", "Offline/summary")], EDGE)],
    "P131": [
        Break(_summary("Result is", "INVALID"), [("P131", "Offline/summary")], EDGE),
        Break(_summary("Samples per second", "99.5"), [("P131", "Offline/summary")], EDGE),
        Break(_summary("Mean latency (ns)", "1"), [("P131", "Offline/summary")], EDGE),
        Break(_summary("Mean latency (ns)", "1"), [("P131", "Offline/summary")], TEXT),
        Break(_seed_beside, [("P131", "Offline/summary")], EDGE),
        Break(_summary_of_another("accuracy"), [("P131", "Offline/accuracy/summary")], PLAIN),
        Break(_summary_of_another("TEST01"), [("P131", "Offline/TEST01/summary")], EDGE),
    ],
    "P132": [
        Break(
            _scaled("Offline", "result_samples_per_second", 1.01, "Samples per second"),
            [("P132", "Offline/detail")],
            PLAIN,
        ),
        Break(
            _scaled(
                "SingleStream",
                "result_qps_without_loadgen_overhead",
                1.01,
                "QPS w/o loadgen overhead",
            ),
            [("P132", "SingleStream/detail")],
            PLAIN,
        ),
        Break(
            _estimate("SingleStream", "early_stopping_latency_ss"),
            [("P132", "SingleStream/detail")],
            PLAIN,
        ),
        Break(
            _estimate("MultiStream", "early_stopping_latency_ms"),
            [("P132", "MultiStream/detail")],
            PLAIN,
        ),
        Break(
            _scaled("Server", "result_completed_samples_per_sec", 1.2),
            [("P132", "Server/detail")],
            {**DEMO, "division": "open"},
        ),
        Break(
            _scaled("Server", "result_completed_samples_per_sec", 0.8),
            [("P132", "Server/detail")],
            {**DEMO, "division": "open"},
        ),
        Break(
            _scaled(
                "Server", "result_completed_tokens_per_second", 1.01, "Completed tokens per second"
            ),
            [("P132", "Server/detail")],
            TOKENS,
        ),
    ],
    "P133": [
        Break(_disordered, [("P133", "Offline/detail")], EDGE),
        Break(_test_percentile, [("P133", "Offline/TEST01/detail")], FIRST_TEXT),
    ],
    "P169": [
        Break(
            lambda tree: both(
                tree, "Offline", "result_min_latency_ns", -1258433212, "Min latency (ns)"
            ),
            [("P169", "Offline/detail")],
            EDGE,
        ),
        Break(
            _summary("QPS w/ loadgen overhead", "-391.3", "SingleStream"),
            [("P169", "SingleStream/detail")],
            FIRST_TEXT,
        ),
    ],
    "P134": [Break(_valid_all_the_same, [("P134", "Server/detail")], DEMO)],
    "P135": [Break(_error_count, [("P135", "Offline/detail")], EDGE)],
    "P136": [Break(_requested_seed, [("P136", "Offline/detail")], EDGE)],
    "P137": [
        Break(_remove_fifth, [("P137", "Server/performance")], _OLD_SERVER),
        Break(
            _second_run_only,
            [("P137", "Server/performance"), ("P138", "Server/performance/run_6")],
            _OLD_SERVER,
        ),
    ],
    "P138": [Break(_extra_run, [("P138", "Offline/performance/run_2")], EDGE)],
    "P139": [Break(_other_qsl, [("P139", "Offline/accuracy/detail")], EDGE)],
    "P141": [
        Break(
            _remove_run_accuracy,
            [("P141", "Server/performance/run_1/mlperf_log_accuracy.json")],
            _OLD_SERVER,
        ),
    ],
    "P142": [Break(_longer_clock, [("P142", "Offline/detail")], PLAIN)],
    "P143": [
        Break(
            lambda tree: tree.write(
                tree.result("Offline").performance / "mlperf_log_accuracy.json", LONG
            ),
            [("P143", "Offline/performance/run_1/mlperf_log_accuracy.json")],
            PLAIN,
        ),
    ],
    "P147": [
        Break(_cut_summary, [("P147", "Offline/summary")], PLAIN),
        Break(_cut_test_summary, [("P147", "Offline/TEST01/summary")], EDGE),
        Break(_summary_without("Mean latency"), [("P147", "Offline/summary")], PLAIN),
        Break(_summary_without("Test Parameters"), [("P147", "Offline/summary")], PLAIN),
        Break(_summary_without("Mean latency"), [("P147", "Offline/summary")], TEXT),
        Break(_summary_without("No warnings"), [("P147", "Offline/summary")], PLAIN),
        Break(_summary_without("MLPerf Results"), [("P147", "Offline/summary")], PLAIN),
        Break(_label_twice, [("P147", "Offline/summary")], PLAIN),
        Break(_test_summary_twice, [("P147", "Offline/TEST01/summary")], EDGE),
        Break(
            _summary_without("90.0th perc", "SingleStream"),
            [("P147", "SingleStream/summary")],
            EDGE,
        ),
    ],
    "P165": [
        Break(_logged_twice("accuracy_detail"), [("P165", "Offline/accuracy/detail")], PLAIN),
        Break(_logged_twice("detail"), [("P165", "Offline/detail")], PLAIN),
        Break(_ends_early("Offline"), [("P165", "Offline/accuracy/detail")], PLAIN),
        Break(_test_without_mode, [("P165", "Offline/TEST01/detail")], EDGE),
    ],
    "P144": [
        Break(
            _negative("result_time_to_output_token_min", -5),
            [("P144", "Server/detail")],
            TOKENS,
        ),
        Break(
            _negative("result_first_token_min_latency_ns", 0),
            [("P144", "Server/detail")],
            TOKENS,
        ),
        Break(
            _negative("result_first_token_min_latency_ns", -9_223_372_036_854_775_808),
            [("P144", "Server/detail")],
            TOKENS,
        ),
    ],
    "P145": [
        Break(_impossible_tokens, [("P145", "Offline/detail"), ("P146", "Offline/detail")], TOKENS)
    ],
    "P146": [Break(_half_the_tokens, [("P146", "Offline/detail")], TOKENS)],
    "P148": [Break(_no_setting("loadgen_version", "Offline"), [("P148", "Offline/detail")], PLAIN)],
    "P159": [Break(_other_sut, [("P159", "Offline/accuracy/detail")], PLAIN, notes=True)],
    "P160": [Break(_quoted, [("P160", "Offline/detail")], PLAIN)],
    "P140": [Break(_other_loadgen, [("P140", "Offline/accuracy/detail")], EDGE, notes=True)],
}


@pytest.mark.parametrize(("rule", "case"), broken(BREAKS))
def test_break(rule: str, case: Break, grow: Grow) -> None:
    run_break(rule, case, grow)


def test_a_bound_above_the_minimum_that_was_reached_is_no_finding(grow: Grow) -> None:
    tree = grow(**EDGE)
    _bounded("max_duration_ms", 660_000)(tree)
    assert tree.findings(notes=True) == []
