"""TEST01: are the answers sampled in performance mode those of the accuracy run?

Where a model does not answer bit by bit the same, the accuracies over the sampled answers decide.

Source: the round's compliance test TEST01: verify_accuracy and its fallback.
"""

from __future__ import annotations

from collections.abc import Iterator

from checker.accuracy.log import Progress
from checker.compliance import answers
from checker.compliance.answers import Comparison
from checker.compliance.evidence import Evidence, Shortfall, Source, Test, verdict_line
from checker.compliance.fallback import Delta
from checker.parse.verify import Verification
from checker.wording import number, quantity

FALLBACK = ("baseline_accuracy.txt", "compliance_accuracy.txt")


def read(evidence: Evidence, main: Source | None, test: Source, progress: Progress | None) -> None:
    """Compare the two accuracy logs. Raises AccuracyError, OSError."""
    if main is not None:
        evidence.answers = answers.verify_accuracy(main, test, progress=progress)


def differing(found: Comparison) -> Iterator[Shortfall]:
    """Answers that are not the accuracy run's. In logs cut for publication they may lie on the cut."""
    case = None if found.whole else "cut"
    if found.mismatched:
        shown = ", ".join(str(s) for s in found.samples[:5])
        yield Shortfall(
            message=f"{found.mismatched:,} of {found.compared:,} answers differ from the accuracy "
            f"run's (samples {shown}); expected none; {found.describe()}",
            found=found.mismatched,
            required=0,
            case=case,
        )
    if found.missing:
        yield Shortfall(
            message=f"found {quantity(found.missing, 'answer')} for samples that the accuracy run did not "
            "answer; expected none",
            found=found.missing,
            required=0,
            case=case,
        )


def apart(delta: Delta) -> Shortfall:
    """Two accuracies further apart than the test allows."""
    return Shortfall(
        message=f"{delta.metric} over the sampled answers is {number(delta.compliance)} in the test "
        f"and {number(delta.baseline)} in the accuracy run, {delta.percent:.3g}% apart; expected at "
        f"most {number(delta.limit)}%",
        found=delta.percent,
        required=delta.limit,
    )


def judge(evidence: Evidence) -> Iterator[Shortfall]:
    """Answers that differ, unless both accuracies are there and near enough."""
    found = evidence.answers
    if found is not None and found.passed:
        return
    if deltas := evidence.deltas:
        yield from (apart(delta) for delta in deltas if not delta.passed)
    elif found is not None and not found.test_records and not found.test_truncated:
        yield no_answers()
    elif found is not None and found.passed is False:
        reasons = list(differing(found))
        yield from reasons or [
            Shortfall(message="no answer of the test could be compared with the accuracy run's")
        ]


def no_answers() -> Shortfall:
    """A log without answers."""
    return Shortfall(
        message="found no answers in the test's accuracy log; expected the sampled ones "
        "(did LoadGen read audit.config?)"
    )


def undecided(evidence: Evidence) -> str | None:
    """Without logs, or with logs that show no answer in common."""
    found = evidence.answers
    if evidence.deltas or (found is not None and found.passed is not None):
        return None
    return (
        "an accuracy log is missing: the answers were not compared"
        if found is None
        else found.describe()
    )


def stated(text: Verification, evidence: Evidence) -> Iterator[Shortfall]:
    """A text without TEST PASS needs the fallback, and its two accuracies near enough."""
    if text.passes:
        return
    verdict = "TEST FAIL" if text.fails else "no verdict"
    gone = [
        name
        for name, there in zip(FALLBACK, (evidence.baseline, evidence.compliance), strict=True)
        if there is None
    ]
    if gone:
        yield Shortfall(
            message=f"found {verdict}, and no accuracy/{' or accuracy/'.join(gone)}; expected TEST "
            "PASS or both accuracies",
            found=verdict,
            required="TEST PASS or both accuracies",
            line=text.fails[0] if text.fails else None,
        )
        return
    deltas = evidence.deltas
    if not deltas:
        yield Shortfall(
            message=f"found {verdict}, and no metric of the benchmark that both "
            f"{' and '.join(FALLBACK)} state; expected TEST PASS or both accuracies",
            found=verdict,
            required="both accuracies",
            case="fallback",
        )
    yield from (apart(delta) for delta in deltas if not delta.passed)
    noticeable = [delta for delta in deltas if delta.passed and delta.percent > _SMALL_PERCENT]
    if noticeable and all(delta.passed for delta in deltas):
        both = ", ".join(
            f"{delta.metric} {delta.percent:.2g}% apart (at most {number(delta.limit)}%)"
            for delta in noticeable
        )
        yield Shortfall(
            message=f"found {verdict}; expected TEST PASS. The fallback passes: {both}",
            found=noticeable[0].percent,
            required=noticeable[0].limit,
            case="by the fallback",
        )


_SMALL_PERCENT = 0.1
"""Accuracies nearer than this are what one expects of answers that differ in a few bits."""


def write(evidence: Evidence, passed: bool) -> dict[str, str]:
    """verify_accuracy.txt, from the comparison of the answers."""
    found = evidence.answers
    if found is None:
        return {}
    return {
        "verify_accuracy.txt": "Verifying accuracy.\n"
        f"num_acc_log_entries = {found.reference_records}\n"
        f"num_acc_log_duplicate_keys = {found.reference_duplicates}\n"
        f"num_acc_log_data_mismatch = {found.reference_contradictions}\n"
        f"num_perf_log_entries = {found.test_records}\n"
        f"num_perf_log_qsl_idx_match = {found.compared}\n"
        f"num_perf_log_data_mismatch = {found.mismatched}\n"
        f"num_missing_qsl_idxs = {found.missing}\n" + verdict_line(bool(found.passed))
    }


TEST = Test(
    text="verify_performance.txt",
    speed=True,
    full_run=True,
    read=read,
    judge=judge,
    undecided=undecided,
    stated=stated,
    write=write,
)
