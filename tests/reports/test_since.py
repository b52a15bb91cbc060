"""A report against an earlier one: what is new, gone and unchanged, in each format that shows it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest

import reports
from reports.since import Since
from schemas.report import Finding, Report
from tests.reports.samples import RULES, later, report, result, varied

OLD, NEW = varied(), later()


def since() -> Since:
    return Since("old.json", OLD, NEW)


def shown(format: str, **options: object) -> str:
    made = reports.render(NEW, format, since=since(), **options)
    return made if isinstance(made, str) else made.decode()


def test_every_finding_is_new_or_unchanged() -> None:
    found = since()
    assert len(found.new) + found.unchanged == len(NEW.findings)
    assert len(OLD.findings) - len(found.gone) == found.unchanged
    assert [finding.path for finding in found.new] == ["closed/new/path"]


@pytest.mark.parametrize("format", ["terminal", "markdown"])
def test_it_comes_first(format: str) -> None:
    text = shown(format)
    first = text.index("Since old")
    assert first < text.index("P104")
    assert first < text.index("P100" if format == "json" else "Findings")
    assert "invalid before, valid now" in text


def test_sarif_states_each_and_keeps_what_is_gone() -> None:
    (run,) = json.loads(shown("sarif"))["runs"]
    states = [one["baselineState"] for one in run["results"]]
    found = since()
    assert states.count("new") == len(found.new)
    assert states.count("absent") == len(found.gone) > 0
    assert states.count("unchanged") == found.unchanged


def test_junit_and_annotations_mark_what_is_new() -> None:
    suites = ElementTree.fromstring(shown("junit"))
    counts = {p.get("value") for p in suites.iter("property") if p.get("name") == "since"}
    assert counts == {since().headline}
    text = "".join(suites.itertext())
    assert text.count("new error P104 closed/new/path") == 1
    assert "title=new%3A P104" in shown("github")


def places(count: int) -> Report:
    findings = [Finding("P104", "n", "error", "m", f"closed/{n:03}") for n in range(count)]
    return report([result()], findings, rules=RULES)


@pytest.mark.parametrize("format", ["terminal", "markdown"])
def test_a_new_finding_is_never_only_counted(format: str) -> None:
    old, new = places(60), places(61)
    made = str(reports.render(new, format, since=Since("old.json", old, new)))
    section = made[made.index("P104", made.index("closed/060") + 1) :]
    assert "closed/060" in section
    assert "closed/059" not in section


def test_nothing_changed() -> None:
    again = Since("old.json", OLD, varied())
    assert again.changes() == []
    assert again.headline == f"Since old.json: 0 new, 0 gone, {len(OLD.findings)} unchanged"
