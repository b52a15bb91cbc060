"""Units of measurement: what may be compared with what, and by which factor.

The only place that converts. A number is compared only with one of the same unit, or after
`convert`; numbers of different quantities never are.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

ScoreUnit = Literal["percent", "fraction", "points", "tokens", "characters"]
"""The units of accuracy: percent (0 to 100), fraction (0 to 1), points (a scale of its own, such as
BLEU, ROUGE, FID or cross entropy), tokens (a count: TOKENS_PER_SAMPLE), characters (of all generated
texts: GEN_LEN)."""

SCORE_UNITS: Final[tuple[str, ...]] = get_args(ScoreUnit)

_UNITS: Final[dict[str, tuple[str, float]]] = {
    "fraction": ("ratio", 1.0),
    "percent": ("ratio", 0.01),
    "points": ("points", 1.0),
    "tokens": ("count", 1.0),
    "characters": ("length of text", 1.0),
    "ns": ("time", 1e-9),
    "us": ("time", 1e-6),
    "ms": ("time", 1e-3),
    "s": ("time", 1.0),
    "W": ("power", 1.0),
    "Watts": ("power", 1.0),
    "J": ("energy", 1.0),
    "Joules": ("energy", 1.0),
    "J/sample": ("energy", 1.0),
    "millijoules": ("energy", 1e-3),
}


class UnitMismatch(ValueError):
    """Two numbers of different quantities were to be compared."""


def quantity(unit: str) -> str:
    """What a unit measures: ratio, points, count, length of text, time, power or energy. Raises UnitMismatch."""
    try:
        return _UNITS[unit][0]
    except KeyError:
        raise UnitMismatch(f"unknown unit {unit!r}") from None


def convert(value: float, unit: str, into: str) -> float:
    """``value`` in another unit of the same quantity. Raises UnitMismatch."""
    if unit == into:
        return value
    if quantity(unit) != quantity(into):
        raise UnitMismatch(f"{unit} cannot be compared with {into}")
    factor = _UNITS[unit][1] / _UNITS[into][1]
    # 1 / 0.01 is 100, and 0.01 / 1 is best done by division: the last digit is that of a reader.
    return value * factor if factor >= 1 else value / round(1 / factor, 9)


def greatest(unit: str) -> float | None:
    """The greatest value that a score in this unit can have; None where it has no bound."""
    return {"percent": 100.0, "fraction": 1.0}.get(unit)
