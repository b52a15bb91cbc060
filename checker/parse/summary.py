"""LoadGen's summary log: the text that people read, line by line, as values.

`SummaryLog.values` holds each value under the detail log's key for the same quantity, so that
the two can be compared; labels that have no such key are left out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import msgspec

from checker.parse.detail import DetailLog, add, entry_of
from checker.parse.detail_text import canonical_mode, canonical_scenario, plain_value
from checker.parse.reading import Fault, File, Unreadable, read_text

_MAX_SUMMARY_BYTES = 8 * 1024 * 1024

_LABELS = {
    "SUT name": "sut_name",
    "Scenario": "effective_scenario",
    "Mode": "effective_test_mode",
    "Result is": "result_validity",
    "Performance constraints satisfied": "result_perf_constraints_met",
    "Min duration satisfied": "result_min_duration_met",
    "Min queries satisfied": "result_min_queries_met",
    "Early stopping satisfied": "early_stopping_met",
    "Samples per second": "result_samples_per_second",
    "Tokens per second": "result_tokens_per_second",
    "Scheduled samples per second": "result_scheduled_samples_per_sec",
    "Completed samples per second": "result_completed_samples_per_sec",
    "Completed tokens per second": "result_completed_tokens_per_second",
    "QPS w/ loadgen overhead": "result_qps_with_loadgen_overhead",
    "QPS w/o loadgen overhead": "result_qps_without_loadgen_overhead",
    "Min First Token latency (ns)": "result_first_token_min_latency_ns",
    "Max First Token latency (ns)": "result_first_token_max_latency_ns",
    "Mean First Token latency (ns)": "result_first_token_mean_latency_ns",
    "Min Time per Output Token (ns)": "result_time_to_output_token_min",
    "Max Time per Output Token (ns)": "result_time_to_output_token_max",
    "Mean Time per Output Token (ns)": "result_time_to_output_token_mean",
    "Min Time to Output Token (ns)": "result_time_to_output_token_min",
    "Max Time to Output Token (ns)": "result_time_to_output_token_max",
    "Mean Time to Output Token (ns)": "result_time_to_output_token_mean",
    "Samples per query": "effective_samples_per_query",
}
_PARAMETERS = {
    "samples_per_query", "target_qps", "max_async_queries", "min_query_count", "max_query_count",
    "qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed", "accuracy_log_rng_seed",
    "accuracy_log_probability", "accuracy_log_sampling_target", "print_timestamps",
    "performance_issue_unique", "performance_issue_same", "performance_issue_same_index",
    "performance_sample_count", "accuracy_sample_count",
}  # fmt: skip
_PARAMETER_UNITS = {
    "target_latency (ns)": "effective_target_latency_ns",
    "min_duration (ms)": "effective_min_duration_ms",
    "max_duration (ms)": "effective_max_duration_ms",
    "ttft_latency (ns)": "requested_server_ttft_latency",
    "tpot_latency (ns)": "requested_server_tpot_latency",
}
_LATENCY = re.compile(r"^(Min|Max|Mean) latency \(ns\)$")
_PERCENTILE = re.compile(
    r"^(\d+\.\d+) percentile (first token latency|time to output token|latency) \(ns\)$"
)
_HEADLINE = re.compile(r"^(\d+(?:\.\d+)?)th percentile latency \(ns\)$")
_ESTIMATE = re.compile(
    r"Early stopping (\d{1,3}(?:\.\d{1,9})?)th percentile estimate: (\d{1,20})\b"
)
_COUNT = re.compile(r"^(No|\d{1,20}) (ERRORS?|errors|warnings?) encountered")
_SPECIAL = re.compile(
    r"^Per-(?:query|sample) latency|encountered|Early stopping|th percentile|^Recommendations$"
)
_TITLE = "MLPerf Results Summary"
_LABEL = 100  # a longer label is not LoadGen's, and not remembered
_YES = {"yes": True, "no": False}


class SummaryLog(msgspec.Struct):
    """One summary log.

    values: detail key -> (value, line); headline_percentile: (percent, ns, line) of the result
    line; errors and warnings: the counts that the last lines state; titles: how often LoadGen's
    title is there, which it writes once, above the results; estimating: whether early stopping has its section.
    """

    path: str
    values: dict[str, tuple[Any, int]] = {}
    repeated: list[tuple[str, Any, Any, int]] = []
    headline_percentile: tuple[float, int, int] | None = None
    estimates: list[tuple[float, int, int]] = []
    errors: int | None = None
    warnings: int | None = None
    recommendations: list[str] = []
    titles: int = 0
    estimating: bool = False
    faults: list[Fault] = []
    lines: int = 0

    def get(self, key: str) -> Any:
        """The value for a detail key, None when the summary does not state it."""
        found = self.values.get(key)
        return found[0] if found else None

    def line(self, key: str) -> int | None:
        """The line of that value."""
        found = self.values.get(key)
        return found[1] if found else None


def read_summary(file: File) -> SummaryLog:
    """Read one summary log. Never raises; problems are in ``faults``."""
    log = SummaryLog(file.path)
    try:
        text, faults = read_text(file, _MAX_SUMMARY_BYTES)
    except Unreadable as error:
        log.faults.append(error.fault)
        return log
    log.faults.extend(faults)
    section = ""
    block = "per_sample"
    multistream = False
    recommending = False
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line:
            recommending = False
            continue
        label, colon, value = line.partition(":")
        meaning = _meaning if len(label) <= _LABEL else _meaning.__wrapped__
        plain, key, read = meaning(section, multistream and block == "per_query", label.strip())
        if line == "Early Stopping Result:":
            recommending, log.estimating = False, True
        if not (plain and colon) or "Early stopping" in value:
            if not line.strip("="):
                continue
            if line in (_TITLE, "Additional Stats", "Test Parameters Used"):
                section = line
                log.titles += line == _TITLE
                continue
            counted = _COUNT.match(line)
            if counted:
                count = 0 if counted.group(1) == "No" else int(counted.group(1))
                if counted.group(2).lower().startswith("err"):
                    log.errors = count
                else:
                    log.warnings = count
                continue
            if line == "Recommendations:":
                recommending = True
                continue
            if recommending and line.startswith("*"):
                log.recommendations.append(line.lstrip("* "))
                continue
            estimate = _ESTIMATE.search(line)
            if estimate:
                log.estimates.append((float(estimate.group(1)), int(estimate.group(2)), number))
                continue
            if line.startswith("Per-query latency"):
                block = "per_query"
                continue
            if line.startswith("Per-sample latency"):
                block = "per_sample"
                continue
            headline = _HEADLINE.match(label.strip()) if colon else None
            if headline:
                stated = plain_value(value.strip())
                if isinstance(stated, int):
                    log.headline_percentile = (float(headline.group(1)), stated, number)
                continue
        if key is None or not colon:
            continue
        typed = read(value.strip())
        if isinstance(typed, str) and read in (plain_value, _yes):
            log.faults.append(_unusable(file.path, label.strip(), key, typed, number))
        if key == "effective_scenario":
            multistream = typed == "MultiStream"
        known = log.values.get(key)
        if known is None:
            log.values[key] = (typed, number)
        elif known[0] != typed:
            log.repeated.append((key, known[0], typed, number))
    log.lines = number
    if not text.strip():
        log.faults.append(
            Fault(
                path=file.path,
                kind="empty",
                message="the file is empty",
                line=1,
                fix="use the summary log that LoadGen wrote",
            )
        )
    elif log.lines and not log.values and log.errors is None and log.warnings is None:
        log.faults.append(
            Fault(
                path=file.path,
                kind="syntax",
                message="the file holds nothing that LoadGen's summary has",
                line=1,
                fix="use the summary log that LoadGen wrote",
            )
        )
    return log


def _unusable(path: str, label: str, key: str, value: str, line: int) -> Fault:
    """A value of another kind than LoadGen prints there."""
    expected = "yes or no" if key.endswith("_met") else "a number"
    return Fault(
        path=path,
        kind="unusable",
        message=f"found {value[:60] or 'nothing'} as {label}; expected {expected}",
        line=line,
        fix="use the summary log that LoadGen wrote",
        pointer=key,
    )


def _yes(value: str) -> Any:
    known = _YES.get(value.lower())
    return plain_value(value) if known is None else known


@functools.lru_cache(maxsize=4096)
def _meaning(
    section: str, per_query: bool, label: str
) -> tuple[bool, str | None, Callable[[str], Any]]:
    """What a label means: whether its line states a value and nothing else may be in it, the detail
    log's key (None where it has none), how its value is read."""
    special = not label or label[0] in "*=" or _SPECIAL.search(label)
    return not special, *_key(section, per_query, label)


