"""How published submissions are forged and judged: edits of a copy, and what an audit newly finds.

Nothing of the corpus is kept.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checker.cache import Cache
from checker.engine import Options, audit
from schemas.report import Finding
from tests.corpus import unpacked

DETAIL, SUMMARY, ANSWERS = (
    "mlperf_log_detail.txt",
    "mlperf_log_summary.txt",
    "mlperf_log_accuracy.json",
)
LATENCIES = ("min", "max", "mean", "50.00", "90.00", "95.00", "97.00", "99.00", "99.90")

Edit = Callable[["Copy"], None]


@dataclass(frozen=True)
class Source:
    """One submitter of one round; only the systems named are copied."""

    round: str
    submitter: str
    systems: tuple[str, ...]


class Copy:
    """A copy of a source that can be edited. ``result`` is the folder of one result in it."""

    def __init__(self, root: Path, source: Source, result: str, compliance: str) -> None:
        self.root, self.source = root, source
        self.base = root / "closed" / source.submitter
        self.result = self.base / "results" / result
        self.tests = self.base / compliance / result
        run = self.result / "performance" / "run_1"
        self.detail, self.summary = run / DETAIL, run / SUMMARY

    def number(self, key: str, path: Path | None = None) -> float:
        """The last value that the detail log states for a key."""
        pattern = rf'"key": "{re.escape(key)}", "value": ([-\d.e+]+)'
        return float(re.findall(pattern, (path or self.detail).read_text("utf-8"))[-1])

    def set(self, key: str, value: object, path: Path | None = None) -> None:
        """Replace a key's value in a detail log."""
        path = path or self.detail
        text, count = re.subn(
            rf'("key": "{re.escape(key)}", "value": )("(?:[^"\\]|\\.)*"|[^,]+)',
            lambda match: match[1] + json.dumps(value),
            path.read_text("utf-8"),
        )
        assert count, f"no {key} in {path}"
        path.write_text(text, "utf-8")

    def scale(self, factor: float, *keys: str, path: Path | None = None) -> None:
        """Multiply numbers of the detail log, in LoadGen's own precision."""
        for key in keys:
            value = self.number(key, path) * factor
            whole = key.endswith(("_ns", "_count", "_min", "_max", "_mean"))
            self.set(key, round(value) if whole else float(f"{value:.6g}"), path)

    def retell(self, label: str, factor: float) -> None:
        """Multiply the numbers of the summary's lines that begin so."""
        lines = self.summary.read_text("utf-8").splitlines()
        hits = 0
        for index, line in enumerate(lines):
            if line.startswith(label):
                head, _, value = line.rpartition(":")
                number = float(value) * factor
                text = str(round(number)) if "." not in value else f"{number:.2f}"
                lines[index] = f"{head}: {text}"
                hits += 1
        assert hits, f"no {label} in {self.summary}"
        self.summary.write_text("\n".join(lines) + "\n", "utf-8")

    def rehash(self) -> None:
        """State the hashes of changed files in server.json and client.json, as a careful forger does."""
        for power in self.result.glob("performance/power"):
            for document in (power / "server.json", power / "client.json"):
                if not document.exists():
                    continue
                text = document.read_text("utf-8")
                stated = json.loads(text).get("results", {})
                for name, old in stated.items():
                    file = power.parent / name
                    if file.is_file() and isinstance(old, str):
                        new = hashlib.sha1(file.read_bytes(), usedforsecurity=False).hexdigest()
                        text = text.replace(old, new)
                document.write_text(text, "utf-8")

    def replace(self, path: Path, old: str, new: str) -> None:
        """Replace text by a regular expression."""
        text, count = re.subn(old, new, path.read_text("utf-8"))
        assert count, f"no {old} in {path}"
        path.write_text(text, "utf-8")


def latencies(copy: Copy, factor: float) -> None:
    keys = [f"result_{n}_latency_ns" for n in LATENCIES[:3]]
    keys += [f"result_{n}_percentile_latency_ns" for n in LATENCIES[3:]]
    copy.scale(factor, *keys)
    for label in ("Min latency", "Max latency", "Mean latency"):
        copy.retell(label, factor)
    for name in LATENCIES[3:]:
        copy.retell(f"{name} percentile latency", factor)


