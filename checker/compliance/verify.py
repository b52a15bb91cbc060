"""Verify one compliance test from its own logs, and write the texts that the round asks for.

``verify`` reads folders; the rules of family C judge the same evidence of a loaded submission. The
runner calls ``verify`` and ``write`` after each test run.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from checker.accuracy.log import Progress
from checker.accuracy.problem import AccuracyError
from checker.compliance import audit, performance
from checker.compliance.answers import Comparison as Answers
from checker.compliance.evidence import Evidence, Test, verdict_line
from checker.compliance.fallback import Delta
from checker.compliance.performance import Comparison as Performance
from checker.compliance.tests import TESTS
from checker.compliance.tokens import Tokens
from checker.parse.accuracy_txt import AccuracyText, read_accuracy
from checker.parse.detail import DetailLog
from checker.parse.detail_file import read_detail
from checker.parse.reading import File
from schemas.load import load_round
from schemas.round import Round
from schemas.writing import replace_file

_DETAIL = "mlperf_log_detail.txt"
_ACCURACY = "mlperf_log_accuracy.json"


class Outcome(msgspec.Struct):
    """What verifying one test gave.

    passed: the verdict; None when it cannot be known (logs cut, files missing). failures: why not,
    each a sentence; notes: what was not or only partly looked at. files: the texts to be written,
    by their name inside the test's folder.
    """

    test: str
    passed: bool | None = None
    failures: list[str] = []
    notes: list[str] = []
    answers: Answers | None = None
    performance: Performance | None = None
    tokens: Tokens | None = None
    deltas: list[Delta] = []
    settings: list[audit.Difference] = []
    files: dict[str, str] = {}


def verify(
    test_name: str,
    main_dir: str | Path,
    test_dir: str | Path,
    round: Round | str,
    benchmark: str,
    scenario: str,
    *,
    score: float | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Verify one test of one result.

    main_dir: the result's folder (``performance/run_1``, ``accuracy``); test_dir: the test's
    folder; its logs lie in ``performance/run_1``, in ``accuracy`` or directly in it. benchmark:
    the round's name; scenario: the one that was run. score: TEST07's accuracy, when it is not in
    ``accuracy/accuracy.txt``. Never raises for what the files hold; raises KeyError when the round
    has no such test.
    """
    rules = load_round(round) if isinstance(round, str) else round
    if test_name not in rules.compliance:
        known = ", ".join(sorted(rules.compliance)) or "none"
        raise KeyError(f"{rules.name} has no compliance test {test_name}; it has {known}")
    test = TESTS[test_name]
    evidence = Evidence(test=test_name, round=rules, benchmark=benchmark, scenario=scenario)
    outcome = Outcome(test_name)
    main, folder = Path(main_dir), Path(test_dir)
    evidence.detail = _detail(folder)
    _settings(outcome, evidence)
    _answers(outcome, test, evidence, main, folder, progress)
    evidence.baseline = _text(folder, "baseline_accuracy.txt", rules)
    evidence.compliance = _text(folder, "compliance_accuracy.txt", rules)
    evidence.score = score if score is not None else _score(folder, evidence)
    answers_fail = [one.message for one in test.judge(evidence)]
    outcome.failures += answers_fail
    unknown = test.undecided(evidence)
    if unknown is not None and not answers_fail:
        outcome.notes.append(unknown)
    elif evidence.answers is not None and not evidence.answers.whole:
        outcome.notes.append(evidence.answers.describe())
    elif evidence.tokens is not None and evidence.tokens.truncated:
        outcome.notes.append("the accuracy log is cut in the middle: the detail log decides")
    outcome.files |= test.write(evidence, not answers_fail)
    outcome.answers, outcome.tokens = evidence.answers, evidence.tokens
    if evidence.answers is None or not evidence.answers.passed:
        outcome.deltas = evidence.deltas
    slow = _speed(outcome, evidence, main, folder) if test.speed else True
    if outcome.failures:
        outcome.passed = False
    else:
        outcome.passed = None if unknown is not None or slow is None else True
    return outcome


def write(outcome: Outcome, test_dir: str | Path) -> list[Path]:
    """Write the test's verification texts into its folder; returns the files written.

    What has their names is replaced; a link there is not followed. Raises OSError.
    """
    folder = Path(test_dir)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in outcome.files.items():
        path = folder / name
        replace_file(path, text.encode("utf-8"))
        written.append(path)
    return written


def _settings(outcome: Outcome, evidence: Evidence) -> None:
    if evidence.detail is None:
        return
    outcome.settings = audit.differences(evidence.detail, evidence.settings)
    for one in outcome.settings:
        text = f"{one.key} was {one.shown}; expected {one.expected}"
        (outcome.failures if one.key in audit.NEEDED else outcome.notes).append(text)


def _answers(
    outcome: Outcome,
    test: Test,
    evidence: Evidence,
    main: Path,
    folder: Path,
    progress: Progress | None,
) -> None:
    # accuracy/ holds the copy that is published, perhaps cut; the run's own log is whole.
    log = _first(folder, ("performance/run_1", "performance", ".", "accuracy"), _ACCURACY)
    if test.read is None or log is None:
        return
    try:
        test.read(evidence, _first(main, ("accuracy", "."), _ACCURACY), log, progress)
    except (AccuracyError, OSError) as error:
        outcome.notes.append(f"the answers were not read: {error}")


def _speed(outcome: Outcome, evidence: Evidence, main: Path, folder: Path) -> bool | None:
    """Compare the speed of the test's run with the submitted one's; None: it cannot be known."""
    reference, tested = _detail(main), evidence.detail
    if evidence.test == "TEST04-A":
        reference, tested = tested, _detail(folder.parent / "TEST04-B")
    found = performance.of_test(evidence.round, evidence.test, evidence.scenario, reference, tested)
    if found is None:
        outcome.notes.append("a detail log or its score is missing: performance was not compared")
        return None
    outcome.performance = found
    if not found.passed:
        outcome.failures.append(found.describe())
    first, second = ("TEST04-A", "TEST04-B") if found.is_pair else ("reference", "test")
    outcome.files["verify_performance.txt"] = (
        "Verifying performance.\n"
        f"{first} score = {found.reference!r}\n{second} score = {found.test!r}\n"
        + (verdict_line(True) if found.passed else "TEST FAIL: Test score invalid\n")
    )
    return found.passed


def _score(folder: Path, evidence: Evidence) -> float | None:
    """TEST07's accuracy, as the folder's accuracy text states it."""
    text = evidence.compliance or _text(folder, "accuracy.txt", evidence.round)
    known = evidence.round.benchmarks.get(evidence.benchmark or "")
    if text is None:
        return None
    for metric in [gate.metric for gate in known.accuracy] if known else sorted(text.values):
        value = text.last(metric)
        if value is not None:
            return value.value
    return None


def _detail(folder: Path) -> DetailLog | None:
    path = _first(folder, ("performance/run_1", "performance", "."), _DETAIL)
    log = read_detail(_file(path)) if path is not None else None
    return log or None


def _text(folder: Path, name: str, round: Round) -> AccuracyText | None:
    path = _first(folder, ("accuracy", "."), name)
    return read_accuracy(_file(path), round.accuracy_patterns) if path is not None else None


def _first(folder: Path, places: tuple[str, ...], name: str) -> Path | None:
    for place in places:
        path = folder / place / name
        if path.is_file() and path.stat().st_size:
            return path
    return None


def _file(path: Path) -> File:
    return File(path.as_posix(), str(path), path.stat().st_size)
