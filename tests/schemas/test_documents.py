"""The JSON Schemas of what a submission holds."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from schemas.load import load_round, load_schema, round_names

SCHEMAS = [
    "endpoints_accuracy",
    "endpoints_config",
    "endpoints_summary",
    "measurements",
    "mllog",
    "model_mapping",
    "round",
    "system_description",
]
RECORD = {
    "key": "effective_schedule_rng_seed",
    "value": 16159082839903944936,
    "time_ms": 0.01,
    "namespace": "mlperf::logging",
    "event_type": "POINT_IN_TIME",
    "metadata": {
        "is_error": False,
        "is_warning": False,
        "file": "test_settings_internal.cc",
        "line_no": 3,
        "pid": 1,
        "tid": 1,
    },
}
CONFIG = """
name: demo
version: '1.0'
type: online
model_params: {name: m, temperature: 0.0, top_k: 1, top_p: 1.0, streaming: 'on'}
datasets:
- {name: perf, type: performance, path: a.parquet}
settings:
  runtime:
    min_duration_ms: 1500000
    n_samples_to_issue: 330000
    scheduler_random_seed: 16159082839903944936
    dataloader_random_seed: 2747215439041700203
  load_pattern: {type: poisson, target_qps: 170.0}
endpoint_config: {endpoints: ["http://endpoint:8000"], api_type: openai_completions}
"""
SPREAD = {"min": 1, "max": 3, "avg": 2.0, "percentiles": {"99.0": 2.5, "99.9": 2.9}}
SUMMARY = {
    "version": "0.1.0",
    "git_sha": None,
    "n_samples_issued": 3,
    "n_samples_completed": 3,
    "n_samples_failed": 0,
    "duration_ns": 10**12,
    "ttft": SPREAD,
    "latency": {**SPREAD, "early_stopping_percentiles": {"99.0": 2.6}},
    "qps": 1.5,
}
SCORES = {"accuracy_scores": [{"dataset_name": "a", "score": 80.6, "complete": True}]}
GOOD: dict[str, Any] = {
    "system_description": {
        "division": "closed",
        "submitter": "A",
        "accelerators_per_node": "0",
        "number_of_nodes": 1,
        "other_software_stack": {"Python": "3.11"},
        "is_network": False,
        "something_new": [1],
    },
    "measurements": {"weight_data_types": {"unet": "fp8"}, "retraining": "no"},
    "model_mapping": {"my-model": "resnet"},
    "mllog": RECORD,
    "endpoints_config": yaml.safe_load(CONFIG),
    "endpoints_summary": SUMMARY,
    "endpoints_accuracy": SCORES,
}
BAD: list[tuple[str, Any]] = [
    ("system_description", []),
    ("system_description", {}),
    ("system_description", {"system_type": "cloud"}),
    ("system_description", {"number_of_nodes": [1]}),
    ("measurements", {"weight_data_types": 8}),
    ("model_mapping", {"my-model": 1}),
    ("model_mapping", ["resnet"]),
    ("mllog", {**RECORD, "event_type": "SOMETIME"}),
    ("mllog", {k: v for k, v in RECORD.items() if k != "metadata"}),
    ("endpoints_config", {"type": "online"}),
    ("endpoints_config", {"type": "online", "settings": {"load_pattern": {"target_qps": "1"}}}),
    ("endpoints_summary", {**SUMMARY, "n_samples_failed": -1}),
    ("endpoints_summary", {**SUMMARY, "latency": {"percentiles": {"p99": 1}}}),
    ("endpoints_accuracy", {"accuracy_scores": {}}),
]


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(load_schema(name))


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_one(name: str) -> None:
    schema = load_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"].endswith(f"/{name}.schema.json")
    assert schema["title"]
    assert schema["description"]


@pytest.mark.parametrize("name", sorted(GOOD))
def test_good_document(name: str) -> None:
    assert [e.message for e in validator(name).iter_errors(GOOD[name])] == []


@pytest.mark.parametrize(("name", "document"), BAD)
def test_bad_document(name: str, document: Any) -> None:
    assert not validator(name).is_valid(document)


def test_every_field_that_a_round_names_is_described() -> None:
    system = load_schema("system_description")["properties"]
    measurements = load_schema("measurements")["properties"]
    for name in round_names():
        fields = load_round(name).system_description
        named = {*fields.required, *fields.optional, *fields.network, *fields.power}
        assert named <= set(system), name
        assert set(load_round(name).measurements.required) <= set(measurements), name


# Real submissions


def corpus() -> Iterator[tuple[str, Path]]:
    root = os.environ.get("ASSAY_CORPUS")
    if not root:
        return
    for name in round_names():
        for found in sorted(Path(root).glob(f"{name}*")):
            if found.is_dir():
                yield name, found


@pytest.mark.corpus
@pytest.mark.parametrize(("name", "root"), list(corpus()) or [("", Path())])
def test_published_documents_obey(name: str, root: Path) -> None:
    if not name:
        pytest.skip("ASSAY_CORPUS names no folder with v*.* trees")
    problems: list[str] = []
    seen = 0

    def look(schema: str, path: Path, document: Any) -> None:
        nonlocal seen
        seen += 1
        problems.extend(
            f"{path}: {error.json_path}: {error.message[:100]}"
            for error in validator(schema).iter_errors(document)
        )

    for path in root.glob("*/*/systems/*.json"):
        look("system_description", path, json.loads(path.read_text(encoding="utf-8")))
    for path in root.glob("*/*/model_mapping.json"):
        look("model_mapping", path, json.loads(path.read_text(encoding="utf-8")))
    layout = load_round(name).layout
    for folder in root.glob(re.sub(r"\{\w+\}", "*", layout.measurements)):
        system = folder.parts[-3]
        for pattern in layout.measurements_file:
            wanted = pattern.format(system=system, scenario=folder.name)
            found = sorted(fnmatch.filter([p.name for p in folder.iterdir()], wanted))
            if found:
                path = folder / found[0]
                look("measurements", path, json.loads(path.read_text(encoding="utf-8")))
                break
    for folder in root.glob("*/*/results/*/*/*") if layout.endpoints else ():
        documents = {kind: folder / place for kind, place in layout.endpoints.items()}
        for kind in ("config", "performance", "accuracy"):
            if documents[kind].is_file():
                text = documents[kind].read_text(encoding="utf-8")
                schema = {"performance": "summary"}.get(kind, kind)
                look(f"endpoints_{schema}", documents[kind], yaml.safe_load(text))
    assert seen
    assert problems == []
