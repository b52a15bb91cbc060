"""Objects by name: `module:NAME`, or `folder/file.py:NAME` for a file of one's own.

The current folder is never searched by itself, since it may hold anything; a file that is named is
an explicit choice, and then the modules beside it can be imported too.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def is_place(text: str) -> bool:
    """Whether it has the form of such a name."""
    place, colon, attribute = text.rpartition(":")
    return bool(place and colon and attribute)


def absolute(text: str) -> str:
    """The same for a process with another current folder."""
    place, _, attribute = text.rpartition(":")
    return f"{Path(place).resolve()}:{attribute}" if place.endswith(".py") else text


def short(text: str) -> str:
    """The same without folders, for descriptions: they are the user's own affair."""
    place, _, attribute = text.rpartition(":")
    return f"{Path(place).stem}:{attribute}" if place.endswith(".py") else text


def load(text: str) -> Any:
    """The object.

    Raises:
        ImportError: there is no such module or file, or it cannot be imported.
        AttributeError: it does not have the name.
    """
    place, _, attribute = text.rpartition(":")
    return getattr(
        _from_file(Path(place)) if place.endswith(".py") else import_module(place), attribute
    )


def _from_file(path: Path) -> Any:
    path = path.resolve()
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    if not path.is_file():
        raise ImportError(f"there is no file {path}")
    other = known is not None
    if not other:
        # By `python -m assay` the current folder is searched too, and then finds the file itself.
        found = importlib.util.find_spec(path.stem)
        other = found is not None and (not found.origin or Path(found.origin).resolve() != path)
    if other:
        raise ImportError(f"{path.name} has the name of another module, {path.stem}; rename it")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # last: it must not hide other modules
    return import_module(path.stem)
