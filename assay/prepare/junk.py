"""What does not belong in a submission: leftovers of systems and editors, files over the limit, excludes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from assay.prepare.draft import Draft, Entry

_LEFTOVERS = (
    ".ds_store", "._*", "thumbs.db", "desktop.ini", "*.swp", "*.swo", ".*.sw?", "*~", ".#*", "#*#",
    ".nfs*", "*.part", "*.partial",
)  # fmt: skip
_FOLDERS = (
    "__macosx", ".ipynb_checkpoints", ".idea", ".vscode", ".pytest_cache", ".mypy_cache", ".trashes",
    ".git",
)  # fmt: skip
_SUBMITTED = frozenset({"systems", "results", "measurements", "compliance", "documentation"})
_LIMIT = 50 * 1024 * 1024


class NoPathspec(RuntimeError):
    """Excludes need the package pathspec, which is not installed."""


def take_out(draft: Draft) -> None:
    """Leave out what systems, editors and Python leave behind."""
    ignored = {*draft.round.layout.ignored_files, *draft.round.layout.top_level_ignored}
    for entry in draft.kept():
        for depth, name in enumerate(entry.parts):
            low = name.lower()
            last = depth == len(entry.parts) - 1
            leftover = last and any(fnmatchcase(low, pattern) for pattern in _LEFTOVERS)
            if leftover or (low in _FOLDERS and not (depth == 0 and name in ignored)):
                entry.leave_out("a leftover of an editor or an operating system", "S121")
            elif low == "__pycache__" or (last and low.endswith((".pyc", ".pyo"))):
                entry.leave_out("compiled Python", "S124")
            elif name.startswith(".") and name not in ignored and _submitted(entry):
                entry.leave_out("its name begins with a dot", "S121")
            else:
                continue
            break


def _submitted(entry: Entry) -> bool:
    """Whether it is where the rules name every file; what is code may have hidden files."""
    return any(part.lower() in _SUBMITTED for part in entry.parts[:4])


def too_large(draft: Draft) -> None:
    """Leave out files over the round's limit; logs that cannot be shortened are a person's decision."""
    limit = draft.round.max_file_bytes or _LIMIT
    for entry in draft.kept():
        size = entry.source.size if entry.source is not None else 0
        if size <= limit or entry.name == "mlperf_log_accuracy.json":
            continue
        text = f"found {size:,} bytes; expected at most {limit:,}"
        if entry.is_log and entry.name != "mlperf_log_trace.json":
            draft.decisions.append(f"{entry.path}: {text}; a log is never cut or left out for that")
        else:
            entry.leave_out(text, "S126")


def stray_files(draft: Draft) -> None:
    """Leave out files that lie directly in a division's folder."""
    for entry in draft.kept():
        parts = entry.parts
        if len(parts) == 2 and parts[0] in draft.round.divisions:
            entry.leave_out("it belongs to no submitter", "S103")


def exclude(draft: Draft, patterns: Sequence[str]) -> None:
    """Leave out what patterns in .gitignore's syntax match. Raises NoPathspec."""
    lines = [line for line in patterns if line.strip() and not re.match(r"\s*#", line)]
    if not lines:
        return
    try:
        from pathspec import GitIgnoreSpec
    except ImportError as error:
        raise NoPathspec(
            "--exclude needs the package pathspec: pip install 'assay[prepare]'"
        ) from error
    matcher = GitIgnoreSpec.from_lines(lines)
    for entry in draft.kept():
        source = entry.source
        if source is not None and matcher.match_file(source.path):
            entry.leave_out("excluded by a pattern")
