"""The test's speed against the submitted run's: from the logs, and as the text states it."""

from __future__ import annotations

import math

from checker.compliance import performance
from checker.compliance.performance import Comparison
from checker.consistency import same_value
from checker.model import ComplianceTest
from checker.parse.detail import DetailLog
from checker.parse.verify import Verification
from checker.rule import ERROR, WARNING, NotJudged, Problem, Problems, rule
from checker.rules.compliance.scope import JUDGED, has_tests
from checker.wording import number, rounded
from schemas.round import Round


@rule("C121", ERROR, divisions=JUDGED, when=has_tests)
def test_performance(test: ComplianceTest, round: Round, speed: Comparison) -> Problems:
    """The test's run is as fast as the submitted run, within the test's tolerance.

    Why: TEST01 must not change the speed; TEST04 must not be faster, for that would show a cache;
    TEST05 must not be slower, for then the usual seeds are the lucky ones.
    Fix: run both with the same build and settings; find out what the test makes faster or slower.
    Source: compliance tests TEST01, TEST04, TEST05: verify_performance, computed from both logs.
    """
    if not speed.passed:
        text = speed.describe()
        yield Problem(
            text, found=float(f"{speed.ratio:.6g}"), required=speed.allowed, path=test.compared_path
        )


@rule(
    "C122",
    ERROR,
    divisions=JUDGED,
    when=has_tests,
    cases={"own score": ERROR, "reference": WARNING, "no score": WARNING, "verdict": ERROR},
)
def stated_scores(
    test: ComplianceTest, round: Round, performance_text: Verification, is_known: bool
) -> Problems:
    """The scores that verify_performance.txt states are in the two runs' logs and support its verdict.

    Why: otherwise the text is of other runs than those submitted, or was edited.
    Fix: run the verification script on the submitted logs
    (`assay compliance verify TEST --write` writes the text from the logs).
    Source: compliance tests: verify_performance prints both runs' scores.
    """
    if not is_known or not test.has_speed:
        raise NotJudged
    text = performance_text
    scores = ("test04-a", "test04-b") if test.name == "TEST04-A" else ("reference", "test")
    missing = [name for name in scores if name not in text.scores]
    if text.scores and missing:
        message = f"found no {missing[0]} score; expected the scores of both runs"
        yield Problem(message, required=f"{missing[0]} score", path=text.path, case="no score")
    if text.passes and not text.scores:
        yield Problem(
            "found TEST PASS and no score; expected the scores of both runs",
            required="reference score, test score",
            path=text.path,
            line=text.passes[0],
            case="no score",
        )
    foreign = False
    for which, run, case in (
        ("reference", test.result.performance, "reference"),
        ("test", test.run, "own score"),
        ("test04-a", test.run, "own score"),
        ("test04-b", test.partner, "own score"),
    ):
        stated = text.scores.get(which)
        if stated is None or run is None or not run.detail or _occurs(run.detail, stated):
            continue
        foreign = True
        now = performance.score(run.detail, run.scenario or "")
        expected = f"{number(now[1])} ({now[0]})" if now is not None else "a score of that run"
        whose = "the submitted run" if which == "reference" else which.replace("test0", "TEST0")
        whose = f"the run of {test.name}" if which == "test" else whose
        yield Problem(
            f"found a {which} score of {number(stated)}; expected {expected} from the log of {whose}",
            found=stated,
            required=now[1] if now is not None else None,
            path=text.path,
            line=text.score_lines.get(which),
            case=case,
            if_whole=run.detail_path,
        )
    if not foreign:
        yield from _verdict(test, round, text)


def _verdict(test: ComplianceTest, round: Round, text: Verification) -> Problems:
    """A text that says TEST PASS beside scores that do not pass."""
    first, second = ("test04-a", "test04-b") if test.name == "TEST04-A" else ("reference", "test")
    reference, tested = text.scores.get(first), text.scores.get(second)
    scenario = test.run.scenario if test.run is not None else None
    if not text.passes or reference is None or tested is None or scenario is None:
        return
    stated = performance.of_scores(round, test.name, scenario, reference, tested)
    if stated is not None and not stated.passed:
        yield Problem(
            f"found TEST PASS beside scores of {number(reference)} and {number(tested)}, "
            f"{number(rounded(stated.ratio))} times; expected {stated.allowed}",
            found=[reference, tested],
            required=stated.allowed,
            path=text.path,
            line=text.passes[0],
            case="verdict",
        )


def _occurs(detail: DetailLog, stated: float) -> bool:
    for key in detail.entries:
        if not key.startswith(("result_", "early_stopping_latency")):
            continue
        value = detail.get(key)  # of any kind: which one it is is the question
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if not math.isfinite(value):
            continue
        if same_value(value, stated) or (value > 0 and same_value(1e9 / value, stated)):
            return True
    return False
