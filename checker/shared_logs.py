"""Performance logs that several systems submit: what tells one log from another, and who shares which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from checker.model import PerformanceRun
from schemas.report import Subject


class Fingerprint(msgspec.Struct, frozen=True):
    """What distinguishes one performance run's log from every other: size, date, process, latencies, counts.

    doubts: ids of rules that found an error in the log where it is, or other logs of its result to
    contradict it.
    """

    path: str
    subject: Subject
    division: str
    system: tuple[str, str]
    mark: tuple[str, ...]
    results: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def fingerprint_of(run: PerformanceRun) -> Fingerprint | None:
    """The fingerprint of a performance log; None where it holds no result to tell it by."""
    detail = run.detail
    if detail is None or not detail or detail.get("result_mean_latency_ns") is None:
        return None
    keys = (
        "test_datetime",
        "power_begin",
        "result_mean_latency_ns",
        "result_max_latency_ns",
        "result_query_count",
        "generated_query_count",
    )
    pids = ",".join(map(str, sorted(detail.pids)))
    mark = (str(detail.size), pids, *(str(detail.get(key)) for key in keys))
    result = run.result
    return Fingerprint(
        path=detail.path,
        subject=result.subject,
        division=result.division,
        system=(result.submitter, result.system.name),
        mark=mark,
        results=run.results,
    )


HARDWARE_FIELDS = (
    "accelerator_model_name",
    "accelerators_per_node",
    "number_of_nodes",
    "host_processor_model_name",
    "host_processors_per_node",
)
"""The fields of a system description that say which machine it is."""


class SharedLogs(msgspec.Struct, frozen=True, kw_only=True):
    """Performance logs that two systems of one division both submit.

    systems: (submitter, system) of both; logs: pairs of paths, the first system's first; results:
    the keys of all results that rest on them; differences: hardware fields of the two descriptions
    that differ. copy: the system whose logs contradict their place (``doubts``), where the other's do
    not; else None. path: its first log, or the folder of both systems.
    """

    path: str
    division: str
    subject: Subject
    systems: tuple[tuple[str, str], tuple[str, str]]
    logs: tuple[tuple[str, str], ...]
    results: tuple[str, ...]
    differences: tuple[str, ...]
    copy: tuple[str, str] | None = None
    doubts: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()


_MANY_COPIES = 50


def shared_logs(
    fingerprints: Iterable[Fingerprint], descriptions: Mapping[str, Mapping[str, Any]]
) -> list[SharedLogs]:
    """Every pair of systems that share logs, in the order of their paths.

    Of a log with over 50 copies each pair is of the first system and another: all pairs of 5,000
    copies would be 12 million.

    descriptions: a system description by the key of each result.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[Fingerprint]] = {}
    for log in fingerprints:
        groups.setdefault((log.division, log.mark), []).append(log)
    pairs: dict[tuple[Any, ...], list[tuple[Fingerprint, Fingerprint]]] = {}
    for logs in groups.values():
        logs.sort(key=lambda log: log.path)
        for index, one in enumerate(logs if len(logs) <= _MANY_COPIES else logs[:1]):
            for other in logs[index + 1 :]:
                if one.system != other.system:
                    key = (one.division, one.system, other.system)
                    pairs.setdefault(key, []).append((one, other))
    found = []
    for (division, first, second), members in sorted(pairs.items()):
        one, other = members[0]
        a, b = (descriptions.get(log.results[0], {}) if log.results else {} for log in (one, other))
        differences = [
            name for name in HARDWARE_FIELDS if _plain(a.get(name)) != _plain(b.get(name))
        ]
        keys = [key for pair in members for log in pair for key in log.results]
        at = _copied(members)
        copies = [pair[at] for pair in members] if at is not None else []
        shown = copies[0] if copies else None
        shared = Subject(division, first[0] if first[0] == second[0] else None)
        found.append(
            SharedLogs(
                path=shown.path if shown is not None else common_folder((one.path, other.path)),
                division=division,
                subject=Subject(division, *shown.system) if shown is not None else shared,
                systems=(first, second),
                logs=tuple((one.path, other.path) for one, other in members),
                results=tuple(dict.fromkeys(keys)),
                differences=tuple(differences),
                copy=shown.system if shown is not None else None,
                doubts=shown.doubts if shown is not None else (),
                copied=tuple(dict.fromkeys(key for log in copies for key in log.results)),
            )
        )
    return found


def _copied(pairs: Sequence[tuple[Fingerprint, Fingerprint]]) -> int | None:
    """Which of two systems has the copies: 0, 1, or None where their logs do not say."""
    doubts = [{rule for pair in pairs for rule in pair[at].doubts} for at in (0, 1)]
    if doubts[0] < doubts[1]:
        return 1
    return 0 if doubts[1] < doubts[0] else None


def common_folder(paths: Iterable[str]) -> str:
    """The folder that holds all of these files."""
    shared: list[str] = []
    for names in zip(*(path.split("/")[:-1] for path in paths), strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    return "/".join(shared) or "."


def _plain(value: Any) -> str:
    return " ".join(str(value if value is not None else "").casefold().split())
