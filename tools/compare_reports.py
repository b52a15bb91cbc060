"""What two editions of Assay say of the same trees: verdicts, and findings by rule and path.

    python -m tools.compare_reports --make CORPORA OUT   reports of every tree in a folder, by this checkout
    python -m tools.compare_reports OLD NEW              the differences between two such folders, or two files

CORPORA holds a tree for each round, in a folder of the round's name. OUT gets ``ROUND.check.json`` and
``ROUND.audit.json``. Reports are compared as JSON, so that those of an older format can be read too.
The output is Markdown; the exit status is 0 where nothing differs, 1 where something does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent

_SHOWN = 20
"""Most verdicts that are listed by name for a report."""


class Place(NamedTuple):
    """What makes two findings of two editions the same one: messages may have changed."""

    rule: str
    path: str


class Comparison(NamedTuple):
    """What differs between two reports of one tree.

    verdicts: path of a result to its old and new status, None where there is no such result. gone, new:
    how many findings of a rule only one report has. severities: (rule, old, new) to how many findings
    at one place changed so. messages: how many findings of a rule say it in other words.
    """

    verdicts: dict[str, tuple[str | None, str | None]]
    gone: Counter[str]
    new: Counter[str]
    severities: Counter[tuple[str, str, str]]
    messages: Counter[str]

    @property
    def same(self) -> bool:
        """Whether verdicts and findings are the same, whatever their words."""
        return not (self.verdicts or self.gone or self.new or self.severities)


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> Comparison:
    """Two reports of one tree, as decoded JSON of any format version."""
    before = {one["path"]: one["status"] for one in old["results"]}
    after = {one["path"]: one["status"] for one in new["results"]}
    verdicts = {
        path: (before.get(path), after.get(path))
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    }
    mine, theirs = _by_place(old), _by_place(new)
    gone: Counter[str] = Counter()
    fresh: Counter[str] = Counter()
    severities: Counter[tuple[str, str, str]] = Counter()
    messages: Counter[str] = Counter()
    for place in {*mine, *theirs}:
        left, right = mine.get(place, []), theirs.get(place, [])
        gone[place.rule] += max(0, len(left) - len(right))
        fresh[place.rule] += max(0, len(right) - len(left))
        for (was, said), (now, says) in zip(left, right, strict=False):
            if was != now:
                severities[place.rule, was, now] += 1
            messages[place.rule] += said != says
    return Comparison(
        verdicts=verdicts, gone=+gone, new=+fresh, severities=severities, messages=+messages
    )


def _by_place(report: Mapping[str, Any]) -> dict[Place, list[tuple[str, str]]]:
    """Severity and message of every finding."""
    found: dict[Place, list[tuple[str, str]]] = {}
    for one in report["findings"]:
        place = Place(one["rule"], one["path"] or "")
        found.setdefault(place, []).append((one["severity"], one["message"]))
    return {place: sorted(both) for place, both in found.items()}


def markdown(name: str, found: Comparison) -> Iterator[str]:
    """One report's section, line by line."""
    if found.same:
        words = sum(found.messages.values())
        yield f"## {name}: the same" + (f", {words:,} in other words" if words else "")
        return
    yield f"## {name}"
    yield ""
    for path, (was, now) in list(found.verdicts.items())[:_SHOWN]:
        yield f"* {path}: {was or 'no result'} → {now or 'no result'}"
    if len(found.verdicts) > _SHOWN:
        yield f"* and {len(found.verdicts) - _SHOWN:,} more verdicts"
    for rule in sorted({*found.gone, *found.new, *(rule for rule, _, _ in found.severities)}):
        parts = [f"{found.gone[rule]:,} gone"] if found.gone[rule] else []
        parts += [f"{found.new[rule]:,} new"] if found.new[rule] else []
        parts += [
            f"{count:,} {was} → {now}"
            for (of, was, now), count in sorted(found.severities.items())
            if of == rule
        ]
        yield f"* {rule}: {', '.join(parts)}"


def pairs(old: Path, new: Path) -> Iterator[tuple[str, Path, Path]]:
    """Name, old and new file of every report that both have."""
    if old.is_file():
        yield new.name, old, new
        return
    for path in sorted(old.glob("*.json")):
        if (new / path.name).is_file():
            yield path.stem, path, new / path.name


def make(corpora: Path, out: Path) -> None:
    """Check and audit every tree of a folder by this checkout."""
    out.mkdir(parents=True, exist_ok=True)
    for tree in sorted(path for path in corpora.iterdir() if path.name.startswith("v")):
        for command in ("check", "audit"):
            target = out / f"{tree.name}.{command}.json"
            options = ["--round", tree.name, "--output", str(target), "--quiet", "--no-cache"]
            subprocess.run(
                [sys.executable, "-m", "assay", command, str(tree), *options], cwd=ROOT, check=False
            )
            print(target, file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 the same, or made; 1 something differs; 2 there is nothing to compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--make", action="store_true", help="make reports instead")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args(arguments)
    if options.make:
        make(options.old, options.new)
        return 0
    compared = {
        name: compare(json.loads(old.read_bytes()), json.loads(new.read_bytes()))
        for name, old, new in pairs(options.old, options.new)
    }
    if not compared:
        print("no report of one name in both", file=sys.stderr)
        return 2
    for name, found in compared.items():
        print("\n".join(markdown(name, found)), end="\n\n")
    return 0 if all(found.same for found in compared.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
