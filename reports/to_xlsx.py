"""The final-results workbook: a sheet per category and division, and one more for power.

A sheet has one row per system (per system and model in the open division) and one column per
benchmark, scenario and unit. Every valid result lands in exactly one cell of each sheet that it
belongs to; two for the same cell are an error that names both, and the cells are counted against
the results before the workbook is handed out.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from reports import ReportError, arrange, figures, links, to_csv
from reports.escape import one_line, spreadsheet_cell
from reports.since import Since
from schemas.load import UnknownRound, load_round
from schemas.report import Finding, Metric, Report, Result
from schemas.round import Round
from schemas.writing import write_file

_CATEGORIES = ("datacenter", "edge")
_DIVISIONS = ("closed", "open", "network")
_SCENARIOS = ("SingleStream", "MultiStream", "Server", "Interactive", "Offline")

_HEADS = (
    "ID",
    "Unique ID (e.g. for Audit)",
    "ColorKey",
    "PrivateID",
    "Submitter",
    "Availability",
    "System",
    "Nodes",
    "Processor",
    "p#",
    "Accelerator",
    "a#",
    "Total Accelerators",
    "Software",
    "Notes",
)
_OPEN_HEADS = ("UsedModel", "Accuracy")
_LINK_HEADS = ("Details", "Code")
_HIDDEN = ("Unique ID (e.g. for Audit)", "ColorKey")
_LEVELS = ("Result", "Model", "Scenario", "Units")
_WIDTHS = {"System": 42, "Processor": 28, "Accelerator": 28, "Software": 36, "Notes": 36}


def render(
    report: Report,
    *,
    ids_file: str | os.PathLike[str] | None = None,
    repository: str | None = None,
    findings: bool = True,
) -> bytes:
    """The workbook as the bytes of an .xlsx file, the same for the same report.

    ``ids_file`` is a JSON file of the numbers that systems had in earlier workbooks; it is read,
    and written back with those of new systems, so that an ID never changes. ``repository`` is the
    address of the tree on the web, for example ``https://github.com/ORG/REPO/tree/main``; with it
    the columns Details and Code are links. ``findings`` adds sheets of what to fix first, of invalid
    results and of all findings; the round's final report has none.
    """
    try:
        import xlsxwriter
    except ImportError as error:
        raise ReportError(
            'the xlsx format needs the package xlsxwriter: pip install "assay[xlsx]"'
        ) from error
    repository = links.repository(repository)

    sheets = _sheets(report)
    numbers = _numbers(sheets, Path(ids_file) if ids_file is not None else None)
    out = io.BytesIO()
    options = {
        "in_memory": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
    }
    with xlsxwriter.Workbook(out, options) as book:
        # The time of writing is left out, so that equal reports make equal files.
        book.set_properties({"title": "Results", "created": datetime(2000, 1, 1)})
        writer = _Writer(book, numbers, (report.round or "").removeprefix("v"), repository)
        lists = _Lists(book, report)
        if findings:
            lists.before()
        for sheet in sheets:
            writer.write(sheet)
        if not sheets:
            book.add_worksheet("no valid result")
        if findings:
            lists.findings()
    expected = sum(len(row.cells) for sheet in sheets for row in sheet.rows)
    if writer.cells != expected:
        raise ReportError(f"{expected} results were to be written, {writer.cells} were")
    return out.getvalue()


_OVERVIEW_HEADS = {"What": 34, "": 120}
_CAUSE_HEADS = {
    "Severity": 10, "Rule": 8, "Name": 28, "Findings": 34, "Follow from it": 34, "Results": 10,
    "Submitters": 36, "First place": 70, "Message": 90, "Fix": 70,
}  # fmt: skip
_INVALID_HEADS = {
    "Division": 10, "Submitter": 18, "System": 36, "Benchmark": 22, "Scenario": 14, "Rule": 8,
    "Why": 90, "More errors": 12, "Path": 70,
}  # fmt: skip
_FINDING_HEADS = {
    "Severity": 10, "Rule": 8, "Name": 28, "Submitter": 18, "System": 36, "Benchmark": 20, "Scenario": 14,
    "Place": 70, "Line": 8, "Message": 90, "Fix": 70, "Places": 8, "Results": 8, "Waived": 24,
    "ID": 20, "Follows from": 20, "Baseline": 12,
}  # fmt: skip
_Cells = Sequence[str | int | None]


class _Lists:
    """The sheets that say what to fix: the counts, causes, invalid results, then every finding.

    Texts are never formulas or links.
    """

    def __init__(self, book: Any, report: Report) -> None:
        self._book = book
        self._head = book.add_format({"bold": True, "bottom": 1})
        self._report = report
        self._folded = arrange.Folded(report.findings)
        self._since = Since.of(report)

    def before(self) -> None:
        """The sheets that come first."""
        report, s = self._report, self._report.summary
        told: list[_Cells] = [
            ("Tree", report.tree),
            ("Round", report.round or "unknown"),
            ("Verdict", arrange.verdict_text(report)),
            ("Results", s.results), ("Valid", s.valid), ("Invalid", s.invalid),
            ("Errors", s.errors), ("Warnings", s.warnings), ("Notes", s.notes), ("Waived", s.waived),
        ]  # fmt: skip
        if self._since is not None:
            told.append(("Since the baseline", self._since.headline))
            told += [
                (each.word, f"{each.text} ({each.place})" if each.place else each.text)
                for each in self._since.changes(None)
            ]
        told += [("Not checked", text) for text in arrange.unapplied_words(report)]
        self._sheet("overview", _OVERVIEW_HEADS, told, filtered=False)
        groups = arrange.causes(arrange.by_rule(report, self._folded))
        if groups:
            self._sheet("fix first", _CAUSE_HEADS, [_cause(group) for group in groups])
        attached = arrange.Attached(report)
        invalid = [r for r in report.results if r.status == "invalid"]
        if invalid:
            rows = [self._invalid(result, attached.of(result)) for result in invalid]
            self._sheet("invalid results", _INVALID_HEADS, rows)

    def findings(self) -> None:
        """One row a finding, the worst first; what follows from one is folded below it."""
        ordered = self._folded.in_order(self._report.findings)
        rows: list[_Cells] = [_finding(one) for one in ordered]
        levels = [int(self._folded.cause(one) is not None) for one in ordered]
        gone = self._report.baseline.gone if self._report.baseline is not None else []
        rows += [(*_finding(one)[:-1], "gone") for one in gone]
        if rows:
            self._sheet("findings", _FINDING_HEADS, rows, levels)

    def _invalid(self, result: Result, found: list[Finding]) -> _Cells:
        first, more = self._folded.why(found)
        return (
            result.division, result.submitter, result.system, arrange.benchmark_of(result),
            result.scenario, first.rule if first else None, first.message if first else None, more,
            result.path,
        )  # fmt: skip

    def _sheet(
        self,
        name: str,
        heads: dict[str, int],
        rows: Sequence[_Cells],
        levels: Sequence[int] = (),
        *,
        filtered: bool = True,
    ) -> None:
        page = self._book.add_worksheet(name)
        for column, (text, width) in enumerate(heads.items()):
            page.set_column(column, column, width)
            page.write_string(0, column, text, self._head)
        for row, cells in enumerate(rows, 1):
            for column, value in enumerate(cells):
                if isinstance(value, int):
                    page.write_number(row, column, value)
                elif value:
                    page.write_string(row, column, spreadsheet_cell(value))
        if any(levels):
            page.outline_settings(True, False, True, False)
            for row, level in enumerate(levels, 1):
                follows = row < len(levels) and levels[row] > level
                if level or follows:
                    options = {"level": level, "hidden": bool(level), "collapsed": follows}
                    page.set_row(row, None, None, options)
        page.freeze_panes(1, 0)
        if filtered:
            page.autofilter(0, 0, max(1, len(rows)), len(heads) - 1)


def _cause(group: arrange.RuleGroup) -> _Cells:
    first = min(group.standing, key=lambda f: arrange.rank(f.severity))
    return (
        group.severity, group.rule, group.name, group.counts, group.folded, len(group.results),
        ", ".join(group.submitters), arrange.place(first), first.message,
        group.fixes[0] if group.fixes else None,
    )  # fmt: skip


def _finding(one: Finding) -> _Cells:
    about = one.subject
    return (
        one.severity, one.rule, one.name, about.submitter, about.system, about.benchmark,
        about.scenario, one.path, one.line, one.message, one.fix, one.count, len(one.results),
        one.waived.reason if one.waived else None, one.id, one.follows, one.baseline,
    )  # fmt: skip


Column = tuple[str, str, str]  # model, scenario, units


class _Row:
    def __init__(self, unique: str, result: Result) -> None:
        self.unique = unique
        self.result = result
        self.cells: dict[Column, tuple[float, str]] = {}
        self.accuracies: list[str] = []

    @property
    def order(self) -> tuple[str, str, str]:
        availability = self.result.system_description.get("status")
        return (str(availability or ""), self.result.submitter, self.unique)


class _Sheet:
    def __init__(self, name: str, division: str) -> None:
        self.name = name
        self.division = division
        self.by_unique: dict[str, _Row] = {}

    @property
    def rows(self) -> list[_Row]:
        return sorted(self.by_unique.values(), key=lambda row: row.order)

    def columns(self) -> list[Column]:
        found = {column for row in self.by_unique.values() for column in row.cells}
        return sorted(found, key=lambda c: (c[0], _scenario_rank(c[1]), c[1], c[2]))

    def add(self, result: Result, metric: Metric, category: str) -> None:
        unique = _unique(result, category)
        row = self.by_unique.setdefault(unique, _Row(unique, result))
        column = (arrange.benchmark_of(result), _scenario(result.scenario), metric.unit)
        if column in row.cells:
            where = one_line(", ".join((self.name, result.submitter, result.system, *column)))
            raise ReportError(
                f"two results for one cell of the workbook ({where}): "
                f"{one_line(row.cells[column][1])} and {one_line(result.path)}; "
                "remove or rename one of them"
            )
        row.cells[column] = (metric.value, result.path)
        text = to_csv.accuracy_text(result.accuracy)
        if text and text not in row.accuracies:
            row.accuracies.append(text)


def _sheets(report: Report) -> list[_Sheet]:
    """The sheets in their fixed order, each with its rows."""
    sheets: dict[tuple[int, int, bool], _Sheet] = {}
    try:
        round = load_round(report.round or "")
    except UnknownRound:  # several rounds, or one from elsewhere
        round = None

    def sheet(category: str, division: str, power: bool) -> _Sheet:
        order = ((*_DIVISIONS, "other").index(division), (*_CATEGORIES, "other").index(category))
        name = f"{category} - {division}{' - power' if power else ''}"
        return sheets.setdefault((*order, power), _Sheet(name, division))

    placed = wanted = 0
    for result in report.results:
        if result.status != "valid" or result.metric is None:
            continue
        wanted += 1
        # A sheet's name must not come from a submission: what is not a division is gathered apart.
        division = result.division if result.division in _DIVISIONS else "other"
        categories = _categories(result, round)
        placed += bool(categories)
        for category in categories:
            sheet(category, division, False).add(result, result.metric, category)
            if result.power is not None:
                power = sheet(category, division, True)
                power.add(result, result.metric, category)
                power.add(result, result.power, category)
    if placed != wanted:
        raise ReportError(f"{wanted - placed} valid results belong to no sheet")
    return [sheets[key] for key in sorted(sheets)]


def _categories(result: Result, round: Round | None) -> list[str]:
    """The categories of a result: its own, else those of its system ("datacenter,edge").

    Of both, those in which the round has the scenario: an edge sheet has no Server results.
    """
    told = result.category or result.system_description.get("system_type") or ""
    parts = [part.strip().casefold() for part in str(told)[:200].split(",")]
    named = [name for name in _CATEGORIES if name in parts]
    benchmark = round.benchmarks.get(result.benchmark or "") if round is not None else None
    if benchmark is not None:
        demands = {name: benchmark.categories.get(name) for name in named}
        scenario = _scenario(result.scenario)
        fitting = [name for name, of in demands.items() if of and scenario in of.allowed]
        named = fitting or named
    return named or ["other"]


def _unique(result: Result, category: str) -> str:
    parts = [category, result.division, result.submitter, result.system]
    if result.division == "open":
        parts.append(result.directory)
    return "/".join(parts)


def _scenario(name: str) -> str:
    return next((known for known in _SCENARIOS if known.casefold() == name.casefold()), name)


def _scenario_rank(name: str) -> int:
    return _SCENARIOS.index(name) if name in _SCENARIOS else len(_SCENARIOS)


def _numbers(sheets: Iterable[_Sheet], file: Path | None) -> dict[str, int]:
    """The number of each system: the earlier one where the file has it, else the next free."""
    known: dict[str, int] = {}
    if file is not None and file.exists():
        try:
            read = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ReportError(f"{file}: the ids file cannot be read: {error}") from error
        if not isinstance(read, dict) or not all(type(n) is int for n in read.values()):
            raise ReportError(f"{file}: the ids file must be one JSON object of numbers")
        if len(set(read.values())) != len(read):
            raise ReportError(f"{file}: the ids file gives one number to two systems")
        known = cast("dict[str, int]", read)
    new = dict.fromkeys(row.unique for sheet in sheets for row in sheet.rows)
    following = max(known.values(), default=0) + 1
    numbers = dict(known)
    for unique in new:
        if unique not in numbers:
            numbers[unique] = following
            following += 1
    if file is not None and numbers != known:
        try:
            write_file(file, f"{json.dumps(numbers, indent=1)}\n".encode())
        except OSError as error:
            raise ReportError(
                f"{file}: the ids file cannot be written: {error.strerror}"
            ) from error
    return numbers


class _Writer:
    """Writes sheets into a workbook and counts the result cells."""

    def __init__(
        self, book: Any, numbers: dict[str, int], version: str, repository: str | None
    ) -> None:
        self._book = book
        self._numbers = numbers
        self._version = version
        self._repository = repository
        self.cells = 0
        head = {"bold": True, "align": "center", "bottom": 1}
        self._head = book.add_format(head)
        self._left_head = book.add_format(head | {"align": "left"})
        band = {"bg_color": "#efefef"}
        # A different ground for each submitter in turn, as in the published workbooks.
        self._plain = [book.add_format({}), book.add_format(band)]
        number = {"num_format": "#,##0.000"}
        self._number = [book.add_format(number), book.add_format(number | band)]
        link = {"font_color": "#0b57b0", "underline": 1}
        self._link = [book.add_format(link), book.add_format(link | band)]

    def write(self, sheet: _Sheet) -> None:
        page = self._book.add_worksheet(sheet.name)
        heads = _HEADS + (_OPEN_HEADS if sheet.division == "open" else ()) + _LINK_HEADS
        columns = sheet.columns()
        first_row = len(_LEVELS)
        self._write_heads(page, heads, columns)
        band, last_key = 1, None
        for offset, row in enumerate(sheet.rows):
            at = first_row + offset
            cells = self._index(row)
            key = cells["ColorKey"]
            if key != last_key:
                band, last_key = 1 - band, key
            for column, head in enumerate(heads):
                self._write_cell(page, at, column, head, cells.get(head), row.result, band)
            for column, name in enumerate(columns, len(heads)):
                if name in row.cells:
                    self._write_result(page, at, column, row.cells[name][0], band)
                else:
                    page.write_blank(at, column, None, self._number[band])
        page.freeze_panes(first_row, heads.index("System") + 1)
        if sheet.rows:
            last = len(heads) + len(columns) - 1
            page.autofilter(first_row - 1, 0, first_row + len(sheet.rows) - 1, last)

    def _write_heads(self, page: Any, heads: tuple[str, ...], columns: list[Column]) -> None:
        for column, head in enumerate(heads):
            width = _WIDTHS.get(head, max(8, len(head) + 2))
            hidden = {"hidden": True} if head in _HIDDEN else {}
            page.set_column(column, column, width, None, hidden)
            page.write_string(len(_LEVELS) - 1, column, head, self._left_head)
        start = len(heads)
        if not columns:
            return
        page.set_column(start, start + len(columns) - 1, 16)
        levels = [("Result", *column) for column in columns]
        for level in range(len(_LEVELS)):
            at = 0
            while at < len(levels):
                end = at
                while end + 1 < len(levels) and level < len(_LEVELS) - 1:
                    if levels[end + 1][: level + 1] != levels[at][: level + 1]:
                        break
                    end += 1
                text = spreadsheet_cell(levels[at][level])
                if end > at:
                    page.merge_range(level, start + at, level, start + end, text, self._head)
                else:
                    page.write_string(level, start + at, text, self._head)
                at = end + 1

    def _index(self, row: _Row) -> dict[str, str | float | None]:
        """The cells that describe a row's system, by head."""
        result, told = row.result, row.result.system_description
        cells: dict[str, str | float | None] = {
            "ID": f"{self._version}-{self._numbers[row.unique]:04}",
            "Unique ID (e.g. for Audit)": row.unique,
            "ColorKey": f"{told.get('status') or ''}{result.submitter}",
            "Submitter": result.submitter,
            "System": told.get("system_name") or result.system,
            "Total Accelerators": arrange.accelerators(result) or None,
            "Notes": to_csv.notes(result),
            "UsedModel": result.directory,
            "Accuracy": " | ".join(row.accuracies),
        }
        for head, key in (
            ("PrivateID", "private_id"),
            ("Availability", "status"),
            ("Processor", "host_processor_model_name"),
            ("Accelerator", "accelerator_model_name"),
            ("Software", "framework"),
        ):
            cells[head] = None if told.get(key) is None else figures.shown(told[key])
        for head, key in (
            ("Nodes", "number_of_nodes"),
            ("p#", "host_processors_per_node"),
            ("a#", "accelerators_per_node"),
        ):
            value = figures.as_number(told.get(key))
            if value is None and told.get(key) is not None:
                cells[head] = figures.shown(told[key])
            else:
                cells[head] = value
        return cells

    def _write_cell(
        self, page: Any, row: int, column: int, head: str, value: Any, result: Result, band: int
    ) -> None:
        if head in _LINK_HEADS:
            self._write_link(page, row, column, head, result, band)
        elif value is None or value == "":
            page.write_blank(row, column, None, self._plain[band])
        elif isinstance(value, float):
            page.write_number(row, column, value, self._plain[band])
        else:
            text = spreadsheet_cell(figures.shown(value))
            page.write_string(row, column, text, self._plain[band])

    def _write_link(
        self, page: Any, row: int, column: int, head: str, result: Result, band: int
    ) -> None:
        parts = (result.division, result.submitter)
        path = "/".join((*parts, "results", result.system) if head == "Details" else parts)
        address = ""
        if self._repository is not None:
            safe = quote(path.encode("utf-8", "backslashreplace"), safe="/")
            address = f"{self._repository.rstrip('/')}/{safe}"
        # Excel refuses longer addresses; the path as text is then the better cell.
        if address and len(address) <= 2000:
            page.write_url(row, column, address, self._link[band], head.lower())
        else:
            page.write_string(row, column, spreadsheet_cell(path), self._plain[band])

    def _write_result(self, page: Any, row: int, column: int, value: float, band: int) -> None:
        if math.isfinite(value):
            page.write_number(row, column, value, self._number[band])
        else:
            page.write_string(row, column, figures.number(value), self._plain[band])
        self.cells += 1
