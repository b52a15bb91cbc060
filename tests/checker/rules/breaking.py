"""How the rules' tests are written: one good tree, one change, the whole list of findings."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checker.parse.reading import File
from checker.parse.summary import read_summary
from schemas.report import Finding
from tests.conftest import Grow
from tests.trees import _PARAMETERS, _SUMMARY_NAMES, DETAIL, SUMMARY, GoodTree

Expected = list[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Break:
    """One way to break a good tree.

    change: breaks it. expected: every finding as (rule, place); a place is a path below the
    benchmark's folder where ``detail`` and ``summary`` at its end mean the performance run's logs,
    ``accuracy/detail`` the accuracy run's, ``TEST01/detail`` a compliance test's; or, from ``/``, a path from the tree's root.
    tree: options of `tests.trees.good_tree`. notes: whether notes count.
    """

    change: Callable[[GoodTree], Any]
    expected: Expected
    tree: dict[str, Any] = dataclasses.field(default_factory=dict)
    notes: bool = False


def place_of(tree: GoodTree, place: str) -> str:
    """A place of a `Break` as a path from the tree's root."""
    if place.startswith("/"):
        return place[1:].format(**tree.names)
    scenario, _, rest = place.partition("/")
    for name, file in (("detail", DETAIL), ("summary", SUMMARY)):
        if rest == name:
            rest = f"performance/run_1/{file}"
        elif rest == f"accuracy/{name}":
            rest = f"accuracy/{file}"
        elif rest.startswith("TEST") and rest.endswith(f"/{name}"):
            test = rest.partition("/")[0]
            folder = tree.result(scenario).compliance(test)
            return tree.relative(folder / f"performance/run_1/{file}")
    path = tree.result(scenario).path
    return f"{path}/{rest}" if rest else path


_BANNED = re.compile(
    r"\bmend|was asked for|were asked for|\bis no [a-z]|\bstands\b|the whole of|\b(?:is|are) said\b|"
    r"\btells\b|\bNone\b|\[\]|\(\)|\{'|\('|<class |(?<![\w.])\d(?:\.\d+)?e[+-]\d\d"
)


def not_plain(finding: Finding) -> str:
    """What a message must not have: None, a repr, an exponent, its own path, a banned word; or "".

    A number under 1e-3 or from 1e15 on may have an exponent.
    """
    found = _BANNED.search(finding.message)
    if found is not None:
        small_or_large = re.fullmatch(r"[\d.]+e(?:-0[4-9]|-[1-9]\d|\+1[5-9]|\+[2-9]\d)", found[0])
        if small_or_large is None:
            return f"{found[0]!r} in {finding.rule}: {finding.message}"
    if finding.path and "/" in finding.path and finding.path in finding.message:
        return f"its own path in {finding.rule}: {finding.message}"
    return ""


def run_break(rule: str, case: Break, grow: Grow) -> None:
    """The tree is good, then broken; the findings are exactly the expected ones."""
    tree = grow(**case.tree)
    case.change(tree)
    report = tree.check()
    found = sorted(
        (f.rule, f.path or "") for f in report.findings if case.notes or f.severity != "note"
    )
    told = "\n".join(
        f"{f.rule} {f.severity} {f.path}:{f.line} {f.message}" for f in report.findings
    )
    assert found == sorted((r, place_of(tree, p)) for r, p in case.expected), told
    assert rule in {r for r, _ in found}
    words = [text for f in report.findings if (text := not_plain(f))]
    assert not words, words
    for finding in report.findings:
        if finding.rule == rule:
            assert finding.message and finding.fix, finding
            assert finding.subject.division == case.tree.get("division", "closed")


def broken(breaks: dict[str, list[Break]]) -> list[Any]:
    """The cases for pytest: each rule's, named after rule and change."""
    return [
        pytest.param(rule, case, id=f"{rule}-{index}")
        for rule, cases in breaks.items()
        for index, case in enumerate(cases)
    ]


def in_both_logs(tree: GoodTree, log: Path, key: str, value: Any) -> None:
    """Change a value in a detail log and, where it is there, in the summary beside it."""
    tree.set_log(log, key, value)
    place = log.with_name(SUMMARY)
    lines = place.read_text().splitlines(keepends=True)
    stated = read_summary(File(SUMMARY, str(place), place.stat().st_size)).values.get(key)
    if stated is not None:
        label, colon, _ = lines[stated[1] - 1].partition(":")
        shown = int(value) if isinstance(value, bool) else value
        lines[stated[1] - 1] = f"{label}{colon} {shown}\n"
        tree.write(place, "".join(lines))


def both(
    tree: GoodTree,
    scenario: str,
    key: str,
    value: Any,
    label: str | None = None,
    printed: Any = None,
) -> None:
    """Change a value in the performance run's detail log and in its summary, so that they agree."""
    place = tree.result(scenario)
    tree.set_log(place.detail, key, value)
    if label is None:
        short = key.removeprefix("effective_").removeprefix("requested_server_")
        if key in _SUMMARY_NAMES:
            label = _SUMMARY_NAMES[key]
        elif short in _PARAMETERS or short in ("samples_per_query", "target_qps"):
            label = f"{short.removesuffix('_ms')} (ms)" if short.endswith("_ms") else short
        elif short in ("ttft_latency", "tpot_latency", "target_latency_ns"):
            label = f"{short.removesuffix('_ns')} (ns)"
        elif key == "result_completed_samples_per_sec":
            label = "Completed samples per second"
    if label is None:
        return
    text = printed if printed is not None else value
    if isinstance(text, bool):
        text = "Yes" if text else "No"
    if any(
        line.partition(":")[0].strip() == label for line in place.summary.read_text().splitlines()
    ):
        tree.set_summary(place.summary, label, text)
