"""Several reports of one round as one: for tables over all submitters."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reports import ReportError
from schemas.report import Report, Result, Summary


def joined(reports: Sequence[tuple[str, Report]]) -> Report:
    """All results and findings of (name, report) pairs, in their order.

    Raises ReportError for reports of different rounds, and where one result is in two of them.
    """
    if not reports:
        raise ReportError("no report was given")
    first, report = reports[0]
    if len(reports) == 1:
        return report
    owner: dict[str, tuple[int, str]] = {}
    for number, (name, other) in enumerate(reports):
        if other.round != report.round:
            raise ReportError(
                f"{first} is of round {report.round}, {name} of {other.round}; give reports of one round"
            )
        for result in other.results:
            key = _key(result)
            before = owner.setdefault(key, (number, name))
            if before[0] != number:
                raise ReportError(f"{key} is in {before[1]} and in {name}; leave one of them out")
    everything = [other for _, other in reports]
    counts = {
        field: sum(getattr(other.summary, field) for other in everything)
        for field in Summary.__struct_fields__
    }
    return msgspec.structs.replace(
        report,
        tree=", ".join(dict.fromkeys(other.tree for other in everything)),
        results=[result for other in everything for result in other.results],
        findings=[finding for other in everything for finding in other.findings],
        summary=Summary(**counts),
    )


def _key(result: Result) -> str:
    """A result's own; reports of version 1 have none."""
    parts = (result.division, result.submitter, result.system, result.directory, result.scenario)
    return result.key or "/".join(parts)
