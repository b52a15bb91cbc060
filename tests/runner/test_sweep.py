"""`assay sweep`: every combination is measured or says why not; the best is outside noise."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay import sweeping
from assay.cli import main
from runner import BackendError, SettingsError, plan_of, read_run_file, sweep
from runner.search import Probe
from runner.sweep import (
    NO_TIME,
    Row,
    Setting,
    Sweep,
    best_of,
    best_run_file,
    choose,
    combinations,
    measure_rows,
    rows_of,
)


def row(rates: list[float], scenario: str = "Offline", **values: Any) -> Row:
    own = {name: values.pop(name) for name in list(values) if name in ("tolerance", "reason")}
    return Row(scenario=scenario, setting=Setting(**values), rates=rates, **own)


def test_every_combination_once_the_smallest_first() -> None:
    found = combinations([4, 1, 4], [], [2, 1])
    assert [str(s) for s in found] == [
        "batch 1, streams 1", "batch 4, streams 1", "batch 1, streams 2", "batch 4, streams 2",
    ]  # fmt: skip
    for settings, scenarios, message in (
        (combinations([], [], []), ("Offline",), "nothing to vary"),
        (found, ("SingleStream",), "found scenario SingleStream"),
    ):
        with pytest.raises(SettingsError, match=message):
            Sweep(run_file=read_run_file(), settings=settings, scenarios=scenarios)


def test_the_best_is_the_smallest_within_noise() -> None:
    quiet = [
        row([100, 101, 99], batch=1),
        row([198, 200, 202], batch=2),
        row([199, 201, 203], batch=4),
        row([150, 151, 149], batch=8),
    ]
    best, near = best_of(quiet)
    assert best is quiet[1] and near == quiet[1:3]  # 200 ± 2 and 201 ± 2
    assert best_of([quiet[0], row([103.5], batch=2)])[0] is quiet[0]  # one run: 5 %
    assert best_of([quiet[0], row([106, 106, 106.2], batch=2)])[0] is not quiet[0]
    assert best_of([quiet[0], row([109], batch=2, tolerance=0.1)])[0] is quiet[0]
    assert best_of([row([], batch=1, reason="no")]) == (None, [])
    disturbed = [
        row([1370, 1414], batch=1, threads=1),
        row([1515, 1611], batch=4, threads=1),
        row([768, 1734], batch=1, threads=2),
        row([810, 2378], batch=4, threads=2),  # the highest, and worth nothing
    ]
    best, near = best_of(disturbed)
    assert best is disturbed[1] and near == [disturbed[1], disturbed[3]]


def test_scenarios_of_one_run_file_share_threads_and_streams() -> None:
    rows = {
        "Offline": [row([100], batch=8, threads=1), row([200], batch=16, threads=2)],
        "Server": [
            row([90], "Server", batch=1, threads=1, tolerance=0.1),
            row([70], "Server", batch=4, threads=2, tolerance=0.1),
        ],
    }
    chosen = choose(rows)  # 2 threads: 100 % and 78 %; 1 thread: 50 % and 100 %
    assert [str(r.setting) for r in chosen.values()] == [
        "batch 16, threads 2",
        "batch 4, threads 2",
    ]
    run = Sweep(
        run_file=read_run_file(out="tree", workers=3),
        settings=combinations([1, 4, 8, 16], [1, 2], []),
        scenarios=("Offline", "Server"),
    )
    execution = best_run_file(run, chosen).execution
    assert (execution.batch, execution.max_batch, execution.threads) == (16, 4, 2)
    assert execution.workers == 3  # as it was


def test_streams_are_tensorrt_s_own_or_workers() -> None:
    tensorrt = read_run_file(backend="tensorrt", backend_options={"layers": True})
    found = sweep.with_setting(tensorrt, Setting(streams=4)).execution
    assert found.backend_options == {"layers": True, "streams": 4} and found.workers is None
    assert sweep.with_setting(read_run_file(), Setting(streams=4)).execution.workers == 4


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Short runs that take no time: rate 100 × batch, one more each time; a batch of 3 fails."""
    made: list[tuple[str, Any]] = []

    def probe(job: Any, runs: Path, duration_s: float, progress: object) -> Probe:
        made.append(("Offline", job.batch_size))
        if job.batch_size == 3:
            raise BackendError(
                "digits Offline performance run: no memory for a batch of 3. The stacks of all threads are in x."
            )
        return Probe(1, None, duration_s, "good", 1.0, metric=100.0 * job.batch_size + len(made))

    monkeypatch.setattr(sweep, "probe_once", probe)
    return made


def test_combinations_take_turns_and_a_failing_one_is_a_row(probes: list[tuple[str, Any]]) -> None:
    run = Sweep(run_file=read_run_file(), settings=combinations([1, 3, 4], [], []), repeats=2)
    rows = rows_of(run)
    steps = [str(r.setting) for r in measure_rows(run, rows)]
    assert steps == ["batch 1", "batch 3", "batch 4", "batch 1", "batch 4"]
    assert [batch for _, batch in probes] == [1, 3, 4, 1, 4]
    one, three, four = rows["Offline"]
    assert (one.rates, four.rates) == ([101, 104], [403, 405])
    assert (three.rates, three.reason) == ([], "no memory for a batch of 3.")


