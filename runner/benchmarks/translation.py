"""What translation benchmarks share: the decode loop, text from numbers, and BLEU.

A model is a folder with an encoder and a decoder.  The encoder is run once a batch; the decoder
once for every word, with the last word, what the encoder gave, and its own state.  Names tie
them: the decoder's input X takes the encoder's output X, and after every step the decoder's own
output `X_out` if it has one.  Sentences that have ended leave the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from runner.benchmarks.base import Infer, Score, Tensor
from runner.datasets import Dataset
from runner.datasets.text import Tokenizer
from runner.errors import InferenceError, RunFailed

STATE_MARK = "_out"
Arrays = dict[str, NDArray[Any]]


class WithReferences(Protocol):
    """A data set that knows the translations."""

    references: list[str]
    reference_file: Path


@dataclass(frozen=True)
class Decoding:
    """How an encoder and a decoder make a sentence.

    Attributes:
        source: the encoder's input of numbers, whose padding `pad` is cut off.
        token: the decoder's input of the last word.
        token_rank: 1 for a number a sentence, 2 for a column of one.
        encoder: the encoder's outputs; `decoder`: the decoder's inputs and outputs, the first
            output being scores of all words, or the chosen words as whole numbers.
        start, end, pad: numbers of the marks.
        factor, extra: at most `factor` x words of the source + `extra` words are made.
        beam: hypotheses kept; 1 is the best word each time.
        penalty: exponent of the length penalty ((5 + n) / 6) ** penalty.
        length: the encoder's input of lengths, if it has one.
        axes: by name of a state or memory, which axis the batch is; 0 where absent.
        token_type: number format of `token`.
    """

    source: str
    token: str
    token_rank: int
    encoder: tuple[str, ...]
    decoder_inputs: tuple[str, ...]
    decoder_outputs: tuple[str, ...]
    start: int
    end: int
    pad: int
    factor: float = 2.0
    extra: int = 10
    beam: int = 1
    penalty: float = 0.0
    length: str | None = None
    axes: Mapping[str, int] | None = None
    token_type: str = "int64"

    def __call__(
        self, graphs: Mapping[str, Infer], feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> list[NDArray[Any]]:
        """Words (n, longest) int64, filled up with `end`; see `runner.benchmarks.base.Execute`.

        Raises:
            InferenceError: scores of another shape or that are not finite.
        """
        source = feed[self.source]
        if self.length:
            longest = int(feed[self.length].max())
        else:
            longest = int((source != self.pad).sum(1).max())
            longest += self.pad == self.end  # the mark at the end is no padding
        longest = max(1, longest)
        trimmed: Arrays = {**feed, self.source: source[:, :longest]}
        given = dict(zip(self.encoder, graphs["encoder"](trimmed, indices), strict=False))
        for name in self.decoder_inputs:
            if name in trimmed:
                given.setdefault(name, trimmed[name])
        most = int(self.factor * longest) + self.extra
        if self.beam > 1:
            return [self._search(graphs["decoder"], given, indices, most)]
        return [self._greedy(graphs["decoder"], given, indices, most)]

    def _step(
        self, decoder: Infer, given: Arrays, last: NDArray[np.int64], indices: Sequence[int]
    ) -> NDArray[Any]:
        """One word further: the first output; `given` gets the new states."""
        feed = {name: given[name] for name in self.decoder_inputs if name != self.token}
        token = last.astype(self.token_type, copy=False)
        feed[self.token] = token if self.token_rank == 1 else token[:, None]
        outputs = decoder(feed, indices)
        if len(outputs) != len(self.decoder_outputs):
            raise InferenceError(
                f"found {len(outputs)} outputs of the decoder; expected "
                f"{len(self.decoder_outputs)}."
            )
        for name, array in zip(self.decoder_outputs[1:], outputs[1:], strict=True):
            given[name.removesuffix(STATE_MARK)] = array
        first = outputs[0]
        if len(first) != len(last):
            raise InferenceError(
                f"found scores of shape {list(first.shape)} for {len(last)} sentences."
            )
        return first

    def _greedy(
        self, decoder: Infer, given: Arrays, indices: Sequence[int], most: int
    ) -> NDArray[np.int64]:
        count = len(indices)
        words = np.full((count, most), self.end, np.int64)
        rows = np.arange(count)  # of the sentences still going on
        here = list(indices)
        last = np.full(count, self.start, np.int64)
        for place in range(most):
            first = self._step(decoder, given, last, here)
            last = self._choose(first)
            words[rows, place] = last
            going = last != self.end
            left = int(going.sum())
            if not left:
                return words[:, : place + 1]
            if left < len(rows):
                keep = np.flatnonzero(going)
                rows, last = rows[keep], last[keep]
                here = [here[k] for k in keep.tolist()]
                self._take(given, keep)
        return words

    def _take(self, given: Arrays, keep: NDArray[np.int64]) -> None:
        axes = self.axes or {}
        for name in self.decoder_inputs:
            if name in given:
                given[name] = np.take(given[name], keep, axis=axes.get(name, 0))

    def _choose(self, first: NDArray[Any]) -> NDArray[np.int64]:
        """The best word of each row."""
        if first.dtype.kind in "iu":
            return first.reshape(len(first)).astype(np.int64)
        scores = first.reshape(len(first), -1)
        best = scores.argmax(1)
        if not np.isfinite(scores[np.arange(len(scores)), best]).all():
            raise InferenceError("found scores of words that are NaN or infinite.")
        words: NDArray[np.int64] = best
        return words

    def _search(
        self, decoder: Infer, given: Arrays, indices: Sequence[int], most: int
    ) -> NDArray[np.int64]:
        """Beam search: of all sentences that ended, the one with the best score for its length."""
        count, beam = len(indices), self.beam
        self._take(given, np.repeat(np.arange(count), beam))
        here = np.repeat(np.asarray(indices), beam).tolist()
        last = np.full(count * beam, self.start, np.int64)
        words = np.full((count, beam, most), self.end, np.int64)
        # At first all hypotheses of a sentence are the same: only one may count.
        totals = np.full((count, beam), -np.inf)
        totals[:, 0] = 0.0
        best = np.full(count, -np.inf)
        chosen = np.full((count, most), self.end, np.int64)
        open_rows = np.ones(count, bool)
        for place in range(most):
            first = self._step(decoder, given, last, here)
            if first.dtype.kind in "iu":
                raise InferenceError("a beam needs the scores of all words, not the chosen words.")
            scores = first.reshape(count * beam, -1).astype(np.float64)
            top = scores.max(1, keepdims=True)
            if not np.isfinite(top).all():
                raise InferenceError("found scores of words that are NaN or infinite.")
            logs = scores - top - np.log(np.exp(scores - top).sum(1, keepdims=True))
            size = logs.shape[1]
            sums = (totals[:, :, None] + logs.reshape(count, beam, size)).reshape(count, -1)
            # Twice as many as are kept: at most `beam` of them can end here.
            width = min(2 * beam, sums.shape[1])
            picks = np.argpartition(-sums, width - 1, 1)[:, :width]
            order = np.argsort(-np.take_along_axis(sums, picks, 1), 1, kind="stable")
            picks = np.take_along_axis(picks, order, 1)
            origin = np.zeros((count, beam), np.int64)
            following = np.full((count, beam), self.end, np.int64)
            fresh = np.full((count, beam), -np.inf)
            rate = ((5 + place + 1) / 6) ** self.penalty
            for row in np.flatnonzero(open_rows).tolist():
                free = 0
                for pick in picks[row].tolist():
                    total = sums[row, pick]
                    source, word = divmod(pick, size)
                    if word == self.end:
                        if total / rate > best[row]:
                            best[row] = total / rate
                            chosen[row] = words[row, source]
                            chosen[row, place:] = self.end
                    elif free < beam:
                        origin[row, free], following[row, free] = source, word
                        fresh[row, free] = total
                        free += 1
                # Scores only fall; the longest sentence divides them by most.
                bound = fresh[row].max() / max(rate, ((5 + most) / 6) ** self.penalty)
                if best[row] >= bound:
                    open_rows[row] = False
            words = np.take_along_axis(words, origin[:, :, None], 1)
            words[:, :, place] = following
            totals, last = fresh, following.reshape(-1)
            if not open_rows.any():
                return chosen[:, : place + 1]
            totals[~open_rows] = -np.inf
            self._take(given, (origin + beam * np.arange(count)[:, None]).reshape(-1))
        # At the greatest length what has not ended counts as it is.
        cut = open_rows & (totals.max(1) / ((5 + most) / 6) ** self.penalty > best)
        chosen[cut] = words[cut, totals[cut].argmax(1)]
        return chosen


def encode(
    outputs: Sequence[NDArray[Any]], count: int, tokenizer: Tokenizer
) -> list[NDArray[np.uint8]]:
    """Numbers of words (n, any) to UTF-8 text, up to the first mark of the end.

    Raises:
        InferenceError: another shape, or a number that is no word.
    """
    if len(outputs) != 1:
        raise InferenceError(f"found {len(outputs)} model outputs; expected 1, numbers of words.")
    words = outputs[0]
    if words.ndim != 2 or len(words) != count or words.dtype.kind not in "iu":
        raise InferenceError(
            f"found words of shape {list(words.shape)}, {words.dtype}; expected [{count}, any] "
            "whole numbers."
        )
    if words.size and not 0 <= int(words.min()) <= int(words.max()) < len(tokenizer):
        raise InferenceError(f"found a word that is none of the {len(tokenizer)} known.")
    texts = []
    unsaid = {tokenizer.start, tokenizer.pad, tokenizer.end}
    for row in words.tolist():
        end = row.index(tokenizer.end) if tokenizer.end in row else len(row)
        text = tokenizer.decode_text([word for word in row[:end] if word not in unsaid])
        texts.append(np.frombuffer(text.encode(), np.uint8))
    return texts


def answer(
    dataset: Dataset, indices: Sequence[int], tokenizer: Tokenizer
) -> list[NDArray[np.int64]]:
    """The reference translations as numbers, all filled up to the length of the longest."""
    words = _numbered(tuple(cast(WithReferences, dataset).references), tokenizer.encode_text)
    return [words[np.asarray(indices, np.int64)]]


@lru_cache(maxsize=1)  # the dummy backend asks for one sentence at a time
def _numbered(texts: tuple[str, ...], encode: Callable[[str], list[int]]) -> NDArray[np.int64]:
    rows = [encode(text) for text in texts]
    words = np.full((len(rows), max(map(len, rows))), rows[0][-1], np.int64)  # the end's mark
    for place, row in enumerate(rows):
        words[place, : len(row)] = row
    return words


def score(log: Path, dataset: Dataset, tokenize: Literal["auto", "none", "13a"]) -> Score:
    """BLEU of an accuracy log.

    Raises:
        RunFailed: the log cannot be scored.
    """
    from checker.accuracy.bleu import read_references, score_log
    from checker.accuracy.problem import AccuracyError

    try:
        references = read_references(cast(WithReferences, dataset).reference_file)
        result = score_log(log, references, tokenize=tokenize)
    except AccuracyError as error:
        raise RunFailed(f"{log}: the accuracy cannot be computed: {error}") from error
    return Score("bleu", result.bleu, result.line())


def names(tensors: Sequence[Tensor]) -> tuple[str, ...]:
    return tuple(tensor.name for tensor in tensors)
