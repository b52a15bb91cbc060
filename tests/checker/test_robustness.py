"""Nothing in a tree can end a check: every damage is a finding at its place, the rest goes on."""

from __future__ import annotations

import errno
import json
import os
import random
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from checker.parse.reading import MAX_LINE_BYTES
from schemas.report import Finding, Report
from tests.conftest import Grow
from tests.trees import GoodTree

_RANDOM = random.Random(20).randbytes(4096)

DAMAGES: dict[str, Callable[[bytes], bytes] | None] = {
    "emptied": lambda content: b"",
    "halved": lambda content: content[: len(content) // 2],
    "random bytes": lambda content: _RANDOM[: max(64, min(len(content), 4096))],
    "a list": lambda content: b"[]",
    "an object": lambda content: b"{}",
    "removed": None,
}

# Damage that leaves a tree which the rules accept. The reason stands with each.
PROSE = "text that people write freely: no program can tell a bad one from a good one"
OPTIONAL = "the round does not ask for this file"
PUBLISHED = "results published as valid have it"
STRIPPED = "publication strips these, so their absence is only a note, and they are not opened"


def _accepted(tree: GoodTree, path: str, damage: str) -> str | None:
    """Why this damage to this file is no error; None where it must be one."""
    name = path.rsplit("/", 1)[-1]
    parts = path.split("/")
    top = parts[2]
    if top in ("documentation", *tree.round.layout.code):
        return OPTIONAL
    if name == "calibration.md" and damage not in ("emptied", "removed"):
        return PROSE
    if "images" in parts or "videos" in parts:
        return STRIPPED
    if name == "README.md" and damage not in ("emptied", "removed"):
        return PROSE
    if name in ("analyzer_table.md", "power_settings.md"):
        return PROSE
    test = next((part for part in parts if part.startswith("TEST")), None)
    if test is not None:
        wanted = tree.round.compliance[test].files
        inside = path.split(f"/{test}/", 1)[1]
        if inside not in wanted and damage == "removed":
            return OPTIONAL
        if inside == "accuracy/mlperf_log_accuracy.json" and damage == "a list":
            # A list without answers was published: a warning up to v6.0 (C126).
            return PUBLISHED
        if inside == "accuracy/accuracy.txt":
            # Only its presence was ever asked for; verify_accuracy.txt is what counts.
            return OPTIONAL
    return None


def _names(finding: Finding, path: str) -> bool:
    """Whether a finding tells of this file: by its own path, or, where the file's name follows a
    pattern, by the path of its folder and the pattern."""
    if finding.path == path or path in finding.message:
        return True
    folder, _, name = path.rpartition("/")
    return name.endswith(".json") and (finding.path or "").startswith(folder)


TREES = {
    "v6.0": {"benchmark": "stable-diffusion-xl", "category": "edge"},
    "v6.0 tokens": {"benchmark": "llama2-70b-99", "category": "datacenter"},
    "v6.0 power": {"benchmark": "pointpainting", "category": "edge", "power": True},
    "v5.1": {"round": "v5.1", "benchmark": "retinanet", "category": "datacenter"},
}


CASES = [
    (kind, damage)
    for kind in TREES
    for damage in DAMAGES
    # Layouts differ in where files stand, not in how they are read: three kinds of damage will do.
    if kind in ("v6.0", "v6.0 power") or damage in ("emptied", "halved", "removed")
]


@pytest.mark.parametrize(("kind", "damage"), CASES)
def test_every_file_damaged(kind: str, damage: str, grow: Grow) -> None:
    """Each file in turn: an error that names it, and the other result keeps its verdict."""
    tree = grow(**TREES[kind])
    change = DAMAGES[damage]
    wrong = []
    for path in tree.files():
        if "/images/" in path and not path.endswith("/52.png"):
            continue  # one of twenty is enough
        place = tree.root / path
        content = place.read_bytes()
        if change is None:
            place.unlink()
        else:
            place.write_bytes(change(content))
        report = tree.check()
        place.write_bytes(content)
        assert not [f for f in report.findings if f.rule == "X001"], (path, report.findings)
        if _accepted(tree, path, damage) is not None:
            continue
        named = [f for f in report.findings if f.severity == "error" and _names(f, path)]
        if not named or not report.failed:
            wrong.append((path, "no error names it", [(f.rule, f.path) for f in report.findings]))
        own = [s for s in tree.scenarios if f"/{s}/" in path]
        for row in report.results:
            if own and row.scenario not in own and row.status != "valid":
                wrong.append((path, f"{row.scenario} lost its verdict", []))
            if own and row.scenario in own and row.status != "invalid":
                wrong.append((path, f"{row.scenario} is still valid", []))
        if len(report.results) != len(tree.scenarios):
            wrong.append((path, f"{len(report.results)} results left", []))
    assert wrong == []
    assert tree.findings(notes=True) == [], "the tree was not put back"


@pytest.mark.parametrize(
    ("round", "benchmark"), [("v0.5", "ssd-small"), ("v0.7", "3d-unet-99"), ("v4.1", "3d-unet-99")]
)
def test_older_rounds_damaged(round: str, benchmark: str, grow: Grow) -> None:
    """Where a round enforced less, damage may weigh less; it is never fatal, and never unseen in
    the log that gives the number."""
    tree = grow(round=round, benchmark=benchmark, scenarios=["Offline"])
    for path in tree.files():
        place = tree.root / path
        content = place.read_bytes()
        for damage in ("emptied", "halved", "random bytes"):
            change = DAMAGES[damage]
            assert change is not None
            place.write_bytes(change(content))
            report = tree.check()
            assert not [f for f in report.findings if f.rule == "X001"], (path, damage)
            if path.endswith("run_1/mlperf_log_detail.txt"):
                told = [f for f in report.findings if _names(f, path) and f.severity != "note"]
                assert told or _accepted(tree, path, damage), (path, damage)
            place.write_bytes(content)


# --- files that are no files --------------------------------------------------------------------


def _special(tree: GoodTree, what: str) -> str:
    """Replace the Offline detail log by something; returns its path."""
    place = tree.result("Offline").detail
    place.unlink()
    if what == "pipe":
        os.mkfifo(place)
    elif what == "folder":
        place.mkdir()
    elif what == "loop":
        place.symlink_to(place.name)
    elif what == "up":
        place.symlink_to("..")
    elif what == "dangling":
        place.symlink_to("nowhere.txt")
    elif what == "escaping":
        outside = tree.root.parent / "outside.txt"
        outside.write_text("secret\n")
        place.symlink_to(outside)
    elif what == "escaping relative":
        (tree.root.parent / "outside.txt").write_text("secret\n")
        place.symlink_to(os.path.relpath(tree.root.parent / "outside.txt", place.parent))
    elif what == "device":
        place.symlink_to("/dev/zero")
    return tree.relative(place)


PLAIN: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "datacenter"}


