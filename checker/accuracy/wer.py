"""Word error rate of speech recognition (RNN-T, Whisper).

A record holds the transcript as numbers, each the place of a character in the benchmark's
alphabet. WER is the number of words to insert, delete or substitute over the number of words
spoken; the rounds gate its complement, ``accuracy`` = 100 - WER.

Source: the official scorers of RNN-T (v0.7 to v4.0) and Whisper (v5.1 on).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from checker.accuracy.log import Progress, read_samples
from checker.accuracy.problem import AccuracyError, Problems
from checker.accuracy.score import LogScore

RNNT_ALPHABET: Final = " abcdefghijklmnopqrstuvwxyz'"
WHISPER_ALPHABET: Final = " abcdefghijklmnopqrstuvwxyz'0123456789$%+-"
MAX_WORDS: Final = 10_000
"""Words of one transcript that are compared; each further one counts as an error."""


@dataclass(frozen=True, slots=True)
class WerScore(LogScore):
    """Word error rate and its complement in percent; ``errors`` and ``words`` are counts."""

    wer: float
    accuracy: float
    errors: int
    words: int
    utterances: int
    dtype: str = "text"

    @property
    def count(self) -> int | None:
        return self.utterances

    def line(self) -> str:
        """The line that rounds expect in accuracy.txt."""
        return f"Word Error Rate: {self.wer}%, accuracy={self.accuracy}%"


def word_errors(hypothesis: Sequence[str], reference: Sequence[str]) -> int:
    """Least number of words to insert, delete or substitute (Levenshtein's distance)."""
    extra = max(0, len(hypothesis) - MAX_WORDS) + max(0, len(reference) - MAX_WORDS)
    codes: dict[str, int] = {}
    one = np.array([codes.setdefault(w, len(codes)) for w in hypothesis[:MAX_WORDS]], np.int64)
    two = np.array([codes.setdefault(w, len(codes)) for w in reference[:MAX_WORDS]], np.int64)
    steps = np.arange(len(two) + 1)
    row = steps.copy()
    for code in one:
        fresh = row + 1
        np.minimum(fresh[1:], row[:-1] + (two != code), out=fresh[1:])
        row = np.minimum.accumulate(fresh - steps) + steps
    return int(row[-1]) + extra


def score_texts(
    predictions: Sequence[str],
    references: Sequence[str],
    *,
    normalise: Callable[[str], str] = str.lower,
) -> WerScore:
    """WER of transcripts against references of equal number, both put through ``normalise``.

    Raises ``AccuracyError`` when the counts differ or no word was spoken.
    """
    if len(predictions) != len(references):
        raise AccuracyError(
            f"{len(predictions)} predictions for {len(references)} references: one of each is "
            "needed"
        )
    errors = words = 0
    for prediction, reference in zip(predictions, references, strict=True):
        spoken = normalise(reference).split()
        words += len(spoken)
        errors += word_errors(normalise(prediction).split(), spoken)
    if not words:
        raise AccuracyError("the references have no word")
    wer = 100.0 * errors / words
    return WerScore(
        wer=wer, accuracy=100.0 - wer, errors=errors, words=words, utterances=len(references)
    )


def read_transcripts(path: str | Path) -> list[str]:
    """References in the data set's order: one a line, or a JSON manifest.

    A manifest is a list of objects with ``transcript`` or ``text``. Raises ``AccuracyError``
    when the file cannot be read or is empty.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".json":
            entries = json.loads(text)
            found = [str(e["transcript"] if "transcript" in e else e["text"]) for e in entries]
        else:
            found = text.splitlines()
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise AccuracyError(f"{path}: no transcripts ({error!r})") from error
    if not found:
        raise AccuracyError(f"{path}: no transcripts")
    return found


def score_log(
    source: str | Path | BinaryIO,
    references: Sequence[str],
    *,
    alphabet: str = RNNT_ALPHABET,
    normalise: Callable[[str], str] = str.lower,
    sha256: bool = False,
    progress: Progress | None = None,
) -> WerScore:
    """WER of an accuracy log; ``references[qsl_idx]`` is what was said.

    The width of a character number (int64, int32, int16, int8) is the widest that fits all
    records. Raises ``AccuracyError`` as ``score_texts`` does, or when the log is not a file.
    """
    samples = read_samples(source, expected=len(references), progress=progress, sha256=sha256)
    problems = Problems()
    answers: dict[int, bytes] = {}
    for record in samples:
        data = record.data
        if len(data) > 8 << 16:
            problems.add("long-answer", f"{len(data)} bytes were cut", index=record.qsl_idx)
            data = data[: 8 << 16]
        answers[record.qsl_idx] = data
    dtype = _width(answers.values(), len(alphabet))
    texts = []
    order = sorted(answers)
    for index in order:
        data = answers[index]
        numbers = np.frombuffer(data, dtype, len(data) // np.dtype(dtype).itemsize)
        fits = (numbers >= 0) & (numbers < len(alphabet))
        if not fits.all() or len(data) % np.dtype(dtype).itemsize:
            problems.add(
                "not-a-character",
                "a number is not an index into the alphabet; dropped",
                index=index,
            )
        texts.append("".join(alphabet[at] for at in numbers[fits].tolist()))
    if not order:
        raise AccuracyError("the log holds no answer to any of the references")
    score = score_texts(texts, [references[at] for at in order], normalise=normalise)
    return replace(score, dtype=np.dtype(dtype).name).read_from(samples, problems)


def _width(answers: Iterable[bytes], size: int) -> str:
    best, most = "<i8", -1
    blobs = [data for data in answers if data]
    for dtype in ("<i8", "<i4", "<i2", "i1"):
        item = np.dtype(dtype).itemsize
        fitting = 0
        for data in blobs:
            if len(data) % item:
                continue
            numbers = np.frombuffer(data, dtype)
            fitting += bool(((numbers >= 0) & (numbers < size)).all())
        if fitting > most:
            best, most = dtype, fitting
    return best


def whisper_normaliser() -> Callable[[str], str]:
    """The English text normaliser that Whisper's gate is defined with.

    Raises ``AccuracyError`` when neither openai-whisper nor whisper-normalizer is installed.
    """
    import importlib

    for module in ("whisper_normalizer.english", "whisper.normalizers"):
        try:
            found = importlib.import_module(module)
        except ImportError:
            continue
        normaliser: Callable[[str], str] = found.EnglishTextNormalizer()
        return normaliser
    raise AccuracyError(
        "Whisper's score needs its English text normaliser: pip install whisper-normalizer"
    )
