"""The entries of ``enforcement.toml`` as they are written; ``schemas.enforcement`` decides by them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from schemas.round import age

Severity = Literal["error", "warning", "note", "off"]


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
        """Whether the entry holds in a round."""
        if self.rounds:
            return round in self.rounds
        place = age(round)
        if self.since is not None and place < age(self.since):
            return False
        return self.until is None or place <= age(self.until)

    def severity(self, *, audit: bool) -> Severity:
        """The severity that the entry states for a command."""
        return self.audit if audit and self.audit is not None else self.check

    @property
    def weight(self) -> tuple[bool, bool, bool]:
        """How specific the entry is: the case, then the rule, then the division decide."""
        return self.case is not None, not self.is_family, bool(self.divisions)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    enforcement: list[Entry]


def parse_enforcement(text: str, rounds: Iterable[str]) -> tuple[Entry, ...]:
    """The entries of a table's text. rounds: the names of all rounds. Raises BadEnforcement."""
    import tomllib

    known = frozenset(rounds)
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