@pytest.mark.parametrize(
    "what",
    ["pipe", "folder", "loop", "up", "dangling", "escaping", "escaping relative", "device"],
)
def test_special_files(what: str, grow: Grow) -> None:
    tree = grow(**PLAIN)
    path = _special(tree, what)
    report = tree.check()
    assert not [f for f in report.findings if f.rule == "X001"]
    assert [f for f in report.findings if f.severity == "error" and f.path == path], report.findings
    assert {r.scenario: r.status for r in report.results} == {
        "Server": "valid",
        "Offline": "invalid",
    }
    assert "secret" not in repr(report)


@pytest.mark.parametrize(
    "where", ["", "results", "results/box1", "results/box1/digits/Offline/accuracy"]
)
def test_looping_folder(where: str, grow: Grow) -> None:
    """A link to a folder above does not make the tree endless, nor does it change a verdict."""
    tree = grow(**PLAIN)
    place = tree.root / tree.base / where / "again"
    place.symlink_to(os.path.relpath(tree.root / tree.base, place.parent))
    report = tree.check()
    assert not [f for f in report.findings if f.rule == "X001"]
    assert len(report.results) == 2
    assert [f for f in report.findings if (f.path or "").startswith(tree.relative(place))]


def test_link_inside_the_tree_counts_as_its_target(grow: Grow) -> None:
    """Submissions share files by links; those that stay inside are followed."""
    tree = grow(**PLAIN)
    one, two = tree.result("Offline"), tree.result("Server")
    (one.measurements / "README.md").unlink()
    (one.measurements / "README.md").symlink_to(
        os.path.relpath(two.measurements / "README.md", one.measurements)
    )
    assert [f for f in tree.findings() if f[0] != "S118"] == []


def test_hundred_megabyte_line(grow: Grow) -> None:
    """A line longer than any log has is a finding, in bounded memory and time."""
    tree = grow(**PLAIN)
    place = tree.result("Offline").detail
    with place.open("r+b") as stream:
        stream.seek(0, os.SEEK_END)
        stream.write(b':::MLLOG {"key": "long", "value": "')
        stream.seek(3 * MAX_LINE_BYTES + 5_000_000, os.SEEK_CUR)
        stream.write(b'"}\n')
    report = tree.check()
    assert not [f for f in report.findings if f.rule == "X001"]
    assert [f for f in report.findings if f.severity == "error" and f.path == tree.relative(place)]
    assert {r.scenario: r.status for r in report.results} == {
        "Server": "valid",
        "Offline": "invalid",
    }


