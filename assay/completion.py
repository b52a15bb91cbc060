"""Completion scripts, made by shtab from the command's own parser.

Nothing is asked at completion time: the script holds the commands, options and values of the
version that printed it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

SHELLS = ("bash", "zsh", "fish", "tcsh")

_FILES = ("TREE", "RUN", "FILE", "REPORT.json", "OLD.json", "NEW.json", "OTHER", "D", "B=PATH")


def script(
    shell: str, parser: argparse.ArgumentParser, values: Mapping[str, Sequence[str]] | None = None
) -> str:
    """The completion script for one of ``SHELLS``. Changes ``parser``, which then only completes.

    values: the words that an argument may hold, by the name it is stored under.
    """
    import shtab

    for action in _arguments(parser):
        words = (values or {}).get(action.dest)
        if action.nargs != 0 and words:
            action.choices = list(words)
        elif action.metavar == "FOLDER":
            action.complete = shtab.DIRECTORY
        elif action.type is Path or action.metavar in _FILES:
            action.complete = shtab.FILE
    text: str = shtab.complete(parser, shell)
    return text


def _arguments(parser: argparse.ArgumentParser) -> Iterator[Any]:
    """Every argument of a parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _arguments(child)
