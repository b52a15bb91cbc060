"""One entry for everything that reads bytes of a stranger: parsers, archives, reports, waivers.

Each takes bytes and must return. What it may raise for bad input is its documented error, which is
caught here; whatever else comes out is a finding of the fuzzer.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from checker.accuracy.log import read_log
from checker.accuracy.problem import AccuracyError
from checker.archive import BadArchive, Limits, opened
from checker.parse import (
    accuracy_log,
    documents,
    endpoints,
    power,
    reading,
    summary,
    user_conf,
    verify,
)
from checker.parse.accuracy_txt import read_accuracy
from checker.parse.detail import DetailLog, add, entry_of
from checker.parse.detail_file import read_detail, read_start
from checker.parse.reading import (
    Fault,
    File,
    Folder,
    Unreadable,
    integer_of,
    list_tree,
    number_of,
    printable,
    read_bytes,
    read_lines,
    read_text,
    sha256_of,
    text_lines,
)
from checker.waivers import BadWaivers, load_waivers
from schemas.load import load_round, round_names
from schemas.report import decode

NEWEST = load_round("v6.1")
LOCAL = next(round for name in round_names() if not (round := load_round(name)).power.clock_is_utc)
"""A round whose power logs have the local time."""
_SMALL = Limits(files=200, bytes=4 << 20, ratio=None)


@contextlib.contextmanager
def _file(data: bytes, name: str) -> Iterator[File]:
    with tempfile.TemporaryDirectory(prefix="assay-fuzz-") as folder:
        place = Path(folder) / name
        place.write_bytes(data)
        yield File(name, str(place), len(data))


def _reader(name: str, read: Callable[[File], Any]) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        with _file(data, name) as file:
            read(file)

    return run


def _detail(file: File) -> None:
    log = read_detail(file)
    # Values are decoded when they are asked for.
    for key in [*log.entries, "absent"]:
        log.integer(key)
        log.number(key)
        log.text(key)
        log.boolean(key)
        log.length(key)
        log.line(key)
        log.entry(key)
        assert bool(log.all(key)) == (key in log)
    read_start(File(file.path, file.real, 100_000), ("effective_scenario",))
    for entry in log.errors[:3]:
        assert entry.is_error and (entry.is_warning, entry.source, entry.source_line, entry.tid)
    assert bool(log) == bool(log.entries)


def _summary(file: File) -> None:
    found = summary.read_summary(file)
    for key in found.values:
        assert found.line(key) and found.get(key) is not found.get("absent")
    summary.into_detail(found, DetailLog("mlperf_log_detail.txt"))


def _accuracy_text(file: File) -> None:
    text = read_accuracy(file, NEWEST.accuracy_patterns)
    for metric in [*text.values, "absent"]:
        assert (text.first(metric) is None) == (text.last(metric) is None)


def _document(file: File) -> None:
    document = documents.read_json(file)
    for key in [*list(document.fields)[:20], "absent"]:
        document.line_of(key)


def _conf(file: File) -> None:
    conf = user_conf.read_conf(file)
    for setting in conf.settings[:50]:
        assert setting.number is None or setting.value
        assert conf.lookup(setting.model, setting.scenario, setting.key) is not None
    conf.lookup("a", "Offline", "absent")


def _verification(file: File) -> None:
    text = verify.read_verification(file)
    assert not text.passed or text.passes


@contextlib.contextmanager
def _parts(file: File, names: tuple[str, ...], path: str) -> Iterator[Folder]:
    """A folder of files made of one input, which is cut where a line has only ``--``."""
    folder = Folder(path)
    with tempfile.TemporaryDirectory(prefix="assay-fuzz-") as top:
        for name, part in zip(names, Path(file.real).read_bytes().split(b"\n--\n"), strict=False):
            place = Path(top) / name
            place.write_bytes(part)
            folder.files[name] = File(f"{path}/{name}", str(place), len(part))
        yield folder


def _power(file: File) -> None:
    """The logs of a power run, with LoadGen's interval from its detail log."""
    names = ("spl.txt", "client.json", "server.json", "ptd_logs.txt")
    detail = DetailLog("mlperf_log_detail.txt")
    for key, second in (("power_begin", 1), ("power_end", 7)):
        add(detail, entry_of(key, 1, value=f"07-23-2024 17:08:0{second}.000"))
    with _parts(file, names, "power") as logs:
        run = Folder("run_1", {"spl.txt": logs.files["spl.txt"]})
        for round in (NEWEST, LOCAL):
            found = power.read_power(run, logs, detail, round)
            assert found.average_watts is None or found.inside
        power.read_power(None, logs, None, NEWEST)
        power.read_power(run, None, None, NEWEST)


def _endpoints(file: File) -> None:
    """The documents of an endpoints result."""
    names = ("config.yaml", "result_summary.json", "accuracy_results.json", "a.json")
    with _parts(file, names, "Offline") as folder:
        config, result, accuracy, audit = (folder.files.get(name) for name in names)
        audits = Folder("audit", {"a.json": audit}) if audit is not None else None
        found = endpoints.read_endpoints("Offline", config, result, accuracy, audits)
    for kind in ("config", "performance", "accuracy"):
        found.document(kind)
    found.setting("settings", "load_pattern", "type")
    found.number("qps")
    for percent in (50.0, 99.0):
        found.percentile("ttft", percent)
        found.percentile("latency", percent, early=True)


