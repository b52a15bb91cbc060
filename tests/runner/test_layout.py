"""Trees by the round's layout, open-division mapping, and what stays when things are added."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from checker.engine import Options, check
from runner import SettingsError, run_benchmark
from runner.datasets.digits import Digits
from runner.layout import get_round, newest_round, places
from tests.runner.test_reference import plan


def test_places_follow_the_round(tmp_path: Path) -> None:
    names = (tmp_path, "open", "Me", "box", "digits", "Server", "onnxruntime")
    old, new = places(get_round("5.1"), *names), places(get_round("v6.1"), *names)
    assert old.measurements == tmp_path / "open/Me/measurements/box/digits/Server"
    assert old.measurements_name == "box_onnxruntime_Server.json"
    assert old.compliance == tmp_path / "open/Me/compliance/box/digits/Server"
    assert old.code == tmp_path / "open/Me/code/digits/onnxruntime"
    assert new.result == new.measurements == new.compliance == old.result
    assert new.measurements_name == "measurements.json"
    assert new.code == tmp_path / "open/Me/src/digits/onnxruntime"
    assert new.mapping == tmp_path / "open/Me/model_mapping.json"
    closed = places(get_round("v6.1"), tmp_path, "closed", *names[2:])
    assert closed.mapping is None
    with pytest.raises(SettingsError, match="known rounds"):
        get_round("v9.9")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits, repeated to ImageNet's size: what the round's data set check wants to see."""
    path, digits = tmp_path_factory.mktemp("data") / "many.npz", Digits()
    np.savez(path, images=np.tile(digits.images, (100, 1, 1)), labels=np.tile(digits.labels, 100))
    return path


@pytest.mark.parametrize("round", ["v5.1", "v6.1"])
def test_a_mapped_benchmark_is_clean_but_for_its_length(
    round: str, many: Path, tmp_path: Path
) -> None:
    (outcome,) = run_benchmark(
        plan(
            tmp_path / "tree",
            scenarios=("Offline",),
            division="open",
            round=round,
            task="resnet",
            renamed=True,
            gate=None,
            data=many,
            performance_sample_count=1024,
            attempts=5,
        )
    )
    assert outcome.status == "valid", outcome.message
    mapping = json.loads((tmp_path / "tree/open/Assay/model_mapping.json").read_text())
    assert mapping == {"digits-as-resnet": "resnet"}
    report = check(str(tmp_path / "tree"), Options(round=round, jobs=1), version="test")
    (result,) = report.results
    assert result.benchmark == "resnet" and result.directory == "digits-as-resnet"
    errors = {f.rule for f in report.findings if f.severity == "error"}
    assert errors == {"P106"}  # min_duration: the round asks for ten minutes
    warnings = {f.rule for f in report.findings if f.severity == "warning"}
    assert warnings <= ({"P128"} if round == "v5.1" else set())  # LoadGen of another round


def test_documents_speak_of_every_benchmark(tmp_path: Path) -> None:
    from runner.submission import _section

    path = tmp_path / "calibration.md"
    _section(path, "# Head\n\nIntroduction.\n", "a", "First.")
    _section(path, "# Head\n", "b", "Second.")
    _section(path, "# Head\n", "a", "Changed.")
    text = path.read_text()
    assert text.startswith("# Head\n\nIntroduction.\n")
    assert text.count("## a\n") == 1 and "Changed." in text and "First." not in text
    assert "## b\n\nSecond." in text
    before = text
    _section(path, "# Head\n", "b", "Second.")
    assert path.read_text() == before


def test_the_newest_round_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.layout.round_names", lambda: ["v6.0", "v6.1", "v6.2", "demo"])
    assert newest_round() == "v6.2"
