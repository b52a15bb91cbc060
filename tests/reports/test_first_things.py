"""What a reader must see first: causes, that a check was narrowed, and limits that apply."""

from __future__ import annotations

import re

import msgspec
import pytest

import reports
from reports import arrange, margins
from reports.to_html import _Page
from schemas.report import AccuracyScore, Finding, Limits, RunFacts, Selection, Subject
from tests.reports.samples import report, result, varied


@pytest.mark.parametrize("format", ["terminal", "markdown", "html", "github", "sarif"])
def test_a_narrowed_check_says_so(format: str) -> None:
    narrowed = report([result()], [], selection=Selection(ignore=("C", "P")))
    whole = report([result()], [])
    words = r"without rules C, P"
    assert re.search(words, str(reports.render(narrowed, format)))
    assert not re.search(words, str(reports.render(whole, format)))
    assert arrange.verdict_text(narrowed).startswith("SUMMARY: submission looks OK")


def _finding(rule: str, severity: str, keys: list[str]) -> Finding:
    subject = Subject("closed", "Example")
    return Finding(rule, rule.lower(), severity, "m", "p", subject=subject, results=keys)  # type: ignore[arg-type]


def test_the_cause_of_most_results_is_first() -> None:
    findings = [
        _finding("P102", "error", ["a"]),
        _finding("S116", "error", ["a", "b", "c"]),
        _finding("M114", "warning", ["a", "b", "c", "d"]),
    ]
    # `report` links findings of old reports anew; these are linked as the checker does it.
    made = msgspec.structs.replace(report([result()], findings), findings=findings)
    assert [group.rule for group in arrange.causes(arrange.by_rule(made))] == ["S116", "P102"]
    markdown = str(reports.render(made, "markdown"))
    assert markdown.index("S116") < markdown.index("P102") < markdown.index("M114")
    assert "What to fix first" in str(reports.render(made, "html"))


def test_a_group_counts_each_severity() -> None:
    (group,) = arrange.by_rule(
        report([result()], [_finding("M114", s, []) for s in ("note", "warning", "note")])
    )
    assert group.counts == "1 warning, 2 notes"


def test_a_percentile_over_its_limit_is_red() -> None:
    """The round states the percentile as a fraction, the log in percent."""
    values = {"50.00": 1e6, "99.00": 9e6, "99.90": 9.5e6}
    run = RunFacts("performance", "p", latency_ns=values)
    limited = result(limits=Limits(target_latency_ns=5_000_000, percentile=0.99), runs=[run])
    (shown,) = _Page.times(limited, run)
    # Above the judged percentile nothing is limited.
    assert shown.cells == {
        "p50": ("1 ms", False),
        "p99": ("9 ms", True),
        "p99.9": ("9.5 ms", False),
    }
    assert shown.bound == margins.Bound(5e6, 99.0)
    assert shown.picture.count('class="dots j bad"') == 1 and 'class="dots"' in shown.picture
    assert 'class="gate"' in shown.picture
    page = str(reports.render(report([limited], []), "html"))
    assert '<td class="n fail">9 ms' in page and "<td>5 ms at p99" in page


def test_no_latency_limit_where_tokens_are_limited() -> None:
    run = RunFacts("performance", "p", latency_ns={"99.00": 9e9}, ttft_ns={"99.00": 1e9})
    limits = Limits(target_latency_ns=20_000_000_000, ttft_ms=2000.0, tpot_ms=80.0, percentile=0.99)
    shown = {each.name: each.bound for each in _Page.times(result(limits=limits), run)}
    assert shown == {"Query latency": None, "Time to first token": margins.Bound(2e9, 99.0)}


@pytest.mark.parametrize("scenario", ["Offline", "SingleStream"])
def test_no_latency_limit_outside_server(scenario: str) -> None:
    run = RunFacts("performance", "p", latency_ns={"99.00": 9e9}, scenario=scenario)
    limits = Limits(target_latency_ns=5, percentile=0.99)
    (shown,) = _Page.times(result(scenario=scenario, limits=limits), run)
    assert shown.bound is None and "gate" not in shown.picture


def test_no_gate_in_the_open_division() -> None:
    score = AccuracyScore("acc", 70.0, target=75.0, reference=76.0)
    page = str(reports.render(report([result(division="open", accuracy=[score])], []), "html"))
    assert "<td>no gate<" in page and 'id="margins"' not in page
    assert arrange.tightest(result(accuracy=[score])) is None


def test_invalid_results_come_before_the_other_rules() -> None:
    markdown = str(reports.render(varied(), "markdown"))
    first_warning = markdown.find("| 🟡 warning")
    assert 0 < markdown.index("Invalid results") < first_warning
