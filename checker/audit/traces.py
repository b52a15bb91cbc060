"""What one run, and one result, leaves for the rules that compare them with others.

A worker makes the traces beside its findings (`tracing`); the parent gathers those of one or several
trees in a `Field` and hands each to the rules whose target it is. A trace holds no log.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from schemas.report import Subject

_TWIN = re.compile(r"-(?:95|99|99\.9)$")


class Written(msgspec.Struct, frozen=True):
    """From where LoadGen writes each record: key -> (source file, source line).

    digest: what tells it from others; most logs of one LoadGen share one.
    """

    digest: str
    places: dict[str, tuple[str, int]]


class RunTrace(msgspec.Struct):
    """One run: ``path`` is its detail log's.

    digest: SHA-256 of the log; content: digest of its records without times and process numbers
    (JSON logs of performance runs); triple: mean and longest latency and query count
    (of a log that is text: the summary's mean, longest and shortest latency);
    process: pid, date and power_begin; began, ended:
    seconds since 1970, in the zone the log takes for UTC; built, committed: LoadGen, likewise;
    sources: SHA-1 of LoadGen's core files; written: from which source lines its records come;
    at: the log line of each of those; lines: where some keys stand in the log.
    latencies: mean, greatest and six percentiles in ns, where all are there. mark, identity: what
    P149 and C124 tell a log by. commit: of LoadGen's sources. contradictions: ids of rules that
    found an error in the log; beside: of those that found another log of the result to contradict it.
    """

    path: str
    subject: Subject
    round: str
    directory: str
    kind: str
    scenario: str
    logged_scenario: str | None
    accuracy: bool
    text_format: bool
    digest: str | None
    content: str | None
    triple: tuple[float, float, float] | None
    process: tuple[int, str, str] | None
    began: float | None
    ended: float | None
    version: str | None
    sut: str | None
    sources: tuple[tuple[str, str], ...]
    written: Written | None
    at: tuple[int, ...]
    lines: dict[str, int]
    results: tuple[str, ...] = ()
    tree: str = ""
    field: Any = None  # a Field; a cache of traces holds none
    latencies: tuple[float, ...] = ()
    mark: tuple[str, ...] | None = None
    identity: tuple[float | None, ...] | None = None
    built: float | None = None
    committed: float | None = None
    commit: str | None = None
    equal_issue: bool | None = None
    contradictions: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def division(self) -> str | None:
        """The division of the result."""
        return self.subject.division

    @property
    def owner(self) -> tuple[str | None, str | None]:
        """Submitter and system: the same machine in every division."""
        return self.subject.submitter, self.subject.system


class Answers(msgspec.Struct, frozen=True):
    """An accuracy log of a result: of its accuracy run, or of a compliance test (``kind``).

    repeats: whether a test's answers are those of the accuracy run, for the samples that both show.
    begins: digest of the first bytes, which a shortened log keeps; stated, stated_at: the hash in the
    run's accuracy.txt, and that text's path and line.
    """

    kind: str
    path: str
    digest: str
    repeats: bool | None = None
    begins: str = ""
    stated: str | None = None
    stated_at: tuple[str, int] = ("", 0)
    contradictions: tuple[str, ...] = ()


class Named(msgspec.Struct, frozen=True):
    """A path that a verification text holds: the text, the line, the path's folders."""

    path: str
    line: int
    folders: tuple[str, ...]


class ResultTrace(msgspec.Struct):
    """One result: ``path`` is its folder's.

    metric, unit: the published number; key, line: where it is in ``detail_path``; rates: other
    numbers of the performance run by key; accelerator, accelerators: of the whole system;
    description: digest of the system description without submitter, division and status.
    tokens: output tokens per sample of the performance run. answers: every accuracy log. named:
    paths in the texts of its compliance tests; ran: the scenario that was run. precision: the data
    types of the weights; family: of the accelerator.
    """

    path: str
    subject: Subject
    round: str
    directory: str
    scenario: str
    detail_path: str
    metric: float | None
    unit: str | None
    key: str | None
    line: int | None
    rates: dict[str, float]
    inferred_from: str | None
    accelerator: str | None
    accelerators: int | None
    description: str | None
    availability: str | None
    results: tuple[str, ...] = ()
    tree: str = ""
    field: Any = None  # a Field; a cache of traces holds none
    tokens: float | None = None
    answers: tuple[Answers, ...] = ()
    named: tuple[Named, ...] = ()
    ran: str | None = None
    precision: str | None = None
    family: str | None = None

    @property
    def division(self) -> str | None:
        """The division of the result."""
        return self.subject.division


class Traces(msgspec.Struct):
    """The traces of one result."""

    result: ResultTrace
    runs: list[RunTrace] = []


def base_name(benchmark: str | None) -> str:
    """A benchmark's name without its accuracy target: 99 and 99.9 twins share it."""
    return _TWIN.sub("", benchmark or "")
