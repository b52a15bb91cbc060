"""A model's tokenizer.json, read with the tokenizers library."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runner.errors import DatasetError

Encode = Callable[[str], Sequence[int]]
Decode = Callable[[Sequence[int]], str]


def _open(path: Path) -> Any:
    try:
        library = importlib.import_module("tokenizers")
    except ImportError as error:
        raise DatasetError(
            f"{path}: found no library to read it ({error}); expected tokenizers: pip install "
            '"assay[openai]".'
        ) from error
    try:
        return library.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises a plain Exception
        raise DatasetError(f"{path}: cannot be read as a tokenizer ({error}).") from error


def open_tokenizer(path: Path) -> Encode:
    """Text to token ids, no special tokens added.

    Raises:
        DatasetError: the file cannot be read, or the library is not installed.
    """
    tokenizer = _open(path)

    def encode(text: str) -> Sequence[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return encode


def open_decoder(path: Path) -> Decode:
    """Token ids to text, special tokens left out. Raises as `open_tokenizer` does."""
    tokenizer = _open(path)

    def decode(ids: Sequence[int]) -> str:
        text: str = tokenizer.decode([number for number in ids if number >= 0])
        return text

    return decode
