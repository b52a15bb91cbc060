"""WMT16 English to German: newstest2014, split into byte pairs, or plain for SentencePiece."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runner.datasets.text import SentencePiece, Tokenizer, Translation, Vocabulary, join_bpe
from runner.errors import DatasetError

BPE_SOURCE, BPE_REFERENCES = "newstest2014.tok.bpe.32000.en", "newstest2014.tok.bpe.32000.de"
PLAIN = (("newstest2014.en", "newstest2014.de"), ("source.txt", "references.txt"))
SOURCE = (
    "newstest2014 as GNMT takes it is made by the reference's download_dataset script from WMT16's "
    "English-German data: newstest2014.tok.bpe.32000.en and .de with vocab.bpe.32000 (or "
    "vocab.bpe.32000.en and .de). With a SentencePiece model (*.model) instead of a vocabulary, "
    "newstest2014.en and .de are plain text. Put them into one folder and name it as the data; "
    "vocabularies may also lie in the model's folder."
)

Marks = Literal["none", "end", "both"]


@dataclass(frozen=True)
class Corpus:
    """The files of a folder and how they are read.

    Attributes:
        source, target: tokenisers of the two languages.
        tokenize: how BLEU splits words: "none" for text that is split already.
    """

    sentences: Path
    references: Path
    source: Tokenizer
    target: Tokenizer
    tokenize: Literal["none", "13a"]

    def open(self, input_name: str, length_name: str | None, marks: Marks = "end") -> Translation:
        """The data set, for a model with these inputs."""
        return Translation(
            source=self.sentences,
            references=self.references,
            tokenizer=self.source,
            input_name=input_name,
            length_name=length_name,
            marks=marks,
        )


def find_corpus(data: Path | None, model: Path | None = None) -> Corpus:
    """What lies in the data's folder, with vocabularies from there or from the model's folder.

    Raises:
        DatasetError: a file is absent; the message names it and where it comes from.
    """
    if data is None:
        raise DatasetError(f"found no folder of newstest2014, because none was named. {SOURCE}")
    places = [data]
    if model is not None:
        places.append(model if model.is_dir() else model.parent)
    pieces = [path for place in places for path in sorted(place.glob("*.model"))]
    plain = [pair for pair in PLAIN if (data / pair[0]).is_file()]
    if pieces and plain:
        tokenizer = SentencePiece(pieces[0])
        names = plain[0]
        _require(data / names[1])
        return Corpus(
            sentences=data / names[0],
            references=data / names[1],
            source=tokenizer,
            target=tokenizer,
            tokenize="13a",
        )
    _require(data / BPE_SOURCE)
    _require(data / BPE_REFERENCES)
    return Corpus(
        sentences=data / BPE_SOURCE,
        references=data / BPE_REFERENCES,
        source=_vocabulary(places, "en"),
        target=_vocabulary(places, "de"),
        tokenize="none",
    )


def _vocabulary(places: list[Path], language: str) -> Vocabulary:
    names = (f"vocab.bpe.32000.{language}", "vocab.bpe.32000")
    for place in places:
        for name in names:
            if (place / name).is_file():
                return Vocabulary.read(
                    place / name, str.split, join_bpe, add_special=name == names[1]
                )
    raise DatasetError(f"{places[0] / names[0]}: found no such file, nor {names[1]}. {SOURCE}")


def _require(path: Path) -> None:
    if not path.is_file():
        raise DatasetError(f"{path}: found no such file. {SOURCE}")
