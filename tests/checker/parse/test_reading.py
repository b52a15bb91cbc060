"""Listing a tree and opening its files: bounded, never blocking, never leaving the tree."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from checker.parse import reading
from checker.parse.accuracy_log import read_ends
from checker.parse.reading import (
    File,
    Unreadable,
    list_tree,
    printable,
    read_bytes,
    read_lines,
    read_text,
    sha256_of,
)
from tests.checker.parse.conftest import MakeFile


def _tree(root: Path) -> None:
    for path in (
        "closed/A/systems/s.json",
        "closed/A/results/s/b/Offline/x.txt",
        ".git/config",
        "z.txt",
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)


def test_listing(tmp_path: Path) -> None:
    _tree(tmp_path)
    root = list_tree(tmp_path)
    assert [f.path for f in root.all_files()] == [
        "z.txt",
        "closed/A/results/s/b/Offline/x.txt",
        "closed/A/systems/s.json",
    ]
    assert root.faults == []
    assert root.folder("closed", "a", "RESULTS") is root.at("closed/A/results")
    assert root.at("closed/a") is None and root.file_at("z.txt") is root.files["z.txt"]
    file = root.file_at("closed/A/systems/s.json")
    assert file is not None and (file.name, file.size, file.state) == ("s.json", 23, "file")


def test_exact_names_come_first(tmp_path: Path) -> None:
    for name in ("Results", "results"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text("x")
    root = list_tree(tmp_path)
    found = root.folder("results")
    assert found is not None and list(found.files) == ["results.txt"]


@pytest.mark.parametrize(
    ("target", "state"),
    [
        ("nowhere", "dangling"), ("l", "loop"), ("..", "escaping"), (".", "loop"), ("/etc", "escaping"),
        ("../other", "dangling"), ("d", None), ("f", None),
    ],
)  # fmt: skip
def test_links(target: str, state: str | None, tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "d").mkdir(parents=True)
    (top / "f").write_text("x")
    (top / "l").symlink_to(target)
    root = list_tree(top)
    if state is None:
        entry = root.folders.get("l") or root.files.get("l")
        assert entry is not None and entry.link
    else:
        assert root.files["l"].state == state
        with pytest.raises(Unreadable):
            read_bytes(root.files["l"])


def test_mutual_links(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a/to_b").symlink_to("../b")
    (tmp_path / "b/to_a").symlink_to("../a")
    root = list_tree(tmp_path)
    assert sum(1 for _ in root.walk()) < 300


def test_depth_and_count_are_bounded(tmp_path: Path) -> None:
    here = tmp_path
    for _ in range(20):
        here = here / "d"
    here.mkdir(parents=True)
    root = list_tree(tmp_path, max_depth=5)
    assert [f.kind for folder in root.walk() for f in folder.faults] == ["too-large"]
    for i in range(50):
        (tmp_path / f"f{i}").write_text("")
    root = list_tree(tmp_path, max_entries=10)
    assert "too-large" in {f.kind for folder in root.walk() for f in folder.faults}


def test_special_files_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    file = list_tree(tmp_path).files["pipe"]
    assert file.state == "special"
    for state in ("special", "file"):
        with pytest.raises(Unreadable) as caught:
            read_bytes(File("pipe", file.real, 0, state))
        assert caught.value.fault.path == "pipe"


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(Unreadable) as caught:
        read_bytes(File("x", str(tmp_path / "x"), 3))
    assert caught.value.fault.kind == "missing"
    with pytest.raises(Unreadable):
        list(read_lines(File("x", str(tmp_path), 3)))
    assert list_tree(tmp_path / "nothing").faults


def test_limits(as_file: MakeFile) -> None:
    file = as_file(b"0123456789")
    assert read_bytes(file, 10) == b"0123456789"
    with pytest.raises(Unreadable) as caught:
        read_bytes(file, 9)
    assert caught.value.fault.kind == "too-large"


def test_text(as_file: MakeFile) -> None:
    assert read_text(as_file(b"\xef\xbb\xbfab")) == ("ab", [])
    text, faults = read_text(as_file(b"a\nb\xff\n"))
    assert text == "a\nb\\xff\n" and [(f.kind, f.line) for f in faults] == [("encoding", 2)]


def test_lines(as_file: MakeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(read_lines(as_file(b"a\r\nb\n\nc"))) == [b"a", b"b", b"", b"c"]
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 8)
    assert list(read_lines(as_file(b"a\n" + b"x" * 30 + b"\nb\n"))) == [b"a", b"x" * 8, b"b"]


def test_hash(as_file: MakeFile) -> None:
    data = os.urandom(3_000_000)
    assert sha256_of(as_file(data)) == hashlib.sha256(data).hexdigest()


def test_printable() -> None:
    assert printable("é") == "é"
    assert printable(os.fsdecode(b"a\xffb")) == "a\\xffb"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'[\n{ "seq_id" : 1 }\n]\n', (True, True, True)), (b"[\n]\n", (True, True, False)),
        (b"{}", (False, False, False)), (b'[\n{ "seq_id" : 1,', (True, False, True)),
        (b'[\n  {\n  "data": "' + b"00" * 9000 + b'", "qsl_idx": 3}\n]', (True, True, True)),
        (b"", (False, False, False)), (b" ]", (False, True, False)),
    ],
)  # fmt: skip
def test_ends_of_accuracy_logs(
    content: bytes, expected: tuple[bool, ...], as_file: MakeFile
) -> None:
    ends = read_ends(as_file(content))
    assert ends is not None and (ends.begins, ends.ends, ends.answers) == expected
    assert ends.size == len(content)


def test_ends_of_what_is_no_file(tmp_path: Path) -> None:
    assert read_ends(File("x", str(tmp_path), 0)) is None


def test_two_lists_of_answers(as_file: MakeFile) -> None:
    one = b'[\n{"seq_id":0,"qsl_idx":0,"data":"00"}\n]\n'
    for content, said in (
        (one, []),
        (one + one, ["found 2 lists of answers; expected LoadGen's one"]),
    ):
        ends = read_ends(as_file(content), counted=True)
        assert ends is not None
        assert [fault.message for fault in ends.damage("x")] == said


def test_a_merge_conflict_is_a_fault(as_file: MakeFile) -> None:
    text = b"a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> other\n"
    _, faults = read_text(as_file(text))
    assert [(f.kind, f.line) for f in faults] == [("syntax", 2)]
    assert read_text(as_file(b">>>>>>> a title\n=======\n"))[1] == []
