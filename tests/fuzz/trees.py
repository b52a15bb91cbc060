"""Seeded damage to whole submissions: none may end a check, and none may go unseen.

Each damage makes something unusable that the rules of its round need. "Unseen" is a report without a
finding that names the damaged file (or its folder) and is not in the good tree's report.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.report import Finding, Report
from tests.fuzz.seeds import TREES
from tests.trees import GoodTree, good_tree

Damage = Callable[[random.Random, bytes], bytes | None]
"""New content of a file, or None where the damage does not fit it."""


def _line(change: Callable[[random.Random, bytes], bytes | None]) -> Damage:
    def damage(random: random.Random, content: bytes) -> bytes | None:
        lines = content.split(b"\n")
        places = [i for i, line in enumerate(lines) if line.strip()]
        if not places:
            return None
        at = random.choice(places)
        new = change(random, lines[at])
        if new is None:
            return None
        lines[at] = new
        return b"\n".join(lines)

    return damage


def _nul(random: random.Random, content: bytes) -> bytes | None:
    if not content:
        return None
    at = random.randrange(len(content))
    return content[:at] + b"\0" + content[at + 1 :]


def _zeros(random: random.Random, content: bytes) -> bytes | None:
    if len(content) < 64:
        return None
    at = random.randrange(len(content) - 32)
    return content[:at] + bytes(32) + content[at + 32 :]


def _cut(random: random.Random, content: bytes) -> bytes | None:
    return content[: random.randrange(1, len(content) // 2)] if len(content) > 64 else None


def _empty(random: random.Random, content: bytes) -> bytes | None:
    return b"" if content else None


def _half_line(random: random.Random, line: bytes) -> bytes | None:
    return line[: len(line) // 2] if line.startswith(b":::MLLOG") else None


_UNUSABLE = (b"{}", b"[[]]", b'"\\u0000"', b"1" * 400, b"null", b"[" * 500 + b"]" * 500)


def _value(random: random.Random, line: bytes) -> bytes | None:
    """Another value in a record of a LoadGen log."""
    head, mark, rest = line.partition(b'"value": ')
    _, comma, tail = rest.partition(b', "time_ms"')
    if not comma:
        _, comma, tail = rest.partition(b', "metadata"')
    if not mark or not comma or b'"power_begin"' in line or b'"power_end"' in line:
        return None
    return head + mark + random.choice(_UNUSABLE) + comma + tail


DAMAGES: dict[str, tuple[tuple[str, ...], Damage]] = {
    "nul": ((".txt", ".json", ".conf"), _nul),
    "zeros": ((".txt", ".json", ".conf"), _zeros),
    "cut": (("detail.txt", "summary.txt", "box1.json", "measurements.json", "spl.txt"), _cut),
    "emptied": (("detail.txt", "summary.txt", "box1.json", "measurements.json", ".conf"), _empty),
    "half a line": (("detail.txt",), _line(_half_line)),
}
"""Damage that must be seen, with the endings of the files that it is done to."""

NOISE: dict[str, tuple[tuple[str, ...], Damage]] = {
    "value": (("detail.txt",), _line(_value)),
    "line gone": ((".txt", ".conf"), _line(lambda random, line: b"")),
    "line twice": ((".txt", ".conf", ".json"), _line(lambda random, line: line + b"\n" + line)),
    "bytes": (
        (".txt", ".json", ".conf", ".md"),
        _line(lambda random, line: random.randbytes(len(line))),
    ),
    "nested": ((".json",), lambda random, content: b"[" * 5000 + content + b"]" * 5000),
}
"""Damage that must not end a check; whether it is wrong depends on what it hits."""


@dataclass(slots=True)
class Tried:
    """How many trees were damaged, how, and which went wrong."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def text(self) -> str:
        """For people."""
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        lines = [f"trees: {sum(self.counts.values()):,} damaged in {self.seconds:.0f} s, seed {self.seed} ({kinds})"]  # fmt: skip
        return "\n".join([*lines, *(f"  FOUND {one}" for one in self.wrong)])


def damage_trees(count: int, *, seed: int, seconds: float) -> Tried:
    """Damage one file of a good tree, check, put it back; so many times or so long."""
    tried = Tried(seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="assay-fuzz-trees-") as folder:
        kinds = [_Kind(Path(folder) / str(n), options) for n, options in enumerate(TREES)]
        for number in range(count):
            if time.monotonic() - began > seconds:
                break
            chance = random.Random(seed * 1_000_003 + number)
            kind = chance.choice(kinds)
            name = chance.choice([*DAMAGES, *NOISE])
            wrong = kind.damage(name, chance)
            if wrong is None:
                continue
            tried.counts[name] += 1
            if wrong:
                tried.wrong.append(f"seed {seed}, tree {number}, {wrong}")
    tried.seconds = time.monotonic() - began
    return tried


class _Kind:
    """One good tree and its report."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self.tree: GoodTree = good_tree(folder, **options)
        self.files = [p for p in self.tree.files() if not _unread(p)]
        self.good = {_key(f) for f in self.tree.check().findings}

    def damage(self, name: str, chance: random.Random) -> str | None:
        """ "" if all is well, what is wrong otherwise, None where nothing was done."""
        endings, change = (DAMAGES | NOISE)[name]
        path = chance.choice([p for p in self.files if p.endswith(endings)] or self.files)
        place = self.tree.root / path
        content = place.read_bytes()
        if path.endswith("accuracy.json"):
            # Of an accuracy log a round publishes 4096 bytes of each end; more is not looked at.
            new = change(chance, content[:4096])
            new = None if new is None else new + content[4096:]
        else:
            new = change(chance, content)
        if new is None or new == content:
            return None
        place.write_bytes(new)
        try:
            report = self.tree.check()
        except Exception as error:
            return f"{name} in {path}: the check ended with {type(error).__name__}: {error}"
        finally:
            place.write_bytes(content)
        raised = [f.message for f in report.findings if f.rule == "X001"]
        if raised:
            return f"{name} in {path}: {raised[0][:300]}"
        if name in DAMAGES and not self._seen(report, path):
            return f"{name} in {path}: no finding names it"
        return ""

    def _seen(self, report: Report, path: str) -> bool:
        folder = path.rpartition("/")[0]
        new = [f for f in report.findings if _key(f) not in self.good]
        return any(
            f.path == path or path in f.message or (f.path or "-") in (folder, *_above(folder))
            for f in new
        )


def _unread(path: str) -> bool:
    """Files that no rule reads: pictures, the accuracy log of a performance run (it is empty), and
    the accuracy.txt of a test, for which verify_accuracy.txt speaks."""
    test = "/TEST" in path
    return (
        "/images/" in path
        or (path.endswith("run_1/mlperf_log_accuracy.json") and not test)
        or (path.endswith("accuracy/accuracy.txt") and test)
    )


def _above(folder: str) -> list[str]:
    parts = folder.split("/")
    return ["/".join(parts[:n]) for n in range(len(parts), 2, -1)]


def _key(finding: Finding) -> tuple[Any, ...]:
    return (finding.rule, finding.path, finding.message)
