"""Forgeries by one who knows the logs: several places are changed so that they agree with each other."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable

from tests.checker.audit.corpus_forgeries import B300, DC, EDGE, LLM, P99, RACK, SLIM, TPS
from tests.checker.audit.forging import (
    ANSWERS,
    DETAIL,
    LATENCIES,
    SUMMARY,
    Case,
    Copy,
    Edit,
    Source,
    latencies,
    scaled,
    stated,
    taken,
    text,
)

TRITON = Source("v5.1", "Lambda", ("B200-SXM-180GBx8_TRT",))
LAMBDA = "B200-SXM-180GBx8_TRT/llama3.1-405b"
ORIN = Source(
    "v3.0",
    "cTuning",
    ("amd_zen4_workstation-nvidia_original-gpu-tensorrt-v8.5.2.2-default_config",),
)
ZEN = f"{ORIN.systems[0]}/bert-99"
BIREN = Source("v2.1", "Biren", ("BR104-300W-PCIex8",))
BR104 = "BR104-300W-PCIex8/resnet50"


def both(*edits: Edit) -> Edit:
    """Several edits, one after the other."""

    def edit(copy: Copy) -> None:
        for one in edits:
            one(copy)

    return edit


def setting(name: str, value: object, label: str | None = None) -> Edit:
    """A setting as requested, as used, and in the summary."""

    def edit(copy: Copy) -> None:
        for key in (f"requested_{name}", f"effective_{name}"):
            if f'"{key}"' in copy.detail.read_text("utf-8"):
                copy.set(key, value)
        if label is not None:
            copy.replace(copy.summary, rf"(?m)^{re.escape(label)} : .*$", f"{label} : {value}")

    return edit


def lines_of(factor: float, family: str, ends: str, label: str) -> Edit:
    """All figures of one family of latencies, in both logs."""

    def edit(copy: Copy) -> None:
        for name in LATENCIES[3:]:
            copy.scale(factor, family.format(name))
        for end in ("min", "max", "mean"):
            copy.scale(factor, ends.format(end))
        for line in copy.summary.read_text("utf-8").splitlines():
            if label in line:
                copy.retell(line.split("(ns)")[0].rstrip(), factor)

    return edit


def clock(seconds: float, *keys: str) -> Edit:
    """Times of the log moved."""
    import datetime

    def edit(copy: Copy) -> None:
        for key in keys:
            old = re.findall(rf'"key": "{key}", "value": "([^"]+)"', copy.detail.read_text())[-1]
            form = "%Y-%m-%dT%H:%M:%SZ" if key == "test_datetime" else "%m-%d-%Y %H:%M:%S.%f"
            moved = datetime.datetime.strptime(old, form) + datetime.timedelta(seconds=seconds)
            new = moved.strftime(form)
            copy.set(key, new if key == "test_datetime" else new[:-3])

    return edit


def dropped(key: str) -> Edit:
    """The records of one key removed."""
    return lambda copy: copy.replace(copy.detail, rf'(?m)^.*"key": "{key}".*\n', "")


def meter(pattern: str, factor: float, place: str = "run_1") -> Edit:
    """Readings of the meter's log multiplied."""

    def edit(copy: Copy) -> None:
        path = copy.detail.parent.parent / place / "spl.txt"
        changed = re.sub(
            pattern, lambda m: f"{m[1]}{float(m[2]) * factor:.6f}", path.read_text("utf-8")
        )
        assert changed != path.read_text("utf-8")
        path.write_text(changed, "utf-8")

    return edit


def answers(change: Callable[[list[str]], list[str]], *place: str) -> Edit:
    """Records of an accuracy log of the result, or of a test, changed."""

    def edit(copy: Copy) -> None:
        path = (copy.tests.joinpath(*place) if place else copy.result / "accuracy") / ANSWERS
        data = path.read_text("utf-8", "surrogateescape").split("\n")
        path.write_text("\n".join(change(data)), "utf-8", "surrogateescape")

    return edit


def _exchanged(records: list[str]) -> list[str]:
    """Two samples' answers in each other's place."""
    pattern = r'"qsl_idx" : \d+'
    first, second = (re.findall(pattern, records[at])[0] for at in (3, 4))
    records[3], records[4] = (
        records[3].replace(first, second),
        records[4].replace(second, first),
    )
    return records


