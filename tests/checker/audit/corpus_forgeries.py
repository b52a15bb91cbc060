"""Forgeries of real published submissions: one edit each, as a cheat or a careless submitter makes.

``python -m tests.checker.audit.corpus_forgeries`` makes each of them in a copy of one system of the
corpus, audits it and prints a table of what is newly found.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter

from tests.checker.audit.forging import (
    ANSWERS,
    DETAIL,
    SUMMARY,
    Case,
    Copy,
    Edit,
    Source,
    judged,
    latencies,
    scaled,
    stated,
    taken,
    text,
)

B300 = Source("v6.0", "NVIDIA", ("B300-SXM-270GBx8_TRT",))
SLIM = Source("v4.1", "UntetherAI", ("h13_u1_slim", "h13_u3_slim"))
DC = Source("v4.1", "UntetherAI", ("r760_u6_slim", "h13_u1_preview_dc"))
LLM = "B300-SXM-270GBx8_TRT/llama2-70b-99.9"
EDGE = "h13_u3_slim/resnet50"
RACK = "r760_u6_slim/resnet50"

TPS = "result_completed_tokens_per_second"
P99 = "result_99.00_percentile_latency_ns"


def _all_tokens(copy: Copy) -> None:
    for key in (TPS, "result_token_throughput", "result_token_throughput_with_loadgen_overhead"):
        copy.scale(1.5, key)
    copy.retell("Completed tokens per second", 1.5)


def _whole(copy: Copy) -> None:
    latencies(copy, 0.8)
    if copy.result.name == "singlestream":
        for key in ("result_qps_with_loadgen_overhead", "result_qps_without_loadgen_overhead"):
            copy.scale(1.25, key)


def _shift_clock(copy: Copy) -> None:
    old = re.findall(r'"key": "power_end", "value": "([^"]+)"', copy.detail.read_text())[-1]
    day, clock = old.split(" ")
    hour, minute, rest = clock.split(":")
    copy.set("power_end", f"{day} {hour}:{(int(minute) + 7) % 60:02d}:{rest}")


def _answers_again(copy: Copy) -> None:
    for test in ("TEST06", "TEST01"):
        place = copy.tests / test / "accuracy" / ANSWERS
        if place.exists():
            shutil.copyfile(copy.result / "accuracy" / ANSWERS, place)
            return
    raise AssertionError("no test with answers")


def _test_is_main(copy: Copy) -> None:
    place = copy.tests / "TEST01" / "performance" / "run_1"
    for name in (DETAIL, SUMMARY):
        shutil.copyfile(copy.detail.parent / name, place / name)


def _scaled_copy_of(other: str, factor: float) -> Edit:
    def edit(copy: Copy) -> None:
        source = copy.base / "results" / other / "performance" / "run_1"
        for name in (DETAIL, SUMMARY):
            shutil.copyfile(source / name, copy.detail.parent / name)
        latencies(copy, factor)
        copy.set("test_datetime", "2024-07-30T11:11:11Z")

    return edit


def _short_test(copy: Copy) -> None:
    for test in ("TEST04", "TEST01"):
        place = copy.tests / test / "performance" / "run_1" / DETAIL
        if place.exists():
            for key in ("effective_min_duration_ms", "requested_min_duration_ms"):
                copy.set(key, 10_000, place)
            return


def _verify(test: str, new: str) -> Edit:
    def edit(copy: Copy) -> None:
        copy.replace(
            copy.tests / test / "verify_performance.txt",
            r"(?i)test score = [\d.]+",
            f"test score = {new}",
        )

    return edit


def _watts(factor: float) -> Edit:
    def edit(copy: Copy) -> None:
        path = copy.detail.parent / "spl.txt"
        changed = re.sub(
            r"(Watts,)([\d.]+)", lambda m: f"{m[1]}{float(m[2]) * factor:.4f}", path.read_text()
        )
        path.write_text(changed)

    return edit


def _drop_samples(copy: Copy) -> None:
    path = copy.detail.parent / "spl.txt"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[: len(lines) // 3] + lines[len(lines) // 2 :]) + "\n")


CASES: list[Case] = [
    # --- language models --------------------------------------------------------------------
    ("token rate raised", B300, f"{LLM}/Server", scaled(1.2, TPS, "Completed tokens per second")),
    ("all token rates raised", B300, f"{LLM}/Server", _all_tokens),
    ("sample rate raised", B300, f"{LLM}/Server",
     scaled(1.2, "result_completed_samples_per_sec", "Completed samples per second")),
    ("mean TPOT lowered", B300, f"{LLM}/Server",
     scaled(0.5, "result_time_to_output_token_mean", "Mean Time per Output Token")),
    ("mean TTFT raised over latency", B300, f"{LLM}/Server",
     scaled(200, "result_first_token_mean_latency_ns", "Mean First Token")),
    ("TTFT p99 lowered below p97", B300, f"{LLM}/Server",
     scaled(0.5, "result_first_token_99.00_percentile_latency_ns", "99.00 percentile first token")),
    ("TPOT p99 lowered below p97", B300, f"{LLM}/Server",
     scaled(0.5, "result_time_per_output_token_99.00_percentile_ns",
            "99.00 percentile time to output token")),
    ("token throughput alone", B300, f"{LLM}/Server", scaled(1.3, "result_token_throughput")),
    ("latencies lowered", B300, f"{LLM}/Server", lambda copy: latencies(copy, 0.5)),
    ("Offline token rate raised", B300, f"{LLM}/Offline",
     scaled(1.3, "result_tokens_per_second", "Tokens per second")),
    ("Offline token rate 1e9 times", B300, f"{LLM}/Offline",
     scaled(1e9, "result_tokens_per_second", "Tokens per second")),
    ("Offline sample rate raised", B300, f"{LLM}/Offline",
     scaled(1.3, "result_samples_per_second", "Samples per second")),
    ("Offline both rates raised", B300, f"{LLM}/Offline",
     lambda copy: (scaled(1.3, "result_tokens_per_second", "Tokens per second")(copy),
                   scaled(1.3, "result_samples_per_second", "Samples per second")(copy))[0]),
    ("accuracy raised", B300, f"{LLM}/Offline",
     text("accuracy/accuracy.txt", r"'rouge1': [\d.]+", "'rouge1': 144.9")),
    ("test answers are the accuracy run's", B300, f"{LLM}/Server", _answers_again),
    ("test of another benchmark", B300, f"{LLM}/Server",
     taken("TEST06", "results/B300-SXM-270GBx8_TRT/llama3.1-8b/Server/TEST06")),
    ("test of another scenario", B300, f"{LLM}/Server",
     taken("TEST06", f"results/{LLM}/Offline/TEST06")),
    ("other benchmark's run", B300, f"{LLM}/Server",
     taken("performance", "results/B300-SXM-270GBx8_TRT/llama3.1-405b/Server/performance")),
    ("other scenario's run", B300, f"{LLM}/Server",
     taken("performance/run_1", f"results/{LLM}/Offline/performance/run_1")),
    ("accuracy run in performance", B300, f"{LLM}/Server",
     taken("performance/run_1/mlperf_log_detail.txt", f"results/{LLM}/Server/accuracy/mlperf_log_detail.txt")),
    ("invalid made valid", B300, f"{LLM}/Server", stated("result_validity", "INVALID")),
    ("target_qps raised", B300, f"{LLM}/Server", stated("effective_target_qps", 800)),
    ("query count raised", B300, f"{LLM}/Server", scaled(2, "result_query_count")),
    ("clock moved", B300, f"{LLM}/Server", _shift_clock),
    ("seed changed", B300, f"{LLM}/Server", stated("effective_qsl_rng_seed", 1)),
    ("min_duration shortened", B300, f"{LLM}/Server", stated("effective_min_duration_ms", 60_000)),
    ("early stopping", B300, f"{LLM}/Server", stated("early_stopping_met", False)),
    ("scheduled rate raised", B300, f"{LLM}/Server",
     scaled(1.3, "result_scheduled_samples_per_sec", "Scheduled samples per second")),
    # --- images, single and multi stream ------------------------------------------------------
    ("SingleStream: p90 lowered", SLIM, f"{EDGE}/singlestream",
     scaled(0.7, "result_90.00_percentile_latency_ns", "90.00 percentile latency", "90th percentile latency")),
    ("SingleStream: estimate lowered", SLIM, f"{EDGE}/singlestream",
     scaled(0.5, "early_stopping_latency_ss", "90th percentile latency")),
    ("SingleStream: mean lowered", SLIM, f"{EDGE}/singlestream",
     scaled(0.7, "result_mean_latency_ns", "Mean latency")),
    ("SingleStream: all latencies lowered", SLIM, f"{EDGE}/singlestream", _whole),
    ("SingleStream: query count", SLIM, f"{EDGE}/singlestream", scaled(1.5, "result_query_count")),
    ("SingleStream: clock", SLIM, f"{EDGE}/singlestream", _shift_clock),
    ("SingleStream: scaled copy of another system", SLIM, f"{EDGE}/singlestream",
     _scaled_copy_of("h13_u1_slim/resnet50/singlestream", 0.37)),
    ("SingleStream: another system's run", SLIM, f"{EDGE}/singlestream",
     taken("performance/run_1", "results/h13_u1_slim/resnet50/singlestream/performance/run_1")),
    ("SingleStream: another system's accuracy run", SLIM, f"{EDGE}/singlestream",
     taken("accuracy", "results/h13_u1_slim/resnet50/singlestream/accuracy")),
    ("MultiStream: all latencies lowered", SLIM, f"{EDGE}/multistream", _whole),
    ("MultiStream: p99 lowered below p97", SLIM, f"{EDGE}/multistream", scaled(0.5, P99, "99.00 percentile latency")),
    ("MultiStream: samples per query", SLIM, f"{EDGE}/multistream", stated("effective_samples_per_query", 16)),
    ("Offline: rate raised", SLIM, f"{EDGE}/offline",
     scaled(1.4, "result_samples_per_second", "Samples per second")),
    ("Offline: samples raised", SLIM, f"{EDGE}/offline", scaled(2, "generated_samples_per_query")),
    ("Offline: longest latency lowered", SLIM, f"{EDGE}/offline",
     scaled(0.7, "result_max_latency_ns", "Max latency")),
    ("Offline: clock", SLIM, f"{EDGE}/offline", _shift_clock),
    ("test is the main run", SLIM, f"{EDGE}/offline", _test_is_main),
    ("TEST01 answers are the accuracy run's", SLIM, f"{EDGE}/offline", _answers_again),
    ("short compliance run", SLIM, f"{EDGE}/offline", _short_test),
    ("verify text: score", SLIM, f"{EDGE}/offline", _verify("TEST01", "99999")),
    ("verify text: TEST04 score", SLIM, f"{EDGE}/offline", _verify("TEST04", "99999")),
    ("accuracy over 100 %", SLIM, f"{EDGE}/offline",
     text("accuracy/accuracy.txt", r"accuracy=[\d.]+%", "accuracy=180.0%")),
    ("accuracy and good disagree", SLIM, f"{EDGE}/offline",
     text("accuracy/accuracy.txt", r"accuracy=[\d.]+%", "accuracy=79.9%")),
    ("accuracy of ten images", SLIM, f"{EDGE}/offline",
     text("accuracy/accuracy.txt", r"total=\d+", "total=10")),
    ("PerformanceOnly accuracy", SLIM, f"{EDGE}/offline",
     taken("accuracy/mlperf_log_detail.txt", f"results/{EDGE}/offline/performance/run_1/mlperf_log_detail.txt")),
    # --- Server and power --------------------------------------------------------------------
    ("Server: p99 lowered", DC, f"{RACK}/server", scaled(0.6, P99, "99.00 percentile latency")),
    ("Server: latencies lowered", DC, f"{RACK}/server", lambda copy: latencies(copy, 0.5)),
    ("Server: over latency count", DC, f"{RACK}/server", stated("result_overlatency_query_count", 0)),
    ("Server: scheduled rate", DC, f"{RACK}/server",
     scaled(1.3, "result_scheduled_samples_per_sec", "Scheduled samples per second")),
    ("Server: completed rate", DC, f"{RACK}/server",
     scaled(1.3, "result_completed_samples_per_sec", "Completed samples per second")),
    ("Server: latency limit", DC, f"{RACK}/server", stated("effective_target_latency_ns", 30_000_000)),
    ("power: watts lowered", DC, f"{RACK}/offline", _watts(0.7)),
    ("power: samples cut out", DC, f"{RACK}/offline", _drop_samples),
    ("power: another run's meter log", DC, f"{RACK}/offline",
     taken("performance/run_1/spl.txt", f"results/{RACK}/server/performance/run_1/spl.txt")),
    ("power: ranging as the run", DC, f"{RACK}/offline",
     taken("performance/run_1/spl.txt", f"results/{RACK}/offline/performance/ranging/spl.txt")),
]  # fmt: skip


def all_cases() -> list[Case]:
    """These, the careful ones and those of further kinds."""
    from tests.checker.audit.careful_forgeries import CASES as CAREFUL
    from tests.checker.audit.further_forgeries import CASES as FURTHER

    return [*CASES, *CAREFUL, *FURTHER]


def table() -> str:
    """Every forgery with the worst severity that is newly found, and the rules that find it."""
    verdicts = judged(all_cases())
    lines = [f"{v.severity:<8} {v.name:<52} {' '.join(v.rules)}" for v in verdicts]
    counts = Counter(v.severity for v in verdicts)
    return "\n".join([*lines, ", ".join(f"{k}: {n}" for k, n in counts.most_common())])


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
