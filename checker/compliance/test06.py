"""TEST06: are first tokens, ends and lengths of an LLM's answers what was reported?

Source: the round's compliance test TEST06; LoadGen's ``token_count`` and ``token_data``.
"""

from __future__ import annotations

from collections.abc import Iterator

from checker.accuracy.log import Progress
from checker.compliance import tokens
from checker.compliance.evidence import Evidence, Shortfall, Source, Test
from checker.compliance.test01 import no_answers
from checker.parse.verify import Verification

_LINES = (
    ("first token", "First token check", ("true", "skipped")),
    ("eos", "EOS check", ("true",)),
    ("sample length", "Sample length check", ("true",)),
)


def read(evidence: Evidence, main: Source | None, test: Source, progress: Progress | None) -> None:
    """Read the token records of the test's log. Raises AccuracyError, OSError."""
    ends = tokens.end_tokens(evidence.benchmark)
    evidence.tokens = tokens.read_tokens(test, ends=ends, progress=progress)


def judge(evidence: Evidence) -> Iterator[Shortfall]:
    """Answers whose first token, end or length is wrong."""
    found = evidence.tokens
    if found is None:
        return
    if not found.records and not found.truncated:
        yield no_answers()
    for count, samples, what in (
        (
            found.first_failures,
            found.first_differs,
            "begin with another token than the one reported first",
        ),
        (found.length_failures, found.length_differs, "do not have as many tokens as were counted"),
        (found.end_failures, found.end_repeated, "repeat their end-of-sequence token"),
    ):
        if count:
            shown = ", ".join(str(s) for s in samples[:5])
            yield Shortfall(
                message=f"{count:,} of {found.records:,} answers {what} (samples {shown}); expected none",
                found=count,
                required=0,
            )


def undecided(evidence: Evidence) -> str | None:
    """Without token records, or with a cut log that shows no failure."""
    found = evidence.tokens
    if found is None:
        return "the test's accuracy log is missing: its answers were not read"
    if found.truncated:
        return f"the log is cut in the middle: {found.records:,} answers were read"
    return None


def stated(text: Verification, evidence: Evidence) -> Iterator[Shortfall]:
    """The three lines of verify_accuracy.txt."""
    for name, label, accepted in _LINES:
        state, line = text.checks.get(name, (None, None))
        if state not in accepted:
            wanted = " or ".join(a.capitalize() for a in accepted)
            shown = f'"{label} pass: {state.capitalize()}"' if state else f"no line {label} pass"
            yield Shortfall(
                message=f'found {shown}; expected "{label} pass: {wanted}"',
                found=state,
                required=wanted,
                line=line,
            )


def write(evidence: Evidence, passed: bool) -> dict[str, str]:
    """verify_accuracy.txt, from the token records."""
    found = evidence.tokens
    if found is None or (not found.records and not found.truncated):
        return {}
    first = "Skipped" if not found.first_checked else str(not found.first_failures)
    return {
        "verify_accuracy.txt": f"First token check pass: {first}\n"
        f"EOS check pass: {not found.end_failures}\n"
        f"Sample length check pass: {not found.length_failures}\n"
        "TEST06 verification complete\n"
    }


TEST = Test(read=read, judge=judge, undecided=undecided, stated=stated, write=write)
"""Its text has three lines in place of a verdict."""
