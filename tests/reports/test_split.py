"""A report for each submitter: nothing is lost, nothing of another is in it, names are safe."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

import reports
from assay.cli import main
from reports import arrange, split
from reports.to_html import _Page
from schemas.report import Finding, decode, encode
from tests.reports.samples import report, result, varied, whole_round


def test_each_result_and_finding_is_in_its_submitters_report() -> None:
    whole = whole_round(300)
    made = split.parts(whole)
    assert sum(part.report.summary.results for part in made) == len(whole.results)
    assert sum(part.report.summary.errors for part in made) == whole.summary.errors
    for part in made:
        assert {r.submitter for r in part.report.results} == {part.submitter}
        assert f"only {part.submitter}" in arrange.verdict_text(part.report)


def test_a_finding_of_two_submitters_is_in_both_and_one_of_the_tree_in_the_index() -> None:
    results = [result(submitter=name) for name in ("A", "B")]
    both = Finding("R301", "copies", "error", "m", "p")
    tree = Finding("S001", "root", "error", "no README", "x")
    plain = report(results, [])
    both = msgspec.structs.replace(both, results=tuple(r.key for r in plain.results))
    whole = msgspec.structs.replace(plain, findings=[both, tree])
    assert [part.report.findings for part in split.parts(whole)] == [[both], [both]]
    for made in (split.index_html, split.index_markdown):
        text = made(whole, split.parts(whole), [".html"])
        assert "no README" in text
        assert "A.html" in text


def test_names_are_safe_as_file_names() -> None:
    names = ["../up", "a/b", "Intel", "intel", "CON", "index", "<b>", "x" * 300, "ü", "."]
    stems = [part.stem for part in split.parts(report([result(submitter=n) for n in names], []))]
    assert len({stem.casefold() for stem in stems}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", stem) for stem in stems)
    assert not {"con", "index"} & {stem.casefold() for stem in stems}


def test_command_writes_each_format_and_an_index(tmp_path: Path) -> None:
    saved, out = tmp_path / "r.json", tmp_path / "out"
    saved.write_bytes(encode(varied()))
    options = ["--split", "submitter", "--output-dir", str(out), "--format", "json,html,markdown"]
    assert (
        main(["report", str(saved), *options, "--baseline", str(saved)]) == 2
    )  # the sample holds X003
    made = split.parts(varied())
    names = {f"{part.stem}{suffix}" for part in made for suffix in (".json", ".html", ".md")}
    assert {file.name for file in out.iterdir()} == names | {"index.html"}
    index = (out / "index.html").read_text()
    assert set(re.findall(r'href="([^"]+)"', index)) == names
    for part in made:
        read = decode((out / f"{part.stem}.json").read_bytes())
        assert read.baseline is not None
        assert read.baseline.unchanged == len(part.report.findings)
        assert [f.baseline for f in read.findings] == ["unchanged"] * len(part.report.findings)
        unmarked = [msgspec.structs.replace(f, baseline=None) for f in read.findings]
        assert unmarked == part.report.findings
        assert "0 new, 0 gone" in (out / f"{part.stem}.md").read_text()


@pytest.mark.parametrize(
    "options",
    [
        ["--split", "submitter"],
        ["--output-dir", "x"],
        ["--split", "submitter", "--output-dir", "x", "--format", "github"],
        ["--split", "submitter", "--output-dir", "x", "--output", "a.html"],
    ],
)
def test_what_does_not_belong_together(tmp_path: Path, options: list[str]) -> None:
    saved = tmp_path / "r.json"
    saved.write_bytes(encode(varied()))
    assert main(["report", str(saved), *options]) == 2


@pytest.mark.parametrize("mode", [["--explain", "r"], ["--select-random", "--seed", "1"]])
def test_only_a_whole_audit_is_split(
    tmp_path: Path, mode: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--split", "submitter", "--output-dir", str(tmp_path / "out")]
    assert main(["audit", str(tmp_path), *mode, *options]) == 2
    assert "--split belongs to a report of the whole audit" in capsys.readouterr().err


def test_a_round_on_two_screens() -> None:
    """With as much of everything as a round may have; each count is the HTML report's too."""
    whole = whole_round(1500)
    more = [
        Finding(f"P{n}", "rule", severity, "m " * 200, "p/" * 200)
        for n in range(200, 260)
        for severity in ("error", "warning")
    ]
    loose = [
        Finding(
            "D9",
            "system",
            "warning",
            "m",
            subject=msgspec.structs.replace(f.subject, system="gone"),
        )
        for f in whole.findings[:7]
    ]
    findings = [*whole.findings, *more, *loose]
    full = report(whole.results, findings, rules=whole.rules, not_checked=["x" * 400] * 30)
    for width in (60, 100):
        made = str(reports.render(full, "terminal", width=width))
        assert len(made.splitlines()) < 120
        assert max(map(len, made.splitlines())) <= width
        assert "SUMMARY: submission has errors" in made
    tallies = {t.name: t for t in arrange.tallies(full)}
    for shown in _Page(full, None).tallies["submitter"]:
        mine = tallies[shown.name]
        assert (mine.valid, mine.invalid, mine.error, mine.warning, mine.note) == (
            shown.valid,
            shown.invalid,
            shown.error,
            shown.warning,
            shown.note,
        )
    assert len(str(reports.render(full, "terminal", verbose=True)).splitlines()) > 1500


def test_markdown_names_every_invalid_result() -> None:
    whole = whole_round(1500)
    results = [msgspec.structs.replace(r, status="invalid") for r in whole.results[:700]]
    full = report([*results, *whole.results[700:]], whole.findings, rules=whole.rules)
    made = str(reports.render(full, "markdown"))
    assert len(made) <= 65_000
    for one in full.results:
        assert one.status == "valid" or f"`{one.system}`" in made


def test_junit_of_a_round_is_small() -> None:
    assert len(str(reports.render(whole_round(1500), "junit"))) < 3_000_000
