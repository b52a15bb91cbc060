from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checker.accuracy.log import LogReader, Record, read_log, read_samples
from checker.accuracy.problem import AccuracyError
from checker.audit.answer_log import read_records
from checker.parse.reading import File
from tests.checker.accuracy.conftest import Writer, log_bytes


def read(raw: bytes, chunk: int = 1 << 20) -> tuple[list[Record], LogReader]:
    reader = LogReader(io.BytesIO(raw), sha256=True, chunk=chunk)
    return list(reader), reader


def kinds(reader: LogReader) -> list[str]:
    return [problem.kind for problem in reader.problems]


RECORDS = [(at * 7 % 100, bytes([at, 255 - at]) * (at % 5)) for at in range(100)]


def test_reads_loadgens_own_form() -> None:
    raw = log_bytes(RECORDS)
    records, reader = read(raw)
    assert [(r.qsl_idx, r.data) for r in records] == RECORDS
    assert [r.seq_id for r in records] == list(range(100))
    assert reader.problems == [] and not reader.truncated
    assert reader.sha256 == hashlib.sha256(raw).hexdigest()
    assert reader.size == len(raw) and reader.records == 100


@pytest.mark.parametrize("chunk", [64, 65, 100, 1000])
def test_records_across_chunk_borders(chunk: int) -> None:
    raw = log_bytes([(at, os.urandom(at * 3)) for at in range(60)])
    assert read(raw, chunk)[0] == read(raw)[0]
    assert read(raw, chunk)[1].problems == []


def test_tokens_lower_case_one_line_and_other_key_order() -> None:
    raw = (
        b'[{"seq_id":0,"qsl_idx":3,"data":"abCD","token_data":"0a00","token_count":2},'
        b'{"qsl_idx": 4, "data": "", "seq_id": 1},{\r\n"seq_id" : 2 ,\t"qsl_idx":5,"data":"FF"\n}]'
    )
    records, reader = read(raw)
    assert records == [
        Record(0, 3, b"\xab\xcd", 2, b"\x0a\x00"),
        Record(1, 4, b""),
        Record(2, 5, b"\xff"),
    ]
    assert reader.problems == []


def test_tokens_as_loadgen_writes_them() -> None:
    raw = (
        b'[\n{ "seq_id" : 0, "qsl_idx" : 3, "data" : "7787", "token_data" : "D002", '
        b'"token_count" : 134 }\n]\n'
    )
    assert read(raw)[0] == [Record(0, 3, b"\x77\x87", 134, b"\xd0\x02")]


def test_missing_footer_is_told_and_not_truncation() -> None:
    records, reader = read(log_bytes(RECORDS, footer=False))
    assert len(records) == 100
    assert kinds(reader) == ["no-footer"] and not reader.truncated


def test_log_that_stops_inside_a_record() -> None:
    records, reader = read(log_bytes(RECORDS)[:-20])
    assert len(records) == 99
    assert reader.truncated and kinds(reader) == ["cut"]


@pytest.mark.parametrize("cut", [4096, 4090, 4050, 4030])
def test_published_truncation(cut: int) -> None:
    raw = log_bytes([(at, b"\x01\x02\x03\x04") for at in range(1000)])
    records, reader = read(raw[:cut] + b"\n\n...\n\n" + raw[-4096:], 100)
    assert reader.truncated and kinds(reader) == ["gap"]
    assert 100 < len(records) < 200
    assert reader.gap_offset == cut + 1
    assert all(r.data == b"\x01\x02\x03\x04" for r in records)


def test_one_record_of_which_only_the_ends_are_left() -> None:
    raw = log_bytes([(0, bytes(50_000))])
    records, reader = read(raw[:4096] + b"\n\n...\n\n" + raw[-4096:])
    assert records == [] and kinds(reader) == ["gap", "empty"]


def test_malformed_records_do_not_take_their_neighbours_along() -> None:
    raw = (
        b'[\n{ "seq_id" : 0, "qsl_idx" : 0, "data" : "00" },\n'
        b'{ "seq_id" : 1, "qsl_idx" : 1, "data" : "0" },\n'
        b'{ "seq_id" : 2, "qsl_idx" : 2, "data" : "ZZ" },\n'
        b'{ "seq_id" : 3, "qsl_idx" : -3, "data" : "00" },\n'
        b'{ "seq_id" : 4, "qsl_idx" : 4, "data" : "00, \n'
        b'{ "seq_id" : 5, "qsl_idx" : 5, "data" : "05" },\n'
        b'{ "seq_id" : 6, "nested": {"a": 1}, "qsl_idx" : 6, "data" : "05" },\n'
        b'nonsense { "seq_id" : 7, "qsl_idx" : 7, "data" : "07" }\n]\n'
    )
    records, reader = read(raw)
    assert [r.qsl_idx for r in records] == [0, 5, 7]
    assert set(kinds(reader)) == {"not-hex", "malformed"}


@pytest.mark.parametrize("raw", [b"", b"[\n]\n", b"[", b"{}", b"\x00" * 200, b"]"])
def test_logs_without_a_record(raw: bytes) -> None:
    records, reader = read(raw)
    assert records == [] and "empty" in kinds(reader)


def test_endless_record_is_left_out() -> None:
    raw = b'[{ "seq_id" : 0, "qsl_idx" : 0, "data" : "' + b"00" * 5000 + b'" },\n'
    raw += b'{ "seq_id" : 1, "qsl_idx" : 1, "data" : "01" }\n]\n'
    reader = LogReader(io.BytesIO(raw), max_record=1000, chunk=128)
    assert [r.qsl_idx for r in reader] == [1]
    assert kinds(reader) == ["too-long"]


