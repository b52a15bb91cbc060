"""What users met (cases by number): false errors, missed violations and crashes of other tools.

Cases of a single rule stand in that rule's test module; these are about several, or about the whole.
"""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from assay.status import exit_status
from checker.parse.accuracy_txt import read_accuracy
from checker.parse.reading import File
from reports import render
from schemas.load import load_round, round_names
from schemas.report import Report
from tests.conftest import Grow
from tests.trees import GoodTree

RESNET: dict[str, Any] = {"round": "v6.0", "benchmark": "resnet", "category": "edge"}
RETINANET: dict[str, Any] = {"round": "v5.1", "benchmark": "retinanet", "category": "datacenter"}
LLAMA: dict[str, Any] = {
    "round": "v6.0", "benchmark": "llama2-70b-99", "category": "datacenter",
    "scenarios": ["Offline", "Server", "Interactive"],
}  # fmt: skip


def errors(report: Report) -> set[str]:
    """The rules with an error."""
    return {f.rule for f in report.findings if f.severity == "error"}


def verdicts(report: Report) -> dict[str, str]:
    """Scenario -> verdict."""
    return {r.scenario: r.status for r in report.results}


def only_bad(tree: GoodTree, scenario: str, *rules: str) -> Report:
    """These rules give an error, this scenario alone is invalid, and the exit status says so."""
    report = tree.check()
    assert set(rules) <= errors(report)
    assert {s for s, status in verdicts(report).items() if status == "invalid"} == {scenario}
    assert exit_status(report) == 1
    assert report.summary.invalid == 1
    return report


def test_case_001_no_fixed_query_count_where_early_stopping_decides(grow: Grow) -> None:
    tree = grow(**RESNET)
    for scenario in ("SingleStream", "MultiStream"):
        tree.set_log(tree.result(scenario).detail, "effective_min_query_count", 100)
        tree.set_log(tree.result(scenario).detail, "requested_min_query_count", 100)
    assert "P104" not in {f.rule for f in tree.check().findings}


@pytest.mark.parametrize("name", ["llama3.1-8b", "whisper", "3d-unet-99"])
def test_case_002_and_003_offline_minimum_is_the_benchmarks_own(grow: Grow, name: str) -> None:
    round = load_round("v6.0")
    category = next(iter(round.benchmarks[name].categories))
    wanted = round.benchmarks[name].scenarios["Offline"].min_samples_per_query
    assert wanted is not None and wanted < 24576
    tree = grow(round="v6.0", benchmark=name, category=category)
    assert tree.findings() == []
    tree.set_log(tree.result("Offline").detail, "effective_samples_per_query", wanted - 1)
    found = [f for f in tree.check().findings if f.rule == "P112"]
    assert [f.required for f in found] == [wanted]
    assert f"{wanted:,}" in found[0].message


def test_case_006_token_limits_are_servers_and_interactives(grow: Grow) -> None:
    tree = grow(round="v6.0", benchmark="llama3.1-8b-edge", category="edge")
    key = "result_first_token_99.00_percentile_latency_ns"
    tree.set_log(tree.result("SingleStream").detail, key, 9_000_000_000)
    assert not {"P119", "P120"} & {f.rule for f in tree.check().findings}


@pytest.mark.parametrize("name", round_names())
def test_case_008_and_018_every_name_in_a_round_is_a_benchmark_of_it(name: str) -> None:
    round = load_round(name)
    for target in [*round.aliases.exact.values(), *(t for _, t in round.aliases.contains)]:
        assert target == "" or target in round.benchmarks or target in round.aliases.exact
    for benchmark in round.benchmarks:
        if benchmark.endswith("-99.9"):
            assert benchmark.removesuffix(".9") in round.benchmarks or name == "v6.1"


