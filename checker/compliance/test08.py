"""TEST08: are the values of a recommender's answers those of the accuracy run, within a tolerance?

The round compares a normalized entropy, for which labels are needed; here the values that it is
computed from are compared, each within the same tolerance, which is stricter.

Source: the round's compliance test TEST08.
"""

from __future__ import annotations

from collections.abc import Iterator

from checker.accuracy.log import Progress
from checker.compliance import answers, test01
from checker.compliance.evidence import Evidence, Shortfall, Source, Test, verdict_line
from checker.parse.verify import Verification
from checker.wording import number

_DEFAULT_PERCENT = 0.1


def _percent(evidence: Evidence) -> float:
    rules = evidence.round.compliance.get(evidence.test)
    return (rules.accuracy_delta_percent if rules is not None else None) or _DEFAULT_PERCENT


def read(evidence: Evidence, main: Source | None, test: Source, progress: Progress | None) -> None:
    """Compare the two accuracy logs, value by value. Raises AccuracyError, OSError."""
    if main is not None:
        evidence.answers = answers.verify_values(
            main, test, tolerance=_percent(evidence) / 100, progress=progress
        )


def stated(text: Verification, evidence: Evidence) -> Iterator[Shortfall]:
    """The counts and the tolerance of verify_accuracy.txt."""
    for key, what in (
        ("num_unmatched", "answers without a counterpart in the accuracy run"),
        ("num_ne_mismatch", "answers beyond the tolerance"),
    ):
        if count := text.counts.get(key):
            yield Shortfall(
                message=f"found {count:,} {what}; expected none",
                found=count,
                required=0,
                line=text.count_lines.get(key),
            )
    if text.counts.get("num_matched") == 0:
        yield Shortfall(
            message="found no answer compared (num_matched = 0); expected at least one "
            "(did LoadGen read audit.config?)",
            found=0,
            required="> 0",
            line=text.count_lines.get("num_matched"),
        )
    allowed, used = _percent(evidence), text.values.get("tolerance")
    if used is not None and used > allowed + 1e-9:
        yield Shortfall(
            message=f"found a tolerance of {number(used)}%; expected at most {number(allowed)}%",
            found=used,
            required=allowed,
            line=text.value_lines.get("tolerance"),
        )


def write(evidence: Evidence, passed: bool) -> dict[str, str]:
    """verify_accuracy.txt, from the comparison of the values."""
    found = evidence.answers
    if found is None:
        return {}
    return {
        "verify_accuracy.txt": "Verifying accuracy.\n"
        f"num_acc_log_entries = {found.reference_records}\n"
        f"num_perf_log_entries = {found.test_records}\n"
        f"num_matched = {found.compared}\n"
        f"num_unmatched = {found.missing}\n"
        f"num_ne_mismatch = {found.mismatched}\n"
        f"tolerance = {_percent(evidence):.2f}%\n"
        + verdict_line(bool(found.passed))
        + "TEST08 verification complete\n"
    }


TEST = Test(
    text="verify_accuracy.txt",
    read=read,
    judge=test01.judge,
    undecided=test01.undecided,
    stated=stated,
    write=write,
)