def test_deep_nesting_is_a_problem_not_a_crash() -> None:
    raw = b'[{"qsl_idx": 1, "x": ' + b"[" * 200_000 + b"]" * 200_000 + b', "data": ""}]'
    records, reader = read(raw)
    assert records == [] and "malformed" in kinds(reader)


def test_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(AccuracyError):
        read_log(tmp_path)
    with pytest.raises(AccuracyError):
        read_log(tmp_path / "absent")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(AccuracyError):
        read_log(fifo)


def test_progress_counts_bytes(write_log: Writer) -> None:
    path = write_log(RECORDS)
    seen: list[tuple[int, int]] = []
    read_log(path, progress=lambda done, total: seen.append((done, total))).drain()
    size = path.stat().st_size
    assert seen[-1] == (size, size)


def test_samples_once_each_with_repeats_and_holes(write_log: Writer) -> None:
    path = write_log([(0, b"a"), (1, b"b"), (1, b"b"), (0, b"x"), (9, b"c"), (3, b"d")])
    samples = read_samples(path, expected=5)
    assert [(r.qsl_idx, r.data) for r in samples] == [(0, b"a"), (1, b"b"), (3, b"d")]
    assert samples.duplicates == 2 and samples.missing == 2
    found = {p.kind: (p.count, p.index) for p in samples.problems}
    assert found == {"contradiction": (1, 0), "surplus": (1, 9), "missing": (2, 2)}


def test_samples_of_a_data_set_of_unknown_size(write_log: Writer) -> None:
    samples = read_samples(write_log([(0, b""), (70_000, b"a"), (10**17, b"b")]))
    assert [r.qsl_idx for r in samples] == [0, 70_000]
    assert {p.kind: p.count for p in samples.problems} == {"surplus": 1, "missing": 69_999}


@given(st.binary(max_size=600), st.integers(64, 200))
def test_any_bytes_can_be_read(raw: bytes, chunk: int) -> None:
    records, reader = read(raw, chunk)
    assert reader.size == len(raw)
    assert all(r.qsl_idx >= 0 for r in records)


GOOD = log_bytes([(at, bytes([at]) * 4) for at in range(12)])
PIECES = st.sampled_from(
    [b"{", b"}", b'"', b"[", b"]", b",", b"\\", b"\n\n...\n\n", b'"data"', b"\xff", b"0", b" " * 90]
)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, len(GOOD)), st.integers(0, 30), PIECES), max_size=6),
    st.integers(64, 300),
)
def test_edited_logs_can_be_read_at_any_chunk_size(
    edits: list[tuple[int, int, bytes]], chunk: int
) -> None:
    raw = GOOD
    for at, drop, put in edits:
        raw = raw[:at] + put + raw[at + drop :]
    whole, one = read(raw)
    split, two = read(raw, chunk)
    assert whole == split
    assert one.truncated == two.truncated
    if not edits:
        assert len(whole) == 12 and not one.problems


@given(st.integers(1, len(GOOD) - 4))
def test_every_cut_before_the_end_is_noticed(at: int) -> None:
    records, reader = read(GOOD[:at])
    assert reader.truncated or "no-footer" in kinds(reader)
    assert len(records) <= 12


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """200 MB of records of 3 MB each, and small ones: less than 120 MB of growth."""
    path = tmp_path / "mlperf_log_accuracy.json"
    big = os.urandom(3 << 20).hex().encode()
    with path.open("wb") as out:
        out.write(b"[\n")
        for at in range(25):
            out.write(b'{ "seq_id" : %d, "qsl_idx" : %d, "data" : "%s" },\n' % (at, at, big))
        small = b"".join(
            b'{ "seq_id" : 1, "qsl_idx" : %d, "data" : "0080F843" },\n' % at for at in range(50_000)
        )
        for _ in range(15):
            out.write(small)
    assert path.stat().st_size > 190_000_000
    script = textwrap.dedent(
        """
        import resource, sys
        from checker.accuracy.log import read_samples
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        samples = read_samples(sys.argv[1])
        count = sum(1 for _ in samples)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
        print(count, grown)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).resolve().parents[3],
    )
    count, grown = map(int, done.stdout.split())
    assert count == 50_000
    assert grown < 120, f"{grown} MB"


@pytest.mark.parametrize("chunk", [64, 4100, 1 << 20])
def test_a_truncated_log_with_converted_line_ends_is_the_same_log(
    chunk: int, tmp_path: Path
) -> None:
    """Published logs of v3.0 and v5.1 were truncated, then converted to CRLF."""
    raw = log_bytes([(at, os.urandom(40)) for at in range(300)])
    published = raw[:4096] + b"\n\n...\n\n" + raw[-4096:]
    converted = published.replace(b"\n", b"\r\n")
    plain, with_cr = read(published, chunk), read(converted, chunk)
    assert with_cr[0] == plain[0] and len(plain[0]) > 40
    assert with_cr[1].truncated
    assert kinds(with_cr[1]) == kinds(plain[1]) == ["gap"]
    path = tmp_path / "mlperf_log_accuracy.json"
    path.write_bytes(converted)
    records = read_records(File(path.name, str(path), len(converted)))
    assert records.cut and len(records.pairs) == len(plain[0])
