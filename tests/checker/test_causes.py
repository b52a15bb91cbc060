"""A file's damage is one cause: what rests on what the file lacks follows from it."""

from __future__ import annotations

import shutil
from pathlib import Path

from checker.causes import identified
from checker.engine import audit
from checker.options import Options
from schemas.report import Finding, Report, Subject
from tests.conftest import Grow
from tests.trees import GoodTree


def cut(place: Path, keep: float, *, whole_lines: bool = False) -> None:
    data = place.read_bytes()
    size = int(len(data) * keep)
    if whole_lines:
        size = data.rfind(b"\n", 0, size) + 1
    place.write_bytes(data[:size])


def links(report: Report) -> dict[str, str | None]:
    """Each rule with an error or warning, and the rule of the finding that it follows from."""
    rules = {finding.id: finding.rule for finding in report.findings}
    assert len(rules) == len(report.findings)
    return {
        f.rule: rules[f.follows] if f.follows else None
        for f in report.findings
        if f.severity != "note"
    }


def server(grow: Grow) -> GoodTree:
    return grow(round="v5.1", benchmark="retinanet", category="datacenter")


def test_a_log_cut_inside_a_line(grow: Grow) -> None:
    tree = server(grow)
    tree.set_log(tree.result("Server").detail, "effective_qsl_rng_seed", 1)
    cut(tree.result("Server").detail, 0.6)
    report = tree.check()
    found = links(report)
    assert found.pop("X002") is None
    # The wrong seed is there to be seen: it is an error of its own.
    assert [found.pop(rule) for rule in ("P109", "P131", "P136")] == [None] * 3
    assert set(found) >= {"P102", "P117", "P122", "P165"}
    assert set(found.values()) == {"X002"}
    assert {r.scenario: r.status for r in report.results}["Server"] == "invalid"


def test_a_log_cut_between_two_lines(grow: Grow) -> None:
    tree = server(grow)
    cut(tree.result("Server").detail, 0.6, whole_lines=True)
    found = links(tree.check())
    assert found.pop("P165") is None
    assert set(found) >= {"P102", "P117", "P122"}
    assert set(found.values()) == {"P165"}


def test_one_log_is_not_the_cause_of_what_another_lacks(grow: Grow) -> None:
    tree = server(grow)
    cut(tree.result("Server").accuracy_detail, 0.3)
    cut(tree.result("Server").summary, 0.3)
    tree.set_log(tree.result("Server").detail, "result_validity", "INVALID")
    found = links(tree.check())
    assert found["P102"] is None
    assert found["P147"] is None
    assert found["X002"] is None


def test_ids_of_several_trees_are_apart(grow: Grow, tmp_path: Path) -> None:
    tree = server(grow)
    cut(tree.result("Server").detail, 0.6)
    shutil.copytree(tree.root, tmp_path / "again")
    both = audit([tree.root, tmp_path / "again"], Options(jobs=1))
    assert len({finding.id for finding in both.findings}) == len(both.findings)
    causes = {f.id: f.path for f in both.findings if f.rule == "X002"}
    assert len(causes) == 2
    for finding in both.findings:
        if finding.follows:
            assert str(finding.path).split("/")[0] == str(causes[finding.follows]).split("/")[0]


def test_ids_last() -> None:
    """The same in the next report, whatever moves; repeats are numbered, and nothing else is."""

    def made(line: int, message: str, path: str = "a") -> Finding:
        return Finding("P102", "n", "error", message, path, line, subject=Subject("closed"))

    first = identified([made(1, "x"), made(2, "y"), made(3, "z", "b")])
    later = identified([made(7, "other"), made(9, "words"), made(3, "z", "b")])
    assert [f.id for f in first] == [f.id for f in later]
    assert first[1].id == f"{first[0].id}.2"
    assert first[2].id != first[0].id
    assert identified(first) == first
