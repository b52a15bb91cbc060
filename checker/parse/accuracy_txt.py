"""accuracy.txt: the output of a benchmark's accuracy script, with the hash line at its end."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping

import msgspec

from checker.parse.reading import Fault, File, Unreadable, number_of, plain, text_lines

_HASH = re.compile(r"^\s*hash\s*[=:]\s*(\S*)")
_MAX_VALUES = 200
_MAX_HASHES = 20


class Reported(msgspec.Struct, frozen=True):
    """One metric value as the script printed it. ``text`` is the number's own spelling."""

    metric: str
    value: float
    text: str
    line: int


class Derived(msgspec.Struct, frozen=True, kw_only=True):
    """A value that the same text states a second time, through the numbers it follows from.

    stated: the value as printed; implied: what it follows to be, in the same unit; exact: how far
    apart rounding may bring them; how: in words what it follows from; at_most: it may be less;
    greatest: what ``implied`` cannot exceed.
    """

    name: str = "accuracy"
    stated: str
    value: float
    implied: float
    exact: float
    how: str
    line: int
    at_most: bool = False
    greatest: float | None = None


class AccuracyText(msgspec.Struct):
    """What accuracy.txt reports.

    values: every value of every metric of the round, in file order (bounded);
    hashes: every ``hash=`` line as (text, line); totals: ``total=N`` counts as (n, line);
    derived: values that follow from others of the text.
    """

    path: str
    values: dict[str, list[Reported]] = {}
    hashes: list[tuple[str, int]] = []
    totals: list[tuple[int, int]] = []
    derived: list[Derived] = []
    faults: list[Fault] = []
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


_TOTAL = re.compile(r"(?:\btotal=|'(?:gen_num|num-samples)': *|\btotal entries: *)(\d{1,12})\b")
_V = r"(\d{1,9}(?:\.\d{1,20})?)"
_GOOD = re.compile(rf"^accuracy={_V}%?, *good=(\d{{1,12}}), *total=(\d{{1,12}})\b")
_PARTS = re.compile(rf"^Accuracy: *mean *= *{_V}((?:, *[a-z ]{{1,30}} *= *{_V}){{1,8}})")
_PART = re.compile(rf"([a-z][a-z ]{{0,30}}?) *= *{_V}")
_ERRORS = re.compile(rf"^Word Error Rate: *{_V}%?, *accuracy={_V}%")
_PAIRS = re.compile(rf"[\"'](\w{{1,30}})[\"']: *[\"']?{_V}\b")
_PRECISION = re.compile(
    rf"^ *Average Precision +\(AP\) @\[ IoU=0\.50:0\.95 \| area= +all .*\] = {_V}"
)
_AVERAGE = re.compile(rf"^ *(?:Overall Average *: .*\(|FINAL SCORE: *){_V}%")
_MAP = re.compile(rf"^mAP={_V}%")
_BEGINNINGS = "aAWmF{'\" "
"""How lines begin that state something twice."""
_ROOM = 0.02
"""Means over resampled answers obey what holds for each answer only nearly."""


def step_of(text: str) -> float:
    """The value of the last digit of a number as printed."""
    mantissa, _, exponent = text.lower().partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


