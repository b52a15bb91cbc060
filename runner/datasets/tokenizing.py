"""A model's tokenizer.json, read with the tokenizers library."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path

from runner.errors import DatasetError


def open_tokenizer(path: Path) -> Callable[[str], Sequence[int]]:
    """Text to token ids, no special tokens added.

    Raises:
        DatasetError: the file cannot be read, or the library is not installed.
    """
    try:
        library = importlib.import_module("tokenizers")
    except ImportError as error:
        raise DatasetError(
            f"{path}: found no library to read it ({error}); expected tokenizers: pip install "
            '"assay[openai]".'
        ) from error
    try:
        tokenizer = library.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises a plain Exception
        raise DatasetError(f"{path}: cannot be read as a tokenizer ({error}).") from error

    def encode(text: str) -> Sequence[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return encode
