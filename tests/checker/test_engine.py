"""The engine: what is judged, by which rules, with which verdict, whatever carries the work."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
import reports
from checker import rules, unit
from checker.engine import Options, check
from checker.judging import Judge
from checker.model import Result
from checker.rule import ERROR, WARNING, NotJudged, Problem, rule
from checker.rules import RULES, UnknownRule, find_rule, select_rules
from checker.verdict import in_order, with_verdicts
from schemas.load import UnknownRound
from schemas.report import Finding, decode, encode
from schemas.report import Result as Row
from schemas.round import Round
from tests.conftest import Grow
from tests.trees import GoodTree, good_tree

EDGE: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "edge"}
DATACENTER: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "datacenter"}


def _break(tree: GoodTree, scenario: str = "Offline") -> None:
    tree.set_log(tree.result(scenario).detail, "result_validity", "INVALID")


# --- rules that raise ---------------------------------------------------------------------------


@rule("X901", ERROR)
def always_raises(result: Result, round: Round) -> Iterator[Problem]:
    """It raises.

    Why: a test.
    Fix: none.
    Source: none.
    """
    yield Problem("before")
    raise RuntimeError("a mistake")


@rule("X902", WARNING)
def never_judges(result: Result, round: Round) -> Iterator[Problem]:
    """It says nothing.

    Why: a test.
    Fix: none.
    Source: none.
    """
    raise NotJudged
    yield


@rule("X903", WARNING)
def tells_a_lot(result: Result, round: Round) -> Iterator[Problem]:
    """It says a lot.

    Why: a test.
    Fix: none.
    Source: none.
    """
    for number in range(500):
        yield Problem(f"problem {number}", line=number + 1)


def _with_rules(monkeypatch: pytest.MonkeyPatch, *extra: Any) -> None:
    together = tuple(sorted([*RULES, *extra], key=lambda r: r.id))
    plain = tuple(r for r in together if r.family != "R")
    monkeypatch.setattr(rules, "all_rules", lambda: together)
    monkeypatch.setattr(rules, "check_rules", lambda: plain)
    monkeypatch.setattr(rules, "_index", rules._index.__wrapped__)


def test_a_rule_that_raises_becomes_a_finding(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    """X001: the rule's other findings stay, every other rule is applied, the result is invalid."""
    _with_rules(monkeypatch, always_raises)
    tree = grow(**DATACENTER)
    report = tree.check()
    raised = [f for f in report.findings if f.rule == "X001"]
    assert [f.path for f in raised] == [tree.result(s).path for s in ("Offline", "Server")]
    assert "X901" in raised[0].message and "RuntimeError: a mistake" in raised[0].message
    assert "test_engine.py:" in raised[0].message
    assert [f.message for f in report.findings if f.rule == "X901"] == ["before"] * 2
    assert report.summary.invalid == 2 and report.failed
    assert report.results[0].rules_applied >= 40


