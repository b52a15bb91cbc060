"""The report as JSON: the form that other programs read and that ``assay report`` reads back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from reports.escape import json_text
from schemas.report import Finding, Report, Result

_T = TypeVar("_T", bound=Report | Result | Finding)
_PIECE = 1 << 20


def render(report: Report) -> bytes:
    """The report as JSON in UTF-8, the same bytes for the same report."""
    return b"".join(pieces(report))


def pieces(report: Report) -> Iterator[bytes]:
    """The same piece by piece, of about 1 MB each, so that no report is ever held as text."""
    frame = _formatted(msgspec.structs.replace(report, results=[], findings=[])) + b"\n"
    # A line break cannot be inside a string, so that the two lists are found only once.
    head, middle, tail = frame.replace(_FINDINGS, _RESULTS).split(_RESULTS)
    waiting = [head]
    size = 0
    for name, things, rest in (
        (_RESULTS, report.results, middle),
        (_FINDINGS, report.findings, tail),
    ):
        waiting.append(name[:-2])
        for text in _items(things):
            waiting.append(text)
            size += len(text)
            if size > _PIECE:
                yield b"".join(waiting)
                waiting, size = [], 0
        waiting += [b"\n  ]," if things else b"],", rest]
    yield b"".join(waiting)


_RESULTS, _FINDINGS = b'\n  "results": [],', b'\n  "findings": [],'


def _items(things: Sequence[Result] | Sequence[Finding]) -> Iterator[bytes]:
    before = b"\n    "
    for thing in things:
        yield before + _formatted(thing).replace(b"\n", b"\n    ")
        before = b",\n    "


def _formatted(value: _T) -> bytes:
    try:
        document = msgspec.json.encode(value)
    except UnicodeEncodeError:
        # A file name that is not UTF-8 reaches Python as lone surrogates, which JSON cannot hold.
        plain = _spelled_out(msgspec.to_builtins(value))
        document = msgspec.json.encode(msgspec.convert(plain, type(value)))
    document = msgspec.json.format(document, indent=2)
    if document.isascii() and b"\x7f" not in document:
        return document
    return json_text(document.decode("utf-8")).encode("utf-8")


def encode(value: Any) -> bytes:
    """Any other record as JSON, with the same care for what its strings may hold."""
    plain = _spelled_out(msgspec.to_builtins(value))
    document = msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n"
    return json_text(document.decode("utf-8")).encode("utf-8")


def _spelled_out(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_spelled_out(key): _spelled_out(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled_out(item) for item in value]
    return value
