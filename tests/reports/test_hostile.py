"""A submission full of traps is harmless in every format."""

from __future__ import annotations

import csv
import html.parser
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import reports
from reports import diff
from schemas import report as schema
from tests.reports import samples

TEXTS = pytest.mark.parametrize("text", samples.HOSTILE, ids=range(len(samples.HOSTILE)))

# What moves a cursor, starts an escape sequence or turns text around, C1 included.
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def render(text: str, name: str) -> str:
    rendered = reports.render(samples.hostile(text), name)
    return rendered.decode("utf-8") if isinstance(rendered, bytes) else rendered


@TEXTS
@pytest.mark.parametrize("name", [name for name in reports.FORMATS if name != "xlsx"])
def test_no_unseen_characters(name: str, text: str) -> None:
    assert not UNSEEN.search(render(text, name))


@TEXTS
def test_text_formats_stay_small(text: str) -> None:
    """A megabyte in every field makes no report of many megabytes for people to open."""
    for name in ("terminal", "html", "markdown", "github", "junit"):
        assert len(render(text, name)) < 400_000, name


@TEXTS
@pytest.mark.parametrize("width", [60, 100, 200])
def test_terminal_keeps_its_width(width: int, text: str) -> None:
    from rich.cells import cell_len

    shown = reports.render(samples.hostile(text), "terminal", width=width)
    assert isinstance(shown, str)
    assert max(map(cell_len, shown.splitlines())) <= width


def test_terminal_colour_is_its_own() -> None:
    """With colour on, the only escape sequences are styles."""
    text = reports.render(samples.hostile(samples.HOSTILE[4]), "terminal", colour=True)
    assert isinstance(text, str)
    assert "\x1b" not in re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert not re.search(r"\x1b\]", text)


class _Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


# An anchor, and after it the filters of a table: nothing that a browser reads as anything else.
ADDRESS = (
    r"#[A-Za-z0-9._/-]+(\?[a-z]-[a-z]+=[A-Za-z0-9._%+*-]*(&[a-z]-[a-z]+=[A-Za-z0-9._%+*-]*)*)?"
)


# The elements of a page about harmless text: what hostile text may not add to.
def _elements(text: str) -> list[tuple[str, tuple[str, ...]]]:
    parser = _Tags()
    parser.feed(render(text, "html"))
    return [(tag, tuple(sorted(attrs))) for tag, attrs in parser.tags]


@TEXTS
def test_html_has_only_its_own_elements(text: str) -> None:
    made = set(_elements(text))
    usual = set(_elements("plain")) | set(_elements("90.5"))
    assert made <= usual
    parser = _Tags()
    parser.feed(render(text, "html"))
    for tag, attrs in parser.tags:
        assert tag not in ("img", "iframe", "object", "embed", "link", "base")
        assert not any(name.startswith("on") for name in attrs)
        for name in ("href", "src", "action", "xlink:href"):
            value = attrs.get(name)
            assert value is None or re.fullmatch(ADDRESS, value), (tag, attrs)
    assert sum(tag == "script" for tag, _ in parser.tags) == 1
    assert sum(tag == "style" for tag, _ in parser.tags) == 1


@TEXTS
def test_csv_has_no_formula(text: str) -> None:
    rows = list(csv.reader(io.StringIO(render(text, "csv"), newline="")))
    assert {len(row) for row in rows} == {31}
    assert len(rows) == 3
    for row in rows[1:]:
        for cell in row:
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r")), cell[:80]
            assert len(cell) < 32_767


@TEXTS
def test_workbook_has_no_formula(text: str) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    made = reports.render(samples.hostile(text), "xlsx")
    assert isinstance(made, bytes)
    for sheet in openpyxl.load_workbook(io.BytesIO(made)):
        for row in sheet.iter_rows():
            for cell in row:
                assert cell.data_type in ("s", "n"), cell.value
                assert cell.hyperlink is None
                if cell.data_type == "s":
                    assert not str(cell.value).startswith(("=", "+", "-", "@")), cell.value


@TEXTS
def test_github_has_one_command_a_line(text: str) -> None:
    for line in render(text, "github").splitlines():
        assert re.match(r"::(error|warning|notice) (file=|title=)|assay: ", line), line[:100]
        # Properties hold no bare comma or colon but those of the command itself.
        head = line.split("::")[1]
        assert all("=" in part for part in head.split(" ", 1)[1].split(",")), line[:100]


@TEXTS
def test_markdown_has_no_foreign_markup(text: str) -> None:
    made = render(text, "markdown")
    assert len(made) <= 65_000
    outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", made)
    tags = set(re.findall(r"<(/?[a-zA-Z!][^>]*)>", outside))
    assert tags <= {"details", "/details", "summary", "/summary", "span", "/span"}
    assert not re.search(r"@\w", outside)
    assert not re.search(r"(?<!\\)\]\(", outside)
    assert not re.search(r"(https?|ftp)://|www\.", outside)
    assert made.count("<details>") == made.count("</details>")
    # Every row of a table has as many cells as its head.
    for table in re.findall(r"(?:^\|.*\n)+", made, re.MULTILINE):
        bars = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
        assert len(bars) == 1, table[:300]


@TEXTS
def test_xml_is_well_formed(text: str) -> None:
    root = ET.fromstring(render(text, "junit"))
    assert {element.tag for element in root.iter()} <= {
        "testsuites",
        "testsuite",
        "testcase",
        "failure",
        "system-out",
    }


@TEXTS
def test_json_reads_back(text: str) -> None:
    made = reports.render(samples.hostile(text), "json")
    assert isinstance(made, bytes)
    read = schema.decode(made)
    expected = text.encode("utf-8", "backslashreplace").decode("utf-8")
    assert read.results[0].system == expected
    assert reports.render(read, "json") == made


@TEXTS
def test_sarif_addresses_stay_relative(text: str) -> None:
    for run in json.loads(render(text, "sarif"))["runs"]:
        for result in run["results"]:
            uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
            assert re.fullmatch(r"[A-Za-z0-9_.~%/-]+", uri)
            assert not uri.startswith("/")


@TEXTS
def test_diff_is_plain_text(text: str) -> None:
    changes = diff.diff(samples.varied(), samples.hostile(text))
    assert not UNSEEN.search(diff.to_text(changes))
    assert not UNSEEN.search(diff.to_json(changes).decode("utf-8"))
    json.loads(diff.to_json(changes))


def test_sources_hold_no_unseen_characters() -> None:
    """The module that spells them out must itself be readable."""
    for file in Path(reports.__file__).parent.rglob("*.py"):
        assert not UNSEEN.search(file.read_text(encoding="utf-8")), file
