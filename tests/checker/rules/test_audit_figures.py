"""Figures that bind each other, and copies: a good tree has no finding, one thing changed gives one."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checker.replay import Library, LoadedSet, RunFacts, sample_indices
from tests.conftest import Grow
from tests.trees import GoodTree

EDGE: dict[str, Any] = {"benchmark": "yolo-99", "category": "edge"}
TOKENS: dict[str, Any] = {"benchmark": "llama2-70b-99", "category": "datacenter"}
VISION: dict[str, Any] = {"round": "v5.0", "benchmark": "resnet", "category": "datacenter"}


def _scaled(scenario: str, key: str, factor: float) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        place = tree.result(scenario).detail
        old = tree.get_log(place, key)
        new = old * factor
        tree.set_log(place, key, int(new) if isinstance(old, int) else new)

    return change


def _late_end(tree: GoodTree) -> None:
    place = tree.result("SingleStream").detail
    end = str(tree.get_log(place, "power_end"))
    later = re.sub(r":(\d\d):", lambda m: f":{(int(m[1]) + 20) % 60:02d}:", end, count=1)
    tree.set_log(place, "power_end", later)


def _none_over(tree: GoodTree) -> None:
    place = tree.result("Server").detail
    limit = tree.get_log(place, "effective_target_latency_ns")
    count = tree.get_log(place, "result_query_count")
    tree.set_log(place, "result_99.00_percentile_latency_ns", int(limit * 0.9))
    tree.set_log(place, "result_99.90_percentile_latency_ns", int(limit * 1.1))
    tree.set_log(place, "result_overlatency_query_count", count // 20)


def _flat_tail(tree: GoodTree) -> None:
    place = tree.result("SingleStream").detail
    low = tree.get_log(place, "result_95.00_percentile_latency_ns")
    tree.set_log(place, "result_97.00_percentile_latency_ns", low + 1000)
    tree.set_log(place, "result_99.00_percentile_latency_ns", low + 1001)


def _slow_accuracy_run(tree: GoodTree) -> None:
    place = tree.result("SingleStream")
    tree.set_log(place.detail, "result_mean_latency_ns", 100_000_000)
    accuracy = place.accuracy_detail
    tree.set_log(accuracy, "loaded_qsl_set", list(range(300)))
    # 300 queries of 100 ms are 30 s; the log's clock says three times as much.
    text = accuracy.read_text()
    start = float(re.findall(r'"key": "loaded_qsl_set".*?"time_ms": ([\d.]+)', text)[-1])
    text = re.sub(
        r'("key": "power_end".*?"time_ms": )[\d.]+', lambda m: f"{m[1]}{start + 90_000}", text
    )
    accuracy.write_text(text)


def _scaled_copy(tree: GoodTree) -> None:
    ours, theirs = (tree.result(name).detail for name in ("SingleStream", "MultiStream"))
    names = ["mean", "max", *(f"{p}_percentile" for p in ("50.00", "90.00", "95.00"))]
    names += [f"{p}_percentile" for p in ("97.00", "99.00", "99.90")]
    for index, name in enumerate(names):
        value = 1_000_000 * (index + 3) ** 2 + index
        tree.set_log(ours, f"result_{name}_latency_ns", value)
        tree.set_log(theirs, f"result_{name}_latency_ns", value * 3)


def _answers_of_the_accuracy_run(tree: GoodTree) -> None:
    place = tree.result("Offline")
    test = tree.root / place.path / "TEST01" / "accuracy" / "mlperf_log_accuracy.json"
    shutil.copyfile(place.accuracy_log, test)


def _text_of_another_scenario(tree: GoodTree) -> None:
    own, other = (tree.result(name) for name in ("SingleStream", "Offline"))
    lines = own.accuracy_log.read_text().splitlines(keepends=True)
    own.accuracy_log.write_text("".join([lines[0], *lines[2:], lines[1]]))
    shutil.copyfile(other.accuracy_text, own.accuracy_text)


def _scaled_meter_log(tree: GoodTree) -> None:
    path = tree.result("Offline").performance.parent / "ranging/spl.txt"
    text = path.read_text()
    path.write_text(
        re.sub(r"Amps,([\d.]+)", lambda match: f"Amps,{float(match[1]) * 0.8:.6f}", text)
    )


def _messages_of_another_session(tree: GoodTree) -> None:
    path = tree.result("Offline").performance.parent / "power/ptd_logs.txt"
    text = path.read_text()
    years = re.findall(r"\b(20\d\d)\b", text)
    assert years
    path.write_text(text.replace(years[0], str(int(years[0]) - 1)))


def _verified(tree: GoodTree, place: str) -> None:
    """The performance text of TEST01 names the logs that it compared."""
    text = tree.root / tree.result("Offline").path / "TEST01/verify_performance.txt"
    text.write_text(
        f"loaded /home/x/results/{place}/performance/run_1/mlperf_log_detail.txt\n"
        + text.read_text()
    )


def _in_test_order(tree: GoodTree, scenario: str) -> None:
    """TEST06 of Server as it is published, without a detail log, in the order of a scenario."""
    place = tree.result("Server")
    test = tree.root / place.path / "TEST06"
    shutil.rmtree(test / "performance")
    text = place.detail.read_text()
    values = {
        key: json.loads(value)
        for key, value in re.findall(r'"key": "([^"]+)", "value": (.+?), "time_ms"', text)
    }
    facts = dataclasses.replace(
        RunFacts.from_log(values),
        scenario=scenario,
        permutation=False,
        expected_latency_ns=None,
        samples_per_query=100 if scenario == "Offline" else 1,
        min_query_count=100,
    )
    loaded = LoadedSet(np.array(values["loaded_qsl_set"]), len(values["loaded_qsl_set"]))
    order = sample_indices(facts, loaded, range(100), Library.GNU_11)
    records = [
        f'{{ "seq_id" : {seq}, "qsl_idx" : {index}, "data" : "00000000", "token_count" : 1 }}'
        for seq, index in enumerate(order.tolist())
    ]
    log = test / "accuracy/mlperf_log_accuracy.json"
    log.write_text("[\n" + ",\n".join(records) + "\n]\n")


POWER: dict[str, Any] = {**EDGE, "power": True}

BREAKS: dict[str, list[tuple[dict[str, Any], Callable[[GoodTree], None], str]]] = {
    "R132": [(TOKENS, _scaled("Server", "result_time_to_output_token_mean", 0.4), "Server")],
    "R133": [(TOKENS, _scaled("Server", "result_token_throughput", 1.3), "Server")],
    "R134": [(EDGE, _late_end, "SingleStream")],
    "R135": [(EDGE, _scaled("SingleStream", "result_mean_latency_ns", 0.5), "SingleStream")],
    "R136": [(VISION, _none_over, "Server")],
    "R137": [(EDGE, _flat_tail, "SingleStream")],
    "R138": [(EDGE, _slow_accuracy_run, "SingleStream")],
    "R139": [(POWER, _scaled_meter_log, "Offline/performance/power")],
    "R140": [(POWER, _messages_of_another_session, "Offline/performance/power/ptd_logs.txt")],
    "R308": [(EDGE, _scaled_copy, "")],
    "R309": [(EDGE, _answers_of_the_accuracy_run, "Offline/TEST01")],
    "R322": [(EDGE, _text_of_another_scenario, "SingleStream/accuracy/accuracy.txt")],
    "R316": [(TOKENS, _scaled("Offline", "result_tokens_per_second", 1.4), "")],
}

BREAKS_APART = {
    "R207": "test_token_test_is_of_its_own_scenario",
    "R317": "test_a_verification_text_is_of_its_own_runs",
}


@pytest.mark.parametrize("rule", BREAKS)
def test_one_change_is_one_finding(rule: str, grow: Grow) -> None:
    for spec, change, where in BREAKS[rule]:
        tree = grow(**spec)
        assert tree.check(audit=True, select=(rule,)).findings == []
        change(tree)
        (finding,) = tree.check(audit=True, select=(rule,)).findings
        assert finding.rule == rule and finding.evidence is not None
        assert f"/{where}" in f"/{finding.path}", finding
        assert finding.results, finding


@pytest.mark.parametrize("word", ["TODO", hashlib.sha256().hexdigest()])
def test_two_runs_without_a_hash_do_not_share_one(word: str, grow: Grow) -> None:
    tree = grow(**EDGE)
    _text_of_another_scenario(tree)
    for scenario in ("Offline", "SingleStream"):
        text = tree.result(scenario).accuracy_text
        text.write_text(re.sub(r"hash=\w+", f"hash={word}", text.read_text()))
    assert tree.check(audit=True, select=("R322",)).findings == []


def test_a_verification_text_is_of_its_own_runs(grow: Grow) -> None:
    tree = grow(**EDGE)
    own = "/".join(tree.result("Offline").path.split("/")[-3:])
    _verified(tree, own)
    assert tree.check(audit=True, select=("R317",)).findings == []
    for place, what in (
        (own.replace("Offline", "server"), "found a path of the scenario Server"),
        (own.replace("yolo-99", "resnet"), "found a path of the benchmark"),
    ):
        _verified(tree, place)
        (finding,) = tree.check(audit=True, select=("R317",)).findings
        assert what in finding.message and finding.severity == "error"
        text = tree.root / str(finding.path)
        text.write_text("".join(text.read_text().splitlines(keepends=True)[1:]))


@pytest.mark.parametrize(
    ("order", "severity"), [("Server", None), ("Offline", "error"), ("unknown", "warning")]
)
def test_token_test_is_of_its_own_scenario(order: str, severity: str | None, grow: Grow) -> None:
    tree = grow(**TOKENS)
    _in_test_order(tree, "Server" if order == "unknown" else order)
    if order == "unknown":
        log = tree.root / tree.result("Server").path / "TEST06/accuracy/mlperf_log_accuracy.json"
        log.write_text(log.read_text().replace('"seq_id" : 5,', '"seq_id" : 105,'))
    found = tree.check(audit=True, select=("R207",)).findings
    assert [finding.severity for finding in found] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("answers", "severity"), [("the same", None), ("others", "warning"), ("unseen", "note")]
)
def test_equal_tests_say_something_where_a_model_does_not_repeat_itself(
    answers: str, severity: str | None, grow: Grow
) -> None:
    tree = grow(**TOKENS)
    logs = [tree.root / tree.result(s).path / "TEST06/accuracy" for s in ("Offline", "Server")]
    test = [(number, 7 * number % 50, f"{number:08X}") for number in range(20)]
    for folder, scenario in zip(logs, ("Offline", "Server"), strict=True):
        _answer(folder / "mlperf_log_accuracy.json", test)
        own = [
            (seq, index + (900 if answers == "unseen" else 0), data) for seq, index, data in test
        ]
        if answers == "others":
            own = [(seq, index, f"{seq + 99:08X}") for seq, index, _ in test]
        _answer(tree.result(scenario).accuracy_log, own[::-1])
    found = tree.check(audit=True, select=("R309",)).findings
    assert [finding.severity for finding in found] == ([severity] if severity else [])


def _answer(log: Path, records: list[tuple[int, int, str]]) -> None:
    lines = [
        f'{{ "seq_id" : {seq}, "qsl_idx" : {index}, "data" : "{data}", "token_count" : 1 }}'
        for seq, index, data in records
    ]
    log.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def test_an_accuracy_text_that_contradicts_itself_is_an_error_of_an_audit(grow: Grow) -> None:
    tree = grow(**VISION)
    text = tree.result("Offline").accuracy_text
    changed = re.sub(r"good=\d+", "good=1234", text.read_text())
    text.write_text(changed if "good=" in changed else "good=1234, total=50000\n" + changed)
    for audit, severity in ((False, "warning"), (True, "error")):
        (finding,) = tree.check(audit=audit, select=("A123",)).findings
        assert finding.severity == severity


def test_a_scaled_copy_names_both_and_the_factor(grow: Grow) -> None:
    tree = grow(**EDGE)
    _scaled_copy(tree)
    (finding,) = tree.check(audit=True, select=("R308",)).findings
    assert len(finding.results) == 2 and "by the factor" in finding.message
    assert finding.evidence is not None and finding.evidence["factor"] in (3, float(f"{1 / 3:.8g}"))
