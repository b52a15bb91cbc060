"""Whether a test's audit.config was really in effect, as LoadGen logged it.

Source: the round's audit.config files (``round.compliance[test].settings``); LoadGen's records
``requested_*`` and ``effective_*``.
"""

from __future__ import annotations

import msgspec

from checker.parse.detail import DetailLog
from schemas.round import Round

_LOGGED = {
    "mode": "effective_test_mode",
    "accuracy_log_rng_seed": "effective_accuracy_log_rng_seed",
    "accuracy_log_sampling_target": "effective_accuracy_log_sampling_target",
    "performance_issue_unique": "effective_performance_issue_unique",
    "performance_issue_same": "effective_performance_issue_same",
    "performance_issue_same_index": "effective_performance_issue_same_index",
    "min_query_count": "requested_min_query_count",
    "min_duration": "requested_min_duration_ms",
    "sample_concatenate_permutation": "effective_sample_concatenate_permutation",
    "qsl_rng_seed": "effective_qsl_rng_seed",
    "sample_index_rng_seed": "effective_sample_index_rng_seed",
    "schedule_rng_seed": "effective_schedule_rng_seed",
}
_MODES = {0: "SubmissionRun", 1: "AccuracyOnly", 2: "PerformanceOnly", 3: "FindPeakPerformance"}
_BOOLEAN = {"performance_issue_unique", "performance_issue_same", "sample_concatenate_permutation"}
_AT_LEAST = {"min_query_count", "min_duration"}
NEEDED = {
    "accuracy_log_rng_seed",
    "accuracy_log_sampling_target",
    "performance_issue_same",
    "performance_issue_same_index",
}
"""Settings without which the test does not test; the others only bound how long it runs."""

AUDIT_WARNING = "audit.config"
"""What LoadGen's warning says when it read an audit.config file."""

Value = str | float | int


class Difference(msgspec.Struct, frozen=True):
    """One setting of the test that the log shows otherwise. ``found`` None: not logged."""

    key: str
    log_key: str
    found: object
    required: object
    line: int | None

    @property
    def shown(self) -> str:
        """What was found, as LoadGen writes it."""
        return "not logged" if self.found is None else _written(self.found)

    @property
    def expected(self) -> str:
        """What audit.config sets, as LoadGen writes it."""
        return _written(self.required)


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def settings_of(
    round: Round, test: str, benchmark: str | None, scenario: str | None
) -> dict[str, Value]:
    """The settings of a test for a benchmark in a scenario: the general ones, then its own."""
    rules = round.compliance.get(test)
    if rules is None:
        return {}
    general: dict[str, Value] = {}
    special: dict[str, Value] = {}
    for name in ("*", benchmark or ""):
        for key, value in rules.settings.get(name, {}).items():
            where, dot, inner = key.partition(".")
            if not dot:
                general[key] = value
            elif where == scenario:
                special[inner] = value
    return {**general, **special}


def differences(detail: DetailLog, settings: dict[str, Value]) -> list[Difference]:
    """Every setting that the log shows with another value, or not at all."""
    found = []
    for key, required in settings.items():
        log_key = _LOGGED.get(key)
        if log_key is None:
            continue
        if log_key not in detail:
            # Plain-text logs (v0.5) and logs before a setting existed do not name it.
            if key in NEEDED and detail.format == "mllog":
                found.append(
                    Difference(key=key, log_key=log_key, found=None, required=required, line=None)
                )
            continue
        if key == "mode":
            value: object = detail.text(log_key)
            wanted: object = _MODES.get(int(required), required)
        elif key in _BOOLEAN:
            value, wanted = detail.boolean(log_key), bool(int(required))
        else:
            value, wanted = detail.integer(log_key), int(float(required))
            if isinstance(required, str):
                wanted = int(required)
        if (
            key in _AT_LEAST
            and isinstance(value, int)
            and isinstance(wanted, int)
            and value >= wanted
        ):
            continue
        if value != wanted:
            value = detail.get(log_key) if value is None else value
            found.append(
                Difference(
                    key=key,
                    log_key=log_key,
                    found=value,
                    required=wanted,
                    line=detail.line(log_key),
                )
            )
    return found


def audit_config_read(detail: DetailLog) -> bool:
    """Whether LoadGen said that it took settings from an audit.config file."""
    return any(
        AUDIT_WARNING in str(entry.value)
        for entry in [*detail.all("warning_generic_message"), *detail.all("generic_message")]
    )
