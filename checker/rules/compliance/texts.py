"""What the verification texts state, against the round and against the logs beside them."""

from __future__ import annotations

from collections.abc import Iterator

from checker.compliance import test01, test06, test07, test08, test09
from checker.compliance.evidence import Evidence
from checker.compliance.tokens import Tokens
from checker.model import ComplianceTest
from checker.parse.verify import Verification
from checker.rule import ERROR, NOTE, WARNING, Problem, Problems, rule
from checker.rules.compliance.scope import JUDGED, has_tests, problems
from checker.wording import listed
from schemas.round import Round


@rule(
    "C106",
    ERROR,
    divisions=JUDGED,
    when=has_tests,
    cases={"fallback": ERROR, "by the fallback": NOTE},
    only={"name": "TEST01", "is_required": True},
)
def test01_accuracy(
    test: ComplianceTest, round: Round, accuracy_text: Verification, evidence: Evidence
) -> Problems:
    """TEST01: the sampled answers are those of the accuracy run, or are as accurate.

    Why: a run that is fast because it answers worse than in accuracy mode did other work.
    Fix: run the accuracy run and TEST01 with one build; where answers may differ bit by bit, add
    accuracy/baseline_accuracy.txt and accuracy/compliance_accuracy.txt.
    Source: compliance test TEST01: verify_accuracy and its fallback for non-deterministic models.
    """
    for problem in problems(test01.stated(accuracy_text, evidence), accuracy_text.path):
        where = test.baseline if problem.case == "fallback" else test.compliance
        if where is not None and problem.line is None:
            problem = Problem(
                problem.message, problem.found, problem.required, path=where.path, case=problem.case
            )
        yield problem


@rule("C107", ERROR, divisions=JUDGED, when=has_tests, only={"name": "TEST06", "is_required": True})
def test06_checks(
    test: ComplianceTest, round: Round, accuracy_text: Verification, evidence: Evidence
) -> Problems:
    """TEST06: first token, end-of-sequence token and sample length passed.

    Why: tokens reported before they exist, or answers padded past their end, inflate the numbers.
    Fix: report the first token when it is made, cut the answer at its end token, and count tokens
    as they are; then run TEST06 again.
    Source: compliance test TEST06: the three lines of verify_accuracy.txt.
    """
    yield from problems(test06.stated(accuracy_text, evidence), accuracy_text.path)


@rule("C108", WARNING, divisions=JUDGED, when=has_tests, only={"name": "TEST06"})
def test06_first_token_checked(
    test: ComplianceTest, round: Round, accuracy_text: Verification, tokens: Tokens
) -> Problems:
    """TEST06: the first token was checked wherever it is reported.

    Why: in Server and Interactive the time to the first token counts, so that token must be real.
    Fix: run TEST06's verification without leaving out the first token.
    Source: compliance test TEST06: the check is skipped for Offline only.
    """
    state, line = accuracy_text.checks.get("first token", (None, None))
    if state == "skipped" and tokens.first_checked:
        text = (
            f"found the first token check skipped, though {tokens.first_checked:,} answers of the "
            f"{test.result.scenario} run report a first token; expected True"
        )
        yield Problem(text, found="Skipped", required="True", path=accuracy_text.path, line=line)


@rule(
    "C110",
    ERROR,
    divisions=JUDGED,
    when=has_tests,
    cases={"not stated": WARNING},
    only={"name": "TEST07", "is_required": True},
)
def test07_accuracy(
    test: ComplianceTest, round: Round, accuracy_text: Verification, evidence: Evidence
) -> Problems:
    """TEST07: the accuracy of the answers given in performance mode reaches its threshold.

    Why: a run that trades answers' quality for speed would pass with the accuracy run's number.
    Fix: run TEST07 with the build that made the accuracy run, and verify it again.
    Source: compliance test TEST07: accuracy threshold of its audit.config.
    """
    yield from problems(test07.stated(accuracy_text, evidence), accuracy_text.path)


@rule("C111", ERROR, divisions=JUDGED, when=has_tests, only={"name": "TEST08", "is_required": True})
def test08_counts(
    test: ComplianceTest, round: Round, accuracy_text: Verification, evidence: Evidence
) -> Problems:
    """TEST08: every answer was matched, and none is beyond the tolerance.

    Why: an unmatched answer was compared with nothing.
    Fix: run the accuracy run and TEST08 with one build and one data set, and verify again.
    Source: compliance test TEST08: normalized entropy per query within its tolerance.
    """
    yield from problems(test08.stated(accuracy_text, evidence), accuracy_text.path)


@rule(
    "C112",
    ERROR,
    divisions=JUDGED,
    when=has_tests,
    cases={"not stated": WARNING, "disagrees": WARNING},
    only={"name": "TEST09", "is_required": True},
)
def test09_length(
    test: ComplianceTest, round: Round, length_text: Verification, evidence: Evidence
) -> Problems:
    """TEST09: the answers' mean length is within the round's limits, stated and counted.

    Why: shorter answers than the reference's are less work.
    Fix: generate with the benchmark's own settings, and run TEST09 again.
    Source: compliance test TEST09: least and greatest mean output tokens of its audit.config.
    """
    yield from problems(test09.stated(length_text, evidence), length_text.path)
    log = test.run.detail_path if test.run is not None else test.path
    yield from problems(test09.outside(evidence), log)


