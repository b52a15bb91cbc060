"""Builds ``schemas/run.schema.json`` from the structures in ``schemas.run_file``.

``make docs`` writes the file; a test fails when it lags behind.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from schemas.run_file import RunFile
from tools.round_schema import without_null


def build() -> dict[str, Any]:
    """The JSON Schema of a run file."""
    generated = without_null(msgspec.json.schema(RunFile))
    defs = generated["$defs"]
    root = defs.pop("RunFile")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://assay.invalid/schemas/run.schema.json",
        **root,
        "title": "A measurement: assay run --config",
        "$defs": dict(sorted(defs.items())),
    }


def as_text() -> str:
    """The file's text."""
    return json.dumps(build(), indent=2, ensure_ascii=False) + "\n"
