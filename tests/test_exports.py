"""What is exported of real rounds holds exactly the published valid results."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from assay import check, render
from tests.corpus import corpus_root, corpus_rounds, unpacked

pytestmark = pytest.mark.corpus
ROUNDS = [name for name in ("v5.1", "v6.0") if name in corpus_rounds()]
ABSENT = "no corpus: set ASSAY_CORPUS to a folder that holds corpus/ and golden/"


def golden(name: str) -> list[dict[str, Any]]:
    """The round's golden rows whose verdict does not hang on a file that is absent here."""
    root = corpus_root()
    assert root is not None
    lines = (root / "golden" / f"{name}.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [r for r in rows if not r["missing_affects_verdict"] and r["valid_pubflags"]]


@pytest.mark.skipif(not ROUNDS, reason=ABSENT)
@pytest.mark.parametrize("name", ROUNDS or ["absent"])
def test_csv_and_workbook_hold_exactly_the_valid_rows(name: str, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    report = check(str(unpacked(name)), jobs=2)
    wanted = {
        (g["division"], g["submitter"], g["system"], g["benchmark"], g["scenario"]): g
        for g in golden(name)
    }
    rows = list(csv.DictReader(io.StringIO(str(render(report, "csv")))))
    found = {
        (r["Division"], r["Organization"], r["Platform"], r["Model"], r["Scenario"]): r
        for r in rows
        if r["Units"] not in ("Watts", "millijoules")
    }
    assert set(found) == set(wanted)
    for key, row in found.items():
        assert float(row["Result"]) == pytest.approx(wanted[key]["metric"], rel=1e-6)
        assert row["Units"] == wanted[key]["unit"]
    book = tmp_path / "results.xlsx"
    data = render(report, "xlsx")
    assert isinstance(data, bytes)
    book.write_bytes(data)
    numbers: list[float] = []
    for sheet in openpyxl.load_workbook(book).worksheets:
        for cells in sheet.iter_rows(values_only=True):
            numbers += [float(v) for v in cells if isinstance(v, int | float)]
    metrics = sorted(float(g["metric"]) for g in wanted.values())
    for metric in metrics:
        assert any(v == pytest.approx(metric, rel=1e-6) for v in numbers), metric
