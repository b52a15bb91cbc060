"""Text for translation: sentences of a file as numbers, and numbers as text again.

Three ways lead from words to numbers: a vocabulary file (one word a line), with byte pair
encoding where the text has been split already ("haus@@ tür"), and a SentencePiece model.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from runner.errors import DatasetError

PAD, START, END, UNKNOWN = 0, 1, 2, 3  # of the vocabularies that this package writes
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
LONGEST = 1024  # tokens of one sentence; newstest2014 has about 150


class Tokenizer(Protocol):
    """Text to numbers and back; `pad`, `start`, `end` are the numbers of the marks."""

    pad: int
    start: int
    end: int

    def __len__(self) -> int: ...

    def encode_text(self, text: str) -> list[int]:
        """One sentence; `end` stands last."""
        ...

    def decode_text(self, numbers: Sequence[int]) -> str:
        """A sentence without marks."""
        ...


class Vocabulary:
    """Words by number.

    Args:
        words: all of them; where none is "<pad>", "</s>" stands in for it, as in GNMT.
        split, join: text to words and back.
        name: what messages call it.

    Raises:
        DatasetError: one of <s>, </s>, <unk> is absent, or words repeat.
    """

    def __init__(
        self,
        words: Sequence[str],
        split: Callable[[str], list[str]] = str.split,
        join: Callable[[Sequence[str]], str] = " ".join,
        name: str = "vocabulary",
    ) -> None:
        self.words = list(words)
        self._numbers = {word: number for number, word in enumerate(self.words)}
        self._split, self._join = split, join
        absent = [mark for mark in SPECIAL[1:] if mark not in self._numbers]
        if absent or len(self._numbers) != len(self.words):
            raise DatasetError(
                f"{name}: found {len(self.words)} lines, "
                + (f"none of them {', '.join(absent)}" if absent else "some of them twice")
                + "; expected a vocabulary of one word a line, among them <s>, </s> and <unk>, "
                "in the order in which the model numbers them."
            )
        self.start, self.end = self._numbers["<s>"], self._numbers["</s>"]
        self.unknown = self._numbers["<unk>"]
        self.pad = self._numbers.get("<pad>", self.end)

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]]) -> Vocabulary:
        """The words of these sentences, frequent ones first."""
        counts = Counter(word for sentence in sentences for word in sentence)
        ordered = sorted(counts, key=lambda word: (-counts[word], word))
        return cls([*SPECIAL, *ordered])

    @classmethod
    def read(
        cls,
        path: Path,
        split: Callable[[str], list[str]] = str.split,
        join: Callable[[Sequence[str]], str] = " ".join,
        add_special: bool = False,
    ) -> Vocabulary:
        """One word a line.

        Args:
            add_special: put the four marks in front if the file has none of them.

        Raises:
            DatasetError: no such file, or none of this form.
        """
        words = read_lines(path, "a vocabulary")
        if add_special and not set(SPECIAL) & set(words[:8]):
            words = [*SPECIAL, *words]
        return cls(words, split, join, str(path))

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(self.words) + "\n", "utf-8")

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, words: Sequence[str]) -> list[int]:
        """Numbers of the words, `end` last."""
        return [*(self._numbers.get(word, self.unknown) for word in words), self.end]

    def encode_text(self, text: str) -> list[int]:
        return self.encode(self._split(text))

    def decode_text(self, numbers: Sequence[int]) -> str:
        return self._join([self.words[number] for number in numbers])


class SentencePiece:
    """A SentencePiece model.

    Raises:
        DatasetError: the library is absent, or the file is no model.
    """

    def __init__(self, path: Path) -> None:
        try:
            library: Any = import_module("sentencepiece")
        except ImportError as error:
            raise DatasetError(
                f"{path}: reading it needs SentencePiece ({error}); "
                "install it with: pip install sentencepiece"
            ) from error
        try:
            self._model = library.SentencePieceProcessor(model_file=str(path))
        except (OSError, RuntimeError, TypeError) as error:
            raise DatasetError(f"{path}: is no SentencePiece model ({error}).") from error
        self.start, self.end = self._model.bos_id(), self._model.eos_id()
        self.pad = self._model.pad_id() if self._model.pad_id() >= 0 else self.end

    def __len__(self) -> int:
        return int(self._model.vocab_size())

    def encode_text(self, text: str) -> list[int]:
        return [*self._model.encode(text), self.end]

    def decode_text(self, numbers: Sequence[int]) -> str:
        return str(self._model.decode(list(map(int, numbers))))


def join_bpe(words: Sequence[str]) -> str:
    """Byte pairs to words: "haus@@ tür" is "haustür"."""
    return (" ".join(words) + " ").replace("@@ ", "").strip()


def read_lines(path: Path, what: str) -> list[str]:
    """The lines of a UTF-8 text file.

    Raises:
        DatasetError: it cannot be read.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path}: cannot be read as {what} ({error}).") from error
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.rstrip("\r") for line in lines]


class Translation:
    """Sentences to be translated as a data set (see `runner.datasets.Dataset`).

    All are held in memory as one array, filled up with `tokenizer.pad`: the largest set in use
    takes a few megabytes.

    Args:
        source: sentences, one a line.
        references: their translations in the same order.
        tokenizer: of the source language.
        input_name: what the model calls the numbers.
        length_name: what it calls their count, if it asks for it.
        marks: which marks stand around a sentence: none, the end's, or the start's too.

    Attributes:
        references: the translations as the file has them.

    Raises:
        DatasetError: a file is absent, or the two have different numbers of lines.
    """

    def __init__(
        self,
        source: Path,
        references: Path,
        tokenizer: Tokenizer,
        input_name: str = "source",
        length_name: str | None = None,
        marks: Literal["none", "end", "both"] = "end",
    ) -> None:
        self.reference_file = references
        self.references = read_lines(references, "reference translations")
        sentences = read_lines(source, "sentences to translate")
        if len(sentences) != len(self.references) or not sentences:
            raise DatasetError(
                f"{source}: found {len(sentences)} sentences, and {len(self.references)} "
                f"translations in {references}; expected one of each, in the same order."
            )
        rows = [tokenizer.encode_text(sentence)[-LONGEST:] for sentence in sentences]
        if marks == "both":
            rows = [[tokenizer.start, *row] for row in rows]
        elif marks == "none":
            rows = [row[:-1] or row for row in rows]
        longest = max(map(len, rows))
        self._lengths = np.array([len(row) for row in rows], np.int64)
        self._numbers = np.full((len(rows), longest), tokenizer.pad, np.int64)
        for place, row in enumerate(rows):
            self._numbers[place, : len(row)] = row
        self._input, self._length = input_name, length_name
        self.sha256 = hashlib.sha256("\n".join(sentences).encode()).hexdigest()

    def __len__(self) -> int:
        return len(self._numbers)

    def load(self, indices: Sequence[int]) -> dict[str, NDArray[np.int64]]:
        """Numbers of the sentences, and their lengths where the model asks for them."""
        rows = np.asarray(indices, np.int64)
        feed = {self._input: self._numbers[rows]}
        if self._length:
            feed[self._length] = self._lengths[rows]
        return feed

    def unload(self, indices: Sequence[int]) -> None:
        """Nothing to release: the arrays belong to whoever called `load`."""
