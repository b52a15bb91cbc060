"""Waivers: shown, counted apart, never forgotten."""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import Any

import pytest

from checker.waivers import BadWaivers, apply_waivers, load_waivers
from schemas.report import Finding
from tests.conftest import Grow
from tests.trees import GoodTree

DEMO: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "datacenter"}
FUTURE = (datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=30)).isoformat()
PAST = "2020-01-01"


def _file(tmp_path: Path, *entries: str) -> Path:
    path = tmp_path / "waivers.toml"
    path.write_text("".join(f"[[waiver]]\n{entry}\n" for entry in entries))
    return path


def _entry(rule: str = "P106", path: str = "closed/**", **more: str) -> str:
    lines = [f'rule = "{rule}"', f'path = "{path}"', 'reason = "known"', 'owner = "Ann"']
    return "\n".join([*lines, *(f"{k} = {v}" for k, v in more.items())])


def _broken(grow: Grow) -> GoodTree:
    tree = grow(**DEMO)
    tree.set_log(tree.result("Offline").detail, "effective_min_duration_ms", 1)
    tree.set_summary(tree.result("Offline").summary, "min_duration (ms)", 1)
    return tree


@pytest.mark.parametrize("name", ["P106", "min-duration"])
def test_waived_findings_stay_and_do_not_count(name: str, grow: Grow, tmp_path: Path) -> None:
    tree = _broken(grow)
    before = tree.check()
    assert (before.summary.errors, before.summary.invalid) == (1, 1)
    report = tree.check(waivers=_file(tmp_path, _entry(name, expires=FUTURE)))
    assert not report.failed
    assert (report.summary.errors, report.summary.waived, report.summary.valid) == (0, 1, 2)
    waived = [f for f in report.findings if f.waived]
    assert [(f.rule, f.severity) for f in waived] == [("P106", "error")]
    assert waived[0].waived is not None
    assert (waived[0].waived.reason, waived[0].waived.owner, waived[0].waived.expires) == (
        "known",
        "Ann",
        FUTURE,
    )


def test_expired(grow: Grow, tmp_path: Path) -> None:
    """X006: an expired waiver waives nothing and says so."""
    tree = _broken(grow)
    report = tree.check(waivers=_file(tmp_path, _entry(expires=PAST)))
    assert report.failed and report.summary.waived == 0
    found = [f for f in report.findings if f.rule == "X006"]
    assert [(f.severity, f.path) for f in found] == [("warning", "waivers.toml")]
    assert PAST in found[0].message


def test_unused(grow: Grow, tmp_path: Path) -> None:
    """X007: a waiver that matches nothing says so."""
    tree = _broken(grow)
    report = tree.check(waivers=_file(tmp_path, _entry(), _entry("A104")))
    assert [f.message for f in report.findings if f.rule == "X007"] == [
        "waiver 2 (A104 at closed/**) matches no finding"
    ]
    assert not report.failed


def test_an_expired_waiver_does_not_hide_a_good_one(grow: Grow, tmp_path: Path) -> None:
    report = _broken(grow).check(
        waivers=_file(tmp_path, _entry(expires=PAST), _entry(expires=FUTURE))
    )
    assert not report.failed and report.summary.waived == 1


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [
        ("closed/**", True), ("**", True), ("*", True), ("open/**", False), ("closed/Acme/**", True),
        ("closed/Acme/results/*/digits/Offline/*", True), ("closed/Acm", False), ("CLOSED/**", False),
        ("closed/Acme/results/box1/digits/Offline/performance/run_1/mlperf_log_detail.txt", True),
    ],
)  # fmt: skip
def test_patterns(pattern: str, covered: bool, grow: Grow, tmp_path: Path) -> None:
    report = _broken(grow).check(waivers=_file(tmp_path, _entry(path=pattern)))
    assert (report.summary.waived == 1) is covered


def test_the_folder_itself_belongs_to_its_pattern(tmp_path: Path) -> None:
    finding = Finding("S110", "calibration-document", "error", "m", "closed/Acme")
    path = _file(tmp_path, _entry("S110", "closed/Acme/**"))
    assert apply_waivers([finding], path)[0].waived is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[waiver]]\n", "rule must be given"),
        ('[[waiver]]\nrule = "P106"\npath = "x"\nowner = "y"\n', "reason must be given"),
        ('[[waiver]]\nrule = "P106"\npath = "x"\nreason = ""\nowner = "y"\n', "reason must be given"),
        ('[[waiver]]\nrule = "P106"\npath = "x"\nreason = "z"\nowner = 5\n', "owner must be given"),
        ('[[waiver]]\nrule = "P106"\npath = "x"\nreason = "z"\nowner = "y"\nexpires = "soon"\n', "must be a date"),
        ('[[waiver]]\nrule = "P106"\npath = "x"\nreason = "z"\nowner = "y"\nuntil = 2030-01-01\n', "unknown key 'until'"),
        ("[waiver]\nrule = 1\n", "must be a list"), ("waiver = [1]\n", "is not a table"),
        ("[[waver]]\n", "unknown table 'waver'"), ("][", "waivers.toml"), ("", ""),
    ],
)  # fmt: skip
def test_files_that_make_no_sense(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text(text)
    if not words:
        assert load_waivers(path) == []
        return
    with pytest.raises(BadWaivers, match="waivers") as caught:
        load_waivers(path)
    assert words in str(caught.value)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(BadWaivers):
        load_waivers(tmp_path / "nothing.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xff\n")
    with pytest.raises(BadWaivers):
        load_waivers(tmp_path / "latin.toml")


def test_unknown_rules(tmp_path: Path) -> None:
    with pytest.raises(BadWaivers, match="did you mean"):
        load_waivers(_file(tmp_path, _entry("min-durration")))


def test_dates_of_either_kind(tmp_path: Path) -> None:
    found = load_waivers(
        _file(tmp_path, _entry(expires="2026-12-31"), _entry(expires="2026-12-31T10:00:00Z"))
    )
    assert [w.expires for w in found] == [datetime.date(2026, 12, 31)] * 2
    findings = [Finding("P106", "min-duration", "error", "m", "closed/x")]
    path = _file(tmp_path, _entry(expires="2026-12-31"))
    assert apply_waivers(findings, path, today=datetime.date(2026, 12, 31))[0].waived is not None
    assert apply_waivers(findings, path, today=datetime.date(2027, 1, 1))[0].waived is None


def test_no_waivers_change_nothing() -> None:
    findings = [Finding("P106", "min-duration", "error", "m", "closed/x")]
    assert apply_waivers(findings, None) == findings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 8000, "nested too deeply"),
        ("a = " + "{b=" * 2000, "nested too deeply"),
        ("a = " + "9" * 5000, "digits"),
        (".".join("a" * 30_000) + " = 1", "a line of 60,003 bytes"),
        ("#" * 100 + "\n" * (1 << 20), "over 1,048,576 bytes"),
    ],
    ids=["lists", "tables", "digits", "dotted key", "size"],
)
def test_hostile_files_are_refused_soon(text: str, words: str, tmp_path: Path) -> None:
    place = tmp_path / "waivers.toml"
    place.write_text(text)
    began = time.monotonic()
    with pytest.raises(BadWaivers, match=words):
        load_waivers(place)
    assert time.monotonic() - began < 5
