"""Every round file obeys its schema and agrees with itself."""

from __future__ import annotations

import json
import math
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest

from schemas.load import (
    UnknownRound,
    canonical_round_name,
    load_round,
    load_schema,
    round_names,
)
from schemas.round import Benchmark, Gate, Round
from schemas.round_file import BadRound, parse_round
from schemas.units import SCORE_UNITS
from tools import round_schema

FOLDER = Path(__file__).parents[2] / "schemas" / "rounds"
NAMES = round_names()
OFFICIAL = [name for name in NAMES if name != "demo"]
ALL_ROUNDS = [
    *("v0.5", "v0.7", "v1.0", "v1.1", "v2.0", "v2.1", "v3.0", "v3.1"),
    *("v4.0", "v4.1", "v5.0", "v5.1", "v6.0", "v6.1", "demo"),
]


@pytest.fixture(params=NAMES)
def round_(request: pytest.FixtureRequest) -> Round:
    return load_round(request.param)


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.toml").read_text(encoding="utf-8")


def gates(benchmark: Benchmark) -> list[Gate]:
    by_scenario = [gate for group in benchmark.accuracy_by_scenario.values() for gate in group]
    return [*benchmark.accuracy, *benchmark.accuracy_limits, *by_scenario]


# The files


def test_every_round_is_there_in_order() -> None:
    assert ALL_ROUNDS == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_first_line_points_to_the_schema(name: str) -> None:
    assert text_of(name).splitlines()[0] == "#:schema ../round.schema.json"


@pytest.mark.parametrize("name", NAMES)
def test_file_obeys_the_schema(name: str) -> None:
    validator = jsonschema.Draft202012Validator(
        load_schema("round"), format_checker=jsonschema.FormatChecker()
    )
    problems = [
        f"{error.json_path}: {error.message}"
        for error in validator.iter_errors(tomllib.loads(text_of(name)))
    ]
    assert problems == []


@pytest.mark.parametrize("name", NAMES)
def test_file_names_itself(name: str) -> None:
    assert load_round(name).name == name


@pytest.mark.parametrize("name", OFFICIAL)
def test_groups_cite_their_source(name: str) -> None:
    text = text_of(name)
    head = text[: text.index("\nname")]
    for kind in ("checker", "mlperf.conf", "compliance", "rules", "submission rules"):
        assert re.search(rf"^#   {re.escape(kind)}: .*@[0-9a-f]{{7,}}", head, re.MULTILINE), kind
    for table in (
        "seeds",
        "accuracy_log",
        "layout",
        "system_description",
        "measurements",
        "aliases",
        "accuracy_metrics",
    ):
        after = text[text.index(f"\n[{table}]\n") + 1 :].splitlines()[1:4]
        assert any("Source:" in line or "Source" in line for line in after), table


def test_schema_describes_every_field() -> None:
    schema = round_schema.build()
    for name, struct in {"Round": schema, **schema["$defs"]}.items():
        for field, value in struct["properties"].items():
            assert value.get("description"), f"{name}.{field}"


def test_schema_refuses_what_it_should() -> None:
    validator = jsonschema.Draft202012Validator(load_schema("round"))
    good = tomllib.loads(text_of("v6.1"))
    for path, value in (
        (("seeds", "qsl_rng_seed"), 5),
        (("benchmarks", "resnet", "scenarios", "Server", "percentile"), 99),
        (("benchmarks", "resnet", "scenarios", "Server", "min_duration_ms"), -1),
        (("benchmarks", "resnet", "task"), None),
        (("accuracy_metrics", "acc", "line"), "accuracy=(.*)"),
        (("scenario_defaults", "Offline", "percentil"), 0.9),
        (("surprise",), 1),
    ):
        bad = json.loads(json.dumps(good))
        at = bad
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
        assert not validator.is_valid(bad), path


# Loading


def test_names_are_forgiving() -> None:
    assert load_round("6.1") == load_round("v6.1")
    assert canonical_round_name(" V6.1 ") == "v6.1"
    assert load_round("6.1").number == (6, 1)
    assert load_round("demo").number == ()


def test_unknown_round_names_the_known_ones() -> None:
    with pytest.raises(UnknownRound, match=r"no round '9\.9'; known rounds: v0\.5, .*v6\.1, demo"):
        load_round("9.9")


def test_bad_round_names_file_and_place() -> None:
    text = text_of("v6.1")
    for old, new, place in (
        ("\npercentile ", "\npercentil ", "percentil"),
        ("{target_latency_ns = 15_000_000}", "{target_latency_ns = [1]}", "scenarios.*target_lat"),
        ("each_scenario = {", "each_scenario = 5 #", "each_scenario"),
        ("token_latencies = true\n", "token_latencies = 1\n", "token_latencies"),
    ):
        assert old in text
        with pytest.raises(BadRound, match=rf"x\.toml: .*{place}"):
            parse_round(text.replace(old, new, 1), "x.toml")
    with pytest.raises(BadRound, match=r"x\.toml: "):
        parse_round("name = ", "x.toml")


