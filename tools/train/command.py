"""The command line that the training scripts share: epochs, seed, and where their files go."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

MODELS = Path(__file__).parents[2] / "runner" / "benchmarks" / "models"


def parser(description: str | None, *, epochs: int) -> argparse.ArgumentParser:
    """With the options that every script has."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    made.add_argument("--epochs", type=int, default=epochs)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--out", type=Path, help="write all files here, not into the package")
    return made


def places(out: Path | None, data: Path) -> tuple[Path, Path]:
    """Where the data and the models go; the folders are made.

    Args:
        out: `--out`; None: into the package.
        data: the package's file or folder of data.
    """
    models = MODELS
    if out is not None:
        data, models = out / (data.name if data.suffix else "data"), out
    (data.parent if data.suffix else data).mkdir(parents=True, exist_ok=True)
    models.mkdir(parents=True, exist_ok=True)
    return data, models


def say(text: str) -> None:
    """To standard error, as all progress is."""
    sys.stderr.write(text + "\n")
