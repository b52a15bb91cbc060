"""What fuzzing found stays found, and the fuzzers themselves work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.corpus import corpus_root
from tests.fuzz.made import MADE
from tests.fuzz.parsers import PARSERS
from tests.fuzz.seeds import seeds
from tests.fuzz.trees import damage_trees

FOUND = Path(__file__).parent / "found"

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
