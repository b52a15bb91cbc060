"""TEST01 and TEST08: answers compared sample by sample, whole, cut and contradictory logs."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checker.compliance.answers import verify_accuracy, verify_values


def log(rows: list[tuple[int, str]], *, cut: bool = False) -> io.BytesIO:
    lines = [
        f'{{ "seq_id" : {n}, "qsl_idx" : {index}, "data" : "{data}" }}'
        for n, (index, data) in enumerate(rows)
    ]
    if cut:
        half = len(lines) // 2
        text = (
            "[\n" + ",\n".join(lines[:half]) + ",\n\n...\n\n" + ",\n".join(lines[half:]) + "\n]\n"
        )
    else:
        text = "[\n" + ",\n".join(lines) + "\n]\n"
    return io.BytesIO(text.encode())


MAIN = [(i, f"{i:08X}") for i in range(100)]


def test_equal_answers_pass() -> None:
    found = verify_accuracy(log(MAIN), log([MAIN[7], MAIN[3], MAIN[99]]))
    assert (found.reference_records, found.test_records, found.compared) == (100, 3, 3)
    assert (found.mismatched, found.missing, found.duplicates) == (0, 0, 0)
    assert found.whole and found.passed is True


def test_another_answer_fails() -> None:
    found = verify_accuracy(log(MAIN), log([MAIN[7], (3, "DEADBEEF")]))
    assert (found.compared, found.mismatched, found.samples) == (2, 1, [3])
    assert found.passed is False


def test_hexadecimal_in_either_case_is_one_answer() -> None:
    assert verify_accuracy(log([(0, "ABCDEF00")]), log([(0, "abcdef00")])).passed is True


def test_unknown_sample_is_missing_in_a_whole_log_only() -> None:
    assert verify_accuracy(log(MAIN), log([(500, "00000000")])).missing == 1
    cut = verify_accuracy(log(MAIN, cut=True), log([(500, "00000000")]))
    assert (cut.missing, cut.compared, cut.passed) == (0, 0, None)
    assert "0 of 1 answers" in cut.describe() and "accuracy log is cut" in cut.describe()


def test_cut_logs_compare_what_both_show() -> None:
    found = verify_accuracy(log(MAIN, cut=True), log([MAIN[1], MAIN[98]], cut=True))
    assert found.compared == 2 and found.passed is True and not found.whole


def test_repeats_are_counted() -> None:
    """Pads of MultiStream repeat a sample: the same answer is fine, another one is not."""
    found = verify_accuracy(log(MAIN), log([MAIN[3], MAIN[3], (3, "FFFFFFFF")]))
    assert (found.duplicates, found.contradictions, found.mismatched) == (2, 1, 1)
    found = verify_accuracy(log([*MAIN, (3, "FFFFFFFF")]), log([MAIN[3]]))
    assert (found.reference_duplicates, found.reference_contradictions) == (1, 1)
    assert found.passed is False


def test_empty_test_log_is_no_pass() -> None:
    assert verify_accuracy(log(MAIN), io.BytesIO(b"[\n]\n")).passed is False


def test_values_within_tolerance(tmp_path: Path) -> None:
    def value(*numbers: float) -> str:
        return struct.pack(f"<{len(numbers)}f", *numbers).hex()

    main = log([(0, value(1.0, 2.0)), (1, value(5.0))])
    assert verify_values(main, log([(0, value(1.0005, 2.0))])).passed is True
    main.seek(0)
    assert verify_values(main, log([(0, value(1.01, 2.0))])).mismatched == 1
    main.seek(0)
    assert verify_values(main, log([(1, value(5.0, 5.0))])).mismatched == 1
    path = tmp_path / "log.json"
    path.write_bytes(log([(0, value(1.0))]).getvalue())
    assert verify_values(path, path).passed is True


@given(
    st.dictionaries(st.integers(0, 5000), st.binary(min_size=1, max_size=12), max_size=40),
    st.randoms(),
)
def test_a_log_agrees_with_any_order_of_itself(answers: dict[int, bytes], random: object) -> None:
    rows = [(index, data.hex()) for index, data in answers.items()]
    other = list(rows)
    random.shuffle(other)  # type: ignore[attr-defined]
    found = verify_accuracy(log(rows), log(other))
    assert found.mismatched == found.missing == 0
    assert found.passed is bool(rows)


@pytest.mark.parametrize("data", [b"", b"\x00", b"[", b"{}", b"not json", b'[\n{ "seq_id" : 1'])
def test_any_bytes_are_compared(data: bytes) -> None:
    verify_accuracy(io.BytesIO(data), io.BytesIO(data))
