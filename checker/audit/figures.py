"""Figures that a log does not state and that follow from those that it states."""

from __future__ import annotations

from checker import loadgen_keys as keys
from checker.parse.detail import DetailLog


def tokens_per_sample(detail: DetailLog, scenario: str | None) -> float | None:
    """Output tokens per sample of a performance run, from its two rates; None where it has none.

    Server's rate of samples counts the queries less one, its rate of tokens all of them.
    """
    if scenario == "Offline":
        tokens = detail.number(keys.TOKENS_PER_SECOND)
        samples = detail.number(keys.SAMPLES_PER_SECOND)
        return tokens / samples if tokens and samples else None
    tokens = detail.number(keys.COMPLETED_TOKENS_PER_SECOND)
    samples = detail.number(keys.COMPLETED_SAMPLES_PER_SECOND)
    count = detail.number(keys.QUERY_COUNT)
    if not tokens or not samples or not count or count < 2:
        return None
    return tokens / samples * (count - 1) / count
