"""Reading what this package ships: rounds and JSON Schemas."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import msgspec

from schemas.compiling import HERE, compiled
from schemas.round import Round, Seeds

if TYPE_CHECKING:
    from schemas.power import Power

_ROUNDS = HERE / "rounds"


class UnknownRound(ValueError):
    """No such round; the message names those there are."""


def round_names() -> list[str]:
    """The rounds this version knows, oldest first, the demo round last."""
    return list(_round_names())


@functools.cache
def _round_names() -> tuple[str, ...]:
    made = compiled()
    if made is not None:
        return tuple(made.rounds)
    from schemas.round_file import in_order

    return in_order(
        entry.name.removesuffix(".toml")
        for entry in _ROUNDS.iterdir()
        if entry.name.endswith(".toml")
    )


def canonical_round_name(name: str) -> str:
    """``6.1``, ``v6.1`` and ``V6.1`` are one round. Raises UnknownRound."""
    known = round_names()
    wanted = name.strip().lower()
    for candidate in (wanted, f"v{wanted}"):
        if candidate in known:
            return candidate
    raise UnknownRound(f"no round {name!r}; known rounds: {', '.join(known)}")


@functools.cache
def load_round(name: str) -> Round:
    """Load one round by name. Raises UnknownRound or BadRound."""
    canonical = canonical_round_name(name)
    made = compiled()
    if made is not None:
        return msgspec.msgpack.decode(made.rounds[canonical], type=Round)
    from schemas.round_file import parse_round

    text = (_ROUNDS / f"{canonical}.toml").read_text(encoding="utf-8")
    return parse_round(text, f"{canonical}.toml")


class RoundMark(msgspec.Struct, frozen=True):
    """What a submission's round is recognized by, before anything else of the round is read."""

    name: str
    seeds: Seeds
    official: bool = True


@functools.cache
def round_marks() -> tuple[RoundMark, ...]:
    """The marks of all rounds, in their order."""
    made = compiled()
    if made is None:
        rounds = map(load_round, round_names())
        return tuple(RoundMark(round.name, round.seeds, round.official) for round in rounds)
    return tuple(msgspec.msgpack.decode(raw, type=RoundMark) for raw in made.rounds.values())


@functools.cache
def load_power() -> Power:
    """The table about power of this version."""
    from schemas.power import Power, parse_power

    made = compiled()
    if made is not None:
        return msgspec.msgpack.decode(made.power, type=Power)
    return parse_power((HERE / "power.toml").read_text(encoding="utf-8"))


@functools.cache
def load_schema(name: str) -> dict[str, Any]:
    """A JSON Schema of this package by its short name, e.g. ``report`` or ``round``."""
    import json

    text = (HERE / f"{name}.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
