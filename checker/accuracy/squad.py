"""F1 and exact match of question answering (SQuAD v1.1; BERT).

Records hold either the answers as UTF-8 text, or the logits: float32 (or float16) pairs (start,
end), one a token, padded or not; ``transposed`` logs hold all starts, then all ends. Logits need
a features file to become answers: JSON, one object a line, in the order of qsl_idx::

    {"id": "56be4db0acb8001400a502ec", "offsets": [null, null, [0, 5], ...], "context_max": [...]}

``id`` is the question's id in the data set; ``offsets`` gives for each token the characters
[begin, end) of the context it covers, or null for tokens that are not context (question, marks,
padding); ``context_max`` (optional) is true where this window is the token's best (with the most
context around it). Any tokeniser that reports offsets gives them.

The answer is the best-scored span of at most 30 tokens among the 20 best starts and ends of all
windows of a question, cut out of the context by character. The official scorer finds the same
span and then searches its text in the original words; answers can differ at a word's edge, which
SQuAD's normalisation (articles, punctuation, case) nearly always evens out.

Source: SQuAD v1.1's evaluation, official BERT scorer of MLPerf Inference (v0.7 on).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from checker.accuracy.log import Progress, read_samples
from checker.accuracy.problem import AccuracyError, Problems
from checker.accuracy.score import LogScore

BEST: Final = 20
MAX_ANSWER: Final = 30
MAX_TEXT: Final = 1 << 16

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class _Answer(msgspec.Struct):
    text: str


class _Question(msgspec.Struct):
    id: str
    answers: list[_Answer]
    question: str = ""


class _Paragraph(msgspec.Struct):
    context: str
    qas: list[_Question]


class _Article(msgspec.Struct):
    paragraphs: list[_Paragraph]


class _File(msgspec.Struct):
    data: list[_Article]


class _Feature(msgspec.Struct):
    id: str
    offsets: list[tuple[int, int] | None]
    context_max: list[bool] | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question of the data set: its id, its context and the answers that count as right."""

    id: str
    context: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Feature:
    """One window of a question as the model saw it.

    ``offsets`` has shape (tokens, 2), -1 where a token is not of the context; ``usable`` says
    where a span may begin.
    """

    id: str
    offsets: npt.NDArray[np.int32]
    usable: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SquadScore(LogScore):
    """F1 and exact match in percent over all questions of the data set."""

    f1: float
    exact_match: float
    questions: int
    answered: int

    @property
    def count(self) -> int | None:
        return None

    def line(self) -> str:
        """The line that rounds expect in accuracy.txt."""
        return f'{{"exact_match": {self.exact_match}, "f1": {self.f1}}}'


def read_dataset(path: str | Path) -> list[Question]:
    """Questions of a SQuAD v1.1 file (``dev-v1.1.json``) in the file's order.

    Raises ``AccuracyError`` when it cannot be read as one.
    """
    try:
        parsed = msgspec.json.decode(Path(path).read_bytes(), type=_File)
    except (OSError, ValueError, RecursionError) as error:
        raise AccuracyError(f"{path}: no SQuAD v1.1 file ({error})") from error
    return [
        Question(question.id, paragraph.context, tuple(a.text for a in question.answers))
        for article in parsed.data
        for paragraph in article.paragraphs
        for question in paragraph.qas
    ]


def read_features(path: str | Path) -> list[Feature]:
    """Windows of a features file (see the module) in the order of qsl_idx.

    Raises ``AccuracyError`` for a line of another form.
    """
    decoder = msgspec.json.Decoder(_Feature)
    found = []
    number = 0
    try:
        with open(path, "rb") as lines:
            for line in lines:
                number += 1
                if not line.strip():
                    continue
                raw = decoder.decode(line)
                offsets = np.array([pair or (-1, -1) for pair in raw.offsets], np.int32)
                offsets = offsets.reshape(-1, 2)
                usable = offsets[:, 0] >= 0
                if raw.context_max is not None:
                    best = np.zeros(len(usable), np.bool_)
                    best[: len(raw.context_max)] = raw.context_max[: len(usable)]
                    usable &= best
                found.append(Feature(raw.id, offsets, usable))
    except (OSError, ValueError, OverflowError, RecursionError) as error:
        raise AccuracyError(f"{path}:{number}: no feature ({error})") from error
    if not found:
        raise AccuracyError(f"{path}: no features")
    return found


