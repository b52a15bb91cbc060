"""Every readable format read back: a number that appears in two places of one report is equal."""

from __future__ import annotations

import html
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import reports
from checker.engine import Options, check
from reports import arrange, split
from reports.since import compared
from schemas.report import SEVERITIES, Report
from tests.corpus import corpus_rounds, unpacked
from tests.reports import samples

openpyxl = pytest.importorskip("openpyxl")

COUNTS = ("results", "valid", "invalid", "errors", "warnings", "notes", "waived")


def _round_since() -> Report:
    """A whole round against an earlier state: some findings and a submitter are gone, some new."""
    new = samples.whole_round(400)
    old = samples.whole_round(440)
    return compared("old.json", samples.report(old.results, old.findings[7:]), new)


MADE: dict[str, Callable[[], Report]] = {
    "varied": samples.varied,
    "truncated": samples.truncated,
    "round": lambda: samples.whole_round(310),
    "empty": lambda: samples.report([], []),
    "baseline": lambda: compared("old.json", samples.varied(), samples.later()),
    "truncated since": lambda: compared("x.json", samples.report([], []), samples.truncated()),
    "round since": _round_since,
}


class Read:
    """One report in every format that people read, and what is in each."""

    def __init__(self, report: Report) -> None:
        self.page = str(reports.render(report, "html"))
        self.terminal = str(reports.render(report, "terminal", width=200))
        self.markdown = re.sub(r"\\(.)", r"\1", str(reports.render(report, "markdown")))
        made = reports.render(report, "xlsx")
        assert isinstance(made, bytes)
        self.book = openpyxl.load_workbook(io.BytesIO(made))
        self.junit = ElementTree.fromstring(str(reports.render(report, "junit")))
        (self.sarif,) = json.loads(str(reports.render(report, "sarif")))["runs"]

    def section(self, name: str) -> str:
        found = re.search(rf'<section id="{name}".*?</section>', self.page, re.DOTALL)
        return found[0] if found else ""

    def sheet(self, name: str) -> list[dict[str, Any]]:
        if name not in self.book.sheetnames:
            return []
        head, *rows = self.book[name].iter_rows(values_only=True)
        return [dict(zip(head, row, strict=True)) for row in rows]

    def overview(self) -> dict[str, Any]:
        return dict(row[:2] for row in self.book["overview"].values)


def text(markup: str) -> str:
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", markup).split()))


def number(words: str) -> int:
    return int(words.replace(",", ""))


def in_words(counts: str) -> Counter[str]:
    """``2 errors, 1 warning that follow from it`` as numbers."""
    found = re.findall(r"([\d,]+) (error|warning|note|waived)", counts)
    total: Counter[str] = Counter()
    for count, name in found:
        total[name] += number(count)
    return total


def verdict(line: str) -> dict[str, int]:
    """The counts of a verdict's line."""
    counts = in_words(line)
    told = {"errors": counts["error"], "warnings": counts["warning"], "notes": counts["note"]}
    told["waived"] = counts["waived"]
    results = re.search(r"([\d,]+) of ([\d,]+) results? valid", line)
    if results:
        told |= {"valid": number(results[1]), "results": number(results[2])}
        told["invalid"] = told["results"] - told["valid"]
    return told


@pytest.fixture(params=[*MADE, *corpus_rounds()[-1:]])
def report(request: pytest.FixtureRequest) -> Report:
    name: str = request.param
    return MADE[name]() if name in MADE else check(str(unpacked(name)), Options(jobs=1))


