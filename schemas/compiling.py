"""The shipped tables in one binary file, so that a check need not parse 500 KB of TOML.

A wheel has the file from when it was built. In a source tree it is kept in ``__pycache__``, like the
bytecode of the modules beside it, and is made again when a table or a module of this package has
changed. Where it can be neither read nor written, the TOML files are read. All give the same
structures.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
from collections.abc import Iterable
from importlib.util import cache_from_source
from pathlib import Path

import msgspec

from schemas.writing import replace_file

FILE = "compiled.msgpack"

HERE = Path(__file__).parent
"""Where the tables are: rounds/, enforcement.toml, hardware.toml, power.toml."""

_DIGEST = 16


class Compiled(msgspec.Struct, frozen=True):
    """Each table's structure, encoded. rounds: by name, in their order; enforcement: the entries."""

    rounds: dict[str, msgspec.Raw]
    enforcement: msgspec.Raw
    hardware: msgspec.Raw
    power: msgspec.Raw


@functools.cache
def compiled() -> Compiled | None:
    """The tables as made when the wheel was built, or kept in a source tree; None without either."""
    try:
        return msgspec.msgpack.decode((HERE / FILE).read_bytes(), type=Compiled)
    except (FileNotFoundError, msgspec.DecodeError):
        return kept(HERE, Path(cache_from_source(str(HERE / "compiling.py"))).parent / FILE)


def kept(source: Path, file: Path) -> Compiled | None:
    """The tables of a source tree from ``file``, which is made again if it is not of these sources.

    None where a table is damaged (reading it alone says why) or the file may not be written.
    """
    mark = _mark(source)
    with contextlib.suppress(OSError, msgspec.DecodeError):
        data = file.read_bytes()
        sealed = hashlib.blake2b(mark + data[_DIGEST:], digest_size=_DIGEST).digest()
        if sealed == data[:_DIGEST]:
            return msgspec.msgpack.decode(memoryview(data)[_DIGEST:], type=Compiled)
    if sys.dont_write_bytecode or not os.access(file.parent, os.W_OK):
        return None
    try:
        data = _from_toml(source)
    except (OSError, ValueError):
        return None
    sealed = hashlib.blake2b(mark + data, digest_size=_DIGEST).digest()
    with contextlib.suppress(OSError):
        replace_file(file, sealed + data, synced=False)
    return msgspec.msgpack.decode(data, type=Compiled)


def _mark(source: Path) -> bytes:
    """A digest of the names, sizes and times of the tables and of the modules that read them."""
    state = hashlib.blake2b(digest_size=_DIGEST)
    for folder in (source, source / "rounds"):
        with os.scandir(folder) as entries:
            files = sorted((e.name, e) for e in entries if e.name.endswith((".toml", ".py")))
        for name, entry in files:
            status = entry.stat()
            state.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return state.digest()


def _from_toml(source: Path) -> bytes:
    """The file's content from the tables. Raises OSError or ValueError: BadRound and the like."""
    from schemas.enforcement_file import parse_enforcement
    from schemas.hardware_file import parse_hardware
    from schemas.power import parse_power
    from schemas.round_file import in_order, parse_round

    def text(name: str) -> str:
        return (source / name).read_text(encoding="utf-8")

    names = in_order(file.stem for file in (source / "rounds").glob("*.toml"))
    return compile_tables(
        [parse_round(text(f"rounds/{name}.toml"), f"{name}.toml") for name in names],
        parse_enforcement(text("enforcement.toml"), names),
        parse_hardware(text("hardware.toml")),
        parse_power(text("power.toml")),
    )


def compile_tables(
    rounds: Iterable[msgspec.Struct],
    enforcement: object,
    hardware: msgspec.Struct,
    power: msgspec.Struct,
) -> bytes:
    """The file's content for the tables; rounds have a name and are in their order."""

    def encoded(table: object) -> msgspec.Raw:
        return msgspec.Raw(msgspec.msgpack.encode(table))

    made = {round.name: encoded(round) for round in rounds}  # type: ignore[attr-defined]
    return msgspec.msgpack.encode(
        Compiled(made, encoded(enforcement), encoded(hardware), encoded(power))
    )
