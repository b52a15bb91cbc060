"""Tables of samples: rows of a data set as JSON, JSON lines, Parquet or CSV.  Pickles are refused.

Token ids in CSV are lists as JSON writes them: "[1, 2, 3]".
"""

from __future__ import annotations

import csv
import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from checker.accuracy.problem import AccuracyError

KINDS: Final = (".json", ".jsonl", ".parquet", ".csv")
TOKENIZER: Final = "tokenizer.json"
_OF_MODEL: Final = frozenset(
    {
        TOKENIZER,
        "added_tokens.json",
        "config.json",
        "generation_config.json",
        "model.safetensors.index.json",
        "special_tokens_map.json",
        "tokenizer_config.json",
        "vocab.json",
    }
)
"""Files of a model, which may lie beside its data."""
_PICKLES: Final = (".pkl", ".pickle", ".pkl.gz")


def find_table(path: Path, part: str = "", without: str = "\0") -> Path:
    """The table at a path: the file itself, or the only one in a folder and its subfolders.

    Args:
        part: what its path below the folder has somewhere, `without`: what it has nowhere, where
            the folder holds several tables.

    Raises:
        AccuracyError: there is none, more than one, or a pickle.
    """
    if not path.is_dir():
        if path.name.endswith(_PICKLES):
            raise AccuracyError(_pickle(path))
        return path
    try:
        near = [*path.glob("*"), *path.glob("*/*")]
        known = sorted(f for f in near if f.name not in _OF_MODEL and f.is_file())
    except OSError as error:
        raise AccuracyError(f"{path}: cannot be read ({error}).") from error
    known = [
        f for f in known if part in (name := f.relative_to(path).as_posix()) and without not in name
    ]
    found = [f for f in known if f.suffix in KINDS]
    if len(found) == 1:
        return found[0]
    pickles = [f for f in known if f.name.endswith(_PICKLES)]
    if pickles and not found:
        raise AccuracyError(_pickle(pickles[0]))
    names = ", ".join(f.relative_to(path).as_posix() for f in found[:5]) or "no file"
    called = f" with {part} in its name" if part else ""
    name_it = " Name the file itself." if len(found) > 1 and not part else ""
    raise AccuracyError(
        f"{path}: found {names}; expected one file of {', '.join(KINDS)}{called}.{name_it}"
    )


def _pickle(path: Path) -> str:
    return (
        f"{path}: found a pickle; expected {', '.join(KINDS)}, because reading a pickle runs "
        'whatever code it holds. Convert it where you trust it: python -c "import pandas as p; '
        f"p.read_pickle('{path.name}').to_parquet('data.parquet')\"."
    )


def read_table(file: Path) -> Iterator[Mapping[str, Any]]:
    """The rows of a table, by column name.

    Raises:
        AccuracyError: it cannot be read, is of another form, or the library for it is missing.
    """
    try:
        if file.suffix == ".parquet":
            parquet = importlib.import_module("pyarrow.parquet")
            yield from parquet.read_table(file).to_pylist()
        elif file.suffix == ".csv":
            yield from _csv(file)
        elif file.suffix in (".json", ".jsonl"):
            yield from _json(file)
        else:
            raise ValueError(f"its name does not end in {', '.join(KINDS)}")
    except ImportError as error:
        raise AccuracyError(
            f'{file}: found no library to read it ({error}); pip install "assay[parquet]".'
        ) from error
    except (
        OSError,
        ValueError,
        TypeError,
        OverflowError,
        NotImplementedError,
        RecursionError,
        csv.Error,
    ) as error:  # pyarrow's own are some of these
        raise AccuracyError(f"{file}: cannot be read ({error}).") from error


def _json(file: Path) -> list[Mapping[str, Any]]:
    text = file.read_text("utf-8")
    rows = (
        [json.loads(line) for line in text.splitlines() if line.strip()]
        if file.suffix == ".jsonl"
        else json.loads(text)
    )
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it is not a list of objects")
    return rows


def _csv(file: Path) -> Iterator[Mapping[str, Any]]:
    csv.field_size_limit(sys.maxsize)
    with file.open(encoding="utf-8", newline="") as stream:
        for number, row in enumerate(csv.DictReader(stream, strict=True), 2):
            if None in row or None in row.values():
                raise ValueError(f"row {number} has another number of cells than the first")
            yield row


def token_ids(value: object) -> list[int] | None:
    """A cell as token ids; None where it is not a list of them."""
    if isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, list) and all(type(v) is int and 0 <= v < 2**31 for v in value):
        return value
    return None


def first_of(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The cell of the first of these columns that the row has; None where it has none."""
    return next((row[name] for name in names if row.get(name) is not None), None)
