"""Nothing silent: what a rule needs, made unusable, is a finding that names it, in check and audit.

Two walks. One takes every attribute that any rule needs and damages the file it is made of. The
other listens which records of LoadGen's logs the rules ask for on good trees, and makes each of them
unusable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checker.engine import Options, check
from checker.parse.detail import DetailLog
from checker.rules import RULES
from schemas.report import Finding
from tests.conftest import Grow
from tests.trees import GoodTree

TREES: dict[str, dict[str, Any]] = {
    "demo": {"round": "demo", "benchmark": "digits", "category": "datacenter"},
    "tokens": {"round": "v6.0", "benchmark": "llama2-70b-99", "category": "datacenter"},
    "power": {"round": "v6.0", "benchmark": "pointpainting", "category": "edge", "power": True},
    "images": {"round": "v5.0", "benchmark": "stable-diffusion-xl", "category": "edge"},
}

FILES = {
    "detail": r"/run_1/mlperf_log_detail\.txt$",
    "loadgen_version": r"/run_1/mlperf_log_detail\.txt$",
    "test_datetime": r"/run_1/mlperf_log_detail\.txt$",
    "summary": r"/run_1/mlperf_log_summary\.txt$",
    "text": r"(?<!TEST\d\d)/accuracy/accuracy\.txt$",
    "log_ends": r"(?<!run_1)/accuracy/mlperf_log_accuracy\.json$",
    "log_file": r"(?<!run_1)/accuracy/mlperf_log_accuracy\.json$",
    "accuracy_log": r"/TEST01/accuracy/mlperf_log_accuracy\.json$",
    "answers": r"/TEST01/accuracy/mlperf_log_accuracy\.json$",
    "tokens": r"/TEST06/accuracy/mlperf_log_accuracy\.json$",
    "power": r"/run_1/spl\.txt$",
    "power_folder": r"/power/server\.json$",
    "ranging": r"/ranging/mlperf_log_detail\.txt$",
    "ranging.detail": r"/ranging/mlperf_log_detail\.txt$",
    "measurements": r"measurements\.json$|/box1_\w+\.json$",
    "user_conf": r"/user\.conf$",
    "document": r"/systems/box1\.json$",
    "fields": r"/systems/box1\.json$",
    "accuracy.text": r"(?<!TEST\d\d)/accuracy/accuracy\.txt$",
    "accuracy.detail": r"(?<!TEST\d\d)/accuracy/mlperf_log_detail\.txt$",
    "performance.detail": r"/run_1/mlperf_log_detail\.txt$",
    "performance": r"/run_1/mlperf_log_detail\.txt$",
    "result.performance": r"/run_1/mlperf_log_detail\.txt$",
    "speed": r"/TEST01/performance/run_1/mlperf_log_detail\.txt$",
    "lasted": r"/run_1/mlperf_log_detail\.txt$",
    "latencies": r"/run_1/mlperf_log_detail\.txt$",
    "mode": r"/run_1/mlperf_log_detail\.txt$",
    "verdict_text": r"/TEST01/verify_accuracy\.txt$",
    "accuracy_text": r"/TEST01/verify_accuracy\.txt$",
    "performance_text": r"/TEST01/verify_performance\.txt$",
    "length_text": r"/TEST06/verify_accuracy\.txt$",
}
"""Which file a needed attribute is made of, as a pattern of its path in a good tree."""

NO_FILE = (
    # From the round.
    *(
        "rules",
        "benchmark",
        "result.benchmark",
        "is_known",
        "is_required",
        "result.rules",
        "demands",
    ),
    *("limits", "result.gates", "result.round", "round"),
    # From the listing: folders, names and counts.
    *("folder", "accuracy.folder", "measurement_folder", "extra_runs", "runs", "logged_answers"),
    *("result_systems", "stray_divisions", "unknown_scenarios", "uses_loadgen", "is_full_run"),
    *("scenario", "result.scenario", "division", "submitter", "complete", "result.complete"),
    # From what the rules hand over themselves, or from several files together.
    *("evidence", "field", "category", "named"),
    # From --data, with messages of its own; only where a submitter gives one; LoadGen's own file.
    *("recomputed", "mapping", "mlperf_conf"),
    # Another kind of result.
    *("endpoints", "endpoints.accuracy", "endpoints.config", "endpoints.summary"),
)
"""Needs that no file of a good tree can break."""


def _needs() -> set[str]:
    return {need.path for rule in RULES for need in rule.needs} | {
        path for rule in RULES for path in rule.required
    }


def _top(need: str) -> str:
    """The part of a dotted need that a table knows."""
    while need not in FILES and need not in NO_FILE and "." in need:
        need = need.rpartition(".")[0]
    return need


def test_every_need_is_known() -> None:
    """A new need gets a line in one of the two tables."""
    assert {
        need for need in _needs() if _top(need) not in FILES and _top(need) not in NO_FILE
    } == set()


def _new(tree: GoodTree, good: set[Any], *, audit: bool) -> list[Finding]:
    report = check(tree.root, Options(jobs=1, round=tree.round.name, audit=audit))
    assert [f for f in report.findings if f.rule == "X001"] == []
    return [f for f in report.findings if (f.rule, f.path, f.message) not in good]


@pytest.mark.parametrize("audit", [False, True], ids=["check", "audit"])
def test_every_need_made_unusable(audit: bool, grow: Grow) -> None:
    """The file behind each need, filled with NULs and noise: an error or a warning names it."""
    left = {pattern for need in _needs() if (pattern := FILES.get(_top(need)))}
    silent = []
    for options in TREES.values():
        tree = grow(**options)
        files = tree.files()
        for pattern in sorted(left):
            path = next((p for p in files if re.search(pattern, f"/{p}")), None)
            if path is None:
                continue
            left.discard(pattern)
            place = tree.root / path
            content = place.read_bytes()
            place.write_bytes(b"\0\xff{[" * 16 + content[: len(content) // 2])
            found = _new(tree, set(), audit=audit)
            place.write_bytes(content)
            if not [f for f in found if f.severity != "note" and _names(f, path)]:
                silent.append((pattern, path))
    assert not silent, "\n".join(map(str, silent))
    assert left == set(), "no tree here has a file for these needs"


def _names(finding: Finding, path: str) -> bool:
    return finding.path == path or path in finding.message


# --- every record that a rule asks for ---------------------------------------------------------

_ROLES = {"performance", "accuracy", "ranging"}
_ACCESS = ("number", "integer", "text", "boolean")

UNASKED = {
    "result_invalid_reason": "LoadGen's explanation, for people",
}
"""Records whose value no verdict follows from."""


class _Asked:
    """Which records of which logs the rules asked for, by typed access."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: dict[tuple[str, str], None] = {}
        for name in _ACCESS:
            monkeypatch.setattr(DetailLog, name, self._listening(name))

    def _listening(self, name: str) -> Any:
        real = getattr(DetailLog, name)

        def access(log: DetailLog, key: str) -> Any:
            if key in log:
                self.keys.setdefault((log.path, key))
            return real(log, key)

        return access