def test_a_result_that_cannot_be_loaded(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    real = unit.load_result

    def load(plan: Any, round: Round) -> Any:
        if plan.scenario == "Server":
            raise RuntimeError("too big")
        return real(plan, round)

    monkeypatch.setattr(unit, "load_result", load)
    report = grow(**DATACENTER).check()
    assert [(r.scenario, r.status) for r in report.results] == [
        ("Offline", "valid"),
        ("Server", "invalid"),
    ]
    assert [f.rule for f in report.findings if f.rule == "X001"] == ["X001"]


def test_not_judged_is_not_passed(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    _with_rules(monkeypatch, never_judges)
    row = grow(**DATACENTER).check().results[0]
    assert "X902" in row.rules_not_applied
    assert row.rules_applied + len(row.rules_not_applied) > 60


def test_findings_of_one_rule_are_bounded(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    _with_rules(monkeypatch, tells_a_lot)
    found = [
        f
        for f in grow(**DATACENTER).check(select=("X903",)).findings
        if "Offline" in (f.subject.scenario or "")
    ]
    assert len(found) == 201 and "300 more findings" in found[0].message


def test_severity_of_the_round(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    """The enforcement table's severity holds; off drops a rule."""
    from checker import judging

    tree = grow(**DATACENTER)
    _break(tree)

    def severities(**values: str) -> list[tuple[str, str]]:
        def severity_of(rule: str, default: str, **where: object) -> str:
            return values.get(rule, default)

        monkeypatch.setattr(judging, "severity_of", severity_of)
        return sorted(
            {
                (f.rule, f.severity)
                for f in tree.check(jobs=1).findings
                if f.rule in ("P102", "P134")
            }
        )

    assert severities() == [("P102", "error"), ("P134", "error")]
    assert severities(P134="note") == [("P102", "error"), ("P134", "note")]
    assert severities(P134="off") == [("P102", "error")]


# --- options ------------------------------------------------------------------------------------


def test_select_and_ignore(grow: Grow) -> None:
    tree = grow(**DATACENTER)
    _break(tree)
    path = tree.relative(tree.result("Offline").detail)
    summary = tree.relative(tree.result("Offline").summary)
    assert tree.findings() == [("P102", path), ("P131", summary), ("P134", path)]
    assert tree.findings(select=("P102",)) == [("P102", path)]
    assert tree.findings(select=("run-valid",)) == [("P102", path)]
    assert tree.findings(select=("P", "A"), ignore=("p102", "summary-agrees")) == [("P134", path)]
    assert tree.findings(select=("A",)) == []
    # The engine's own findings (family X) are explained in every report.
    told = {f.id for f in tree.check(select=("A",)).rules if f.id[0] != "X"}
    assert told == {r.id for r in RULES if r.family == "A"}


def test_audit_rules_only_when_asked() -> None:
    assert {r.family for r in select_rules()} & {"R"} == set()
    chosen = {r.id for r in select_rules(audit=True)}
    assert chosen == {r.id for r in RULES}


@pytest.mark.parametrize("name", ["P999", "run-valdi", "", "PP"])
def test_unknown_rules_are_refused(name: str, grow: Grow) -> None:
    with pytest.raises(UnknownRule, match="no rule"):
        grow(**DATACENTER).check(select=(name,))
    with pytest.raises(UnknownRule):
        grow(**DATACENTER).check(ignore=(name,))


def test_rules_are_found_in_any_spelling() -> None:
    assert (
        find_rule("p102") is find_rule("run_valid") is find_rule("Run-Valid") is find_rule("P102")
    )
    with pytest.raises(UnknownRule, match="did you mean run-valid"):
        find_rule("run-valdi")


def test_round_contradicts_tree(grow: Grow) -> None:
    """X004: a warning; the round that was asked for is the one that judges."""
    tree = grow(**DATACENTER)
    report = tree.check(round="v6.0")
    assert report.round == "v6.0" and report.round_detected_from == "given by --round"
    found = [f for f in report.findings if f.rule == "X004"]
    assert [(f.severity, f.found, f.required) for f in found] == [("warning", "demo", "v6.0")]
    assert [f for f in tree.check(round="demo").findings if f.rule == "X004"] == []
    with pytest.raises(UnknownRound):
        tree.check(round="v9.9")


def test_divisions_and_submitters(grow: Grow, tmp_path: Path) -> None:
    tree = good_tree(tmp_path, **DATACENTER)
    good_tree(tmp_path, **DATACENTER, division="open", submitter="Bolt", into=tree)

    def who(**options: Any) -> list[tuple[str, str]]:
        return sorted({(r.division, r.submitter) for r in tree.check(**options).results})

    assert who() == [("closed", "Acme"), ("open", "Bolt")]
    assert who(divisions=frozenset({"open"})) == [("open", "Bolt")]
    assert who(submitters=frozenset({"Acme"})) == [("closed", "Acme")]
    assert who(divisions=frozenset({"open"}), submitters=frozenset({"Acme"})) == []


@pytest.mark.parametrize("what", ["empty", "no results", "no such submitter", "other files"])
def test_nothing_checked(what: str, grow: Grow, tmp_path: Path) -> None:
    """X003: an error, so that nothing checked never looks like everything passed."""
    options = Options(jobs=1)
    root = tmp_path / "here"
    root.mkdir()
    if what == "no results":
        (root / "closed/Acme/systems").mkdir(parents=True)
    elif what == "other files":
        (root / "notes.txt").write_text("x")
    elif what == "no such submitter":
        root = grow(**DATACENTER).root
        options = Options(jobs=1, submitters=frozenset({"Nobody"}))
    report = check(root, options)
    assert "X003" in {f.rule for f in report.findings}
    assert report.failed and report.results == []
    told = next(f for f in report.findings if f.rule == "X003")
    assert told.severity == "error" and told.fix


def test_no_such_tree(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        check(tmp_path / "nothing")


# --- verdicts -----------------------------------------------------------------------------------


def test_other_results_keep_their_verdict(grow: Grow) -> None:
    tree = grow(**EDGE)
    _break(tree, "MultiStream")
    report = tree.check()
    assert {r.scenario: r.status for r in report.results} == {
        "MultiStream": "invalid",
        "Offline": "valid",
        "SingleStream": "valid",
    }
    assert (report.summary.valid, report.summary.invalid, report.summary.results) == (2, 1, 3)


def test_a_system_description_is_every_results(grow: Grow) -> None:
    tree = grow(**EDGE)
    tree.edit_json(tree.system_path, lambda d: d.pop("framework"))
    assert {r.status for r in tree.check().results} == {"invalid"}


@pytest.mark.parametrize("waived", [False, True])
def test_missing_scenario_invalidates_the_benchmark(
    waived: bool, grow: Grow, tmp_path: Path
) -> None:
    """Report, csv and exit status are read from one link; a waiver undoes it everywhere."""
    tree = grow(**EDGE)
    tree.remove(tree.result("MultiStream").path)
    waivers = tmp_path / "waivers.toml"
    waivers.write_text('[[waiver]]\nrule="S116"\npath="**"\nreason="agreed"\nowner="chair"\n')
    report = tree.check(waivers=waivers if waived else None)
    keys = tuple(r.key for r in report.results)
    assert [r.scenario for r in report.results] == ["Offline", "SingleStream"]
    found = [(f.rule, f.results, f.invalidates) for f in report.findings]
    assert found == [("S116", keys, () if waived else keys)]
    status = "valid" if waived else "invalid"
    assert [r.status for r in report.results] == [status, status]
    assert report.failed is not waived
    lines = str(reports.render(report, "csv")).splitlines()
    assert len(lines) == (3 if waived else 1)


def test_every_finding_states_its_results(grow: Grow) -> None:
    """A system's, a benchmark's, a result's and a submitter's finding, each with its keys."""
    tree = good_tree(grow(**EDGE).root.parent / "two", **EDGE)
    good_tree(tree.root, **EDGE, system="box2", into=tree)
    report = tree.check()
    keys = [r.key for r in report.results]
    assert len(set(keys)) == 6 and report.findings == []
    first = report.results[0]
    assert first.key == (
        f"{first.division}/{first.submitter}/{first.system}/{first.directory}/{first.scenario}"
    )
    _break(tree)
    tree.edit_json(tree.system_path, lambda d: d.pop("framework"))
    (tree.root / "stray.txt").write_text("x")
    report = tree.check()
    own = tuple(r.key for r in report.results if r.system == first.system)
    linked = {(f.rule, f.results) for f in report.findings}
    one = (next(k for k in own if k.endswith("/Offline")),)
    assert linked == {
        ("S102", ()),
        ("D102", own),
        ("P102", one),
        ("P131", one),
        ("P134", one),
    }
    assert {r.system: r.status for r in report.results} == {
        first.system: "invalid",
        "box2": "valid",
    }


def test_verdicts_follow_the_links() -> None:
    row = Row(
        "closed",
        "A",
        "s",
        "b",
        "b",
        "Offline",
        None,
        "valid",
        None,
        [],
        None,
        None,
        "p",
        1,
        key="closed/A/s/b/Offline",
    )
    rows = [row, msgspec.structs.replace(row, key="closed/A/s/b/Server", scenario="Server")]
    finding = Finding("S116", "x", "error", "m", invalidates=(row.key,))
    assert [r.status for r in with_verdicts(rows, [finding])] == ["invalid", "valid"]
    assert [r.status for r in with_verdicts(rows, [])] == ["valid", "valid"]


# --- order and carriers -------------------------------------------------------------------------


def _many(folder: Path) -> GoodTree:
    tree = good_tree(folder, **EDGE)
    for number in range(2, 6):
        good_tree(folder, **{**EDGE, "category": "datacenter"}, system=f"box{number}", into=tree)
    _break(tree)
    tree.set_log(tree.result("SingleStream").detail, "effective_min_duration_ms", 5)
    (tree.root / "stray.txt").write_text("x")
    return tree


def test_any_number_of_jobs_gives_the_same_bytes(tmp_path: Path) -> None:
    tree = _many(tmp_path)
    one = encode(tree.check(jobs=1))
    assert encode(tree.check(jobs=2)) == one
    assert encode(tree.check(jobs=5)) == one
    assert decode(one) == tree.check(jobs=1)


def test_any_executor_can_carry_the_work(tmp_path: Path) -> None:
    tree = _many(tmp_path)
    seen: list[tuple[int, int]] = []
    with ThreadPoolExecutor(3) as pool:
        carried = check(
            tree.root, Options(jobs=3), executor=pool, progress=lambda d, n: seen.append((d, n))
        )
    assert encode(carried) == encode(check(tree.root, Options(jobs=1)))
    assert seen[-1] == (11, 11) and [d for d, _ in seen] == sorted(d for d, _ in seen)


class _Failing(ThreadPoolExecutor):
    """An executor whose first unit is lost."""

    lost = False

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:  # type: ignore[override]
        if not self.lost:
            self.lost = True
            future: Future[Any] = Future()
            future.set_exception(ConnectionError("worker gone"))
            return future
        return super().submit(*args, **kwargs)


def test_a_lost_unit_is_told(tmp_path: Path) -> None:
    tree = _many(tmp_path)
    with _Failing(2) as pool:
        report = check(tree.root, Options(jobs=2), executor=pool)
    lost = [f for f in report.findings if f.rule == "X001"]
    assert lost and all("worker gone" in f.message for f in lost)
    assert len(report.results) == 11


def test_findings_are_sorted_and_not_repeated(tmp_path: Path) -> None:
    report = _many(tmp_path).check()
    assert report.findings == in_order(reversed(report.findings))
    keys = [(f.path or "", f.line or 0, f.rule) for f in report.findings]
    assert keys == sorted(keys)
    one = Finding("P102", "x", "error", "m", "p")
    assert in_order([one, one]) == [one]


def test_paths_are_posix_and_relative(tmp_path: Path) -> None:
    tree = _many(tmp_path)
    for finding in tree.check().findings:
        assert finding.path and not finding.path.startswith("/") and "\\" not in finding.path
        assert str(tmp_path) not in finding.message


def test_judge_counts_rules(grow: Grow) -> None:
    from checker.load import load_result

    tree = grow(**DATACENTER)
    from checker.discover import discover, locate
    from checker.parse.reading import list_tree

    listing = list_tree(tree.root)
    plan = discover(listing, tree.round, locate(tree.root, listing)).results[0]
    result = load_result(plan, tree.round)
    judged = Judge(RULES, tree.round)(result)
    assert judged.findings == [] and judged.applied > 5 and judged.skipped
    targeted = sum(isinstance(result, r.target) for r in RULES)
    assert judged.applied + len(judged.skipped) == targeted


# --- the front door -----------------------------------------------------------------------------


def test_public_functions(grow: Grow) -> None:
    tree = grow(**DATACENTER)
    report = assay.check(str(tree.root), jobs=1)
    assert report.summary.valid == 2 and report.format == "assay-report"
    assert report.tree == "submission" and report.scope == "tree"
    assert report.tool.name == "assay"
    assert assay.load_round("demo").name == "demo"


def test_check_again_after_mending(grow: Grow) -> None:
    """Nothing of an earlier check is remembered, even when a file keeps its size."""
    tree = grow(**DATACENTER)
    place = tree.root / tree.system_path
    good = place.read_bytes()
    assert tree.findings() == []
    place.write_bytes(b"x" * len(good))
    assert ("X002", tree.system_path) in tree.findings()
    place.write_bytes(good)
    assert tree.findings() == []


def test_reading_leaves_the_tree_alone(grow: Grow) -> None:
    tree = grow(**DATACENTER)
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in tree.root.rglob("*")}
    tree.check(audit=True)
    assert {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in tree.root.rglob("*")} == before


def test_a_copy_gives_the_same_report(grow: Grow, tmp_path: Path) -> None:
    """Where a tree lies does not matter."""
    tree = grow(**DATACENTER)
    _break(tree)
    other = tmp_path / "deep/er/submission"
    shutil.copytree(tree.root, other)
    assert encode(check(other, Options(jobs=1))) == encode(tree.check())
