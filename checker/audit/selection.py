"""The random audit: which submission is drawn, from which candidates, and why others were not.

A submission is one system of one submitter. Only closed results of available systems are audited.
The draw has two stages, so that a submitter of many systems is not drawn more often than one of a
single system: first a submitter, then one of its systems; the auditor then picks benchmarks and
scenarios, here at random too. A system equivalent to one that was audited in the round before (the
same processor, network card, accelerator and number of accelerators; over the network, the same
networking) is not a candidate. The committee may exempt more: a system with the accelerator of one
audited before whose results are within 10% of what was submitted then, with no new benchmark,
scenario or power measurement, is drawn all the same and listed as one that it may exempt.

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
_NETWORK = ("network_type", "network_media", "network_rate", "network_protocol", "nic_sut")
_NEAR = 0.10
"""How far a result may be from an audited system's for the committee to exempt it."""


class Draw(msgspec.Struct, frozen=True):
    """One stage: the sorted candidates, the digest, the place it points to, what is there."""

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
    may_exempt: list[Exclusion] = []

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
        if self.may_exempt:
            lines.append(f"the committee may exempt: {len(self.may_exempt)}")
            lines.extend(f"  {one.submission}: {one.reason}" for one in self.may_exempt)
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
    return Draw(stage=stage, candidates=names, digest=digest, index=index, chosen=names[index])


def _submission(row: ResultRow) -> str:
    return f"{row.submitter}/{row.system}"


def _mark(row: ResultRow) -> tuple[Any, ...] | None:
    keys = _EQUIVALENT + (_NETWORK if row.division == "network" else ())
    mark = tuple(str(row.system_description.get(key, "")).strip().lower() for key in keys)
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
        format=FORMAT,
        format_version=1,
        round=report.round,
        seed=seed,
        submitter=submitter,
        system=system,
        results=chosen,
        draws=draws,
        excluded=[Exclusion(name, reason) for name, reason in sorted(excluded.items())],
        may_exempt=_may_exempt(candidates, names, before.results if before is not None else []),
    )


def _may_exempt(
    candidates: dict[str, list[ResultRow]], audited: set[str], before: Sequence[ResultRow]
) -> list[Exclusion]:
    """Candidates that are close to a system that was audited before, and how close."""
    known: dict[str, list[ResultRow]] = {}
    for row in before:
        if row.metric is not None and _submission(row).lower() in audited:
            known.setdefault(_submission(row), []).append(row)
    found = []
    for name, rows in sorted(candidates.items()):
        for other, earlier in sorted(known.items()):
            near = _nearness(rows, earlier)
            if near is not None:
                reason = (
                    f"same accelerator as {other}, audited before; {len(rows)} results within "
                    f"{near:.1%} of its, no new benchmark, scenario or power measurement"
                )
                found.append(Exclusion(f"closed/{name}", reason))
                break
    return found


def _nearness(rows: Sequence[ResultRow], earlier: Sequence[ResultRow]) -> float | None:
    """The largest relative difference of two systems' results, as a whole and per accelerator, and
    of their power; None where one is over 10%, or one of ``rows`` has no counterpart."""
    accelerators = {_accelerator(row) for row in [*rows, *earlier]}
    if len(accelerators) != 1 or not accelerators.pop():
        return None
    known = {(row.benchmark, row.scenario): row for row in earlier}
    greatest = 0.0
    for row in rows:
        other = known.get((row.benchmark, row.scenario))
        if other is None and row.inferred_from:
            continue
        if other is None or row.metric is None or other.metric is None:
            return None
        pairs = [(row.metric.value, other.metric.value)]
        if (counts := (_accelerators(row), _accelerators(other))) and all(counts):
            pairs.append((row.metric.value / counts[0], other.metric.value / counts[1]))
        if row.power is not None:
            if other.power is None:
                return None
            pairs.append((row.power.value, other.power.value))
        for new, old in pairs:
            if not old or abs(new / old - 1) > _NEAR:
                return None
            greatest = max(greatest, abs(new / old - 1))
    return greatest


def _accelerator(row: ResultRow) -> str:
    return str(row.system_description.get("accelerator_model_name", "")).strip().lower()


def _accelerators(row: ResultRow) -> int:
    """How many accelerators the system has in all; 0 where the description does not say."""
    try:
        nodes = int(row.system_description.get("number_of_nodes", 1))
        return nodes * int(row.system_description.get("accelerators_per_node", 0))
    except (TypeError, ValueError):
        return 0


def _reason(
    name: str, rows: list[ResultRow], audited: set[str], marks: set[tuple[Any, ...] | None]
) -> str | None:
    """Why a closed submission is not a candidate; None when it is one."""
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
