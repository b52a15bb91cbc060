"""Run settings: what a user may choose, what LoadGen is told, what a run will cost.

LoadGen reads its own configuration first (`FromConfig("", model, scenario, 0)`: seeds, query
counts, limits of the round it was built for), then the submitter's user.conf (`..., 2`).  Its
default, type 1, loads the first part only once in a process.  Unknown keys it ignores without a
word, so user.conf is linted here, and every value the runner measured is written into user.conf
too: the file in the submission is the file that was run.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from checker.early_stopping import total_queries
from checker.parse.user_conf import Conf, Setting, parse_conf
from runner.errors import ResourceError, SettingsError, UserConfError

Mode = Literal["performance", "accuracy"]
SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")
INTERACTIVE = "Interactive"
"""A result's scenario that LoadGen runs as Server, with limits of its own."""
RESULTS = (*SCENARIOS, INTERACTIVE)
MODES: tuple[Mode, ...] = ("performance", "accuracy")

# Measured on mlcommons-loadgen 6.0: what one pre-generated query or Offline sample costs.
QUERY_BYTES = 300
SAMPLE_BYTES = 100  # each further sample of a query
OFFLINE_SAMPLE_BYTES = 470
SAMPLES_PER_QUERY = {"SingleStream": 1, "MultiStream": 8, "Server": 1, "Offline": 1}
LOADGEN_MS = 0.003  # what LoadGen and Python add to a query at the least
# Early stopping at the 99th percentile needs 459 queries in time if none is late, and some 100 to
# 150 more for each one that is.
SERVER_QUERIES = 1000
SERVER_PERCENTILE = 0.99
LONGER_S = 600.0  # a run that is asked to be shorter may become so long, to have as many
MEMORY_SHARE = 0.4  # of the free memory, for LoadGen's queries

DEFAULT_DURATION_MS = 600_000  # LoadGen's min_duration where no configuration sets one

_ANY = frozenset(SCENARIOS)
_STREAMS = frozenset({"SingleStream", "MultiStream"})
_RATES = frozenset({"Server", "Offline"})
_SERVER = frozenset({"Server"})

_WHOLE = re.compile(r"[0-9]+\Z")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?\Z|\.[0-9]+([eE][+-]?[0-9]+)?\Z")


@dataclass(frozen=True)
class _Key:
    scenarios: frozenset[str]
    whole: bool
    unit: str
    highest: float  # beyond this the value is in another unit


_ALLOWED = {
    "target_latency": _Key(_STREAMS, False, "milliseconds", 3_600_000),
    "target_qps": _Key(_RATES, False, "samples per second", 1e12),
    "min_duration": _Key(_ANY, True, "milliseconds", 1e9),
    "max_duration": _Key(_ANY, True, "milliseconds", 1e9),
    "min_query_count": _Key(_ANY, True, "queries", 1e9),
    "performance_sample_count_override": _Key(_ANY, True, "samples", 1e9),
    "coalesce_queries": _Key(_SERVER, True, "0 or 1", 1),
    "max_async_queries": _Key(_SERVER, True, "queries", 1e9),
}
_FORBIDDEN = {
    **dict.fromkeys(
        ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"),
        "seeds are the round's, and LoadGen takes them from its own configuration only",
    ),
    **dict.fromkeys(
        ("accuracy_log_rng_seed", "accuracy_log_probability", "accuracy_log_sampling_target"),
        "sampled accuracy belongs to the compliance tests' audit.config",
    ),
    **dict.fromkeys(
        ("performance_issue_unique", "performance_issue_same", "performance_issue_same_index"),
        "which samples are issued belongs to the compliance tests' audit.config",
    ),
    **dict.fromkeys(
        (
            "test05",
            "test05_qsl_rng_seed",
            "test05_sample_index_rng_seed",
            "test05_schedule_rng_seed",
        ),
        "it belongs to a compliance test",
    ),
    **dict.fromkeys(
        (
            "use_token_latencies",
            "ttft_latency",
            "tpot_latency",
            "infer_token_latencies",
            "token_latency_scaling_factor",
        ),
        "token latencies and their limits are the round's",
    ),
    "target_latency_percentile": "the percentile is the round's",
    "samples_per_query": "the number of samples in a query is the round's",
    "sample_concatenate_permutation": "equal issue is the round's",
    "accuracy_sample_count_override": "an accuracy run covers the whole data set",
    "max_query_count": "a cap on queries ends the run early, with an error in the log",
    "target_duration": "use min_duration",
    "print_timestamps": "it slows the run and tells nothing that counts",
    "mode": "the runner sets the mode of each run",
}


