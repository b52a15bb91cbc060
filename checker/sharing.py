"""Equal parts of many results kept once: names, limits, settings, lists of rules, texts of fixes.

An outcome that comes from a worker or from the cache shares nothing with any other; a round's
results have a fifth of that to tell apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, TypeVar

from msgspec.msgpack import encode
from msgspec.structs import replace

from checker.audit.traces import Traces
from checker.shared_logs import Fingerprint
from checker.unit import Outcome
from schemas.report import Finding, Result

_MOST = 50_000
"""How many parts are remembered: where all differ, remembering them is of no use."""

_SAME_IN_ROW = (
    "division", "submitter", "system", "benchmark", "directory", "scenario", "category",
    "weight_data_types",
)  # fmt: skip
_EQUAL_IN_ROW = ("rules_not_applied", "system_description", "limits", "accuracy")
_SAME_IN_RUN = ("kind", "loadgen_version", "scenario", "mode", "validity")
_EQUAL_IN_RUN = ("latency_ns", "ttft_ns", "tpot_ns", "settings")
_SAME_IN_FINDING = ("rule", "name", "severity", "subject", "pointer", "fix")

_T = TypeVar("_T")


def _digest(value: Any) -> str:
    return hashlib.blake2b(encode(value), digest_size=16).hexdigest()


class Sharing:
    """The parts that were seen so far. What is shared is never changed.

    worth: whether there are enough results for it to save more than it costs.
    """

    def __init__(self, worth: bool = True) -> None:
        self._worth = worth
        self._texts: dict[Any, Any] = {}
        self._values: dict[str, Any] = {}

    def outcome(self, outcome: Outcome, key: str) -> Outcome:
        """The outcome with the parts that others have; ``key`` is the result's."""
        if not self._worth:
            return outcome
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

    def described(self, description: dict[str, Any]) -> dict[str, Any]:
        """An equal system description: of many systems most fields are alike."""
        if not self._worth:
            return self.equal(description)
        fields = {
            self._same(name): self._same(value) if isinstance(value, str) else value
            for name, value in description.items()
        }
        return self.equal(fields)

    def equal(self, value: _T) -> _T:
        """An equal value of any kind that MessagePack can hold."""
        if len(self._values) > _MOST:
            self._values.clear()
        try:
            return self._values.setdefault(_digest(value), value)  # type: ignore[no-any-return]
        except (TypeError, ValueError, OverflowError):
            return value

    def _alike(self, value: _T, same: Iterable[str], equal: Iterable[str], **other: Any) -> _T:
        """A copy whose named fields are shared; ``other`` replaces fields as they are."""
        fields = {name: self._same(getattr(value, name)) for name in same}
        fields |= {name: self.equal(getattr(value, name)) for name in equal}
        return replace(value, **fields, **other)  # type: ignore[type-var]

    def _row(self, row: Result, key: str) -> Result:
        runs = [self._alike(run, _SAME_IN_RUN, _EQUAL_IN_RUN) for run in row.runs]
        return self._alike(row, _SAME_IN_ROW, _EQUAL_IN_ROW, runs=runs, key=key)

    def _finding(self, finding: Finding, keys: tuple[str, ...]) -> Finding:
        return self._alike(
            finding,
            _SAME_IN_FINDING,
            (),
            results=keys if finding.results == keys else finding.results,
            invalidates=keys if finding.invalidates == keys else self._same(finding.invalidates),
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
