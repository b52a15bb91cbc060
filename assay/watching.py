"""``assay check --watch``: check, wait for changes, check again and show what is new and gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from assay.status import Usage
from schemas.report import Report

_QUIET_MS = 400
"""So long nothing must change before a check begins: copying a result takes a while."""


def changes(tree: Path) -> Iterator[int]:
    """How many files changed, each time when some have. Raises Usage without the extra."""
    try:
        from watchfiles import DefaultFilter, watch
    except ImportError as error:
        raise Usage('--watch needs the extra "watch": pip install "assay[watch]"') from error
    # Nothing that a submission may hold is left out, but Git's own files.
    ignored = DefaultFilter(ignore_dirs=[".git"], ignore_entity_patterns=[], ignore_paths=[])
    for changed in watch(
        tree, watch_filter=ignored, step=_QUIET_MS, debounce=10_000, raise_interrupt=True
    ):
        yield len({path for _, path in changed})


def watched(
    tree: Path, check: Callable[[], Report], write: Callable[[str], None], seen: Report
) -> Iterator[Report]:
    """Each later report of a tree; what differs from the one before is written as text."""
    from reports import arrange, figures
    from reports.diff import diff, to_text

    for count in changes(tree):
        report = check()
        found = diff(seen, report)
        write(f"\n{figures.plural(count, 'file')} changed\n")
        write(to_text(found))
        write(f"{arrange.verdict_text(report)}\n")
        seen = report
        yield report
