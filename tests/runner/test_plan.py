"""Plans by a round's rules, from Python, a run file and the command line; resuming one."""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import assay
from assay.cli import main
from assay.commands.run import _NOT_SETTINGS, _SETTINGS, add_run_options
from runner import (
    Event,
    Load,
    OutputError,
    Plan,
    SettingsError,
    Tree,
    cautions,
    plan_for,
    plan_of,
    read_run_file,
    run_benchmark,
)
from runner.benchmarks.digits import DIGITS
from schemas.run_file import RunFile, tables
from tests.runner.plans import changed

QUICK = {
    "system": "box", "backend": "dummy", "min_duration": 0.4, "scenarios": ["SingleStream"],
}  # fmt: skip


def test_a_round_s_rules_become_the_plan_s(tmp_path: Path) -> None:
    plan = plan_for("6.1", "resnet50", tree=Tree(out=tmp_path))
    assert plan.rules.round == "v6.1" and plan.rules.task == "resnet"
    assert plan.rules.gate == pytest.approx(0.99 * 76.46)
    assert plan.load.min_duration_ms == plan.rules.least_duration_ms == 600_000
    assert plan.rules.performance_sample_count == 1024
    assert plan.rules.target_latency_ms is None  # LoadGen's own configuration has it
    assert plan.scenarios == ("SingleStream", "MultiStream", "Server", "Offline")
    assert plan_for("demo", "digits", tree=Tree(out=tmp_path)).rules.target_latency_ms == 100
    # Open: no gate, no least duration; scored as another benchmark.
    tree = Tree(out=tmp_path, division="open")
    other = plan_for(None, "digits", scored_as="resnet", tree=tree, load=Load(min_duration_ms=5))
    assert other.rules.gate is None and other.rules.least_duration_ms == 0
    assert other.rules.renamed and other.load.min_duration_ms == 5
    with pytest.raises(SettingsError, match="found scenario 'Batch'; expected one of"):
        plan_for(None, "digits", scenarios=["Batch"], tree=tree)


def test_the_newest_round_that_has_a_benchmark_is_taken(tmp_path: Path) -> None:
    assert plan_for(None, "resnet50", tree=Tree(out=tmp_path)).rules.round == "v6.1"
    assert plan_for(None, "ssd-resnet34", tree=Tree(out=tmp_path)).rules.round == "v6.0"
    unknown = plan_for("v6.1", "digits", tree=Tree(out=tmp_path))
    assert unknown.rules.task is None and unknown.rules.gate is None
    assert cautions(unknown) == ["round v6.1 does not know digits: see --as, --division open"]


def test_from_python_a_model_meets_the_same_gate_as_from_the_command(tmp_path: Path) -> None:
    out = tmp_path / "tree"
    (missed,) = assay.run("digits", out=out, backend_options={"answer": "constant"}, **QUICK)
    assert missed.status == "gate-missed" and missed.gate == pytest.approx(95.634)
    assert not out.exists()
    (valid,) = assay.run(out=str(out), **QUICK)
    assert valid.status == "valid" and valid.gate == pytest.approx(95.634)
    # Without a duration the round's is taken; a short user.conf is refused.
    conf = tmp_path / "user.conf"
    conf.write_text("*.*.min_duration = 100\n")
    with pytest.raises(SettingsError, match=r"user\.conf:1: found min_duration = 100 ms"):
        assay.run(out=out, user_conf=conf)
    with pytest.raises(SettingsError, match="did you mean 'target_qps'"):
        assay.run(out=out, target_qp=3)
    with pytest.raises(SettingsError, match="found no submission tree"):
        assay.run()
    with pytest.raises(SettingsError, match="give it alone"):
        assay.run(plan_of(read_run_file(out=out)), target_qps=3)


