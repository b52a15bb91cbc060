"""The settings of a test's audit.config, as its LoadGen run logs them."""

from __future__ import annotations

from checker.compliance import audit
from checker.compliance.evidence import Evidence
from checker.model import ComplianceRun
from checker.parse.detail import DetailLog
from checker.rule import ERROR, WARNING, Problem, Problems, rule
from checker.rules.compliance.scope import JUDGED, has_tests
from schemas.round import Round


@rule("C113", ERROR, divisions=JUDGED, when=has_tests)
def sampling_seed(
    run: ComplianceRun, round: Round, detail: DetailLog, evidence: Evidence
) -> Problems:
    """The test sampled answers with the seed of its audit.config.

    Why: without it LoadGen logs no answers, or others than the ones everybody is compared by.
    Fix: put the test's audit.config, under that very name, into the working directory and run again.
    Source: compliance tests: accuracy_log_rng_seed of audit.config; LoadGen's effective settings.
    """
    for one in audit.differences(detail, evidence.settings):
        if one.key == "accuracy_log_rng_seed":
            yield _setting(run, one)


@rule("C114", WARNING, divisions=JUDGED, when=has_tests, cases={"no test": ERROR})
def audit_settings(
    run: ComplianceRun, round: Round, detail: DetailLog, evidence: Evidence
) -> Problems:
    """The settings of the test's audit.config were in effect.

    Why: issue_same and the sampling target are what makes the run a test.
    Fix: put the test's audit.config, under that very name, into the working directory and run again.
    Source: compliance tests: audit.config of the round; LoadGen's requested and effective settings.
    """
    wrong = [
        one
        for one in audit.differences(detail, evidence.settings)
        if one.key != "mode" and not one.key.endswith("rng_seed")
    ]
    if wrong:
        found = ", ".join(f"{one.log_key} {one.shown}" for one in wrong)
        expected = ", ".join(f"{one.key} {one.expected}" for one in wrong)
        yield Problem(
            f"found {found} in {run.test}; expected {expected}, as in its audit.config",
            found=wrong[0].found,
            required=wrong[0].required,
            path=run.detail_path,
            line=wrong[0].line,
            count=len(wrong),
            case="no test" if any(one.key in audit.NEEDED for one in wrong) else None,
        )


def _setting(run: ComplianceRun, one: audit.Difference) -> Problem:
    return Problem(
        f"found {one.log_key} {one.shown} in {run.test}; expected {one.expected}, as in its "
        "audit.config",
        found=one.found,
        required=one.required,
        path=run.detail_path,
        line=one.line,
    )


@rule("C115", WARNING, divisions=JUDGED, when=has_tests, only={"detail.format": "mllog"})
def audit_config_read(
    run: ComplianceRun, round: Round, detail: DetailLog, evidence: Evidence
) -> Problems:
    """LoadGen read an audit.config file in the test's run.

    Why: under another name (audit.conf) or in another folder the file is not read, and the run is
    an ordinary one.
    Fix: put audit.config into the folder that the run is started from, and run again.
    Source: LoadGen: it says so in a warning when it finds the file.
    """
    if not audit.audit_config_read(detail):
        text = f"found no record that LoadGen read an audit.config; expected one in {run.test}"
        yield Problem(text, required="Found Audit Config file", path=run.detail_path)
