"""What an audit rule compared: the values it read, where they stand, the formula in words."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from checker.parse.detail import DetailLog

Confidence = Literal["certain", "high", "moderate", "low"]
"""certain: regenerated or copied bit for bit; high: no false alarm in published rounds; moderate:
few; low: mostly legitimate reasons exist."""

PERCENTS = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")


def counted(detail: DetailLog, key: str) -> int | None:
    """A value as a count: an integer that 64 bits hold; None when it is none."""
    value = detail.integer(key)
    return value if value is not None and -(2**63) <= value < 2**64 else None


class Noted(msgspec.Struct):
    """What a rule read and compared while it was applied, whether or not it found anything."""

    values: dict[str, Any] = {}
    lines: dict[str, int] = {}


_noted: ContextVar[Noted | None] = ContextVar("noted", default=None)


@contextlib.contextmanager
def noting() -> Iterator[Noted]:
    """Inside, everything that rules read through `Look` and `note` is kept."""
    found = Noted()
    token = _noted.set(found)
    try:
        yield found
    finally:
        _noted.reset(token)


def note(key: str, value: Any, line: int | None = None) -> None:
    """Keep a value for `noting`, where somebody listens."""
    kept = _noted.get()
    if kept is not None and value is not None:
        kept.values[key] = value
        if line:
            kept.lines[key] = line


class Look:
    """A detail log read through for one rule: every value that was read becomes evidence."""

    def __init__(self, detail: DetailLog) -> None:
        self.detail = detail
        self._seen: dict[str, Any] = {}
        self._lines: dict[str, int] = {}

    def _note(self, key: str, value: Any) -> None:
        if value is None:
            return
        self._seen[key] = value
        line = self.detail.line(key)
        if line:
            self._lines[key] = line
        note(key, value, line)

    def number(self, key: str) -> float | None:
        """The value as a finite number; None when it is none."""
        value = self.detail.number(key)
        value = value if value is not None and math.isfinite(value) else None
        self._note(key, _short(value))
        return value

    def integer(self, key: str) -> int | None:
        """The value as an integer of 64 bits, as LoadGen counts; None when it is none."""
        value = counted(self.detail, key)
        self._note(key, value)
        return value

    def boolean(self, key: str) -> bool | None:
        """The value as a boolean; None when it is none."""
        value = self.detail.boolean(key)
        self._note(key, value)
        return value

    def text(self, key: str) -> str | None:
        """The value as text; None when it is none."""
        value = self.detail.text(key)
        self._note(key, " ".join(value.split())[:300] if value is not None else None)
        return value

    def evidence(self, formula: str, confidence: Confidence, **more: Any) -> dict[str, Any]:
        """Everything that was read, the formula, and what was computed (``more``)."""
        return evidence(formula, confidence, self._seen | more, self._lines)


def evidence(
    formula: str,
    confidence: Confidence,
    values: dict[str, Any],
    lines: dict[str, int] | None = None,
) -> dict[str, Any]:
    """A finding's evidence as a flat record: what a report shows as a table."""
    found: dict[str, Any] = {"formula": formula}
    found.update((key, _short(value)) for key, value in values.items() if value is not None)
    if lines:
        found["lines"] = ", ".join(f"{key}: {line}" for key, line in lines.items())
    found["confidence"] = confidence
    return found


def moment(seconds: float | None) -> str | None:
    """A time (seconds since 1970, UTC) as ISO text."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _short(value: Any) -> Any:
    """A whole float as an integer: nanoseconds are read as floats and logged as integers."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def near(a: float, b: float, relative: float = 1e-5, absolute: float = 0.0) -> bool:
    """Whether two numbers agree within what six printed digits and ``absolute`` allow."""
    return abs(a - b) <= max(relative * max(abs(a), abs(b)), absolute)
