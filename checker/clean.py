"""Making text of an untrusted tree safe to carry: valid UTF-8, bounded, plain JSON values."""

from __future__ import annotations

import math
from typing import Any, overload

_ITEMS = 50
_DEPTH = 6


@overload
def clean(value: str, limit: int = ...) -> str: ...
@overload
def clean(value: None, limit: int = ...) -> None: ...
@overload
def clean(value: Any, limit: int = ...) -> Any: ...
def clean(value: Any, limit: int = 1000) -> Any:
    """A value as JSON can hold it: text cut at ``limit`` characters (the cut is said), lone
    surrogates escaped, NaN and infinity as text, integers beyond 64 bits as text."""
    return _clean(value, limit, 0)


def _clean(value: Any, limit: int, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if len(value) > limit:
            value = f"{value[:limit]}… ({len(value)} characters)"
        if value.isascii():
            return value
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            value = value.encode("utf-8", "backslashreplace").decode("utf-8")
        return value
    if isinstance(value, int):
        if -(2**63) <= value < 2**64:
            return value
        bits = value.bit_length()
        return str(value) if bits < 1000 else f"an integer of {bits} bits"
    if isinstance(value, float):
        return value if math.isfinite(value) else ("NaN" if value != value else str(value))
    if depth >= _DEPTH:
        return "…"
    if isinstance(value, dict):
        items = list(value.items())
        found = {
            str(_clean(str(k), limit, depth + 1)): _clean(v, limit, depth + 1)
            for k, v in items[:_ITEMS]
        }
        if len(items) > _ITEMS:
            found["…"] = f"{len(items) - _ITEMS} more"
        return found
    if isinstance(value, list | tuple | set | frozenset):
        listed = sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
        cleaned = [_clean(v, limit, depth + 1) for v in listed[:_ITEMS]]
        if len(listed) > _ITEMS:
            cleaned.append(f"… {len(listed) - _ITEMS} more")
        return cleaned
    return _clean(str(value), limit, depth)
