"""The answers that a test logged: are they there, complete, and those of the accuracy run?"""

from __future__ import annotations

import msgspec

from checker.compliance import test01, test06, test07
from checker.compliance.answers import Comparison
from checker.compliance.audit import audit_config_read
from checker.compliance.evidence import Evidence
from checker.compliance.tokens import Tokens
from checker.model import ComplianceTest
from checker.parse.reading import File
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, Problems, rule
from checker.rules.compliance.scope import JUDGED, has_tests, problems
from checker.wording import quantity
from schemas.round import Round


@rule("C109", ERROR, divisions=JUDGED, when=has_tests)
def test06_answers(
    test: ComplianceTest, round: Round, tokens: Tokens, evidence: Evidence
) -> Problems:
    """TEST06: first tokens, ends and lengths of the logged answers are right.

    Why: the text can be written by hand; the answers themselves show whether it is true.
    Fix: correct how the system reports tokens and their count, and run TEST06 again.
    Source: compliance test TEST06; LoadGen's token_data and token_count.
    """
    if test.name != "TEST06" or not tokens.records:
        raise NotJudged
    yield from problems(test06.judge(evidence), test.log_path)


@rule("C125", ERROR, divisions=JUDGED, when=has_tests, cases={"cut": WARNING, "fallback": NOTE})
def test_answers_equal(test: ComplianceTest, round: Round, answers: Comparison) -> Problems:
    """The logged answers of the test are those of the accuracy run.

    Why: the text can be written by hand; the answers themselves show whether it is true.
    Fix: run the accuracy run and the test with one build; where answers may differ bit by bit, add
    the two accuracy texts of the fallback.
    Source: compliance tests TEST01 and TEST08: the answers of both runs, sample by sample.
    """
    text = test.accuracy_text
    excused = text is not None and not text.passes and test.compliance is not None
    for problem in problems(test01.differing(answers), test.log_path):
        yield msgspec.structs.replace(problem, case="fallback") if excused else problem


_EMPTY_LIST = 16
"""Bytes of a list without answers as LoadGen writes it, whatever its line ends."""


@rule("C126", ERROR, divisions=JUDGED, when=has_tests, cases={"empty-list": ERROR})
def test_answers_logged(
    test: ComplianceTest, round: Round, accuracy_log: File, evidence: Evidence
) -> Problems:
    """The test's log holds answers.

    Why: LoadGen logs answers in performance mode only with audit.config; without them nothing was
    compared.
    Fix: put the test's audit.config, under that very name, into the working directory and run again.
    Source: compliance tests: accuracy_log_sampling_target of audit.config.
    """
    if not evidence.settings.get("accuracy_log_sampling_target"):
        raise NotJudged
    held = test.answers_held
    ends = test.log_ends if accuracy_log.size <= _EMPTY_LIST else None
    if accuracy_log.size == 0 or held == 0:
        detail = evidence.detail
        unread = detail is not None and detail.format == "mllog" and not audit_config_read(detail)
        yield Problem(
            f"found no answers in {accuracy_log.size:,} bytes; expected the sampled answers"
            + (": LoadGen did not read an audit.config" if unread else ""),
            found=0,
            required="> 0 answers",
            path=accuracy_log.path,
            case="empty-list" if ends is not None and ends.begins and ends.ends else None,
        )
    elif test.log_ends is not None and not (test.log_ends.begins and test.log_ends.ends):
        yield Problem(
            f"found {accuracy_log.size:,} bytes that do not begin with [ and end with ]; expected "
            "LoadGen's list of answers",
            found=f"{accuracy_log.size} bytes",
            required='[ {"seq_id" : … ]',
            path=accuracy_log.path,
        )


@rule(
    "C133",
    WARNING,
    divisions=JUDGED,
    when=has_tests,
    only={"name": ("TEST01", "TEST06"), "is_required": True},
    cases={"tokens": NOTE},
)
def test_log_present(test: ComplianceTest, round: Round) -> Problems:
    """TEST01 and TEST06 are submitted with the answers that they logged.

    Why: the verdict is a text; the answers are what it can be checked against.
    Fix: add accuracy/mlperf_log_accuracy.json of the test.
    Source: submission_rules.adoc, "Compliance testing": accuracy of TEST01; all published results from
        v0.7 have it. For TEST06, a note: its script's text alone is required.
    """
    if test.accuracy_log is None:
        yield Problem(
            "found no accuracy/mlperf_log_accuracy.json; expected the answers that the test logged",
            path=test.path,
            required="accuracy/mlperf_log_accuracy.json",
            case="tokens" if test.name == "TEST06" else None,
        )


@rule("C127", WARNING, divisions=JUDGED, when=has_tests)
def test_answers_consistent(test: ComplianceTest, round: Round, answers: Comparison) -> Problems:
    """One sample has one answer in the test's log, and one in the accuracy run's.

    Why: several answers to one question show a system that does not answer the same twice.
    Fix: find out what changes between two answers; compare the accuracies where that is allowed.
    Source: compliance test TEST01: num_acc_log_data_mismatch.
    """
    for count, where in (
        (answers.contradictions, "the test"),
        (answers.reference_contradictions, "the accuracy run"),
    ):
        if count:
            text = (
                f"found {quantity(count, 'repeated sample')} with another answer than before in {where}; "
                "expected none"
            )
            yield Problem(text, found=count, required=0, path=test.log_path, count=count)


@rule(
    "C130",
    ERROR,
    divisions=JUDGED,
    when=has_tests,
    cases={"stated": WARNING, "sampled": WARNING},
    only={"name": ("TEST06", "TEST07", "TEST09"), "is_required": True},
)
def whole_set_answered(test: ComplianceTest, round: Round, evidence: Evidence) -> Problems:
    """TEST06, TEST07 and TEST09 answered all the samples that the test requires.

    Why: drawn with replacement, a run answers only some of the samples, some of them twice.
    Fix: issue every sample once (performance_issue_unique) and run the test again.
    Source: compliance tests TEST06, TEST07 and TEST09: number of samples of their audit.config.
    """
    if test.name == "TEST06":
        held, wanted = evidence.whole_tokens, evidence.setting("accuracy_log_sampling_target")
        if held is not None and wanted is not None and 0 < held.records != wanted:
            yield Problem(
                f"found {held.records:,} answers; expected {int(wanted):,}",
                found=held.records,
                required=int(wanted),
                path=test.log_path,
                case="sampled",
            )
        return
    yield from problems(test07.too_few_samples(evidence), test.log_path)
    text = test.verdict_text
    if text is not None:
        yield from problems(test07.too_few_stated(text, evidence), text.path)