def test_the_command_and_its_saved_file_are_one_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS.models["fp32"], "mine.onnx")
    saved = Path("conf/run.toml")
    saved.parent.mkdir()
    arguments = ["--scenario", "server,Offline", "--model", "mine.onnx", "--min-duration", "0.5"]
    arguments += ["--out", "tree", "--find-qps", "--tolerance", "10%", "--spinning", "off"]
    arguments += ["--backend-option", "x=1", "--provider", "cpu", "--no-early-stop"]
    assert main(["run", *arguments, "--dry-run", "--save-config", str(saved)]) == 0
    text = saved.read_text()
    assert 'model = "../mine.onnx"' in text and "tolerance = 10.0" in text
    plan = plan_of(read_run_file(saved))
    assert plan.inputs.model is not None and plan.inputs.model.resolve() == tmp_path / "mine.onnx"
    assert plan.tree.out.resolve() == tmp_path / "tree"
    assert plan.scenarios == ("Server", "Offline") and not plan.conduct.early_stop
    assert plan.execution.backend_options == {"spinning": False, "providers": ["cpu"], "x": 1}
    assert plan.conduct.search is not None and plan.conduct.search.tolerance == 0.1
    # An option wins over the file.
    assert plan_of(read_run_file(saved, tolerance=2)).conduct.search.tolerance == 0.02  # type: ignore[union-attr]
    capsys.readouterr()
    saved.write_text(text.replace("tolerance", "tolerence"))
    assert main(["run", "--config", str(saved)]) == 2
    assert f"{saved}: load: object contains unknown field tolerence" in capsys.readouterr().err
    assert main(["run", "--config", "none.toml"]) == 2
    assert main(["run", "--scenario", "Offline"]) == 2
    assert "give --out FOLDER" in capsys.readouterr().err


def test_every_option_of_the_command_is_a_setting_of_a_run_file() -> None:
    parser = argparse.ArgumentParser()
    add_run_options(parser)
    settings = {*RunFile.__struct_fields__}
    for kind in tables().values():
        settings |= {*kind.__struct_fields__}
    options = {
        _SETTINGS.get(action.dest, action.dest): action.default
        for action in parser._actions
        if action.dest not in _NOT_SETTINGS | {"help"}
    }
    assert set(options) <= settings
    assert settings - set(options) - set(tables()) == set(), "no option for these"
    # A default of the parser would win over the run file.
    assert {name for name, default in options.items() if default is not None} == set()


class Started:
    def __init__(self) -> None:
        self.runs: list[tuple[str, str]] = []

    def on_event(self, event: Event) -> None:
        if event.phase == "start":
            self.runs.append((event.scenario, event.mode))


def test_finished_scenarios_are_kept_and_the_rest_runs(tmp_path: Path) -> None:
    out = tmp_path / "tree"
    one = plan_of(read_run_file(out=out, **QUICK))
    (first,) = run_benchmark(one)
    two = plan_of(read_run_file(out=out, **{**QUICK, "scenarios": ["SingleStream", "Offline"]}))
    with pytest.raises(OutputError, match="already"):
        run_benchmark(two)
    assert first.path is not None
    before = (first.path / "performance/run_1/mlperf_log_detail.txt").read_bytes()
    started = Started()
    again, rest = run_benchmark(changed(two, resume=True), started)
    assert {scenario for scenario, _ in started.runs} == {"Offline"}
    assert (again.status, again.metric, again.unit) == (first.status, first.metric, first.unit)
    assert again.score == first.score and again.message == "measured before, kept"
    assert (first.path / "performance/run_1/mlperf_log_detail.txt").read_bytes() == before
    assert rest.status == "valid" and rest.path is not None
    # The README's run file repeats the measurement.
    readme = (rest.path / "README.md").read_text()
    assert "min-duration = 0.4" in readme and "| Outcome | valid |" in readme


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"min_duration": 0.5}, r"load\.min-duration 0\.4; expected 0\.5"),
        ({"precision": "int8"}, r"model\.precision by default; expected int8"),
        ({"user_conf": "x"}, "another user.conf"),
    ],
)
def test_a_result_of_other_settings_is_not_taken_for_this_run_s(
    more: dict[str, object], words: str, tmp_path: Path
) -> None:
    out = tmp_path / "tree"
    run_benchmark(plan_of(read_run_file(out=out, **QUICK)))
    if "user_conf" in more:
        (tmp_path / "user.conf").write_text("*.SingleStream.target_latency = 1\n")
        more = {"user_conf": tmp_path / "user.conf"}
    other = plan_of(read_run_file(out=out, resume=True, **{**QUICK, **more}))
    with pytest.raises(OutputError, match=words):
        run_benchmark(other)
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "user.conf") == [
        "tree",
        "tree.traces",
    ]


def test_a_plan_without_a_run_file_is_not_resumed(tmp_path: Path) -> None:
    plan: Plan = plan_of(read_run_file(out=tmp_path / "tree", **QUICK))
    run_benchmark(replace(plan, run_file=""))
    with pytest.raises(OutputError, match="holds no run file to compare with"):
        run_benchmark(changed(plan, resume=True))
