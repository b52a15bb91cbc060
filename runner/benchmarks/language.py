"""What language benchmarks share: scores of logs that hold int32 token ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from runner.benchmarks.base import Score
from runner.datasets import Dataset
from runner.errors import InferenceError, RunFailed


def no_arrays(*_: Any) -> NoReturn:
    """Answers of a language model come as tokens, not as a graph's outputs."""
    raise InferenceError(
        "a language benchmark has no outputs of a graph; use a backend that streams."
    )


def score_exact(log: Path, dataset: Dataset) -> Score:
    """Exact match, in percent, of a data set whose `reference(index)` gives the right tokens.

    Raises:
        RunFailed: the log cannot be scored.
    """
    from checker.accuracy.exact import score_log
    from checker.accuracy.problem import AccuracyError

    known: Any = dataset
    try:
        result = score_log(log, [known.reference(index) for index in range(len(dataset))])
    except AccuracyError as error:
        raise RunFailed(f"{log}: the accuracy cannot be computed: {error}") from error
    return Score("exact_match", result.exact_match, result.line())