def _key(section: str, per_query: bool, label: str) -> tuple[str | None, Callable[[str], Any]]:
    if section == "Test Parameters Used":
        if label in _PARAMETERS:
            return f"effective_{label}", plain_value
        return _PARAMETER_UNITS.get(label), plain_value
    known = _LABELS.get(label)
    if known is not None:
        if known == "effective_scenario":
            return known, canonical_scenario
        if known == "effective_test_mode":
            return known, canonical_mode
        if known in ("result_validity", "sut_name"):
            return known, str
        return known, _yes if known.endswith("_met") else plain_value
    simple = _LATENCY.match(label)
    if simple:
        which = simple.group(1).lower()
        each = "query_latency_ns" if per_query else "latency_ns"
        return f"result_{which}_{each}", plain_value
    many = _PERCENTILE.match(label)
    if many is None:
        return None, plain_value
    percent, what = many.group(1), many.group(2)
    if what == "first token latency":
        key = f"result_first_token_{percent}_percentile_latency_ns"
    elif what == "time to output token":
        key = f"result_time_per_output_token_{percent}_percentile_ns"
    elif per_query:
        key = f"result_{percent}_percentile_per_query_latency_ns"
    else:
        key = f"result_{percent}_percentile_latency_ns"
    return key, plain_value


def into_detail(summary: SummaryLog, detail: DetailLog) -> None:
    """Give a text-format detail log the results that only its summary states.

    Their entries have line 0: they stand in another file.
    """
    for key, (value, _line) in summary.values.items():
        if key.startswith("result_") and key not in detail:
            add(detail, entry_of(key, 0, value=value))
    if summary.headline_percentile is not None:
        percent, ns, _line = summary.headline_percentile
        key = f"result_{percent:.2f}_percentile_latency_ns"
        if key not in detail:
            add(detail, entry_of(key, 0, value=ns))
