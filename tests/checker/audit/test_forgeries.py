"""Forged logs, each on a tree that the real LoadGen wrote: two rules or more see it, by line."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.report import Finding, Report
from tests.checker.audit.conftest import Real
from tests.trees import DETAIL, MARKER, SUMMARY, GoodTree


@dataclasses.dataclass(frozen=True)
class Forgery:
    """change: forges, and returns the file and line changed (None: not one line).

    seen_by: rules that must each newly report something; every one looks at something else.
    """

    change: Callable[[GoodTree], tuple[Path, int | None]]
    seen_by: set[str]


def _line(path: Path, key: str) -> int:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if f'"key": "{key}"' in line:
            return number
    raise KeyError(key)


def _scale(tree: GoodTree, place: Path, key: str, factor: float) -> tuple[Path, int]:
    old = tree.get_log(place, key)
    new = old * factor
    tree.set_log(place, key, int(new) if isinstance(old, int) else float(f"{new:.6g}"))
    return place, _line(place, key)


def _metric_multiplied(tree: GoodTree) -> tuple[Path, int]:
    place = tree.result("Offline")
    found = _scale(tree, place.detail, "result_samples_per_second", 2)
    value = tree.get_log(place.detail, "result_samples_per_second")
    tree.set_summary(place.summary, "Samples per second", value)
    return found


def _percentile_changed(tree: GoodTree) -> tuple[Path, int]:
    place = tree.result("SingleStream")
    key = "result_95.00_percentile_latency_ns"
    value = tree.get_log(place.detail, "result_90.00_percentile_latency_ns") - 1
    tree.set_log(place.detail, key, value)
    tree.set_summary(place.summary, "95.00 percentile latency (ns)", value)
    return place.detail, _line(place.detail, key)


def _one_latency(tree: GoodTree) -> tuple[Path, int]:
    return _scale(tree, tree.result("Offline").detail, "result_mean_latency_ns", 3)


def _other_system(tree: GoodTree) -> tuple[Path, None]:
    source = tree.result("Offline").performance
    target = Path(str(source).replace("/box1/", "/box2/"))
    for name in (DETAIL, SUMMARY):
        (target / name).write_bytes((source / name).read_bytes())
    return target / DETAIL, None


def _other_system_redated(tree: GoodTree) -> tuple[Path, None]:
    path, _ = _other_system(tree)
    when = datetime.datetime.fromisoformat(tree.get_log(path, "test_datetime"))
    tree.set_log(path, "test_datetime", (when + datetime.timedelta(hours=5)).isoformat())
    return path, None


def _seeds_swapped(tree: GoodTree) -> tuple[Path, int]:
    place = tree.result("Offline").detail
    names = ("qsl_rng_seed", "sample_index_rng_seed")
    old = [tree.get_log(place, f"effective_{name}") for name in names]
    for name, value in zip(names, reversed(old), strict=True):
        tree.set_log(place, f"effective_{name}", value)
        tree.set_log(place, f"requested_{name}", value)
    return place, _line(place, "loaded_qsl_set")


def _other_rate(tree: GoodTree) -> tuple[Path, int]:
    place = tree.result("Server")
    for key in ("effective_target_qps", "requested_server_target_qps"):
        tree.set_log(place.detail, key, 5000)
    tree.set_summary(place.summary, "target_qps", 5000)
    return place.detail, _line(place.detail, "generated_query_count")


def _records_reordered(tree: GoodTree) -> tuple[Path, int]:
    path = tree.result("SingleStream").accuracy_log
    records = json.loads(path.read_text())
    a, b = records[10], records[20]
    a["qsl_idx"], b["qsl_idx"] = b["qsl_idx"], a["qsl_idx"]
    path.write_text("[\n" + ",\n".join(json.dumps(r) for r in records) + "\n]\n")
    return path, 12


def _test_from_main(tree: GoodTree) -> tuple[Path, None]:
    place = tree.result("Offline")
    target = tree.root / place.path / "TEST01/performance/run_1"
    for name in (DETAIL, SUMMARY):
        (target / name).write_bytes((place.performance / name).read_bytes())
    return target / DETAIL, None


def _summary_only(tree: GoodTree) -> tuple[Path, int]:
    place = tree.result("Offline")
    value = tree.get_log(place.detail, "result_samples_per_second")
    tree.set_summary(place.summary, "Samples per second", value * 2)
    lines = place.summary.read_text().splitlines()
    return place.summary, 1 + next(
        i for i, t in enumerate(lines) if t.startswith("Samples per sec")
    )


def _detail_only(tree: GoodTree) -> tuple[Path, int]:
    return _scale(tree, tree.result("Server").detail, "result_completed_samples_per_sec", 1.2)


def _dates_shifted(tree: GoodTree) -> tuple[Path, int]:
    place = tree.result("Offline").detail
    when = datetime.datetime.fromisoformat(tree.get_log(place, "test_datetime"))
    early = when - datetime.timedelta(days=900, hours=3, minutes=7)
    tree.set_log(place, "test_datetime", early.strftime("%Y-%m-%dT%H:%M:%SZ"))
    return place, _line(place, "test_datetime")


def _half_the_pids(tree: GoodTree) -> tuple[Path, int]:
    place = tree.result("Server").detail
    lines = place.read_text().splitlines()
    half = len(lines) // 2
    for number in range(half, len(lines)):
        record = json.loads(lines[number][len(MARKER) :])
        record["metadata"]["pid"] += 1
        lines[number] = MARKER + json.dumps(record)
    place.write_text("\n".join(lines) + "\n")
    return place, half + 1


FORGERIES = {
    "metric-multiplied": Forgery(_metric_multiplied, {"P132", "R103", "R127"}),
    "percentile-changed": Forgery(_percentile_changed, {"P133", "R108", "R127"}),
    "one-latency-line-edited": Forgery(_one_latency, {"P131", "R125"}),
    "log-of-another-system-redated": Forgery(_other_system_redated, {"R303"}),
    "seeds-swapped": Forgery(_seeds_swapped, {"P109", "R201"}),
    "schedule-of-another-rate": Forgery(_other_rate, {"R202", "R205"}),
    "records-reordered": Forgery(_records_reordered, {"R131", "R203"}),
    "test01-from-main": Forgery(_test_from_main, {"R204", "C124"}),
    "summary-only": Forgery(_summary_only, {"P131", "R127"}),
    "detail-only": Forgery(_detail_only, {"P131", "P132", "R105"}),
    "dates-shifted": Forgery(_dates_shifted, {"R118", "R120"}),
    "pids-of-half-the-file": Forgery(_half_the_pids, {"R121", "R122"}),
}


def _mark(finding: Finding) -> tuple[object, ...]:
    return finding.rule, finding.path, finding.message


@pytest.mark.parametrize("name", FORGERIES)
def test_forgery(name: str, real: Real, untouched: Report) -> None:
    tree = real()
    path, line = FORGERIES[name].change(tree)
    before = {_mark(f) for f in untouched.findings}
    new = [f for f in tree.check(audit=True).findings if _mark(f) not in before]
    told = "\n".join(f"{f.rule} {f.path}:{f.line} {f.message}" for f in new)
    assert FORGERIES[name].seen_by <= {f.rule for f in new}, told
    here = [
        f
        for f in new
        if (f.path == tree.relative(path) and f.line is not None)
        # Of a log and its copy neither is blamed: both are named.
        or (line is None and isinstance(f.found, list) and tree.relative(path) in f.found)
    ]
    assert here, told
    if line is not None:
        assert line in {f.line for f in here}, (line, told)
    for finding in new:
        if finding.rule.startswith("R"):
            assert finding.evidence is not None, finding
            assert finding.evidence["formula"]
            assert finding.evidence["confidence"] in ("certain", "high", "moderate", "low")


def test_untouched_logs_agree(untouched: Report) -> None:
    """Everything that LoadGen wrote agrees with itself; how the runs came out is another matter."""
    found = {
        (f.rule, f.severity, f.path, f.message) for f in untouched.findings if f.rule[0] == "R"
    }
    assert not {f for f in found if f[1] != "note"}
    assert not {f.rule for f in untouched.findings} & {"X001", "P131", "P132", "P133", "P142"}


@pytest.mark.parametrize("jobs", [1, 2])
def test_same_report_for_any_number_of_jobs(jobs: int, master: GoodTree, untouched: Report) -> None:
    assert master.check(audit=True, jobs=jobs) == untouched
