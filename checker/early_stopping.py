"""LoadGen's early stopping: how far a short run may be trusted, as arithmetic.

A run of ``n`` queries, ``t`` of which exceed a latency, shows with confidence ``c`` that at least
the share ``p`` of all queries stays below it if a run at the limit would have had so few only with
probability ``1 - c``. With ``h = n - t`` queries below, that is ``I_p(h, t + 1) <= 1 - c``, where
``I`` is the regularised incomplete beta function: the chance of at most ``t`` successes in ``n``
trials of probability ``1 - p``, which is how it is computed here.

Source: inference_rules.adoc, "Early stopping criterion"; LoadGen's early_stopping.cc and results.cc
(confidence 0.99, tolerance 0).
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final

import msgspec

CONFIDENCE: Final = 0.99

_SUMMED: Final = 1 << 31
"""Most queries of which the binomial sum is computed term by term."""

#: SingleStream reports this percentile as well, since MultiStream results may be inferred from it.
MULTI_STREAM_PERCENTILE: Final = 0.99


def _check(percentile: float, confidence: float) -> None:
    if not 0 < percentile < 1:
        raise ValueError(f"percentile {percentile} does not lie between 0 and 1")
    if not 0.5 <= confidence < 1:
        raise ValueError(f"confidence {confidence} does not lie between 0.5 and 1")


def _passes(total: int, over: int, percentile: float, confidence: float) -> bool:
    """Whether ``over`` of ``total`` queries over the latency are few enough.

    The terms of the binomial sum fall off from the last one down wherever the answer is not plain,
    so the sum is cut when they no longer count. Beyond `_SUMMED` the normal distribution replaces it
    for it: the sum would have millions of terms, and the two no longer differ.
    """
    if over < 0:
        return True
    rare = 1.0 - percentile
    if total > _SUMMED:
        below = total * rare - over - 0.5
        deviation = math.sqrt(2 * total * rare * percentile)
        return below > 0 and math.erfc(below / deviation) / 2 <= 1.0 - confidence
    if over >= math.ceil(total * rare):
        # At or above the median, so the sum is at least a half.
        return False
    term = math.exp(
        math.lgamma(total + 1)
        - math.lgamma(over + 1)
        - math.lgamma(total - over + 1)
        + over * math.log(rare)
        + (total - over) * math.log(percentile)
    )
    if term == 0.0:
        return True  # and so are all that follow
    allowed = 1.0 - confidence
    odds = percentile / rare
    chance = term
    for successes in range(over, 0, -1):
        term *= successes * odds / (total - successes + 1)
        chance += term
        if chance > allowed:
            return False
        if term < chance * 1e-17:
            break
    return chance <= allowed


@lru_cache(maxsize=4096)
def total_queries(overlatency: int, percentile: float, confidence: float = CONFIDENCE) -> int:
    """The least number of queries with which ``overlatency`` of them may exceed the latency.

    This is ``h(t) + t``. ``percentile`` is a share such as 0.99. Raises ValueError for a percentile
    outside (0, 1), a confidence outside [0.5, 1) or a negative count.
    """
    _check(percentile, confidence)
    if overlatency < 0:
        raise ValueError("a count of queries is not negative")
    low = overlatency
    step = 64
    while not _passes(low + step, overlatency, percentile, confidence):
        low += step
        step *= 2
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        if _passes(middle, overlatency, percentile, confidence):
            high = middle
        else:
            low = middle
    return high


def queries_below(overlatency: int, percentile: float, confidence: float = CONFIDENCE) -> int:
    """``h(t)``: how many queries must stay within the latency if ``overlatency`` do not.

    Raises ValueError as :func:`total_queries` does.
    """
    return total_queries(overlatency, percentile, confidence) - overlatency


def minimum_queries(percentile: float, confidence: float = CONFIDENCE) -> int:
    """The least number of queries for an estimate: 64 at 0.9, 662 at 0.99.

    LoadGen always leaves out the slowest query, so this is ``h(1) + 1``.
    """
    return total_queries(1, percentile, confidence)


@lru_cache(maxsize=4096)
def overlatency_allowed(
    queries: int, percentile: float, confidence: float = CONFIDENCE
) -> int | None:
    """The largest number ``t`` of queries out of ``queries`` that may exceed the latency.

    None if not even one without any would be enough. Raises ValueError for a percentile outside
    (0, 1) or a confidence outside [0.5, 1).
    """
    _check(percentile, confidence)
    low, high = -1, math.ceil(queries * (1.0 - percentile))
    while high - low > 1:
        middle = (low + high) // 2
        if _passes(queries, middle, percentile, confidence):
            low = middle
        else:
            high = middle
    return low if low >= 0 else None


def discarded_count(queries: int, percentile: float, confidence: float = CONFIDENCE) -> int | None:
    """How many of the slowest queries LoadGen says it "would discard".

    None when there are too few queries for an estimate (see :func:`minimum_queries`).
    """
    allowed = overlatency_allowed(queries, percentile, confidence)
    return allowed - 1 if allowed is not None and allowed >= 1 else None


def estimate_index(queries: int, percentile: float, confidence: float = CONFIDENCE) -> int | None:
    """The place, counted from 0 in ascending order, of the latency that LoadGen reports.

    None when there are too few queries for an estimate.
    """
    discarded = discarded_count(queries, percentile, confidence)
    return queries - 1 - discarded if discarded is not None else None


def server_met(
    queries: int, overlatency: int, percentile: float, confidence: float = CONFIDENCE
) -> bool:
    """Whether a Server run of ``queries``, ``overlatency`` of them too slow, passes."""
    return queries >= total_queries(overlatency, percentile, confidence)


class EarlyStoppingText(msgspec.Struct, frozen=True):
    """The numbers in an ``early_stopping_result`` text; None where the text has no such number.

    ``successful`` is the verdict the text gives: LoadGen says it in the Server scenario; in the
    others a text with an estimate means success, and "Only processed" failure. ``processed`` is the
    number of queries and ``needed`` the least number, ``discarded`` how many of the slowest would
    be left out, ``more_needed`` how many more queries the Server scenario asks for. ``estimates``
    pairs percentiles in % with latencies in ns, in the order of the text; ``too_few_for`` pairs a
    percentile in % with the number of queries that its estimate would need.
    """

    successful: bool | None = None
    processed: int | None = None
    needed: int | None = None
    discarded: int | None = None
    more_needed: int | None = None
    estimates: tuple[tuple[float, int], ...] = ()
    too_few_for: tuple[float, int] | None = None


_ENOUGH = re.compile(r"Processed at least (\d+) queries \((\d+)\)")
_ONLY = re.compile(r"Only processed (\d+) queries")
_NEED = re.compile(r"Need to process at least (\d+) queries")
_DISCARD = re.compile(r"Would discard (\d+) highest latency queries")
_ESTIMATE = re.compile(r"Early stopping (\d+(?:\.\d+)?)th percentile estimate: (\d+)")
_TOO_FEW = re.compile(
    r"Not enough queries processed for (\d+(?:\.\d+)?)th percentile early stopping estimate "
    r"\(would need to process at least (\d+) total queries\)"
)
_PROCESSED = re.compile(r"Processed (\d+) queries")
_MORE = re.compile(r"Would need to run at least (\d+) more queries")


@lru_cache(maxsize=8)  # several rules ask of one run
def parse(text: str) -> EarlyStoppingText:
    """Read an ``early_stopping_result`` (or …_ttft_result, …_tpot_result) text.

    The detail log has the lines of the summary joined by spaces; both forms are read. An empty or
    unknown text gives a value with no numbers in it.
    """
    flat = " ".join(text.split())
    enough = _ENOUGH.search(flat)
    only = _ONLY.search(flat)
    need = _NEED.search(flat)
    processed = _PROCESSED.search(flat)
    too_few = _TOO_FEW.search(flat)
    discard = _DISCARD.search(flat)
    more = _MORE.search(flat)
    successful: bool | None = None
    if "Run unsuccessful" in flat or only:
        successful = False
    elif "Run successful" in flat or enough:
        successful = True
    if enough:
        need = enough
        processed = re.match(r".*\((\d+)\)", enough[0])
    else:
        processed = only or processed
    return EarlyStoppingText(
        successful=successful,
        processed=int(processed[1]) if processed else None,
        needed=int(need[1]) if need else None,
        discarded=int(discard[1]) if discard else None,
        more_needed=int(more[1]) if more else None,
        estimates=tuple((float(m[1]), int(m[2])) for m in _ESTIMATE.finditer(flat)),
        too_few_for=(float(too_few[1]), int(too_few[2])) if too_few else None,
    )