def test_counts_of_the_whole(report: Report) -> None:
    read = Read(report)
    tiles = {
        text(name): number(text(value))
        for name, value in re.findall(r"<dt>(\w+)<dd>(.*?)</div>", read.section("overview"))
    }
    assert tuple(tiles) == COUNTS
    assert tiles == {name: getattr(report.summary, name) for name in COUNTS}
    known = {name: read.overview()[name.capitalize()] for name in COUNTS}
    assert known == tiles
    lines = {
        "page": text(re.search(r'<p class="verdict.*?</p>', read.page)[0]),  # type: ignore[index]
        "terminal": re.findall(r"^SUMMARY: .*", read.terminal, re.MULTILINE)[-1],
        "markdown": re.findall(r"^\*\*(.*)\*\*$", read.markdown, re.MULTILINE)[0],
        "xlsx": read.overview()["Verdict"],
        "sarif": read.sarif["properties"]["summary"],
        "github": str(reports.render(report, "github")).splitlines()[-1],
    }
    for place, line in lines.items():
        told = verdict(line)
        assert told == {name: tiles[name] for name in told}, place
        assert len(told) == len(COUNTS) or not report.results, place
    levels = Counter(
        "waived" if one.get("suppressions") else one["level"]
        for one in read.sarif["results"]
        if one.get("baselineState") != "absent"
    )
    assert [levels[s] for s in (*SEVERITIES, "waived")] == [tiles[name] for name in COUNTS[3:]]
    cases = [case for suite in read.junit if suite.get("name") != "tree" for case in suite]
    cases = [case for case in cases if case.tag == "testcase"]
    assert len(cases) == tiles["results"]


def test_counts_of_each_rule(report: Report) -> None:
    """By rule alone in the page, folded into causes elsewhere: both add up to the same."""
    read = Read(report)
    summed = Counter(dict(zip((*SEVERITIES, "waived"), _numbers(report), strict=True)))
    rules = {
        text(rule): in_words(text(counts))
        for rule, counts in re.findall(
            r'<details id="rule/.*?<b>(.*?)</b>.*?<small>(.*?)</small>', read.page, re.DOTALL
        )
    }
    assert +sum(rules.values(), Counter()) == +summed
    listed = {row["Rule"]: row for row in read.sheet("fix first")}
    found = [row for row in read.sheet("findings") if row["Baseline"] != "gone"]
    assert Counter(row["Rule"] for row in found) == {
        rule: sum(counts.values()) for rule, counts in rules.items()
    }
    # The groups of the page's causes, of Markdown's table and of the workbook's are the same.
    causes = re.search(r'<h3 id="first">.*?</table>', read.page, re.DOTALL)
    shown = {
        text(rule): (text(counts), number(text(results)))
        for rule, counts, results in re.findall(
            r'<tr><td><a [^>]*>(.*?)</a>.*?<small>(.*?)</small><td class="n"[^>]*>(.*?)<td',
            causes[0] if causes else "",
        )
    }
    assert set(shown) == set(list(listed)[:20])
    tables = {
        rule: (counts, number(results))
        for rule, counts, results in re.findall(
            r"^\| \S+ \w+ \| `(\w+) [^`]*` \| (.*?) \| ([\d,]+) \|", read.markdown, re.MULTILINE
        )
    }
    for rule, (counts, results) in shown.items():
        row = listed[rule]
        told = "; ".join(filter(None, (row["Findings"], row["Follow from it"])))
        assert counts == told == tables[rule][0]
        assert results == row["Results"] == tables[rule][1]
    assert +sum((in_words(counts) for counts, _ in tables.values()), Counter()) == +summed
    # The terminal has a section, or a line, for each of the same groups.
    section = r"^(?:  )?(?:error|warning|note) (\w+) \S+  \(?(.*)"
    lines = dict(re.findall(section, read.terminal, re.MULTILINE))
    for rule, (counts, results) in tables.items():
        if rule in lines:
            assert in_words(lines[rule]) == in_words(counts)
            said = re.search(r"on ([\d,]+) result", lines[rule])
            assert said is None or number(said[1]) == results
    left = map(number, re.findall(r"and ([\d,]+) more rule", read.terminal))
    assert len(lines) + sum(left) == len(tables)


def _numbers(report: Report) -> list[int]:
    s = report.summary
    return [s.errors, s.warnings, s.notes, s.waived]


def test_invalid_results(report: Report) -> None:
    read = Read(report)
    invalid = report.summary.invalid
    rows = read.sheet("invalid results")
    assert len(rows) == invalid
    listed = re.search(r'<h3 id="invalid">.*?</table>', read.page, re.DOTALL)
    shown = re.findall(r"<tr><td><a .*?(?=<tr>|</tbody>)", listed[0] if listed else "")
    assert len(shown) == min(invalid, 20)
    for line, row in zip(shown, rows, strict=False):
        more = re.search(r"and ([\d,]+) more error", line)
        assert (number(more[1]) if more else 0) == row["More errors"]
        assert row["Rule"] is None or f"<td>{row['Rule']} " in line
    heads = re.findall(r"<summary>Invalid results \(([\d,]+)\)", read.markdown)
    assert [number(head) for head in heads] == ([invalid] if invalid else [])
    heads = re.findall(r"^Invalid results \(([\d,]+)\)", read.terminal, re.MULTILINE)
    assert heads == [] or number(heads[0]) == invalid
    failed = re.findall(r"INVALID", read.terminal)
    assert len(heads) == 1 or len(failed) == invalid or len(report.results) > 50


