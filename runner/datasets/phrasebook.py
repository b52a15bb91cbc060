"""The phrasebook: 500 English sentences with German translations that travel with the package.

The text is synthetic: `runner/datasets/phrases.py` made both sides from templates, and
`runner/benchmarks/train_phrasebook.py` wrote the files.
"""

from __future__ import annotations

from pathlib import Path

from runner.datasets.phrases import join, split
from runner.datasets.text import Translation, Vocabulary

DATA = Path(__file__).parent / "data" / "phrasebook"


def source_vocabulary(model: Path) -> Vocabulary:
    """The English words of a model's folder."""
    return Vocabulary.read(model / "vocabulary.en.txt", split, join)


def target_vocabulary(model: Path) -> Vocabulary:
    """The German words of a model's folder."""
    return Vocabulary.read(model / "vocabulary.de.txt", str.split, join)


def open_phrasebook(model: Path, path: Path | None = None) -> Translation:
    """The sentences as numbers of that model's vocabulary.

    Args:
        path: another folder with `source.txt` and `references.txt`; the packaged one when None.

    Raises:
        DatasetError: a file is absent.
    """
    folder = path or DATA
    return Translation(folder / "source.txt", folder / "references.txt", source_vocabulary(model))
