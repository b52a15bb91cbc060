"""`assay rules ID`: what a rule demands, and how severe it is in each round."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from assay.prepare.fixing import FIXES
from schemas import round_names
from schemas.enforcement import decide, entries_of
from schemas.enforcement_file import Entry, Severity
from schemas.report import RuleFacts


def text(facts: RuleFacts, divisions: Sequence[str], cases: Mapping[str, Severity]) -> str:
    """The whole page of one rule. divisions: empty: all; cases: its named degrees."""
    return (
        f"{facts.id} {facts.name} ({facts.severity}; family {facts.id[0]}, {facts.family}; "
        f"divisions: {', '.join(divisions) or 'all'})\n\n{facts.summary}\n\nWhy: {facts.why}\n"
        f"Fix: {facts.fix}\nassay fix: {FIXES.get(facts.id, 'no, a person has to fix it')}\nSource: {facts.source}\n\n"
        + "".join(f"{line}\n" for line in severities(facts, cases))
    )


def severities(facts: RuleFacts, cases: Mapping[str, Severity]) -> Iterator[str]:
    """How severe the rule is by case, division and round, and why where the table says so."""
    table = tuple(entries_of(facts.id))
    degrees: list[tuple[str | None, Severity]] = [(None, facts.severity), *cases.items()]
    if cases and all(entry.case is not None for entry in table):
        del degrees[0]  # every finding has a case
    divided = sorted({name for entry in table for name in entry.divisions})
    yield "Severity:"
    for case, default in degrees:
        rows: dict[str, list[str | None]] = {}
        for division in [None, *divided]:
            rows.setdefault("\n".join(_periods(table, default, case, division)), []).append(
                division
            )
        for periods, among in rows.items():
            who = [] if None in among else [d for d in among if d is not None]
            if len(rows) > 1 and None in among:
                who = ["other divisions"]
            head = ", ".join(filter(None, [f"case {case}" if case else "", *who]))
            lines = periods.split("\n")
            if head:
                yield f"  {head}"
                lines = [f"  {line}" for line in lines]
            yield from lines


def _periods(
    table: Sequence[Entry], default: Severity, case: str | None, division: str | None
) -> Iterator[str]:
    decided = []
    for name in (name for name in round_names() if name.startswith("v")):
        check, entry = decide(table, default, round=name, case=case, division=division)
        audit, other = decide(table, default, round=name, case=case, division=division, audit=True)
        decided.append((name, check, audit, entry or other))
    for (check, audit, entry), members in itertools.groupby(decided, key=lambda row: row[1:]):
        names = [row[0] for row in members]
        period = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        severity = check if check == audit else f"{check} in check, {audit} in audit"
        yield f"  {period}: {severity}"
        if entry is not None:
            why = f"{entry.reason} ({entry.source})" if entry.source else entry.reason
            yield from textwrap.wrap(why, 100, initial_indent=" " * 6, subsequent_indent=" " * 6)
