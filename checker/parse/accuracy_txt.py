"""accuracy.txt: the output of a benchmark's accuracy script, with the hash line at its end."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from checker.parse.reading import Fault, File, Unreadable, read_lines

_HASH = re.compile(r"^\s*hash\s*[=:]\s*(\S*)")
_MAX_LINE = 64 * 1024
_MAX_VALUES = 200
_MAX_HASHES = 20


@dataclass(frozen=True, slots=True)
class Reported:
    """One metric value as the script printed it. ``text`` is the number's own spelling."""

    metric: str
    value: float
    text: str
    line: int


@dataclass(slots=True)
class AccuracyText:
    """What accuracy.txt reports.

    values: every value of every metric of the round, in file order (bounded);
    hashes: every ``hash=`` line as (text, line); totals: ``total=N`` counts as (n, line).
    """

    path: str
    values: dict[str, list[Reported]] = field(default_factory=dict)
    hashes: list[tuple[str, int]] = field(default_factory=list)
    totals: list[tuple[int, int]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    lines: int = 0
    size: int = 0

    def first(self, metric: str) -> Reported | None:
        """The first value of a metric."""
        found = self.values.get(metric)
        return found[0] if found else None

    def last(self, metric: str) -> Reported | None:
        """The last value of a metric."""
        found = self.values.get(metric)
        return found[-1] if found else None


_TOTAL = re.compile(r"\btotal=(\d{1,12})\b")


@functools.lru_cache(maxsize=64)
def _compiled(
    patterns: tuple[tuple[str, str], ...],
) -> tuple[re.Pattern[str], list[tuple[str, re.Pattern[str]]]]:
    """One pattern that any line of interest matches, and each metric's own."""
    any_of = "|".join(f"(?:{pattern.replace('(?P<v>', '(?:')})" for _, pattern in patterns)
    return re.compile(any_of or r"(?!)"), [(m, re.compile(pattern)) for m, pattern in patterns]


def read_accuracy(file: File, patterns: Mapping[str, str]) -> AccuracyText:
    """Read accuracy.txt with a round's ``metric -> regex`` table. Never raises.

    Lines are streamed; a line over 64 KiB is cut there (progress bars write such lines).
    """
    result = AccuracyText(file.path, size=file.size)
    any_of, compiled = _compiled(tuple(patterns.items()))
    number = 0
    undecodable = None
    try:
        for raw in read_lines(file):
            number += 1
            if not raw or raw.isspace():
                continue
            if len(raw) > _MAX_LINE:
                raw = raw[:_MAX_LINE]
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                line = raw.decode("utf-8", "backslashreplace")
                undecodable = undecodable or number
            if "hash" in line:
                found = _HASH.match(line)
                if found:
                    if len(result.hashes) < _MAX_HASHES:
                        result.hashes.append((found.group(1), number))
                    continue
            for metric, pattern in compiled if any_of.search(line) else ():
                match = pattern.search(line)
                if match is None:
                    continue
                text = match.group("v")
                try:
                    value = float(text)
                except ValueError:
                    continue
                kept = result.values.setdefault(metric, [])
                if len(kept) < _MAX_VALUES:
                    kept.append(Reported(metric, value, text, number))
                else:
                    kept[-1] = Reported(metric, value, text, number)
            if "total=" in line:
                total = _TOTAL.search(line)
                if total and len(result.totals) < _MAX_VALUES:
                    result.totals.append((int(total.group(1)), number))
    except Unreadable as error:
        result.faults.append(error.fault)
        return result
    result.lines = number
    if number == 0:
        result.faults.append(
            Fault(file.path, "empty", "the file is empty", 1,
                  "write the accuracy script's output and the hash line to it")
        )  # fmt: skip
    if undecodable is not None:
        result.faults.append(
            Fault(file.path, "encoding", f"line {undecodable} is not UTF-8 text",
                  undecodable, "save the file as UTF-8")
        )  # fmt: skip
    return result