def parse_user_conf(
    text: str,
    *,
    name: str = "user.conf",
    least_duration_ms: int = 0,
    server_limit_allowed: bool = False,
) -> Conf:
    """Read and lint a user.conf.

    Args:
        text: the file's content.
        name: how messages call it.
        least_duration_ms: the round's minimum duration; a shorter min_duration is refused.
        server_limit_allowed: whether Server's target_latency may be set here.  In a round it is
            LoadGen's own; only a benchmark that LoadGen does not know needs it.

    Raises:
        UserConfError: the first line that LoadGen would misread, ignore, or must not be given.
    """
    conf = parse_conf(text, name)
    odd = dict(conf.odd_lines)
    settings = {setting.line: setting for setting in conf.settings}
    for number in sorted((*odd, *settings)):
        where = f"{name}:{number}"
        if number in odd:
            raise UserConfError(
                f"{where}: found {odd[number]!r}; expected 'model.Scenario.key = number', for "
                "example '*.Server.target_qps = 100'.",
                number,
            )
        setting = settings[number]
        value = _value(setting.key, setting.value, where, number)
        _lint(setting, value, where, least_duration_ms, server_limit_allowed)
    return conf


def _value(key: str, text: str, where: str, number: int) -> float:
    if key in _FORBIDDEN:
        raise UserConfError(
            f"{where}: found {key!r}, which a user.conf must not set: {_FORBIDDEN[key]}. "
            "Delete the line.",
            number,
        )
    if key not in _ALLOWED:
        near = [known for known in _ALLOWED if known.startswith(key[:6])]
        raise UserConfError(
            f"{where}: found key {key!r}, which LoadGen does not know and would ignore; expected "
            f"one of {', '.join(near or _ALLOWED)}.",
            number,
        )
    rule = _ALLOWED[key]
    if not (_WHOLE if rule.whole else _NUMBER).match(text):
        raise UserConfError(
            f"{where}: found {key} = {text}; expected a "
            f"{'whole ' if rule.whole else ''}number ({rule.unit}), without a unit.",
            number,
        )
    return float(text)


def _lint(
    line: Setting, value: float, where: str, least_duration_ms: int, server_limit_allowed: bool
) -> None:
    rule = _ALLOWED[line.key]
    if line.scenario != "*" and line.scenario not in SCENARIOS:
        raise UserConfError(
            f"{where}: found scenario {line.scenario!r}; expected {', '.join(SCENARIOS)} or '*', "
            "written like that.",
            line.line,
        )
    scenarios = rule.scenarios
    if line.key == "target_latency" and server_limit_allowed:
        scenarios = scenarios | _SERVER
    if line.scenario not in scenarios and not (line.scenario == "*" and scenarios == _ANY):
        fixed = line.key == "target_latency" and line.scenario == "Server"
        why = "Server's latency limit is the round's; " if fixed else ""
        raise UserConfError(
            f"{where}: found {line.key} for {line.scenario}; {why}it may be set for "
            f"{', '.join(s for s in SCENARIOS if s in scenarios)}.",
            line.line,
        )
    if value > rule.highest or (value <= 0 and line.key in ("target_latency", "target_qps")):
        raise UserConfError(
            f"{where}: found {line.key} = {value:g}; expected {rule.unit} (more than 0, at "
            f"most {rule.highest:g}). Is the value in another unit?",
            line.line,
        )
    if line.key == "min_duration" and value < least_duration_ms:
        raise UserConfError(
            f"{where}: found min_duration = {value:g} ms; the round requires at least "
            f"{least_duration_ms} ms. The unit is milliseconds.",
            line.line,
        )


