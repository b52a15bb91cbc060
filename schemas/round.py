"""A round's rules as data.

One self-contained TOML file a round (``schemas/rounds/<round>.toml``), read into the frozen
structures below. Quantities carry their unit in the field's name; seeds are strings because
some exceed 2**63. Absent means "the round has no such rule", never "unknown".
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from schemas.units import ScoreUnit, convert


class Seeds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The three LoadGen seeds announced for a round, as decimal strings."""

    qsl_rng_seed: str
    sample_index_rng_seed: str
    schedule_rng_seed: str


class Gate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One bound on an accuracy metric: ``reference * factor``, or ``reference`` itself.

    Whether it is a lower or an upper bound is said by the list it stands in.
    """

    metric: str
    reference: float
    unit: ScoreUnit
    factor: float | None = None

    @property
    def bound(self) -> float:
        """The value that the metric is compared with, in ``unit``."""
        return self.reference if self.factor is None else self.reference * self.factor

    def in_unit(self, unit: str) -> Gate:
        """The same bound for a score in another unit. Raises UnitMismatch."""
        if unit == self.unit:
            return self
        reference = convert(self.reference, self.unit, unit)
        return msgspec.structs.replace(self, reference=reference, unit=unit)


class Category(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which scenarios a benchmark needs in one category (``datacenter``, ``edge`` or both)."""

    required: list[str] = []
    optional: list[str] = []
    one_of: list[list[str]] = []

    @property
    def allowed(self) -> list[str]:
        """Every scenario that may be submitted, required ones first, without repeats."""
        alternatives = (scenario for group in self.one_of for scenario in group)
        return list(dict.fromkeys([*self.required, *alternatives, *self.optional]))


class Metric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the published number comes from: ``value = log[key] * scale`` in ``unit``."""

    key: str
    unit: str
    scale: float = 1.0


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The limits of one benchmark in one scenario.

    min_query_count: fixed minimum of ``effective_min_query_count`` (None with early stopping).
    min_samples_per_query: Offline's minimum of ``effective_samples_per_query``.
    samples_per_query: exact value (MultiStream).
    target_latency_ns: greatest allowed ``effective_target_latency_ns``.
    ttft_ms, tpot_ms: 99th percentile limits for token benchmarks.
    percentile: tail percentile as a fraction (0.9, 0.99, 0.999).
    loadgen_scenario: the scenario the log names when it is not the folder's (Interactive).
    """

    metric: Metric
    min_duration_ms: int
    min_query_count: int | None = None
    min_samples_per_query: int | None = None
    samples_per_query: int | None = None
    target_latency_ns: int | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    percentile: float | None = None
    early_stopping: bool = False
    runs: int = 1
    equal_issue: bool = False
    token_latencies: bool = False
    compliance: list[str] = []
    power_unit: str | None = None
    loadgen_scenario: str | None = None


class Dataset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The data set of the accuracy run.

    size: number of samples the QSL must report (None: the round states none).
    accuracy_sample_count: accepted alternative, compared with ``effective_accuracy_sample_count``.
    accuracy_sample_count_by_scenario: replaces ``accuracy_sample_count`` in the scenarios it names.
    """

    name: str
    size: int | None = None
    accuracy_sample_count: int | None = None
    accuracy_sample_count_by_scenario: dict[str, int] = {}

    def least(self, scenario: str | None) -> int | None:
        """The fewest samples that an accuracy run of this scenario may cover; None: not stated."""
        other = self.accuracy_sample_count_by_scenario.get(
            scenario or "", self.accuracy_sample_count
        )
        return min((n for n in (self.size, other) if n is not None), default=None)


class Benchmark(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One benchmark of a round.

    accuracy: lower bounds, every one must hold. accuracy_limits: upper bounds.
    accuracy_by_scenario: replaces ``accuracy`` in the scenarios it names.
    accuracy_order: metrics that stand first where accuracy is written in one line.
    conf_model: the name by which LoadGen's mlperf.conf knows the benchmark.
    endpoints_unit: unit of the score in an endpoints submission's accuracy_results.json, where it is
    not the gate's.
    """

    task: str
    dataset: Dataset
    categories: dict[str, Category]
    scenarios: dict[str, Scenario]
    accuracy: list[Gate]
    accuracy_limits: list[Gate] = []
    accuracy_by_scenario: dict[str, list[Gate]] = {}
    accuracy_order: list[str] = []
    performance_sample_count: int | None = None
    conf_model: str | None = None
    test01_delta_percent: dict[str, float] = {}
    images: list[str] = []
    videos: list[str] = []
    endpoints: bool = False
    endpoints_unit: ScoreUnit | None = None


class FileList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names expected in one kind of folder."""

    required: list[str] = []
    optional: list[str] = []


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where things live in the tree. Patterns use ``{division} {submitter} {system} {benchmark}
    {scenario}``; compliance patterns name the folder that holds the tests' folders.

    measurements_file: glob patterns inside the measurements folder, tried in order.
    calibration: alternatives, one of which a closed or network submitter must have.
    endpoints: the documents of an endpoints submission (``config``, ``performance``, ``accuracy``,
    ``audit``), below the results folder; empty where the round has no such submissions.
    """

    system: str
    results: str
    measurements: str
    measurements_file: list[str]
    code: list[str]
    compliance: str | None = None
    documentation: str | None = None
    calibration: list[str] = []
    nameplate_power: str | None = None
    private_id: str | None = None
    endpoints: dict[str, str] = {}
    submitter_entries: list[str] = []
    top_level_ignored: list[str] = []
    performance: FileList = FileList()
    accuracy: FileList = FileList()
    measurement_files: FileList = FileList()
    power_run: FileList = FileList()
    power: FileList = FileList()
    ignored_files: list[str] = []


class SystemDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Fields of ``systems/<system>.json``. ``one_of`` lists alternatives of which one is enough."""

    required: list[str]
    optional: list[str] = []
    one_of: list[list[str]] = []
    non_empty: list[str] = []
    numeric: list[str] = []
    network: list[str] = []
    power: list[str] = []
    status: list[str] = []
    system_type: list[str] = []


class Measurements(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fields of the measurements JSON."""

    required: list[str]
    non_empty: list[str] = []


class Inference(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A result that may be computed from another scenario's log.

    ``value = log[key] * scale``; where ``key`` is a latency that must be inverted,
    ``value = scale / log[key]`` (``inverse = true``).
    """

    source: str
    target: str
    key: str
    scale: float = 1.0
    inverse: bool = False
    categories: list[str] = msgspec.field(default_factory=lambda: ["edge"])


class Aliases(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How folder names become benchmark names: exact names first, then ``contains`` in order.

    ``contains`` holds pairs [part of the name, benchmark]. An empty benchmark means that the name
    is known but stands for no benchmark of this round: the search ends there.
    """

    exact: dict[str, str] = {}
    contains: list[list[str]] = []
    scenarios: dict[str, str] = {}
    mapping_file: str | None = None


class ComplianceTest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One compliance test: its files and its tolerances.

    settings: LoadGen overrides of its audit.config, per benchmark (``"*"``: any; a benchmark's own
    entries come on top), keys without the model and scenario part; ``"Offline.min_query_count"``
    holds in that scenario alone.
    accuracy_delta_percent: what ``Benchmark.test01_delta_percent`` does not say for a metric.
    endpoints_file: the test's document in an endpoints submission; it may be absent unless the
    benchmark stands in ``endpoints_required``.
    endpoints_tolerance: by how much its rate may exceed the reference's, by scenario.
    """

    purpose: str
    files: list[str] = []
    optional_files: list[str] = []
    settings: dict[str, dict[str, str | float | int]] = {}
    performance_tolerance: float | None = None
    low_latency_tolerance: float | None = None
    accuracy_delta_percent: float | None = None
    endpoints_file: str | None = None
    endpoints_required: list[str] = []
    endpoints_tolerance: dict[str, float] = {}

    @property
    def endpoints_name(self) -> str | None:
        """What an endpoints submission calls the test: ``output_caching_test``."""
        if self.endpoints_file is None:
            return None
        return self.endpoints_file.removeprefix("audit_").removesuffix(".json")


class Power(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The power measurement's rules: units per scenario come from the scenarios.

    drop_zero_watts: samples of 0 W and less are left out of the mean.
    energy_per: what an energy metric is divided by.
    """

    ptdaemon_versions: list[str] = []
    meters: dict[str, int] = {}
    max_drop_percent: float = 5.0
    max_clock_difference_ms: float = 800.0
    clock_is_utc: bool = True
    energy_scenarios: list[str] = msgspec.field(
        default_factory=lambda: ["SingleStream", "MultiStream"]
    )
    energy_per: Literal["query", "sample"] = "query"
    drop_zero_watts: bool = True


class LoadGen(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the round says about LoadGen itself. ``versions``: accepted major.minor prefixes."""

    log_format: Literal["mllog", "text"] = "mllog"
    versions: list[str] = []
    ignored_errors: list[str] = []


class AccuracyLog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits on the published accuracy log, bytes."""

    max_bytes: int | None = None
    hash_required: bool = True


class Round(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The rules of one round.

    accuracy_units: the unit in which the accuracy script prints each metric.
    accuracy_value: which value counts where accuracy.txt prints a metric several times.
    allowed_fallback_runs: folders below the results folder that stand in for ``performance/run_1``.
    """

    name: str
    title: str
    official: bool = True
    deadline: str | None = None
    published: str | None = None
    divisions: list[str]
    seeds: Seeds
    test05_seeds: Seeds | None = None
    loadgen: LoadGen
    accuracy_log: AccuracyLog
    max_file_bytes: int | None = None
    layout: Layout
    system_description: SystemDescription
    measurements: Measurements
    aliases: Aliases
    inference: list[Inference] = []
    accuracy_patterns: dict[str, str]
    accuracy_units: dict[str, ScoreUnit]
    accuracy_value: Literal["first", "last"] = "first"
    compliance: dict[str, ComplianceTest] = {}
    power: Power = Power()
    allowed_fallback_runs: list[str] = []
    benchmarks: dict[str, Benchmark]

    @property
    def number(self) -> tuple[int, ...]:
        """The round as numbers for comparing: ``v5.1`` is (5, 1), demo is ()."""
        digits = self.name.removeprefix("v").split(".")
        return tuple(int(d) for d in digits) if all(d.isdigit() for d in digits) else ()


def age(name: str) -> tuple[int, list[int]]:
    """A round's place among the others: v0.5 before v6.1, and the demo round after all."""
    return (0, [int(n) for n in re.findall(r"\d+", name)]) if name[:1] == "v" else (1, [])
