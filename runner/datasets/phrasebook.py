"""The phrasebook: 500 English sentences with German translations that travel with the package.

The text is synthetic: `runner/datasets/phrases.py` made both sides from templates, and
`tools/train/phrasebook.py` wrote the files.
"""

from __future__ import annotations

from pathlib import Path

from runner.datasets.phrases import join, split, tokens_of
from runner.datasets.text import Translation, Vocabulary

DATA = Path(__file__).parent / "data" / "phrasebook"


def source_vocabulary(model: Path) -> Vocabulary:
    """The English words of a model's folder."""
    return Vocabulary.read(model / "vocabulary.en.txt", split, join)


def target_vocabulary(model: Path) -> Vocabulary:
    """The German words of a model's folder."""
    known: set[str] = set()

    def apart(text: str) -> list[str]:
        tokens = tokens_of(text)
        # A sentence begins with a capital, whatever its first word is.
        first = [token if token in known else token.lower() for token in tokens[:1]]
        return first + tokens[1:]

    vocabulary = Vocabulary.read(model / "vocabulary.de.txt", apart, join)
    known.update(vocabulary.words)
    return vocabulary


def open_phrasebook(model: Path, path: Path | None = None) -> Translation:
    """The sentences as numbers of that model's vocabulary.

    Args:
        path: another folder with `source.txt` and `references.txt`; the packaged one when None.

    Raises:
        DatasetError: a file is absent.
    """
    folder = path or DATA
    return Translation(folder / "source.txt", folder / "references.txt", source_vocabulary(model))
