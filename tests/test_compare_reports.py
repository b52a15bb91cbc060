"""The comparison of two editions: what it calls the same, and what it lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.compare_reports import main


def _report(findings: list[tuple[str, str, str, str]], **statuses: str) -> dict[str, Any]:
    return {
        "results": [{"path": path, "status": status} for path, status in statuses.items()],
        "findings": [
            {"rule": rule, "path": path, "severity": severity, "message": message}
            for rule, path, severity, message in findings
        ],
    }


def _compared(tmp_path: Path, old: dict[str, Any], new: dict[str, Any]) -> int:
    for folder, report in (("old", old), ("new", new)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "v1.0.check.json").write_text(json.dumps(report))
    return main([str(tmp_path / "old"), str(tmp_path / "new")])


def test_other_words_are_the_same_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = _report([("P104", "a", "error", "too few")], r="invalid")
    new = _report([("P104", "a", "error", "found 1; expected 2")], r="invalid")
    assert _compared(tmp_path, old, new) == 0
    assert capsys.readouterr().out == "## v1.0.check: the same, 1 in other words\n\n"


def test_what_differs_is_listed_by_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = _report(
        [("P104", "a", "error", "x"), ("P104", "b", "error", "x"), ("S101", "c", "error", "x")],
        one="invalid",
        two="valid",
    )
    new = _report(
        [("P104", "a", "note", "x"), ("S102", "c", "error", "x")], one="valid", three="valid"
    )
    assert _compared(tmp_path, old, new) == 1
    assert capsys.readouterr().out.splitlines() == [
        "## v1.0.check",
        "",
        "* one: invalid → valid",
        "* three: no result → valid",
        "* two: valid → no result",
        "* P104: 1 gone, 1 error → note",
        "* S101: 1 gone",
        "* S102: 1 new",
        "",
    ]
