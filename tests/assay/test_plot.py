"""`assay plot` on runs of the runner's, on published ones, and on what is none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from assay.cli import main
from schemas.timeline import beside, read_timeline
from tests.corpus import corpus_root, unpacked


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A measured tree of the embedded benchmark."""
    out = tmp_path_factory.mktemp("plot") / "tree"
    arguments = [
        "run", "--scenario", "SingleStream,Offline", "--backend", "dummy", "--min-duration", "1.2",
        "--system", "box", "--out", str(out), "--no-progress",
    ]  # fmt: skip
    main(arguments)
    return out


def result(tree: Path, scenario: str) -> Path:
    return tree / "closed/Assay/results/box/digits" / scenario


def test_a_run_of_the_runner_s_has_its_latency_over_time(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = result(tree, "SingleStream") / "performance/run_1"
    traces = beside(run)
    assert traces == Path(f"{tree}.traces") / result(tree, "SingleStream").relative_to(tree)
    timeline = read_timeline(traces / "timeline.jsonl")
    assert timeline.scenario == "SingleStream" and len(timeline.intervals) >= 2
    assert all(i.mean_s is not None and i.mean_s > 0 for i in timeline.intervals if i.samples)
    picture = tmp_path / "run.svg"
    assert main(["plot", str(run), "--output", str(picture)]) == 0
    said = capsys.readouterr().err
    assert "query latency: p50" in said and "latency over time" in said
    drawn = picture.read_text("utf-8")
    assert ">p90<" in drawn and "samples answered over time" in drawn
    assert main(["check", str(run), "--format", "json"]) == 1  # shorter than the round wants
    (only,) = json.loads(capsys.readouterr().out)["results"]
    assert len(only["runs"][0]["timeline"]["intervals"]) == len(timeline.intervals)


def test_offline_has_no_latency_over_time(tree: Path, tmp_path: Path) -> None:
    picture = tmp_path / "run.svg"
    assert main(["plot", str(result(tree, "Offline")), "--output", str(picture)]) == 0
    drawn = picture.read_text("utf-8")
    assert "samples answered over time" in drawn and "latency over time" not in drawn


def test_a_whole_tree_draws_each_run(tree: Path, tmp_path: Path) -> None:
    picture = tmp_path / "tree.svg"
    assert main(["plot", str(tree), "--output", str(picture)]) == 0
    drawn = picture.read_text("utf-8")
    assert "digits, SingleStream: query latency" in drawn and "digits, Offline: query" in drawn


def test_a_damaged_timeline_is_said_and_the_rest_is_drawn(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "tree"
    shutil.copytree(tree, copy)
    shutil.copytree(f"{tree}.traces", f"{copy}.traces")
    run = result(copy, "SingleStream")
    traces = beside(run)
    assert traces is not None
    file = traces / "timeline.jsonl"
    lines = file.read_text("utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[:2]) + lines[2][:9], "utf-8")
    assert len(read_timeline(file).intervals) == 1
    picture = tmp_path / "run.svg"
    for damage in ("", "{}", "[1]", "\0", '{"kind": "assay-timeline", "version": 2}'):
        file.write_text(damage, "utf-8")
        assert main(["plot", str(run), "--output", str(picture)]) == 0
        assert "found no timeline of a run" in capsys.readouterr().err
        assert "over time" not in picture.read_text("utf-8")
        assert main(["check", str(run / "performance/run_1"), "--quiet"]) == 1  # as before


@pytest.mark.corpus
def test_published_runs_of_several_rounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if corpus_root() is None:
        pytest.skip("no corpus: set ASSAY_CORPUS")
    seen = []
    for name in ("v0.5", "v5.1"):
        runs = sorted(unpacked(name).glob("*/*/results/*/*/[Ss]erver/performance/run_1"))
        assert runs
        picture = tmp_path / f"{name}.svg"
        assert main(["plot", str(runs[0]), "--output", str(picture)]) == 0
        seen.append(capsys.readouterr().err)
        assert ">p99<" in picture.read_text("utf-8")
    assert "query latency: p50" in seen[0] and "the limit is" in seen[0]


def test_what_cannot_be_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        ([str(tmp_path / "empty")], "found no performance run with latencies"),
        ([str(tmp_path / "none")], "none"),
        ([str(tmp_path), "--output", "x.gif"], "expected one of .svg, .png, .pdf"),
        ([str(tmp_path), "--round", "v9"], "v9"),
    ):
        assert main(["plot", *arguments]) == 2
        assert message in capsys.readouterr().err
