"""Charts say what the numbers say, in both drawings, whatever the names and the numbers are."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import pytest

import reports
from reports.charts import Bound, Chart, Series, linear, log, logarithmic, to_image, to_svg
from reports.run_charts import charts_of
from schemas.report import Limits, RunFacts
from schemas.timeline import Interval, Timeline
from tests.reports import samples

SERVER = RunFacts(
    "performance",
    "performance/run_1",
    scenario="Server",
    latency_ns={"50.00": 14e6, "90.00": 40e6, "99.00": 70e6, "99.90": 120e6},
)
LIMITED = Limits(target_latency_ns=100_000_000, percentile=0.99)


def over_time(*latencies: float | None) -> Timeline:
    intervals = [
        Interval(end_s=0.5 * n, samples=100 * n, median_s=v, p99_s=None if v is None else 2 * v)
        for n, v in enumerate(latencies, 1)
    ]
    return Timeline(scenario="Server", of="queries", intervals=intervals)


def test_percentiles_with_the_limit_and_where_it_counts() -> None:
    (chart,) = charts_of(samples.result(limits=LIMITED, benchmark="resnet"), SERVER)
    (series,) = chart.series
    assert [round(x, 3) for x, _ in series.points] == [0.301, 1.0, 2.0, 3.0]  # nines
    assert [y for _, y in series.points] == [14, 40, 70, 120]
    assert [label for _, label in chart.x.ticks] == ["50", "90", "99", "99.9"]
    assert [(b.label, b.x, b.y) for b in chart.bounds] == [
        ("p99", pytest.approx(2.0), None),
        ("limit 100 ms", None, 100.0),
    ]
    assert chart.words == (
        "resnet, Server: query latency: p50 14 ms, p90 40 ms, p99 70 ms, p99.9 120 ms; the limit is 100 ms "
        "at p99."
    )


def test_a_stream_shows_its_percentile_and_offline_none() -> None:
    run = RunFacts("performance", "", latency_ns={"50.00": 1000.0, "90.00": 2000.0})
    ranked = samples.result(scenario="SingleStream", limits=Limits(percentile=0.9))
    (chart,) = charts_of(ranked, run)
    assert [b.label for b in chart.bounds] == ["p90"] and chart.y.label == "Query latency (µs)"
    (chart,) = charts_of(samples.result(scenario="Offline", limits=Limits(percentile=0.99)), run)
    assert chart.bounds == ()


def test_tokens_have_charts_and_limits_of_their_own() -> None:
    run = RunFacts(
        "performance",
        "",
        scenario="Server",
        latency_ns={"99.00": 9e9},
        ttft_ns={"50.00": 1e9, "99.00": 1.5e9},
        tpot_ns={"99.00": 1e8},
    )
    limits = Limits(target_latency_ns=20_000_000_000, ttft_ms=2000, tpot_ms=200, percentile=0.99)
    found = charts_of(samples.result(limits=limits), run)
    assert [[b.label for b in chart.bounds] for chart in found] == [
        [], ["p99", "limit 2 s"], ["p99", "limit 200 ms"],
    ]  # fmt: skip


def test_far_values_get_a_logarithmic_axis() -> None:
    run = RunFacts("performance", "", latency_ns={"50.00": 1e6, "99.00": 1e9})
    (chart,) = charts_of(samples.result(), run)
    assert chart.y.label == "Query latency (s, logarithmic)"
    assert chart.series[0].points[0][1] == pytest.approx(log(0.001))


def test_how_a_run_went_over_time() -> None:
    timeline = over_time(0.010, None, 0.030)
    _, latency, rate = charts_of(samples.result(limits=LIMITED), SERVER, timeline)
    assert [(s.name, s.points) for s in latency.series] == [
        ("median", ((0.5, 10.0), (1.5, 30.0))),
        ("p99", ((0.5, 20.0), (1.5, 60.0))),
    ]
    assert [b.label for b in latency.bounds] == ["limit 100 ms"]
    assert rate.series[0].points == ((0.5, 200.0), (1.0, 400.0), (1.5, 600.0))
    assert charts_of(samples.result(), SERVER, over_time())[1:] == []
    _, far, _ = charts_of(samples.result(limits=LIMITED), SERVER, over_time(0.001, 0.002))
    assert far.bounds == () and far.y.label == "latency (ms; limit 100)" and far.y.high == 4


def test_only_a_report_of_one_result_has_the_charts() -> None:
    import msgspec

    run = msgspec.structs.replace(SERVER, timeline=over_time(0.01, 0.02))
    one = samples.result(runs=[run], limits=LIMITED)
    html = str(reports.render(samples.report([one], []), "html"))
    assert html.count("Charts of the performance run") == 1
    assert "latency over time, between 10 and 40 ms" in html
    two = samples.result(runs=[run], limits=LIMITED, system="other")
    assert "Charts of" not in str(reports.render(samples.report([one, two], []), "html"))


@pytest.mark.parametrize("text", samples.HOSTILE, ids=range(len(samples.HOSTILE)))
def test_names_and_numbers_are_harmless(text: str) -> None:
    run = RunFacts(
        "performance",
        "",
        latency_ns={"50.00": 0.0, "90.00": math.inf, "97.00": math.nan, "99.00": -1.0, text: 5.0},
        ttft_ns={"50.00": 1e300, "99.00": 0.0},
    )
    timeline = Timeline(
        scenario=text,
        of=text,
        intervals=[
            Interval(end_s=0.0, samples=1),
            Interval(end_s=1e-9, samples=10**12, mean_s=0.0),
            Interval(end_s=0.5, samples=-4),
        ],
    )
    drawn = to_svg(charts_of(samples.result(benchmark=text), run, timeline), alone=True)
    root = ET.fromstring(drawn)
    assert {e.tag.partition("}")[2] for e in root.iter()} <= {"svg", "rect", "text", "path"}
    for numbers in re.findall(r' d="([^"]*)"', drawn):
        assert not re.search("nan|inf|e", numbers)
    assert len(drawn) < 30_000


def test_matplotlib_draws_the_same_chart() -> None:
    pytest.importorskip("matplotlib")
    chart = Chart(
        title="100 $ of _things_",
        x=linear("x", [0, 4], str),
        y=logarithmic("y", [1, 1000], str),
        series=(
            Series(name="_a$b", points=((0, 0.1), (4, 3)), spread=(0.1, 0.2)),
            Series(name="b", points=((2, log(10)),), line=False),
        ),
        bounds=(Bound(label="here", x=2.0), Bound(label="$", y=1.0)),
    )
    assert to_image([chart, chart], "png")[:8] == b"\x89PNG\r\n\x1a\n"
    assert to_image([chart], "pdf")[:5] == b"%PDF-"
    assert to_svg([chart, chart]).count(">here<") == 2


def test_axes_have_round_ticks() -> None:
    def labels(values: list[float]) -> list[str]:
        return [label for _, label in linear("", values, lambda v: f"{v:g}").ticks]

    assert labels([0, 2.1]) == ["0", "0.5", "1", "1.5", "2", "2.5"]
    assert labels([950, 1000]) == ["0", "200", "400", "600", "800", "1000"]
    assert labels([]) == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert len(labels([0, 1e300])) <= 9
    ticks = logarithmic("", [1, 40], lambda v: f"{v:g}").ticks
    assert [label for _, label in ticks] == ["1", "2", "5", "10", "20"]
