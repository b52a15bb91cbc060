"""JSON, YAML-free documents of a submission: system descriptions, measurements, mappings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from checker.parse.reading import (
    MAX_DOCUMENT_BYTES,
    Fault,
    File,
    Unreadable,
    nul_fault,
    read_bytes,
    read_text,
)

MAX_DIGITS = 300
"""Longest whole number that is read as one."""

MAX_DEPTH = 64


class Document(msgspec.Struct):
    """One JSON file.

    value: what it holds (None when it could not be read; see ``faults``).
    duplicates: keys that stand twice in one object, with both values; the last one counts.
    """

    path: str
    value: Any = None
    faults: list[Fault] = []
    duplicates: list[tuple[str, Any, Any]] = []
    text: str = ""

    @property
    def fields(self) -> dict[str, Any]:
        """The top-level object, {} where the document is not one."""
        return self.value if isinstance(self.value, dict) else {}

    def line_of(self, key: str) -> int | None:
        """The line on which a top-level key is written (1-based), None when not found."""
        at = self.text.find(json.dumps(key, ensure_ascii=False))
        return self.text.count("\n", 0, at) + 1 if at >= 0 else None


def read_json(file: File, limit: int = MAX_DOCUMENT_BYTES) -> Document:
    """Read one JSON file; every problem becomes a Fault. Never raises."""
    document = Document(file.path)
    try:
        text, faults = read_text(file, limit)
    except Unreadable as error:
        document.faults.append(error.fault)
        return document
    document.faults.extend(faults)
    document.text = text
    if not text.strip():
        document.faults.append(
            Fault(
                file.path,
                "empty",
                "the file is empty",
                fix="write the JSON document that belongs there",
            )
        )
        return document

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                document.duplicates.append((key, result[key], value))
            result[key] = value
        return result

    try:
        value = json.loads(text, object_pairs_hook=keep, parse_int=whole_number)
        if is_deep(value):
            raise RecursionError
        document.value = value
        document.faults.extend(no_characters(file.path, text, value))
    except json.JSONDecodeError as error:
        document.faults.append(
            Fault(
                path=file.path,
                kind="syntax",
                message=f"line {error.lineno} column {error.colno} is not valid JSON: {error.msg}",
                line=error.lineno,
                fix="fix the JSON at that place",
            )
        )
    except (RecursionError, ValueError) as error:
        document.faults.append(
            Fault(
                file.path,
                "syntax",
                f"the file is not usable JSON: {_short(error)}",
                fix="fix the JSON",
            )
        )
    return document


def whole_number(digits: str) -> int:
    """A whole number that a float can hold too. Raises ValueError where it is longer."""
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"found a number of {len(digits):,} digits; expected at most {MAX_DIGITS}")
    return int(digits)


_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def no_characters(path: str, text: str, value: Any, *, line: int = 1) -> Iterator[Fault]:
    """Escapes that stand for NUL or for half a character: no text that a reader could see.

    line: where in the file the text begins.
    """
    found = _NUL.search(text) if "\\u0000" in text else None
    if found is not None:
        yield nul_fault(path, text.count("\n", 0, found.start()) + line)
    if "\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            yield Fault(
                path,
                "encoding",
                "found half a character (\\ud800 to \\udfff alone)",
                line=text.count("\n", 0, text.lower().index("\\ud")) + line,
                fix="write the text that was meant",
            )


def is_deep(value: Any) -> bool:
    """Whether a value is nested more than `MAX_DEPTH` deep: what walks it need not expect that."""
    layer = [value]
    for _ in range(MAX_DEPTH + 1):
        layer = [
            item
            for each in layer
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not layer:
            return False
    return True


def _short(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return f"found values nested over {MAX_DEPTH} deep"
    return str(error)[:200]


__all__ = ["MAX_DEPTH", "MAX_DIGITS", "Document", "no_characters", "read_bytes", "read_json"]
