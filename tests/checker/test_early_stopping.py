"""Early stopping against sums written out and against texts of published logs."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from checker.early_stopping import (
    EarlyStoppingText,
    discarded_count,
    estimate_index,
    minimum_queries,
    overlatency_allowed,
    parse,
    queries_below,
    server_met,
    total_queries,
)


def chance(total: int, over: int, percentile: float) -> float:
    """At most ``over`` of ``total`` queries too slow, each with chance 1 - percentile."""
    slow, fast = Fraction(1) - Fraction(str(percentile)), Fraction(str(percentile))
    exact = sum(math.comb(total, k) * slow**k * fast ** (total - k) for k in range(over + 1))
    return float(exact)


@pytest.mark.parametrize(
    ("percentile", "least"), [(0.9, 64), (0.97, 219), (0.99, 662), (0.999, 6636)]
)
def test_minimum_queries(percentile: float, least: int) -> None:
    assert minimum_queries(percentile) == least
    assert discarded_count(least, percentile) == 0
    assert estimate_index(least, percentile) == least - 1
    assert discarded_count(least - 1, percentile) is None
    assert estimate_index(least - 1, percentile) is None


def test_no_query_over_the_latency() -> None:
    assert queries_below(0, 0.99) == total_queries(0, 0.99) == 459
    assert overlatency_allowed(459, 0.99) == 0
    assert overlatency_allowed(458, 0.99) is None
    assert overlatency_allowed(0, 0.99) is None


@pytest.mark.parametrize("percentile", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("over", [0, 1, 2, 10, 57])
def test_total_is_the_least(percentile: float, over: int) -> None:
    total = total_queries(over, percentile)
    assert chance(total, over, percentile) <= 0.01 < chance(total - 1, over, percentile)
    assert queries_below(over, percentile) == total - over
    assert server_met(total, over, percentile)
    assert not server_met(total - 1, over, percentile)


@pytest.mark.parametrize("percentile", [0.9, 0.99])
@pytest.mark.parametrize("queries", [64, 100, 662, 1024, 3000])
def test_allowed_is_the_most(percentile: float, queries: int) -> None:
    allowed = overlatency_allowed(queries, percentile)
    first = 0 if allowed is None else allowed + 1
    assert chance(queries, first, percentile) > 0.01
    if allowed is not None:
        assert chance(queries, allowed, percentile) <= 0.01
        assert queries >= total_queries(allowed, percentile)
    assert queries < total_queries(first, percentile)


def test_many_queries() -> None:
    # The normal approximation says how far below the mean the limit must lie.
    for queries in (270_336, 5_000_000):
        allowed = overlatency_allowed(queries, 0.99)
        assert allowed is not None
        deviation = math.sqrt(queries * 0.99 * 0.01)
        assert (queries * 0.01 - allowed) / deviation == pytest.approx(2.326, abs=0.02)


def test_more_queries_than_any_run_has() -> None:
    """A damaged count neither keeps a check busy nor changes the answer where the two ways meet."""
    exact, near = (overlatency_allowed((1 << 31) + more, 0.99) for more in (0, 1))
    assert exact is not None and near is not None and abs(exact - near) <= 2
    assert overlatency_allowed(10**18, 0.99) == pytest.approx(1e16, rel=1e-6)
    assert total_queries(10**18, 0.99) > 10**18


def test_arguments_out_of_range() -> None:
    for percentile in (0.0, 1.0, -1.0, 99.0):
        with pytest.raises(ValueError, match="percentile"):
            overlatency_allowed(100, percentile)
    with pytest.raises(ValueError, match="confidence"):
        minimum_queries(0.9, 0.4)
    with pytest.raises(ValueError, match="negative"):
        total_queries(-1, 0.9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", EarlyStoppingText()),
        ("something else", EarlyStoppingText()),
        (" * Run successful.", EarlyStoppingText(successful=True)),
        (
            " * Run unsuccessful.  * Processed 190 queries.  * Would need to run at least 269 more "
            "queries,  with the run being successful if every additional  query were under "
            "latency.",
            EarlyStoppingText(successful=False, processed=190, more_needed=269),
        ),
        (
            " * Only processed 63 queries.\n * Need to process at least 64 queries for early "
            "stopping.",
            EarlyStoppingText(successful=False, processed=63, needed=64),
        ),
        (
            " * Processed at least 64 queries (1024).  * Would discard 79 highest latency queries. "
            " * Early stopping 90th percentile estimate: 12345  * Early stopping 99th percentile "
            "estimate: 23456",
            EarlyStoppingText(
                successful=True,
                processed=1024,
                needed=64,
                discarded=79,
                estimates=((90.0, 12345), (99.0, 23456)),
            ),
        ),
        (
            " * Processed at least 64 queries (100).\n * Would discard 2 highest latency queries.\n"
            " * Early stopping 90.0th percentile estimate: 7\n * Not enough queries processed for "
            "99.0th percentile\n early stopping estimate (would need to process at\n least 662 "
            "total queries).",
            EarlyStoppingText(
                successful=True,
                processed=100,
                needed=64,
                discarded=2,
                estimates=((90.0, 7),),
                too_few_for=(99.0, 662),
            ),
        ),
    ],
)
def test_parse(text: str, expected: EarlyStoppingText) -> None:
    assert parse(text) == expected
