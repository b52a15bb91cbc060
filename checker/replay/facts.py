"""What a replay needs to know about a run, taken from the values of its detail log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Generation(Enum):
    """The versions of LoadGen whose query generation differs, oldest first."""

    #: No equal-issue mode.
    V1 = "before 2.0"
    #: Equal-issue mode in SingleStream and Offline. Its order is drawn even when it is off, which
    #: moves every later draw.
    V2_0 = "2.0"
    #: A run that repeats one sample (TEST04) lasts for a time, no longer for one round.
    V2_1 = "2.1 to 3.x"
    #: Equal-issue mode in every scenario but MultiStream; the query count is padded to whole rounds
    #: of the samples, in Offline too, where the padding is generated but never issued.
    V4 = "4.x"
    #: As before, but Offline stays one query.
    V5 = "5.0 and later"


#: Generation by the SHA-1 of loadgen.cc, as logged in ``loadgen_file_sha1``. A source's hash says
#: more than the version string, which builders can set.
GENERATION_BY_SOURCE: Final[Mapping[str, Generation]] = {
    "d0a22cb9115eed76f7cfb81ee8d0679ba16485fe": Generation.V1,
    "3af7b13050292512605cff7cb87106b6fc00e3cc": Generation.V1,
    "3c48f3b9299047a6000902759bc2f18ffcdcfa30": Generation.V1,
    "71dffddfb42fd12284b74b6cc2d3da6a92440c62": Generation.V2_0,
    "857917d9337901a628ffabfc981feae8affa0361": Generation.V2_1,
    "fd56c61f0625c1a1804aeb82cdc1283d631f3fe0": Generation.V2_1,
    "2e2b2af8ef430118c54969658ad45ffd1a0a4910": Generation.V2_1,
    "b8a6ce9abc6a369c8c7cb5c1bdd737fd917ad1a9": Generation.V2_1,
    "6650091ba7a918f343b06eb7a5aa540eae87275f": Generation.V4,
    "6daa9cd51454a699fcb55d9aa6bf9e54dd7b7a97": Generation.V5,
    "86bc3765857092b9d1f380604b101c771679842a": Generation.V5,
}


def generation_of(loadgen_version: str, loadgen_cc_sha1: str | None = None) -> Generation:
    """The generation of a LoadGen build.

    ``loadgen_version`` is the logged string, such as "5.1.0 @ 50de99161e"; ``loadgen_cc_sha1`` the
    logged hash of loadgen.cc, which wins when it is known. A version that is not a number, such as
    the ".5a1" that LoadGen called itself up to v1.0, is the oldest generation.
    """
    if loadgen_cc_sha1 is not None:
        known = GENERATION_BY_SOURCE.get(loadgen_cc_sha1.lower())
        if known is not None:
            return known
    number = re.match(r"\s*v?(\d+)(?:\.(\d+))?", loadgen_version)
    version = (int(number[1]), int(number[2] or 0)) if number else (0, 0)
    for first, generation in (
        ((5, 0), Generation.V5),
        ((4, 0), Generation.V4),
        ((2, 1), Generation.V2_1),
        ((2, 0), Generation.V2_0),
    ):
        if version >= first:
            return generation
    return Generation.V1


class MissingFact(ValueError):
    """The log lacks a key that the replay needs, or it holds something else than expected."""

    def __init__(self, key: str, found: object) -> None:
        super().__init__(f"{key}: {'absent' if found is None else f'not usable: {found!r}'}")
        self.key = key


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The settings in effect during one run, in LoadGen's own units.

    ``scenario`` is SingleStream, MultiStream, Server or Offline; ``accuracy`` distinguishes AccuracyOnly
    from PerformanceOnly. ``target_qps`` is in queries per second as the log gives it, that is, with
    six digits; SingleStream and MultiStream derive it from ``expected_latency_ns``, which is None
    in the other scenarios. ``permutation`` is equal-issue mode (sample_concatenate_permutation),
    None when the log does not say. ``accuracy_count`` is 0 when the log does not say.
    """

    generation: Generation
    scenario: str
    accuracy: bool
    total_count: int
    performance_count: int
    accuracy_count: int
    samples_per_query: int
    target_qps: float
    expected_latency_ns: float | None
    target_duration_ms: int
    min_duration_ms: int
    min_query_count: int
    min_sample_count: int
    qsl_seed: int
    sample_index_seed: int
    schedule_seed: int
    accuracy_log_seed: int
    accuracy_log_probability: float
    accuracy_log_sampling_target: int
    issue_unique: bool
    issue_same: bool
    issue_same_index: int
    permutation: bool | None

    @classmethod
    def from_log(cls, values: Mapping[str, object]) -> RunFacts:
        """Take the facts from the values of a detail log, keyed as LoadGen keys them.

        Raises MissingFact for a key that is needed and absent or of another type, and for a test
        mode that runs more than one pass (SubmissionRun, FindPeakPerformance).
        """
        sources = values.get("loadgen_file_sha1")
        source = sources.get("/loadgen.cc") if isinstance(sources, Mapping) else None
        scenario = _text(values, "effective_scenario")
        mode = _text(values, "effective_test_mode")
        if mode not in ("AccuracyOnly", "PerformanceOnly"):
            raise MissingFact("effective_test_mode", mode)
        if scenario not in ("SingleStream", "MultiStream", "Server", "Offline"):
            raise MissingFact("effective_scenario", scenario)
        permutation = values.get("effective_sample_concatenate_permutation")
        return cls(
            generation=generation_of(
                _text(values, "loadgen_version"), source if isinstance(source, str) else None
            ),
            scenario=scenario,
            accuracy=mode == "AccuracyOnly",
            total_count=_integer(values, "qsl_reported_total_count"),
            performance_count=_integer(values, "effective_performance_sample_count"),
            accuracy_count=_integer(values, "effective_accuracy_sample_count", 0),
            samples_per_query=_integer(values, "effective_samples_per_query"),
            target_qps=_number(values, "effective_target_qps"),
            expected_latency_ns=_expected_latency(values, scenario),
            target_duration_ms=_integer(values, "effective_target_duration_ms"),
            min_duration_ms=_integer(values, "effective_min_duration_ms"),
            min_query_count=_integer(values, "effective_min_query_count"),
            min_sample_count=_integer(values, "effective_min_sample_count", 0),
            qsl_seed=_integer(values, "effective_qsl_rng_seed"),
            sample_index_seed=_integer(values, "effective_sample_index_rng_seed"),
            schedule_seed=_integer(values, "effective_schedule_rng_seed"),
            accuracy_log_seed=_integer(values, "effective_accuracy_log_rng_seed", 0),
            accuracy_log_probability=_number(values, "effective_accuracy_log_probability", 0.0),
            accuracy_log_sampling_target=_integer(
                values, "effective_accuracy_log_sampling_target", 0
            ),
            issue_unique=bool(values.get("effective_performance_issue_unique", False)),
            issue_same=bool(values.get("effective_performance_issue_same", False)),
            issue_same_index=_integer(values, "effective_performance_issue_same_index", 0),
            permutation=permutation if isinstance(permutation, bool) else None,
        )


