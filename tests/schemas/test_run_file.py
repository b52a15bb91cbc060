"""Run files: read, written, changed, and held to their JSON Schema."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from schemas.run_file import BadRunFile, RunFile, read, tables, with_options, write

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/run.schema.json").read_text("utf-8"))
WHOLE = """
benchmark = "resnet50"
as = "resnet"
scenarios = ["Offline", "Server"]
[tree]
out = "tree"
division = "open"
resume = true
[model]
model = "resnet50.onnx"
[load]
target-qps = 20
min-duration = 4
find-qps = false
tolerance = 2.5
[conduct]
compliance = true
early-stop = false
[execution]
backend = "onnxruntime"
backend-options = {device_id = 1, name = "x"}
providers = ["cuda", "cpu"]
spinning = false
"""


def accepted(text: str) -> bool:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    return bool(validator.is_valid(tomllib.loads(text)))


def test_a_whole_file_comes_back_as_it_was() -> None:
    run_file = read(WHOLE)
    assert accepted(WHOLE) and accepted(write(run_file))
    assert read(write(run_file)) == run_file
    assert run_file.scored_as == "resnet" and run_file.load.min_duration == 4
    assert run_file.execution.backend_options == {"device_id": 1, "name": "x"}
    assert write(RunFile()) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("benchmrk = 'x'", "object contains unknown field benchmrk"),
        ("[load]\ntarget_qps = 3", "load: object contains unknown field target_qps"),
        ("[load]\ntarget-qps = 0", "load.target-qps: expected float > 0"),
        ("[load]\ntarget-qps = 'fast'", "load.target-qps: expected float"),
        ("[load]\nmargin = 100", "load.margin: expected float < 100"),
        ("scenarios = ['Batch']", "scenarios[0]: invalid enum value 'Batch'"),
        ("scenarios = 'Offline'", "scenarios: expected array, got str"),
        ("[tree]\ndivision = 'semi'", "tree.division: invalid enum value 'semi'"),
        ("[execution]\nworkers = 0", "execution.workers: expected int >= 1"),
        ("[conduct]\nstall-timeout = 1e9", "conduct.stall-timeout: expected float <= 1000000.0"),
    ],
)
def test_what_cannot_be_is_named_with_its_place(text: str, words: str) -> None:
    with pytest.raises(BadRunFile) as caught:
        read(text)
    assert str(caught.value).startswith(words)
    assert not accepted(text)


def test_text_that_is_no_toml() -> None:
    with pytest.raises(BadRunFile, match="cannot be read as TOML"):
        read("a = ")


def test_settings_are_changed_by_name() -> None:
    changed = with_options(read(WHOLE), {"target_qps": 30, "scenarios": ["Server"], "batch": 8})
    assert changed.load.target_qps == 30 and changed.load.min_duration == 4
    assert changed.scenarios == ["Server"] and changed.execution.batch == 8
    with pytest.raises(BadRunFile, match=r"'target_qp', which is not .* did you mean 'target_qps'"):
        with_options(RunFile(), {"target_qp": 1})
    with pytest.raises(BadRunFile, match=r"execution\.batch: expected int"):
        with_options(RunFile(), {"batch": "many"})


def test_names_are_unique_across_tables() -> None:
    names: list[Any] = [*RunFile.__struct_fields__]
    for kind in tables().values():
        names += kind.__struct_fields__
    own = [name for name in names if name not in tables()]
    # `model` is a table and its first setting.
    assert len(own) == len(set(own))
