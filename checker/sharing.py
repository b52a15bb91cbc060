"""Equal parts of many results kept once: names, limits, settings, lists of rules, texts of fixes.

An outcome that comes from a worker or from the cache shares nothing with any other; a round's
results have a fifth of that to tell apart.
"""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

from msgspec.msgpack import encode
from msgspec.structs import replace

from checker.audit.traces import Traces
from checker.shared_logs import Fingerprint
from checker.unit import Outcome
from schemas.report import Finding, Result, RunFacts

_MOST = 50_000
"""How many parts are remembered: where all differ, remembering them is of no use."""

_T = TypeVar("_T")


def _digest(value: Any) -> str:
    return hashlib.blake2b(encode(value), digest_size=16).hexdigest()


class Sharing:
    """The parts that were seen so far. What is shared is never changed."""

    def __init__(self) -> None:
        self._texts: dict[Any, Any] = {}
        self._values: dict[str, Any] = {}

    def outcome(self, outcome: Outcome, key: str) -> Outcome:
        """The outcome with the parts that others have; ``key`` is the result's."""
        row = outcome.row
        keys: tuple[str, ...] = (key,)
        return Outcome(
            self._row(row, key if row.key == key else row.key),
            [self._finding(finding, keys) for finding in outcome.findings],
            outcome.traces and self._traces(outcome.traces),
            [self._print(mark, keys) for mark in outcome.prints],
        )

    def _same(self, value: _T) -> _T:
        """An equal value that can be looked up: a text, a subject, a tuple of texts."""
        if len(self._texts) > _MOST:
            self._texts.clear()
        return self._texts.setdefault(value, value)  # type: ignore[no-any-return]

    def equal(self, value: _T) -> _T:
        """An equal value of any kind that MessagePack can hold."""
        if len(self._values) > _MOST:
            self._values.clear()
        try:
            return self._values.setdefault(_digest(value), value)  # type: ignore[no-any-return]
        except (TypeError, ValueError, OverflowError):
            return value

    def _row(self, row: Result, key: str) -> Result:
        same = self._same
        return replace(
            row,
            division=same(row.division),
            submitter=same(row.submitter),
            system=same(row.system),
            benchmark=same(row.benchmark),
            directory=same(row.directory),
            scenario=same(row.scenario),
            category=same(row.category),
            rules_not_applied=self.equal(row.rules_not_applied),
            system_description=self.equal(row.system_description),
            weight_data_types=same(row.weight_data_types),
            limits=self.equal(row.limits),
            accuracy=self.equal(row.accuracy),
            runs=[self._run(run) for run in row.runs],
            key=key,
        )

    def _run(self, run: RunFacts) -> RunFacts:
        same, equal = self._same, self.equal
        return replace(
            run,
            kind=same(run.kind),
            loadgen_version=same(run.loadgen_version),
            scenario=same(run.scenario),
            mode=same(run.mode),
            validity=same(run.validity),
            latency_ns=equal(run.latency_ns),
            ttft_ns=equal(run.ttft_ns),
            tpot_ns=equal(run.tpot_ns),
            settings=equal(run.settings),
        )

    def _finding(self, finding: Finding, keys: tuple[str, ...]) -> Finding:
        same = self._same
        return replace(
            finding,
            rule=same(finding.rule),
            name=same(finding.name),
            severity=same(finding.severity),
            subject=same(finding.subject),
            pointer=same(finding.pointer),
            fix=same(finding.fix),
            results=keys if finding.results == keys else finding.results,
            invalidates=keys if finding.invalidates == keys else same(finding.invalidates),
        )

    def _print(self, mark: Fingerprint, keys: tuple[str, ...]) -> Fingerprint:
        return replace(
            mark,
            subject=self._same(mark.subject),
            division=self._same(mark.division),
            system=self._same(mark.system),
            mark=(_digest(repr(mark.mark).encode("utf-8", "backslashreplace")),),
            results=keys if mark.results == keys else mark.results,
        )

    def _traces(self, traces: Traces) -> Traces:
        for run in traces.runs:
            run.subject = self._same(run.subject)
            run.sources = self._same(run.sources)
            run.written = self.equal(run.written)
            run.lines = self.equal(run.lines)
        traces.result.subject = self._same(traces.result.subject)
        return traces
