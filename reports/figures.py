"""Numbers as people read them."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schemas.report import AccuracyScore

_WHOLE_WITH_COMMAS_BELOW = 10**12


def number(value: float, decimals: int | None = None) -> str:
    """A number with thousands separators and no more digits than anyone reads.

    ``decimals``: at most so many after the point, where what is read is a value to compare rather than
    its size; default: six digits in all, one after the point from a thousand on.

    >>> number(107317.8), number(785522.0), number(0.0181337), number(843.374268)
    ('107,317.8', '785,522', '0.0181337', '843.374')
    >>> number(107317.8125, 6), number(0.99, 10), number(1.5e-9, 6)
    ('107,317.8125', '0.99', '1.5e-09')
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("infinite" if value > 0 else "-infinite")
    if abs(value) >= 1e15:
        return f"{value:.6g}"
    if value == int(value):
        return f"{int(value):,}"
    if decimals is not None and abs(value) >= 10**-decimals:
        return f"{value:,.{decimals}f}".rstrip("0").rstrip(".")
    if abs(value) >= 1000:
        return f"{value:,.1f}"
    return f"{value:.6g}"


def plain(value: float) -> str:
    """A number for machines: the shortest text that reads back as the same number."""
    return repr(float(value))


def shown(value: Any) -> str:
    """What was found or asked, as text: the number readable, a list or table as compact JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        # Seeds and other identifiers are copied and compared by eye: no separators there.
        small = 10_000 <= abs(value) < _WHOLE_WITH_COMMAS_BELOW
        return f"{value:,}" if small else str(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def nanoseconds(value: float) -> str:
    """A latency in the unit that keeps it short."""
    if not math.isfinite(value):
        return number(value)
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if abs(value) >= size:
            whole = value >= size * 1e4
            return f"{value / size:,.0f} {unit}" if whole else f"{value / size:,.4g} {unit}"
    return f"{value:,.0f} ns"


def seconds(value: float) -> str:
    """A duration: seconds below two minutes, then minutes, then hours."""
    if not math.isfinite(value):
        return number(value)
    if value < 120:
        return f"{value:.3g} s"
    large, small, size = ("min", "s", 60) if value < 7200 else ("h", "min", 3600)
    rest = int(value % size * 60 / size)
    return f"{int(value // size):,} {large}" + (f" {rest} {small}" if rest else "")


def plural(count: int, noun: str) -> str:
    """The count with its noun.

    >>> plural(1, "error"), plural(0, "error"), plural(1200, "result")
    ('1 error', '0 errors', '1,200 results')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def as_number(value: Any) -> float | None:
    """The number that a system description means, or None.

    Descriptions hold numbers as numbers, as text ("8"), empty, "N/A" or "2 (big); 4 (LITTLE)".
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,9}(\.\d{1,6})?\s*", value):
        return float(value)
    return None


def latency_unit(unit: str | None) -> str | None:
    """``ms`` or ``s`` where a metric's unit says that it is a latency: lower is better then.

    >>> latency_unit("Latency (ms)"), latency_unit("ms (90th percentile)"), latency_unit("Samples/s")
    ('ms', 'ms', None)
    """
    match = re.match(r"(?:latency \()?(ms|s)\b", unit or "", re.IGNORECASE)
    return None if match is None else match[1].lower()


def percentile(key: str) -> float | None:
    """The percentile that a latency's name means ("99.00", "p99.9", "90th"), or None."""
    match = re.fullmatch(r"p?(\d{1,2}(?:\.\d+)?|100(?:\.0+)?)(?:th)?(?:_percentile)?", key.strip())
    return float(match.group(1)) if match else None


def score_unit(score: AccuracyScore) -> str:
    """The unit to write behind a score: "%", "tokens" or "characters"; none for those of a scale of
    their own (ROUGE, BLEU, FID), a fraction, or where it is not known."""
    words = {"percent": "%", "tokens": "tokens", "characters": "characters"}
    return words.get(score.unit or "", "")
