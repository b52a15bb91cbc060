"""The shape of everything that crosses a border: rounds, reports, submitted JSON documents."""

from schemas.load import (
    BadRound,
    UnknownRound,
    canonical_round_name,
    load_round,
    load_schema,
    round_names,
)
from schemas.round import Round

__all__ = [
    "BadRound",
    "Round",
    "UnknownRound",
    "canonical_round_name",
    "load_round",
    "load_schema",
    "round_names",
]
