"""Area under the ROC curve of click prediction (DLRM), by ranks.

A record holds float32 pairs (prediction, target) of one sample's user-item pairs, or predictions
alone when the targets come from the data set. AUC is the share of (positive, negative) pairs that
are in the right order, ties counting half: computed exactly, in four bytes a pair.

Source: the official DLRM scorers (v0.7 to v5.0).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from checker.accuracy.log import Progress, read_samples
from checker.accuracy.problem import AccuracyError, Problems
from checker.accuracy.score import LogScore

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class AucScore(LogScore):
    """AUC in percent; ``accuracy`` in percent of predictions that round to their target."""

    auc: float
    accuracy: float
    good: int
    total: int
    queries: int

    @property
    def count(self) -> int | None:
        return None

    def line(self) -> str:
        """The line that rounds expect in accuracy.txt."""
        return (
            f"AUC={self.auc:.3f}%, accuracy={self.accuracy:.3f}%, good={self.good}, "
            f"total={self.total}, queries={self.queries}"
        )


@dataclass(frozen=True, slots=True)
class Targets:
    """True clicks of a data set: ``labels`` of all pairs (0 or 1, shape (pairs,)) and the first
    pair of each sample, ``bounds`` of shape (samples + 1,)."""

    labels: npt.NDArray[np.uint8]
    bounds: npt.NDArray[np.int64]


def read_targets(day_23: str | Path, trace: str | Path) -> Targets:
    """Read targets from Criteo's ``day_23`` (label first, tab-separated) and the trace of
    aggregated samples (``start, end, pairs`` a line).

    Raises ``AccuracyError`` when either has another form or day_23 is too short.
    """
    try:
        with open(trace, encoding="ascii", errors="replace") as lines:
            counts = [int(line.split(",")[2]) for line in lines if line.strip()]
        bounds = np.concatenate([[0], np.cumsum(np.array(counts, np.int64))])
        labels = np.zeros(int(bounds[-1]), np.uint8)
        at = 0
        with open(day_23, "rb") as rows:
            for at, row in enumerate(rows):
                if at >= len(labels):
                    break
                labels[at] = row[:1] == b"1"
            else:
                at += 1
    except (OSError, ValueError, IndexError) as error:
        raise AccuracyError(f"{day_23}, {trace}: cannot be read as DLRM targets ({error})") from (
            error
        )
    if at < len(labels):
        raise AccuracyError(f"{day_23}: {at} rows, the trace needs {len(labels)}")
    return Targets(labels, bounds)


def rank_auc(positives: npt.NDArray[Any], negatives: npt.NDArray[Any]) -> float:
    """AUC (0 to 1) of scores of positives and negatives; ties count half, NaN when either lacks.

    Sorts ``negatives`` in place; memory beyond the inputs is constant.
    """
    if not len(positives) or not len(negatives):
        return float("nan")
    negatives.sort()
    twice = 0
    for start in range(0, len(positives), _BLOCK):
        block = positives[start : start + _BLOCK]
        twice += int(np.searchsorted(negatives, block, "left").sum())
        twice += int(np.searchsorted(negatives, block, "right").sum())
    return twice / (2 * len(positives) * len(negatives))


def score_log(
    source: str | Path | BinaryIO,
    targets: Targets | None = None,
    *,
    sha256: bool = False,
    progress: Progress | None = None,
) -> AucScore:
    """AUC of an accuracy log of float32 pairs, or of predictions alone when ``targets`` is given.

    Raises ``AccuracyError`` when the log is not a file or both classes are not there.
    """
    expected = None if targets is None else len(targets.bounds) - 1
    samples = read_samples(source, expected=expected, progress=progress, sha256=sha256)
    problems = Problems()
    parts: tuple[bytearray, bytearray] = (bytearray(), bytearray())
    good = total = queries = 0
    for record in samples:
        index, data = record.qsl_idx, record.data
        width = 8 if targets is None else 4
        queries += 1
        if len(data) % width:
            problems.add(
                "pair-size", f"{len(data)} bytes are not a whole number of pairs", index=index
            )
        values = np.frombuffer(data, "<f4", len(data) // width * (width // 4))
        if targets is None:
            predicted, truth = values[0::2], values[1::2]
            binary = (truth == 0) | (truth == 1)
        else:
            predicted = values
            truth = targets.labels[targets.bounds[index] : targets.bounds[index + 1]].astype("<f4")
            if len(truth) != len(predicted):
                problems.add(
                    "pair-count",
                    f"{len(predicted)} predictions where the sample has {len(truth)} pairs",
                    index=index,
                )
                continue
            binary = np.ones(len(truth), np.bool_)
        usable = binary & np.isfinite(predicted)
        if not usable.all():
            problems.add(
                "not-a-pair",
                "a prediction is not a number or a target is neither 0 nor 1; it is dropped",
                index=index,
                count=int(np.count_nonzero(~usable)),
            )
            predicted, truth = predicted[usable], truth[usable]
        good += int(np.count_nonzero(np.round(predicted) == truth))
        total += len(predicted)
        parts[1].extend(np.ascontiguousarray(predicted[truth == 1]).tobytes())
        parts[0].extend(np.ascontiguousarray(predicted[truth == 0]).tobytes())
    negatives, positives = (np.frombuffer(part, "<f4") for part in parts)
    auc = rank_auc(positives, negatives)
    if auc != auc:
        raise AccuracyError(
            f"AUC needs positives and negatives: {len(positives)} and {len(negatives)} found"
        )
    return AucScore(
        auc=100.0 * auc,
        accuracy=100.0 * good / total,
        good=good,
        total=total,
        queries=queries,
    ).read_from(samples, problems)
