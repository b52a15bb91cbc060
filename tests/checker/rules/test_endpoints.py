"""Endpoints results (v6.1): a good tree of the kind, one thing broken, the whole list of findings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from checker.engine import Options, check
from checker.judging import Judge
from checker.model import Result, System
from checker.parse.documents import Document
from checker.parse.endpoints import Endpoints
from checker.parse.reading import Folder
from checker.rule import Rule
from checker.rules.endpoints.accuracy import endpoints_accuracy_complete
from checker.rules.endpoints.audits import endpoints_audits
from checker.rules.endpoints.performance import endpoints_duration
from schemas.load import load_round
from tests.trees import good_tree

ROUND = load_round("v6.1")
NAME = "deepseek-r1"
SCENARIO = "Interactive"
BASE = f"closed/Acme/results/box1/{NAME}/{SCENARIO}"
CONFIG, SUMMARY, ACCURACY = (
    "config.yaml", "performance/result_summary.json", "accuracy/accuracy_results.json"
)  # fmt: skip


class EndpointsTree:
    """A good tree whose one result holds endpoints documents instead of LoadGen's logs."""

    def __init__(self, root: Path, name: str = NAME, scenario: str = SCENARIO) -> None:
        tree = good_tree(
            root,
            round="v6.1",
            benchmark=name,
            category="datacenter" if "datacenter" in ROUND.benchmarks[name].categories else "edge",
            scenarios=list(dict.fromkeys([scenario, "Offline"]))
            if scenario != "SingleStream"
            else None,
        )
        self.root = tree.root
        self.result = tree.root / f"closed/Acme/results/box1/{name}/{scenario}"
        for log in self.result.rglob("mlperf_log_*"):
            log.unlink()
        (self.result / "accuracy" / "accuracy.txt").unlink()
        (self.result / "performance" / "run_1").rmdir()
        (self.result / "user.conf").unlink(missing_ok=True)
        for test in self.result.glob("TEST*"):
            for file in sorted(test.rglob("*"), reverse=True):
                file.rmdir() if file.is_dir() else file.unlink()
            test.rmdir()
        self._write()

    def _write(self) -> None:
        benchmark = ROUND.benchmarks[NAME]
        gate = benchmark.accuracy[0]
        size = benchmark.dataset.size
        mean = 3886.2274
        seconds, done = 1200.0, 60_000

        def tail(scale: float) -> dict[str, Any]:
            table = {str(p): scale * (1 + p / 100) for p in (99.9, 99.0, 97.0, 95.0, 90.0, 50.0)}
            return {
                "avg": scale * 1.4,
                "min": scale,
                "max": scale * 3,
                "percentiles": table,
                "early_stopping_percentiles": dict(table),
            }

        self.config = {
            "name": "run", "type": "online", "version": "1.0",
            "settings": {
                "runtime": {
                    "min_duration_ms": 1_200_000, "n_samples_to_issue": done,
                    "scheduler_random_seed": int(ROUND.seeds.schedule_rng_seed),
                    "dataloader_random_seed": int(ROUND.seeds.sample_index_rng_seed),
                },
                "load_pattern": {"type": "poisson", "target_qps": 50.0},
            },
        }  # fmt: skip
        self.summary = {
            "n_samples_issued": done, "n_samples_completed": done, "n_samples_failed": 0,
            "duration_ns": int(seconds * 1e9), "state": "complete", "complete": True,
            "ttft": tail(2e8), "tpot": tail(5e6), "latency": tail(1e10),
            "output_sequence_lengths": {"total": int(mean * done), "avg": mean},
            "qps": done / seconds, "tps": int(mean * done) / seconds,
        }  # fmt: skip
        self.accuracy = {
            "average_accuracy": gate.reference,
            "accuracy_scores": [
                {"dataset_name": "set", "dataset_type": "accuracy", "score": gate.reference,
                 "unit_samples": size, "total_samples": size, "complete": True,
                 "response_counts": {"issued": size, "scored": size, "empty": 0, "missing": 0}}
            ],
        }  # fmt: skip
        self.save()

    def save(self) -> None:
        """Write the documents as they stand."""
        for place in (CONFIG, SUMMARY, ACCURACY):
            (self.result / place).parent.mkdir(parents=True, exist_ok=True)
        (self.result / CONFIG).write_text(yaml.safe_dump(self.config))
        (self.result / SUMMARY).write_text(json.dumps(self.summary))
        (self.result / ACCURACY).write_text(json.dumps(self.accuracy))

    def findings(self) -> list[tuple[str, str]]:
        """(rule, path) of errors and warnings."""
        report = check(self.root, Options(jobs=1))
        return sorted((f.rule, f.path or "") for f in report.findings if f.severity != "note")


