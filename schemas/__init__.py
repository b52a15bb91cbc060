"""The shape of everything that crosses a border: rounds, reports, submitted JSON documents.

Besides them what every package needs of the system: `writing`, `scratch` and `machine`.
"""

from schemas.load import (
    UnknownRound,
    canonical_round_name,
    load_round,
    load_schema,
    round_names,
)
from schemas.round import Round
from schemas.round_file import BadRound

__all__ = [
    "BadRound",
    "Round",
    "UnknownRound",
    "canonical_round_name",
    "load_round",
    "load_schema",
    "round_names",
]