def scaled(factor: float, key: str, *labels: str) -> Edit:
    """One figure raised in the detail log and the summary."""

    def edit(copy: Copy) -> None:
        copy.scale(factor, key)
        for label in labels:
            copy.retell(label, factor)

    return edit


def stated(key: str, value: object) -> Edit:
    """One value of the detail log replaced."""
    return lambda copy: copy.set(key, value)


def text(name: str, old: str, new: str) -> Edit:
    """Text of a file of the result replaced."""
    return lambda copy: copy.replace(copy.result / name, old, new)


def taken(target: str, source: str) -> Edit:
    """A file or folder of another result in the place of this one's (below ``results/``)."""

    def edit(copy: Copy) -> None:
        there, here = copy.base / source, copy.result / target
        if there.is_dir():
            shutil.rmtree(here, ignore_errors=True)
            shutil.copytree(there, here)
        else:
            shutil.copyfile(there, here)

    return edit


@dataclass
class Verdict:
    """What an audit newly finds in a forged tree.

    blamed: keys of the results that it newly makes invalid; result: the folder of the forged one.
    """

    name: str
    severity: str
    rules: list[str]
    blamed: list[str]
    result: str


def grown(source: Source, folder: Path) -> Path:
    """A copy of the source's systems as a tree of its own."""
    tree = unpacked(source.round)
    root = folder / "-".join((source.round, source.submitter, *source.systems))
    base = tree / "closed" / source.submitter
    for entry in base.iterdir():
        target = root / "closed" / source.submitter / entry.name
        if entry.name in ("results", "measurements", "compliance", "systems"):
            for system in source.systems:
                for found in entry.glob(f"{system}*"):
                    if found.is_dir() and found.name == system:
                        # A twin with another accuracy target holds the same logs: it would tell.
                        twin = shutil.ignore_patterns("llama2-70b-99")
                        shutil.copytree(found, target / found.name, ignore=twin)
                    elif found.is_file():
                        target.mkdir(parents=True, exist_ok=True)
                        shutil.copyfile(found, target / found.name)
        elif entry.is_dir():
            shutil.copytree(entry, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(entry, target)
    return root


def _key(finding: Finding) -> tuple[str, str, str | None, str]:
    return finding.rule, finding.severity, finding.path, finding.message


Case = tuple[str, Source, str, Edit]
"""Name, source, result, edit."""


def judged(cases: list[Case]) -> list[Verdict]:
    """Every case, forged and audited."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # What an edit leaves as it is is judged once: the forged tree has the same place each time.
        cache = Cache(folder / "cache")
        masters: dict[Source, tuple[Path, Counter[tuple[str, str, str | None, str]]]] = {}
        for title, source, result, edit in cases:
            if source not in masters:
                root = grown(source, folder)
                before = audit([root], Options(round=source.round, audit=True, jobs=1, cache=cache))
                masters[source] = root, Counter(map(_key, before.findings))
            master, known = masters[source]
            forged = folder / "forged" / master.name
            shutil.copytree(master, forged)
            compliance = "results" if source.round >= "v6.0" else "compliance"
            copy = Copy(forged, source, result, compliance)
            try:
                edit(copy)
            except (AssertionError, OSError, IndexError, ValueError) as error:
                raise AssertionError(f"{title}: {error}") from error
            copy.rehash()
            report = audit([forged], Options(round=source.round, audit=True, jobs=1, cache=cache))
            new = list((Counter(map(_key, report.findings)) - known).elements())
            shutil.rmtree(forged)
            ranks = ("error", "warning", "note")
            severity = min((f[1] for f in new), key=ranks.index, default="nothing")
            rules = sorted({f[0] for f in new if f[1] == severity})
            errors = [f for f in report.findings if f.severity == "error" and _key(f) not in known]
            blamed = sorted({key for f in errors for key in f.invalidates})
            found.append(Verdict(title, severity, rules, blamed, result))
    return found
