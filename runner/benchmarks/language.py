"""What language benchmarks share: scores of logs that hold int32 token ids."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, cast

from runner.benchmarks.base import Score
from runner.benchmarks.generation import Tokenizer
from runner.datasets import Dataset
from runner.datasets.prompts import TOKENIZER, Questions, Table
from runner.errors import DatasetError, InferenceError, RunFailed


def no_arrays(*_: Any) -> NoReturn:
    """Answers of a language model come as tokens, not as a graph's outputs."""
    raise InferenceError(
        "a language benchmark has no outputs of a graph; use a backend that streams."
    )


@contextlib.contextmanager
def _scoring(log: Path) -> Iterator[None]:
    """Turns what `checker.accuracy` raises into RunFailed."""
    from checker.accuracy.problem import AccuracyError

    try:
        yield
    except AccuracyError as error:
        raise RunFailed(f"{log}: the accuracy cannot be computed: {error}") from error


def score_exact(log: Path, dataset: Dataset) -> Score:
    """Exact match, in percent, of a data set whose `reference(index)` gives the right tokens.

    Raises:
        RunFailed: the log cannot be scored.
    """
    from checker.accuracy.exact import score_log

    known: Any = dataset
    with _scoring(log):
        result = score_log(log, [known.reference(index) for index in range(len(dataset))])
    others = {"TOKENS_PER_SAMPLE": result.tokens_per_sample}
    return Score("exact_match", result.exact_match, result.line(), others)


def tokenizer_beside(place: Path | None) -> Tokenizer | None:
    """The model's tokenizer beside the data; None where there is none.

    Raises:
        DatasetError: it cannot be read.
    """
    from runner.datasets.tokenizing import open_tokenizer

    path = place / TOKENIZER if place is not None else None
    return open_tokenizer(path) if path is not None and path.is_file() else None


def score_rouge(log: Path, dataset: Dataset) -> Score:
    """ROUGE of the answers' texts, as the official scripts compute it; tokens per sample are logged.

    Raises:
        RunFailed: the log cannot be scored.
        DatasetError: the model's tokenizer is absent.
    """
    from checker.accuracy.rouge import score_log
    from runner.datasets.tokenizing import open_decoder

    table = cast(Table, dataset)
    decode = open_decoder(table.place / TOKENIZER)
    with _scoring(log):
        result = score_log(log, table.references, decode=decode)
    others = {
        "ROUGE2": result.rouge2,
        "ROUGEL": result.rouge_l,
        "ROUGELSUM": result.rouge_lsum,
        "GEN_LEN": float(result.gen_len),
    }
    if result.tokens_per_sample is not None:
        others["TOKENS_PER_SAMPLE"] = result.tokens_per_sample
    return Score("ROUGE1", result.rouge1, result.line(), others)


def verify_rouge(dataset: Dataset) -> None:
    """Raises DatasetError where `score_rouge` would lack its library or the model's tokenizer."""
    from checker.accuracy.problem import AccuracyError
    from checker.accuracy.rouge import open_library
    from runner.datasets.tokenizing import open_decoder

    try:
        open_library()
    except AccuracyError as error:
        raise DatasetError(str(error)) from error
    open_decoder(cast(Table, dataset).place / TOKENIZER)


def verify_reasoning(dataset: Dataset) -> None:
    """Raises DatasetError where `score_reasoning` would lack the model's tokenizer or a right answer."""
    from runner.datasets.tokenizing import open_decoder

    table = cast(Questions, dataset)
    open_decoder(table.place / TOKENIZER)
    _ = table.questions


def score_reasoning(log: Path, dataset: Dataset, *, channels: bool) -> Score:
    """Exact match, in percent, of multiple choice, mathematics, numbers and code.

    Args:
        channels: whether answers come in GPT-OSS's channels, whose marks are special tokens.

    Raises:
        RunFailed: the log cannot be scored.
        DatasetError: the model's tokenizer, or a right answer, is absent.
    """
    from checker.accuracy.reasoning import score_log
    from runner.datasets.tokenizing import open_decoder

    table = cast(Questions, dataset)
    decode = open_decoder(table.place / TOKENIZER, special=channels)
    with _scoring(log):
        result = score_log(log, table.questions, decode=decode, grade_code=table.grade_code)
    others = {"TOKENS_PER_SAMPLE": result.tokens_per_sample}
    return Score(
        metric="exact_match",
        value=result.exact_match,
        line=result.line(),
        others=others,
        notes=tuple(result.notes),
    )