class _Twice:
    """What a text states twice, line by line: counts beside their ratio, parts beside their mean, an
    error rate beside the accuracy, an average beside the score."""

    def __init__(self) -> None:
        self._precision: tuple[str, int] | None = None
        self._average: tuple[str, int] | None = None
        self._score: tuple[str, str, int] | None = None

    def of(self, line: str, number: int) -> Iterator[Derived]:
        """Everything that one more line states again."""
        if found := _GOOD.match(line):
            good, total = int(found[2]), int(found[3])
            if total:
                yield Derived(
                    stated=found[1],
                    value=float(found[1]),
                    implied=100 * good / total,
                    exact=step_of(found[1]),
                    how=f"good={good:,} of total={total:,}",
                    line=number,
                    greatest=100.0,
                )
        elif found := _PARTS.match(line):
            parts = _PART.findall(found[2])
            mean = sum(float(value) for _, value in parts) / len(parts)
            yield Derived(
                name="mean",
                stated=found[1],
                value=float(found[1]),
                implied=mean,
                exact=step_of(found[1]) + max(step_of(value) for _, value in parts),
                how="the mean of " + " and ".join(f"{n.strip()} = {v}" for n, v in parts),
                line=number,
            )
        elif found := _ERRORS.match(line):
            wrong, text = found.groups()
            yield Derived(
                stated=text,
                value=float(text),
                implied=100 - float(wrong),
                exact=step_of(text) + step_of(wrong) + 1e-9,
                how=f"100% less the word error rate of {wrong}%",
                line=number,
            )
        elif found := _PRECISION.match(line):
            self._precision = found[1], number
        elif (found := _MAP.match(line)) and self._precision is not None:
            precision, _ = self._precision
            yield Derived(
                name="mAP",
                stated=found[1],
                value=float(found[1]),
                implied=100 * float(precision),
                exact=100 * step_of(precision),
                how=f"the average precision of {precision}",
                line=number,
            )
        elif "': " in line or '": ' in line:
            yield from self._dictionary(dict(_PAIRS.findall(line)), number)
        elif found := _AVERAGE.match(line):
            self._average = found[1], number
            yield from self._averaged()

    def _dictionary(self, pairs: dict[str, str], number: int) -> Iterator[Derived]:
        values = {name: float(text) for name, text in pairs.items()}
        count, tokens = values.get("gen_num"), values.get("gen_tok_len")
        mean = pairs.get("tokens_per_sample")
        if mean is not None and count and tokens is not None:
            yield Derived(
                name="tokens_per_sample",
                stated=mean,
                value=float(mean),
                implied=tokens / count,
                exact=step_of(mean),
                how=f"gen_tok_len {tokens:,.0f} / gen_num {count:,.0f}",
                line=number,
            )
        for low, high in (
            ("exact_match", "f1"),
            ("rouge2", "rouge1"),
            ("rougeL", "rouge1"),
            ("rougeLsum", "rouge1"),
        ):
            if low in values and high in values:
                yield Derived(
                    name=low,
                    stated=pairs[low],
                    value=values[low],
                    implied=values[high],
                    exact=_ROOM,
                    how=f"{high}, which is never less",
                    line=number,
                    at_most=True,
                )
        for name in ("rouge1", "exact_match", "f1"):
            if values.get(name, 0.0) > 100:
                yield Derived(
                    name=name,
                    stated=pairs[name],
                    value=values[name],
                    implied=100.0,
                    exact=_ROOM,
                    how="the scale of 0 to 100",
                    line=number,
                    at_most=True,
                )
        for name in ("vbench_score", "exact_match"):
            if name in values:
                self._score = name, pairs[name], number
                yield from self._averaged()

    def _averaged(self) -> Iterator[Derived]:
        if self._average is None or self._score is None:
            return
        name, text, number = self._score
        average, _ = self._average
        yield Derived(
            name=name,
            stated=text,
            value=float(text),
            implied=float(average),
            exact=step_of(average) + step_of(text),
            how=f"the average of {average}%",
            line=number,
        )


class _Metric(msgspec.Struct, frozen=True):
    """One metric of a round. words: every line that its pattern matches holds at least one."""

    name: str
    pattern: str
    words: tuple[str, ...]

    def search(self, line: str) -> re.Match[str] | None:
        """Where the metric's value is in a line."""
        # A check sees few of a round's benchmarks: each pattern is compiled when a word is found.
        return _regex(self.pattern).search(line) if any(w in line for w in self.words) else None


_regex = functools.cache(re.compile)


