"""A model's tokenizer.json, read with the tokenizers library."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from checker.accuracy.problem import AccuracyError

Decode = Callable[[Sequence[int]], str]
"""Turns token ids into text: the tokenizer of the model, which Assay does not bring."""


def open_tokenizer(path: Path) -> Any:
    """The library's tokenizer.

    Raises ``AccuracyError`` when the file cannot be read or the library is not installed.
    """
    try:
        library = importlib.import_module("tokenizers")
    except ImportError as error:
        raise AccuracyError(
            f"{path}: found no library to read it ({error}); expected tokenizers: pip install "
            '"assay[accuracy]".'
        ) from error
    try:
        return library.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises a plain Exception
        raise AccuracyError(f"{path}: cannot be read as a tokenizer ({error}).") from error


def open_decoder(path: Path, *, special: bool = False) -> Decode:
    """Token ids to text, with special tokens or without; negative ids are left out.

    Raises as ``open_tokenizer`` does.
    """
    tokenizer = open_tokenizer(path)

    def decode(ids: Sequence[int]) -> str:
        known = [number for number in ids if number >= 0]
        return str(tokenizer.decode(known, skip_special_tokens=not special))

    return decode
