"""What fuzzing found stays found, and the fuzzers themselves work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.corpus import corpus_root
from tests.fuzz.parsers import PARSERS
from tests.fuzz.seeds import seeds
from tests.fuzz.trees import damage_trees

FOUND = Path(__file__).parent / "found"

# Inputs that were found by hand or by the fuzzers and are too large, or too plain, to keep as files.
MADE: dict[str, list[bytes]] = {
    "detail": [
        b'"pid" : 1, "tid" : 1, "ts" : ' + b"9" * 999 + b"ns : version : 1\n",
        b':::MLLOG {"key": "k", "value": ' + b"9" * 5000 + b"}\n",
        b':::MLLOG {"key": "k", "value": 1, "metadata": {"pid": ' + b"9" * 500 + b"}}\n",
        b':::MLLOG {"key": "loaded_qsl_set", "value": [' + b"1, " * 4000 + b'\0], "time_ms": 1}\n',
        b":::MLLOG " + b"[" * 100_000,
        b':::MLLOG {"key": "k", "value": "\\ud800"}\n',
    ],
    "summary": [
        b"9" * 5000 + b" ERRORS encountered. See detailed log.\n",
        b"Samples per second: " + b"9" * 5000 + b"\n",
        b"performance_sample_count : " + b"9" * 500 + b"\n",
    ],
    "endpoints": [
        b"[" * 16_000, b"{" * 50_000, b'a: !!int ""\n', b"a: !!python/object:os.system x\n",
        b"a: &a [*a]\n", b"? " * 5000, b"a: " + b"9" * 5000, b"--- " * 1000, b"a: 2026-99-99\n",
    ],
    "documents": [b"[" * 100_000, b'{"a": ' * 50_000, b"9" * 5000, b'{"a": 1e999, "b": NaN}'],
    "verify": [b"total=" + b"9" * 5000, b"num_acc_log_entries = " + b"9" * 5000 + b"\n"],
    "user_conf": [b"*.Offline.target_qps = " + b"9" * 5000, b"=" * 5000, b"." * 5000 + b"= 1"],
    "accuracy_txt": [b"accuracy=" + b"9" * 5000 + b"%", b"{'a': " * 5000, b"hash=" + b"0" * 5000],
    "accuracy_log": [b"[" * 50_000, b'[\n{"seq_id": ' + b"9" * 5000 + b', "qsl_idx": 0, "data": "00"}\n]'],
    "power": [b"Time," + b"9" * 5000 + b",Watts,nan,\n--\n" + b"[" * 9000 + b"\n--\n{}\n--\n" + b":" * 9000],
    "report": [b'{"a":' * 100_000, b"9" * 5000],
    "waivers": [b"a = " + b"[" * 9000, b"a = " + b"9" * 5000, b"a." * 4000 + b"b = 1"],
    "zip": [b"PK\x05\x06" + b"\xff" * 18, b"PK\x05\x06" + bytes(18)],
    "tar": [b"\0" * 512, b"\0" * 1024, b"", b"x" * 512],
}  # fmt: skip
SLOWEST_S = 10


def _inputs() -> Iterator[tuple[str, str, bytes]]:
    for parser, contents in MADE.items():
        for number, content in enumerate(contents):
            yield parser, f"{parser}-{number}", content
    for place in sorted(FOUND.iterdir()):
        if place.suffix != ".md":
            yield place.name.split("-")[0], place.name, place.read_bytes()


@pytest.mark.parametrize(("parser", "content"), [
    pytest.param(parser, content, id=name) for parser, name, content in _inputs()
])  # fmt: skip
def test_found(parser: str, content: bytes) -> None:
    """No input ends a parser, nor keeps it busy."""
    began = time.monotonic()
    PARSERS[parser](content)
    assert time.monotonic() - began < SLOWEST_S


def test_every_parser_has_seeds_and_reads_them(tmp_path: Path) -> None:
    start = seeds(tmp_path)
    assert set(start) == set(PARSERS)
    for name, contents in start.items():
        assert contents
        for content in contents[:5]:
            PARSERS[name](content)


def test_damaged_trees() -> None:
    """A short run of what `make fuzz` does at length; the same trees each time."""
    tried = damage_trees(120, seed=24, seconds=60, real=False)
    assert tried.counts.total() > 60
    assert tried.wrong == []


@pytest.mark.corpus
@pytest.mark.skipif(corpus_root() is None, reason="no real submissions: set ASSAY_CORPUS")
def test_damaged_real_trees() -> None:
    """The same with small submissions of every round."""
    tried = damage_trees(150, seed=7, seconds=120)
    assert tried.counts.total() > 60
    assert tried.wrong == []
