"""Family S: the tree itself: folders, names, files that should or should not be there."""

from checker.near import MAX_HINTS, nearest
from checker.rules.structure.entries import listed

__all__ = ["MAX_HINTS", "listed", "nearest"]
