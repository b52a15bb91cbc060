"""ROUGE of generated summaries and answers, computed by rouge-score.

Records of LLM benchmarks hold token ids (int32 or int64): they need the model's tokeniser, given
as ``decode``. Logs of decoded text (UTF-8) need none. As the rounds do, each text is split into
sentences by newlines for ROUGE-Lsum, words are stemmed, and F-measures are averaged, in percent.

Source: official scorers of GPT-J, Llama 2 and 3.1 (v3.1 on).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from checker.accuracy.log import Progress, Record, read_samples
from checker.accuracy.problem import AccuracyError, Problems
from checker.accuracy.score import LogScore
from checker.accuracy.tokenizer import Decode

KINDS: Final = ("rouge1", "rouge2", "rougeL", "rougeLsum")
MAX_TEXT: Final = 1 << 18
_MAX_TOKEN: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class RougeScore(LogScore):
    """Mean F-measures in percent; ``gen_len`` characters in all; tokens as logged.

    ``tokens_per_sample`` is None where the log holds text; ``dtype`` is ``text``, ``int32`` or
    ``int64``.
    """

    rouge1: float
    rouge2: float
    rouge_l: float
    rouge_lsum: float
    gen_len: int
    samples: int
    tokens_per_sample: float | None = None
    dtype: str = "text"

    @property
    def count(self) -> int | None:
        return self.samples

    def line(self) -> str:
        """The line that rounds expect in accuracy.txt."""
        tokens = (
            ""
            if self.tokens_per_sample is None
            else f", 'tokens_per_sample': {self.tokens_per_sample:.1f}"
        )
        return (
            f"{{'rouge1': {self.rouge1:.4f}, 'rouge2': {self.rouge2:.4f}, "
            f"'rougeL': {self.rouge_l:.4f}, 'rougeLsum': {self.rouge_lsum:.4f}, "
            f"'gen_len': {self.gen_len}, 'gen_num': {self.samples}{tokens}}}"
        )


def open_library() -> Any:
    """The module rouge_score.rouge_scorer. Raises ``AccuracyError`` where it is not installed."""
    try:
        return importlib.import_module("rouge_score.rouge_scorer")
    except ImportError as error:
        raise AccuracyError(
            f"found no library for ROUGE ({error}); expected rouge-score: pip install "
            '"assay[accuracy]".'
        ) from error


def score_texts(predictions: Sequence[str], references: Sequence[str]) -> RougeScore:
    """ROUGE of texts against one reference each.

    Raises ``AccuracyError`` when the counts differ, nothing is given, or rouge-score is missing.
    """
    if len(predictions) != len(references) or not references:
        raise AccuracyError(
            f"{len(predictions)} predictions for {len(references)} references: one of each is "
            "needed"
        )
    rouge = open_library().RougeScorer(list(KINDS), use_stemmer=True)
    sums = dict.fromkeys(KINDS, 0.0)
    length = 0
    for prediction, reference in zip(predictions, references, strict=True):
        length += len(prediction)
        for kind, value in rouge.score(reference, prediction).items():
            sums[kind] += value.fmeasure
    means = [100.0 * sums[kind] / len(references) for kind in KINDS]
    return RougeScore(
        rouge1=means[0],
        rouge2=means[1],
        rouge_l=means[2],
        rouge_lsum=means[3],
        gen_len=length,
        samples=len(references),
    )


def token_width(data: Sequence[bytes]) -> str:
    """``int64`` or ``int32``: which of the two makes all (or most) values token ids."""
    fits = {"int64": 0, "int32": 0}
    for piece in data:
        for name in fits:
            item = np.dtype(name).itemsize
            if len(piece) % item == 0:
                values = tokens(piece, name)
                fits[name] += bool(((values >= -1) & (values < _MAX_TOKEN)).all())
    return "int64" if fits["int64"] >= fits["int32"] else "int32"


def tokens(data: bytes, dtype: str) -> npt.NDArray[np.int64]:
    """Token ids of a record's data (little-endian), a trailing part dropped."""
    kind = np.dtype(dtype).newbyteorder("<")
    return np.frombuffer(data, kind, len(data) // kind.itemsize).astype(np.int64)


def score_log(
    source: str | Path | BinaryIO,
    references: Sequence[str],
    *,
    decode: Decode | None = None,
    sha256: bool = False,
    progress: Progress | None = None,
) -> RougeScore:
    """ROUGE of an accuracy log; ``references[qsl_idx]`` is the expected text.

    With ``decode`` records are token ids, without it UTF-8 text. Raises ``AccuracyError`` when
    the log is not a file or holds no answer, or rouge-score is missing.
    """
    samples = read_samples(source, expected=len(references), progress=progress, sha256=sha256)
    problems = Problems()
    raw: dict[int, bytes] = {}
    for record in samples:
        raw[record.qsl_idx] = _cut(record, problems)
    if not raw:
        raise AccuracyError("the log holds no answer to any of the references")
    order = sorted(raw)
    count: int | None = None
    dtype = "text"
    texts = []
    if decode is None:
        for index in order:
            try:
                texts.append(raw[index].decode("utf-8"))
            except UnicodeDecodeError:
                problems.add("not-utf-8", "an answer is not UTF-8 text: token ids?", index=index)
                texts.append(raw[index].decode("utf-8", "replace"))
    else:
        dtype = token_width([raw[index] for index in order[:1000]])
        count = 0
        for index in order:
            ids = tokens(raw[index], dtype)
            count += len(ids)
            texts.append(decode(ids.tolist()))
    score = score_texts(texts, [references[index] for index in order])
    tokens_each = None if count is None else count / len(order)
    return replace(score, tokens_per_sample=tokens_each, dtype=dtype).read_from(samples, problems)


def _cut(record: Record, problems: Problems) -> bytes:
    if len(record.data) <= MAX_TEXT:
        return record.data
    problems.add(
        "long-answer",
        f"an answer of {len(record.data)} bytes was cut to {MAX_TEXT}",
        index=record.qsl_idx,
    )
    return record.data[:MAX_TEXT]
