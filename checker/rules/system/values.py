"""What the rules about descriptions share: where a field is, and what its value says."""

from __future__ import annotations

import math
import re
from typing import Any

from checker.model import System
from checker.parse.documents import Document

COUNTS = ("number_of_nodes", "host_processors_per_node", "accelerators_per_node")
_NOTHING = {"", "n/a", "na", "n.a.", "none", "-", "--", "null", "not applicable"}


def at(document: Document, key: str) -> dict[str, Any]:
    """Where a field is, as a `Problem` says it."""
    return {"path": document.path, "line": document.line_of(key), "pointer": f"/{key}"}


def leftover(system: System) -> str | None:
    """The case of a description that no result needs."""
    return None if system.has_results else "leftover"


def whole(value: Any) -> int | None:
    """A count: a whole number, also one written as text; None when it is not one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value == int(value) else None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,18}\s*", value):
        return int(value)
    return None


def is_nothing(value: Any) -> bool:
    """Whether a value says that the field does not apply."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def is_empty(key: str, value: Any) -> bool:
    """Empty as the rules mean it: 0 is an answer where things are counted."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, bool | int | float):
        return value is False or (value == 0 and key not in COUNTS and not key.endswith("_count"))
    return not value
