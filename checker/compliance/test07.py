"""TEST07: is the accuracy of the answers given in performance mode high enough?

Source: the round's compliance test TEST07: threshold and number of samples of its audit.config.
"""

from __future__ import annotations

from collections.abc import Iterator

from checker.compliance import test06
from checker.compliance.evidence import Evidence, Shortfall, Test, failed_checks, verdict_line
from checker.compliance.test01 import no_answers
from checker.parse.verify import Verification
from checker.wording import number


def too_few_samples(evidence: Evidence) -> Iterator[Shortfall]:
    """Samples that were never asked: drawn with replacement, some come twice and some not at all."""
    found, wanted = evidence.whole_tokens, evidence.setting("min_query_count")
    if found is None or wanted is None or found.samples >= wanted:
        return
    yield Shortfall(
        message=f"found answers to {found.samples:,} different samples; expected {int(wanted):,}",
        found=found.samples,
        required=int(wanted),
    )


def too_few_stated(text: Verification, evidence: Evidence) -> Iterator[Shortfall]:
    """A text about fewer samples than the test has."""
    count, wanted = text.values.get("total samples"), evidence.setting("min_query_count")
    if count is not None and wanted is not None and count < wanted:
        yield Shortfall(
            message=f"found a text about {number(count)} samples; expected {int(wanted):,}",
            found=count,
            required=int(wanted),
            line=text.value_lines.get("total samples"),
            case="stated",
        )


def judge(evidence: Evidence) -> Iterator[Shortfall]:
    """Too few samples, or an accuracy below the threshold."""
    found = evidence.tokens
    if found is not None and not found.records and not found.truncated:
        yield no_answers()
    else:
        yield from too_few_samples(evidence)
    needed = evidence.setting("test07_accuracy_threshold")
    if evidence.score is not None and needed is not None and not evidence.score >= needed:
        yield _below(evidence.score, needed)


def _below(score: float, needed: float, line: int | None = None) -> Shortfall:
    return Shortfall(
        message=f"the accuracy in performance mode is {number(score)}; expected at least "
        f"{number(needed)}",
        found=score,
        required=needed,
        line=line,
    )


def undecided(evidence: Evidence) -> str | None:
    """Without the accuracy of the test's answers."""
    return "the accuracy of the test's answers is not stated" if evidence.score is None else None


def stated(text: Verification, evidence: Evidence) -> Iterator[Shortfall]:
    """The text's accuracy and threshold against the round's threshold."""
    yield from failed_checks(text)
    needed = evidence.setting("test07_accuracy_threshold")
    score, limit = text.values.get("accuracy score"), text.values.get("accuracy threshold")
    if needed is None:
        return
    if score is None and text.passes:
        yield Shortfall(
            message=f"found TEST PASS and no accuracy score; expected at least {number(needed)}",
            required=needed,
            case="not stated",
        )
    elif score is not None and not score >= needed:
        yield _below(score, needed, text.value_lines.get("accuracy score"))
    if limit is not None and limit < needed - 1e-9:
        yield Shortfall(
            message=f"found a threshold of {number(limit)}; expected the round's {number(needed)}",
            found=limit,
            required=needed,
            line=text.value_lines.get("accuracy threshold"),
        )


def write(evidence: Evidence, passed: bool) -> dict[str, str]:
    """verify_accuracy.txt, where the accuracy is known."""
    score, needed = evidence.score, evidence.setting("test07_accuracy_threshold") or 0.0
    if score is None:
        return {}
    return {
        "verify_accuracy.txt": "TEST07 Verification Summary\n"
        f"Accuracy score: {score:g}\nAccuracy threshold: {needed:g}\n"
        f"Accuracy check pass: {score >= needed}\n" + verdict_line(passed)
    }


TEST = Test(
    text="verify_accuracy.txt",
    read=test06.read,
    judge=judge,
    undecided=undecided,
    stated=stated,
    write=write,
)
