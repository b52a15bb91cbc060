"""Pictures of real results: what is drawn is what the report holds, and each says it in words."""

from __future__ import annotations

import html
import re
from datetime import datetime

import pytest

import reports
from checker.engine import Options, check
from reports import accelerators, arrange, figures, margins, pictures
from schemas.hardware import hardware
from schemas.report import AccuracyScore, Limits, Metric, Report, RunFacts
from tests.corpus import corpus_rounds, unpacked
from tests.reports.samples import report, result

ROUNDS = [name for name in ("v2.1", "v5.1", "v6.0") if name in corpus_rounds()]


@pytest.fixture(scope="module", params=ROUNDS or [None])
def real(request: pytest.FixtureRequest) -> Report:
    if request.param is None:
        pytest.skip("needs published submissions: set ASSAY_CORPUS to their folder")
    return check(str(unpacked(request.param)), Options(jobs=1))


def test_every_bound_that_applies_has_its_dot(real: Report) -> None:
    """Counted a second way: from the limits of each result and the log's own names."""
    drawn = {p.kind: [m for row in p.rows for m in row.margins] for p in margins.pictures(real)}
    gates = sum(arrange.gated(score) for r in real.results for score in r.accuracy)
    assert len(drawn["accuracy"]) == gates > 0
    wanted = {"latency": 0, "ttft": 0, "tpot": 0}
    for r in real.results:
        server = r.scenario.casefold() in ("server", "interactive")
        for run in r.runs:
            if run.kind != "performance" or not server or r.limits is None:
                continue
            tokens = bool(r.limits.ttft_ms or r.limits.tpot_ms)
            wanted["ttft"] += bool(r.limits.ttft_ms) and "99.00" in run.ttft_ns
            wanted["tpot"] += bool(r.limits.tpot_ms) and "99.00" in run.tpot_ns
            at = f"{100 * (r.limits.percentile or 0.99):.2f}"
            wanted["latency"] += (
                bool(r.limits.target_latency_ns) and not tokens and at in run.latency_ns
            )
    assert {kind: len(drawn.get(kind, [])) for kind in wanted} == wanted
    assert sum(wanted.values()) > 0
    for margin in drawn["accuracy"]:
        assert not margin.fails or margin.result.status == "invalid"
    for kind in wanted:
        # What was published as valid is within its limits: nothing is red by mistake.
        assert not any(m.fails for m in drawn.get(kind, []) if m.result.status == "valid")


def test_margins_say_what_they_show(real: Report) -> None:
    for picture in margins.pictures(real):
        scale = pictures.margin_scale(picture)
        assert len(scale.ticks) >= 2
        bound = 0.0 if picture.kind == "accuracy" else 1.0
        assert bound in [round(value, 9) for value, _ in scale.ticks]
        for row in picture.rows:
            svg = pictures.margins(picture, row, scale)
            words = html.unescape(re.search(r'aria-label="([^"]*)"', svg)[1])  # type: ignore[index]
            assert words.startswith(f"{row.benchmark}, {row.what}: ")
            assert figures.plural(len(row.margins), "result") in words
            assert "None" not in words and "gate" in svg
            assert ("dots bad" in svg) == any(m.fails for m in row.margins)
            places = [float(x) for x in re.findall(r"M([\d.]+) 9h0", svg)]
            assert places and all(0 < x < pictures.WIDE for x in places)


def test_accelerators_are_named_and_scaled(real: Report) -> None:
    made = accelerators.comparisons(real)
    assert made
    vendors = {entry.vendor for entry in hardware().accelerator}
    kinds = [kind for each in made for kind in each.kinds]
    named = [kind for kind in kinds if kind.accelerator.split()[0] in vendors]
    assert len(named) > 0.8 * len(kinds)
    for each in made:
        scale = pictures.accelerator_scale(each)
        assert len(scale.ticks) >= 2
        far = max(each.values) / min(each.values) >= 20
        assert (scale.note == "logarithmic scale") == far
        assert all(r.result.metric is not None for kind in each.kinds for r in kind.results)
        for kind in each.kinds:
            svg = pictures.accelerators(each, kind, scale)
            assert f"{kind.accelerator}, {kind.precision}: " in html.unescape(svg)
            assert f"{each.unit} per accelerator" in svg


def test_timeline_has_an_axis_with_dates(real: Report) -> None:
    drawn = 0
    for r in real.results:
        svg = pictures.timeline(r.runs)
        if not svg:
            continue
        drawn += 1
        starts = [when for run in r.runs if (when := pictures.when(run.started)) is not None]
        assert f">{min(starts):%Y-%m-%d}</text>" in svg
        assert 'class="axis"' in svg and svg.count('class="bar') >= 1
        assert len(re.findall(r'class="m"', svg)) >= 1
    assert drawn > 0


def test_every_picture_of_the_page_has_words_or_is_beside_its_numbers(real: Report) -> None:
    page = str(reports.render(real, "html"))
    images = re.findall(r"<svg [^>]*>", page)
    assert len(images) > 50
    for picture in images:
        assert ('role="img" aria-label="' in picture) != ('aria-hidden="true"' in picture)
    assert not re.search(r"aria-label=\"[^\"]*\b(None|nan|inf)\b", page)


def test_red_is_red() -> None:
    """One result over each limit and one below its gate: each is one red dot, and is counted."""
    run = RunFacts("performance", "p", ttft_ns={"99.00": 3e9}, tpot_ns={"99.00": 1e8})
    bad = result(
        status="invalid",
        accuracy=[AccuracyScore("acc", 70.0, 75.0, passed=False)],
        limits=Limits(ttft_ms=2000.0, tpot_ms=200.0),
        runs=[run],
    )
    found = {p.kind: p.rows[0] for p in margins.pictures(report([bad], []))}
    assert {kind: row.failing for kind, row in found.items()} == {
        "accuracy": 1,
        "ttft": 1,
        "tpot": 0,
    }
    page = str(reports.render(report([bad], []), "html"))
    margin = page[page.index('id="margins"') :]
    assert margin[: margin.index("</section>")].count('class="dots bad"') == 2
    assert "150% of the limit" in page and "6.67% outside" in page


def test_times_that_mean_nothing_are_not_drawn() -> None:
    for started in ("not a time", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z", None):
        runs = [RunFacts("performance", "p", started=started, duration_s=5.0)] * 2
        assert pictures.timeline(runs) == ""
    far = [
        RunFacts("performance", "p", started="1970-01-01T00:00:00Z", duration_s=1.0),
        RunFacts("accuracy", "p", started="2026-01-01T00:00:00Z", duration_s=1.0),
    ]
    assert pictures.timeline(far).count('class="m"') <= 5
    assert datetime(1970, 1, 1) == pictures.when("1970-01-01T00:00:00Z")


def test_scales_hold_what_they_are_given() -> None:
    for low, high in ((0.0, 1e-9), (0.0, 7.0), (-3.0, 1e12), (5.0, 5.0)):
        scale = pictures.linear(low, high, figures.number)
        assert 2 <= len(scale.ticks) <= 12 or low == high
        assert all(0 <= scale.x(value) <= pictures.WIDE for value in (low, high, high * 10))
    scale = pictures.logarithmic(0.5, 900.0, figures.number)
    assert [label for _, label in scale.ticks] == ["1", "10", "100"]
    wild = result(metric=Metric("m", 1e-300, "Tokens/s"))
    other = result(metric=Metric("m", 1e300, "Tokens/s"), system="other")
    assert reports.render(report([wild, other], []), "html")
