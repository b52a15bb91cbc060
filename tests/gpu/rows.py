"""Rows that are printed and kept as they end, and the page that they are put into."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

BEGIN, END = "<!-- measured by tests/gpu/check.sh -->", "<!-- end of what was measured -->"


class Rows:
    """One table of a part; a row is written when it is known, so that a timeout loses one alone."""

    def __init__(self, part: str, columns: Sequence[str], kept: Path | None) -> None:
        self._part, self._columns, self._kept = part, tuple(columns), kept
        self._begun = False
        self.failed = 0

    def add(self, cells: Mapping[str, str]) -> None:
        if not self._begun:
            self._begun = True
            print(f"\n{self._part}\n| " + " | ".join(self._columns) + " |")
            print("|" + "---|" * len(self._columns))
        row = {name: cells.get(name, "") for name in self._columns}
        self.failed += row.get("verdict", "").startswith("FAILED")
        print("| " + " | ".join(row.values()) + " |", flush=True)
        if self._kept is not None:
            with self._kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"part": self._part, "row": row}) + "\n")


def tables(kept: Path) -> str:
    """Everything that was kept, as Markdown."""
    parts: dict[str, list[dict[str, str]]] = {}
    for line in kept.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        parts.setdefault(entry["part"], []).append(entry["row"])
    text = []
    for part, rows in parts.items():
        columns = list(rows[0])
        wide = {c: max(len(c), *(len(row[c]) for row in rows)) for c in columns}
        text += [f"### {part}", ""]
        text.append("| " + " | ".join(c.ljust(wide[c]) for c in columns) + " |")
        text.append("|" + "|".join("-" * (wide[c] + 2) for c in columns) + "|")
        text += ["| " + " | ".join(row[c].ljust(wide[c]) for c in columns) + " |" for row in rows]
        text.append("")
    return "\n".join(text)


def put_into(page: Path, measured: str) -> None:
    """Replace what stands between the page's two marks."""
    text = page.read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _old, end, tail = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{page}: found no '{BEGIN}' and '{END}'; expected both, with the tables between")
    page.write_text(f"{head}{BEGIN}\n\n{measured}\n{END}{tail}", encoding="utf-8")