@dataclass(frozen=True)
class RunSettings:
    """One LoadGen run, before anything is measured.

    Attributes:
        model: name LoadGen's configuration is looked up by.
        scenario: one of `SCENARIOS`.
        mode: "performance" or "accuracy".
        min_duration_ms: None leaves it to LoadGen's configuration (600,000).
        min_query_count: None leaves it to LoadGen's configuration.
        target_latency_ms: Server's limit, only for a benchmark LoadGen does not know.
        target_qps: Server and Offline, samples per second; None: from the warm-up.
        expected_latency_ms: SingleStream and MultiStream, per query; None: from the warm-up.
        user_conf: text of a user.conf to start from; its lines win over all of the above.
        least_duration_ms: the round's minimum; shorter in user.conf is refused.
        load: share of the measured batch-1 rate that becomes Server's target_qps.
        audit_conf: an audit.config for a compliance run; None: none, not even one that lies in
            the working directory.
        seeds: the round's qsl, sample index and schedule seed, where they are not those that
            LoadGen has built in.
        interactive: whether this Server run is that of an Interactive result.
        token_latencies: whether LoadGen is to take the times to and between tokens; ttft_ms,
            tpot_ms: their limits in Server, None where LoadGen's own configuration has them.
        equal_issue: whether every sample is issued equally often; False: as LoadGen's own
            configuration has it.

    Raises:
        SettingsError: a name or number that cannot be.
    """

    model: str
    scenario: str
    mode: Mode = "performance"
    min_duration_ms: int | None = None
    min_query_count: int | None = None
    target_latency_ms: float | None = None
    target_qps: float | None = None
    expected_latency_ms: float | None = None
    user_conf: str = ""
    least_duration_ms: int = 0
    load: float = 0.25
    audit_conf: str | None = None
    seeds: tuple[int, int, int] | None = None
    interactive: bool = False
    token_latencies: bool = False
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    equal_issue: bool = False

    @property
    def result(self) -> str:
        """The scenario of the result; LoadGen knows Interactive as Server."""
        return INTERACTIVE if self.interactive else self.scenario

    def __post_init__(self) -> None:
        if self.scenario not in SCENARIOS:
            raise SettingsError(
                f"found scenario {self.scenario!r}; expected one of {', '.join(SCENARIOS)}."
            )
        if self.mode not in MODES:
            raise SettingsError(f"found mode {self.mode!r}; expected {' or '.join(MODES)}.")
        for name in (
            "min_duration_ms",
            "min_query_count",
            "target_latency_ms",
            "target_qps",
            "expected_latency_ms",
            "ttft_ms",
            "tpot_ms",
        ):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise SettingsError(f"found {name}={value}; expected a number above 0.")
        if not 0 < self.load <= 1:
            raise SettingsError(f"found load={self.load}; expected more than 0 and at most 1.")

    def conf(self) -> Conf:
        """`user_conf`, linted."""
        return parse_user_conf(
            self.user_conf,
            least_duration_ms=self.least_duration_ms,
            server_limit_allowed=self.target_latency_ms is not None,
        )

    def given(self) -> dict[str, float]:
        """user.conf keys that are settled before the warm-up, for this model and scenario."""
        asked: dict[str, float | None] = {
            "min_duration": self.min_duration_ms,
            "min_query_count": self.min_query_count,
        }
        if self.scenario in _RATES:
            asked["target_qps"] = self.target_qps
            if self.scenario == "Server":
                asked["target_latency"] = self.target_latency_ms
        else:
            asked["target_latency"] = self.expected_latency_ms
        conf = self.conf()
        values = {}
        for key in _ALLOWED:
            setting = conf.lookup(self.model, self.scenario, key)
            value = setting.number if setting is not None else asked.get(key)
            if value is not None:
                values[key] = value
        return values


@functools.cache
def loadgen_minimum(model: str, scenario: str) -> tuple[int, int]:
    """LoadGen's min_duration in ms and min_query_count (Offline: samples) for a model.

    They come from the configuration built into the installed LoadGen: resnet50 in Offline has
    24,576 samples where a model that it does not know has 100.

    Raises:
        SettingsError: LoadGen cannot look the model up.
    """
    import mlperf_loadgen as lg

    test = lg.TestSettings()
    test.scenario = getattr(lg.TestScenario, scenario)
    code = test.FromConfig("", model, scenario, 0)
    if code:
        raise SettingsError(
            f"LoadGen returned {code} for model {model!r} in its own configuration; expected 0."
        )
    return int(test.min_duration_ms), int(test.min_query_count)


def with_queries(settings: RunSettings, rate: float, longest_s: float = LONGER_S) -> RunSettings:
    """A Server run at a rate that the runner chose, with as many queries as early stopping needs.

    Unchanged where the user says how many, where there are enough, and where they would take longer
    than `longest_s` and ten times the run's minimum duration; tokens, which are slow, have the time.
    """
    given = settings.given()
    if settings.scenario != "Server" or "min_query_count" in given:
        return settings
    duration, least = loadgen_minimum(settings.model, settings.scenario)
    seconds = given.get("min_duration", duration) / 1000
    if max(least, rate * seconds) >= SERVER_QUERIES:
        return settings
    if SERVER_QUERIES / rate > max(10 * seconds, longest_s) and not settings.token_latencies:
        return settings
    return replace(settings, min_query_count=SERVER_QUERIES)


