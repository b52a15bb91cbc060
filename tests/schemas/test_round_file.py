"""A round is written without repetition; what it expands to does not change unnoticed."""

from __future__ import annotations

import hashlib
import math
import re
import tomllib
from typing import Any

import msgspec
import pytest

from schemas.load import load_round, round_names
from schemas.round_file import NUMBER, expand
from tests.schemas.test_rounds import text_of

EXPANDED = {
    "v0.5": "aa582f6e04a2ffa6",
    "v0.7": "b74a898560dfb994",
    "v1.0": "21d54d78289aea5f",
    "v1.1": "67e6abaa9b3796b1",
    "v2.0": "9141959b318c9ff9",
    "v2.1": "edf581bb109e9a77",
    "v3.0": "309f2cb61ab8d4e5",
    "v3.1": "8e2ef74d47b63f8e",
    "v4.0": "42b8408d8a77337b",
    "v4.1": "b57e8660f0b9e65c",
    "v5.0": "8e54060bcd339fc3",
    "v5.1": "a30f588d393f39e2",
    "v6.0": "83bc36a7ae7e0e69",
    "v6.1": "218159ca0dbd7a72",
    "demo": "c74c41e7d7d7b167",
}
"""SHA-256 of each expanded round, 16 digits. One that changes though its file was only tidied shows
a value that a default has changed; after a change of a rule, copy the digest from the failure."""


def small() -> dict[str, Any]:
    """A file with one benchmark, its variant, and one test."""
    return tomllib.loads("""
        name = "small"
        [accuracy_metrics]
        acc = {unit = "percent", line = "^accuracy={number}%"}
        [scenario_defaults.Offline]
        metric = {key = "samples", unit = "Samples/s"}
        min_duration_ms = 600
        [token_scenario_defaults.Offline]
        metric.key = "tokens"
        token_latencies = true
        [compliance.TEST01]
        each_benchmark = {mode = 2}
        settings.a-99 = {target = 64}
        [benchmarks.a-99]
        task = "t"
        each_scenario = {compliance = ["TEST01"]}
        scenarios.Offline = {min_duration_ms = 60}
        [benchmarks."a-99.9"]
        like = "a-99"
        task = "u"
        token_latencies = true
        scenarios.Offline = {metric.unit = "Tokens/s"}
    """)


def test_defaults_variants_and_the_number_are_expanded() -> None:
    assert expand(small()) == {
        "name": "small",
        "accuracy_patterns": {"acc": f"^accuracy={NUMBER}%"},
        "accuracy_units": {"acc": "percent"},
        "compliance": {
            "TEST01": {
                "settings": {
                    "a-99": {"mode": 2, "target": 64},
                    "a-99.9": {"mode": 2, "target": 64},
                },
            },
        },
        "benchmarks": {
            "a-99": {
                "task": "t",
                "scenarios": {
                    "Offline": {
                        "metric": {"key": "samples", "unit": "Samples/s"},
                        "min_duration_ms": 60,
                        "compliance": ["TEST01"],
                    },
                },
            },
            "a-99.9": {
                "task": "u",
                "scenarios": {
                    "Offline": {
                        "metric": {"key": "tokens", "unit": "Tokens/s"},
                        "min_duration_ms": 600,
                        "token_latencies": True,
                        "compliance": ["TEST01"],
                    },
                },
            },
        },
    }


@pytest.mark.parametrize("other", ["a-98", "a-99.9"])
def test_like_names_a_benchmark_that_is_written_out(other: str) -> None:
    table = small()
    table["benchmarks"]["a-99.9"]["like"] = other
    with pytest.raises(msgspec.ValidationError, match=rf"a-99\.9: like names {re.escape(other)}"):
        expand(table)


@pytest.mark.parametrize("text", ["5", "-1.5", "1e-3", "2.5E+2", "nan", "NaN", "inf", "-inf"])
def test_numbers_of_accuracy_scripts_are_seen(text: str) -> None:
    found = re.fullmatch(NUMBER, text)
    assert found is not None
    value = float(found.group("v"))
    assert value == float(text) or math.isnan(value)


@pytest.mark.parametrize("name", round_names())
def test_expanded_round_is_unchanged(name: str) -> None:
    data = msgspec.json.encode(load_round(name), order="deterministic")
    assert hashlib.sha256(data).hexdigest()[:16] == EXPANDED[name]


@pytest.mark.parametrize("name", round_names())
def test_every_default_is_used(name: str) -> None:
    table = tomllib.loads(text_of(name))
    plain, token = set(), set()
    for benchmark in table["benchmarks"].values():
        scenarios = benchmark.get("scenarios", {})
        plain |= set(scenarios)
        if benchmark.get("token_latencies"):
            token |= set(scenarios)
    assert set(table.get("scenario_defaults", {})) <= plain
    assert set(table.get("token_scenario_defaults", {})) <= token
