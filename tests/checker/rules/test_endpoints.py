"""Endpoints results (v6.1): a good tree of the kind, one thing broken, the whole list of findings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from checker.engine import Options, check
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

    def __init__(self, root: Path, name: str = NAME) -> None:
        tree = good_tree(
            root,
            round="v6.1",
            benchmark=name,
            category="datacenter",
            scenarios=["Offline", SCENARIO],
        )
        self.root = tree.root
        self.result = tree.root / f"closed/Acme/results/box1/{name}/{SCENARIO}"
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
            return {"avg": scale * 1.4, "min": scale, "max": scale * 3, "percentiles": table,
                    "early_stopping_percentiles": table}  # fmt: skip

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


def _audit(name: str, document: dict[str, Any]) -> Change:
    def change(tree: EndpointsTree) -> None:
        folder = tree.result / "audit"
        folder.mkdir()
        file = ROUND.compliance[name].endpoints_file or ""
        (folder / file).write_text(json.dumps(document))

    return change


RUNTIME = ("settings", "runtime")
FAST = ("early_stopping_percentiles", "99.0")
AUDIT = f"{BASE}/audit/{ROUND.compliance['TEST06'].endpoints_file}"
BREAKS: dict[str, list[tuple[Change, list[tuple[str, str]]]]] = {
    "P151": [
        (_remove(CONFIG), [("P151", f"{BASE}/{CONFIG}")]),
        (_remove(SUMMARY), [("A152", f"{BASE}/{ACCURACY}"),
                            ("P151", f"{BASE}/{SUMMARY}"), ("S125", f"{BASE}/performance")]),
        (_remove(ACCURACY), [("P151", f"{BASE}/{ACCURACY}"), ("S125", f"{BASE}/accuracy")]),
    ],
    "P152": [
        (_set("summary", "duration_ns", to="long"), [("P152", f"{BASE}/{SUMMARY}"),]),
        (_set("config", "settings", to=[]), [("P152", f"{BASE}/{CONFIG}"), ("P154", f"{BASE}/{CONFIG}"),
                                             ("P154", f"{BASE}/{CONFIG}")]),
    ],
    "P154": [
        (_set("config", *RUNTIME, "scheduler_random_seed", to=42), [("P154", f"{BASE}/{CONFIG}")]),
        (_set("config", *RUNTIME, "dataloader_random_seed", to=42), [("P154", f"{BASE}/{CONFIG}")]),
    ],
    "P155": [
        (_set("summary", "n_samples_failed", to=3), [("P155", f"{BASE}/{SUMMARY}")]),
        (_set("summary", "complete", to=False), [("P155", f"{BASE}/{SUMMARY}")]),
    ],
    "P156": [
        (_set("config", *RUNTIME, "min_duration_ms", to=1000), [("P156", f"{BASE}/{CONFIG}")]),
        (_set("summary", "duration_ns", to=10**9), [("P156", f"{BASE}/{SUMMARY}"),
                                                    ("P158", f"{BASE}/{SUMMARY}"),
                                                    ("P158", f"{BASE}/{SUMMARY}")]),
    ],
    "P157": [
        (_set("summary", "ttft", *FAST, to=1.6e9), [("P157", f"{BASE}/{SUMMARY}")]),
        (_set("summary", "tpot", *FAST, to=1.6e7), [("P157", f"{BASE}/{SUMMARY}")]),
    ],
    "P158": [(_set("summary", "tps", to=9e9), [("P158", f"{BASE}/{SUMMARY}")])],
    "A151": [
        (_set("accuracy", "accuracy_scores", 0, "complete", to=False), [("A151", f"{BASE}/{ACCURACY}")]),
        (_set("accuracy", "accuracy_scores", 0, "unit_samples", to=9), [("A151", f"{BASE}/{ACCURACY}")]),
        (_set("accuracy", "accuracy_scores", 0, "response_counts", "missing", to=2),
         [("A151", f"{BASE}/{ACCURACY}")]),
    ],
    "A152": [
        (_set("accuracy", "accuracy_scores", 0, "score", to=-1.0),
         [("A104", f"{BASE}/{ACCURACY}"), ("A152", f"{BASE}/{ACCURACY}")]),
    ],
    "C151": [
        (_audit("TEST06", {"test": "TEST06", "passed": False}), [("C151", AUDIT)]),
        (_audit("TEST06", {"test": "TEST01", "passed": True}), [("C151", AUDIT)]),
    ],
    "P153": [(lambda tree: None, [])],
}  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "index"),
    [(r, i) for r, cases in BREAKS.items() for i in range(len(cases)) if r != "P153"],
)
def test_break(rule: str, index: int, tmp_path: Path) -> None:
    tree = EndpointsTree(tmp_path)
    assert tree.findings() == []
    change, expected = BREAKS[rule][index]
    change(tree)
    assert tree.findings() == sorted(expected)


def test_a_benchmark_that_endpoints_may_not_carry(tmp_path: Path) -> None:
    name = next(
        n for n, b in ROUND.benchmarks.items()
        if not b.endpoints and SCENARIO in b.scenarios and "datacenter" in b.categories
    )  # fmt: skip
    tree = EndpointsTree(tmp_path, name)
    assert ("P153", f"closed/Acme/results/box1/{name}/{SCENARIO}") in tree.findings()


def test_case_067_accuracy_is_compared_for_every_model(tmp_path: Path) -> None:
    tree = EndpointsTree(tmp_path)
    _set("accuracy", "accuracy_scores", 0, "score", to=10.0)(tree)
    assert tree.findings() == [("A104", f"{BASE}/{ACCURACY}")]
