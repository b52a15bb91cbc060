from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from runner.errors import ResourceError, SettingsError, UserConfError
from runner.settings import (
    Hints,
    RunSettings,
    WarmUp,
    calibrate,
    memory_bytes,
    parse_user_conf,
    pregenerated,
    to_loadgen,
    user_conf_text,
    with_queries,
)

GB = 10**9


def test_user_conf_is_read_with_comments_and_blank_lines() -> None:
    conf = parse_user_conf(
        "# ours\n\n*.Server.target_qps = 12.5  # measured\nllama3.1-8b.Offline.min_query_count=7\n"
    )
    assert [(x.line, x.model, x.scenario, x.key, x.number) for x in conf.settings] == [
        (3, "*", "Server", "target_qps", 12.5),
        (4, "llama3.1-8b", "Offline", "min_query_count", 7),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("digits.Server.targetqps = 3", "does not know"),
        ("digits.Server.qsl_rng_seed = 3", "seeds are the round's"),
        ("digits.*.target_latency_percentile = 50", "percentile"),
        ("digits.*.sample_concatenate_permutation = 0", "equal issue"),
        ("digits.*.performance_issue_same = 1", "compliance"),
        ("digits.*.mode = 2", "sets the mode"),
        ("digits.Server.target_qps = fast", "expected a number"),
        ("digits.Server.target_qps = 10qps", "expected a number"),
        ("digits.Server.target_qps = 0", "more than 0"),
        ("digits.Server.target_qps = -1", "expected a number"),
        ("digits.Server.min_query_count = 10.5", "whole number"),
        ("digits.SingleStream.target_latency = 12000000", "another unit"),
        ("digits.SingleStream.target_qps = 5", "may be set for Server, Offline"),
        ("digits.Server.target_latency = 5", "latency limit is the round's"),
        ("digits.*.min_duration = 600", "at least 2000 ms"),
        ("digits.Servr.target_qps = 5", "expected SingleStream"),
        ("digits.server.target_qps = 5", "written like that"),
        ("target_qps = 5", "model.Scenario.key"),
        ("digits.Server.target_qps 5", "model.Scenario.key"),
    ],
)
def test_user_conf_refuses_with_the_line(line: str, words: str) -> None:
    with pytest.raises(UserConfError) as caught:
        parse_user_conf(f"# one\n{line}\n", least_duration_ms=2000)
    assert caught.value.line == 2
    assert "user.conf:2" in str(caught.value)
    assert words in str(caught.value)


def test_server_limit_may_be_set_where_loadgen_knows_none() -> None:
    assert parse_user_conf("digits.Server.target_latency = 15", server_limit_allowed=True)


def test_lookup_order_is_loadgens() -> None:
    conf = parse_user_conf(
        "*.*.min_duration = 1\nd.*.min_duration = 2\n*.Server.min_duration = 3\n"
    )
    assert conf.lookup("d", "Server", "min_duration").number == 3  # type: ignore[union-attr]
    assert conf.lookup("d", "Offline", "min_duration").number == 2  # type: ignore[union-attr]
    assert conf.lookup("e", "Offline", "min_duration").number == 1  # type: ignore[union-attr]
    assert conf.lookup("e", "Offline", "target_qps") is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("scenario", "Batch"), ("mode", "both"), ("min_duration_ms", 0), ("load", 2)],
)
def test_settings_refuse_nonsense(name: str, value: object) -> None:
    good: dict[str, object] = {"model": "digits", "scenario": "Server"}
    with pytest.raises(SettingsError, match="expected"):
        RunSettings(**{**good, name: value})  # type: ignore[arg-type]


def warm_up(batch: int = 1, seconds: float = 0.001) -> WarmUp:
    return WarmUp(batch, seconds, seconds)


def test_single_stream_hint_lies_below_the_measured_latency() -> None:
    hints = calibrate(
        RunSettings("digits", "SingleStream", min_duration_ms=2000), warm_up(), 8 * GB
    )
    assert 0.5 <= hints.values["target_latency"] <= 0.8
    assert hints.queries >= 2000
    assert hints.seconds == pytest.approx(2)


def test_scarce_memory_raises_the_hint_but_never_below_what_the_run_needs() -> None:
    settings = RunSettings("digits", "SingleStream")
    fast = warm_up(seconds=20e-6)  # 30 million queries in ten minutes
    hints = calibrate(settings, fast, 30 * GB)
    assert hints.warnings
    assert hints.queries > 600_000 / 0.02
    assert hints.memory_bytes <= 0.4 * 30 * GB * 1.001
    with pytest.raises(ResourceError, match="free memory"):
        calibrate(settings, fast, 8 * GB)


def test_certain_invalid_is_refused_before_the_run() -> None:
    settings = RunSettings("digits", "SingleStream", min_duration_ms=2000, expected_latency_ms=10)
    with pytest.raises(SettingsError, match="run out of queries"):
        calibrate(settings, warm_up(), 8 * GB)


