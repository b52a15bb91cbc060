"""ONNX files written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runner.errors import BackendError
from schemas.writing import replace_file

# Protobuf ends at 2 GiB; larger weights go into a file beside the model.
ONE_FILE = 1_500_000_000


def save(model: Any, path: Path) -> None:
    """Write a model, its weights beside it where one file cannot hold them."""
    import onnx

    try:
        if model.ByteSize() < ONE_FILE:
            replace_file(path, model.SerializeToString())
        else:
            _save_in_two(onnx, model, path)
    except OSError as error:
        raise BackendError(f"{path}: cannot be written ({error.strerror or error}).") from error


def _save_in_two(onnx: Any, model: Any, path: Path) -> None:
    temporary = path.with_name(f".{path.name}.partial")
    try:
        onnx.save(
            model, str(temporary), save_as_external_data=True, location=f"{path.name}.weights"
        )
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
