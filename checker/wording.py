"""How values are written in messages: one formatter for numbers with units, and for everything else.

No exponent between 1e-3 and 1e9, thousands separators, no None, no Python repr.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

_DIGITS = 6
_EXACT = 17
_SMALLEST, _LARGEST = 1e-3, 1e15
_LONGEST_TEXT = 100


def number(value: float, digits: int = _DIGITS) -> str:
    """A number with thousands separators; fractions with ``digits`` significant digits.

    >>> number(600000), number(4134.25), number(0.05), number(1e-7)
    ('600,000', '4,134.25', '0.05', '1e-07')
    """
    if isinstance(value, int):
        if abs(value) < _LARGEST:
            return f"{value:,}"
        # No float holds the largest of them.
        return (
            f"{value:.{digits}g}"
            if abs(value) < 10**300
            else number(math.copysign(math.inf, value))
        )
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    size = abs(value)
    if size and not _SMALLEST <= size < _LARGEST:
        return f"{value:.{digits}g}"
    if value == int(value):
        return f"{value:,.0f}"
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def quantity(value: float | None, unit: str = "", *, digits: int = _DIGITS) -> str:
    """A number with its unit: ``600,000 ms``, ``1 query``, ``24,576 samples``, ``0.5%``.

    unit: a symbol (``ms``, ``W``, ``samples/s``) or a noun in the singular, which takes its plural.
    A value that is absent is ``absent``.
    """
    if value is None:
        return "absent"
    if isinstance(value, bool):
        return str(value).lower()
    text = number(value, digits)
    if not unit:
        return text
    return f"{text}%" if unit == "%" else f"{text} {plural(unit, value)}"


def rounded(value: float) -> float:
    """A value for a report, without digits that mean nothing."""
    return float(f"{value:.3f}")


def pair(found: float, expected: float, unit: str = "") -> tuple[str, str]:
    """Two different quantities with as many digits as it takes to tell one from the other."""
    texts = quantity(found, unit), quantity(expected, unit)
    for digits in range(_DIGITS + 1, _EXACT + 1):
        if texts[0] != texts[1] or found == expected:
            break
        texts = quantity(found, unit, digits=digits), quantity(expected, unit, digits=digits)
    return texts


def milliseconds(ns: float | None) -> str:
    """A time in nanoseconds, as milliseconds: ``2,000 ms``."""
    return "absent" if ns is None else quantity(ns / 1e6, "ms")


def plural(noun: str, count: float) -> str:
    """``query`` and 2: ``queries``. Symbols of units and nouns with one stay as they are."""
    if count == 1 or len(noun) < 3 or not noun.replace(" ", "").isalpha() or not noun.islower():
        return noun
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


_DEEPEST = 4


def shown(value: Any, depth: int = 0) -> str:
    """Any value of a file as a reader writes it: numbers formatted, text quoted, lists joined.

    A list inside four others is only named: a log may nest a thousand.
    """
    if value is None:
        return "absent"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, str):
        text = " ".join(value.split())
        return f'"{text[:_LONGEST_TEXT]}…"' if len(text) > _LONGEST_TEXT else f'"{text}"'
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, Iterable):
        if depth > _DEEPEST:
            return "a list"
        items = list(value)
        return listed([shown(item, depth + 1) for item in items]) if items else "an empty list"
    return str(value)[:_LONGEST_TEXT]


def listed(items: Sequence[str], last: str = "and", *, limit: int = 6) -> str:
    """``a, b and c``; beyond ``limit`` the rest is counted: ``a, b and 7 more``."""
    if not items:
        return "none"
    if len(items) == 1:
        return items[0]
    if len(items) > limit:
        shortened = ", ".join(items[: limit - 1])
        return f"{shortened} and {number(len(items) - limit + 1)} more"
    return f"{', '.join(items[:-1])} {last} {items[-1]}"
