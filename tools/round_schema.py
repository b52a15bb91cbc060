"""Builds ``schemas/round.schema.json`` from ``schemas.round`` and ``schemas.round_file``; see `make docs`.

The schema is that of a file as it is written, with defaults; ``schemas.round`` is what it expands to.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from schemas.round import Round
from schemas.round_file import AccuracyMetric
from schemas.units import SCORE_UNITS

DESCRIPTIONS = {
    "Round": {
        "name": "The round: v6.1, or demo.",
        "title": "What people call it.",
        "official": "False for a round that is none of MLPerf's.",
        "deadline": "Submission deadline, YYYY-MM-DD.",
        "published": "Day of publication, YYYY-MM-DD.",
        "divisions": "The divisions of the round.",
        "seeds": "The three LoadGen seeds announced for the round.",
        "test05_seeds": "The other seeds that TEST05 runs with.",
        "loadgen": "What the round says about LoadGen.",
        "accuracy_log": "Limits on the published accuracy log.",
        "max_file_bytes": "Largest file allowed in the tree; absent: no limit.",
        "layout": "Where things live in the tree.",
        "system_description": "Fields of systems/<system>.json.",
        "measurements": "Fields of the measurements JSON.",
        "aliases": "How folder names become benchmark and scenario names.",
        "inference": "Results that may be computed from another scenario's log.",
        "accuracy_metrics": "The metrics of accuracy.txt by name.",
        "scenario_defaults": "What a scenario has in every benchmark that does not say otherwise.",
        "token_scenario_defaults": "On top of these for benchmarks with token_latencies.",
        "compliance": "The compliance tests by name.",
        "power": "The power measurement's rules.",
        "accuracy_value": "Which value counts where accuracy.txt prints a metric several times.",
        "allowed_fallback_runs": "Folders below the results folder that stand in for "
        "performance/run_1.",
        "benchmarks": "The benchmarks by name.",
    },
    "AccuracyMetric": {
        "unit": "The unit in which the accuracy script prints the metric.",
        "line": "A regular expression searched in each line of accuracy.txt; {number} is the value.",
    },
    "Seeds": {
        "qsl_rng_seed": "Which samples are loaded. Decimal text: it may exceed 2^63.",
        "sample_index_rng_seed": "Which samples are issued.",
        "schedule_rng_seed": "When Server queries arrive.",
    },
    "LoadGen": {
        "log_format": "mllog: one JSON record a line; text: name : value lines.",
        "versions": "Accepted versions by their beginning, e.g. 6.0.",
        "ignored_errors": "Parts of error messages that do not make a run invalid.",
    },
    "AccuracyLog": {
        "max_bytes": "Largest size of mlperf_log_accuracy.json; absent: no limit.",
        "hash_required": "accuracy.txt must hold the hash of the untruncated log.",
    },
    "Layout": {
        "system": "Pattern of the system description.",
        "results": "Pattern of a result's folder.",
        "measurements": "Pattern of the folder with user.conf and the measurements JSON.",
        "measurements_file": "Glob patterns of the measurements JSON in that folder, tried in "
        "order.",
        "code": "Names of the submitter's folder for code, one of which must be there.",
        "compliance": "Pattern of the folder that holds the tests' folders; absent: no "
        "compliance tests in the tree.",
        "documentation": "Pattern of the folder for documents.",
        "calibration": "Alternatives, one of which a closed or network submitter must have.",
        "nameplate_power": "Pattern of the YAML with the system's nameplate power.",
        "private_id": "Pattern of the JSON with the system's private id.",
        "endpoints": "Documents of an endpoints submission below the results folder.",
        "submitter_entries": "Folders that a submitter has by the rules.",
        "top_level_ignored": "Entries of the root that are no division.",
        "performance": "Files of a performance run.",
        "accuracy": "Files of the accuracy run.",
        "measurement_files": "Files beside the measurements JSON.",
        "power_run": "Files of run_1 and ranging in a power submission.",
        "power": "Files of the power folder.",
        "ignored_files": "Files that may lie anywhere.",
    },
    "FileList": {
        "required": "Names that must be there.",
        "optional": "Names that may be there.",
    },
    "SystemDescription": {
        "required": "Fields that must be there.",
        "optional": "Known fields that may be absent.",
        "one_of": "Alternatives: one field of each group is enough.",
        "non_empty": "Fields that need a meaningful value.",
        "numeric": "Fields that must read as an integer.",
        "network": "Fields that must be there when is_network is true.",
        "power": "Known fields of power submissions.",
        "status": "Allowed values of status, in lower case; empty: not checked.",
        "system_type": "Allowed values of system_type; empty: the round has no categories.",
    },
    "Measurements": {
        "required": "Fields that must be there.",
        "non_empty": "Fields that need a meaningful value.",
    },
    "Aliases": {
        "exact": "Folder name: benchmark. An empty benchmark: a known name of no benchmark of "
        "this round.",
        "contains": "Pairs [part of the name, benchmark], tried in order after the exact names.",
        "scenarios": "Folder name in lower case: scenario.",
        "mapping_file": "Pattern of the submitter's own JSON map, directory name: benchmark.",
    },
    "Inference": {
        "source": "Scenario that was run.",
        "target": "Scenario that the result is for.",
        "key": "Key of the value in the source's detail log.",
        "scale": "value = log[key] * scale, or scale / log[key] when inverse.",
        "inverse": "The logged value is a latency to be inverted.",
        "categories": "System categories to which this applies.",
    },
    "ComplianceTest": {
        "purpose": "What the test is for.",
        "files": "Files that must be in the test's folder.",
        "optional_files": "Files looked at when verify_accuracy.txt does not pass.",
        "each_benchmark": "What the settings of every benchmark named below have.",
        "settings": "LoadGen overrides of its audit.config by benchmark (*: any).",
        "performance_tolerance": "Allowed relative difference to the performance run.",
        "low_latency_tolerance": "The same where the latency is very low.",
        "accuracy_delta_percent": "Allowed difference of an accuracy metric, percent.",
        "endpoints_file": "The test's document in an endpoints submission.",
        "endpoints_required": "Benchmarks whose endpoints submissions must have it.",
        "endpoints_tolerance": "By how much its rate may exceed the reference's, by scenario.",
    },
    "Power": {
        "ptdaemon_versions": "Accepted versions of PTDaemon; empty: any.",
        "meters": "Accepted power meters: PTDaemon's device type of each; empty: any.",
        "max_drop_percent": "How far the average power of the run may lie below that of the "
        "ranging run.",
        "max_clock_difference_ms": "How far the clocks of client and server may differ.",
        "clock_is_utc": "The samples' times are UTC; false: local times, with their zone in "
        "the JSON files.",
        "energy_scenarios": "Scenarios whose power metric is an energy.",
        "energy_per": "What the energy is divided by.",
        "drop_zero_watts": "Samples of 0 W and less are left out of the mean.",
    },
    "Benchmark": {
        "like": "A benchmark of this file whose values hold where this one names none.",
        "token_latencies": "Its latencies are per token: token_scenario_defaults hold.",
        "each_scenario": "What every scenario of the benchmark has on top of the defaults.",
        "task": "What the model does.",
        "dataset": "The data set of the accuracy run.",
        "categories": "Scenarios by the system's category: datacenter, edge, "
        "'datacenter,edge', or none.",
        "scenarios": "The limits of each scenario.",
        "accuracy": "Lower bounds; every one must hold.",
        "accuracy_limits": "Upper bounds; every one must hold.",
        "accuracy_by_scenario": "Replaces accuracy in the scenarios it names.",
        "accuracy_order": "Metrics that stand first where accuracy is written in one line.",
        "performance_sample_count": "Least number of samples that a performance run draws from.",
        "conf_model": "The benchmark's name in LoadGen's mlperf.conf.",
        "test01_delta_percent": "Allowed difference of each metric in TEST01, percent.",
        "images": "Samples whose images must lie in the accuracy folder.",
        "videos": "Samples whose videos must lie in the accuracy folder.",
        "endpoints": "Endpoints submissions are allowed.",
        "endpoints_unit": "Unit of accuracy_results.json's score where it is not the gate's.",
    },
    "Dataset": {
        "name": "What the data set is called.",
        "size": "Number of samples that the sample library must report.",
        "accuracy_sample_count": "Accepted instead: effective_accuracy_sample_count of the log.",
        "accuracy_sample_count_by_scenario": "Replaces it in the scenarios it names.",
    },
    "Category": {
        "required": "Every one of these scenarios is needed.",
        "optional": "These may be submitted too.",
        "one_of": "Of each group at least one is needed.",
    },
    "Gate": {
        "metric": "Name of the metric, a key of accuracy_patterns.",
        "reference": "The reference value, or the bound itself where there is no factor.",
        "unit": "Unit of the reference value: percent, fraction, points, tokens or characters.",
        "factor": "The bound is reference * factor.",
    },
    "Metric": {
        "key": "Key of the value in the detail log.",
        "unit": "Unit of the published number.",
        "scale": "The published number is log[key] * scale.",
    },
    "Scenario": {
        "metric": "Where the published number comes from.",
        "min_duration_ms": "Least effective_min_duration_ms.",
        "min_query_count": "Least effective_min_query_count; absent: early stopping decides.",
        "min_samples_per_query": "Least effective_samples_per_query (Offline).",
        "samples_per_query": "Exact effective_samples_per_query (MultiStream).",
        "target_latency_ns": "Greatest effective_target_latency_ns.",
        "ttft_ms": "The 99th percentile of the time to first token must be below.",
        "tpot_ms": "The 99th percentile of the time per output token must be below.",
        "percentile": "Tail percentile as a fraction.",
        "early_stopping": "LoadGen's early stopping decides whether there were enough queries.",
        "runs": "Number of performance runs.",
        "equal_issue": "Every sample must be issued equally often.",
        "token_latencies": "requested_use_token_latencies must be true.",
        "compliance": "Compliance tests that a closed or network result needs.",
        "power_unit": "Unit of the power metric.",
        "loadgen_scenario": "The scenario in the log when it is not the folder's.",
    },
}

SCENARIO_NAMES = ["SingleStream", "MultiStream", "Server", "Interactive", "Offline"]
CATEGORY_NAMES = ["datacenter", "edge", "datacenter,edge", "none"]

RANGES: dict[str, dict[str, Any]] = {
    "Round.name": {"pattern": r"^(v[0-9]+\.[0-9]+|[a-z][a-z0-9-]*)$"},
    "Round.deadline": {"format": "date", "pattern": r"^\d{4}-\d\d-\d\d$"},
    "Round.published": {"format": "date", "pattern": r"^\d{4}-\d\d-\d\d$"},
    "Round.divisions": {
        "items": {"enum": ["closed", "open", "network"]},
        "minItems": 1,
        "uniqueItems": True,
    },
    "Round.max_file_bytes": {"minimum": 1},
    "Round.scenario_defaults": {"propertyNames": {"enum": SCENARIO_NAMES}},
    "Round.token_scenario_defaults": {"propertyNames": {"enum": SCENARIO_NAMES}},
    "AccuracyMetric.unit": {"enum": [*SCORE_UNITS]},
    "AccuracyMetric.line": {"pattern": r"\{number\}"},
    "Round.compliance": {"propertyNames": {"pattern": r"^TEST\d\d(-[A-Z])?$"}},
    "Round.severities": {"propertyNames": {"pattern": r"^[A-Z](\d{3})?$"}},
    "Round.benchmarks": {"minProperties": 1},
    "Seeds.qsl_rng_seed": {"pattern": r"^[0-9]{1,20}$"},
    "Seeds.sample_index_rng_seed": {"pattern": r"^[0-9]{1,20}$"},
    "Seeds.schedule_rng_seed": {"pattern": r"^[0-9]{1,20}$"},
    "LoadGen.versions": {"minItems": 1, "uniqueItems": True},
    "AccuracyLog.max_bytes": {"minimum": 1},
    "Layout.system": {"pattern": r"\{system\}"},
    "Layout.results": {"pattern": r"\{scenario\}$"},
    "Layout.measurements_file": {"minItems": 1},
    "Layout.code": {"minItems": 1},
    "Layout.endpoints": {
        "propertyNames": {"enum": ["config", "performance", "accuracy", "audit"]},
    },
    "Aliases.contains": {
        "items": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
    },
    "Aliases.scenarios": {"additionalProperties": {"enum": SCENARIO_NAMES}},
    "Inference.source": {"enum": SCENARIO_NAMES},
    "Inference.target": {"enum": SCENARIO_NAMES},
    "Inference.scale": {"exclusiveMinimum": 0},
    "Inference.categories": {"items": {"enum": ["datacenter", "edge"]}, "uniqueItems": True},
    "ComplianceTest.performance_tolerance": {"exclusiveMinimum": 0, "maximum": 1},
    "ComplianceTest.low_latency_tolerance": {"exclusiveMinimum": 0, "maximum": 1},
    "ComplianceTest.accuracy_delta_percent": {"exclusiveMinimum": 0, "maximum": 100},
    "Power.max_drop_percent": {"exclusiveMinimum": 0, "maximum": 100},
    "Power.max_clock_difference_ms": {"exclusiveMinimum": 0},
    "Power.energy_scenarios": {"items": {"enum": SCENARIO_NAMES}},
    "Benchmark.categories": {"propertyNames": {"enum": CATEGORY_NAMES}, "minProperties": 1},
    "Benchmark.scenarios": {"propertyNames": {"enum": SCENARIO_NAMES}, "minProperties": 1},
    "Benchmark.accuracy": {"minItems": 1},
    "Benchmark.accuracy_by_scenario": {"propertyNames": {"enum": SCENARIO_NAMES}},
    "Benchmark.performance_sample_count": {"minimum": 1},
    "Dataset.size": {"minimum": 1},
    "Dataset.accuracy_sample_count": {"minimum": 1},
    "Dataset.accuracy_sample_count_by_scenario": {
        "propertyNames": {"enum": SCENARIO_NAMES},
    },
    "Category.required": {"items": {"enum": SCENARIO_NAMES}, "uniqueItems": True},
    "Category.optional": {"items": {"enum": SCENARIO_NAMES}, "uniqueItems": True},
    "Gate.reference": {"exclusiveMinimum": 0},
    "Gate.factor": {"exclusiveMinimum": 0, "maximum": 2},
    "Metric.scale": {"exclusiveMinimum": 0},
    "Scenario.min_duration_ms": {"minimum": 0},
    "Scenario.min_query_count": {"minimum": 1},
    "Scenario.min_samples_per_query": {"minimum": 1},
    "Scenario.samples_per_query": {"minimum": 1},
    "Scenario.target_latency_ns": {"minimum": 1},
    "Scenario.ttft_ms": {"exclusiveMinimum": 0},
    "Scenario.tpot_ms": {"exclusiveMinimum": 0},
    "Scenario.percentile": {"exclusiveMinimum": 0.5, "exclusiveMaximum": 1},
    "Scenario.runs": {"minimum": 1},
    "Scenario.compliance": {"items": {"pattern": r"^TEST\d\d(-[A-Z])?$"}, "uniqueItems": True},
    "Scenario.loadgen_scenario": {"enum": SCENARIO_NAMES},
}


def without_null(node: Any) -> Any:
    """TOML has no null: an optional field is simply absent."""
    if isinstance(node, list):
        return [without_null(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: without_null(value) for key, value in node.items()}
    if node.get("default", 0) is None:
        del node["default"]
    choices = node.get("anyOf")
    if choices:
        kept = [choice for choice in choices if choice != {"type": "null"}]
        if len(kept) == 1:
            node = {**{k: v for k, v in node.items() if k != "anyOf"}, **kept[0]}
        else:
            node["anyOf"] = kept
    return node


def as_written(defs: dict[str, Any]) -> None:
    """Change the definitions from the structures' to those of a file with defaults."""
    defs |= without_null(msgspec.json.schema(AccuracyMetric))["$defs"]
    scenario = {"$ref": "#/$defs/Scenario"}
    scenarios = {"type": "object", "additionalProperties": scenario, "default": {}}

    file = defs["Round"]
    for name in ("accuracy_patterns", "accuracy_units"):
        del file["properties"][name]
        file["required"].remove(name)
    file["required"].append("accuracy_metrics")
    file["properties"] |= {
        "accuracy_metrics": {
            "type": "object",
            "additionalProperties": {"$ref": "#/$defs/AccuracyMetric"},
        },
        "scenario_defaults": scenarios,
        "token_scenario_defaults": scenarios,
    }

    # Defaults and the scenarios that complete them have a part of the fields each.
    for name in ("Scenario", "Metric"):
        del defs[name]["required"]
    defs["Benchmark"]["properties"] |= {
        "like": {"type": "string"},
        "token_latencies": {"type": "boolean", "default": False},
        "each_scenario": scenario,
    }
    needed = defs["Benchmark"].pop("required")
    defs["Benchmark"]["anyOf"] = [{"required": ["like"]}, {"required": needed}]
    test = defs["ComplianceTest"]["properties"]
    test["each_benchmark"] = test["settings"]["additionalProperties"]


def build() -> dict[str, Any]:
    """The JSON Schema of a round file."""
    generated = without_null(msgspec.json.schema(Round))
    defs = generated["$defs"]
    as_written(defs)
    for name, fields in DESCRIPTIONS.items():
        for field, text in fields.items():
            prop = defs[name]["properties"][field]
            defs[name]["properties"][field] = {
                "description": text,
                **prop,
                **RANGES.get(f"{name}.{field}", {}),
            }
    root = defs.pop("Round")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://assay.invalid/schemas/round.schema.json",
        **root,
        "title": "Rules of an MLPerf Inference round",
        "$defs": dict(sorted(defs.items())),
    }


def as_text() -> str:
    """The file's text."""
    return json.dumps(build(), indent=2, ensure_ascii=False) + "\n"
