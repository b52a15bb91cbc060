"""The form of ``hardware.toml``, and its reader."""

from __future__ import annotations

import msgspec


class Pattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One spelling: where ``pattern`` matches, the model is ``vendor model``."""

    pattern: str
    vendor: str
    model: str
    memory_gb: int | None = None
    form: str | None = None


class Partition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A way in which a part of a card is offered as a device."""

    pattern: str
    name: str


class Hardware(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table."""

    absent: list[str]
    partition: list[Partition]
    accelerator: list[Pattern]
    processor: list[Pattern]


def parse_hardware(text: str) -> Hardware:
    """A table's text. Raises ValueError where it is not well formed."""
    import tomllib

    return msgspec.convert(tomllib.loads(text), Hardware)
