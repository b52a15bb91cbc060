"""accuracy.txt: the output of a benchmark's accuracy script, with the hash line at its end."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from checker.parse.reading import Fault, File, Unreadable, number_of, plain, text_lines

_HASH = re.compile(r"^\s*hash\s*[=:]\s*(\S*)")
_MAX_VALUES = 200
_MAX_HASHES = 20


@dataclass(frozen=True, slots=True)
class Reported:
    """One metric value as the script printed it. ``text`` is the number's own spelling."""

    metric: str
    value: float
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Derived:
    """A value that the same text states a second time, through the numbers it follows from.

    stated: the value as printed; implied: what it follows to be, in the same unit; exact: how far
    apart rounding may bring them; how: in words what it follows from.
    """

    stated: str
    value: float
    implied: float
    exact: float
    how: str
    line: int


@dataclass(slots=True)
class AccuracyText:
    """What accuracy.txt reports.

    values: every value of every metric of the round, in file order (bounded);
    hashes: every ``hash=`` line as (text, line); totals: ``total=N`` counts as (n, line);
    derived: values that follow from others of the text.
    """

    path: str
    values: dict[str, list[Reported]] = field(default_factory=dict)
    hashes: list[tuple[str, int]] = field(default_factory=list)
    totals: list[tuple[int, int]] = field(default_factory=list)
    derived: list[Derived] = field(default_factory=list)
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
_V = r"(\d{1,9}(?:\.\d{1,20})?)"
_GOOD = re.compile(rf"^accuracy={_V}%?, *good=(\d{{1,12}}), *total=(\d{{1,12}})\b")
_PARTS = re.compile(rf"^Accuracy: *mean *= *{_V}, *kidney *= *{_V}, *tumor *= *{_V}\b")
_ERRORS = re.compile(rf"^Word Error Rate: *{_V}%?, *accuracy={_V}%")


def _step(text: str) -> float:
    """The value of the last digit of a number as printed."""
    return 10.0 ** -len(text.partition(".")[2])


def _derived(line: str, number: int) -> Derived | None:
    """What a line states twice: counts beside their ratio, parts beside their mean, an error rate
    beside the accuracy."""
    if found := _GOOD.match(line):
        text, good, total = found[1], int(found[2]), int(found[3])
        if not total:
            return None
        how = f"good={good} of total={total}"
        return Derived(text, float(text), 100 * good / total, _step(text), how, number)
    if found := _PARTS.match(line):
        text, kidney, tumor = found.groups()
        exact = _step(text) + max(_step(kidney), _step(tumor))
        how = f"the mean of kidney = {kidney} and tumor = {tumor}"
        return Derived(text, float(text), (float(kidney) + float(tumor)) / 2, exact, how, number)
    if found := _ERRORS.match(line):
        wrong, text = found.groups()
        exact = _step(text) + _step(wrong) + 1e-9
        how = f"100 % less the word error rate of {wrong} %"
        return Derived(text, float(text), 100 - float(wrong), exact, how, number)
    return None


@functools.lru_cache(maxsize=64)
def _compiled(
    patterns: tuple[tuple[str, str], ...],
) -> tuple[re.Pattern[str], list[tuple[str, re.Pattern[str]]]]:
    """One pattern that any line of interest matches, and each metric's own."""
    any_of = "|".join(f"(?:{pattern.replace('(?P<v>', '(?:')})" for _, pattern in patterns)
    return re.compile(any_of or r"(?!)"), [(m, re.compile(pattern)) for m, pattern in patterns]


def read_accuracy(file: File, patterns: Mapping[str, str]) -> AccuracyText:
    """Read accuracy.txt with a round's ``metric -> regex`` table. Never raises.

    Lines are streamed; a line over 64 KiB is cut there (progress bars write such lines). A number
    with a decimal comma is a Fault, not a value: it can be read in two ways.
    """
    result = AccuracyText(file.path, size=file.size)
    any_of, compiled = _compiled(tuple(patterns.items()))
    number = 0
    try:
        for number, text_line in text_lines(file, result.faults):
            if not text_line:
                continue
            line = plain(text_line)
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
                value = number_of(text)
                if _goes_on(line, match.end("v")):
                    _comma(result, metric, line[match.start("v") : match.end("v") + 20], number)
                    continue
                if value is None:
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
            if line[:1] in "aAW" and len(result.derived) < _MAX_VALUES:
                derived = _derived(line, number)
                if derived is not None:
                    result.derived.append(derived)
    except Unreadable as error:
        result.faults.append(error.fault)
        return result
    result.lines = number
    if number == 0:
        result.faults.append(
            Fault(file.path, "empty", "the file is empty", 1,
                  "write the accuracy script's output and the hash line to it")
        )  # fmt: skip
    return result


def _goes_on(line: str, at: int) -> bool:
    """Whether a number goes on behind a comma: ``76,064`` and ``1,234.5``, not ``76.1, 5``."""
    return line[at : at + 1] == "," and line[at + 1 : at + 2].isdigit()


def _comma(result: AccuracyText, metric: str, text: str, number: int) -> None:
    shown = text.split("%")[0].split()[0]
    if len(result.faults) < 5:
        result.faults.append(
            Fault(result.path, "syntax", f"{metric} is written with a comma on line {number}: {shown}",
                  number, "write numbers with a decimal point and without separators")
        )  # fmt: skip
