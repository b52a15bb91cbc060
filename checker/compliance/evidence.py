"""What one compliance test is judged by, and what a test is: read, judged and written in one module.

`Evidence` is filled from a folder (``verify``, the runner) or from a loaded submission (the rules of
family C); a `Test` judges it the same way in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from checker.accuracy.log import Progress
from checker.compliance import audit, fallback
from checker.compliance.answers import Comparison
from checker.compliance.fallback import Delta
from checker.compliance.tokens import Tokens
from checker.parse.accuracy_txt import AccuracyText
from checker.parse.detail import DetailLog
from checker.parse.verify import Verification
from schemas.round import Round

Source = str | Path | BinaryIO


class Shortfall(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a test falls short: "found X; expected Y".

    line: of the verification text. case: the degree, where it is not the plain one.
    """

    message: str
    found: object = None
    required: object = None
    line: int | None = None
    case: str | None = None


class Evidence(msgspec.Struct, kw_only=True):
    """What is known of one test. Absent means not read or not there, never that it failed.

    detail: the log of the test's run. answers: against the accuracy run's; tokens: of the test's
    answers. baseline, compliance: TEST01's two accuracy texts. score: the accuracy of the test's
    answers, in the unit of the benchmark's gate.
    """

    test: str
    round: Round
    benchmark: str | None
    scenario: str | None
    detail: DetailLog | None = None
    answers: Comparison | None = None
    tokens: Tokens | None = None
    baseline: AccuracyText | None = None
    compliance: AccuracyText | None = None
    score: float | None = None

    @property
    def settings(self) -> dict[str, audit.Value]:
        """The settings of the test's audit.config."""
        return audit.settings_of(self.round, self.test, self.benchmark, self.scenario)

    def setting(self, name: str) -> float | None:
        """One of them as a number; None when the test has none."""
        value = self.settings.get(name)
        return None if value is None else float(value)

    @property
    def deltas(self) -> list[Delta]:
        """TEST01's fallback: both accuracies of each metric; [] unless both texts are there."""
        if self.baseline is None or self.compliance is None:
            return []
        known = self.round.benchmarks.get(self.benchmark or "")
        return fallback.deltas(self.baseline, self.compliance, self.round, self.benchmark, known)

    @property
    def whole_tokens(self) -> Tokens | None:
        """The token records, where the whole log was read."""
        return None if self.tokens is None or self.tokens.truncated else self.tokens


Read = Callable[[Evidence, Source | None, Source, Progress | None], None]
Judge = Callable[[Evidence], Iterator[Shortfall]]


def _nothing(evidence: Evidence) -> Iterator[Shortfall]:
    return iter(())


def _no_text(text: Verification, evidence: Evidence) -> Iterator[Shortfall]:
    return iter(())


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """One compliance test.

    text: the verification text that carries its verdict. speed: whether its speed is compared with
    the submitted run's; full_run: whether its run is held to the rules of a submitted one.
    read: fills in answers or tokens from (accuracy run's log, test's log).
    judge: what the answers show. undecided: why the verdict cannot be known.
    stated: what the verification text states against its own verdict and the round.
    write: the texts that the round asks for, by name.
    """

    text: str | None = None
    speed: bool = False
    full_run: bool = False
    read: Read | None = None
    judge: Judge = _nothing
    undecided: Callable[[Evidence], str | None] = lambda evidence: None
    stated: Callable[[Verification, Evidence], Iterator[Shortfall]] = _no_text
    write: Callable[[Evidence, bool], dict[str, str]] = lambda evidence, passed: {}


def verdict_line(passed: bool) -> str:
    """The last line of a verification text."""
    return "TEST PASS\n" if passed else "TEST FAIL\n"


def failed_checks(text: Verification) -> Iterator[Shortfall]:
    """Checks that a text says failed, though it says TEST PASS."""
    for name, (state, line) in text.checks.items():
        if state == "false" and text.passes:
            yield Shortfall(
                message=f"found TEST PASS beside a failed {name} check; expected every check to pass",
                found=False,
                required=True,
                line=line,
            )