@pytest.mark.parametrize(
    "name", ["accuracy_text", "summary", "measurements", "system", "user.conf"]
)
def test_huge_documents(name: str, grow: Grow) -> None:
    """A sparse file of 300 MB in place of a small document."""
    tree = grow(**PLAIN)
    places = {
        "accuracy_text": tree.result("Offline").accuracy_text,
        "summary": tree.result("Offline").summary,
        "measurements": tree.measurements("Offline"),
        "system": tree.root / tree.system_path,
        "user.conf": tree.measurements("Offline").parent / "user.conf",
    }
    place = places[name]
    with place.open("r+b") as stream:
        stream.truncate(300_000_000)
    report = tree.check()
    assert not [f for f in report.findings if f.rule == "X001"]
    assert [f for f in report.findings if f.severity == "error" and f.path == tree.relative(place)]


def _detail(tree: GoodTree, change: Callable[[bytes], bytes]) -> None:
    for place in (
        tree.result("Offline").detail,
        tree.result("Offline").summary,
        tree.result("Offline").accuracy_text,
        tree.measurements("Offline"),
        tree.measurements("Offline").parent / "user.conf",
        tree.root / tree.system_path,
    ):
        place.write_bytes(change(place.read_bytes()))


@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"\xef\xbb\xbf" + content,
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"),
        lambda content: content.rstrip(b"\n"),
        lambda content: content + b"\n\n",
    ],
    ids=["BOM", "CRLF", "BOM and CRLF", "no final newline", "blank lines"],
)
def test_harmless_editing(change: Callable[[bytes], bytes], grow: Grow) -> None:
    """What editors and version control do to text is not held against a submission."""
    tree = grow(**PLAIN)
    _detail(tree, change)
    assert tree.findings() == []


def test_utf16_is_a_finding(grow: Grow) -> None:
    tree = grow(**PLAIN)
    place = tree.measurements("Offline")
    place.write_bytes(place.read_text().encode("utf-16"))
    found = tree.check().findings
    assert [f for f in found if f.path == tree.relative(place) and f.severity == "error"]
    assert not [f for f in found if f.rule == "X001"]


def test_names_that_are_not_utf8(grow: Grow) -> None:
    """Undecodable names of files, folders, systems and submitters end up printable."""
    tree = grow(**PLAIN)
    top = tree.root / tree.base
    odd = os.fsdecode(b"\xff\xfe")
    try:
        (top / "results" / odd / "digits/Offline/performance").mkdir(parents=True)
    except OSError as error:
        if error.errno == errno.EILSEQ:
            pytest.skip("this file system takes UTF-8 names only")
        raise
    for name in (b"systems/\xe9.json", b"results/box1/digits/Offline/\xe9.txt", b"\x80"):
        (top / os.fsdecode(name)).write_bytes(b"{}")
    top.rename(top.parent / os.fsdecode(b"Acm\xe9"))
    report = tree.check()
    assert not [f for f in report.findings if f.rule == "X001"]
    assert len(report.results) == 3
    json.dumps(json.loads(_encoded(report)), ensure_ascii=False).encode("utf-8")


def _encoded(report: Report) -> bytes:
    from schemas.report import encode

    return encode(report)


@pytest.mark.parametrize(
    "name",
    [
        "a\nb",
        "a\tb",
        "a\x1b[31mb",
        "=1+1",
        "-rf",
        "a b",
        "…",
        "a" * 200,
        "*",
        "%s",
        "{x}",
        "\\",
        "TEST01",
    ],
)
def test_odd_names(name: str, grow: Grow) -> None:
    """Odd names of folders and files are told, never obeyed."""
    tree = grow(**PLAIN)
    tree.write(
        f"{tree.base}/results/box1/{name}/Offline/performance/run_1/mlperf_log_detail.txt", b"x"
    )
    tree.write(f"{tree.base}/{name}.txt", b"x")
    tree.write(f"{name}/x/y", b"x")
    tree.write(f"{tree.base}/systems/{name}.json", b"{}")
    report = tree.check()
    assert not [f for f in report.findings if f.rule == "X001"], report.findings
    assert {r.scenario for r in report.results if r.directory == "digits"} == {"Server", "Offline"}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_no_permission(what: str, grow: Grow) -> None:
    tree = grow(**PLAIN)
    place = tree.result("Offline").detail if what == "file" else tree.result("Offline").performance
    mode = stat.S_IMODE(place.stat().st_mode)
    place.chmod(0)
    try:
        report = tree.check()
    finally:
        place.chmod(mode)
    assert not [f for f in report.findings if f.rule == "X001"]
    assert [f for f in report.findings if f.severity == "error" and f.path == tree.relative(place)]


