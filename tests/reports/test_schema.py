"""The report's JSON Schema says what the report's types say, and every report obeys it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

import reports
from schemas import report as schema
from tests.reports import samples

FILE = Path(schema.__file__).with_name("report.schema.json")
HEAD = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://assay.invalid/schemas/report.schema.json",
    "title": "Assay report",
    "description": (
        "What one call of assay check or assay audit found. Fields may be added at any time; "
        "a changed meaning raises format_version. Paths are posix and relative to the tree."
    ),
}


def from_types() -> dict[str, Any]:
    """The schema that the types mean, in the plain form in which the file has it."""
    made: dict[str, Any] = HEAD | _plain(msgspec.json.schema(schema.Report))
    top = made["$defs"]["Report"]["properties"]
    top["format"] = {"const": schema.FORMAT}
    top["format_version"] = {"const": schema.FORMAT_VERSION}
    return made


def _plain(node: Any) -> Any:
    if isinstance(node, list | tuple):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: _plain(value) for key, value in node.items()}
    choices = node.get("anyOf", [])
    if choices and all(set(choice) == {"type"} for choice in choices):
        del node["anyOf"]
        node["type"] = [choice["type"] for choice in choices]
    if "enum" in node:
        node["enum"] = sorted(node["enum"])
    return node


def _described(made: dict[str, Any], texts: dict[str, Any]) -> dict[str, Any]:
    """``made`` with the descriptions that the file gives to the fields."""
    for name, definition in made["$defs"].items():
        known = texts.get("$defs", {}).get(name, {}).get("properties", {})
        for field, value in definition.get("properties", {}).items():
            if "description" in known.get(field, {}):
                value["description"] = known[field]["description"]
    return made


def test_schema_says_what_the_types_say() -> None:
    read = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    made = _described(from_types(), read)
    if os.environ.get("ASSAY_UPDATE_GOLDEN"):
        FILE.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        read = made
    assert read == made, "run the test once with ASSAY_UPDATE_GOLDEN=1, then describe new fields"


def test_schema_is_sound() -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(FILE.read_text(encoding="utf-8")))


@pytest.mark.parametrize("index", range(-1, len(samples.HOSTILE)))
def test_reports_obey_the_schema(index: int) -> None:
    report = samples.varied() if index < 0 else samples.hostile(samples.HOSTILE[index])
    document = json.loads(reports.render(report, "json"))
    validator = jsonschema.Draft202012Validator(json.loads(FILE.read_text(encoding="utf-8")))
    assert list(validator.iter_errors(document)) == []


def test_schema_refuses_what_is_no_report() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(FILE.read_text(encoding="utf-8")))
    document = json.loads(reports.render(samples.varied(), "json"))
    changes: tuple[dict[str, Any], ...] = (
        {"format": "other"},
        {"format_version": 3},
        {"results": {}},
        {"summary": None},
    )
    for change in changes:
        assert not validator.is_valid(document | change), change
