"""How a round is written: a file without repetition, expanded here into what ``schemas.round`` reads.

Every file is complete by itself: defaults come from the same file, never from another round.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from schemas.round import Round, age

# A number as the accuracy scripts print it; nan and inf are seen, and judged later.
NUMBER = r"(?P<v>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|(?i:nan|inf)))"

Table = dict[str, Any]


class BadRound(ValueError):
    """A round file does not obey its structure; the message names file and place."""


class AccuracyMetric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One metric of accuracy.txt. ``line``: a pattern searched in each line, {number} its value."""

    unit: str
    line: str


class _Benchmark(msgspec.Struct, frozen=True):
    """What a benchmark's table has for expansion alone."""

    like: str | None = None
    token_latencies: bool = False
    each_scenario: Table = {}
    scenarios: dict[str, Table] = {}


class _ComplianceTest(msgspec.Struct, frozen=True):
    each_benchmark: Table = {}
    settings: dict[str, Table] = {}


class _File(msgspec.Struct, frozen=True):
    """The parts of a round's file that are expanded. Everything else is read as it is."""

    accuracy_metrics: dict[str, AccuracyMetric]
    benchmarks: dict[str, _Benchmark]
    scenario_defaults: dict[str, Table] = {}
    token_scenario_defaults: dict[str, Table] = {}
    compliance: dict[str, _ComplianceTest] = {}


_ONLY_HERE = {
    "file": ("accuracy_metrics", "scenario_defaults", "token_scenario_defaults"),
    "benchmark": ("like", "token_latencies", "each_scenario"),
    "compliance": ("each_benchmark",),
}


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Names of rounds, oldest first, the demo round last."""
    return tuple(sorted(names, key=age))


def parse_round(text: str, origin: str) -> Round:
    """Parse a round file's text. Raises BadRound, with ``origin`` in the message."""
    import tomllib

    try:
        return msgspec.convert(expand(tomllib.loads(text)), Round)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise BadRound(f"{origin}: {error}") from error


def expand(table: Table) -> Table:
    """A round's file as read from TOML -> the fields of ``schemas.round.Round``.

    A scenario gets, each on top of the one before: ``scenario_defaults``, where the benchmark sets
    ``token_latencies`` also ``token_scenario_defaults``, the benchmark's ``each_scenario``, and its
    own values. A benchmark ``like`` another has the other's values and compliance settings where it
    names none. Raises msgspec.ValidationError.
    """
    file = msgspec.convert(table, _File)
    tables: dict[str, Table] = table["benchmarks"]
    benchmarks = {}
    for name, benchmark in file.benchmarks.items():
        own = tables[name]
        if benchmark.like is not None:
            if benchmark.like not in tables or "like" in tables[benchmark.like]:
                raise msgspec.ValidationError(
                    f"benchmark {name}: like names {benchmark.like}, which is not a benchmark "
                    "written out in this file"
                )
            own = _with_scenarios(tables[benchmark.like], own)
            benchmark = msgspec.convert(own, _Benchmark)
        scenarios = {
            scenario: _scenario(file, benchmark, scenario) for scenario in benchmark.scenarios
        }
        benchmarks[name] = _without(own, "benchmark") | {"scenarios": scenarios}
    return _without(table, "file") | {
        "accuracy_patterns": {
            name: metric.line.replace("{number}", NUMBER)
            for name, metric in file.accuracy_metrics.items()
        },
        "accuracy_units": {name: metric.unit for name, metric in file.accuracy_metrics.items()},
        "compliance": {
            name: _without(table["compliance"][name], "compliance") | _settings(file, test)
            for name, test in file.compliance.items()
        },
        "benchmarks": benchmarks,
    }


def _without(table: Table, kind: str) -> Table:
    return {key: value for key, value in table.items() if key not in _ONLY_HERE[kind]}


def _with_scenarios(base: Table, own: Table) -> Table:
    return base | own | {"scenarios": base["scenarios"] | own.get("scenarios", {})}


def _scenario(file: _File, benchmark: _Benchmark, scenario: str) -> Table:
    layers = [file.scenario_defaults.get(scenario, {})]
    if benchmark.token_latencies:
        layers.append(file.token_scenario_defaults.get(scenario, {}))
    layers += [benchmark.each_scenario, benchmark.scenarios[scenario]]
    result: Table = {}
    for layer in layers:
        for key, value in layer.items():
            below = result.get(key)
            if isinstance(below, dict) and isinstance(value, dict):
                result[key] = below | value  # {metric.unit = "Samples/s"} changes the unit alone
            else:
                result[key] = value
    return result


def _settings(file: _File, test: _ComplianceTest) -> Table:
    if not test.settings:
        return {}
    found = {name: test.each_benchmark | values for name, values in test.settings.items()}
    for name, benchmark in file.benchmarks.items():
        if benchmark.like in found:
            found.setdefault(name, found[benchmark.like])
    return {"settings": found}
