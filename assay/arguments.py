"""The parser of the command line, and the types of its arguments."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from assay.status import EXIT_USAGE

DIVISIONS = ("closed", "open", "network")


class Help(argparse.HelpFormatter):
    """As wide as the terminal. The library asks `shutil` for that, once for every argument, and
    importing it takes as long as building the parser."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


@functools.cache
def _columns() -> int:
    with contextlib.suppress(ValueError):
        if (stated := int(os.environ.get("COLUMNS", "0"))) > 0:
            return stated
    with contextlib.suppress(AttributeError, ValueError, OSError):
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    return 80


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line and the usage, with status 2."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": Help, **options})

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As the library's, but nothing is left over: it would hand what a command does not know to
        the parser above, which then shows its own usage."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._unknown(unknown))
        return found, []

    def _unknown(self, words: list[str]) -> str:
        options = [word.partition("=")[0] for word in words if word.startswith("-")]
        if not options:
            return f"unrecognized arguments: {' '.join(words)}"
        from difflib import get_close_matches

        known = list(self._option_string_actions)
        texts = []
        for option in dict.fromkeys(options):
            near = get_close_matches(option.lower().replace("_", "-"), known, 1, 0.75)
            texts.append(
                f"{option} is not an option of {self.prog}"
                + (f"; did you mean {near[0]}?" if near else "")
            )
        return "; ".join(texts)

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"assay: {message}\n{self.format_usage()}")


def add_no_progress(parser: argparse.ArgumentParser) -> None:
    """Every command that shows how far it is can be told not to."""
    parser.add_argument("--no-progress", action="store_true", help="no progress on standard error")


def positive(text: str) -> int:
    """A whole number of 1 or more."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return value


def above_zero(text: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0 or value == float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def percent(text: str) -> float:
    """A percentage from 0 to below 100, with or without its sign."""
    try:
        value = float(text.rstrip("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage from 0 to below 100")
    return value


def size(text: str) -> int:
    """Bytes, or K, M, G, T of 1024 each."""
    found = re.fullmatch(r"(\d{1,15})([KMGT]?)", text.upper())
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 500G")
    power: int = " KMGT".index(found[2] or " ")
    return int(found[1]) << (10 * power)


def names(values: list[str] | None) -> tuple[str, ...]:
    """The names in lists that are separated by commas, of an option that may be repeated."""
    return tuple(n.strip() for v in values or [] for n in v.split(",") if n.strip())
