"""ONNX files written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runner.errors import BackendError

# Protobuf ends at 2 GiB; larger weights go into a file beside the model.
ONE_FILE = 1_500_000_000


def save(model: Any, path: Path) -> None:
    """Write a model, its weights beside it where one file cannot hold them."""
    import onnx

    temporary = path.with_name(f".{path.name}.partial")
    try:
        if model.ByteSize() < ONE_FILE:
            temporary.write_bytes(model.SerializeToString())
        else:
            onnx.save(
                model,
                str(temporary),
                save_as_external_data=True,
                location=f"{path.name}.weights",
            )
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise BackendError(f"{path}: cannot be written ({error.strerror or error}).") from error
