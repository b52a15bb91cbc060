"""A backend and a benchmark in files of one's own, as docs/own-backends.md shows them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from runner.benchmarks.graph import Graph
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


def test_a_file_must_not_hide_another_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("A = 1\n")
    with pytest.raises(ImportError, match=r"json\.py has the name of another module"):
        load(f"{tmp_path}/json.py:A")
    with pytest.raises(ImportError, match="there is no file"):
        load(f"{tmp_path}/none.py:A")
    assert short(f"{tmp_path}/json.py:A") == "json:A" and short("onnxruntime") == "onnxruntime"