LOG_KEYS = (
    "loadgen_version",
    "loadgen_file_sha1",
    "qsl_reported_total_count",
    "requested_single_stream_expected_latency_ns",
    "requested_multi_stream_expected_latency_ns",
    "effective_scenario",
    "effective_test_mode",
    "effective_samples_per_query",
    "effective_target_qps",
    "effective_target_duration_ms",
    "effective_min_duration_ms",
    "effective_min_query_count",
    "effective_min_sample_count",
    "effective_performance_sample_count",
    "effective_accuracy_sample_count",
    "effective_qsl_rng_seed",
    "effective_sample_index_rng_seed",
    "effective_schedule_rng_seed",
    "effective_accuracy_log_rng_seed",
    "effective_accuracy_log_probability",
    "effective_accuracy_log_sampling_target",
    "effective_performance_issue_unique",
    "effective_performance_issue_same",
    "effective_performance_issue_same_index",
    "effective_sample_concatenate_permutation",
)
"""What `RunFacts.from_log` reads."""


def _text(values: Mapping[str, object], key: str) -> str:
    found = values.get(key)
    if not isinstance(found, str):
        raise MissingFact(key, found)
    return found


def _integer(values: Mapping[str, object], key: str, default: int | None = None) -> int:
    found = values.get(key, default)
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise MissingFact(key, found)
    return found


def _number(values: Mapping[str, object], key: str, default: float | None = None) -> float:
    found = values.get(key, default)
    if not isinstance(found, (int, float)) or isinstance(found, bool):
        raise MissingFact(key, found)
    return float(found)


def _expected_latency(values: Mapping[str, object], scenario: str) -> float | None:
    key = {
        "SingleStream": "requested_single_stream_expected_latency_ns",
        "MultiStream": "requested_multi_stream_expected_latency_ns",
    }.get(scenario)
    # MultiStream was paced by a rate up to v1.1, so its latency may be missing.
    latency = values.get(key) if key else None
    if isinstance(latency, (int, float)) and not isinstance(latency, bool) and latency > 0:
        return float(latency)
    return None
