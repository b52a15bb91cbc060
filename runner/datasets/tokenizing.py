"""A model's tokenizer.json, as `checker.accuracy.tokenizer` reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from runner.errors import DatasetError

Encode = Callable[[str], Sequence[int]]
Decode = Callable[[Sequence[int]], str]


def open_tokenizer(path: Path) -> Encode:
    """Text to token ids, no special tokens added.

    Raises:
        DatasetError: the file cannot be read, or the library is not installed.
    """
    from checker.accuracy import tokenizer
    from checker.accuracy.problem import AccuracyError

    try:
        opened = tokenizer.open_tokenizer(path)
    except AccuracyError as error:
        raise DatasetError(str(error)) from error

    def encode(text: str) -> Sequence[int]:
        ids: list[int] = opened.encode(text, add_special_tokens=False).ids
        return ids

    return encode


def open_decoder(path: Path, *, special: bool = False) -> Decode:
    """Token ids to text, with special tokens or without. Raises as `open_tokenizer` does."""
    from checker.accuracy import tokenizer
    from checker.accuracy.problem import AccuracyError

    try:
        return tokenizer.open_decoder(path, special=special)
    except AccuracyError as error:
        raise DatasetError(str(error)) from error
