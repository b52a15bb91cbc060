"""Published logs: every loaded set, schedule and order must follow from the seeds in the log.

The rounds are read straight from their archives under ASSAY_CORPUS (default: ../shared), so nothing
is unpacked.
"""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from checker.replay import (
    Agreement,
    Disagreement,
    MissingFact,
    NotReplayed,
    Outcome,
    RunFacts,
    check_loaded_set,
    check_query_order,
    check_sampling,
    check_schedule,
)

pytestmark = pytest.mark.corpus

_REPOSITORY = Path(__file__).resolve().parents[3]
_CORPUS = Path(os.environ.get("ASSAY_CORPUS", _REPOSITORY.parent / "shared"))
# The comma behind the index keeps out numbers that are cut in the middle of a truncated log.
_RECORD = re.compile(rb'"seq_id"\s*:\s*(\d+)\s*,\s*"qsl_idx"\s*:\s*(\d+)\s*,')
_DETAIL, _ACCURACY = "mlperf_log_detail.txt", "mlperf_log_accuracy.json"
# Enough for all but the largest runs, which take seconds each.
_LIMIT = 10_000_000


def archive(name: str) -> Path:
    for folder in (_CORPUS, _CORPUS / "corpus"):
        path = folder / f"{name}.tar.xz"
        if path.is_file():
            return path
    pytest.skip(f"no {name}.tar.xz under {_CORPUS}: set ASSAY_CORPUS to a folder with the rounds")


@lru_cache(maxsize=1)
def logs(path: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with tarfile.open(path) as tar:
        for member in tar:
            if member.isfile() and PurePosixPath(member.name).name in (_DETAIL, _ACCURACY):
                stream = tar.extractfile(member)
                assert stream is not None
                found[str(PurePosixPath(member.name))] = stream.read()
    return found


def runs(name: str) -> Iterator[tuple[str, RunFacts, dict[str, list[Any]], list[tuple[int, int]]]]:
    """Path, facts, all values and accuracy records of every run with a detail log."""
    every = logs(archive(name))
    for path, text in sorted(every.items()):
        if not path.endswith(_DETAIL):
            continue
        values: dict[str, list[Any]] = {}
        for line in text.splitlines():
            if line.startswith(b":::MLLOG"):
                entry = json.loads(line[len(b":::MLLOG") :])
                values.setdefault(entry["key"], []).append(entry["value"])
        try:
            facts = RunFacts.from_log({key: found[-1] for key, found in values.items()})
        except MissingFact:
            continue
        folder = PurePosixPath(path).parent
        beside = every.get(str(folder / _ACCURACY))
        if beside is None and any(part.startswith("TEST") for part in folder.parts):
            # The accuracy log of a compliance run is published in a folder of its own.
            beside = every.get(str(folder.parent.parent / "accuracy" / _ACCURACY))
        records = [(int(a), int(b)) for a, b in _RECORD.findall(beside or b"")]
        yield path, facts, values, records


@pytest.mark.parametrize(("name", "logs_expected"), [("v6.0", 318), ("v5.1", 173)])
def test_round_agrees(name: str, logs_expected: int) -> None:
    counted: Counter[str] = Counter()
    differences: list[str] = []

    def note(kind: str, path: str, outcome: Outcome) -> None:
        counted[f"{kind} {type(outcome).__name__}"] += 1
        if isinstance(outcome, Disagreement) or (
            isinstance(outcome, NotReplayed) and f"more than {_LIMIT}" not in outcome.reason
        ):
            differences.append(f"{kind}: {path}: {outcome}")

    for path, facts, values, records in runs(name):
        sets = values["loaded_qsl_set"]
        note("loaded set", path, check_loaded_set(facts, sets))
        schedule = check_schedule(
            facts,
            sets,
            values["generated_query_count"],
            values["generated_query_duration"],
            limit=_LIMIT,
        )
        note("schedule", path, schedule)
        if records:
            note("order", path, check_query_order(facts, sets, records, limit=_LIMIT))
            if not facts.accuracy:
                picked = check_sampling(facts, [seq_id for seq_id, _ in records], limit=_LIMIT)
                note("sampling", path, picked)
    assert not differences, "\n".join(differences)
    assert counted["loaded set Agreement"] == logs_expected
    assert counted["schedule Agreement"] > 0.9 * logs_expected
    assert counted["order Agreement"] > 90
    assert counted["sampling Agreement"] > 25


def test_records_of_another_run_are_seen() -> None:
    """One run's accuracy records against another run's settings of the same round."""
    found = [
        (facts, values["loaded_qsl_set"], records)
        for _, facts, values, records in runs("v5.1")
        if len(records) > 5 and facts.accuracy and facts.scenario == "Server"
    ]
    facts, sets, _ = found[0]
    others = [records for other, _, records in found if other.total_count != facts.total_count]
    assert others
    for records in others:
        assert not isinstance(check_query_order(facts, sets, records), Agreement)