def test_deep_nesting(grow: Grow) -> None:
    """A thousand folders below each other, and JSON nested as deep."""
    tree = grow(**PLAIN)
    here = tree.root / tree.result("Offline").path
    for _ in range(300):
        here = here / "d"
    here.mkdir(parents=True)
    tree.write(tree.measurements("Offline"), "[" * 100_000)
    tree.write(tree.measurements("Server"), '{"a":' * 50_000 + "1" + "}" * 50_000)
    report = tree.check()
    assert not [f for f in report.findings if f.rule == "X001"], report.findings
    for scenario in ("Offline", "Server"):
        path = tree.relative(tree.measurements(scenario))
        assert [f for f in report.findings if f.path == path and f.severity == "error"]
    assert [f for f in report.findings if "nested" in f.message]


# --- every leaf of every JSON document ----------------------------------------------------------


def _leaves(value: Any, pointer: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key in value:
            yield from _leaves(value[key], (*pointer, key))
    elif isinstance(value, list):
        for index in range(min(len(value), 2)):
            yield from _leaves(value[index], (*pointer, index))
    else:
        yield pointer


class _Gone:
    pass


GONE = _Gone()
HUGE = "x" * 10_000_000
VALUES: dict[str, Any] = {
    "null": None, "empty text": "", "empty list": [], "empty object": {}, "-1": -1,
    "1e400": "\x001e400", "formula": "=1+1", "10 MB text": HUGE, "deleted": GONE,
}  # fmt: skip


def _with(document: Any, pointer: tuple[Any, ...], value: Any) -> Any:
    changed = json.loads(json.dumps(document))
    here = changed
    for key in pointer[:-1]:
        here = here[key]
    if value is GONE:
        del here[pointer[-1]]
    else:
        here[pointer[-1]] = value
    return changed


# What a changed leaf may be without anyone being told: its meaning is free text or one value
# of many, and "required" asks only that the field is there.
NULLABLE = {
    "null",
    "empty text",
    "empty list",
    "empty object",
    "-1",
    "1e400",
    "formula",
    "10 MB text",
}


@pytest.mark.parametrize("value", VALUES)
def test_every_leaf_of_the_system_description(value: str, grow: Grow) -> None:
    tree = grow(round="v6.1", benchmark="whisper", category="edge")
    place = tree.root / tree.system_path
    _sweep(
        tree,
        place,
        value,
        set(tree.round.system_description.required),
        set(tree.round.system_description.non_empty),
    )


@pytest.mark.parametrize("value", VALUES)
def test_every_leaf_of_the_measurements(value: str, grow: Grow) -> None:
    tree = grow(round="v6.1", benchmark="whisper", category="edge")
    _sweep(
        tree,
        tree.measurements("Offline"),
        value,
        set(tree.round.measurements.required),
        set(tree.round.measurements.non_empty),
    )


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", ["client.json", "server.json"])
def test_every_leaf_of_the_power_records(name: str, value: str, grow: Grow) -> None:
    tree = grow(benchmark="pointpainting", category="edge", power=True)
    place = tree.result("SingleStream").performance.parent / "power" / name
    _sweep(tree, place, value, set(), set())


def _sweep(tree: GoodTree, place: Path, value: str, required: set[str], filled: set[str]) -> None:
    content = place.read_text()
    document = json.loads(content)
    path = tree.relative(place)
    silent = []
    pointers = list(_leaves(document))
    # Of long documents (the power records), and of long texts, a part will do.
    pointers = pointers[:: max(1, len(pointers) // 40)]
    if value == "10 MB text":
        pointers = pointers[::4]
    for pointer in pointers:
        text = json.dumps(_with(document, pointer, VALUES[value]))
        place.write_text(text.replace('"\\u00001e400"', "1e400"))
        report = tree.check()
        assert not [f for f in report.findings if f.rule == "X001"], (pointer, report.findings)
        assert len(_encoded(report)) < 3_000_000
        told = [f for f in report.findings if f.path == path and f.severity != "note"]
        empty = value in ("null", "empty text", "empty list", "empty object")
        wanted = (value == "deleted" and pointer[0] in required) or (empty and pointer[0] in filled)
        if wanted and not any(f.severity == "error" for f in told):
            silent.append(pointer)
    place.write_text(content)
    assert silent == [], f"{value}: nothing told"
    assert tree.findings(notes=True) == []
