"""``power.toml``: known measurement software and messages of PTDaemon that are accepted."""

from __future__ import annotations

import re

import msgspec


class Power(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """sources: SHA-1 of known tables of source checksums; accepted_messages: regular expressions."""

    sources: set[str]
    accepted_messages: tuple[str, ...]

    def accepts(self, message: str) -> bool:
        """Whether an error that PTDaemon reported leaves the measurement sound."""
        return any(re.match(pattern, message) for pattern in self.accepted_messages)


def parse_power(text: str) -> Power:
    """A table's text. Raises ValueError where it is not well formed."""
    import tomllib

    return msgspec.convert(tomllib.loads(text), Power)
