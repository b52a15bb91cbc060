"""Accuracy logs as rounds publish them: both ends of the log, its SHA-256 in accuracy.txt."""

from __future__ import annotations

from pathlib import Path

from assay.prepare.draft import Draft, Entry
from checker.accuracy.log import GAP
from checker.accuracy.truncate import KEPT, LIMIT, LOG, SCORES, WHOLE, stated_hash


def shorten(draft: Draft) -> None:
    """Truncate every accuracy log over the limit, and see that each has its hash."""
    most = draft.round.accuracy_log.max_bytes
    if most is None:
        return
    limit = max(min(most, LIMIT), 2 * KEPT)
    paths = draft.paths()
    for path, log in sorted(paths.items()):
        folder, _, name = path.rpartition("/")
        if name == LOG and _is_run(folder) and log.source is not None and log.source.size > limit:
            _truncate(log, "P143")
            continue
        if name != LOG or folder.rpartition("/")[2] != "accuracy" or log.source is None:
            continue
        scores = paths.get(f"{folder}/{SCORES}")
        if not _is_result(folder) and (scores is None or _test_of(folder) in WHOLE):
            continue
        stated = None
        if scores is not None and scores.source is not None:
            stated = stated_hash(Path(scores.source.real))
        if log.source.size > limit:
            _truncate(log, "A111")
        elif stated is None and _is_cut(log):
            draft.decisions.append(
                f"{path}: truncated before, and {SCORES} has no hash: put the whole log back"
            )
            continue
        if stated is None and (
            log.kind == "truncate"
            or (draft.round.accuracy_log.hash_required and _is_result(folder))
        ):
            if scores is None:
                scores = draft.add(f"{folder}/{SCORES}", "", f"{SCORES} is missing", "A108")
            scores.kind = "hash"
            scores.log = log.source.path
            scores.reasons.append("the SHA-256 of the accuracy log is added")
            scores.rules.append("A108")


def _truncate(log: Entry, rule: str) -> None:
    size = log.source.size if log.source is not None else 0
    log.kind = "truncate"
    log.reasons.append(f"{size:,} bytes; {LIMIT:,} at most are submitted")
    log.rules.append(rule)


def _test_of(folder: str) -> str:
    """The compliance test whose accuracy folder it is."""
    return folder.rpartition("/")[0].rpartition("/")[2].upper()


def _is_run(folder: str) -> bool:
    """Whether it is a performance run of a result, where an accuracy log may be but need not."""
    parts = folder.split("/")
    return len(parts) == 8 and parts[2] == "results" and parts[6] == "performance"


def _is_result(folder: str) -> bool:
    """Whether it is the accuracy run of a result, which needs a hash however short its log is."""
    parts = folder.split("/")
    return len(parts) == 7 and parts[2] == "results"


def _is_cut(log: Entry) -> bool:
    if log.source is None:
        return False
    try:
        return GAP in Path(log.source.real).read_bytes()
    except OSError:
        return False
