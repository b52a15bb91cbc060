"""What changed from round to round: every field is compared, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from reports.round_changes import changes
from schemas import load_round
from schemas.round import Round

IDENTITY = {"name", "title", "official", "deadline", "published"}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each field of a round's structures, one of each kind where they repeat."""
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from places(getattr(value, field), (*path, field))
    elif (
        isinstance(value, dict) and value and isinstance(next(iter(value.values())), msgspec.Struct)
    ):
        for key in value:
            yield from places(value[key], (*path, key))
    else:
        yield path


def changed(value: Any, path: tuple[Any, ...]) -> Any:
    """The structure with another value at the path."""
    if path:
        head, *rest = path
        if isinstance(value, dict):
            return {**value, head: changed(value[head], tuple(rest))}
        return msgspec.structs.replace(value, **{head: changed(getattr(value, head), tuple(rest))})
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}-other"
        case list():
            return value[:-1] if value else ["other"]
        case dict():
            return dict(list(value.items())[:-1]) if value else {"other": "other"}
        case _:
            return 7


def test_every_field_of_a_round_is_compared() -> None:
    old = load_round("v6.1")
    for path in places(old):
        if path[0] in IDENTITY:
            continue
        text = changes(old, changed(old, path))
        lines = [
            line
            for line in text.splitlines()
            if line.startswith("* ") and "nothing out" not in line
        ]
        assert len(lines) == 1, (path, text)
        assert "None" not in text and "(?P<" not in text, path


def test_a_round_does_not_differ_from_itself() -> None:
    round: Round = load_round("v6.1")
    assert changes(round, round) == "# v6.1 to v6.1\n\n* nothing outside the benchmarks\n"


@pytest.mark.parametrize(
    "line",
    [
        "* Server target latency: 60,000 ms -> 12,000 ms",
        "* Interactive equal issue: no -> yes",
        "* layout private id: none -> `{division}/{submitter}/results/{system}/privateid.json`",
        "* aliases contains: added llama3_1-405b as no benchmark; removed llama3_1-405b as llama3.1-405b",
        "* accuracy patterns E2E_ACCURACY: added, `^Accuracy:\\s*{number}`",
        "* accuracy by scenario: none -> Interactive (0.99 x 0.7878 fraction)",
        "* categories datacenter required: removed Server",
    ],
)
def test_a_change_reads_as_a_sentence(line: str) -> None:
    assert line in changes(load_round("v6.0"), load_round("v6.1")).splitlines()
