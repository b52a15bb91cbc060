"""A truncated log is one cause: what follows from it is folded into it, alike in every format."""

from __future__ import annotations

import io
import re

import msgspec
import pytest

import reports
from reports import arrange
from schemas.report import Finding, Report, Waived
from tests.reports.samples import truncated

FOLLOW = ["P102", "P117", "P165", "C122"]


def order(report: Report) -> list[str]:
    return [f.rule for f in arrange.Folded(report.findings).in_order(report.findings)]


def test_the_cause_leads_and_what_follows_is_counted_with_it() -> None:
    report = truncated()
    cause, seeds = arrange.causes(arrange.by_rule(report, arrange.Folded(report.findings)))
    assert (cause.rule, cause.counts) == ("X002", "1 error")
    assert cause.folded == "2 errors, 2 warnings that follow from it"
    # What does not rest on the log's end is an error of its own.
    assert (seeds.rule, seeds.counts, seeds.folded) == ("P107", "1 error", "")
    assert order(truncated()) == ["X002", *FOLLOW, "P107"]
    # By rule alone, each has its own.
    assert len(arrange.by_rule(truncated())) == 6


def test_terminal() -> None:
    text = str(reports.render(truncated(), "terminal"))
    assert "error X002 unreadable-file  (1 error; 2 errors, 2 warnings that follow from it)" in text
    assert re.findall(r"follows: \w+ (\w+)", text) == FOLLOW
    # Nothing of it has a section of its own.
    assert re.findall(r"^(?:error|warning) (\w+)", text, re.MULTILINE) == ["X002", "P107"]


def test_markdown() -> None:
    text = str(reports.render(truncated(), "markdown"))
    assert re.findall(r"  - follows: \w+ `(\w+)", text) == FOLLOW
    assert (
        "| `X002 unreadable-file` | 1 error; 2 errors, 2 warnings that follow from it | 1 |" in text
    )
    assert "`P102 run-valid` |" not in text


def test_page() -> None:
    page = str(reports.render(truncated(), "html"))
    first, rest = page.split('<section id="results"', 1)
    causes = first[first.index("What to fix first") : first.index("Invalid results")]
    assert re.findall(r"f-rule=(\w+)", causes) == ["X002", "P107"]
    assert "P102" not in causes
    assert "X002 line 66 is cut off <small>and 3 more errors</small>" in first
    rows = re.findall(r'<tr id="(\w+)/', rest)
    assert rows == ["X002", *FOLLOW, "P107"]
    assert rest.count("follows from <a ") == len(FOLLOW)
    assert '<select name="follows">' in rest


def test_workbook() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(io.BytesIO(reports.render(truncated(), "xlsx")))  # type: ignore[arg-type]
    rules = [row[1] for row in book["fix first"].iter_rows(min_row=2, values_only=True)]
    assert rules == ["X002", "P107"]
    sheet = book["findings"]
    folded = [
        sheet.cell(row, 2).value
        for row in range(2, sheet.max_row + 1)
        if sheet.row_dimensions[row].hidden and sheet.row_dimensions[row].outlineLevel == 1
    ]
    assert folded == FOLLOW
    (invalid,) = book["invalid results"].iter_rows(min_row=2, values_only=True)
    assert invalid[5:8] == ("X002", "line 66 is cut off", 3)


def test_the_link_is_in_the_json_report_and_in_sarif() -> None:
    made = reports.render(truncated(), "json")
    assert isinstance(made, bytes)
    read = msgspec.json.decode(made)["findings"]
    ids = {finding["id"] for finding in read}
    assert len(ids) == len(read) == 6
    assert [f["rule"] for f in read if f["follows"] == "X002-0000000000aa"] == FOLLOW
    assert str(reports.render(truncated(), "sarif")).count('"follows": "X002-0000000000aa"') == 4


def changed(**fields: object) -> Report:
    """The report with the cause changed."""
    made = truncated()
    cause = msgspec.structs.replace(made.findings[0], **fields)
    return msgspec.structs.replace(made, findings=[cause, *made.findings[1:]])


def nothing_folded(report: Report) -> bool:
    folded = arrange.Folded(report.findings)
    return not any(map(folded.cause, report.findings))


def test_what_stands_is_never_folded_into_what_does_not() -> None:
    assert nothing_folded(changed(waived=Waived("known", "Example")))
    assert nothing_folded(changed(id="another"))
    # A report from elsewhere may go in circles: everything is shown.
    assert nothing_folded(changed(follows="X002-0000000000aa"))
    assert nothing_folded(changed(follows="P102-0000000000bb"))
    two = [Finding("P1", "n", "error", "m", id="a", follows="b")]
    two.append(Finding("P2", "n", "error", "m", id="b", follows="a"))
    assert order(msgspec.structs.replace(truncated(), findings=two)) == ["P1", "P2"]
