"""audit.config: which settings a test has, and whether the log shows them."""

from __future__ import annotations

import pytest

from checker.compliance.audit import audit_config_read, differences, settings_of
from checker.parse.detail import DetailLog, add, entry_of
from schemas.load import load_round, round_names


def detail(**values: object) -> DetailLog:
    log = DetailLog("mlperf_log_detail.txt")
    for number, (key, value) in enumerate(values.items(), 1):
        add(log, entry_of(key, number, value=value))
    return log


def test_own_settings_come_on_top() -> None:
    round = load_round("v6.0")
    general = settings_of(round, "TEST04", "resnet", "Offline")
    assert general["performance_issue_same_index"] == 3 and "min_query_count" not in general
    own = settings_of(round, "TEST04", "stable-diffusion-xl", "Offline")
    assert own["min_query_count"] == 500 and own["performance_issue_same"] == 1
    assert "min_query_count" not in settings_of(round, "TEST04", "stable-diffusion-xl", "Server")
    assert settings_of(round, "TEST99", "resnet", "Offline") == {}


def test_seed_beyond_double_precision_is_exact() -> None:
    wanted = {"accuracy_log_rng_seed": "720381539243781796"}
    assert differences(detail(effective_accuracy_log_rng_seed=720381539243781796), wanted) == []
    (found,) = differences(detail(effective_accuracy_log_rng_seed=720381539243781797), wanted)
    assert (found.required, found.line) == (720381539243781796, 1)


def test_more_queries_than_asked_are_no_difference() -> None:
    assert differences(detail(requested_min_query_count=248), {"min_query_count": 20}) == []
    assert len(differences(detail(requested_min_query_count=5), {"min_query_count": 20})) == 1


def test_absent_settings() -> None:
    """What makes the test a test must be logged; what a LoadGen did not know yet need not."""
    (found,) = differences(
        detail(), {"performance_issue_same": 1, "sample_concatenate_permutation": 0}
    )
    assert (found.key, found.found) == ("performance_issue_same", None)
    text = detail()
    text.format = "text"
    assert differences(text, {"performance_issue_same": 1}) == []


@pytest.mark.parametrize("value", [True, 1, "true"])
def test_booleans_in_any_spelling(value: object) -> None:
    log = detail(effective_performance_issue_same=value)
    assert differences(log, {"performance_issue_same": 1}) == []
    assert len(differences(log, {"performance_issue_same": 0})) == 1


def test_audit_config_is_named_in_a_warning() -> None:
    said = "Found Audit Config file (audit.config). Overriding TestSettings from audit.config file."
    assert audit_config_read(detail(warning_generic_message=said))
    assert not audit_config_read(detail(warning_generic_message="Found audit.conf"))


def test_every_setting_of_every_round_is_understood() -> None:
    for name in round_names():
        round = load_round(name)
        for test in round.compliance:
            for benchmark in round.benchmarks:
                differences(detail(), settings_of(round, test, benchmark, "Offline"))
