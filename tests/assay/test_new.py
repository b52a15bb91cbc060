"""`assay new`: an empty tree of which every finding says what to fill in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from assay import cli
from assay.prepare.fields import MEASUREMENTS, SYSTEM
from assay.prepare.skeleton import BadWish, Skeleton, files_of
from checker.engine import Options, check
from schemas import load_round, round_names
from tests.conftest import Grow

TO_FILL = {
    "A101", "A102", "A110", "A118", "P101", "P130",  # logs that LoadGen writes
    "C101",  # tests that are to be run
    "D104", "M104",  # fields
    "M109", "S109", "S110", "S111", "D118",  # documents
    "S105", "S106", "X003",  # results, where no benchmark was named
}  # fmt: skip


def test_every_field_of_every_round_has_a_meaning() -> None:
    for name in round_names():
        round = load_round(name)
        about = round.system_description
        assert {*about.required, *about.network} <= set(SYSTEM), name
        assert set(round.measurements.required) <= set(MEASUREMENTS), name


@pytest.mark.parametrize("round", ["v5.1", "v6.0", "v6.1"])
@pytest.mark.parametrize("division", ["closed", "open"])
@pytest.mark.parametrize(
    ("category", "benchmark"), [("edge", "resnet"), ("datacenter", "llama2-70b-99"), ("", None)]
)
def test_every_finding_is_to_fill_in(
    tmp_path: Path, round: str, division: str, category: str, benchmark: str | None
) -> None:
    if benchmark is not None and benchmark not in load_round(round).benchmarks:
        pytest.skip(f"{round} has no {benchmark}")
    new = tmp_path / "new"
    command = [
        "new",
        "--round",
        round,
        "--submitter",
        "Acme",
        "--system",
        "box1",
        "--out",
        str(new),
    ]
    command += ["--division", division]
    command += ["--category", category] if category else []
    command += ["--benchmark", benchmark] if benchmark else []
    assert cli.main(command) == 0
    report = check(new, Options(round=round, jobs=1))
    assert {f.rule for f in report.findings} <= TO_FILL
    assert "D104" in {f.rule for f in report.findings}
    assert cli.main(command) == 2


@pytest.mark.parametrize("round", ["v5.1", "v6.0"])
def test_filled_in_it_checks(grow: Grow, tmp_path: Path, round: str) -> None:
    """With the logs and documents of a good submission in their places nothing is left to say."""
    tree = grow(round=round, benchmark="resnet")
    files = files_of(
        Skeleton(
            round=round, submitter="Acme", system="box1", category="edge", benchmarks=["resnet"]
        )
    )
    new = tmp_path / "new"
    for path, text in files.items():
        (new / path).parent.mkdir(parents=True, exist_ok=True)
        (new / path).write_text(text)
    for path in tree.files():
        (new / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(tree.root / path, new / path)
    for path in (
        new.rglob("*_Offline.json"),
        new.rglob("*_SingleStream.json"),
        new.rglob("*_MultiStream.json"),
    ):
        for place in path:
            if "main" not in place.name:
                place.unlink()
    (new / tree.base / tree.round.layout.code[0] / "resnet/README.md").write_text("See main.\n")
    report = check(new, Options(round=round, jobs=1))
    assert [(f.rule, f.path) for f in report.findings if f.severity != "note"] == []


def test_what_is_known_is_filled_in() -> None:
    files = files_of(
        Skeleton(round="v6.0", submitter="Acme", system="box1", division="network", category="edge")
    )
    fields = json.loads(files["network/Acme/systems/box1.json"])
    assert {key: value for key, value in fields.items() if value} == {
        "division": "network",
        "submitter": "Acme",
        "system_name": "box1",
        "system_type": "edge",
        "is_network": "true",
    }


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"submitter": "../x"}, "folder's name"),
        ({"system": "a b"}, "folder's name"),
        ({"benchmarks": ["resnett"], "category": "edge"}, "did you mean resnet"),
        ({"benchmarks": ["resnet"]}, "--category"),
    ],
)
def test_refused(change: dict[str, object], why: str) -> None:
    wanted = {"round": "v6.0", "submitter": "Acme", "system": "box1", **change}
    with pytest.raises(BadWish, match=why):
        files_of(Skeleton(**wanted))  # type: ignore[arg-type]