def _twice(records: list[str]) -> list[str]:
    return [*records[:6], records[5], *records[6:]]


def tested(test: str, name: str, old: str, new: str) -> Edit:
    """Text of a compliance test replaced."""
    return lambda copy: copy.replace(copy.tests / test / name, old, new)


def moved_in(target: str, source: str) -> Edit:
    """A folder of another system's or scenario's tests in the place of this one's."""

    def edit(copy: Copy) -> None:
        there, here = copy.tests.parents[2] / source, copy.tests / target
        assert there.exists(), there
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(there, here)

    return edit


def in_test(test: str, key: str, factor: float) -> Edit:
    """A figure of a test's own log multiplied."""

    def edit(copy: Copy) -> None:
        copy.scale(factor, key, path=copy.tests / test / "performance/run_1" / DETAIL)

    return edit


def exchanged(one: str, other: str) -> Edit:
    """Two folders below ``results/`` in each other's place."""

    def edit(copy: Copy) -> None:
        a, b = (copy.base / "results" / name for name in (one, other))
        spare = copy.root / "spare"
        a.rename(spare)
        b.rename(a)
        spare.rename(b)

    return edit


def given_to(target: str, *changes: Edit) -> Edit:
    """The run copied to another result, under another date and process."""

    def edit(copy: Copy) -> None:
        for change in changes:
            change(copy)
        there = copy.base / "results" / target / "performance" / "run_1"
        for name in (DETAIL, SUMMARY):
            shutil.copyfile(copy.detail.parent / name, there / name)

    return edit


def other_process(copy: Copy) -> None:
    """Another process id in every record."""
    copy.replace(copy.detail, r'("pid": )\d+', r"\g<1>4242")
    copy.replace(copy.detail, r'("tid": )\d+', r"\g<1>4242")


def _out_of_order(copy: Copy) -> None:
    """A record moved behind a later one."""
    lines = copy.detail.read_text("utf-8").splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if '"generated_query_count"' in line)
    lines.append(lines.pop(at))
    copy.detail.write_text("".join(lines), "utf-8")


def _whole_scaled(copy: Copy) -> None:
    """All latencies and rates of SingleStream, and the clock that they must fill."""
    latencies(copy, 0.8)
    for key in ("early_stopping_latency_ss", "early_stopping_latency_ms"):
        copy.scale(0.8, key)
    for key in ("result_qps_with_loadgen_overhead", "result_qps_without_loadgen_overhead"):
        copy.scale(1.25, key)
    clock(-120, "power_end")(copy)


def _offline_scaled(copy: Copy) -> None:
    """Offline's rates and longest latency, and the interval that they must fill."""
    for key in ("result_samples_per_second", "result_tokens_per_second"):
        copy.scale(1.25, key)
    for label in ("Samples per second", "Tokens per second"):
        copy.retell(label, 1.25)
    latencies(copy, 0.8)
    clock(-0.2 * copy.number("result_max_latency_ns") / 0.8 / 1e9, "power_end")(copy)


def _server_rates(copy: Copy) -> None:
    for key in (
        "effective_target_qps",
        "requested_server_target_qps",
        TPS,
        "result_scheduled_samples_per_sec",
        "result_completed_samples_per_sec",
    ):
        copy.scale(1.2, key)
    for label in (
        "Scheduled samples per second",
        "Completed samples per second",
        "Completed tokens per second",
    ):
        copy.retell(label, 1.2)
    copy.replace(copy.summary, r"target_qps : [\d.]+", "target_qps : 480")


SEEDS = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
TPOT = lines_of(
    0.7,
    "result_time_per_output_token_{}_percentile_ns",
    "result_time_to_output_token_{}",
    "utput Token",
)
TTFT = lines_of(
    0.5,
    "result_first_token_{}_percentile_latency_ns",
    "result_first_token_{}_latency_ns",
    "irst Token",
)
U1 = "h13_u1_slim/resnet50"

