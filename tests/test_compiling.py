"""The shipped tables as a source tree keeps them beside its bytecode."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import msgspec
import pytest

from schemas import compiling
from schemas.enforcement_file import Entry, parse_enforcement
from schemas.load import round_names
from schemas.round import Round
from schemas.round_file import parse_round


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package whose tables may be changed."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    ours = Path(compiling.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__", compiling.FILE)
    return Path(shutil.copytree(ours, tmp_path / "schemas", ignore=ignored))


def _round(made: compiling.Compiled | None, name: str) -> Round:
    assert made is not None
    return msgspec.msgpack.decode(made.rounds[name], type=Round)


def test_kept_tables_are_those_of_the_toml(source: Path, tmp_path: Path) -> None:
    file = tmp_path / "kept"
    for _ in ("made", "read"):
        made = compiling.kept(source, file)
        assert made is not None and list(made.rounds) == round_names()
        for name in round_names():
            text = (source / "rounds" / f"{name}.toml").read_text(encoding="utf-8")
            assert msgspec.msgpack.decode(made.rounds[name], type=Round) == parse_round(text, name)
        text = (source / "enforcement.toml").read_text(encoding="utf-8")
        table = msgspec.msgpack.decode(made.enforcement, type=tuple[Entry, ...])
        assert table == parse_enforcement(text, round_names())
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["kept"]


def test_kept_tables_are_read_and_made_again_after_an_edit(source: Path, tmp_path: Path) -> None:
    file, table = tmp_path / "kept", source / "rounds" / "v6.0.toml"
    compiling.kept(source, file)
    first = file.stat().st_ino
    assert _round(compiling.kept(source, file), "v6.0").name == "v6.0"
    assert file.stat().st_ino == first
    text = table.read_text(encoding="utf-8")
    table.write_text(text.replace('"2465351861681999779"', '"24"'), "utf-8")
    assert _round(compiling.kept(source, file), "v6.0").seeds.qsl_rng_seed == "24"


@pytest.mark.parametrize("cut", [0, 10, 1000, -1])
def test_damaged_file_is_made_again(source: Path, tmp_path: Path, cut: int) -> None:
    file = tmp_path / "kept"
    compiling.kept(source, file)
    whole = file.read_bytes()
    file.write_bytes(whole[:cut])
    assert _round(compiling.kept(source, file), "v6.0").name == "v6.0"
    assert file.read_bytes() == whole


def test_nothing_is_kept_where_bytecode_is_not(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert compiling.kept(source, tmp_path / "kept") is None
    assert not (tmp_path / "kept").exists()


def test_a_damaged_table_is_left_to_its_reader(source: Path, tmp_path: Path) -> None:
    (source / "rounds" / "v6.0.toml").write_text("name = ", "utf-8")
    assert compiling.kept(source, tmp_path / "kept") is None
