"""Very many results: what is kept of each is small, and no verdict depends on how it is kept."""

from __future__ import annotations

import os
import pickle
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from checker import cache as caching
from checker.cache import Cache
from checker.engine import Options, check
from checker.parse import reading
from checker.parse.reading import Folder, list_tree
from checker.sharing import Sharing
from checker.unit import Outcome
from reports import pieces, render
from schemas.report import Finding, Limits, Metric, Result, RunFacts, encode
from tools.bench.many import BROKEN, make


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every result's folder is packed, as in a tree of hundreds of thousands of entries."""
    monkeypatch.setattr(reading, "LARGE", 0)


def _told(folder: Folder) -> list[object]:
    return [
        (here.path, here.link, list(here.folders), list(here.files.values()), here.faults)
        for here in folder.walk()
    ]


def test_a_packed_listing_says_what_a_whole_one_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With links inside and out, a link to a folder, a name that is not text, an empty folder."""
    for path in (
        "r/s/b/Offline/performance/run_1/log",
        "r/s/b/Offline/accuracy/x",
        "r/s/b/other/y",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    here = tmp_path / "r/s/b/Offline"
    (here / "empty").mkdir()
    (here / "accuracy/inside").symlink_to(tmp_path / "r/s/b/other/y")
    (here / "accuracy/outside").symlink_to("/etc/hostname")
    (here / "again").symlink_to(here / "performance")
    undecodable = tmp_path / "r/s/b/Server/performance"
    undecodable.mkdir(parents=True)
    (undecodable / os.fsdecode(b"\xff.txt")).write_text("z")
    whole = list_tree(tmp_path)
    assert not any(folder.is_packed for folder in whole.walk())
    monkeypatch.setattr(reading, "LARGE", 0)
    found = list_tree(tmp_path)
    group = found.at("r/s/b")
    assert group is not None
    assert [(n, f.is_packed) for n, f in group.folders.items()] == [
        ("Offline", True),
        ("Server", False),  # what cannot be packed stays whole
        ("other", False),
    ]
    assert _told(found) == _told(whole) == _told(pickle.loads(pickle.dumps(found)))
    assert found.file_at("r/s/b/Offline/accuracy/x") == whole.file_at("r/s/b/Offline/accuracy/x")


def test_many_results_are_judged_right_and_alike(
    tmp_path: Path, packed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known results are broken, each in one of several ways: those are invalid and no others."""
    tree = tmp_path / "submission"
    broken = make(tree, 60, 2 * len(BROKEN))
    cache = Cache(tmp_path / "cache")
    report = check(tree, Options(jobs=1))
    assert {r.key for r in report.results if r.status == "invalid"} == broken
    assert len(report.results) == 60 and len(broken) == 2 * len(BROKEN)
    expected = encode(report)
    assert encode(check(tree, Options(jobs=2))) == expected
    monkeypatch.setattr(caching, "SETTLED_NS", -1_000_000_000_000)
    for known in (0, 60):
        remembered = Options(jobs=2, cache=cache)
        assert encode(check(tree, remembered)) == expected
        assert cache.found >= known
    monkeypatch.setattr(reading, "LARGE", 10**9)
    assert encode(check(tree, Options(jobs=1, cache=cache))) == expected


def test_memory_of_a_result(tmp_path: Path, packed: None) -> None:
    """What grows with the results is under 12.5 kB for each, the last descriptions read included
    (11.0 to 11.4 kB, by the length of the folder's path and by when garbage is collected); writing
    the report piece by piece gives what `render` gives."""
    few, many = 40, 240
    for count in (few, many):
        make(tmp_path / str(count), count, 0)
    check(tmp_path / str(few), Options(jobs=1))  # imports, tables
    tracemalloc.start()
    try:
        peaks = {}
        for count in (few, many):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            report = check(tmp_path / str(count), Options(jobs=1))
            peaks[count] = tracemalloc.get_traced_memory()[1] - before
            assert report.summary.valid == count
        assert (peaks[many] - peaks[few]) / (many - few) < 12_500
        for format in ("json", "csv"):
            size = sum(len(piece) for piece in pieces(report, format))
            assert size == len(render(report, format))
    finally:
        tracemalloc.stop()


def test_what_looks_equal_is_not_always_shared() -> None:
    """1 and 1.0 are written in two ways, and a report says what each result says."""
    sharing = Sharing()

    def outcome(limit: float, key: str) -> Outcome:
        row = Result(
            "closed", "A", "s", "b", "b", "Offline", None, "valid", Metric("m", 1.0, "u"), [], None, None,
            "p", 1, limits=Limits(ttft_ms=limit), key=key,
            runs=[RunFacts("performance", "p", settings={"target_qps": limit})],
        )  # fmt: skip
        finding = Finding("P101", "x", "error", "m", "p", results=(key,), invalidates=(key,))
        return Outcome(row, [finding])

    given = [outcome(2, "a"), outcome(2.0, "b"), outcome(2, "c")]
    kept = [sharing.outcome(one, one.row.key) for one in given]
    assert [msgspec.json.encode(one) for one in kept] == [msgspec.json.encode(one) for one in given]
    assert kept[0].row.limits is kept[2].row.limits
    assert kept[0].row.runs[0].settings is kept[2].row.runs[0].settings