@rule(
    "C123",
    ERROR,
    divisions=JUDGED,
    when=has_tests,
    cases={"data set": WARNING, "other log": ERROR, "lines": WARNING},
    only={"name": ("TEST01", "TEST08")},
)
def stated_counts(test: ComplianceTest, round: Round, accuracy_text: Verification) -> Problems:
    """The counts in verify_accuracy.txt agree with its verdict, with the log and with the data set.

    Why: a comparison of nothing passes anything, and a text of other logs says nothing of these.
    Fix: check that LoadGen read audit.config and logged answers; run the test and verify it again.
    Source: compliance tests TEST01 and TEST08: num_* lines of verify_accuracy.txt.
    """
    missing = [key for key in _PRINTED[test.name] if key not in accuracy_text.counts]
    if missing:
        yield Problem(
            f"found no line for {listed(missing)}; expected each count that the verification prints",
            required=missing,
            path=accuracy_text.path,
            case="lines",
            count=len(missing),
        )
    for message, key, expected, case in _count_shortfalls(test, accuracy_text):
        yield Problem(
            message,
            accuracy_text.counts[key],
            expected,
            path=accuracy_text.path,
            line=accuracy_text.count_lines.get(key),
            case=case,
        )


_PRINTED = {
    "TEST01": (
        "num_acc_log_entries", "num_acc_log_duplicate_keys", "num_acc_log_data_mismatch",
        "num_perf_log_entries", "num_perf_log_qsl_idx_match", "num_perf_log_data_mismatch",
        "num_missing_qsl_idxs",
    ),
    "TEST08": (
        "num_acc_log_entries", "num_perf_log_entries", "num_matched", "num_unmatched",
        "num_ne_mismatch",
    ),
}  # fmt: skip
"""The counts in every text of a test's verification."""


def _count_shortfalls(
    test: ComplianceTest, text: Verification
) -> Iterator[tuple[str, str, object, str | None]]:
    counts = text.counts
    entries = counts.get("num_perf_log_entries")
    if entries == 0:
        yield (
            (
                "found no sampled answer (num_perf_log_entries = 0); expected at least one (did LoadGen "
                "read audit.config?)"
            ),
            "num_perf_log_entries",
            "> 0",
            None,
        )
    for key in ("num_perf_log_data_mismatch", "num_missing_qsl_idxs"):
        if text.passes and counts.get(key):
            yield f"found TEST PASS with {key} = {counts[key]:,}; expected 0", key, 0, None
    matched = counts.get("num_perf_log_qsl_idx_match")
    if entries is not None and matched is not None and matched > entries:
        yield (
            (f"found {matched:,} answers matched of {entries:,}; expected at most {entries:,}"),
            "num_perf_log_qsl_idx_match",
            entries,
            None,
        )
    held = test.answers.test_records if test.answers and not test.answers.test_truncated else None
    if entries and held and entries != held:
        yield (
            (
                f"found num_perf_log_entries = {entries:,}; expected {held:,}, the answers in the "
                "test's own log"
            ),
            "num_perf_log_entries",
            held,
            "other log",
        )
    benchmark, compared = test.result.benchmark, counts.get("num_acc_log_entries")
    if benchmark is None or compared is None or benchmark.dataset.size is None:
        return
    size = benchmark.dataset.size
    if compared < (benchmark.dataset.least(test.result.scenario) or size):
        yield (
            (
                f"found num_acc_log_entries = {compared:,}; expected {size:,}, the samples of the data "
                "set"
            ),
            "num_acc_log_entries",
            size,
            "data set",
        )
    elif compared > _ROUNDED_UP * max(size, benchmark.dataset.accuracy_sample_count or 0):
        yield (
            (
                f"found num_acc_log_entries = {compared:,}; expected {size:,}, the samples of "
                f"{test.result.name}'s data set: the text is of another benchmark"
            ),
            "num_acc_log_entries",
            size,
            "other log",
        )


_ROUNDED_UP = 1.02
"""MultiStream and batching fill the last query up: 5,040 answers of 5,000 samples were published."""


@rule("C132", WARNING, only={"is_known": True})
def unjudged_text_has_verdict(test: ComplianceTest, round: Round) -> Problems:
    """A verification text of a test that the result does not need states a verdict, too.

    Why: what is in the folder is not what a verification wrote, and readers cannot use it.
    Fix: run the test's verification again, or remove the folder.
    Source: compliance tests: each verification ends with PASS or FAIL.
    """
    if test.is_required and test.result.division in JUDGED:
        return  # C106 and the others hold the test to its verdict
    for name, text in sorted(test.verifications.items()):
        states = text.passes or text.fails or text.checks or text.faults
        if not states:
            yield Problem(
                "found no verdict; expected a line with PASS or FAIL", path=text.path, found=name
            )
