"""The report as JSON: the form that other programs read and that ``assay report`` reads back."""

from __future__ import annotations

from typing import Any

import msgspec

from reports.escape import json_text
from schemas import report as schema
from schemas.report import Report


def render(report: Report) -> bytes:
    """The report as JSON in UTF-8, the same bytes for the same report."""
    try:
        document = schema.encode(report)
    except UnicodeEncodeError:
        # A file name that is not UTF-8 reaches Python as lone surrogates, which JSON cannot hold.
        cleaned = msgspec.convert(_spelled_out(msgspec.to_builtins(report)), Report)
        document = schema.encode(cleaned)
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