Change = Callable[[EndpointsTree], object]


def _set(document: str, *keys: Any, to: Any) -> Change:
    def change(tree: EndpointsTree) -> None:
        here = getattr(tree, document)
        for key in keys[:-1]:
            here = here[key]
        here[keys[-1]] = to
        tree.save()

    return change


def _remove(place: str) -> Change:
    return lambda tree: (tree.result / place).unlink()


def _rename(place: str, new: str) -> Change:
    def change(tree: EndpointsTree) -> None:
        (tree.result / new).parent.mkdir(exist_ok=True)
        (tree.result / place).rename(tree.result / new)

    return change


def _audit(name: str, document: dict[str, Any]) -> Change:
    def change(tree: EndpointsTree) -> None:
        folder = tree.result / "audit"
        folder.mkdir()
        file = ROUND.compliance[name].endpoints_file or ""
        (folder / file).write_text(json.dumps(document))

    return change


RUNTIME = ("settings", "runtime")
FAST = ("early_stopping_percentiles", "99.0")
SCORES = ("accuracy_scores", 0)
Expected = list[tuple[str, str]]
BREAKS: dict[str, tuple[Change, Expected]] = {
    "P151-no-config": (_remove(CONFIG), [("P151", CONFIG)]),
    "P151-no-summary": (_remove(SUMMARY), [("P151", SUMMARY), ("S125", "performance")]),
    "P151-no-accuracy": (_remove(ACCURACY), [("P151", ACCURACY), ("S125", "accuracy")]),
    "P151-summary-under-a-near-name": (
        _rename(SUMMARY, "performance/results_summary.json"),
        [("P151", "performance/results_summary.json")],
    ),
    "P151-summary-in-run-1": (
        _rename(SUMMARY, "performance/run_1/result_summary.json"),
        [("P151", "performance/run_1/result_summary.json")],
    ),
    "P151-accuracy-under-a-near-name": (
        _rename(ACCURACY, "accuracy/accuracy_result.json"),
        [("P151", "accuracy/accuracy_result.json")],
    ),
    "P151-config-in-performance": (
        _rename(CONFIG, "performance/config.yaml"),
        [("P151", "performance/config.yaml")],
    ),
    "P152-text-for-a-number": (_set("summary", "duration_ns", to="long"), [("P152", SUMMARY)]),
    "P152-list-for-an-object": (
        _set("config", "settings", to=[]),
        [("P152", CONFIG), ("P154", CONFIG), ("P154", CONFIG)],
    ),
    "P152-near-name": (_set("summary", "Version", to="0.1.0"), [("P152", SUMMARY)]),
    "P152-P157-no-estimate-for-few-samples": (_set("summary", "ttft", *FAST, to=None), []),
    "P154-schedule": (_set("config", *RUNTIME, "scheduler_random_seed", to=42), [("P154", CONFIG)]),
    "P154-samples": (_set("config", *RUNTIME, "dataloader_random_seed", to=42), [("P154", CONFIG)]),
    "P155-failed": (_set("summary", "n_samples_failed", to=3), [("P155", SUMMARY)]),
    "P155-incomplete": (_set("summary", "complete", to=False), [("P155", SUMMARY)]),
    "P156-setting": (_set("config", *RUNTIME, "min_duration_ms", to=1000), [("P156", CONFIG)]),
    "P156-measured": (
        _set("summary", "duration_ns", to=10**9),
        [("P156", SUMMARY), ("P158", SUMMARY), ("P158", SUMMARY)],
    ),
    "P170": (
        _set("config", "settings", "load_pattern", "type", to="max_throughput"),
        [("P170", CONFIG)],
    ),
    "P157-ttft": (_set("summary", "ttft", *FAST, to=1.6e9), [("P157", SUMMARY)]),
    "P157-tpot": (_set("summary", "tpot", *FAST, to=1.6e7), [("P157", SUMMARY)]),
    "P158-tps": (_set("summary", "tps", to=9e9), [("P158", SUMMARY)]),
    "P166-percentiles-fall": (
        _set("summary", "latency", "percentiles", "90.0", to=1.0e10),
        [("P166", SUMMARY)],
    ),
    "P166-maximum-below": (_set("summary", "ttft", "max", to=3e8), [("P166", SUMMARY)]),
    "P166-median": (_set("summary", "tpot", "median", to=7e6), [("P166", SUMMARY)]),
    "P166-mean": (_set("summary", "latency", "avg", to=9e9), [("P166", SUMMARY)]),
    "P166-spread": (_set("summary", "ttft", "std_dev", to=-1.0), [("P166", SUMMARY)]),
    "P166-total": (_set("summary", "latency", "total", to=8.3e14), [("P166", SUMMARY)]),
    "P166-first-token-after-the-last": (
        _set("summary", "latency", to={"percentiles": {"99.0": 1e8}}),
        [("P166", SUMMARY)],
    ),
    "P168-negative-tpot": (_set("summary", "tpot", "min", to=-1), [("P168", SUMMARY)]),
    "P168-no-first-token": (_set("summary", "ttft", "min", to=0), [("P168", SUMMARY)]),
    "P168-negative-estimate": (_set("summary", "tpot", *FAST, to=-5e6), [("P168", SUMMARY)]),
    "P168-an-empty-answer": (
        _set("summary", "output_sequence_lengths", "min", to=0),
        [("P168", SUMMARY)],
    ),
    "P167-another-target": (
        _set("summary", "run_config", to={"load_pattern": {"target_qps": 60.0}}),
        [("P167", CONFIG)],
    ),
    "A153-average": (_set("accuracy", "average_accuracy", to=70.0), [("A153", ACCURACY)]),
    "A153-subsets": (
        _set("accuracy", *SCORES, "breakdown", to={"subset_scores": {"a": 60.0, "b": 70.0}}),
        [("A153", ACCURACY)],
    ),
    "A151-incomplete": (_set("accuracy", *SCORES, "complete", to=False), [("A151", ACCURACY)]),
    "A151-few-units": (_set("accuracy", *SCORES, "unit_samples", to=9), [("A151", ACCURACY)]),
    "A151-few-in-all": (_set("accuracy", *SCORES, "total_samples", to=9), [("A151", ACCURACY)]),
    "A151-uncounted": (_set("accuracy", "accuracy_scores", to=[]), [("A151", ACCURACY)]),
    "A151-missing": (
        _set("accuracy", *SCORES, "response_counts", "missing", to=2),
        [("A151", ACCURACY)],
    ),
    "A152-negative": (
        _set("accuracy", *SCORES, "score", to=-1.0),
        [("A104", ACCURACY), ("A152", ACCURACY), ("A153", ACCURACY)],
    ),
    "A152-no-token-count": (
        _set("summary", "output_sequence_lengths", to=None),
        [("A152", ACCURACY)],
    ),
    "A104-case-067-every-model-has-a-target": (
        _set("accuracy", *SCORES, "score", to=10.0),
        [("A104", ACCURACY), ("A153", ACCURACY)],
    ),
    "C151-passed": (_audit("TEST06", {"test": "consistency_output_test", "passed": True}), []),
    "C151-failed": (
        _audit("TEST06", {"test": "consistency_output_test", "passed": False}),
        [("C151", "audit/audit_consistency_output_test.json")],
    ),
    "C151-another-test": (
        _audit("TEST06", {"test": "output_caching_test", "passed": True}),
        [("C151", "audit/audit_consistency_output_test.json")],
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_break(name: str, tmp_path: Path) -> None:
    tree = EndpointsTree(tmp_path)
    assert tree.findings() == []
    change, expected = BREAKS[name]
    change(tree)
    assert tree.findings() == sorted((rule, f"{BASE}/{place}") for rule, place in expected)


def test_p153_benchmark_that_endpoints_may_not_carry(tmp_path: Path) -> None:
    name = next(
        n
        for n, b in ROUND.benchmarks.items()
        if not b.endpoints and SCENARIO in b.scenarios and "datacenter" in b.categories
    )
    tree = EndpointsTree(tmp_path, name)
    assert ("P153", f"closed/Acme/results/box1/{name}/{SCENARIO}") in tree.findings()


def _severities(tree: EndpointsTree, rule: str) -> list[tuple[str, str]]:
    report = check(tree.root, Options(jobs=1))
    return [(f.severity, f.message) for f in report.findings if f.rule == rule]


def test_p151_names_both_names(tmp_path: Path) -> None:
    tree = EndpointsTree(tmp_path)
    _rename(SUMMARY, "performance/results_summary.json")(tree)
    assert _severities(tree, "P151") == [
        (
            "error",
            "found performance/results_summary.json; expected performance/result_summary.json",
        )
    ]


def test_p151_config_beside_the_summary_is_a_warning(tmp_path: Path) -> None:
    tree = EndpointsTree(tmp_path)
    _rename(CONFIG, "performance/config.yaml")(tree)
    assert _severities(tree, "P151") == [
        ("warning", "found performance/config.yaml; expected config.yaml")
    ]


def test_p158_is_an_error_where_the_rate_is_published(tmp_path: Path) -> None:
    """deepseek-r1 publishes tokens; qps in ns instead of s is a slip that changes no result."""
    tree = EndpointsTree(tmp_path)
    _set("summary", "qps", to=5e-8)(tree)
    assert [severity for severity, _ in _severities(tree, "P158")] == ["warning"]
    _set("summary", "tps", to=tree.summary["tps"] / 1e9)(tree)
    assert [severity for severity, _ in _severities(tree, "P158")] == ["warning", "error"]


def _result(name: str, scenario: str, endpoints: Endpoints) -> Result:
    """A result that rules can judge, of nothing but its documents."""
    system = System("closed", "Acme", "box1", "closed/Acme/systems/box1.json")
    folder = Folder(BASE)
    result = Result(
        "closed",
        "Acme",
        system,
        name,
        scenario,
        BASE,
        ROUND,
        name,
        ROUND.benchmarks[name],
        scenario,
        folder,
        "key",
    )
    result.endpoints = endpoints
    return result


def _judged(rule: Rule, result: Result) -> list[tuple[str, str]]:
    return [(f.severity, f.message) for f in Judge([rule], ROUND)(result).findings]


def _scores(*counts: tuple[int, int]) -> Endpoints:
    entries = [
        {
            "dataset_name": "set",
            "score": 1,
            "unit_samples": unit,
            "num_repeats": repeats,
            "total_samples": unit * repeats,
        }
        for unit, repeats in counts
    ]
    return Endpoints(BASE, accuracy=Document(ACCURACY, {"accuracy_scores": entries}))


@pytest.mark.parametrize(
    ("name", "scenario", "counts", "expected"),
    [
        ("qwen3-vl-235b-a22b", "Interactive", [(8000, 1)], []),
        ("qwen3-vl-235b-a22b", "Server", [(8000, 1)],
         [("error", "found 8,000 scored samples; expected at least 48,289")]),
        ("gpt-oss-120b", "Offline", [(30, 8), (198, 5), (1055, 3)], []),
        ("gpt-oss-120b", "Offline", [(30, 8), (198, 5), (1055, 1)],
         [("error", "found 2,285 scored samples; expected at least 4,395")]),
    ],
)  # fmt: skip
def test_a151_counts_every_repeat_against_the_scenario(
    name: str, scenario: str, counts: list[tuple[int, int]], expected: list[tuple[str, str]]
) -> None:
    result = _result(name, scenario, _scores(*counts))
    assert _judged(endpoints_accuracy_complete, result) == expected


@pytest.mark.parametrize(("asked", "severity"), [(600_000, "warning"), (None, "error")])
def test_p156_in_offline_the_setting_decides(asked: int | None, severity: str) -> None:
    config = {"settings": {"runtime": {"min_duration_ms": asked}}}
    endpoints = Endpoints(
        BASE, config=Document(CONFIG, config), summary=Document(SUMMARY, {"duration_ns": 223e9})
    )
    found = _judged(endpoints_duration, _result("qwen3-vl-235b-a22b", "Offline", endpoints))
    assert found == [(severity, "the run lasted 223 s; expected at least 600 s")]


@pytest.mark.parametrize(
    ("scenario", "changed", "expected"),
    [
        ("SingleStream", {"threshold": 0.2, "audit_qps": 1.19}, []),
        ("Offline", {"threshold": 0.1, "audit_qps": 1.09}, []),
        ("Offline", {"threshold": 0.2, "audit_qps": 1.19},
         ["threshold is 0.2; expected 0.1",
          "audit_qps is 1.19 samples/s; expected less than 1.1 samples/s, the reference's rate and 10%"]),
    ],
)  # fmt: skip
def test_c151_output_caching_has_a_tolerance_in_each_scenario(
    scenario: str, changed: dict[str, float], expected: list[str]
) -> None:
    document = {"test": "output_caching_test", "passed": True, "ref_qps": 1.0, **changed}
    name = "audit_output_caching_test.json"
    endpoints = Endpoints(BASE, audits={name: Document(name, document)})
    found = _judged(endpoints_audits, _result("wan-2.2-t2v-a14b", scenario, endpoints))
    assert [message for _, message in found] == expected


def test_c151_output_caching_is_required_of_wan() -> None:
    found = _judged(endpoints_audits, _result("wan-2.2-t2v-a14b", "Offline", Endpoints(BASE)))
    assert found == [
        ("error", "found no audit_output_caching_test.json; expected it, as TEST04 is required")
    ]


BREAKS_APART = {"P153": "test_p153_benchmark_that_endpoints_may_not_carry"}


@pytest.mark.parametrize("name", [name for name, b in ROUND.benchmarks.items() if b.endpoints])
def test_no_endpoints_score_passes_on_another_scale(name: str, tmp_path: Path) -> None:
    """Divided by 100 or multiplied by it, no score is valid without a finding; as it is, it passes."""
    benchmark = ROUND.benchmarks[name]
    scenario = next(s for s in (SCENARIO, *benchmark.scenarios) if s in benchmark.scenarios)
    gates = benchmark.accuracy_by_scenario.get(scenario, benchmark.accuracy)
    for number, factor in enumerate((1.0, 0.01, 100.0)):
        tree = EndpointsTree(tmp_path / str(number), name, scenario)
        scores = {
            gate.metric: gate.in_unit(benchmark.endpoints_unit or gate.unit).reference * factor
            for gate in gates
            if gate.metric != "TOKENS_PER_SAMPLE"  # counted by the performance report
        }
        tree.accuracy["accuracy_scores"][0]["score"] = (
            scores if len(scores) > 1 else next(iter(scores.values()))
        )
        tree.accuracy["average_accuracy"] = next(iter(scores.values()))
        tree.save()
        judged = {rule for rule, _ in tree.findings() if rule in ("A104", "A105", "A122", "A152")}
        assert bool(judged) == (factor != 1.0), (factor, judged)
