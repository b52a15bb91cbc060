"""A backend and a benchmark in files of one's own, as docs/own-backends.md shows them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runner.benchmarks import get_benchmark
from runner.benchmarks.base import Benchmark, Score, Task, Tensor
from runner.benchmarks.digits import DIGITS
from runner.benchmarks.graph import Graph
from runner.errors import SettingsError
from runner.named import load, short

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/own-backends.md").read_text("utf-8")


def test_the_page_s_examples_run(tmp_path: Path) -> None:
    backend, benchmark = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "mine.py").write_text(backend)
    (tmp_path / "task.py").write_text(benchmark)
    graph = Graph("points")
    graph.add("Identity", graph.input("x", "float32", ["N", 1]), name="y")
    graph.output("y", "float32", ["N", 1])
    graph.save(tmp_path / "points.onnx")
    commands = re.findall(r"^    assay (run .*)$", PAGE, re.MULTILINE)
    assert len(commands) == 2
    for number, command in enumerate(commands):
        arguments = shlex.split(command.replace("--out tree", f"--out tree{number}"))
        done = subprocess.run(
            [sys.executable, "-P", "-m", "assay", *arguments, "--min-duration", "0.4"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stderr
        assert "Offline      valid" in done.stdout
    assert "points Offline" in done.stdout and "acc 100" in done.stdout
    (system,) = (tmp_path / "tree0").rglob("systems/*.json")
    assert "ONNX Runtime" in system.read_text()
    assert str(tmp_path) not in system.read_text()  # folders are the user's own affair
    assert (
        "Mine" in system.name
        and "Inferences" in next((tmp_path / "tree0").rglob("Offline/README.md")).read_text()
    )


class Points:
    """A benchmark that is a class of one's own: six attributes, and one of the optional ones."""

    name = "points"
    inputs = [Tensor("x", (None, 1), "float32")]  # noqa: RUF012 # a list will do
    outputs = (Tensor("y", (None, 1), "float32"),)
    batch_size = 7

    @staticmethod
    def make_dataset(path: Path | None) -> Any:
        return [0.0]

    @staticmethod
    def encode(outputs: Sequence[NDArray[Any]], count: int) -> NDArray[Any]:
        return outputs[0]

    @staticmethod
    def score(log: Path, dataset: Any) -> Score:
        return Score("acc", 1.0, "acc=1")


def test_any_object_with_six_attributes_is_a_benchmark() -> None:
    task: Task = DIGITS  # the dataclass has them, says the type checker
    assert Benchmark.of(task) is DIGITS
    for own in (Points, Points()):
        found = Benchmark.of(own)
        assert (found.name, found.title, found.batch_size) == ("points", "points", 7)
        assert found.inputs == tuple(Points.inputs) and found.payload_bytes == 64
        assert found.encode([np.ones((2, 1))], 2).shape == (2, 1)  # type: ignore[union-attr]
    assert get_benchmark(f"{__name__}:Points").batch_size == 7
    for broken, words in (
        (SimpleNamespace(name="x", inputs=()), "found no outputs, make_dataset, encode, score"),
        (type("Half", (Points,), {"score": 3}), "found score = 3; expected a function"),
        (type("Half", (Points,), {"inputs": ["x"]}), "expected Tensors"),
    ):
        with pytest.raises(TypeError, match=words):
            Benchmark.of(broken)
    with pytest.raises(SettingsError, match=r"found no name, inputs, .*own-backends"):
        get_benchmark("json:dumps")


def test_a_file_must_not_hide_another_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("A = 1\n")
    with pytest.raises(ImportError, match=r"json\.py has the name of another module"):
        load(f"{tmp_path}/json.py:A")
    with pytest.raises(ImportError, match="there is no file"):
        load(f"{tmp_path}/none.py:A")
    assert short(f"{tmp_path}/json.py:A") == "json:A" and short("onnxruntime") == "onnxruntime"


def test_a_file_of_the_current_folder_is_no_other_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m assay` searches the current folder, where the file is."""
    (tmp_path / "mine_of_the_folder.py").write_text("A = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    assert load("mine_of_the_folder.py:A") == 1
