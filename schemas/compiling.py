"""The shipped tables in one binary file, so that a check need not parse 500 KB of TOML.

The file is made when a wheel is built and is not part of the repository; without it, the TOML files
are read. Both give the same structures.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from importlib import resources

import msgspec

FILE = "compiled.msgpack"


class Compiled(msgspec.Struct, frozen=True):
    """rounds: each round's structure, encoded, by name in their order; enforcement: the entries."""

    rounds: dict[str, msgspec.Raw]
    enforcement: msgspec.Raw


@functools.cache
def compiled() -> Compiled | None:
    """What was made when the wheel was built; None in a source tree."""
    file = resources.files("schemas") / FILE
    try:
        return msgspec.msgpack.decode(file.read_bytes(), type=Compiled)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def compile_tables(rounds: Iterable[msgspec.Struct], enforcement: object) -> bytes:
    """The file's content for rounds (each with a name), in their order, and enforcement entries."""
    encode = msgspec.msgpack.encode
    made = {round.name: msgspec.Raw(encode(round)) for round in rounds}  # type: ignore[attr-defined]
    return encode(Compiled(made, msgspec.Raw(encode(enforcement))))