def _reading(file: File) -> None:
    for _ in read_lines(file):
        pass
    text, _faults = read_text(file)
    sha256_of(file)
    printable(os.fsdecode(text[:50].encode("latin-1", "replace")))
    for word in text[:2000].split():
        number_of(word)
        integer_of(word)
    faults: list[Fault] = []
    for _ in text_lines(file, faults, limit=1000):
        pass
    for limit in (1, 100):
        with contextlib.suppress(Unreadable):
            read_bytes(file, limit)


def _listing(data: bytes) -> None:
    """A tree made of lines ``kind path [target]``: f file, d folder, l link, p pipe, u unreadable;
    what is listed is read, and x and v take a file or a folder away before that."""
    with tempfile.TemporaryDirectory(prefix="assay-fuzz-") as folder:
        gone: list[Path] = []
        for line in data.split(b"\n")[:60]:
            kind, _, rest = line.partition(b" ")
            name, _, target = rest.partition(b" ")
            parts = [p for p in name.split(b"/") if p not in (b"", b".", b"..")][:80]
            place = Path(folder, *(os.fsdecode(part[:200].replace(b"\0", b"")) for part in parts))
            with contextlib.suppress(OSError, ValueError):
                # Not through a link that leaves the folder, and not into a pipe that nobody reads.
                inside = Path(os.path.realpath(place)).is_relative_to(os.path.realpath(folder))
                if not inside or place.is_fifo():
                    continue
                place.parent.mkdir(parents=True, exist_ok=True)
                if kind == b"f":
                    place.write_bytes(rest)
                elif kind == b"d":
                    place.mkdir(parents=True, exist_ok=True)
                elif kind == b"l":
                    place.symlink_to(os.fsdecode(target[:200]))
                elif kind == b"p":
                    os.mkfifo(place)
                elif kind in (b"x", b"v"):
                    gone.append(place)
        tree = list_tree(Path(folder), max_depth=20, max_entries=200)
        assert list_tree(Path(folder) / "absent").faults
        short = list_tree(Path(folder), max_entries=2)
        assert len(list(short.all_files())) <= 2
        large, reading.LARGE = reading.LARGE, 0
        try:
            packed = list_tree(Path(folder), max_depth=20, max_entries=200)
        finally:
            reading.LARGE = large
        assert list(packed.all_files()) == list(tree.all_files())
        assert [f.faults for f in packed.walk()] == [f.faults for f in tree.walk()]
        for place in gone:
            with contextlib.suppress(OSError):
                place.unlink() if place.is_file() else place.rmdir()
        for file in tree.all_files():
            assert file.name and tree.file_at(file.path) is file
            with contextlib.suppress(Unreadable):
                read_bytes(file, 1000)
            with contextlib.suppress(Unreadable):
                read_text(file)
            with contextlib.suppress(Unreadable):
                sha256_of(file)
        for below in tree.walk():
            assert tree.at(below.path) is not None or not below.path
            tree.folder(*below.path.upper().split("/"))


def _accuracy_log(file: File) -> None:
    for counted in (False, True):
        ends = accuracy_log.read_ends(file, counted=counted)
        if ends is not None:
            list(ends.damage(file.path))
    with contextlib.suppress(AccuracyError):
        read_log(Path(file.real)).drain()


def _archive(suffix: str) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        with tempfile.TemporaryDirectory(prefix="assay-fuzz-") as folder:
            inside = Path(folder) / "in"
            inside.mkdir()
            place = inside / f"a{suffix}"
            place.write_bytes(data)
            with contextlib.suppress(BadArchive), opened(place, _SMALL):
                pass
            if [p.name for p in inside.iterdir()] != [place.name]:
                raise AssertionError("something was written outside the folder to unpack into")

    return run


def _report(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        import reports

        found = decode(data)
        for form in reports.FORMATS:
            if form != "xlsx":
                reports.render(found, form)


def _waivers(file: File) -> None:
    with contextlib.suppress(BadWaivers):
        load_waivers(Path(file.real))


PARSERS: dict[str, Callable[[bytes], None]] = {
    "detail": _reader("mlperf_log_detail.txt", _detail),
    "summary": _reader("mlperf_log_summary.txt", _summary),
    "accuracy_log": _reader("mlperf_log_accuracy.json", _accuracy_log),
    "accuracy_txt": _reader("accuracy.txt", _accuracy_text),
    "documents": _reader("system.json", _document),
    "endpoints": _reader("endpoints", _endpoints),
    "power": _reader("power", _power),
    "user_conf": _reader("user.conf", _conf),
    "verify": _reader("verify_accuracy.txt", _verification),
    "reading": _reader("README.md", _reading),
    "listing": _listing,
    "tar": _archive(".tar"),
    "zip": _archive(".zip"),
    "report": _report,
    "waivers": _reader("waivers.toml", _waivers),
}
"""What can be fuzzed, by the name of the module that reads it."""