@pytest.mark.parametrize(
    ("metric", "line", "value"),
    [
        ("ROUGE1", "{'rouge1': 42.9, 'rouge2': 20.1, 'rougeL': 29.9, 'rougeLsum': 40.0}", 42.9),
        ("ROUGEL", "{'rouge1': '42.9', 'rouge2': '20.1', 'rougeL': '29.9'}", 29.9),
        ("ROUGELSUM", "{'rouge1': 42.9, 'rougeL': 29.9, 'rougeLsum': 40.0}", 40.0),
        ("gsm8k_accuracy", "{'gsm8k': 73.8, 'mbxp': 60.2}", 73.8),
        ("CLIP_SCORE", "Accuracy Results: {'FID_SCORE': '23.6', 'CLIP_SCORE': '31.7'}", 31.7),
        ("CLIP_SCORE", "Accuracy Results: {'FID_SCORE': 23.6, 'CLIP_SCORE': 31.7}", 31.7),
        ("F1", '{"exact_match": 83.1, "f1": 90.2}', 90.2),
        ("acc", "accuracy=76.138%, good=38069, total=50000", 76.138),
        ("mAP", "mAP=37.55%", 37.55),
        ("ACCURACY", "Word Error Rate: 2.14%, accuracy=97.86%", 97.86),
    ],
)
def test_case_009_accuracy_lines_as_scripts_write_them(
    tmp_path: Any, metric: str, line: str, value: float
) -> None:
    file = tmp_path / "accuracy.txt"
    file.write_text(f"loading ...\n{line}\n")
    text = read_accuracy(
        File("accuracy.txt", str(file), file.stat().st_size), load_round("v6.0").accuracy_patterns
    )
    assert [v.value for v in text.values[metric]] == [value]


def test_case_026_another_round_than_the_trees_is_said_once(grow: Grow) -> None:
    tree = grow(**RESNET)
    assert tree.check().round == "v6.0"
    report = tree.check(round="v5.1")
    assert [f.rule for f in report.findings if f.rule == "X004"] == ["X004"]


def test_case_027_and_096_the_report_takes_names_and_units_from_the_round(grow: Grow) -> None:
    for options in (RESNET, {**LLAMA, "scenarios": None}):
        tree = grow(**{k: v for k, v in options.items() if v is not None})
        report = tree.check()
        csv = str(render(report, "csv"))
        for row in report.results:
            rules = load_round("v6.0").benchmarks[row.benchmark or ""].scenarios[row.scenario]
            assert row.metric is not None and row.metric.unit == rules.metric.unit
            assert f'"{row.benchmark}"' in csv and f'"{row.metric.unit}"' in csv


@pytest.mark.parametrize("name", [n for n in round_names() if n != "demo"])
def test_case_030_rule_data_cites_its_source(name: str) -> None:
    from importlib import resources

    text = (resources.files("schemas") / "rounds" / f"{name}.toml").read_text(encoding="utf-8")
    assert text.count("Source") >= 8


def test_case_031_a_part_of_the_data_set(grow: Grow) -> None:
    for key in ("qsl_reported_total_count", "effective_accuracy_sample_count"):
        tree = grow(**RESNET)
        tree.set_log(tree.result("Offline").accuracy_detail, key, 500)
        only_bad(tree, "Offline", "A112")


def test_case_032_equal_issue(grow: Grow) -> None:
    tree = grow(**LLAMA)
    tree.set_log(tree.result("Offline").detail, "effective_sample_concatenate_permutation", False)
    only_bad(tree, "Offline", "P121")


def test_case_038_an_open_result_states_its_accuracy(grow: Grow) -> None:
    tree = grow(**{**RESNET, "division": "open"})
    tree.write(tree.result("Offline").accuracy_text, "hello\n")
    only_bad(tree, "Offline", "A103")


def test_case_040_one_list_decides_status_summary_and_csv(grow: Grow) -> None:
    tree = grow(**RESNET)
    tree.set_log(tree.result("Offline").detail, "result_validity", "INVALID")
    report = only_bad(tree, "Offline", "P102")
    assert report.summary.errors == sum(f.severity == "error" for f in report.findings)
    assert str(render(report, "csv")).count("\n") == 1 + report.summary.valid
    assert "has errors" in str(render(report, "terminal"))


def test_case_041_token_limits_are_compared_in_their_units(grow: Grow) -> None:
    limit = load_round("v6.0").benchmarks["llama2-70b-99"].scenarios["Server"].tpot_ms
    assert limit is not None
    key = "result_time_per_output_token_99.00_percentile_ns"
    tree = grow(**LLAMA)
    tree.set_log(tree.result("Server").detail, key, int(limit * 1e6) + 1)
    assert "P120" in errors(tree.check())


def test_case_042_both_detail_logs_absent(grow: Grow) -> None:
    tree = grow(**RESNET)
    tree.remove(tree.result("Offline").detail)
    tree.remove(tree.result("Offline").accuracy_detail)
    only_bad(tree, "Offline", "P101", "A101")


def test_case_049_invalid_run(grow: Grow) -> None:
    tree = grow(**RESNET)
    tree.set_log(tree.result("Offline").detail, "result_validity", "INVALID")
    only_bad(tree, "Offline", "P102")


