"""The random audit: which submission is drawn, from which candidates, and why others were none.

A submission is one system of one submitter. Only closed results of available systems are audited.
The draw has two stages, so that a submitter of many systems is not drawn more often than one of a
single system: first a submitter, then one of its systems; the auditor then picks benchmarks and
scenarios, here at random too. A system equivalent to one that was audited in the round before (the
same processor, network card, accelerator and number of accelerators) is no candidate.

Every draw is ``SHA-256("seed/stage") mod candidates``, over candidates sorted by name, so that
anybody can repeat it with any tool.

Source: inference_rules.adoc, "Audit Process"; MLPerf_Audit_Guidelines.adoc, "Benchmark and Scenario
Selection".
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from schemas.report import Report
from schemas.report import Result as ResultRow

FORMAT = "assay-random-audit"
_EQUIVALENT = (
    "host_processor_model_name", "host_processors_per_node", "host_networking",
    "host_network_card_count", "accelerator_model_name", "accelerators_per_node",
    "number_of_nodes",
)  # fmt: skip


class Draw(msgspec.Struct, frozen=True):
    """One stage: the sorted candidates, the digest, the place it points to, what stands there."""

    stage: str
    candidates: list[str]
    digest: str
    index: int
    chosen: str


class Exclusion(msgspec.Struct, frozen=True):
    """A submission that could not be drawn, and why."""

    submission: str
    reason: str


class Selection(msgspec.Struct, frozen=True):
    """The whole draw. ``draws`` is empty when there was no candidate."""

    format: str
    format_version: int
    round: str | None
    seed: int
    submitter: str | None
    system: str | None
    results: list[str]
    draws: list[Draw]
    excluded: list[Exclusion]

    def text(self) -> str:
        """The draw in words."""
        lines = [f"Random audit of {self.round}, seed {self.seed}"]
        for draw in self.draws:
            lines.append(
                f"{draw.stage}: {draw.chosen} (number {draw.index + 1} of {len(draw.candidates)}; SHA-256 "
                f'of "{self.seed}/{draw.stage}" is {draw.digest[:16]}…)'
            )
            lines.extend(
                f"  {'*' if name == draw.chosen else ' '} {name}" for name in draw.candidates
            )
        if not self.draws:
            lines.append("nothing can be drawn: no submission is auditable")
        lines.append(f"not candidates: {len(self.excluded)}")
        counted = Counter(one.reason for one in self.excluded)
        lines.extend(f"  {count:>4}  {reason}" for reason, count in sorted(counted.items()))
        return "\n".join(lines) + "\n"


def digest_of(seed: int, stage: str) -> str:
    """The digest that decides a stage."""
    return hashlib.sha256(f"{seed}/{stage}".encode()).hexdigest()


def draw(seed: int, stage: str, candidates: Iterable[str]) -> Draw:
    """One of the candidates, every one as likely as any other. Raises ValueError for none."""
    names = sorted(set(candidates))
    if not names:
        raise ValueError("nothing to draw from")
    digest = digest_of(seed, stage)
    index = int(digest, 16) % len(names)
    return Draw(stage, names, digest, index, names[index])


def _submission(row: ResultRow) -> str:
    return f"{row.submitter}/{row.system}"


def _mark(row: ResultRow) -> tuple[Any, ...] | None:
    mark = tuple(str(row.system_description.get(key, "")).strip().lower() for key in _EQUIVALENT)
    return mark if any(mark) else None


def select_random(
    report: Report, seed: int, *, audited: Sequence[str] = (), before: Report | None = None
) -> Selection:
    """Draw one submission of a report, and one to three of its results.

    audited: ``submitter/system`` of the round before; before: that round's report, in which their
    descriptions stand (those in ``report`` are used as well).
    """
    names = {name.strip().strip("/").lower() for name in audited if name.strip()}
    known = [*report.results, *(before.results if before is not None else [])]
    marks = {_mark(row) for row in known if _submission(row).lower() in names} - {None}
    closed: dict[str, list[ResultRow]] = {}
    excluded: dict[str, str] = {}
    for row in report.results:
        if row.division == "closed":
            closed.setdefault(_submission(row), []).append(row)
        else:
            excluded.setdefault(
                f"{row.division}/{_submission(row)}",
                f"{row.division} division: only closed is audited",
            )
    candidates: dict[str, list[ResultRow]] = {}
    for name, rows in closed.items():
        reason = _reason(name, rows, names, marks)
        if reason is None:
            candidates[name] = [
                row for row in rows if row.status == "valid" and row.metric is not None
            ]
        else:
            excluded[f"closed/{name}"] = reason
    draws: list[Draw] = []
    chosen: list[str] = []
    submitter = system = None
    if candidates:
        first = draw(seed, "submitter", {name.split("/", 1)[0] for name in candidates})
        submitter = first.chosen
        own = {name for name in candidates if name.split("/", 1)[0] == submitter}
        second = draw(seed, "submission", own)
        system = second.chosen.split("/", 1)[1]
        draws = [first, second]
        left = {f"{row.directory}/{row.scenario}" for row in candidates[second.chosen]}
        while left and len(chosen) < 3:
            third = draw(seed, f"result {len(chosen) + 1}", left)
            draws.append(third)
            chosen.append(third.chosen)
            left.discard(third.chosen)
    return Selection(
        FORMAT, 1, report.round, seed, submitter, system, chosen, draws,
        [Exclusion(name, reason) for name, reason in sorted(excluded.items())],
    )  # fmt: skip


def _reason(
    name: str, rows: list[ResultRow], audited: set[str], marks: set[tuple[Any, ...] | None]
) -> str | None:
    """Why a closed submission is no candidate; None when it is one."""
    status = str(rows[0].system_description.get("status", "")).strip().lower()
    if status != "available":
        return f"status {status or 'not stated'}: only available systems are audited"
    if not any(row.status == "valid" and row.metric is not None for row in rows):
        return "no valid result"
    if name.lower() in audited:
        return "audited in the round before"
    if _mark(rows[0]) in marks:
        return "equivalent to a system audited in the round before"
    return None


def encode(selection: Selection) -> bytes:
    """The selection as JSON."""
    return msgspec.json.format(msgspec.json.encode(selection), indent=2) + b"\n"
