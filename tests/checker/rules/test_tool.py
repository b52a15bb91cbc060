"""Family X: what cannot be read is a finding, and a rule that raises ends nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.checker.rules.breaking import Break, broken, run_break
from tests.conftest import Grow
from tests.trees import GoodTree

PLAIN: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "edge"}
CLOSED: dict[str, Any] = {"benchmark": "yolo-99", "category": "edge"}


def _write(name: Callable[[GoodTree], Any], content: bytes) -> Callable[[GoodTree], None]:
    return lambda tree: tree.write(name(tree), content) and None


def _decimal_comma(tree: GoodTree) -> None:
    """In the summary of a test's run."""
    place = tree.result("Offline").compliance("TEST01") / "performance/run_1/mlperf_log_summary.txt"
    text = re.sub(r"(?m)^(Samples per second: \d+)\.", r"\1,", place.read_text(), count=1)
    assert text != place.read_text()
    place.write_text(text)


def _cut(tree: GoodTree) -> None:
    place = tree.result("Offline").detail
    text = place.read_text()
    lines = text.splitlines()
    lines[20] = lines[20][:60]
    place.write_text("\n".join(lines) + "\n")


def _damaged_answer(tree: GoodTree) -> None:
    """In the middle of the log, of which only the ends are looked at as text."""
    place = tree.result("Offline").compliance("TEST01") / "accuracy/mlperf_log_accuracy.json"
    text = place.read_text()
    at = text.index('"data"', len(text) // 2) + 12
    tree.write(place, f"{text[:at]}zz{text[at + 2 :]}")


def _in_verification(name: str, old: str, new: str) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        place = tree.result("Offline").compliance("TEST01") / name
        text = place.read_text()
        assert old in text
        tree.write(place, text.replace(old, new, 1))

    return change


BREAKS: dict[str, list[Break]] = {
    "X002": [
        Break(
            _in_verification("verify_performance.txt", "score = ", "score = 0x"),
            [("X002", "Offline/TEST01/verify_performance.txt"), ("C122", "Offline/TEST01/verify_performance.txt")], CLOSED,
        ),
        Break(
            _in_verification("verify_accuracy.txt", "num_acc_log_entries = ", "num_acc_log_entries = 1,"),
            [("X002", "Offline/TEST01/verify_accuracy.txt"), ("C123", "Offline/TEST01/verify_accuracy.txt")], CLOSED,
        ),
        Break(_cut, [("X002", "Offline/detail")], PLAIN),
        Break(
            _write(lambda tree: tree.result("Offline").accuracy_text, b""),
            [("X002", "Offline/accuracy/accuracy.txt")], PLAIN,
        ),
        Break(
            _write(lambda tree: tree.result("Offline").accuracy_detail, b"no log\n"),
            [("X002", "Offline/accuracy/detail")], PLAIN,
        ),
        Break(
            lambda tree: tree.set_log(tree.result("Offline").detail, "requested_max_duration_ms", [1]),
            [("X002", "Offline/detail")], PLAIN,
        ),
        Break(
            _decimal_comma, [("X002", "Offline/TEST01/performance/run_1/mlperf_log_summary.txt")], CLOSED,
        ),
        Break(
            _damaged_answer,
            [("C123", "Offline/TEST01/verify_accuracy.txt"),
             ("X002", "Offline/TEST01/accuracy/mlperf_log_accuracy.json")],
            CLOSED,
        ),
        Break(
            _write(lambda tree: tree.result("Offline").compliance("TEST01") / "accuracy/compliance_accuracy.txt", b""),
            [("X002", "Offline/TEST01/accuracy/compliance_accuracy.txt")], CLOSED,
        ),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("rule", "case"), broken(BREAKS))
def test_break(rule: str, case: Break, grow: Grow) -> None:
    run_break(rule, case, grow)


# The other findings of family X are no rules of the registry: the engine makes them. Their tests
# stand here so that test_every_rule.py finds them.
ELSEWHERE = {
    "X001": "test_engine.py::test_a_rule_that_raises_becomes_a_finding",
    "X003": "test_engine.py::test_nothing_checked",
    "X004": "test_engine.py::test_round_contradicts_tree",
    "X005": "test_archive.py::test_unsafe_members_are_refused",
    "X006": "test_waivers.py::test_expired",
    "X007": "test_waivers.py::test_unused",
    "X008": "test_discover.py::test_run_alone_with_its_benchmark_said",
    "X009": "test_manifest.py::test_differences_are_named",
}
