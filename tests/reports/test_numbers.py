"""The HTML report read back: a number that appears in two places is equal."""

from __future__ import annotations

import html
import re
from collections import Counter
from dataclasses import dataclass
from urllib.parse import parse_qsl

import pytest

import reports
from checker.engine import Options, check
from schemas.report import Report
from tests.corpus import corpus_rounds, unpacked
from tests.reports import samples


@dataclass(frozen=True)
class Row:
    """One row of a table with filters: its cells as text, and its value for each filter."""

    cells: list[str]
    values: dict[str, set[str]]


def _text(markup: str) -> str:
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", markup).split()))


def _number(text: str) -> int:
    return int(re.match(r"[\d,]+", text)[0].replace(",", ""))  # type: ignore[index]


def _section(page: str, name: str) -> str:
    found = re.search(rf'<section id="{name}".*?</section>', page, re.DOTALL)
    assert found, name
    return found[0]


def _rows(page: str, name: str) -> list[Row]:
    section = _section(page, name)
    filters = {
        select[1]: [_text(option) for option in re.split(r"<option[^>]*>", select[2])[2:]]
        for select in re.finditer(r'<select name="(\w+)">(.*?)</select>', section, re.DOTALL)
    }
    rows = []
    for row in re.split(r"<tr (?=[^>]*data-k=)", section.split("<tbody>", 1)[-1])[1:]:
        key = re.search(r'data-k="([^"]*)"', row)
        assert key
        values = {
            filter: {options[int(n)] for n in part.split(",") if n}
            for (filter, options), part in zip(filters.items(), key[1].split("|"), strict=True)
        }
        rows.append(Row([_text(cell) for cell in re.split(r"<td[^>]*>", row)[1:]], values))
    return rows


def _matching(rows: list[Row], query: str) -> int:
    """How many rows the filters of an address leave."""
    wanted = [(name.split("-", 1)[1], value) for name, value in parse_qsl(query)]
    return sum(all(value in row.values[name] for name, value in wanted) for row in rows)


def _from_corpus(name: str) -> Report:
    return check(str(unpacked(name)), Options(jobs=1))


@pytest.mark.parametrize("name", ["varied", "large", "empty", *corpus_rounds()[-1:]])
def test_numbers_agree(name: str) -> None:
    made = {
        "varied": samples.varied,
        "large": lambda: samples.whole_round(310),
        "empty": lambda: samples.report([], []),
    }
    report = made[name]() if name in made else _from_corpus(name)
    page = str(reports.render(report, "html"))
    overview = _section(page, "overview")
    results = _rows(page, "results") if report.results else []
    findings = _rows(page, "findings") if report.findings else []

    # The tiles, the verdict above them and the tables below count the same.
    tiles = {
        _text(name): _number(_text(value))
        for name, value in re.findall(r"<dt>(.*?)<dd>(.*?)</div>", overview, re.DOTALL)
    }
    severities = Counter(next(iter(row.values["severity"])) for row in findings)
    verdicts = Counter(next(iter(row.values["verdict"])) for row in results)
    assert tiles == {
        "results": len(results),
        "valid": verdicts["valid"],
        "invalid": verdicts["invalid"],
        "errors": severities["error"],
        "warnings": severities["warning"],
        "notes": severities["note"],
        "waived": severities["waived"],
    }
    verdict = _text(re.search(r'<p class="verdict.*?</p>', overview, re.DOTALL)[0])  # type: ignore[index]
    for name, noun in (("errors", "error"), ("warnings", "warning"), ("notes", "note")):
        assert re.search(rf"\b{tiles[name]:,} {noun}s?\b", verdict), verdict
    if results:
        assert f"{tiles['valid']:,} of {tiles['results']:,} result" in verdict

    # Each linked number of the overview is the number of rows that its filters leave.
    linked = re.findall(r'href="#(\w+)\?([^"]*)">([\d,]+)</a>', overview)
    for section, query, shown in linked:
        rows = results if section == "results" else findings
        assert _matching(rows, html.unescape(query)) == _number(shown), query
    assert linked or not results

    # A submitter's valid and invalid results are those of the table.
    for name in {value for row in results for value in row.values["submitter"]}:
        of = [row for row in results if name in row.values["submitter"]]
        row = re.search(
            rf'<tr[^>]*><th scope="row"><a [^>]*>{re.escape(html.escape(name))}</a>(.*?)(?=<tr|</tbody>)',
            overview,
            re.DOTALL,
        )
        if row is None:  # of one submitter there is no such table
            assert len({name for each in results for name in each.values["submitter"]}) == 1
            continue
        heads = re.findall(r'class="n">(\w+)', overview.split("tally", 1)[1].split("<tbody>")[0])
        cells = [_number(_text(cell)) for cell in re.split(r"<td[^>]*>", row[1])[1:]]
        shown = dict(zip(heads, cells, strict=True))
        for verdict in ("valid", "invalid"):
            count = sum(verdict in r.values["verdict"] for r in of)
            assert shown.get(verdict.capitalize(), 0) == count

    # A rule's count in its head is the number of rows of the table.
    for rule, shown in re.findall(
        r'<a href="#findings\?f-rule=([\w%.]+)">([\d,]+) findings?</a>', page
    ):
        assert _matching(findings, f"f-rule={rule}") == _number(shown)

    # A result's figure in the table is that of its details, and its errors are listed there.
    details = dict(
        re.findall(
            r'<details class="result[^>]* id="([^"]+)".*?>(.*?)(?=<details|</section>)',
            page,
            re.DOTALL,
        )
    )
    links = re.findall(r'<a class="st \w+" href="#([^"]+)"', _section(page, "results"))
    assert len(details) == len(links) == len(results)
    for anchor, row in zip(links, results, strict=True):
        value = re.search(r'<span class="value">(.*?)</span>', details[anchor])
        assert value
        assert _text(value[1]).replace("no metric", "none") == row.cells[6]
        if 'class="facts"' in details[anchor]:
            errors = len(re.findall(r'class="sev error"', details[anchor]))
            assert errors == min(_number(row.cells[8]), 40)