CASES: list[Case] = [
    # --- settings, seeds, counts, durations --------------------------------------------------
    ("Server: seeds of nobody", B300, f"{LLM}/Server",
     both(*(setting(seed, 1234567, seed) for seed in SEEDS))),
    ("Server: schedule seed", B300, f"{LLM}/Server",
     setting("schedule_rng_seed", 1234567, "schedule_rng_seed")),
    ("Server: sample index seed", B300, f"{LLM}/Server",
     setting("sample_index_rng_seed", 1234567, "sample_index_rng_seed")),
    ("Server: min_duration everywhere", B300, f"{LLM}/Server",
     both(setting("min_duration_ms", 60_000), setting("target_duration_ms", 60_000))),
    ("Server: query counts together", B300, f"{LLM}/Server",
     both(scaled(2, "result_query_count"), scaled(2, "generated_query_count"))),
    ("Server: generated duration", B300, f"{LLM}/Server", scaled(1.3, "generated_query_duration")),
    ("Server: limits of tokens raised", B300, f"{LLM}/Server",
     both(stated("requested_server_ttft_latency", 9_000_000_000),
          stated("requested_server_tpot_latency", 900_000_000))),
    ("Server: rate of everything", B300, f"{LLM}/Server", _server_rates),
    ("Server: performance_sample_count", B300, f"{LLM}/Server",
     setting("performance_sample_count", 1000)),
    ("Server: one loaded sample", B300, f"{LLM}/Server",
     lambda copy: copy.replace(copy.detail, r'("loaded_qsl_set", "value": \[)\d+', r"\g<1>5")),
    ("Server: equal issue off", B300, f"{LLM}/Server",
     setting("sample_concatenate_permutation", False)),
    ("Server: unique samples only", B300, f"{LLM}/Server",
     setting("performance_issue_unique", True)),
    ("Server: accuracy mode", B300, f"{LLM}/Server", setting("test_mode", "AccuracyOnly")),
    ("SingleStream: percentile of 50", SLIM, f"{EDGE}/singlestream",
     stated("effective_target_latency_percentile", 0.5)),
    ("MultiStream: samples per query everywhere", SLIM, f"{EDGE}/multistream",
     setting("samples_per_query", 16, "samples_per_query")),
    ("Server: latency target everywhere", DC, f"{RACK}/server",
     setting("target_latency_ns", 30_000_000)),
    # --- figures ----------------------------------------------------------------------------------
    ("TPOT figures lowered", B300, f"{LLM}/Server", TPOT),
    ("TTFT figures lowered", B300, f"{LLM}/Server", TTFT),
    ("TPOT p99 alone to the limit", B300, f"{LLM}/Server",
     stated("result_time_per_output_token_99.90_percentile_ns", 154_900_000)),
    ("token rate raised a little", B300, f"{LLM}/Server",
     scaled(1.03, TPS, "Completed tokens per second")),
    ("token and sample rates raised", B300, f"{LLM}/Server",
     both(scaled(1.15, TPS, "Completed tokens per second"),
          scaled(1.15, "result_completed_samples_per_sec", "Completed samples per second"),
          scaled(1.15, "result_scheduled_samples_per_sec", "Scheduled samples per second"))),
    ("latencies and throughput", B300, f"{LLM}/Server",
     both(lambda copy: latencies(copy, 0.8), scaled(1.25, "result_token_throughput"))),
    ("p50 lowered", B300, f"{LLM}/Server",
     scaled(0.5, "result_50.00_percentile_latency_ns", "50.00 percentile latency")),
    ("p99.9 raised over the longest", B300, f"{LLM}/Server",
     scaled(2, "result_99.90_percentile_latency_ns", "99.90 percentile latency")),
    ("Offline with its clock", B300, f"{LLM}/Offline", _offline_scaled),
    ("SingleStream with its clock", SLIM, f"{EDGE}/singlestream", _whole_scaled),
    ("SingleStream: rates alone", SLIM, f"{EDGE}/singlestream",
     both(scaled(1.3, "result_qps_with_loadgen_overhead", "QPS w/ loadgen overhead"),
          scaled(1.3, "result_qps_without_loadgen_overhead", "QPS w/o loadgen overhead"))),
    ("SingleStream: estimates together", SLIM, f"{EDGE}/singlestream",
     both(scaled(0.95, "early_stopping_latency_ss"),
          lambda copy: copy.replace(copy.detail, r"90th percentile estimate: \d+",
                                    f"90th percentile estimate: {round(120438 * 0.95)}"),
          lambda copy: copy.replace(copy.summary, r"90th percentile estimate: \d+",
                                    f"90th percentile estimate: {round(120438 * 0.95)}"))),
    ("SingleStream: early-stopping text", SLIM, f"{EDGE}/singlestream",
     lambda copy: copy.replace(copy.detail, r"Would discard \d+", "Would discard 999")),
    ("SingleStream: processed queries in the text", SLIM, f"{EDGE}/singlestream",
     lambda copy: copy.replace(copy.detail, r"queries \(\d+\)", "queries (1000)")),
    ("SingleStream: estimate in the summary alone", SLIM, f"{EDGE}/singlestream",
     lambda copy: copy.replace(copy.summary, r"90th percentile estimate: \d+", "90th percentile estimate: 99000")),
    ("MultiStream: p99 a little", SLIM, f"{EDGE}/multistream",
     scaled(0.95, "result_99.00_percentile_per_query_latency_ns")),
    ("MultiStream: estimate lowered", SLIM, f"{EDGE}/multistream", scaled(0.6, "early_stopping_latency_ms")),
    ("Offline: rate and longest latency", SLIM, f"{EDGE}/offline",
     both(scaled(1.25, "result_samples_per_second", "Samples per second"),
          lambda copy: latencies(copy, 0.8))),
    ("Server: over-latency count and p99", DC, f"{RACK}/server",
     both(scaled(0.6, P99, "99.00 percentile latency"), stated("result_overlatency_query_count", 10))),
    ("Server: mean latency", DC, f"{RACK}/server", scaled(0.3, "result_mean_latency_ns", "Mean latency")),
    ("Server: longest latency", DC, f"{RACK}/server", scaled(0.2, "result_max_latency_ns", "Max latency")),
    # --- verdicts, records, clocks ------------------------------------------------------------------
    ("minimum duration missed, yet valid", B300, f"{LLM}/Server", stated("result_min_duration_met", False)),
    ("errors counted", B300, f"{LLM}/Server", stated("num_errors", 7)),
    ("no count of errors", B300, f"{LLM}/Server", dropped("num_errors")),
    ("no verdict", B300, f"{LLM}/Server", dropped("result_validity")),
    ("no power interval", B300, f"{LLM}/Server", dropped("power_end")),
    ("dates after publication", B300, f"{LLM}/Server",
     clock(86_400 * 120, "test_datetime", "power_begin", "power_end")),
    ("date of another year", B300, f"{LLM}/Server", clock(-86_400 * 400, "test_datetime")),
    ("power interval moved", B300, f"{LLM}/Server", clock(1_000, "power_begin", "power_end")),
    ("power interval stretched", B300, f"{LLM}/Server", clock(60, "power_end")),
    ("half of another process", B300, f"{LLM}/Server",
     lambda copy: copy.replace(copy.detail, r'(?s)("key": "result_.*?"pid": )\d+', r"\g<1>99")),
    ("records in another order", B300, f"{LLM}/Server", _out_of_order),
    ("LoadGen's sources", B300, f"{LLM}/Server",
     lambda copy: copy.replace(copy.detail, r'("/results.cc"\s*:\s*")[0-9a-f]{8}', r"\g<1>deadbeef")),
    ("LoadGen's version", B300, f"{LLM}/Server", stated("loadgen_version", "1.0.0 @ 0000000000")),
    ("summary: target_qps", B300, f"{LLM}/Server",
     lambda copy: copy.replace(copy.summary, r"target_qps : [\d.]+", "target_qps : 500")),
    ("summary: seeds", B300, f"{LLM}/Server",
     lambda copy: copy.replace(copy.summary, r"schedule_rng_seed : \d+", "schedule_rng_seed : 1")),
    ("summary: latencies alone", B300, f"{LLM}/Server",
     lambda copy: copy.retell("99.00 percentile latency", 0.5)),
    ("summary: invalid", B300, f"{LLM}/Server",
     lambda copy: copy.replace(copy.summary, "Result is : VALID", "Result is : INVALID")),
    ("summary of another benchmark", B300, f"{LLM}/Server",
     taken(f"performance/run_1/{SUMMARY}",
           f"results/B300-SXM-270GBx8_TRT/llama3.1-8b/Server/performance/run_1/{SUMMARY}")),
    # --- copies -----------------------------------------------------------------------------------
    ("scenarios exchanged", B300, f"{LLM}/Server",
     exchanged(f"{LLM}/Server/performance", f"{LLM}/Offline/performance")),
    ("accuracy and performance exchanged", B300, f"{LLM}/Server",
     both(exchanged(f"{LLM}/Server/performance/run_1/{DETAIL}", f"{LLM}/Server/accuracy/{DETAIL}"),
          exchanged(f"{LLM}/Server/performance/run_1/{SUMMARY}", f"{LLM}/Server/accuracy/{SUMMARY}"))),
    ("accuracy folder of another scenario", B300, f"{LLM}/Server",
     taken("accuracy", f"results/{LLM}/Offline/accuracy")),
    ("accuracy log of another scenario", B300, f"{LLM}/Server",
     taken(f"accuracy/{ANSWERS}", f"results/{LLM}/Offline/accuracy/{ANSWERS}")),
    ("accuracy log of another benchmark", B300, f"{LLM}/Server",
     taken(f"accuracy/{ANSWERS}", f"results/B300-SXM-270GBx8_TRT/llama3.1-8b/Server/accuracy/{ANSWERS}")),
    ("accuracy text of another benchmark", B300, f"{LLM}/Server",
     taken("accuracy/accuracy.txt", "results/B300-SXM-270GBx8_TRT/llama3.1-8b/Server/accuracy/accuracy.txt")),
    ("copy under another date and process", SLIM, f"{EDGE}/singlestream",
     both(taken("performance/run_1", f"results/{U1}/singlestream/performance/run_1"),
          clock(3_600, "test_datetime", "power_begin", "power_end"), other_process)),
    ("scaled copy of another system's MultiStream", SLIM, f"{EDGE}/multistream",
     both(taken("performance/run_1", f"results/{U1}/multistream/performance/run_1"),
          lambda copy: latencies(copy, 0.6), clock(3_600, "test_datetime"), other_process)),
    ("tests of another scenario", SLIM, f"{EDGE}/offline", moved_in("TEST01", f"{EDGE}/multistream/TEST01")),
    ("tests of another system", SLIM, f"{EDGE}/offline", moved_in("TEST01", f"{U1}/offline/TEST01")),
    ("TEST05 is TEST04", SLIM, f"{EDGE}/offline", moved_in("TEST05", f"{EDGE}/offline/TEST04")),
    # --- accuracy ---------------------------------------------------------------------------------
    ("accuracy: tokens per sample", B300, f"{LLM}/Offline",
     text("accuracy/accuracy.txt", r"'tokens_per_sample': [\d.]+", "'tokens_per_sample': 294.45")),
    ("accuracy: number of answers", B300, f"{LLM}/Offline",
     text("accuracy/accuracy.txt", r"'gen_num': \d+", "'gen_num': 1000")),
    ("accuracy: rouge1 under rougeL", B300, f"{LLM}/Offline",
     text("accuracy/accuracy.txt", r"'rougeL': [\d.]+", "'rougeL': 64.0")),
    ("accuracy: hash", B300, f"{LLM}/Offline",
     text("accuracy/accuracy.txt", r"hash=[0-9a-f]{64}", "hash=" + "a" * 64)),
    ("accuracy: no hash", B300, f"{LLM}/Offline", text("accuracy/accuracy.txt", r"hash=[0-9a-f]{64}\n?", "")),
    ("accuracy: samples exchanged", SLIM, f"{EDGE}/offline", answers(_exchanged)),
    ("accuracy: a record twice", SLIM, f"{EDGE}/offline", answers(_twice)),
    ("accuracy: F1 below exact match", ORIN, f"{ZEN}/singlestream",
     text("accuracy/accuracy.txt", r'"exact_match": [\d.]+', '"exact_match": 99.5')),
    ("accuracy: settings of another length", SLIM, f"{EDGE}/offline",
     lambda copy: copy.set("effective_sample_index_rng_seed", 5, copy.result / "accuracy" / DETAIL)),
    # --- compliance -------------------------------------------------------------------------------
    ("TEST06: samples in another order", B300, f"{LLM}/Server", answers(_exchanged, "TEST06", "accuracy")),
    ("TEST06: a check skipped", B300, f"{LLM}/Server",
     tested("TEST06", "verify_accuracy.txt", r"EOS check pass: True", "EOS check pass: False")),
    ("TEST06 in v5.1: of Offline", TRITON, f"{LAMBDA}/Server", moved_in("TEST06", f"{LAMBDA}/Offline/TEST06")),
    ("TEST01: reference score", SLIM, f"{EDGE}/offline",
     tested("TEST01", "verify_performance.txt", r"reference score = [\d.]+", "reference score = 170000")),
    ("TEST01: answers compared", SLIM, f"{EDGE}/offline",
     tested("TEST01", "verify_accuracy.txt", r"num_perf_log_entries = \d+", "num_perf_log_entries = 0")),
    ("TEST01: mismatches", SLIM, f"{EDGE}/offline",
     tested("TEST01", "verify_accuracy.txt", r"num_perf_log_data_mismatch = 0", "num_perf_log_data_mismatch = 9")),
    ("TEST01: slower than stated", SLIM, f"{EDGE}/offline", in_test("TEST01", "result_samples_per_second", 0.5)),
    ("TEST05: seeds of the main run", SLIM, f"{EDGE}/offline",
     lambda copy: [copy.set(f"effective_{seed}", int(copy.number(f"effective_{seed}")),
                            copy.tests / "TEST05/performance/run_1" / DETAIL) for seed in SEEDS] and None),
    ("TEST04: not the same sample", SLIM, f"{EDGE}/offline",
     lambda copy: copy.set("effective_performance_issue_same", False, copy.tests / "TEST04/performance/run_1" / DETAIL)),
    ("TEST01: answers changed", SLIM, f"{EDGE}/offline",
     lambda copy: copy.replace(copy.tests / "TEST01/accuracy" / ANSWERS, r'("data" : "(?:00)?)[0-9A-F]{4}', r"\g<1>FFFF")),
    ("verification text of another benchmark", BIREN, f"{BR104}/Server",
     tested("TEST01", "verify_performance.txt", r"/resnet50/Server/", "/bert-99.9/Server/")),
    ("verification text of another scenario", BIREN, f"{BR104}/Server",
     tested("TEST01", "verify_performance.txt", r"/resnet50/Server/", "/resnet50/Offline/")),
    # --- power ------------------------------------------------------------------------------------
    ("power: whole meter log scaled", DC, f"{RACK}/offline",
     both(meter(r"((?:Watts|Amps),)([\d.]+)", 0.7), meter(r"((?:Watts|Amps),)([\d.]+)", 0.7, "ranging"))),
    ("power: voltage lowered", DC, f"{RACK}/offline",
     both(meter(r"((?:Watts|Volts),)([\d.]+)", 0.8), meter(r"((?:Watts|Volts),)([\d.]+)", 0.8, "ranging"))),
    ("power: watts and power factor", DC, f"{RACK}/offline", meter(r"((?:Watts|PF),)([\d.]+)", 0.8)),
    ("power: watts a little", DC, f"{RACK}/offline", meter(r"(Watts,)([\d.]+)", 0.95)),
    ("power: meter log of v3.0 scaled", ORIN, f"{ZEN}/offline",
     both(meter(r"((?:Watts|Amps),)([\d.]+)", 0.7), meter(r"((?:Watts|Amps),)([\d.]+)", 0.7, "ranging"))),
    ("power: interval moved", DC, f"{RACK}/offline", clock(7_200, "power_begin", "power_end")),
    ("power: another session's server.json", DC, f"{RACK}/offline",
     taken("performance/power/server.json", f"results/{RACK}/server/performance/power/server.json")),
    ("power: another session's messages", DC, f"{RACK}/offline",
     taken("performance/power/ptd_logs.txt", f"results/{RACK}/server/performance/power/ptd_logs.txt")),
    ("power: uncertainty", DC, f"{RACK}/offline",
     lambda copy: copy.replace(copy.result / "performance/power/server.json", r"Uncertainty,0\.\d+", "Uncertainty,0.05")),
]  # fmt: skip
