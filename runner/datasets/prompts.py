"""Prompts: the samples of a language benchmark, sent to a server that generates text."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from runner.errors import DatasetError

KINDS = (".json", ".jsonl", ".parquet")
TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class Prompt:
    """What one sample asks: text, or token ids, or a conversation; the first that is not None.

    Attributes:
        tokens: ids of the benchmark's tokenizer.
        text: a prompt as it is, no template applied.
        messages: role and content, for chat completions.
    """

    tokens: Sequence[int] | None = None
    text: str | None = None
    messages: tuple[tuple[str, str], ...] | None = None


class Prompts:
    """A data set of prompts (see `runner.datasets.Dataset`); nothing of it is fed to a graph."""

    def __len__(self) -> int:
        raise NotImplementedError

    def prompt(self, index: int) -> Prompt:
        """The sample's prompt."""
        raise NotImplementedError

    def load(self, indices: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Nothing: prompts are text, not arrays."""
        return {}

    def unload(self, indices: Sequence[int]) -> None:
        """Prompts stay in memory."""


class Table(Prompts):
    """Prompts and references of a table: token ids in one column, reference texts in another.

    Args:
        path: the file (JSON: a list of objects; JSON lines; Parquet), or a folder with one such file
            beside the model's tokenizer.json.
        tokens: columns that may hold the prompt's token ids, the first that exists counts.
        reference: the column with the reference text.
        longest: tokens that the model has places for.

    Attributes:
        references: texts in the order of the samples.
        place: the folder.

    Raises:
        DatasetError: the file is absent or of another form.
    """

    def __init__(
        self, path: Path | None, *, tokens: Sequence[str], reference: str, longest: int
    ) -> None:
        if path is None:
            raise DatasetError(
                "found no data; expected --data FOLDER with the benchmark's data set as "
                f"{', '.join(KINDS)} and the model's {TOKENIZER}."
            )
        file = _file_of(path)
        self.place = file.parent
        self._prompts: list[list[int]] = []
        self.references: list[str] = []
        for number, row in enumerate(_rows(file)):
            name = next((name for name in tokens if name in row), None)
            ids = row.get(name or "")
            if ids is None or not _are_ids(ids) or not 0 < len(ids) < longest:
                raise DatasetError(
                    f"{file}: sample {number} has no usable {' or '.join(tokens)}; expected a list of "
                    f"1 to {longest - 1:,} token ids."
                )
            if not isinstance(row.get(reference), str):
                raise DatasetError(f"{file}: sample {number} has no {reference}; expected a text.")
            self._prompts.append(list(ids))
            self.references.append(row[reference])
        if not self._prompts:
            raise DatasetError(f"{file}: found no sample.")

    def __len__(self) -> int:
        return len(self._prompts)

    def prompt(self, index: int) -> Prompt:
        return Prompt(tokens=self._prompts[index])


def _are_ids(value: object) -> bool:
    return isinstance(value, list) and all(type(v) is int and 0 <= v < 2**31 for v in value)


def _file_of(path: Path) -> Path:
    if path.suffix in (".pkl", ".pickle") or (path.is_dir() and any(path.glob("*.pkl"))):
        raise DatasetError(
            f"{path}: found a pickle; expected {', '.join(KINDS)}, because reading a pickle runs "
            'whatever code it holds. Convert it where you trust it: python -c "import pandas as p; '
            "p.read_pickle('data.pkl').to_parquet('data.parquet')\"."
        )
    if not path.is_dir():
        return path
    files = sorted(f for f in path.iterdir() if f.suffix in KINDS and f.name != TOKENIZER)
    if len(files) != 1:
        names = ", ".join(f.name for f in files) or "no file"
        raise DatasetError(f"{path}: found {names}; expected one file of {', '.join(KINDS)}.")
    return files[0]


def _rows(file: Path) -> Iterator[Mapping[str, Any]]:
    try:
        if file.suffix == ".parquet":
            parquet = importlib.import_module("pyarrow.parquet")
            yield from parquet.read_table(file).to_pylist()
            return
        text = file.read_text("utf-8")
        rows = (
            [json.loads(line) for line in text.splitlines() if line.strip()]
            if file.suffix == ".jsonl"
            else json.loads(text)
        )
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError("it is not a list of objects")
        yield from rows
    except ImportError as error:
        raise DatasetError(
            f'{file}: found no library to read it ({error}); pip install "assay[parquet]".'
        ) from error
    except (OSError, ValueError, RecursionError) as error:  # pyarrow's own are ValueErrors
        raise DatasetError(f"{file}: cannot be read ({error}).") from error
