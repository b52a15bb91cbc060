"""The schedule against LoadGen's loop written out, and against published logs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from checker.replay.mt19937 import Stream
from checker.replay.schedule import (
    Schedule,
    TooLong,
    constant_schedule,
    rate_for,
    round_up,
    rounding_interval,
    server_due_ns,
    server_schedule,
)

SEED = 16159082839903944936


def plain_schedule(
    seed: int, qps: float, wanted_ns: int, least: int, block: int = 0
) -> tuple[int, int]:
    """GenerateQueries, one query after the other."""
    values = iter(Stream(seed).canonical(100_000).tolist())
    least = round_up(least, block)
    count = now = before = 0
    while before < wanted_ns or count < least:
        count += 1
        before = now
        now += int(-math.log(1.0 - next(values)) / qps * 1e9)
        if block and count >= least and before < wanted_ns:
            least += block
    return count, now


@pytest.mark.parametrize("seed", [0, 16159082839903944936])
@pytest.mark.parametrize("qps", [0.5, 3.0, 1234.5, 17_000.0])
@pytest.mark.parametrize("wanted_ms", [0, 1, 600, 2500])
@pytest.mark.parametrize("least", [0, 1, 100, 3000])
@pytest.mark.parametrize("block", [0, 64, 1000])
def test_server(seed: int, qps: float, wanted_ms: int, least: int, block: int) -> None:
    wanted = wanted_ms * 1_000_000
    found = server_schedule(seed, qps, wanted, least, equal_issue_block=block)
    assert (found.query_count, found.duration_ns) == plain_schedule(seed, qps, wanted, least, block)


@pytest.mark.parametrize(
    ("seed", "qps", "wanted_ms", "least", "count", "duration"),
    [
        # Published in v0.7 (Altos) and v1.0 (Alibaba): ResNet-50, Server.
        (3135815929913719677, 20_000.0, 60_000, 270_336, 1_200_100, 60_000_024_178),
        (3507442325620259414, 22_000.0, 600_000, 270_336, 13_194_770, 600_000_067_008),
    ],
)
def test_server_in_published_logs(
    seed: int, qps: float, wanted_ms: int, least: int, count: int, duration: int
) -> None:
    found = server_schedule(seed, qps, wanted_ms * 1_000_000, least)
    assert found == Schedule(count, duration)


@pytest.mark.parametrize("period", [1, 7, 1_000_001])
@pytest.mark.parametrize("wanted", [0, 1, 6, 7, 8, 1_000_001, 5_000_000])
@pytest.mark.parametrize("block", [0, 10])
def test_constant(period: int, wanted: int, block: int) -> None:
    count = before = now = 0
    least = round_up(5, block)
    if wanted // period > 100_000:
        pytest.skip("too many steps for the plain loop")
    while before < wanted or count < least:
        count += 1
        before = now
        now += period
        if block and count >= least and before < wanted:
            least += block
    found = constant_schedule(period, wanted, 5, equal_issue_block=block)
    assert found == Schedule(count, now)


def test_a_period_of_nothing() -> None:
    with pytest.raises(ValueError, match="never reaches"):
        constant_schedule(0, 1, 1)
    assert constant_schedule(0, 0, 3) == Schedule(3, 0)


@pytest.mark.parametrize("qps", [0.0, -1.0, math.inf, math.nan])
def test_rates_without_a_schedule(qps: float) -> None:
    with pytest.raises(ValueError, match="no schedule"):
        server_schedule(1, qps, 1, 1)
    with pytest.raises(ValueError, match="no schedule"):
        rate_for(1, qps, 1, 1)


def test_due_times_are_the_schedule_s() -> None:
    due = server_due_ns(SEED, 700.0, 1000)
    assert due.shape == (1000,) and due[0] == 0 and (np.diff(due) > 0).all()
    for count in (1, 2, 999):
        assert server_schedule(SEED, 700.0, 0, count).duration_ns == due[count]
        assert np.array_equal(server_due_ns(SEED, 700.0, count), due[:count])
    assert server_due_ns(SEED, 700.0, 0).shape == (0,)
    with pytest.raises(ValueError, match="no schedule"):
        server_due_ns(SEED, 0.0, 5)


def test_limit() -> None:
    with pytest.raises(TooLong):
        server_schedule(1, 1e6, 10**9, 1, limit=1000)
    with pytest.raises(TooLong):
        server_schedule(1, 1.0, 0, 1001, limit=1000)
    with pytest.raises(TooLong):
        rate_for(1, 1.0, 1001, 1, limit=1000)


@pytest.mark.parametrize("qps", [4321.56789, 0.123456789, 98_765.4321, 7.0])
def test_hidden_digits_of_the_rate(qps: float) -> None:
    printed = float(f"{qps:.6g}")
    low, high = rounding_interval(printed)
    assert low <= qps <= high
    real = server_schedule(5, qps, int(5000 / qps * 1e9), 100)
    found = rate_for(5, printed, real.query_count, real.duration_ns)
    assert found is not None
    assert found == pytest.approx(qps, rel=1e-7)
    # A change of one part in ten thousand cannot hide in six digits.
    assert rate_for(5, printed, real.query_count, int(real.duration_ns * 1.0001)) is None
    assert rate_for(5, printed, 0, real.duration_ns) is None
