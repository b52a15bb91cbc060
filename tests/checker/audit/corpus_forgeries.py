"""Forgeries of real published submissions: one edit each, as a cheat or a careless submitter makes.

``python -m tests.checker.audit.corpus_forgeries`` makes each of them in a copy of one system of the
corpus, audits it and prints what is newly found. Nothing of the corpus is kept.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checker.engine import Options, audit
from schemas.report import Finding
from tests.corpus import unpacked

DETAIL, SUMMARY, ANSWERS = (
    "mlperf_log_detail.txt",
    "mlperf_log_summary.txt",
    "mlperf_log_accuracy.json",
)
LATENCIES = ("min", "max", "mean", "50.00", "90.00", "95.00", "97.00", "99.00", "99.90")

Edit = Callable[["Copy"], None]


@dataclass(frozen=True)
class Source:
    """One submitter of one round; only the systems named are copied."""

    round: str
    submitter: str
    systems: tuple[str, ...]


class Copy:
    """A copy of a source that can be edited. ``result`` is the folder of one result in it."""

    def __init__(self, root: Path, source: Source, result: str, compliance: str) -> None:
        self.root, self.source = root, source
        self.base = root / "closed" / source.submitter
        self.result = self.base / "results" / result
        self.tests = self.base / compliance / result
        run = self.result / "performance" / "run_1"
        self.detail, self.summary = run / DETAIL, run / SUMMARY

    def number(self, key: str, path: Path | None = None) -> float:
        """The last value that the detail log states for a key."""
        pattern = rf'"key": "{re.escape(key)}", "value": ([-\d.e+]+)'
        return float(re.findall(pattern, (path or self.detail).read_text("utf-8"))[-1])

    def set(self, key: str, value: object, path: Path | None = None) -> None:
        """Replace a key's value in a detail log."""
        path = path or self.detail
        text, count = re.subn(
            rf'("key": "{re.escape(key)}", "value": )("(?:[^"\\]|\\.)*"|[^,]+)',
            lambda match: match[1] + json.dumps(value),
            path.read_text("utf-8"),
        )
        assert count, f"no {key} in {path}"
        path.write_text(text, "utf-8")

    def scale(self, factor: float, *keys: str, path: Path | None = None) -> None:
        """Multiply numbers of the detail log, in LoadGen's own precision."""
        for key in keys:
            value = self.number(key, path) * factor
            whole = key.endswith(("_ns", "_count", "_min", "_max", "_mean"))
            self.set(key, round(value) if whole else float(f"{value:.6g}"), path)

    def retell(self, label: str, factor: float) -> None:
        """Multiply the numbers of the summary's lines that begin so."""
        lines = self.summary.read_text("utf-8").splitlines()
        hits = 0
        for index, line in enumerate(lines):
            if line.startswith(label):
                head, _, value = line.rpartition(":")
                number = float(value) * factor
                text = str(round(number)) if "." not in value else f"{number:.2f}"
                lines[index] = f"{head}: {text}"
                hits += 1
        assert hits, f"no {label} in {self.summary}"
        self.summary.write_text("\n".join(lines) + "\n", "utf-8")

    def replace(self, path: Path, old: str, new: str) -> None:
        """Replace text by a regular expression."""
        text, count = re.subn(old, new, path.read_text("utf-8"))
        assert count, f"no {old} in {path}"
        path.write_text(text, "utf-8")


def _latencies(copy: Copy, factor: float) -> None:
    keys = [f"result_{n}_latency_ns" for n in LATENCIES[:3]]
    keys += [f"result_{n}_percentile_latency_ns" for n in LATENCIES[3:]]
    copy.scale(factor, *keys)
    for label in ("Min latency", "Max latency", "Mean latency"):
        copy.retell(label, factor)
    for name in LATENCIES[3:]:
        copy.retell(f"{name} percentile latency", factor)


