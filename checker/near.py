"""Near misses: the known name that a misspelt one was probably meant to be."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_HINTS = 200
"""So many names, of at most `_LONGEST` characters, are compared with known ones: in a hostile
document there may be a million."""

_LONGEST = 100


def nearest(name: str, known: Iterable[str], cutoff: float = 0.75) -> str | None:
    """The known name that was probably meant, whatever its case and separators; None if none is."""
    if len(name) > _LONGEST:
        return None
    plain = {_plain(k): k for k in sorted(known)}
    asked = _plain(name)
    if asked in plain:
        return plain[asked]
    import difflib

    found = difflib.get_close_matches(asked, plain, 1, cutoff)
    return plain[found[0]] if found else None


def _plain(name: str) -> str:
    return re.sub(r"[\s_.-]+", "_", name.strip().casefold())


def hint(near: str | None) -> str:
    """The end of a message that names what was probably meant; empty where nothing is near."""
    return f"; did you mean {near}?" if near else ""
