"""What each round enforced: the one table that says how severe a finding is.

``enforcement.toml`` holds entries; a rule's own severity holds where no entry applies. `check`
answers "what did this round enforce?", `audit` "what is true?": an entry may set them apart.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import msgspec

from schemas.compiling import HERE, compiled
from schemas.enforcement_file import Entry, Severity
from schemas.load import round_names

_RANK: dict[str, int] = {"off": 0, "note": 1, "warning": 2, "error": 3}


@functools.cache
def entries() -> tuple[Entry, ...]:
    """The table of this version."""
    made = compiled()
    if made is not None:
        return msgspec.msgpack.decode(made.enforcement, type=tuple[Entry, ...])
    from schemas.enforcement_file import parse_enforcement

    text = (HERE / "enforcement.toml").read_text(encoding="utf-8")
    return parse_enforcement(text, round_names())


@functools.cache
def _by_rule() -> dict[str, tuple[Entry, ...]]:
    found: dict[str, list[Entry]] = {}
    for entry in entries():
        found.setdefault(entry.rule, []).append(entry)
    return {rule: tuple(members) for rule, members in found.items()}


def entries_of(rule: str) -> Iterator[Entry]:
    """The entries about one rule: its own, then its family's."""
    yield from _by_rule().get(rule, ())
    yield from _by_rule().get(rule[0], ())


def decide(
    candidates: Sequence[Entry],
    default: Severity,
    *,
    round: str,
    case: str | None = None,
    division: str | None = None,
    audit: bool = False,
) -> tuple[Severity, Entry | None]:
    """The severity that ``candidates`` give, and the entry that decides (None: the default).

    Of several entries the most specific holds; `overlaps` shows that there is only one such.
    """
    best: Entry | None = None
    for entry in candidates:
        if entry.case is not None and entry.case != case:
            continue
        if entry.divisions and division not in entry.divisions:
            continue
        if entry.covers(round) and (best is None or entry.weight > best.weight):
            best = entry
    if best is None:
        return default, None
    severity = best.severity(audit=audit)
    # What is said of a family, or of a rule as against its case, only lowers.
    wider = best.is_family or best.case != case
    if wider and _RANK[severity] > _RANK[default]:
        return default, None
    return severity, best


@functools.cache
def severity_of(
    rule: str,
    default: Severity,
    *,
    round: str,
    case: str | None = None,
    division: str | None = None,
    audit: bool = False,
) -> Severity:
    """How severe a finding of ``rule`` is in a round.

    default: the severity of the rule, or of its ``case``, where the table says nothing.
    """
    candidates = tuple(entries_of(rule))
    return decide(candidates, default, round=round, case=case, division=division, audit=audit)[0]


def overlaps(table: Sequence[Entry]) -> list[tuple[Entry, Entry]]:
    """Pairs of entries of which neither is the more specific where both hold."""
    found = []
    for index, one in enumerate(table):
        for other in table[index + 1 :]:
            if (one.rule, one.case, one.weight) != (other.rule, other.case, other.weight):
                continue
            if one.divisions and not set(one.divisions) & set(other.divisions):
                continue
            if any(one.covers(name) and other.covers(name) for name in round_names()):
                found.append((one, other))
    return found
