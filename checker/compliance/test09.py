"""TEST09: are an LLM's answers in performance mode as long as the reference's?

Source: the round's compliance test TEST09: least and greatest mean output tokens of its audit.config.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from checker.compliance import test06
from checker.compliance.evidence import Evidence, Shortfall, Test, failed_checks, verdict_line
from checker.compliance.test01 import no_answers
from checker.parse.detail import DetailLog
from checker.parse.verify import Verification
from checker.wording import number

_AGREEMENT = 0.01
_MEAN = "mean output tokens"


def mean_output_tokens(detail: DetailLog) -> float | None:
    """Mean tokens of an answer from a run's token and sample throughput; None without them."""
    for tokens_key, samples_key in (
        ("result_tokens_per_second", "result_samples_per_second"),
        ("result_completed_tokens_per_second", "result_completed_samples_per_sec"),
    ):
        rate, samples = detail.number(tokens_key), detail.number(samples_key)
        if rate is not None and samples:
            return rate / samples
    return None


def mean(evidence: Evidence) -> float | None:
    """The mean length of the test's answers: counted, else from the run's throughputs."""
    found = evidence.whole_tokens
    if found is not None and found.records:
        return found.mean
    return mean_output_tokens(evidence.detail) if evidence.detail else None


def _limits(evidence: Evidence) -> tuple[float, float] | None:
    low, high = (evidence.setting(f"test09_{end}_output_tokens") for end in ("min", "max"))
    return None if low is None or high is None else (low, high)


def _outside(length: float, evidence: Evidence, line: int | None = None) -> Iterator[Shortfall]:
    limits = _limits(evidence)
    if limits is not None and not limits[0] <= length <= limits[1]:
        yield Shortfall(
            message=f"answers have {length:,.2f} tokens on average; expected {limits[0]:,.2f} to "
            f"{limits[1]:,.2f}",
            found=length,
            required=list(limits),
            line=line,
        )


def outside(evidence: Evidence) -> Iterator[Shortfall]:
    """A mean length, counted from the run's own logs, outside the limits."""
    length = mean(evidence)
    if length is not None:
        yield from _outside(length, evidence)


def judge(evidence: Evidence) -> Iterator[Shortfall]:
    """Too few answers, or a mean length outside the limits."""
    found, wanted = evidence.whole_tokens, evidence.setting("min_query_count") or 0
    if found is not None and not found.records:
        yield no_answers()
    elif found is not None and found.records < wanted:
        yield Shortfall(
            message=f"found {found.records:,} answers; expected {int(wanted):,}",
            found=found.records,
            required=int(wanted),
        )
    yield from outside(evidence)


def undecided(evidence: Evidence) -> str | None:
    """Without a length."""
    return "the length of the answers is not known" if mean(evidence) is None else None


def stated(text: Verification, evidence: Evidence) -> Iterator[Shortfall]:
    """The text's mean against the limits, and against the run's own logs."""
    yield from failed_checks(text)
    limits, length = _limits(evidence), text.values.get(_MEAN)
    line = text.value_lines.get(_MEAN)
    if limits is None:
        return
    if length is None:
        if text.passes:
            yield Shortfall(
                message=f"found TEST PASS and no mean of output tokens; expected {limits[0]:,.2f} to "
                f"{limits[1]:,.2f}",
                required=list(limits),
                case="not stated",
            )
        return
    yield from _outside(length, evidence, line)
    counted = mean(evidence)
    if counted is None or any(outside(evidence)) or not math.isfinite(counted):
        return
    if abs(length - counted) > _AGREEMENT * counted:
        yield Shortfall(
            message=f"found a stated mean of {number(length)} tokens; expected {counted:,.2f}, as the "
            "run's own log gives",
            found=length,
            required=counted,
            line=line,
            case="disagrees",
        )


def write(evidence: Evidence, passed: bool) -> dict[str, str]:
    """verify_output_len.txt, where the length is known."""
    length, limits = mean(evidence), _limits(evidence) or (0.0, math.inf)
    if length is None:
        return {}
    found = evidence.whole_tokens
    count = found.records if found is not None else int(evidence.setting("min_query_count") or 0)
    return {
        "verify_output_len.txt": "TEST09: Verify Output Token Length in Performance Mode\n"
        f"Total samples: {count}\nMean output tokens: {length:.2f}\n"
        f"Min threshold: {limits[0]:g}\nMax threshold: {limits[1]:g}\n"
        f"Min check pass: {length >= limits[0]}\nMax check pass: {length <= limits[1]}\n\n"
        + verdict_line(passed)
    }


TEST = Test(
    text="verify_output_len.txt",
    read=test06.read,
    judge=judge,
    undecided=undecided,
    stated=stated,
    write=write,
)