@dataclass(frozen=True)
class WarmUp:
    """What a short warm-up measured.

    `best_s`, `typical_s`: seconds for one batch, fastest and median; `batch`: its samples (1, the
    8 of MultiStream, or Offline's batch size).
    """

    batch: int
    best_s: float
    typical_s: float


@dataclass(frozen=True)
class Hints:
    """What a run will be: `values` complete the user.conf, the rest is an estimate.

    `queries`: pre-generated by LoadGen (Offline: samples of the one query); `memory_bytes`: what
    they take; `seconds`: how long the run lasts, None where the warm-up cannot tell.
    """

    values: Mapping[str, float]
    queries: int
    memory_bytes: int
    seconds: float | None
    warnings: tuple[str, ...] = ()


def pregenerated(scenario: str, duration_ms: float, min_queries: float, hint: float) -> int:
    """Queries that LoadGen generates before the run starts.

    Args:
        hint: expected latency in ms (SingleStream, MultiStream), or target_qps.

    Returns:
        Queries; for Offline, the samples of its single query.
    """
    if scenario in _STREAMS:
        return int(max(min_queries, 2 * duration_ms / hint))
    seconds = duration_ms / 1000
    if scenario == "Offline":
        return int(max(min_queries, 1.1 * hint * seconds))
    return int(max(min_queries, hint * seconds))


def memory_bytes(scenario: str, queries: int) -> int:
    """Memory that LoadGen takes for so many queries (Offline: samples), in bytes."""
    if scenario == "Offline":
        return queries * OFFLINE_SAMPLE_BYTES
    return queries * (QUERY_BYTES + SAMPLE_BYTES * (SAMPLES_PER_QUERY[scenario] - 1))


def calibrate(settings: RunSettings, warm_up: WarmUp, free_bytes: int) -> Hints:
    """Choose what the user left open, and foresee what the run takes.

    Args:
        warm_up: SingleStream and Server: batch of 1; MultiStream: of 8; Offline: its batch size.
        free_bytes: memory that is free.

    Raises:
        SettingsError: with the hint given the run is certain to be INVALID.
        ResourceError: LoadGen's queries would not fit into the memory.
    """
    scenario = settings.scenario
    given = settings.given()
    default_duration, default_queries = loadgen_minimum(settings.model, scenario)
    duration = given.get("min_duration", default_duration)
    least = given.get("min_query_count", default_queries)
    room = int(free_bytes * MEMORY_SHARE)
    values = dict(given)
    warnings: list[str] = []
    best_ms, typical_ms = warm_up.best_s * 1000, warm_up.typical_s * 1000

    if settings.mode == "accuracy":
        # Every sample once; only Server keeps to a rate, and LoadGen's default is one a second.
        if scenario == "Server" and "target_qps" not in values:
            # Nothing is late in an accuracy run, and a language model carries many answers at once.
            load = max(settings.load, 0.7) if settings.token_latencies else settings.load
            values["target_qps"] = _rounded(load * 1000 / typical_ms)
        return Hints(values, 0, 0, None)

    if scenario in _STREAMS:
        key, per_query = "target_latency", memory_bytes(scenario, 1)
        if key in given:
            hint = given[key]
            generated = pregenerated(scenario, duration, least, hint)
            told = (
                f"an expected latency of {hint:g} ms, but a query took {typical_ms:.4g} ms in the "
                f"warm-up: LoadGen would run out of queries and the run be INVALID. Set "
                f"{settings.model}.{scenario}.target_latency below {best_ms:.4g}, or leave it out."
            )
            # Half as fast again as the warm-up: then there is no doubt any more.
            if generated < duration / (1.5 * typical_ms + LOADGEN_MS):
                raise SettingsError(f"found {told}")
            if generated < duration / (best_ms + LOADGEN_MS):
                warnings.append(f"{told} (if the run is as fast as the warm-up)")
        else:
            # Low enough that the queries last if the run is faster than the warm-up; where the
            # memory is short, with less to spare: LoadGen itself doubles the number.
            hint = 0.7 * (best_ms + LOADGEN_MS)
            if 2 * duration / hint * per_query > room:
                hint = min(1.5 * best_ms, 2 * duration * per_query / max(room, 1))
                warnings.append(
                    f"memory allows {2 * duration / hint:,.0f} pre-generated queries only; the "
                    "run becomes INVALID if it is much faster than the warm-up"
                )
            hint = _rounded(hint)
        seconds = max(duration / 1000, least * warm_up.typical_s)
    else:
        key = "target_qps"
        if key in given:
            hint = given[key]
        elif scenario == "Offline":
            # Offline must last for min_duration, so the rate may only be guessed too high.
            hint = _rounded(1.2 * warm_up.batch / warm_up.best_s)
        else:
            hint = _rounded(settings.load * 1000 / typical_ms)
        if scenario == "Offline":
            samples = pregenerated(scenario, duration, least, hint)
            seconds = samples * warm_up.typical_s / warm_up.batch
            if samples * warm_up.best_s / warm_up.batch < 0.7 * duration / 1000:
                warnings.append(
                    f"target_qps = {hint:g} looks too low for a run of {duration / 1000:g} s; the "
                    f"warm-up did {warm_up.batch / warm_up.typical_s:.4g} samples/s"
                )
        else:
            within = hint * duration / 1000
            if key not in given:
                enough = with_queries(settings, hint).min_query_count
                if enough is not None and enough != settings.min_query_count:
                    values["min_query_count"] = least = enough
            needed = total_queries(0, SERVER_PERCENTILE)
            if max(within, least) < needed:
                warnings.append(
                    f"found about {max(within, least):,.0f} queries in {duration / 1000:g} s; early "
                    f"stopping needs {needed} or more at the 99th percentile, so the run will be "
                    f"INVALID: run for at least {1.2 * needed / hint:,.0f} s or raise target_qps"
                )
            seconds = max(duration / 1000, least / hint)
            if hint * warm_up.best_s > 4:
                warnings.append(
                    f"target_qps = {hint:g} is {hint * warm_up.best_s:.1f} times what the warm-up "
                    "did one by one"
                )
    values[key] = hint

    queries = pregenerated(scenario, duration, least, hint)
    need = memory_bytes(scenario, queries)
    if need > room:
        what = "samples" if scenario == "Offline" else "queries"
        raise ResourceError(
            f"found {free_bytes / 1e9:.1f} GB of free memory; LoadGen would take "
            f"{need / 1e9:.1f} GB for {queries:,} pre-generated {what} "
            f"({scenario}, {duration / 1000:g} s, {key} = {hint:g}). Set {key} "
            f"{'higher' if scenario in _STREAMS else 'lower'}, shorten min_duration, or use a "
            "machine with more memory."
        )
    return Hints(
        values=values, queries=queries, memory_bytes=need, seconds=seconds, warnings=tuple(warnings)
    )


