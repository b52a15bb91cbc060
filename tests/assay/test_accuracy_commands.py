"""`assay accuracy`, `assay truncate` and `assay check --data` on small logs made here."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import pytest

import assay
from assay.cli import main
from tests.trees import good_tree


def write_log(path: Path, answers: list[bytes]) -> None:
    lines = [
        f'{{ "seq_id" : {i}, "qsl_idx" : {i}, "data" : "{data.hex().upper()}" }}'
        for i, data in enumerate(answers)
    ]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


SIZE = 50_000


def truth(folder: Path, labels: list[int]) -> None:
    lines = (f"image{i}.jpg {n}\n" for i, n in enumerate(labels))
    (folder / "val_map.txt").write_text("".join(lines))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Fifty thousand answers, as many as ImageNet has, of which nine tenths are right."""
    folder = tmp_path / "accuracy"
    folder.mkdir()
    labels = [n % 1000 for n in range(SIZE)]
    answers = [n if i % 10 else (n + 1) % 1000 for i, n in enumerate(labels)]
    write_log(folder / "mlperf_log_accuracy.json", [struct.pack("<i", n) for n in answers])
    truth(tmp_path, labels)
    return folder


def test_top1_is_computed_and_held_against_the_gate(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(run.parent)
    arguments = ["accuracy", str(run), "--benchmark", "resnet", "--data", data, "--round", "v6.0"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "accuracy=90.000%, good=45000, total=50000" in out
    assert "required >= 75.6954" in out
    assert "margin +14.3046" in out


def test_a_part_of_the_data_set_is_no_accuracy_run(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(run / "mlperf_log_accuracy.json", [struct.pack("<i", n) for n in range(10)])
    truth(run.parent, list(range(10)))
    assert main(["accuracy", str(run), "--benchmark", "resnet", "--data", str(run.parent)]) == 1
    out, err = capsys.readouterr()
    assert "accuracy=100.000%, good=10, total=10" in out
    assert "the data set has 50,000" in err


def test_missed_gate_exits_1(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth(run.parent, [8] * SIZE)
    data = str(run.parent / "val_map.txt")
    assert main(["accuracy", str(run), "--benchmark", "resnet50", "--data", data]) == 1
    assert "INVALID" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--benchmark", "no-such", "--data", "."], "no-such"),
        (["--benchmark", "resnet", "--data", "nowhere"], "val_map.txt"),
        (["--benchmark", "resnet"], "val_map.txt"),
        (["--benchmark", "resnet", "--round", "v9.9", "--data", "."], "known rounds"),
        (["--benchmark", "resnet", "--data", ".", "--compare", "x"], "mlperf_log_accuracy.json"),
    ],
)
def test_what_cannot_be_computed_exits_2(
    run: Path,
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(run)
    assert main(["accuracy", str(run), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_truncated_log_says_so_and_the_backup_helps(
    run: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = run / "mlperf_log_accuracy.json"
    whole = hashlib.sha256(log.read_bytes()).hexdigest()
    (run / "accuracy.txt").write_text("accuracy=90.000%, good=45000, total=50000\n")
    backup = tmp_path_factory.mktemp("backup") / "logs"
    assert main(["truncate", str(tmp_path), "--dry-run"]) == 0
    assert log.stat().st_size > 10240
    assert main(["truncate", str(tmp_path)]) == 2
    assert main(["truncate", str(tmp_path), "--backup", str(backup)]) == 0
    assert log.stat().st_size <= 10240
    assert f"hash={whole}" in (run / "accuracy.txt").read_text()
    before = (run / "accuracy.txt").read_text()
    assert main(["truncate", str(tmp_path), "--backup", str(backup)]) == 0
    assert (run / "accuracy.txt").read_text() == before
    capsys.readouterr()
    arguments = [
        "accuracy",
        str(run),
        "--benchmark",
        "resnet",
        "--data",
        str(tmp_path / "val_map.txt"),
    ]
    assert main(arguments) == 2
    assert "truncated" in capsys.readouterr().err
    assert main([*arguments, "--backup", str(backup)]) == 0
    out = capsys.readouterr().out
    assert "accuracy=90.000%, good=45000, total=50000" in out
    assert "equals the hash" in out


def test_detections_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = {
        "images": [{"id": 7, "height": 100, "width": 200, "file_name": "a.jpg"}],
        "categories": [{"id": 1, "name": "cup"}],
        "annotations": [
            {
                "id": 1,
                "image_id": 7,
                "category_id": 1,
                "bbox": [20, 10, 100, 50],
                "area": 5000,
                "iscrowd": 0,
            }
        ],
    }
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    for name, score in (("one", 0.9), ("two", 0.5)):
        folder = tmp_path / name
        folder.mkdir()
        box = struct.pack("<7f", 0, 0.1, 0.1, 0.6, 0.6, score, 1)
        write_log(folder / "mlperf_log_accuracy.json", [box])
    arguments = [
        "accuracy",
        str(tmp_path / "one"),
        "--benchmark",
        "ssd-small",
        "--data",
        str(tmp_path / "truth.json"),
        "--compare",
        str(tmp_path / "two"),
    ]
    assert main(arguments) == 0
    assert "boxes: 1 the same (0 with the same score)" in capsys.readouterr().out


def test_check_computes_accuracy_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = good_tree(tmp_path / "tree", round="v6.0", benchmark="resnet", scenarios=["Offline"])
    paths = tree.result("Offline")
    labels = [n % 1000 for n in range(100)]
    log = tree.root / paths.accuracy_log
    write_log(log, [struct.pack("<i", n) for n in labels])
    text = f"accuracy=100.000%, good=100, total=100\nhash={hashlib.sha256(log.read_bytes()).hexdigest()}\n"
    (tree.root / paths.accuracy_text).write_text(text)
    truth = tmp_path / "val_map.txt"
    truth.write_text("".join(f"i{i} {n}\n" for i, n in enumerate(labels)))
    arguments = [
        "check",
        str(tree.root),
        "--select",
        "A119",
        "--jobs",
        "1",
        "--data",
        f"resnet={truth}",
    ]
    assert main(arguments) == 0
    (tree.root / paths.accuracy_text).write_text(text.replace("100.000%", "99.000%"))
    assert main(arguments) == 1
    assert "expected 100, computed again from the log" in " ".join(capsys.readouterr().out.split())
    assert main(["check", str(tree.root), "--data", "resnet"]) == 2


def test_evaluate_is_public() -> None:
    found = assay.evaluate([1, 2, 3, 4], [1, 2, 3, 5], reference=76.0)
    assert found.score == 75.0
    assert found.target == pytest.approx(75.24)
    assert found.valid is False
    assert found.margin == pytest.approx(-0.24)


@pytest.mark.parametrize("reference", [0.76, 1.0, 7600.0, float("nan"), -1.0])
def test_evaluate_refuses_a_reference_in_another_unit(reference: float) -> None:
    """A reference of 0.76 against a score in percent would pass every gate."""
    with pytest.raises(ValueError, match="percent"):
        assay.evaluate([1, 2, 3, 4], [1, 2, 3, 5], reference=reference)


def test_detection_of_some_images_is_not_an_accuracy_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """inf#1285: the mAP of the images that were run says nothing of the others."""
    box = struct.pack("<7f", 0, 0.1, 0.1, 0.5, 0.5, 0.9, 1)
    truth = {
        "images": [{"id": i, "height": 100, "width": 100, "file_name": f"{i}.jpg"} for i in range(4)],
        "categories": [{"id": 1, "name": "person"}],
        "annotations": [
            {"id": i + 1, "image_id": i, "category_id": 1, "bbox": [10, 10, 40, 40], "area": 1600,
             "iscrowd": 0}
            for i in range(4)
        ],
    }  # fmt: skip
    (tmp_path / "annotations.json").write_text(json.dumps(truth))
    arguments = [
        "accuracy",
        str(tmp_path),
        "--benchmark",
        "retinanet",
        "--round",
        "v6.0",
        "--data",
        str(tmp_path),
    ]
    for answered in (2, 4):
        answers = [struct.pack("<f", i) + box[4:] for i in range(answered)]
        write_log(tmp_path / "mlperf_log_accuracy.json", answers)
        assert main(arguments) == 1
        out, err = capsys.readouterr()
        assert "valid" not in out.lower() and "not judged" in out
        assert "not a whole accuracy run" in err
        assert ("2 have no record" in err) == (answered == 2)


def test_truncating_a_tiny_log_names_no_backup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """inf#1419: a log below the limit is hashed where it is; nothing is copied."""
    place = tmp_path / "tree" / "accuracy"
    place.mkdir(parents=True)
    write_log(place / "mlperf_log_accuracy.json", [b"abcd"] * 8)
    backup = tmp_path / "whole"
    assert main(["truncate", str(tmp_path / "tree"), "--backup", str(backup)]) == 0
    out = capsys.readouterr().out
    assert ("whole logs are in" in out) == backup.exists()
    assert "1 of 1 done" in out and (place / "accuracy.txt").read_text().strip().startswith("hash=")
