"""One entry for everything that reads bytes of a stranger: parsers, archives, reports, waivers.

Each takes bytes and must return. What it may raise for bad input is its documented error, which is
caught here; whatever else comes out is a finding of the fuzzer.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from checker.accuracy.log import read_log
from checker.accuracy.problem import AccuracyError
from checker.archive import BadArchive, Limits, opened
from checker.parse import accuracy_log, documents, endpoints, power, summary, user_conf, verify
from checker.parse.accuracy_txt import read_accuracy
from checker.parse.detail import read_detail
from checker.parse.reading import File, Folder, read_lines, read_text, sha256_of
from checker.waivers import BadWaivers, load_waivers
from schemas.load import load_round
from schemas.report import decode

NEWEST = load_round("v6.1")
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
    for key in list(log.entries):
        log.integer(key)
        log.number(key)
        log.text(key)
        log.boolean(key)


def _summary(file: File) -> None:
    from checker.parse.detail import DetailLog

    found = summary.read_summary(file)
    summary.into_detail(found, DetailLog("mlperf_log_detail.txt"))


def _verification(file: File) -> None:
    verify.read_verification(file)


def _power(file: File) -> None:
    """The logs of a power run, all from one input, cut where a line has only ``--``."""
    names = ("spl.txt", "client.json", "server.json", "ptd_logs.txt")
    data = Path(file.real).read_bytes()
    run, logs = Folder("run_1"), Folder("power")
    with tempfile.TemporaryDirectory(prefix="assay-fuzz-") as folder:
        for name, part in zip(names, data.split(b"\n--\n"), strict=False):
            place = Path(folder) / name
            place.write_bytes(part)
            (run if name == "spl.txt" else logs).files[name] = File(name, str(place), len(part))
        power.read_power(run, logs, None, NEWEST)
        if "ptd_logs.txt" in logs.files:
            power.read_ptd_log(logs.files["ptd_logs.txt"])
        if "spl.txt" in run.files:
            power.read_samples(run.files["spl.txt"])


def _endpoints(file: File) -> None:
    """The three documents of an endpoints result, cut where a line has only ``--``."""
    names = ("config.yaml", "result_summary.json", "accuracy_results.json")
    data = Path(file.real).read_bytes()
    folder = Folder("Offline")
    with tempfile.TemporaryDirectory(prefix="assay-fuzz-") as top:
        for name, part in zip(names, data.split(b"\n--\n"), strict=False):
            place = Path(top) / name
            place.write_bytes(part)
            folder.files[name] = File(name, str(place), len(part))
        documents.read_json(File("x.json", file.real, file.size))
        if "config.yaml" in folder.files:
            endpoints.read_yaml(folder.files["config.yaml"])


def _reading(file: File) -> None:
    for _ in read_lines(file):
        pass
    read_text(file)
    sha256_of(file)


def _accuracy_log(file: File) -> None:
    accuracy_log.read_ends(file)
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
    "accuracy_txt": _reader(
        "accuracy.txt", lambda file: read_accuracy(file, NEWEST.accuracy_patterns)
    ),
    "documents": _reader("system.json", lambda file: documents.read_json(file)),
    "endpoints": _reader("endpoints", _endpoints),
    "power": _reader("power", _power),
    "user_conf": _reader("user.conf", lambda file: user_conf.read_conf(file)),
    "verify": _reader("verify_accuracy.txt", _verification),
    "reading": _reader("README.md", _reading),
    "tar": _archive(".tar"),
    "zip": _archive(".zip"),
    "report": _report,
    "waivers": _reader("waivers.toml", _waivers),
}
"""What can be fuzzed, by the name of the module that reads it."""
