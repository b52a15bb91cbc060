"""`assay audit --explain`: every test of one result is shown, passed ones with their values too."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from assay.cli import main
from checker.audit.explain import UnknownResult, explain
from checker.engine import check
from checker.options import Options
from reports.explanation import to_html, to_text
from tests.conftest import Grow
from tests.corpus import corpus_root, corpus_rounds, unpacked

KEY = "closed/Acme/box1/resnet/Offline"


def test_passed_tests_are_shown_with_their_values(grow: Grow) -> None:
    tree = grow()
    found = explain(tree.root, KEY)
    # The tests' trees were not written by LoadGen: its seeds do not give their samples.
    report = check(tree.root, Options(jobs=1, audit=True, select=("R",)))
    audited = {f.rule for f in report.findings if KEY in f.results}
    assert {one.rule for one in found.tested if one.outcome == "finding"} == audited
    clock = next(one for one in found.tested if one.rule == "R103" and "run_1" in one.path)
    assert clock.outcome == "agrees"
    assert clock.values["result_samples_per_second"] > 0
    assert clock.lines["result_samples_per_second"] > 1
    server = next(one for one in found.tested if one.rule == "R105" and "run_1" in one.path)
    assert server.outcome == "not tested" and server.reason
    assert {one.rule[0] for one in found.tested} == {"R"}


def test_a_contradiction_stands_first_with_both_sides(grow: Grow) -> None:
    tree = grow()
    log = tree.result("Offline").detail
    rate = tree.get_log(log, "result_samples_per_second")
    tree.set_log(log, "result_samples_per_second", rate * 1.5)
    found = explain(tree.root, KEY)
    first = found.tested[0]
    assert (first.rule, first.outcome, first.severity) == ("R103", "finding", "error")
    lines = to_text(found).splitlines()
    assert lines[0] == f"Evidence for {KEY} (v6.0)"
    assert next(line for line in lines if line.startswith("error")).startswith("error    R103 ")
    assert main(["audit", str(tree.root), "--explain", KEY, "--no-progress"]) == 1


def test_copies_are_shown_with_both_logs_and_without_a_copy_what_was_compared(grow: Grow) -> None:
    tree = grow()
    family = ("R301", "R302", "R303", "R307", "R308")
    found = {one.rule: one for one in explain(tree.root, KEY).tested if one.rule in family}
    assert {one.outcome for one in found.values()} == {"agrees"}
    assert (
        found["R301"].values["compared with logs"] > found["R301"].values["logs of the result"] > 1
    )
    place = tree.result("Offline")
    shutil.copyfile(place.detail, place.accuracy_detail)
    found = {one.rule: one for one in explain(tree.root, KEY).tested if one.rule in family}
    copied = found["R301"]
    assert (copied.outcome, copied.severity) == ("finding", "error")
    assert {copied.values["log 1"], copied.values["log 2"]} == {
        tree.relative(place.detail),
        tree.relative(place.accuracy_detail),
    }
    # A performance log in the accuracy run's place is the copy.
    assert copied.path == tree.relative(place.accuracy_detail)
    assert {one.outcome for rule, one in found.items() if rule != "R301"} == {"agrees"}


def test_other_rules_and_the_folder_as_a_name(grow: Grow) -> None:
    tree = grow()
    found = explain(tree.root, str(tree.result("Offline").path), Options(select=("P",)))
    assert found.key == KEY
    assert {one.rule[0] for one in found.tested} == {"P"}


def test_unknown_and_unclear_names(grow: Grow) -> None:
    tree = grow()
    with pytest.raises(UnknownResult, match=r"no result Offlin; near names: .*Offline"):
        explain(tree.root, "Offlin")
    with pytest.raises(UnknownResult, match="names 2 results"):
        grow(benchmark="bert-99", into=tree)
        explain(tree.root, "Offline")
    assert main(["audit", str(tree.root), "--explain", "nothing", "--no-progress"]) == 2


def test_page_and_json_are_written_and_nothing_runs_in_the_page(grow: Grow, tmp_path: Path) -> None:
    tree = grow(submitter="<b>Acme")
    page, data = tmp_path / "e.html", tmp_path / "e.json"
    key = KEY.replace("Acme", "<b>Acme")
    words = ["--explain", key, "--output", str(page), "--output", str(data), "--no-progress"]
    assert main(["audit", str(tree.root), *words]) == 1
    text = page.read_text(encoding="utf-8")
    assert "<b>Acme" not in text and "<script" not in text
    assert "style-src &#39;" not in text
    saved = json.loads(data.read_text(encoding="utf-8"))
    assert (saved["format"], saved["format_version"], saved["key"]) == ("assay-explanation", 1, key)
    pictures = re.findall(r'<svg role="img" aria-label="([^"]+)"', text)
    assert len(pictures) == len([one for one in saved["tested"] if one["figure"]]) + len(
        saved["latencies"]
    )


@pytest.mark.corpus
@pytest.mark.skipif(corpus_root() is None, reason="no corpus: set ASSAY_CORPUS")
def test_a_published_result_has_no_error_and_many_tests() -> None:
    tree = unpacked("v6.0" if "v6.0" in corpus_rounds() else corpus_rounds()[-1])
    row = next(r for r in check(tree, Options(jobs=1)).results if r.scenario == "Server")
    found = explain(tree, row.key)
    assert [one.rule for one in found.tested if one.severity == "error"] == []
    assert found.count("agrees") > 40
    sets = next(one for one in found.tested if one.rule == "R201" and "run_1" in one.path)
    assert sets.values["values replayed and equal"] > 100
    assert to_html(found).count('role="img"') >= 2