def test_a_submitters_numbers(report: Report) -> None:
    """In the page, in the terminal's table, in the index and in the submitter's own report."""
    read = Read(report)
    made = {part.submitter: part for part in split.parts(report)}
    terminal = {
        name.strip(): [number(cell) for cell in cells.split()]
        for name, cells in re.findall(
            r"^  (\S.{0,40}?)((?: +[\d,]+){5})$", read.terminal, re.MULTILINE
        )
    }
    index = split.index_html(report, list(made.values()), [".html"])
    indexed = {
        text(row[1]): [number(text(cell)) for cell in re.split(r"<td[^>]*>", row[2])[1:-1]]
        for row in re.finditer(r'<th scope="row">(.*?)</th>(.*?)</tr>', index)
    }
    assert set(indexed) == set(made)
    for tally in arrange.tallies(report):
        if tally.name not in made:
            continue
        own = made[tally.name].report.summary
        counts = [own.valid, own.invalid, own.errors, own.warnings, own.notes]
        assert counts == [tally.valid, tally.invalid, tally.error, tally.warning, tally.note]
        assert terminal.get(tally.name, counts) == counts
        assert indexed[tally.name][:5] == [own.results, *counts[1:]]
        row = re.search(
            rf'<tr[^>]*><th scope="row">(?:<a [^>]*>)?{re.escape(html.escape(tally.name))}'
            r"(?:</a>)?(?=<)(.*?)(?=<tr|</tbody>)",
            read.section("overview"),
            re.DOTALL,
        )
        if row:
            # A column of zeros is left out.
            heads = re.findall(r"<thead>.*?</thead>", read.section("overview").split("tally", 1)[1])
            named = [text(head) for head in re.findall(r'class="n">(\w+)', heads[0])]
            cells = [number(text(cell)) for cell in re.split(r"<td[^>]*>", row[1])[1:]]
            shown = dict(zip(named, cells, strict=True))
            wanted = dict(zip(("Valid", "Invalid", "Errors", "Warnings"), counts, strict=False))
            assert {name: shown.get(name, 0) for name in wanted} == wanted
    if len(report.results) > 50:
        assert len(terminal) > 1


def test_what_changed(report: Report) -> None:
    told = report.baseline
    if told is None:
        assert "Since " not in str(reports.render(report, "terminal"))
        return
    read = Read(report)
    headline = re.search(r'<h3 id="since">(.*?)</h3>', read.page)
    assert headline
    line = text(headline[1])
    for place in (read.terminal, read.markdown, read.overview()["Since the baseline"]):
        assert line in place
    assert line in {p.get("value") for p in read.junit.iter("property")}
    assert f": {told.new:,} new" in line
    assert f" {len(told.gone):,} gone" in line
    assert f" {told.unchanged:,} unchanged" in line
    # Marks, rows and states are as many.
    states = Counter(row["Baseline"] for row in read.sheet("findings"))
    assert states == +Counter(new=told.new, gone=len(told.gone), unchanged=told.unchanged)
    sarif = Counter(one["baselineState"] for one in read.sarif["results"])
    assert sarif == +Counter(new=told.new, absent=len(told.gone), unchanged=told.unchanged)
    rows = re.search(r"<tbody>.*</tbody>", read.section("findings"), re.DOTALL)
    assert (rows[0] if rows else "").count('<b class="new">new</b>') == told.new
    # Each part states its own share, and the index states it too.
    made = split.parts(report)
    index = split.index_markdown(report, made, [".md"])
    for part in made:
        own = part.report.baseline
        assert own is not None
        assert own.new + own.unchanged == len(part.report.findings)
        assert str(reports.render(part.report, "terminal")).count(f": {own.new:,} new") == 1
        assert f" {own.new:,} | {len(own.gone):,} | [md]({part.stem}.md)" in index
