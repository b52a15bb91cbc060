"""Audits over several trees and against an earlier report."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from assay.cli import main
from checker.engine import Options, audit
from schemas.report import Report, decode
from tests.checker.audit.conftest import Real
from tests.conftest import Grow
from tests.trees import DETAIL, GoodTree


def _together(*trees: GoodTree, **options: object) -> Report:
    return audit([t.root for t in trees], Options(audit=True, jobs=1, **options))  # type: ignore[arg-type]


def test_paths_are_told_apart(grow: Grow) -> None:
    a = grow(round="v5.1", benchmark="retinanet", category="edge")
    b = grow(round="v6.0", category="edge")
    # The made logs follow no seeds, and their numbers are made alike.
    report = _together(a, b, ignore=("R201", "R202", "R204", "R302", "R308"))
    assert report.round == "v5.1, v6.0"
    assert report.tree == "submission, submission-2"
    assert {r.path.split("/")[0] for r in report.results} == {"submission", "submission-2"}
    assert {(f.path or "").split("/")[0] for f in report.findings} <= {"submission", "submission-2"}
    assert report.summary.results == report.summary.valid


def test_a_log_of_another_round_is_seen(real: Real, grow: Grow) -> None:
    old, new = real(), grow(round="v6.0", category="edge")
    target = new.result("Offline").performance
    shutil.copyfile(old.result("Offline").detail, target / DETAIL)
    report = _together(old, new)
    found = [f for f in report.findings if f.rule == "R301"]
    assert found and all(f.severity == "error" for f in found)
    assert {(f.path or "").split("/")[0] for f in found} == {"submission-2"}
    bad = {r.path.split("/")[0] for r in report.results if r.status == "invalid"}
    assert "submission-2" in bad


def test_one_tree_is_a_check_with_more_rules(grow: Grow) -> None:
    tree = grow(category="edge")
    plain, full = tree.check(), tree.check(audit=True)
    assert [r.path for r in plain.results] == [r.path for r in full.results]
    assert {f.rule for f in plain.findings} <= {f.rule for f in full.findings}
    assert not {r.id for r in plain.rules if r.id.startswith("R")}


@pytest.mark.parametrize(("factor", "severity"), [(1.02, "note"), (1.4, "warning"), (1, "warning")])
def test_since(grow: Grow, tmp_path: Path, factor: float, severity: str) -> None:
    tree = grow(category="edge")
    saved = tmp_path / "old.json"
    assert main(["check", str(tree.root), "--output", str(saved), "--no-progress", "--quiet"]) == 0
    place = tree.result("Offline").detail
    value = tree.get_log(place, "result_samples_per_second")
    tree.set_log(place, "result_samples_per_second", value * factor)
    report = tree.check(audit=True, select=("R321",), since=decode(saved.read_bytes()))
    (finding,) = [
        f for f in report.findings if (f.path or "").startswith(tree.result("Offline").path)
    ]
    assert (finding.rule, finding.severity) == ("R321", severity)
    assert finding.evidence is not None and finding.line is not None
    now = tmp_path / "new.json"
    asked = [
        "audit",
        str(tree.root),
        "--since",
        str(saved),
        "--select",
        "R321",
        "--output",
        str(now),
    ]
    assert main([*asked, "--no-progress", "--quiet"]) == 0
    assert finding.message in {f.message for f in decode(now.read_bytes()).findings}


def test_since_needs_a_report(
    grow: Grow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    tree = grow(category="edge")
    assert main(["audit", str(tree.root), "--since", str(other)]) == 2
    assert "Assay report" in capsys.readouterr().err
