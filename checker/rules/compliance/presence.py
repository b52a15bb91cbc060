"""Are the compliance tests there, with all their files and one verdict each?"""

from __future__ import annotations

from checker.model import ComplianceTest, Result
from checker.parse.verify import Verification
from checker.rule import ERROR, NOTE, NotJudged, Problem, Problems, rule
from checker.rules.compliance.scope import JUDGED, has_tests
from schemas.round import Round, Scenario


@rule("C101", ERROR, divisions=JUDGED, when=has_tests, needs={"limits": "rules"})
def compliance_tests_present(result: Result, round: Round, limits: Scenario) -> Problems:
    """Every compliance test that the round requires for this benchmark and scenario is there.

    Why: the tests show that the measured system answers as in the accuracy run and caches nothing.
    Fix: run the missing test with its audit.config and add its logs and verification texts.
    Source: submission_rules.adoc, "Compliance testing"; the round's tests per benchmark.
    """
    inside = result.compliance_folder is result.folder
    if result.endpoints is not None or not (result.complete if inside else result.surrounded):
        raise NotJudged
    base = result.compliance_path or result.path
    for name in limits.compliance:
        if name not in result.tests:
            there = ", ".join(sorted(result.tests)) or "no compliance test"
            text = f"found {there}; expected {name} for {result.name} {result.scenario}"
            yield Problem(text, found=sorted(result.tests), required=name, path=f"{base}/{name}")


@rule("C102", ERROR, divisions=JUDGED, when=has_tests, needs="is_required")
def compliance_files_present(test: ComplianceTest, round: Round) -> Problems:
    """A compliance test's folder holds the files that the round requires.

    Why: without its logs and texts nobody can see that the test passed.
    Fix: add the file: logs are LoadGen's, texts the verification script's
    (`assay compliance verify TEST --write` writes them from the logs).
    Source: submission_rules.adoc, "Compliance testing": directory structure.
    """
    for name in round.compliance[test.name].files:
        folder, _, file_name = name.rpartition("/")
        here = test.folder.folder(*folder.split("/")) if folder else test.folder
        if here is None or file_name not in here.files:
            if "/" not in name and name in test.verifications:
                continue
            text = f"found no {name}; expected it in {test.name}"
            yield Problem(text, required=name, path=f"{test.path}/{name}")


@rule("C103", NOTE, divisions=JUDGED, when=has_tests, needs={"limits": "result.rules"})
def compliance_test_not_required(test: ComplianceTest, round: Round, limits: Scenario) -> Problems:
    """Only the tests that the round requires here are there.

    Why: a reader should know that the folder has no bearing on the result.
    Fix: remove the folder (`git rm -r FOLDER`), or leave it for the reader's information.
    Source: the round's tests per benchmark and scenario.
    """
    if test.name not in limits.compliance:
        expected = ", ".join(limits.compliance) or "no test"
        yield Problem(
            f"found {test.name}; expected {expected} for {test.result.name} {test.result.scenario}",
            found=test.name,
            required=list(limits.compliance),
        )


@rule("C104", ERROR, divisions=JUDGED, when=has_tests, needs="is_required")
def verification_passed(test: ComplianceTest, round: Round, verdict_text: Verification) -> Problems:
    """The verification texts say TEST PASS.

    Why: a test that did not pass shows a run that is not what it was submitted as.
    Fix: find out why the test failed, fix the cause, and run the test and its verification again.
    Source: submission_rules.adoc, "Compliance testing": tests must pass.
    """
    if not verdict_text.passes:
        fails = verdict_text.fails
        yield Problem(
            f"found {'TEST FAIL' if fails else 'no verdict'} for {test.name}; expected TEST PASS",
            found="TEST FAIL" if fails else None,
            required="TEST PASS",
            path=verdict_text.path,
            line=fails[0] if fails else None,
        )


@rule("C105", ERROR, divisions=JUDGED, when=has_tests)
def verification_unambiguous(test: ComplianceTest, round: Round) -> Problems:
    """A verification text does not say both TEST PASS and TEST FAIL.

    Why: of two verdicts in one file one was added, or two runs were mixed.
    Fix: run the verification script once and save its output alone.
    Source: compliance tests: the script prints one verdict.
    """
    for text in test.verifications.values():
        if text.passes and text.fails:
            yield Problem(
                f"found TEST PASS on line {text.passes[0]:,} and TEST FAIL on line "
                f"{text.fails[0]:,}; expected one verdict",
                found=["TEST PASS", "TEST FAIL"],
                required="one verdict",
                path=text.path,
                line=text.fails[0],
            )
