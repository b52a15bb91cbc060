"""The beginnings of 500 synthetic stories, and how they end; they travel with the package.

`runner/datasets/tales.py` made the text, and `tools/train/stories.py` wrote the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from runner.datasets.prompts import Prompt, Prompts
from runner.datasets.tales import join, split
from runner.datasets.text import Vocabulary, read_lines
from runner.errors import DatasetError

DATA = Path(__file__).parent / "data" / "stories"
LONGEST = 128
"""Tokens of a beginning and its end together that the model has places for."""


@cache
def vocabulary(model: Path) -> Vocabulary:
    """The words of a model, in the file beside it."""
    return Vocabulary.read(model.with_name("stories_vocabulary.txt"), split, join)


class Stories(Prompts):
    """Beginnings as prompts, ends as references.

    Args:
        path: another folder with `prompts.txt` and `references.txt`; the packaged one when None.

    Raises:
        DatasetError: a file is absent, or they have different numbers of lines.
    """

    def __init__(self, words: Vocabulary, path: Path | None = None) -> None:
        folder = path or DATA
        self.texts = read_lines(folder / "prompts.txt", "the beginnings of stories")
        self.references = read_lines(folder / "references.txt", "the ends of stories")
        if len(self.texts) != len(self.references):
            raise DatasetError(
                f"{folder}: found {len(self.texts)} prompts and {len(self.references)} references; "
                "expected one reference for each prompt."
            )
        self.words = words

    def __len__(self) -> int:
        return len(self.texts)

    def prompt(self, index: int) -> Prompt:
        return Prompt(text=self.texts[index])

    def reference(self, index: int) -> Sequence[int]:
        """The token ids of the right answer, the end mark last."""
        return self.words.encode_text(self.references[index])