def test_rates() -> None:
    offline = RunSettings("digits", "Offline", min_duration_ms=2000)
    hints = calibrate(offline, warm_up(32, 0.032), 8 * GB)
    assert hints.values["target_qps"] == pytest.approx(1200)
    assert hints.queries == 2640
    server = RunSettings("digits", "Server", min_duration_ms=2000, load=0.5, target_latency_ms=15)
    hints = calibrate(server, warm_up(), 8 * GB)
    assert hints.values["target_qps"] == pytest.approx(500)
    assert hints.values["target_latency"] == 15
    low = RunSettings("digits", "Offline", min_duration_ms=2000, target_qps=10)
    assert "too low" in calibrate(low, warm_up(32, 0.032), 8 * GB).warnings[0]
    huge = RunSettings("digits", "Offline", target_qps=1e8)
    with pytest.raises(ResourceError, match="samples"):
        calibrate(huge, warm_up(32, 0.032), 8 * GB)


def test_memory_grows_with_what_is_generated() -> None:
    assert pregenerated("SingleStream", 600_000, 100, 0.025) == 48_000_000
    assert memory_bytes("SingleStream", 48_000_000) == pytest.approx(14.4 * GB)
    assert memory_bytes("Offline", 2_000_000) == pytest.approx(0.94 * GB)
    assert memory_bytes("MultiStream", 10) > memory_bytes("Server", 10)


def test_user_conf_holds_the_users_lines_and_what_was_measured() -> None:
    settings = RunSettings(
        "digits",
        "Server",
        user_conf="# mine\ndigits.Server.target_qps = 70\n",
        min_duration_ms=2000,
    )
    hints = calibrate(settings, warm_up(), 8 * GB)
    assert user_conf_text(settings, hints) == (
        "# mine\ndigits.Server.target_qps = 70\ndigits.Server.min_duration = 2000\n"
    )
    nothing = RunSettings("digits", "SingleStream", "accuracy")
    assert user_conf_text(nothing, Hints({}, 0, 0, None)).startswith("#")


def test_loadgen_gets_the_rounds_values_every_time(tmp_path: Path) -> None:
    conf = tmp_path / "user.conf"
    conf.write_text("digits.Server.target_qps = 70\n*.*.min_duration = 2000\n")
    for _ in range(2):  # LoadGen's default way would lose the seeds the second time
        test = to_loadgen(RunSettings("digits", "Server"), conf)
        assert test.qsl_rng_seed == 2085463073848966840
        assert test.schedule_rng_seed == 16159082839903944936
        assert test.server_target_qps == 70
        assert test.min_duration_ms == 2000
        assert test.server_max_async_queries == 0
    resnet = to_loadgen(RunSettings("resnet50", "Offline"), conf)
    assert resnet.min_query_count == 24576


def test_minimums_come_from_loadgen_for_each_model() -> None:
    # 24,576 samples and no fewer: a run at 20 a second lasts for minutes, not for 4 s.
    settings = RunSettings("resnet50", "Offline", min_duration_ms=4000, target_qps=20)
    hints = calibrate(settings, WarmUp(batch=32, best_s=0.024, typical_s=0.024), 8 * GB)
    assert hints.queries == 24_576
    assert hints.seconds == pytest.approx(18.4, abs=0.1)
    unknown = RunSettings("digits", "Offline", min_duration_ms=4000, target_qps=20)
    assert calibrate(unknown, WarmUp(batch=32, best_s=0.024, typical_s=0.024), 8 * GB).queries < 101


def test_a_rate_of_our_own_comes_with_enough_queries() -> None:
    """Early stopping needs 459; a run that is certain to be INVALID helps nobody."""
    short = RunSettings("resnet50", "Server", min_duration_ms=5000)
    slow = WarmUp(1, 0.03, 0.03)
    hints = calibrate(short, slow, 8 * GB)
    assert hints.values == {"min_duration": 5000, "target_qps": 8.333, "min_query_count": 1000}
    assert hints.queries == 1000 and hints.seconds == pytest.approx(120, rel=0.01)
    assert hints.warnings == ()
    # Longer than ten minutes and ten times the requested duration: reported, not done.
    (warning,) = calibrate(short, WarmUp(1, 1.0, 1.0), 8 * GB).warnings
    assert "early stopping needs 459" in warning
    # The user's own rate or count is the user's own.
    (warning,) = calibrate(replace(short, target_qps=8.0), slow, 8 * GB).warnings
    assert "early stopping needs 459" in warning
    assert with_queries(replace(short, min_query_count=7), 8.0).min_query_count == 7
    assert with_queries(short, 8.0).min_query_count == 1000
    assert with_queries(short, 0.1).min_query_count is None
    assert with_queries(short, 0.1, math.inf).min_query_count == 1000
    assert with_queries(short, 300.0).min_query_count is None
    assert with_queries(replace(short, scenario="Offline"), 8.0).min_query_count is None
