"""Scenes, the phrasebook's grammar, vocabularies and WMT folders."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from runner.datasets import phrases
from runner.datasets.digits import Digits
from runner.datasets.phrasebook import DATA, source_vocabulary, target_vocabulary
from runner.datasets.scenes import CANVAS, Scenes, coco_annotations, draw_many, enlarge
from runner.datasets.text import SentencePiece, Translation, Vocabulary, join_bpe
from runner.datasets.wmt import find_corpus
from runner.errors import DatasetError


def test_scenes_are_what_their_annotations_say() -> None:
    dataset, digits = Scenes(), Digits()
    assert len(dataset) == 200
    truth = json.loads(dataset.annotation_file.read_text())
    drawn = draw_many(200, truth["info"]["seed"], digits.images, digits.labels)
    assert coco_annotations(drawn, truth["info"]["seed"]) == truth
    for scene in drawn:
        assert scene.image.shape == (CANVAS, CANVAS) and scene.image.dtype == np.uint8
        assert 1 <= len(scene.boxes) <= 5 and len(scene.digits) == len(scene.boxes)
        assert (scene.boxes[:, :2] >= 0).all() and (scene.boxes[:, 2:] <= CANVAS).all()
        assert (scene.boxes[:, 2:] > scene.boxes[:, :2]).all()
    box = dataset.truth(3)
    assert np.allclose(box[:, :4] * CANVAS, drawn[3].boxes) and (box[:, 4] >= 1).all()


def test_enlarging_is_linear_and_whole() -> None:
    flat = enlarge(np.full((8, 8), 16), 31, 16)
    assert (flat == 255).all()
    ramp = enlarge(np.tile(np.arange(8), (8, 1)), 28, 7)
    centres = np.clip((np.arange(28) + 0.5) * 8 / 28 - 0.5, 0, 7)
    assert (ramp == np.floor(centres / 7 * 255 + 1e-9)[None]).all()


def test_scenes_of_other_pictures_are_refused(tmp_path: Path) -> None:
    truth = json.loads(Scenes().annotation_file.read_text())
    truth["info"]["seed"] += 1
    path = tmp_path / "annotations.json"
    path.write_text(json.dumps(truth))
    with pytest.raises(DatasetError, match="found images with SHA-256"):
        Scenes(tmp_path)
    path.write_text("{}")
    with pytest.raises(DatasetError, match=r"annotations\.json"):
        Scenes(path)


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("the red bag", "die rote Tasche"),
        ("a red bag", "eine rote Tasche"),
        ("the large key", "den großen Schlüssel"),
        ("a large key", "einen großen Schlüssel"),
        ("my small book", "mein kleines Buch"),
        ("an old umbrella", "einen alten Regenschirm"),
    ],
)
def test_the_grammar_knows_the_accusative(english: str, german: str) -> None:
    grammar = phrases.Grammar(random.Random(0), held_out=True)
    (noun,) = [row for row in phrases.GOODS if row[0] == english.split()[-1]]
    drawn = dict(grammar._noun([noun], "acc") for _ in range(3000))
    assert drawn[english] == german


def test_drawn_sentences_are_different_and_new() -> None:
    known = phrases.draw(500, 1, held_out=False)
    texts = frozenset(" ".join(english) for english, _ in known)
    more = phrases.draw(200, 2, held_out=True, known=texts)
    assert len(texts) == 500
    assert not texts & {" ".join(english) for english, _ in more}
    assert phrases.draw(500, 1, held_out=False) == known
    assert phrases.join(["wo", "ist", "das", "Buch", "?"]) == "Wo ist das Buch?"
    assert phrases.split("Where is my key, please?") == [
        "where",
        "is",
        "my",
        "key",
        ",",
        "please",
        "?",
    ]


def test_the_packaged_phrasebook_is_covered_by_the_vocabularies() -> None:
    from runner.benchmarks.phrasebook import PHRASEBOOK

    for folder in PHRASEBOOK.models.values():
        english, german = source_vocabulary(folder), target_vocabulary(folder)
        sources = (DATA / "source.txt").read_text("utf-8").splitlines()
        references = (DATA / "references.txt").read_text("utf-8").splitlines()
        assert len(sources) == len(references) == 500
        assert not any(english.unknown in english.encode_text(text) for text in sources)
        words = {word.strip(".,?") for text in references for word in text.split()}
        known = set(german.words) | {word[:1].upper() + word[1:] for word in german.words}
        assert not words - known


def test_vocabularies(tmp_path: Path) -> None:
    path = tmp_path / "vocab"
    path.write_text("<unk>\n<s>\n</s>\nhaus@@\ntür\n", "utf-8")
    bpe = Vocabulary.read(path, str.split, join_bpe)
    assert (bpe.unknown, bpe.start, bpe.end, bpe.pad) == (0, 1, 2, 2)
    assert bpe.encode_text("haus@@ tür zu") == [3, 4, 0, 2]
    assert bpe.decode_text([3, 4, 4]) == "haustür tür"
    path.write_text("haus@@\ntür\n", "utf-8")
    assert Vocabulary.read(path, add_special=True).pad == 0
    for content in ("a\nb\n", "<unk>\n<s>\n</s>\na\na\n"):
        path.write_text(content)
        with pytest.raises(DatasetError, match="expected a vocabulary"):
            Vocabulary.read(path)
    with pytest.raises(DatasetError, match="cannot be read"):
        Vocabulary.read(tmp_path / "absent")


def wmt_folder(folder: Path, sentences: list[str], translations: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for language, lines in (("en", sentences), ("de", translations)):
        text = "\n".join(lines) + "\n"
        (folder / f"newstest2014.tok.bpe.32000.{language}").write_text(text, "utf-8")
        words = ["<unk>", "<s>", "</s>", *sorted({w for line in lines for w in line.split()})]
        (folder / f"vocab.bpe.32000.{language}").write_text("\n".join(words) + "\n", "utf-8")


def test_wmt_in_byte_pairs(tmp_path: Path) -> None:
    wmt_folder(tmp_path, ["a ho@@ use", "a door"], ["ein Ha@@ us", "eine Tür"])
    corpus = find_corpus(tmp_path)
    assert corpus.tokenize == "none"
    dataset = corpus.open("src", "length", "both")
    feed = dataset.load([0, 1])
    assert feed["length"].tolist() == [5, 4]
    assert feed["src"].tolist() == [[1, 3, 5, 6, 2], [1, 3, 4, 2, 2]]
    assert corpus.open("src", None, "none").load([1])["src"].tolist() == [[3, 4, 2]]
    assert corpus.target.decode_text([5, 3, 7]) == "ein Haus"
    (tmp_path / "vocab.bpe.32000.de").unlink()
    with pytest.raises(DatasetError, match=r"vocab\.bpe\.32000\.de: found no such file.*WMT16"):
        find_corpus(tmp_path)
    (tmp_path / "newstest2014.tok.bpe.32000.de").write_text("one\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "vocab.bpe.32000.de").write_text("<unk>\n<s>\n</s>\none\n")
    with pytest.raises(DatasetError, match="found 2 sentences, and 1 translations"):
        find_corpus(tmp_path, tmp_path / "model").open("src", None)
    with pytest.raises(DatasetError, match=r"tok\.bpe\.32000\.en: found no such file"):
        find_corpus(tmp_path / "model")
    with pytest.raises(DatasetError, match="none was named"):
        find_corpus(None)


def test_wmt_with_sentencepiece(tmp_path: Path) -> None:
    library = pytest.importorskip("sentencepiece")
    sources = [f"the house number {n} is old" for n in range(40)]
    (tmp_path / "newstest2014.en").write_text("\n".join(sources) + "\n")
    (tmp_path / "newstest2014.de").write_text("\n".join(sources) + "\n")
    library.SentencePieceTrainer.train(
        input=str(tmp_path / "newstest2014.en"),
        model_prefix=str(tmp_path / "both"),
        vocab_size=60,
        minloglevel=9,
        hard_vocab_limit=False,
    )
    corpus = find_corpus(tmp_path)
    assert corpus.tokenize == "13a"
    numbers = corpus.source.encode_text(sources[7])
    assert numbers[-1] == corpus.source.end
    assert corpus.target.decode_text(numbers[:-1]) == sources[7]
    assert len(corpus.open("src", None)) == 40
    (tmp_path / "bad.model").write_bytes(b"none")
    with pytest.raises(DatasetError, match="no SentencePiece model"):
        SentencePiece(tmp_path / "bad.model")


def test_translation_refuses_what_does_not_belong_together(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("eins\n")
    with pytest.raises(DatasetError, match="found 2 sentences, and 1"):
        Translation(tmp_path / "a", tmp_path / "b", Vocabulary.of([["one"]]))
