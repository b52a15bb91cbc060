"""Everything that an audit tested about one result, passed tests too: what a committee looks through."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from schemas.report import AccuracyScore, Metric

FORMAT = "assay-explanation"


class Bounded(msgspec.Struct, frozen=True, kw_only=True):
    """A computed figure and the bounds that no genuine log leaves, in ``unit``; None: no bound."""

    formula: str
    value: float
    low: float | None
    high: float | None
    unit: str = ""


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """One rule applied to one file or folder (``path``).

    outcome: ``agrees``, ``finding``, or ``not tested`` (``reason`` says why). values: what the
    rule read and compared, by the log's key; lines: where in the log. findings: the messages.
    """

    rule: str
    name: str
    summary: str
    path: str
    outcome: Literal["agrees", "finding", "not tested"]
    reason: str | None = None
    severity: str | None = None
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    figure: Bounded | None = None
    findings: list[str] = []


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """The percentiles of one latency of a run, percent -> ns, and the 99th percentile's limit, ns."""

    path: str
    name: str
    values: dict[str, float]
    mean: float | None
    limit: float | None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What was tested of one result, and with which values."""

    format: str
    format_version: int
    round: str
    key: str
    path: str
    scenario: str
    metric: Metric | None
    accuracy: list[AccuracyScore]
    tested: list[Tested]
    latencies: list[Percentiles]

    def count(self, outcome: str) -> int:
        """How many tests ended so."""
        return sum(one.outcome == outcome for one in self.tested)


def encode(explanation: Explanation) -> bytes:
    """The explanation as JSON."""
    return msgspec.json.format(msgspec.json.encode(explanation), indent=2) + b"\n"