# What a round says agrees with itself


def test_seeds_are_decimal_text_within_64_bits(round_: Round) -> None:
    for seeds in filter(None, (round_.seeds, round_.test05_seeds)):
        for seed in (seeds.qsl_rng_seed, seeds.sample_index_rng_seed, seeds.schedule_rng_seed):
            assert re.fullmatch(r"[1-9][0-9]*", seed)
            assert int(seed) < 2**64


def test_rounds_do_not_share_seeds() -> None:
    seeds = [load_round(name).seeds for name in OFFICIAL]
    every = [
        *(s.qsl_rng_seed for s in seeds),
        *(s.sample_index_rng_seed for s in seeds),
        *(s.schedule_rng_seed for s in seeds),
    ]
    assert len(set(every)) == len(every)


def test_test05_has_seeds_exactly_where_it_is_asked_for(round_: Round) -> None:
    if round_.name == "v0.5":  # run by auditors
        return
    assert ("TEST05" in round_.compliance) == (round_.test05_seeds is not None)


def test_categories_name_scenarios_that_have_rules(round_: Round) -> None:
    for name, benchmark in round_.benchmarks.items():
        assert benchmark.categories, name
        for category, scenarios in benchmark.categories.items():
            assert scenarios.allowed, (name, category)
            for scenario in scenarios.allowed:
                assert scenario in benchmark.scenarios, (name, category, scenario)


def test_every_scenario_can_be_submitted(round_: Round) -> None:
    for name, benchmark in round_.benchmarks.items():
        allowed = {s for category in benchmark.categories.values() for s in category.allowed}
        assert set(benchmark.scenarios) == allowed, name


def test_categories_are_those_of_the_system_description(round_: Round) -> None:
    kinds = {kind for b in round_.benchmarks.values() for kind in b.categories}
    if not round_.system_description.system_type:
        assert kinds == {"none"}
    else:
        assert kinds <= set(round_.system_description.system_type)


def test_both_categories_together_need_what_each_needs(round_: Round) -> None:
    for name, benchmark in round_.benchmarks.items():
        both = benchmark.categories.get("datacenter,edge")
        alone = [benchmark.categories.get(k) for k in ("datacenter", "edge")]
        if both is None or not any(alone):
            continue
        needed = {s for category in alone if category for s in category.required}
        if (round_.name, name) == ("v6.0", "qwen3-vl-235b-a22b"):
            continue  # a disagreement noted there: only Offline when both
        assert needed <= set(both.required), name


def test_compliance_tests_are_described(round_: Round) -> None:
    scenarios = [s for b in round_.benchmarks.values() for s in b.scenarios.values()]
    asked = {test for scenario in scenarios for test in scenario.compliance}
    assert asked == set(round_.compliance)
    for name, test in round_.compliance.items():
        assert test.files, name
        known = {"*", *round_.benchmarks}
        assert set(test.settings) <= known, name
        assert set(test.endpoints_required) <= known, name


def test_every_benchmark_with_a_test_has_its_settings(round_: Round) -> None:
    for name, benchmark in round_.benchmarks.items():
        for scenario in benchmark.scenarios.values():
            for test in scenario.compliance:
                if (round_.name, name) == ("v5.0", "rgat"):
                    continue  # no audit.config was published for it
                settings = round_.compliance[test].settings
                assert "*" in settings or name in settings, (name, test)


def test_aliases_lead_to_benchmarks(round_: Round) -> None:
    known = {"", *round_.benchmarks}
    assert set(round_.aliases.exact.values()) <= known
    for pair in round_.aliases.contains:
        assert len(pair) == 2
        assert pair[1] in known
    assert not set(round_.aliases.exact) & set(round_.benchmarks)
    scenarios = {s for b in round_.benchmarks.values() for s in b.scenarios}
    assert set(round_.aliases.scenarios.values()) <= scenarios | {"MultiStream"}
    assert all(name == name.lower() for name in round_.aliases.scenarios)


def test_inference_is_between_scenarios_of_the_round(round_: Round) -> None:
    scenarios = {s for b in round_.benchmarks.values() for s in b.scenarios}
    for formula in round_.inference:
        assert formula.source in scenarios
        assert formula.target in scenarios
        assert formula.source != formula.target
        assert formula.inverse == ("latency" in formula.key and formula.target == "Offline")


