"""`assay final-report`: one workbook of several reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay import cli
from reports import ReportError
from reports.joined import joined
from schemas.report import Report, encode
from tests.reports import samples


def _reports(*made: Report) -> list[tuple[str, Report]]:
    return [(f"{number}.json", report) for number, report in enumerate(made)]


def test_results_of_all_reports_are_in_one_workbook(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    paths = []
    for name in ("Alpha", "Bravo"):
        path = tmp_path / f"{name}.json"
        path.write_bytes(encode(samples.report([samples.result(submitter=name)], [])))
        paths.append(str(path))
    book, ids = tmp_path / "results.xlsx", tmp_path / "ids.json"
    command = ["final-report", *paths, "--output", str(book), "--ids", str(ids)]
    assert cli.main([*command, "--repository", "https://example.org/tree"]) == 0
    assert "2 valid results; 0 invalid ones left out" in capsys.readouterr().err
    sheet = openpyxl.load_workbook(book)["datacenter - closed"]
    assert [row[4] for row in sheet.iter_rows(min_row=5, values_only=True)] == ["Alpha", "Bravo"]
    assert set(json.loads(ids.read_text()).values()) == {1, 2}
    assert cli.main(["final-report", paths[0], paths[0], "--output", str(book)]) == 2
    assert "leave one of them out" in capsys.readouterr().err


def test_one_result_in_two_reports_is_an_error() -> None:
    one = samples.report([samples.result(submitter="X")], [])
    with pytest.raises(ReportError, match=r"closed/X/.* is in 0\.json and in 1\.json"):
        joined(_reports(one, one))


def test_reports_of_two_rounds_are_an_error() -> None:
    one, other = (samples.report([], [], round=name) for name in ("v6.0", "v6.1"))
    with pytest.raises(ReportError, match=r"0\.json is of round v6\.0, 1\.json of v6\.1"):
        joined(_reports(one, other))


def test_counts_are_added() -> None:
    one = samples.varied()
    other = samples.report([samples.result(submitter="Other")], [])
    both = joined(_reports(one, other))
    assert both.summary.results == one.summary.results + 1
    assert both.summary.errors == one.summary.errors
    assert len(both.results) == len(one.results) + 1 and both.findings == one.findings
    assert joined(_reports(one)) is one
