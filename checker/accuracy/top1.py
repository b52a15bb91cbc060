"""Top-1 accuracy of image classification (ImageNet and the like).

A record holds the predicted class of one image, or several values of which the first counts, or
the float32 scores of all classes (with or without a background class), of which the best counts.
Submitters wrote it as int32, float32, int64, and as eight bytes whose upper half is whatever
stood in memory: the width is therefore chosen from the whole log and said. Models with a
background class answer one too high: with the ground truth at hand that is seen and said too.

Source: the official scorer takes the width by hand (``--dtype``); v0.5's published logs need
three different ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import numpy as np
import numpy.typing as npt

from checker.accuracy.log import Progress, read_samples
from checker.accuracy.problem import AccuracyError, Problems
from checker.accuracy.score import LogScore

Labels = Sequence[int] | npt.NDArray[Any]
SCORES: Final = "float32 class scores"
MIN_SCORES: Final = 10
"""Fewer classes than this: a record of as many floats is not taken for their scores."""

_MAX_VAL_MAP = 1 << 28


@dataclass(frozen=True, slots=True)
class Top1Score(LogScore):
    """Top-1 accuracy in percent of the samples answered, and how the log was understood.

    ``dtype`` is ``int32``, ``float32``, ``int64``, ``float64``, ``float32 class scores``, or
    ``int32 in 8 bytes`` and ``float32 in 8 bytes`` where only the lower half is an answer;
    ``offset`` was taken off every answer; ``missing`` samples have no record and
    are not in ``total``.
    """

    accuracy: float
    good: int
    total: int
    dtype: str
    offset: int

    @property
    def count(self) -> int | None:
        return self.total

    def line(self) -> str:
        """The line that rounds expect in accuracy.txt."""
        return f"accuracy={self.accuracy:.3f}%, good={self.good}, total={self.total}"


def iter_val_map(path: str | Path) -> Iterator[tuple[str, int]]:
    """Yield (file name, label) of an ImageNet ``val_map.txt``: one ``name label`` a line.

    Raises ``AccuracyError`` for a line that is not that, or a file over 256 MiB.
    """
    path = Path(path)
    try:
        if path.stat().st_size > _MAX_VAL_MAP:
            raise AccuracyError(f"{path}: too large for a val_map.txt")
        with path.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                words = line.split()
                if not words:
                    continue
                if len(words) < 2 or not words[-1].lstrip("-").isdecimal() or len(words[-1]) > 9:
                    raise AccuracyError(
                        f"{path}:{number}: expected 'name label', found {line[:60]!r}"
                    )
                yield " ".join(words[:-1]), int(words[-1])
    except OSError as error:
        raise AccuracyError(f"{path}: cannot be read ({error})") from error


def read_val_map(path: str | Path) -> npt.NDArray[np.int64]:
    """Labels of a ``val_map.txt`` in file order: shape (samples,), place = qsl_idx.

    Raises ``AccuracyError`` when the file cannot be read, has another form or is empty.
    """
    labels = np.fromiter((label for _, label in iter_val_map(path)), np.int64)
    if not len(labels):
        raise AccuracyError(f"{path}: no line of the form 'name label'")
    return labels


def score_log(
    source: str | Path | BinaryIO,
    labels: Labels,
    *,
    offset: Literal["auto"] | int = "auto",
    sha256: bool = False,
    progress: Progress | None = None,
) -> Top1Score:
    """Top-1 accuracy of an accuracy log.

    ``labels[qsl_idx]`` is the true class. ``offset`` is taken off every answer; ``auto`` finds
    0, 1 (background class first) or -1 from the answers themselves. Raises ``AccuracyError``
    when the log is not a file or there are no labels; what is wrong inside the log is in
    ``problems``.
    """
    truth = np.asarray(labels, np.int64).reshape(-1)
    if not len(truth):
        raise AccuracyError("no labels: the ground truth is empty")
    expected = len(truth)
    samples = read_samples(source, expected=expected, progress=progress, sha256=sha256)
    cells = bytearray(8 * expected)
    widths = np.zeros(expected, np.int64)
    classes = int(truth.max()) + 1
    score_sizes = (4 * classes, 4 * classes + 4) if classes >= MIN_SCORES else ()
    scored = 0
    for record in samples:
        data, index = record.data, record.qsl_idx
        if len(data) in score_sizes:
            scored += 1
            data = int(np.frombuffer(data, "<f4").argmax()).to_bytes(4, "little")
        head = data[:8]
        cells[8 * index : 8 * index + len(head)] = head
        widths[index] = len(data) + 1
    seen = np.flatnonzero(widths)
    raw = np.frombuffer(bytes(cells), np.uint8).reshape(-1, 8)[seen]
    problems = Problems()
    answers, dtype = decode_labels(raw, widths[seen] - 1, int(truth.max()), problems, seen)
    if scored:
        dtype = SCORES if scored == len(seen) else f"{dtype} and {SCORES}"
    good, chosen = _good(answers, truth[seen], offset, problems)
    total = len(seen)
    accuracy = 100.0 * good / total if total else 0.0
    kinds = len(np.unique(truth))
    if total >= 20 * kinds > 20 and accuracy < 200.0 / kinds:
        problems.add(
            "near-chance",
            f"{accuracy:.3f}% is near chance for {kinds} classes: "
            "wrong label order, offset or byte order?",
        )
    return Top1Score(
        accuracy=accuracy,
        good=good,
        total=total,
        dtype=dtype,
        offset=chosen,
    ).read_from(samples, problems)


def score_labels(
    predictions: Labels, labels: Labels, *, offset: Literal["auto"] | int = 0
) -> Top1Score:
    """Top-1 accuracy of predicted classes against true ones, both of shape (samples,).

    Raises ``AccuracyError`` when the shapes differ or there is nothing to score.
    """
    answers = np.asarray(predictions)
    truth = np.asarray(labels, np.int64).reshape(-1)
    if answers.ndim == 2 and answers.shape[0] == len(truth) and answers.shape[1] > 1:
        answers = answers.argmax(axis=1)
    answers = answers.reshape(-1)
    if answers.shape != truth.shape or not len(truth):
        raise AccuracyError(
            f"{len(answers)} predictions for {len(truth)} labels: one of each a sample is needed"
        )
    problems = Problems()
    good, chosen = _good(answers.astype(np.float64), truth, offset, problems)
    return Top1Score(
        accuracy=100.0 * good / len(truth),
        good=good,
        total=len(truth),
        dtype=str(answers.dtype),
        offset=chosen,
        problems=problems.listed(),
    )


def _good(
    answers: npt.NDArray[np.float64],
    truth: npt.NDArray[np.int64],
    offset: Literal["auto"] | int,
    problems: Problems,
) -> tuple[int, int]:
    """Right answers and the offset taken off; ``auto`` moves off 0 only on clear evidence."""
    if offset != "auto":
        return int(np.count_nonzero(answers - offset == truth)), offset
    counts = {at: int(np.count_nonzero(answers - at == truth)) for at in (0, 1, -1)}
    best = max(counts, key=lambda at: counts[at])
    if best and counts[best] > 4 * counts[0] and counts[best] >= max(10, 0.1 * len(truth)):
        problems.add(
            "offset",
            f"answers are {abs(best)} too {'high' if best > 0 else 'low'} "
            f"({counts[best]} right with the offset, {counts[0]} without): "
            "a background class; the offset was taken off",
        )
        return counts[best], best
    return counts[0], 0


def decode_labels(
    raw: npt.NDArray[np.uint8],
    widths: npt.NDArray[np.int64],
    highest: int,
    problems: Problems | None = None,
    indices: npt.NDArray[np.int64] | None = None,
) -> tuple[npt.NDArray[np.float64], str]:
    """Decode class labels whose number format is not known.

    ``raw`` has shape (records, 8): the first bytes of each record, zero-filled; ``widths`` the
    records' lengths in bytes; ``highest`` the highest true label. The format that makes most
    records of one width a class number in [-1, max(highest + 1, 1000)] is taken; returned are
    the labels as float64 (NaN where a record is not a label) and the format's name.
    """
    problems = problems if problems is not None else Problems()
    answers = np.full(len(raw), np.nan)
    names: list[str] = []
    top = max(highest + 1, 1000)
    kinds = np.unique(widths)
    if len(kinds) > 1:
        told = ", ".join(map(str, kinds[:5])) + (", …" if len(kinds) > 5 else "")
        problems.add("mixed-width", f"records of {told} bytes in one log")
    for width in kinds:
        rows = np.flatnonzero(widths == width)
        if not width:
            problems.add(
                "no-answer",
                "a record is empty; it counts as wrong",
                count=len(rows),
                index=None if indices is None else int(indices[rows[0]]),
            )
            continue
        values, name, fits = _best_format(raw[rows], int(width), top)
        names.append(name)
        answers[rows] = values
        if not fits.all():
            first = rows[np.flatnonzero(~fits)[0]]
            problems.add(
                "not-a-label",
                f"a record read as {name} is not a class from 0 to {top}; it counts as wrong",
                count=int(np.count_nonzero(~fits)),
                index=None if indices is None else int(indices[first]),
            )
    return answers, " and ".join(dict.fromkeys(names)) or "unknown"


def _best_format(
    rows: npt.NDArray[np.uint8], width: int, top: int
) -> tuple[npt.NDArray[np.float64], str, npt.NDArray[np.bool_]]:
    """Values, name of the format and which records it explains, for records of one width."""
    formats: list[tuple[str, str, int]]
    if width >= 8:
        inner = " in 8 bytes" if width == 8 else ""
        formats = [
            ("int64", "<i8", 8),
            ("float64", "<f8", 8),
            ("float32" + inner, "<f4", 4),
            ("int32" + inner, "<i4", 4),
        ]
        if width > 8:
            formats = [formats[3], formats[2], formats[0], formats[1]]
    elif width >= 4:
        formats = [("int32", "<i4", 4), ("float32", "<f4", 4)]
    elif width >= 2:
        formats = [("int16", "<i2", 2), ("float16", "<f2", 2)]
    else:
        formats = [("uint8", "u1", 1)]
    chosen: tuple[npt.NDArray[np.float64], str, npt.NDArray[np.bool_]] | None = None
    most = -1
    for name, code, size in formats:
        block = np.ascontiguousarray(rows[:, :size]).view(code)[:, 0]
        with np.errstate(invalid="ignore"):
            values = block.astype(np.float64)
            fits = (values >= -1) & (values <= top) & (values == np.floor(values))
        count = int(np.count_nonzero(fits))
        if count > most:
            most = count
            chosen = (np.where(fits, values, np.nan), name, fits)
    assert chosen is not None
    return chosen