@functools.lru_cache(maxsize=64)
def _metrics(patterns: tuple[tuple[str, str], ...]) -> tuple[re.Pattern[str], list[_Metric]]:
    """What any line with a value matches, and the metrics."""
    metrics = [_Metric(name, pattern, _words(pattern)) for name, pattern in patterns]
    words = dict.fromkeys(word for metric in metrics for word in metric.words)
    return re.compile("|".join(map(re.escape, words)) if words else r"(?!)"), metrics


def _words(pattern: str) -> tuple[str, ...]:
    """Words of which a line must hold one to match: the longest before the value in each alternative.

    "" where there is none: every line may match.
    """
    head = pattern.partition("(?P<v>")[0]
    optional = re.search(r"\)[?*{]|\(\?i", head)
    # What is left are characters that stand for themselves: no escapes, no sets, nothing optional.
    plain_head = re.sub(r"\\.|\[[^]]*\]|.[?*{]", " ", head)
    words = [max(re.findall(r"\w+", part), key=len, default="") for part in plain_head.split("|")]
    return ("",) if optional or not all(words) else tuple(words)


def read_accuracy(file: File, patterns: Mapping[str, str]) -> AccuracyText:
    """Read accuracy.txt with a round's ``metric -> regex`` table. Never raises.

    Lines are streamed; a line over 64 KiB is cut there (progress bars write such lines). A number
    with a decimal comma is a Fault, not a value: it can be read in two ways.
    """
    result = AccuracyText(file.path, size=file.size)
    any_of, metrics = _metrics(tuple(patterns.items()))
    number = 0
    twice = _Twice()
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
            for known in metrics if any_of.search(line) else ():
                match = known.search(line)
                if match is None:
                    continue
                metric = known.name
                text = match.group("v")
                value = number_of(text)
                if _goes_on(line, match.end("v")):
                    _comma(result, metric, line[match.start("v") : match.end("v") + 20], number)
                    continue
                if line[match.end("v") : match.end("v") + 1] in _CONTROL:
                    _interrupted(result, metric, number)
                    continue
                if value is None:
                    continue
                kept = result.values.setdefault(metric, [])
                if len(kept) < _MAX_VALUES:
                    kept.append(Reported(metric, value, text, number))
                else:
                    kept[-1] = Reported(metric, value, text, number)
            if "total" in line or "gen_num" in line or "num-samples" in line:
                total = _TOTAL.search(line)
                if total and len(result.totals) < _MAX_VALUES:
                    result.totals.append((int(total.group(1)), number))
            if line[:1] in _BEGINNINGS and len(result.derived) < _MAX_VALUES:
                result.derived.extend(twice.of(line, number))
    except Unreadable as error:
        result.faults.append(error.fault)
        return result
    result.lines = number
    if number == 0:
        result.faults.append(
            Fault(
                path=file.path,
                kind="empty",
                message="the file is empty",
                line=1,
                fix="write the accuracy script's output and the hash line to it",
            )
        )
    return result


def _goes_on(line: str, at: int) -> bool:
    """Whether a number goes on behind a comma: ``76,064`` and ``1,234.5``, not ``76.1, 5``."""
    return line[at : at + 1] == "," and line[at + 1 : at + 2].isdigit()


_CONTROL = tuple(chr(code) for code in range(32) if chr(code) != "\t")


def _interrupted(result: AccuracyText, metric: str, number: int) -> None:
    """What another program wrote to the same terminal, such as a colour, in the middle of a number."""
    message = f"found a control character behind the value of {metric} on line {number}"
    _fault(result, message, number, "save the accuracy script's output alone")


def _comma(result: AccuracyText, metric: str, text: str, number: int) -> None:
    shown = text.split("%")[0].split()[0]
    message = f"{metric} is written with a comma on line {number}: {shown}"
    _fault(result, message, number, "write numbers with a decimal point and without separators")


def _fault(result: AccuracyText, message: str, number: int, fix: str) -> None:
    if len(result.faults) < 5:
        result.faults.append(
            Fault(path=result.path, kind="syntax", message=message, line=number, fix=fix)
        )