@pytest.mark.parametrize("name", NAMES)
def test_999_has_its_99(name: str) -> None:
    benchmarks = load_round(name).benchmarks
    for strict in [n for n in benchmarks if n.endswith("-99.9")]:
        loose = strict.removesuffix(".9")
        if (name, strict) == ("v6.1", "llama2-70b-99.9"):
            assert loose not in benchmarks  # the round kept 99.9 alone
            continue
        assert loose in benchmarks, strict
        first = {g.metric: g for g in benchmarks[loose].accuracy}
        second = {g.metric: g for g in benchmarks[strict].accuracy}
        assert first.keys() == second.keys()
        for metric, gate in second.items():
            assert gate.reference == first[metric].reference
            assert gate.bound >= first[metric].bound
        assert any(gate.factor == 0.999 for gate in second.values())
        assert benchmarks[loose].dataset == benchmarks[strict].dataset


def test_gates_are_sane(round_: Round) -> None:
    for name, benchmark in round_.benchmarks.items():
        for gate in gates(benchmark):
            assert gate.metric in round_.accuracy_patterns, (name, gate.metric)
            assert math.isfinite(gate.bound)
            # A share of 1 or a percentage: which of them, its size says too.
            assert gate.unit != "fraction" or gate.reference <= 1, (name, gate)
            assert gate.unit != "percent" or 1 < gate.reference <= 100, (name, gate)
            assert gate.unit in SCORE_UNITS, (name, gate)
            printed = gate.in_unit(round_.accuracy_units[gate.metric])
            assert printed.unit == round_.accuracy_units[gate.metric]
            assert gate.reference > 0
        for gate in benchmark.accuracy:
            assert gate.factor is None or gate.factor in (0.9, 0.95, 0.98, 0.99, 0.999), name
        for gate in benchmark.accuracy_limits:
            assert gate.factor is None or gate.factor in (1.001, 1.1), name
        lower = {g.metric: g.bound for g in benchmark.accuracy}
        for gate in benchmark.accuracy_limits:
            assert gate.metric not in lower or lower[gate.metric] < gate.bound, name
        for scenario in benchmark.accuracy_by_scenario:
            assert scenario in benchmark.scenarios
        assert set(benchmark.test01_delta_percent) <= {g.metric for g in gates(benchmark)}


def test_patterns_are_used(round_: Round) -> None:
    used = {gate.metric for b in round_.benchmarks.values() for gate in gates(b)}
    placeholder = {"TOKENS_PER_SAMPLE"}
    assert set(round_.accuracy_units) == set(round_.accuracy_patterns)
    assert set(round_.accuracy_patterns) - placeholder <= used | placeholder


def test_scenarios_are_sane(round_: Round) -> None:
    for name, benchmark in round_.benchmarks.items():
        for scenario, rules in benchmark.scenarios.items():
            where = (name, scenario)
            assert rules.metric.key, where
            assert rules.metric.unit, where
            assert (rules.min_query_count is None) == rules.early_stopping, where
            assert (rules.min_samples_per_query is not None) == (scenario == "Offline"), where
            assert (rules.ttft_ms is None) == (rules.tpot_ms is None), where
            if rules.ttft_ms is not None and rules.tpot_ms is not None:
                assert rules.token_latencies, where
                assert rules.tpot_ms < rules.ttft_ms, where
            assert (rules.loadgen_scenario == "Server") == (scenario == "Interactive"), where
            if scenario == "Offline":
                assert rules.percentile is None, where
                assert rules.target_latency_ns is None, where
            else:
                assert rules.percentile in (0.9, 0.97, 0.99, 0.999), where
            if scenario == "Server" and rules.ttft_ms is None:
                assert rules.target_latency_ns, where
            if round_.power != type(round_.power)() or round_.name == "demo":
                assert rules.power_unit, where


def test_latencies_are_scaled_to_their_unit(round_: Round) -> None:
    scales = {"ms": 1e-6, "Latency (ms)": 1e-6, "Latency (s)": 1e-9, "ms (90th percentile)": 1e-6}
    for name, benchmark in round_.benchmarks.items():
        for scenario, rules in benchmark.scenarios.items():
            metric = rules.metric
            expected = scales[metric.unit] if "latency" in metric.key else 1.0
            assert metric.scale == expected, (name, scenario)


def test_interactive_is_stricter_than_server(round_: Round) -> None:
    for name, benchmark in round_.benchmarks.items():
        server, interactive = (benchmark.scenarios.get(s) for s in ("Server", "Interactive"))
        if server is None or interactive is None or interactive.ttft_ms is None:
            continue
        assert server.ttft_ms is not None and server.tpot_ms is not None, name
        assert interactive.tpot_ms is not None, name
        assert interactive.ttft_ms < server.ttft_ms, name
        assert interactive.tpot_ms < server.tpot_ms, name


