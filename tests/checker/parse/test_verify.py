"""verify_*.txt: verdict lines, scores, counts and checks, in every round's wording."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checker.parse.reading import File
from checker.parse.verify import Verification, read_verification


def read(tmp_path: Path, text: str | bytes) -> Verification:
    path = tmp_path / "verify_accuracy.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_verification(File("x/verify_accuracy.txt", str(path), path.stat().st_size))


@pytest.mark.parametrize("word", ["reference", "Reference"])
def test_scores(word: str, tmp_path: Path) -> None:
    found = read(
        tmp_path, f"Verifying performance.\n{word} score = 2.5e+03\ntest score = 7\nTEST PASS\n"
    )
    assert found.scores == {"reference": 2500.0, "test": 7.0}
    assert (found.passes, found.fails, found.passed) == ([4], [], True)
    assert found.score_lines == {"reference": 2, "test": 3}


def test_pairs_of_old_rounds(tmp_path: Path) -> None:
    found = read(tmp_path, "TEST04-A score = 21.7\nTEST04-B score = 22.1\nTEST PASS")
    assert found.scores == {"test04-a": 21.7, "test04-b": 22.1}


def test_counts(tmp_path: Path) -> None:
    found = read(
        tmp_path, "num_acc_log_entries = 50000\nnum_perf_log_data_mismatch = 3\nTEST FAIL\n"
    )
    assert found.counts == {"num_acc_log_entries": 50000, "num_perf_log_data_mismatch": 3}
    assert found.count_lines["num_perf_log_data_mismatch"] == 2
    assert found.values == {} and not found.passed


def test_checks(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "First token check pass: Skipped\nEOS check pass: True\nSample length check pass: False\n"
        "Min check pass: True\n",
    )
    assert found.checks == {
        "first token": ("skipped", 1),
        "eos": ("true", 2),
        "sample length": ("false", 3),
        "min": ("true", 4),
    }


def test_values(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "Mean output tokens: 1373.90\nMin threshold: 1150.38\ntolerance = 0.10%\n"
        "Accuracy score: 61.01\nMean output tokens: 1300\n2026-02-10 21:55:11,288 - INFO - Row 0: 1\n",
    )
    assert found.values == {
        "mean output tokens": 1300.0,
        "min threshold": 1150.38,
        "tolerance": 0.1,
        "accuracy score": 61.01,
    }
    assert found.value_lines["mean output tokens"] == 5


def test_both_verdicts(tmp_path: Path) -> None:
    found = read(tmp_path, "TEST PASS\nTEST FAIL\n")
    assert found.passes == [1] and found.fails == [2] and not found.passed


def test_empty_is_a_fault(tmp_path: Path) -> None:
    assert [f.kind for f in read(tmp_path, " \n").faults] == ["empty"]


def test_missing_is_a_fault(tmp_path: Path) -> None:
    found = read_verification(File("x/verify.txt", str(tmp_path / "none"), 1))
    assert len(found.faults) == 1 and not found.passed


def test_many_values_are_bounded(tmp_path: Path) -> None:
    found = read(tmp_path, "".join(f"Name{i}: 1\n" for i in range(5000)))
    assert len(found.values) == 500


@given(st.binary(max_size=300))
def test_any_bytes_are_read(tmp_path: Path, data: bytes) -> None:
    read(tmp_path, data)
