"""For what a machine that stands still for seconds can spoil once, but not again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
TIMES = 4


def undisturbed(attempt: Callable[[int], T], fine: Callable[[T], bool]) -> T:
    """What `attempt(number)` gives, made again while it is not fine; at last as it is.

    For what a limit of a round, or a promise in seconds, is held to: there is no margin to widen.
    """
    for number in range(1, TIMES):
        found = attempt(number)
        if fine(found):
            return found
    return attempt(TIMES)
