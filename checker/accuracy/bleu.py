"""Corpus BLEU of machine translation, computed by sacrebleu.

GNMT's records are UTF-8 text, one sentence: without BPE marks, but tokenised and with escaped
entities (&quot;), to be compared with references in the same form on blanks alone
(``tokenize='none'``, ``smooth_method='none'``). For plain, detokenised text the tokeniser is
sacrebleu's default ``13a``. BLEU means nothing without that choice: the score carries it and
sacrebleu's signature.

Source: official GNMT scorer of v0.5 and v0.7, equal to six decimals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from checker.accuracy.log import Progress, read_samples
from checker.accuracy.problem import AccuracyError, Problems
from checker.accuracy.score import LogScore

Tokenize = Literal["auto", "none", "13a"]

MAX_SENTENCE = 1 << 16
"""Bytes of one answer that are read; a longer one is cut, and reported."""

_MARKS = ("&quot;", "&apos;", "&amp;", "&#91;", "&#93;", "@-@")
_ENDS = (" .", " ?", " !", " ;", " ...")


@dataclass(frozen=True, slots=True)
class BleuScore(LogScore):
    """Corpus BLEU (0 to 100), sentences scored, and how words were separated."""

    bleu: float
    sentences: int
    tokenize: str
    signature: str

    @property
    def count(self) -> int | None:
        return self.sentences

    def line(self) -> str:
        """The line that rounds expect in accuracy.txt."""
        return f"BLEU: {self.bleu:.3f}"


def read_references(path: str | Path) -> list[str]:
    """Reference sentences in the data set's order, one a line, BPE marks ("@@ ") joined.

    Raises ``AccuracyError`` when the file cannot be read or is empty.
    """
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise AccuracyError(f"{path}: cannot be read ({error})") from error
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise AccuracyError(f"{path}: no reference sentences")
    return [line.rstrip("\r").replace("@@ ", "") for line in lines]


def is_tokenised(references: Sequence[str]) -> bool:
    """Whether sentences are tokenised: punctuation set apart, entities escaped."""
    some = [text for text in references[:2000] if text.strip()]
    apart = sum(text.rstrip().endswith(_ENDS) for text in some)
    joined = sum(text.rstrip()[-1:] in (".", "?", "!", ";") for text in some)
    escaped = sum(any(mark in text for mark in _MARKS) for text in some)
    if joined:
        return apart > 0.5 * joined
    return escaped > 0.05 * len(some)


def score_texts(
    predictions: Sequence[str], references: Sequence[str], *, tokenize: Tokenize = "auto"
) -> BleuScore:
    """Corpus BLEU of sentences against one reference each.

    Raises ``AccuracyError`` when the counts differ, nothing is given, or sacrebleu is missing.
    """
    if len(predictions) != len(references) or not references:
        raise AccuracyError(
            f"{len(predictions)} predictions for {len(references)} references: one of each is "
            "needed"
        )
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError as error:
        raise AccuracyError(f"BLEU needs sacrebleu ({error}): pip install sacrebleu") from error
    if tokenize == "auto":
        tokenize = "none" if is_tokenised(references) else "13a"
    smooth = "none" if tokenize == "none" else "exp"
    metric = BLEU(tokenize=tokenize, smooth_method=smooth, force=True)
    result = metric.corpus_score(list(predictions), [list(references)])
    return BleuScore(float(result.score), len(references), tokenize, str(metric.get_signature()))


def score_log(
    source: str | Path | BinaryIO,
    references: Sequence[str],
    *,
    tokenize: Tokenize = "auto",
    sha256: bool = False,
    progress: Progress | None = None,
) -> BleuScore:
    """Corpus BLEU of an accuracy log; ``references[qsl_idx]`` is the sentence's translation.

    Sentences without a record are ``missing`` and not scored. Raises ``AccuracyError`` when the
    log is not a file, holds no sentence, there are no references, or sacrebleu is missing.
    """
    if not references:
        raise AccuracyError("no reference sentences")
    problems = Problems()
    samples = read_samples(source, expected=len(references), progress=progress, sha256=sha256)
    answers: dict[int, str] = {}
    for record in samples:
        data = record.data
        if len(data) > MAX_SENTENCE:
            problems.add(
                "long-answer",
                f"an answer of {len(data)} bytes was cut to {MAX_SENTENCE}",
                index=record.qsl_idx,
            )
            data = data[:MAX_SENTENCE]
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            problems.add("not-utf-8", "an answer is not UTF-8 text", index=record.qsl_idx)
            text = data.decode("utf-8", errors="replace")
        if "@@ " in text:
            problems.add("bpe", "an answer still has BPE marks (@@)", index=record.qsl_idx)
        answers[record.qsl_idx] = text.replace("\n", " ")
    if not answers:
        raise AccuracyError("the log holds no answer to any of the references")
    order = sorted(answers)
    score = score_texts(
        [answers[at] for at in order],
        [references[at] for at in order],
        tokenize=("none" if is_tokenised(references) else "13a")
        if tokenize == "auto"
        else tokenize,
    )
    return score.read_from(samples, problems)