@pytest.mark.parametrize(
    ("key", "rule"), [("result_min_duration_met", "P107"), ("result_min_queries_met", "P105")]
)
def test_case_050_conditions_that_were_not_met(grow: Grow, key: str, rule: str) -> None:
    tree = grow(**RESNET)
    tree.set_log(tree.result("Offline").detail, key, False)
    only_bad(tree, "Offline", rule)


def test_case_051_error_record(grow: Grow) -> None:
    tree = grow(**RESNET)
    tree.add_log(tree.result("Offline").detail, "error_runtime", "boom", is_error=True)
    only_bad(tree, "Offline", "P103")


def test_case_052_interactive_is_held_to_its_own_limits(grow: Grow) -> None:
    tree = grow(**LLAMA)
    shutil.copy(tree.result("Server").detail, tree.result("Interactive").detail)
    shutil.copy(tree.result("Server").summary, tree.result("Interactive").summary)
    only_bad(tree, "Interactive", "P119", "P120")


def test_case_053_missing_summary(grow: Grow) -> None:
    tree = grow(**RESNET)
    tree.remove(tree.result("Offline").summary)
    only_bad(tree, "Offline", "P130")


def test_case_054_test_modes(grow: Grow) -> None:
    tree = grow(**RESNET)
    tree.set_log(tree.result("Offline").detail, "effective_test_mode", "AccuracyOnly")
    only_bad(tree, "Offline", "P111")
    # Such a folder was published as valid up to v6.0.
    tree = grow(**{**RESNET, "round": "v6.1"})
    tree.set_log(tree.result("Offline").accuracy_detail, "effective_test_mode", "PerformanceOnly")
    only_bad(tree, "Offline", "A113")


def test_case_055_seeds_of_the_accuracy_run(grow: Grow) -> None:
    tree = grow(**RESNET)
    tree.set_log(tree.result("Offline").accuracy_detail, "effective_qsl_rng_seed", 0)
    assert ("A114", tree.relative(tree.result("Offline").accuracy_detail)) in tree.findings()


def test_case_056_any_word_is_no_hash(grow: Grow) -> None:
    tree = grow(**RESNET)
    text = tree.result("Offline").accuracy_text
    lines = text.read_text().splitlines()
    tree.write(
        text, "\n".join(["hash=deadbeef" if "hash=" in line else line for line in lines]) + "\n"
    )
    only_bad(tree, "Offline", "A109")


def test_case_057_a_bad_value_after_a_good_one(grow: Grow) -> None:
    tree = grow(**RESNET)
    tree.append(tree.result("Offline").accuracy_text, "accuracy=10.000%, good=5000, total=50000\n")
    only_bad(tree, "Offline", "A107")


def test_case_058_a_result_recorded_twice(grow: Grow) -> None:
    tree = grow(**RESNET)
    tree.add_log(tree.result("Offline").detail, "result_samples_per_second", 999999999)
    only_bad(tree, "Offline", "P123")


def test_case_061_a_result_of_zero(grow: Grow) -> None:
    tree = grow(**RESNET)
    tree.set_log(tree.result("Offline").detail, "result_samples_per_second", 0)
    report = only_bad(tree, "Offline", "P122")
    assert str(render(report, "csv")).count('"Offline"') == 0


def test_case_062_a_second_run_is_reported(grow: Grow) -> None:
    tree = grow(**RESNET)
    run = tree.result("Offline").performance
    shutil.copytree(run, run.parent / "run_2")
    assert ("P138", tree.relative(run.parent / "run_2")) in tree.findings()


def test_case_063_accuracy_log_of_any_size_beside_the_performance_run(grow: Grow) -> None:
    tree = grow(**RESNET)
    path = tree.result("Offline").performance / "mlperf_log_accuracy.json"
    tree.write(path, "x" * 20_000)
    assert ("P143", tree.relative(path)) in tree.findings()


def test_case_064_loadgen_of_another_round(grow: Grow) -> None:
    tree = grow(**RESNET)
    tree.set_log(tree.result("Offline").detail, "loadgen_version", "0.5a1 @ 0123456789")
    assert ("P128", tree.relative(tree.result("Offline").detail)) in tree.findings()


def test_case_065_three_queries(grow: Grow) -> None:
    tree = grow(**RESNET)
    tree.set_log(tree.result("SingleStream").detail, "result_query_count", 3)
    only_bad(tree, "SingleStream", "P115")


def test_case_066_server_tail_beyond_its_bound(grow: Grow) -> None:
    tree = grow(**RETINANET)
    key = "result_99.00_percentile_latency_ns"
    tree.set_log(tree.result("Server").detail, key, 9_000_000_000)
    assert "P117" in errors(tree.check())
