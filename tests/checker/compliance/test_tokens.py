"""TEST06, TEST07, TEST09: what token records say."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import pytest

from checker.compliance.tokens import END_TOKENS, end_tokens, read_tokens


def row(index: int, tokens: list[int], *, wide: bool = False, **more: Any) -> dict[str, Any]:
    data = struct.pack(f"<{len(tokens)}{'q' if wide else 'i'}", *tokens).hex()
    return {"seq_id": index, "qsl_idx": index, "data": data, **more}


def log(*rows: dict[str, Any]) -> io.BytesIO:
    return io.BytesIO(json.dumps(list(rows)).encode())


@pytest.mark.parametrize("wide", [False, True])
def test_good_answers(wide: bool) -> None:
    first = (struct.pack("<q", 5) if wide else struct.pack("<i", 5)).hex()
    found = read_tokens(
        log(
            row(0, [5, 6, 2], wide=wide, token_count=3, token_data=first),
            row(1, [5, 6, 7, 8, 2], wide=wide, token_count=5, token_data=first),
        ),
        ends=(2,),
    )
    assert (found.records, found.samples, found.counted, found.first_checked) == (2, 2, 2, 2)
    assert (found.mean, found.shortest, found.longest, found.passed) == (4.0, 3, 5, True)


def test_wrong_length() -> None:
    found = read_tokens(log(row(3, [5, 6, 2], token_count=4)))
    assert (found.length_failures, found.length_differs, found.passed) == (1, [3], False)


def test_wrong_first_token() -> None:
    found = read_tokens(log(row(3, [5, 6, 2], token_data="06000000", token_count=3)))
    assert (found.first_failures, found.first_differs, found.passed) == (1, [3], False)


def test_repeated_end() -> None:
    rows = log(row(3, [5, 2, 2], token_count=3)), log(row(3, [5, 7, 7], token_count=3))
    assert read_tokens(rows[0], ends=(2,)).end_failures == 1
    # A repeated word at the end is an answer like any other.
    assert read_tokens(rows[1], ends=(2,)).end_failures == 0


def test_nothing_is_no_verdict() -> None:
    assert read_tokens(io.BytesIO(b"[]")).passed is None
    assert read_tokens(io.BytesIO(b"[]")).mean is None


def test_samples_are_counted_once() -> None:
    found = read_tokens(log(row(1, [5]), row(1, [6]), row(2, [7])))
    assert (found.records, found.samples, found.duplicates) == (3, 2, 1)


def test_odd_data_is_no_traceback() -> None:
    found = read_tokens(
        log(row(1, []), {"seq_id": 0, "qsl_idx": 2, "data": "aabbcc", "token_count": 1})
    )
    assert found.empty == 2 and found.length_failures == 1


def test_end_tokens_of_benchmarks() -> None:
    from schemas.load import load_round, round_names

    names = {b for r in round_names() for b in load_round(r).benchmarks}
    assert end_tokens(None) == () and end_tokens("resnet") == ()
    for prefix in END_TOKENS:
        assert any(name.startswith(prefix) for name in names), prefix
