"""Each format of one saved report, byte for byte. ASSAY_UPDATE_GOLDEN=1 writes the files anew."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

import reports
from reports import diff
from schemas import report as schema
from tests.reports import samples

GOLDEN = Path(__file__).with_name("golden")
TEXT_FORMATS = [name for name in reports.FORMATS if name != "xlsx"]
SUFFIX = {
    "terminal": "txt",
    "json": "json",
    "csv": "csv",
    "html": "html",
    "markdown": "md",
    "sarif": "sarif",
    "junit": "xml",
    "github": "github.txt",
}


def compare(name: str, made: bytes) -> None:
    """Compare with the golden file, or write it."""
    file = GOLDEN / name
    if os.environ.get("ASSAY_UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        file.write_bytes(made)
    assert made == file.read_bytes(), f"{name} differs; look, then run with ASSAY_UPDATE_GOLDEN=1"


def as_bytes(rendered: bytes | str) -> bytes:
    """What a file of the report would hold."""
    return rendered if isinstance(rendered, bytes) else rendered.encode("utf-8")


@pytest.mark.parametrize("name", TEXT_FORMATS)
def test_format(name: str) -> None:
    compare(f"report.{SUFFIX[name]}", as_bytes(reports.render(samples.varied(), name)))


@pytest.mark.parametrize("width", [60, 80, 140, 200])
def test_terminal_widths(width: int) -> None:
    text = reports.render(samples.varied(), "terminal", width=width, places=3)
    compare(f"terminal-{width}.txt", as_bytes(text))


def test_terminal_in_colour() -> None:
    text = reports.render(samples.varied(), "terminal", width=100, colour=True, verbose=True)
    compare("terminal-colour.txt", as_bytes(text))


def test_workbook() -> None:
    """The cells, not the bytes of the file, which belong to the zip library."""
    openpyxl = pytest.importorskip("openpyxl")
    made = as_bytes(reports.render(samples.varied(), "xlsx"))
    assert made == reports.render(samples.varied(), "xlsx")
    lines: list[str] = []
    for sheet in openpyxl.load_workbook(io.BytesIO(made)):
        lines.append(f"[{sheet.title}]")
        lines += ["\t".join(map(_cell, row)) for row in sheet.iter_rows(values_only=True)]
    compare("report.xlsx.txt", ("\n".join(lines) + "\n").encode("utf-8"))


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


@pytest.mark.parametrize("name", TEXT_FORMATS)
def test_saved_report_renders_the_same(name: str) -> None:
    saved = schema.decode(as_bytes(reports.render(samples.varied(), "json")))
    assert reports.render(saved, name) == reports.render(samples.varied(), name)


def test_diff() -> None:
    old, new = samples.varied(), samples.later()
    compare("diff.txt", diff.to_text(diff.diff(old, new)).encode("utf-8"))
    compare("diff.json", diff.to_json(diff.diff(old, new)))
