"""Exact match of generated token ids: an answer is right where every token is the reference's.

For data whose answers are settled by their prompts, such as the embedded stories. Benchmarks whose
exact match needs a grader (code, mathematics) are not scored here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from checker.accuracy.log import Progress, read_samples
from checker.accuracy.problem import AccuracyError, Problems
from checker.accuracy.score import LogScore


@dataclass(frozen=True, slots=True)
class ExactScore(LogScore):
    """Right answers in percent, and the tokens of an answer in the mean; tokens as logged."""

    exact_match: float
    tokens_per_sample: float
    samples: int

    @property
    def count(self) -> int | None:
        return self.samples

    def line(self) -> str:
        """The line that rounds expect in accuracy.txt."""
        return (
            f"{{'exact_match': {self.exact_match:.4f}, 'tokens_per_sample': "
            f"{self.tokens_per_sample:.4f}, 'num-samples': {self.samples}}}"
        )


def score_log(
    source: str | Path | BinaryIO,
    references: Sequence[Sequence[int]],
    *,
    sha256: bool = False,
    progress: Progress | None = None,
) -> ExactScore:
    """Exact match of an accuracy log of int32 token ids.

    ``references[qsl_idx]`` are the right answer's tokens, its end mark included. Raises
    ``AccuracyError`` when the log is not a file or holds no answer.
    """
    samples = read_samples(source, expected=len(references), progress=progress, sha256=sha256)
    problems = Problems()
    right = tokens = count = 0
    for record in samples:
        if len(record.data) % 4:
            problems.add(
                "not-int32",
                f"an answer of {len(record.data)} bytes is not a list of int32 tokens",
                index=record.qsl_idx,
            )
        found = np.frombuffer(record.data, "<i4", len(record.data) // 4).tolist()
        count += 1
        tokens += len(found)
        right += found == list(references[record.qsl_idx])
    if not count:
        raise AccuracyError("the log holds no answer to any of the references")
    return ExactScore(
        100.0 * right / count,
        tokens / count,
        count,
    ).read_from(samples, problems)