def normalise(text: str) -> str:
    """SQuAD's form of an answer: lower case, no punctuation, no articles, single blanks."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def answer_f1(prediction: str, truth: str) -> float:
    """F1 (0 to 1) of the words two answers share."""
    mine, theirs = normalise(prediction).split(), normalise(truth).split()
    same = sum((Counter(mine) & Counter(theirs)).values())
    return 2.0 * same / (len(mine) + len(theirs)) if same else 0.0


def score_answers(predictions: Mapping[str, str], questions: Sequence[Question]) -> SquadScore:
    """F1 and exact match of answers by question id; a question without answer counts as 0.

    Raises ``AccuracyError`` when there is no question.
    """
    if not questions:
        raise AccuracyError("the data set has no questions")
    f1 = exact = 0.0
    answered = 0
    for question in questions:
        prediction = predictions.get(question.id)
        if prediction is None:
            continue
        answered += 1
        f1 += max((answer_f1(prediction, truth) for truth in question.answers), default=0.0)
        form = normalise(prediction)
        exact += any(form == normalise(truth) for truth in question.answers)
    total = len(questions)
    return SquadScore(
        100.0 * f1 / total, 100.0 * exact / total, total, answered, missing=total - answered
    )


def score_log(
    source: str | Path | BinaryIO,
    questions: Sequence[Question],
    features: Sequence[Feature] | None = None,
    *,
    dtype: Literal["float32", "float16"] = "float32",
    transposed: bool = False,
    sha256: bool = False,
    progress: Progress | None = None,
) -> SquadScore:
    """F1 and exact match of an accuracy log.

    Without ``features`` records are answers as text and qsl_idx is the question's place in the
    file; with them records are logits and qsl_idx is the feature's place. Raises
    ``AccuracyError`` when the log is not a file or the data set is empty.
    """
    if not questions:
        raise AccuracyError("the data set has no questions")
    problems = Problems()
    expected = len(questions) if features is None else len(features)
    samples = read_samples(source, expected=expected, progress=progress, sha256=sha256)
    answers: dict[str, str] = {}
    contexts = {question.id: question.context for question in questions}
    best: dict[str, tuple[float, int]] = {}
    item = np.dtype(dtype).itemsize
    for record in samples:
        index, data = record.qsl_idx, record.data
        if features is None:
            try:
                answers[questions[index].id] = data[:MAX_TEXT].decode("utf-8")
            except UnicodeDecodeError:
                problems.add("not-utf-8", "an answer is not UTF-8 text", index=index)
                answers[questions[index].id] = data[:MAX_TEXT].decode("utf-8", "replace")
            continue
        feature = features[index]
        tokens = len(data) // (2 * item)
        if len(data) % (2 * item) or tokens < _last(feature.usable):
            problems.add(
                "logits-size",
                f"{len(data)} bytes are {tokens} {dtype} pairs, the feature has "
                f"{len(feature.usable)} tokens",
                index=index,
            )
        values = np.frombuffer(data, dtype, 2 * tokens).astype(np.float64)
        pairs = values.reshape(2, -1) if transposed else values.reshape(-1, 2).T
        span = best_span(pairs[0], pairs[1], feature)
        before = best.get(feature.id)
        if span is None or feature.id not in contexts:
            answers.setdefault(feature.id, "empty")
            continue
        score, begin, end = span
        if before is None or (score, -index) > (before[0], -before[1]):
            best[feature.id] = (score, index)
            answers[feature.id] = contexts[feature.id][begin:end]
    result = score_answers(answers, questions)
    return result.read_from(samples, problems)


def _last(usable: npt.NDArray[np.bool_]) -> int:
    places = np.flatnonzero(usable)
    return int(places[-1]) + 1 if len(places) else 0


def best_span(
    starts: npt.NDArray[np.float64], ends: npt.NDArray[np.float64], feature: Feature
) -> tuple[float, int, int] | None:
    """Score and characters [begin, end) of the best answer in one window, or None."""
    size = min(len(starts), len(feature.usable))
    covered = feature.offsets[:, 0] >= 0

    def top(values: npt.NDArray[np.float64]) -> list[int]:
        safe = np.where(np.isfinite(values), values, -np.inf)
        order = np.argsort(-safe, kind="stable")[:BEST]
        return [int(at) for at in order]

    best: tuple[float, int, int] | None = None
    for start in top(starts):
        if start >= size or not feature.usable[start]:
            continue
        for end in top(ends):
            if not start <= end < min(size, start + MAX_ANSWER) or not covered[end]:
                continue
            score = float(starts[start] + ends[end])
            if np.isfinite(score) and (best is None or score > best[0]):
                begin, stop = int(feature.offsets[start, 0]), int(feature.offsets[end, 1])
                best = (score, begin, stop)
    return best
