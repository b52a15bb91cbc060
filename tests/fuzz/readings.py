"""What rules can see of one file: two files with the same reading are the same to every rule.

A reading leaves out where something is (lines, sizes) and, of a detail log, the records that no rule
asks for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from checker.accuracy.log import read_log
from checker.accuracy.problem import AccuracyError
from checker.parse.accuracy_log import read_ends
from checker.parse.accuracy_txt import read_accuracy
from checker.parse.detail import DetailLog
from checker.parse.detail_file import read_detail
from checker.parse.documents import read_json
from checker.parse.endpoints import read_yaml
from checker.parse.power import read_ptd_log, read_samples
from checker.parse.reading import File, read_text
from checker.parse.summary import read_summary
from checker.parse.user_conf import read_conf
from checker.parse.verify import read_verification
from schemas.round import Round

_PLACE = {"path", "line", "lines", "size", "text", "cut", "at"}


_DEPTH = 100
"""A document may be nested deeper than it can be compared."""


def plain(value: Any, depth: int = 0) -> Any:
    """A parser's result as plain values that can be compared."""
    if depth > _DEPTH:
        return "…"
    depth += 1
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in dataclasses.fields(value)]
        return {
            n: plain(getattr(value, n), depth) for n in names if n not in _PLACE and "line" not in n
        }
    if isinstance(value, msgspec.Struct):
        return {
            n: plain(getattr(value, n), depth) for n in value.__struct_fields__ if n not in _PLACE
        }
    if isinstance(value, dict):
        return {str(k): plain(v, depth) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, depth) for v in value]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return repr(value)


class Asked:
    """Which records of detail logs rules ask for: the last of a key, or all of them."""

    def __init__(self) -> None:
        self.last: set[str] = set()
        self.all: set[str] = set()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within it every access is noted."""
        names = ("get", "entry", "all", "line", "length", "__contains__")
        real = {name: getattr(DetailLog, name) for name in names}

        def noting(call: Callable[..., Any], whole: bool) -> Callable[..., Any]:
            def access(log: DetailLog, key: str) -> Any:
                (self.all if whole else self.last).add(key)
                return call(log, key)

            return access

        for name, call in real.items():
            setattr(DetailLog, name, noting(call, name == "all"))
        try:
            yield
        finally:
            for name, call in real.items():
                setattr(DetailLog, name, call)


def _format_beside(summary: Path) -> str:
    """The format of the detail log beside a summary, "" where there is none."""
    detail = summary.with_name("mlperf_log_detail.txt")
    if not detail.is_file():
        return ""
    return read_detail(File(detail.name, str(detail), detail.stat().st_size)).format


def reading_of(place: Path, round: Round, asked: Asked) -> Any:
    """The reading of a file; None where nothing reads files of this name."""
    name = place.name
    file = File(name, str(place), place.stat().st_size)
    if name == "mlperf_log_detail.txt":
        log = read_detail(file)
        last = {key: log.get(key) for key in asked.last if key in log}
        every = {key: [e.value for e in log.all(key)] for key in asked.all if key in log}
        return plain([log.format, last, every, log.error_count])
    if name == "mlperf_log_summary.txt":
        summary = read_summary(file)
        stated = {key: value for key, (value, _) in summary.values.items()}
        again = [(key, first, other) for key, first, other, _ in summary.repeated]
        headline = (summary.headline_percentile or ())[:2]
        estimates = [(percent, ns) for percent, ns, _ in summary.estimates]
        if "/accuracy/" in str(place) and _format_beside(place) == "text":
            # Text logs leave the results to the summary, and how fast an accuracy run was is nothing
            # that rules read: one number is as good as another.
            stated = {
                key: 0 if key.startswith("result_") and type(value) in (int, float) else value
                for key, value in stated.items()
            }
            headline = headline[:1]
        counts = (summary.errors, summary.warnings is None, summary.titles)
        return plain([stated, again, headline, estimates, *counts])
    if name == "mlperf_log_accuracy.json" and "/TEST" not in str(place):
        return plain(read_ends(file, counted=True))
    if name == "mlperf_log_accuracy.json":
        try:
            log = read_log(place)
            return plain([(r.seq_id, r.qsl_idx, r.data) for r in log])
        except AccuracyError as error:
            return str(error)
    if name.endswith("accuracy.txt") and not name.startswith("verify"):
        text = read_accuracy(file, round.accuracy_patterns)
        ends = [[m, v[0].value, v[-1].value] for m, v in sorted(text.values.items())]
        return plain([ends, [h for h, _ in text.hashes[:1]]])
    if name.startswith("verify"):
        text = read_verification(file)
        checks = {name: state for name, (state, _) in text.checks.items()}
        return plain([bool(text.passes), bool(text.fails), text.scores, text.counts, checks])
    if name == "user.conf":
        return plain(read_conf(file))
    if name == "spl.txt":
        return plain(read_samples(file))
    if name == "ptd_logs.txt":
        return plain(read_ptd_log(file))
    if name.endswith(".json"):
        return plain(read_json(file).value)
    if name == "config.yaml":
        return plain(read_yaml(file).value)
    return plain(read_text(file)[0]) if name.endswith(".md") else None
