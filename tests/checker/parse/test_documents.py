"""JSON and YAML documents: their value, or a fault with a line."""

from __future__ import annotations

import sys

import pytest

from checker.parse.documents import read_json
from checker.parse.endpoints import read_yaml
from tests.checker.parse.conftest import MakeFile


def test_fields_lines_and_duplicates(as_file: MakeFile) -> None:
    document = read_json(as_file('{\n "a": 1,\n "b": {"c": 2, "c": 3},\n "a": 4\n}\n'))
    assert document.faults == [] and document.fields == {"a": 4, "b": {"c": 3}}
    assert ("a", 1, 4) in document.duplicates and ("c", 2, 3) in document.duplicates
    assert document.line_of("b") == 3 and document.line_of("z") is None


@pytest.mark.parametrize("text", ["[]", "1", '"x"', "null", "true"])
def test_not_an_object(text: str, as_file: MakeFile) -> None:
    document = read_json(as_file(text))
    assert document.faults == [] and document.fields == {}


COMMA = 2 if sys.version_info >= (3, 13) else 3
"""The line of a comma too many, or of what follows it: Python's own parser names it."""


@pytest.mark.parametrize(
    ("content", "kind", "line"),
    [
        (b"", "empty", None), (b" \n", "empty", None), (b'{\n"a": 1,\n}', "syntax", COMMA),
        (b'{"a": 1', "syntax", 1), (b"[" * 100_000, "syntax", None), (b"\x00\x01", "syntax", 1),
        (b'{"a": ' + b"9" * 5000 + b"}", "syntax", None), (b'{"a": ' + b"9" * 301 + b"}", "syntax", None),
        (b'{"a": ' * 65 + b"1" + b"}" * 65, "syntax", None),
    ],
)  # fmt: skip
def test_faults(content: bytes, kind: str, line: int | None, as_file: MakeFile) -> None:
    document = read_json(as_file(content))
    assert kind in {f.kind for f in document.faults}
    if line is not None:
        assert line in {f.line for f in document.faults}
    assert document.value is None


def test_encodings(as_file: MakeFile) -> None:
    assert read_json(as_file(b'\xef\xbb\xbf{"a": "\xc3\xa9"}')).fields == {"a": "é"}
    latin = read_json(as_file(b'{"a": "\xe9"}', "latin"))
    assert ("encoding", 1) in {(f.kind, f.line) for f in latin.faults}
    assert read_json(as_file('{"a": 1}'.encode("utf-16"), "wide")).value is None


def test_too_large(as_file: MakeFile) -> None:
    assert [f.kind for f in read_json(as_file(b"[1, 2, 3]"), limit=4).faults] == ["too-large"]


def test_yaml(as_file: MakeFile) -> None:
    assert read_yaml(as_file("a: 1\nb: [x, y]\n")).fields == {"a": 1, "b": ["x", "y"]}


@pytest.mark.parametrize(
    "text",
    [
        "a: [1",
        "a: &x 1\nb: *x\n",
        "!!python/object/apply:os.system [ls]",
        "a: b: c",
        "\x00",
        "- " * 50_000,
    ],
)
def test_yaml_faults(text: str, as_file: MakeFile) -> None:
    document = read_yaml(as_file(text))
    assert document.faults and document.value is None


def test_yaml_aliases_do_not_grow(as_file: MakeFile) -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(8)
    )
    document = read_yaml(as_file(bomb))
    assert document.faults and document.value is None