def scaled(factor: float, key: str, *labels: str) -> Edit:
    """One figure raised in the detail log and the summary."""

    def edit(copy: Copy) -> None:
        copy.scale(factor, key)
        for label in labels:
            copy.retell(label, factor)

    return edit


def stated(key: str, value: object) -> Edit:
    """One value of the detail log replaced."""
    return lambda copy: copy.set(key, value)


def text(name: str, old: str, new: str) -> Edit:
    """Text of a file of the result replaced."""
    return lambda copy: copy.replace(copy.result / name, old, new)


def taken(target: str, source: str) -> Edit:
    """A file or folder of another result in the place of this one's (below ``results/``)."""

    def edit(copy: Copy) -> None:
        there, here = copy.base / source, copy.result / target
        if there.is_dir():
            shutil.rmtree(here, ignore_errors=True)
            shutil.copytree(there, here)
        else:
            shutil.copyfile(there, here)

    return edit


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
    _latencies(copy, 0.8)
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
        _latencies(copy, factor)
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


CASES: list[tuple[str, Source, str, Edit]] = [
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
    ("latencies lowered", B300, f"{LLM}/Server", lambda copy: _latencies(copy, 0.5)),
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
    ("Server: latencies lowered", DC, f"{RACK}/server", lambda copy: _latencies(copy, 0.5)),
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
"""Name, source, result, edit."""


@dataclass
class Verdict:
    """What an audit newly finds in a forged tree, worst first."""

    name: str
    severity: str
    rules: list[str]
    error_paths: list[str]


def grown(source: Source, folder: Path) -> Path:
    """A copy of the source's systems as a tree of its own."""
    tree = unpacked(source.round)
    root = folder / "-".join((source.round, source.submitter, *source.systems))
    base = tree / "closed" / source.submitter
    for entry in base.iterdir():
        target = root / "closed" / source.submitter / entry.name
        if entry.name in ("results", "measurements", "compliance", "systems"):
            for system in source.systems:
                for found in entry.glob(f"{system}*"):
                    if found.is_dir() and found.name == system:
                        # A twin with another accuracy target holds the same logs: it would tell.
                        twin = shutil.ignore_patterns("llama2-70b-99")
                        shutil.copytree(found, target / found.name, ignore=twin)
                    elif found.is_file():
                        target.mkdir(parents=True, exist_ok=True)
                        shutil.copyfile(found, target / found.name)
        elif entry.is_dir():
            shutil.copytree(entry, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(entry, target)
    return root


def _key(finding: Finding) -> tuple[str, str, str | None, str]:
    return finding.rule, finding.severity, finding.path, finding.message


def judged() -> list[Verdict]:
    """Every case, forged and audited."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        masters: dict[Source, tuple[Path, Counter[tuple[str, str, str | None, str]]]] = {}
        for title, source, result, edit in CASES:
            if source not in masters:
                root = grown(source, folder)
                before = audit([root], Options(round=source.round, audit=True, jobs=1))
                masters[source] = root, Counter(map(_key, before.findings))
            master, known = masters[source]
            forged = folder / "forged"
            shutil.copytree(master, forged)
            compliance = "results" if source.round >= "v6.0" else "compliance"
            edit(Copy(forged, source, result, compliance))
            report = audit([forged], Options(round=source.round, audit=True, jobs=1))
            new = list((Counter(map(_key, report.findings)) - known).elements())
            shutil.rmtree(forged)
            ranks = ("error", "warning", "note")
            severity = min((f[1] for f in new), key=ranks.index, default="nothing")
            rules = sorted({f[0] for f in new if f[1] == severity})
            paths = sorted({f[2] or "" for f in new if f[1] == "error"})
            found.append(Verdict(title, severity, rules, paths))
    return found


if __name__ == "__main__":
    verdicts = judged()
    for verdict in verdicts:
        print(f"{verdict.severity:<8} {verdict.name:<46} {' '.join(verdict.rules)}")
    print(Counter(v.severity for v in verdicts))