@pytest.mark.parametrize("audit", [False, True], ids=["check", "audit"])
@pytest.mark.parametrize("kind", TREES)
def test_every_record_asked_for_made_unusable(
    kind: str, audit: bool, grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record with an object as its value is a finding that names the record, never an absence."""
    tree = grow(**TREES[kind])
    with monkeypatch.context() as patch:
        asked = _Asked(patch)
        check(tree.root, Options(jobs=1, round=tree.round.name, audit=audit))
        wanted = list(_once_a_role(asked.keys))
    assert len(wanted) > 40
    silent = []
    for path, key in wanted:
        place = tree.root / path
        content = place.read_bytes()
        tree.set_log(place, key, {"a": [1]})
        found = _new(tree, set(), audit=audit)
        place.write_bytes(content)
        if not [f for f in found if _names(f, path) and key in f"{f.message} {f.pointer}"]:
            silent.append((key, path))
    assert not silent, "\n".join(map(str, silent))


def _once_a_role(keys: dict[tuple[str, str], None]) -> Iterator[tuple[str, str]]:
    """Each record once for each role of a log: performance, accuracy, each test, ranging."""
    seen = set()
    for path, key in keys:
        role = tuple(part for part in Path(path).parts if part in _ROLES or part[:4] == "TEST")
        if (role, key) not in seen:
            seen.add((role, key))
            # Of a ranging run's seeds only the detection of the round makes use.
            ranging = "ranging" in role and key.endswith("_rng_seed")
            if key not in UNASKED and not ranging:
                yield path, key