def test_no_short_run_is_begun_when_the_time_is_over(probes: list[tuple[str, Any]]) -> None:
    run = Sweep(
        run_file=read_run_file(), settings=combinations([1, 2], [], []), limit_s=1.0, probe_s=2.0
    )
    rows = rows_of(run)
    assert len(list(measure_rows(run, rows))) == 2
    assert probes == []
    assert {r.reason for r in rows["Offline"]} == {NO_TIME} and run.foresee()[1] == 1.0


def test_a_sweep_that_is_stopped_shows_the_best_so_far(
    probes: list[tuple[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    measured = sweep.probe_once

    def probe(job: Any, *rest: Any) -> Probe:
        if job.batch_size == 4:
            raise KeyboardInterrupt
        return measured(job, *rest)

    monkeypatch.setattr(sweep, "probe_once", probe)
    best = tmp_path / "best.toml"
    assert main(["sweep", "--batch", "1,2,4", "--save-config", str(best), "--no-progress"]) == 130
    out, err = capsys.readouterr()
    assert "Offline: batch 2 has 202 samples/s." in out and "not measured" in out
    assert "no run file is written" in err and not best.exists()


def test_a_sweep_of_the_embedded_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For real: its table, picture and JSON, and a run file that a run takes as it is."""
    best, picture, whole = (tmp_path / name for name in ("best.toml", "sweep.svg", "sweep.json"))
    arguments = [
        "sweep", "--batch", "1,16", "--repeats", "1", "--probe-duration", "0.2", "--threads", "1",
        "--spinning", "off", "--save-config", str(best), "--output", str(picture), "--output", str(whole),
        "--time-limit", "600",
    ]  # fmt: skip
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert "Offline, samples/s" in out and out.count("best") == 1
    assert "2 combinations, short runs of 0.2 s" in err and "No accuracy is measured" in err
    found = json.loads(whole.read_text("utf-8"))
    rates = {row["batch"]: row["rate"] for row in found["rows"]}
    assert min(rates.values()) > 0
    (chosen,) = (row["batch"] for row in found["rows"] if row["best"])
    assert picture.read_text("utf-8").startswith("<svg xmlns=") and "batch 16" in picture.read_text(
        "utf-8"
    )
    plan = plan_of(read_run_file(best))
    assert plan.execution.batch_size == chosen and plan.execution.backend_options["threads"] == 1
    assert plan.scenarios == ("Offline",) and plan.tree.out == tmp_path / "submission"
    assert plan.execution.backend_options["spinning"] is False


def test_a_server_sweep_of_the_embedded_model(capsys: pytest.CaptureFixture[str]) -> None:
    """A search for each; where the machine is too busy for any rate, the row says so."""
    arguments = [
        "sweep", "--batch", "1,8", "--threads", "1", "--scenario", "Server", "--probe-duration", "0.5",
        "--time-limit", "25", "--format", "json", "--no-progress", "--spinning", "off",
    ]  # fmt: skip
    status = main(arguments)
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["batch"] for row in rows] == [1, 8]
    assert all(row["rates"] or row["reason"] for row in rows)
    assert status == (0 if any(row["rates"] for row in rows) else 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch", "1,x"], "is not a whole number of 1 or more"),
        ([], "nothing to vary"),
        (["--batch", "1", "--scenario", "SingleStream"], "found scenario SingleStream"),
        (["--batch", "1", "--output", "a.gif"], "expected one of .svg, .png, .pdf, .json"),
        (["--batch", "1", "--save-config", "/no/such/best.toml"], "found no folder /no/such"),
        (["--batch", "1", "--provider", "cuda"], "found the execution providers"),
        (["--batch", "1", "--model", "none.onnx"], "none.onnx"),
    ],
)
def test_what_cannot_be_swept_is_said_before(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_without_matplotlib_svg_is_still_drawn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["sweep", "--batch", "1", "--output", "a.png"]) == 2
    assert 'pip install "assay[plot]"' in capsys.readouterr().err


def test_the_picture_has_a_line_for_each_of_the_others() -> None:
    run = Sweep(run_file=read_run_file(), settings=combinations([1, 2], [1, 2], []))
    rows = rows_of(run)
    for number, each in enumerate(rows["Offline"], 1):
        each.rates = [100.0 * number, 110.0 * number]
    rows["Offline"][3].rates = []
    (chart,) = sweeping.charts(run, rows, choose(rows))
    assert [(s.name, len(s.points), s.spread) for s in chart.series] == [
        ("threads 1", 2, (5.0, 10.0)),
        ("threads 2", 1, (15.0,)),
    ]
    assert chart.x.label == "batch" and [label for _, label in chart.x.ticks] == ["1", "2"]
    seen: Callable[[str], bool] = chart.words.__contains__
    assert seen("batch 2, threads 1: 210 samples/s") and not seen("batch 2, threads 2")
