"""What each round enforced: the one table that says how severe a finding is.

``enforcement.toml`` holds entries; a rule's own severity holds where no entry applies. `check`
answers "what did this round enforce?", `audit` "what is true?": an entry may set them apart.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import Literal

import msgspec

from schemas.compiling import compiled
from schemas.load import round_names

Severity = Literal["error", "warning", "note", "off"]

_RANK: dict[str, int] = {"off": 0, "note": 1, "warning": 2, "error": 3}


class BadEnforcement(ValueError):
    """The table contradicts itself; the message names the entries."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One decision about a rule, or about a family by its letter.

    case: one of the rule's named cases; absent: the rule itself. divisions: absent: all.
    since, until: the first and last round; absent: from the first, up to the newest.
    rounds: instead of since and until, the rounds by name.
    check, audit: the severity in each command; ``audit`` absent: as in ``check``.
    An entry about a family only lowers its rules, and one about a rule only lowers the rule's cases.
    reason: why this differs from the rule's own severity. source: who says so.
    """

    rule: str
    case: str | None = None
    divisions: list[str] = []
    since: str | None = None
    until: str | None = None
    rounds: list[str] = []
    check: Severity
    audit: Severity | None = None
    reason: str
    source: str = ""

    @property
    def is_family(self) -> bool:
        """Whether the entry is about a family of rules."""
        return len(self.rule) == 1

    def covers(self, round: str) -> bool:
        """Whether the entry holds in a round. Raises KeyError for a round that does not exist."""
        if self.rounds:
            return round in self.rounds
        order = _order()
        first = order[self.since] if self.since else 0
        last = order[self.until] if self.until else len(order)
        return first <= order[round] <= last

    def severity(self, *, audit: bool) -> Severity:
        """The severity that the entry states for a command."""
        return self.audit if audit and self.audit is not None else self.check

    @property
    def weight(self) -> tuple[bool, bool, bool]:
        """How specific the entry is: the case, then the rule, then the division decide."""
        return self.case is not None, not self.is_family, bool(self.divisions)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    enforcement: list[Entry]


@functools.cache
def _order() -> dict[str, int]:
    return {name: index for index, name in enumerate(round_names())}


def parse_enforcement(text: str, rounds: Iterable[str] | None = None) -> tuple[Entry, ...]:
    """The entries of a table's text. rounds: those there are. Raises BadEnforcement."""
    import tomllib

    known = frozenset(round_names() if rounds is None else rounds)
    try:
        entries = tuple(msgspec.convert(tomllib.loads(text), _File).enforcement)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise BadEnforcement(f"enforcement.toml: {error}") from error
    for entry in entries:
        named = [entry.since, entry.until, *entry.rounds]
        unknown = [name for name in named if name is not None and name not in known]
        if unknown:
            raise BadEnforcement(
                f"enforcement.toml: {entry.rule} names the round {unknown[0]}, which does not exist"
            )
    return entries


@functools.cache
def entries() -> tuple[Entry, ...]:
    """The table of this version."""
    made = compiled()
    if made is not None:
        return msgspec.msgpack.decode(made.enforcement, type=tuple[Entry, ...])
    text = (resources.files("schemas") / "enforcement.toml").read_text(encoding="utf-8")
    return parse_enforcement(text)


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
            if any(one.covers(name) and other.covers(name) for name in _order()):
                found.append((one, other))
    return found
