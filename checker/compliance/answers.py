"""TEST01 and TEST08: are the answers of the test run those of the accuracy run?

Both logs are streamed and only a digest of each answer is kept, so a log of many GB is compared
in little memory. Published logs are cut in the middle: then only the answers that both logs still
show are compared, and the result says how many those were.

Source: the round's compliance tests TEST01 and TEST08; LoadGen's ``mlperf_log_accuracy.json``.
"""

from __future__ import annotations

import array
import hashlib
import sys
from collections import Counter
from pathlib import Path
from typing import BinaryIO

import msgspec

from checker.accuracy.log import LogReader, Progress
from checker.accuracy.problem import Problem

_SHOWN = 10


class Comparison(msgspec.Struct):
    """The answers of a test run against those of the accuracy run.

    reference_records, test_records: records read from each log; reference_duplicates: records of
    the accuracy run for a sample that already had one; reference_contradictions: those of them
    with another answer, for the samples of the test; duplicates and contradictions: the
    same inside the test's log; compared: test records whose sample the accuracy log still shows;
    mismatched: those of them with another answer; missing: test records whose sample the accuracy
    log does not have (0 while that log is cut: then nobody knows); samples: the first mismatched
    samples. problems, reference_problems: what was wrong with the text of each log.
    """

    reference_records: int = 0
    reference_duplicates: int = 0
    reference_contradictions: int = 0
    test_records: int = 0
    duplicates: int = 0
    contradictions: int = 0
    compared: int = 0
    mismatched: int = 0
    missing: int = 0
    reference_truncated: bool = False
    test_truncated: bool = False
    samples: list[int] = []
    problems: list[Problem] = []
    reference_problems: list[Problem] = []

    @property
    def whole(self) -> bool:
        """Whether both logs are complete, so that the comparison is the test's own."""
        return not (self.reference_truncated or self.test_truncated)

    @property
    def passed(self) -> bool | None:
        """The verdict as far as the records carry it; None when nothing could be compared."""
        if self.mismatched or self.missing or self.reference_contradictions:
            return False
        if not self.compared:
            return False if self.whole else None
        return True

    def describe(self) -> str:
        """How much was compared, in one sentence."""
        text = f"{self.compared} of {self.test_records} answers of the test run were compared"
        if not self.whole:
            cut = (
                "both logs are"
                if self.reference_truncated and self.test_truncated
                else ("the accuracy log is" if self.reference_truncated else "the test's log is")
            )
            text += f" ({cut} cut in the middle)"
        return text


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def verify_accuracy(
    main_accuracy_log: str | Path | BinaryIO,
    test_accuracy_log: str | Path | BinaryIO,
    *,
    progress: Progress | None = None,
) -> Comparison:
    """Compare the answers of a test's performance run with those of the accuracy run (TEST01).

    Raises ``AccuracyError`` when one of the paths is not a regular file, ``OSError`` when it cannot
    be read.
    """
    return _compare(main_accuracy_log, test_accuracy_log, None, progress)


def verify_values(
    main_accuracy_log: str | Path | BinaryIO,
    test_accuracy_log: str | Path | BinaryIO,
    *,
    tolerance: float = 0.001,
    progress: Progress | None = None,
) -> Comparison:
    """The same for answers that are float32 values: equal within a relative tolerance (TEST08).

    The round's TEST08 compares a normalized entropy, for which labels are needed; here the values
    that entropy is computed from are compared, each within the same tolerance, which is stricter.
    """
    return _compare(main_accuracy_log, test_accuracy_log, tolerance, progress)


def _compare(
    main: str | Path | BinaryIO,
    test: str | Path | BinaryIO,
    tolerance: float | None,
    progress: Progress | None,
) -> Comparison:
    result = Comparison()
    # What the test's run answered: sample -> answer (or its digest) -> how often.
    asked: dict[int, Counter[bytes]] = {}
    reader = LogReader(test, progress=progress)
    for record in reader:
        result.test_records += 1
        answer = record.data if tolerance is not None else _digest(record.data)
        known = asked.get(record.qsl_idx)
        if known is None:
            asked[record.qsl_idx] = Counter((answer,))
            continue
        result.duplicates += 1
        if answer not in known:
            result.contradictions += 1
        known[answer] += 1
    result.test_truncated = reader.truncated
    result.problems = reader.problems
    # What the accuracy run answered, kept for those samples only.
    seen: set[int] = set()
    found: dict[int, bytes] = {}
    reader = LogReader(main, progress=progress)
    for record in reader:
        result.reference_records += 1
        index = record.qsl_idx
        if index in seen:
            result.reference_duplicates += 1
        seen.add(index)
        if index not in asked:
            continue
        answer = record.data if tolerance is not None else _digest(record.data)
        before = found.setdefault(index, answer)
        if before != answer:
            result.reference_contradictions += 1
    result.reference_truncated = reader.truncated
    result.reference_problems = reader.problems
    for index, answers in asked.items():
        reference = found.get(index)
        count = sum(answers.values())
        if reference is None:
            if not result.reference_truncated:
                result.missing += count
            continue
        result.compared += count
        wrong = sum(n for a, n in answers.items() if not _equal(reference, a, tolerance))
        if wrong:
            result.mismatched += wrong
            if len(result.samples) < _SHOWN:
                result.samples.append(index)
    return result


def _equal(reference: bytes, answer: bytes, tolerance: float | None) -> bool:
    if reference == answer:
        return True
    if tolerance is None or len(reference) != len(answer) or len(reference) % 4:
        return False
    left, right = array.array("f"), array.array("f")
    left.frombytes(reference)
    right.frombytes(answer)
    if sys.byteorder == "big":
        left.byteswap()
        right.byteswap()
    return all(abs(a - b) <= tolerance * abs(a) for a, b in zip(left, right, strict=True))
