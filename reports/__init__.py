"""Reports: a check's data rendered for terminals, browsers, spreadsheets and CI systems.

``render(report, format)`` is all of it; ``diff`` compares two reports. Nothing here judges
anything: what is shown is what the report says. Only the module of the format is
loaded, so that ``import reports`` costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schemas.report import Report

FORMATS: tuple[str, ...] = (
    "terminal",
    "json",
    "csv",
    "html",
    "markdown",
    "sarif",
    "junit",
    "xlsx",
    "github",
)
BINARY_FORMATS: frozenset[str] = frozenset({"json", "xlsx"})

SUFFIXES = {
    ".json": "json",
    ".csv": "csv",
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".sarif": "sarif",
    ".xml": "junit",
    ".xlsx": "xlsx",
    ".txt": "terminal",
}


class ReportError(ValueError):
    """A report cannot be rendered as asked; the message says what to do."""


def render(report: Report, format: str, **options: Any) -> bytes | str:
    """The report in one of ``FORMATS``: bytes for json and xlsx, text for the others.

    Options depend on the format and are those of its module's ``render``, for example
    ``width=100, colour=False, verbose=True, quiet=False`` for terminal, ``ids_file=PATH`` for
    xlsx, ``repository=URL`` (the address of the tree) for xlsx and html, ``prefix="submission"``
    for sarif and github.
    """
    rendered: bytes | str = _module(format).render(report, **options)
    return rendered


def pieces(report: Report, format: str, **options: Any) -> Iterator[bytes | str]:
    """What `render` returns, piece by piece where the format allows: a report of very many results
    is then never held as text."""
    module = _module(format)
    if hasattr(module, "pieces"):
        yield from module.pieces(report, **options)
    else:
        yield module.render(report, **options)


def prepare(format: str) -> None:
    """Load what `render` needs for a format, which it else does when it is called."""
    module = _module(format)
    if hasattr(module, "prepare"):
        module.prepare()


def _module(format: str) -> Any:
    if format not in FORMATS:
        raise ReportError(f"unknown format {format!r}; the formats are {', '.join(FORMATS)}")
    return import_module(f"reports.to_{format}")


def format_from_suffix(path: str | Path) -> str:
    """The format that a file's name asks for by its suffix."""
    suffix = Path(path).suffix.lower()
    try:
        return SUFFIXES[suffix]
    except KeyError:
        known = ", ".join(SUFFIXES)
        raise ReportError(
            f"{Path(path).name}: the suffix {suffix or '(none)'!r} names no format; "
            f"use one of {known}, or say --format"
        ) from None


__all__ = [
    "BINARY_FORMATS",
    "FORMATS",
    "ReportError",
    "format_from_suffix",
    "pieces",
    "prepare",
    "render",
]