def test_layout_patterns_use_known_places(round_: Round) -> None:
    layout = round_.layout
    known = {"division", "submitter", "system", "benchmark", "scenario"}
    single = (layout.compliance, layout.documentation, layout.nameplate_power, layout.private_id)
    patterns = [
        *(layout.system, layout.results, layout.measurements),
        *layout.measurements_file,
        *layout.calibration,
        *filter(None, (*single, round_.aliases.mapping_file)),
    ]
    for pattern in patterns:
        assert set(re.findall(r"\{(\w*)\}", pattern)) <= known, pattern
        assert "\\" not in pattern
        assert not pattern.startswith("/")
    assert {"division", "submitter", "system", "benchmark", "scenario"} <= set(
        re.findall(r"\{(\w+)\}", layout.results)
    )


def test_fields_that_must_not_be_empty_are_required(round_: Round) -> None:
    fields = round_.system_description
    assert set(fields.non_empty) <= set(fields.required)
    assert set(fields.numeric) <= set(fields.required)
    assert not set(fields.required) & set(fields.optional)
    assert set(round_.measurements.non_empty) <= set(round_.measurements.required)


def test_endpoints_are_a_matter_of_v61() -> None:
    for name in NAMES:
        allowed = [n for n, b in load_round(name).benchmarks.items() if b.endpoints]
        assert bool(allowed) == bool(load_round(name).layout.endpoints) == (name == "v6.1")


# Founding facts


@pytest.mark.parametrize(
    ("benchmark", "metric", "published", "factor"),
    [
        ("resnet", "acc", 76.456, 0.99),
        ("mobilenet", "acc", 71.676, 0.98),
        ("ssd-large", "mAP", 20.0, 0.99),
        ("ssd-small", "mAP", 22.0, 0.99),
        ("gnmt", "bleu", 23.9, 0.99),
    ],
)
def test_quality_targets_of_the_first_round(
    benchmark: str, metric: str, published: float, factor: float
) -> None:
    (gate,) = load_round("v0.5").benchmarks[benchmark].accuracy
    assert gate.metric == metric
    assert gate.reference == pytest.approx(published, abs=0.005)
    assert gate.factor == factor


def test_latency_bounds_and_counts_of_the_first_round() -> None:
    round_ = load_round("v0.5")
    server = {n: b.scenarios["Server"] for n, b in round_.benchmarks.items()}
    bounds = {n: s.target_latency_ns for n, s in server.items()}
    assert bounds == {
        "mobilenet": 10_000_000,
        "resnet": 15_000_000,
        "ssd-small": 10_000_000,
        "ssd-large": 100_000_000,
        "gnmt": 250_000_000,
    }
    assert {n: s.percentile for n, s in server.items() if s.percentile != 0.99} == {"gnmt": 0.97}
    assert {s.runs for s in server.values()} == {5}
    assert {n: s.min_query_count for n, s in server.items() if n != "gnmt"} == dict.fromkeys(
        ("mobilenet", "resnet", "ssd-small", "ssd-large"), 270336
    )
    offline = {b.scenarios["Offline"].min_samples_per_query for b in round_.benchmarks.values()}
    assert offline == {24576}


def test_well_known_values_of_later_rounds() -> None:
    v60 = load_round("v6.0").benchmarks
    assert v60["bert-99.9"].accuracy == [Gate("F1", 90.874, "percent", 0.999)]
    assert v60["llama2-70b-99"].scenarios["Server"].ttft_ms == 2000
    assert v60["llama2-70b-99"].scenarios["Interactive"].tpot_ms == 40
    assert v60["dlrm-v3"].scenarios["Server"].target_latency_ns == 60_000_000_000
    assert v60["dlrm-v3"].accuracy_limits == [Gate("DLRM_NE", 0.86687, "points", 1.001)]
    pointpainting = load_round("v5.0").benchmarks["pointpainting"]
    assert pointpainting.scenarios["SingleStream"].percentile == 0.999
    v61 = load_round("v6.1").benchmarks["qwen3-vl-235b-a22b"]
    assert v61.dataset.accuracy_sample_count_by_scenario == {"Interactive": 8000}
    assert v61.accuracy_by_scenario["Interactive"][0].reference == 0.7878


def test_demo_is_no_mlperf_round() -> None:
    demo = load_round("demo")
    assert not demo.official
    assert [name for name in NAMES if not load_round(name).official] == ["demo"]
    assert "No MLPerf round" in text_of("demo").splitlines()[2]
    assert demo.seeds == load_round("v6.1").seeds
    assert demo.layout.results == load_round("v6.1").layout.results