def _rounded(value: float) -> float:
    """Four significant digits: enough for a hint, readable in user.conf."""
    return float(f"{value:.4g}")


def user_conf_text(settings: RunSettings, hints: Hints) -> str:
    """The user.conf of this run: the user's own lines, then whatever they did not say."""
    conf = settings.conf()
    text = settings.user_conf.rstrip("\n")
    parts = [text] if text else []
    for key, value in hints.values.items():
        if conf.lookup(settings.model, settings.scenario, key) is None:
            number = f"{value:.0f}" if _ALLOWED[key].whole else f"{value:.10g}"
            parts.append(f"{settings.model}.{settings.scenario}.{key} = {number}")
    if not parts:
        parts = [f"# nothing is set here: LoadGen's own values for {settings.model} hold"]
    return "\n".join(parts) + "\n"


def to_loadgen(settings: RunSettings, user_conf: Path) -> Any:
    """LoadGen's TestSettings for this run.

    Args:
        user_conf: a file that passed `parse_user_conf`.

    Raises:
        SettingsError: LoadGen refuses the file.
    """
    import mlperf_loadgen as lg

    result = lg.TestSettings()
    result.scenario = getattr(lg.TestScenario, settings.scenario)
    result.mode = {
        "performance": lg.TestMode.PerformanceOnly,
        "accuracy": lg.TestMode.AccuracyOnly,
    }[settings.mode]
    codes = [
        result.FromConfig("", settings.model, settings.scenario, 0),
        result.FromConfig(str(user_conf), settings.model, settings.scenario, 2),
    ]
    if any(codes):
        raise SettingsError(
            f"{user_conf}: LoadGen answers {codes} to its own configuration and to this file; "
            "expected [0, 0]. Look for a value out of range."
        )
    if settings.seeds is not None:
        result.qsl_rng_seed, result.sample_index_rng_seed, result.schedule_rng_seed = settings.seeds
    if settings.token_latencies:
        result.use_token_latencies = True
        if settings.scenario == "Server":
            result.server_target_latency_ns = 0  # the whole answer has no limit
        if settings.ttft_ms is not None:
            result.ttft_latency = round(settings.ttft_ms * 1e6)
        if settings.tpot_ms is not None:
            result.tpot_latency = round(settings.tpot_ms * 1e6)
    if settings.equal_issue:
        result.sample_concatenate_permutation = True
    return result
