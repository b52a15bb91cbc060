"""user.conf and mlperf.conf: ``model.scenario.key = value`` lines as LoadGen reads them."""

from __future__ import annotations

import functools
import re

import msgspec

from checker.parse.reading import Fault, File, Unreadable, lines_of, read_text

_LINE = re.compile(
    r"^(?P<model>[^.\s=]\S*?)\.(?P<scenario>[A-Za-z*]+)\.(?P<key>\w+)\s*=\s*(?P<value>\S+)\s*$"
)


class Setting(msgspec.Struct, frozen=True):
    """One line of a conf file; value as written."""

    model: str
    scenario: str
    key: str
    value: str
    line: int

    @property
    def number(self) -> float | None:
        """The value as a number, None when it is none."""
        try:
            return float(self.value)
        except ValueError:
            return None


class Conf(msgspec.Struct):
    """One conf file: its settings in file order, and lines LoadGen would not understand.

    last: the last setting of each model, scenario and key. cut: whether the last line has no end.
    """

    path: str
    settings: list[Setting] = []
    last: dict[tuple[str, str, str], Setting] = {}
    faults: list[Fault] = []
    odd_lines: list[tuple[int, str]] = []
    empty: bool = False
    cut: bool = False

    def lookup(self, model: str, scenario: str, key: str) -> Setting | None:
        """The setting LoadGen would use: model.scenario, *.scenario, model.*, *.*."""
        for wanted in ((model, scenario), ("*", scenario), (model, "*"), ("*", "*")):
            found = self.last.get((*wanted, key))
            if found is not None:
                return found
        return None


class _Parsed(msgspec.Struct, frozen=True):
    """What a text holds; shared by all files that hold the same."""

    settings: tuple[Setting, ...]
    odd_lines: tuple[tuple[int, str], ...]
    last: dict[tuple[str, str, str], Setting]


def parse_conf(text: str, path: str = "user.conf") -> Conf:
    """The settings of a conf file's text. Never raises; what is not a setting is in ``odd_lines``."""
    found = _parse(text)
    return Conf(
        path=path,
        settings=list(found.settings),
        last=found.last,
        odd_lines=list(found.odd_lines),
        empty=not text.strip(),
    )


def read_conf(file: File) -> Conf:
    """Read one conf file. Never raises; problems are in ``faults`` and ``odd_lines``."""
    conf = Conf(file.path)
    try:
        text, faults = read_text(file, 4 * 1024 * 1024)
    except Unreadable as error:
        conf.faults.append(error.fault)
        return conf
    conf.faults.extend(faults)
    conf.empty = not text.strip()
    conf.cut = bool(text) and not text.endswith("\n")
    found = _parse(text) if len(text) > _CACHED else _parse_cached(text)
    conf.settings.extend(found.settings)
    conf.odd_lines.extend(found.odd_lines)
    conf.last = found.last
    return conf


_CACHED = 64 * 1024


@functools.lru_cache(maxsize=64)
def _parse_cached(text: str) -> _Parsed:
    # mlperf.conf is the same file in every result of a submitter.
    return _parse(text)


def _parse(text: str) -> _Parsed:
    settings: list[Setting] = []
    odd_lines: list[tuple[int, str]] = []
    for number, raw in lines_of(text):
        line = raw.split("#", 1)[0].strip()
        # To LoadGen a carriage return ends no line: what follows a comment is part of the comment.
        if "\r" in raw.rstrip("\r"):
            line = raw.strip()
        if not line:
            continue
        found = _LINE.match(line) if "\r" not in line else None
        if found is None:
            if len(odd_lines) < 100:
                odd_lines.append((number, line[:200]))
            continue
        settings.append(
            Setting(
                model=found["model"],
                scenario=found["scenario"],
                key=found["key"],
                value=found["value"],
                line=number,
            )
        )
    last = {(one.model, one.scenario, one.key): one for one in settings}
    return _Parsed(tuple(settings), tuple(odd_lines), last)
