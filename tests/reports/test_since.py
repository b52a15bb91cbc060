"""A report against an earlier one: what is new, gone and unchanged, in every format."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree

import msgspec
import pytest

import reports
from reports import split
from reports.since import Since, compared
from schemas.report import Baseline, Finding, Report, decode
from tests.reports.samples import RULES, later, report, result, varied

OLD, NEW = varied(), later()
NOW = compared("old.json", OLD, NEW)


def told(report: Report = NOW) -> Baseline:
    assert report.baseline is not None
    return report.baseline


def headline(report: Report = NOW) -> str:
    since = Since.of(report)
    assert since is not None
    return since.headline


def shown(format: str, report: Report = NOW) -> str:
    made = reports.render(report, format)
    return made if isinstance(made, str) else made.decode()


def test_every_finding_is_new_or_unchanged() -> None:
    states = [finding.baseline for finding in NOW.findings]
    assert states.count("new") == told().new
    assert states.count("unchanged") == told().unchanged
    assert told().new + told().unchanged == len(NEW.findings)
    assert len(OLD.findings) - len(told().gone) == told().unchanged
    assert [f.path for f in NOW.findings if f.baseline == "new"] == ["closed/new/path"]


def test_every_result_is_new_changed_or_unchanged() -> None:
    states = {r.scenario + r.directory: r.baseline for r in NOW.results}
    assert states == {
        "Serverllama2-70b-99": "changed",
        "Offlinellama2-70b-99": "changed",
        "Interactivellama2-70b-99": "changed",
        "singlestreamresnet50": "unchanged",
        "Offlinewhisper": "new",
    }
    assert [r.directory for r in told().results_gone] == ["own-model"]


def test_the_json_report_holds_all_of_it() -> None:
    """A report that was saved with its comparison shows the same again in every other format."""
    saved = decode(shown("json").encode())
    assert saved == NOW
    for format in reports.FORMATS:
        assert reports.render(saved, format) == reports.render(NOW, format)
    assert compared("again.json", saved, NEW).baseline == msgspec.structs.replace(
        told(), name="again.json", new=0, unchanged=len(NEW.findings),
        gone=[], verdicts=[], results_new=[], results_gone=[], waived=[],
    )  # fmt: skip


@pytest.mark.parametrize("format", ["terminal", "markdown"])
def test_it_comes_first(format: str) -> None:
    text = shown(format)
    first = text.index("Since old")
    assert first < text.index("P104")
    assert first < text.index("Findings")
    assert "invalid before, valid now" in text


def test_the_page_leads_with_it_and_filters_by_it() -> None:
    page = shown("html")
    assert page.index(headline()) < page.index('<dl class="tiles">')
    assert "invalid before, valid now" in page
    assert '<a href="#findings?f-since=new">' in page
    (choices,) = re.findall(r'<select name="since">(.*?)</select>', page)
    assert re.findall(r"<option>(\w+)", choices) == ["new", "unchanged"]
    assert page.count('<b class="new">new</b>') == 1 + told().new
    assert "Since old" not in shown("html", NEW)
    assert 'name="since"' not in shown("html", NEW)


def test_csv_has_a_column_more_and_what_is_gone() -> None:
    plain = list(csv.reader(io.StringIO(shown("csv", NEW))))
    rows = list(csv.reader(io.StringIO(shown("csv"))))
    assert rows[0] == [*plain[0], "Baseline"]
    kept = [row for row in rows[1:] if row[-1] != "gone"]
    assert [row[:-1] for row in kept] == plain[1:]
    # The mended result had no row before: it is new in this table.
    at = {name: rows[0].index(name) for name in ("Scenario", "Model", "Baseline")}
    states = [(row[at["Model"]], row[at["Scenario"]], row[at["Baseline"]]) for row in rows[1:]]
    assert ("llama2-70b-99", "Interactive", "new") in states
    assert ("whisper", "Offline", "new") in states
    assert ("llama2-70b-99", "Server", "changed") in states
    assert [row[-1] for row in rows].count("gone") == 0  # own-model was not valid
    back = list(csv.reader(io.StringIO(shown("csv", compared("new.json", NEW, OLD)))))
    gone = [row for row in back if row[-1] == "gone"]
    assert [(row[at["Model"]], row[at["Scenario"]]) for row in gone] == [
        ("llama2-70b-99", "Interactive"),
        ("whisper", "Offline"),
    ]


def test_the_workbook_marks_each_finding_and_lists_what_is_gone() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(io.BytesIO(reports.render(NOW, "xlsx")))  # type: ignore[arg-type]
    overview = dict(row[:2] for row in book["overview"].values)
    assert overview["Since the baseline"] == headline()
    states = [row[-1] for row in book["findings"].iter_rows(min_row=2, values_only=True)]
    assert states.count("new") == told().new
    assert states.count("unchanged") == told().unchanged
    assert states.count("gone") == len(told().gone) > 0


def test_sarif_states_each_and_keeps_what_is_gone() -> None:
    (run,) = json.loads(shown("sarif"))["runs"]
    states = [one["baselineState"] for one in run["results"]]
    assert states.count("new") == told().new
    assert states.count("absent") == len(told().gone) > 0
    assert states.count("unchanged") == told().unchanged


def test_junit_and_annotations_mark_what_is_new() -> None:
    suites = ElementTree.fromstring(shown("junit"))
    counts = {p.get("value") for p in suites.iter("property") if p.get("name") == "since"}
    assert counts == {headline()}
    text = "".join(suites.itertext())
    assert text.count("new error P104 closed/new/path") == 1
    assert "title=new%3A P104" in shown("github")


def test_each_submitters_part_has_its_own_share() -> None:
    made = split.parts(NOW)
    assert (
        sum(told(part.report).new for part in made)
        + sum(finding.baseline == "new" for finding in split.tree_findings(NOW))
        == told().new
    )
    for part in made:
        found = part.report.findings
        assert told(part.report).new + told(part.report).unchanged == len(found)
        assert {r.submitter for r in told(part.report).results_gone} <= {part.submitter}
    # Who has nothing left has a report of what is gone.
    alone = compared("old.json", OLD, report([], []))
    assert {part.submitter for part in split.parts(alone)} == {"Example", "Ökolab"}
    (okolab,) = (part for part in split.parts(alone) if part.submitter == "Ökolab")
    assert [r.directory for r in told(okolab.report).results_gone] == ["resnet50"]


def places(count: int) -> Report:
    findings = [Finding("P104", "n", "error", "m", f"closed/{n:03}") for n in range(count)]
    return report([result()], findings, rules=RULES)


@pytest.mark.parametrize("format", ["terminal", "markdown"])
def test_a_new_finding_is_never_only_counted(format: str) -> None:
    made = shown(format, compared("old.json", places(60), places(61)))
    section = made[made.index("P104", made.index("closed/060") + 1) :]
    assert "closed/060" in section
    assert "closed/059" not in section


def test_nothing_changed() -> None:
    again = compared("old.json", OLD, varied())
    since = Since.of(again)
    assert since is not None
    assert since.changes() == []
    assert since.headline == f"Since old.json: 0 new, 0 gone, {len(OLD.findings)} unchanged"
