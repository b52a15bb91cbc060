"""BLEU, SQuAD, ROUGE and WER."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
import sacrebleu

from checker.accuracy import bleu, rouge, squad, wer
from checker.accuracy.problem import AccuracyError
from tests.checker.accuracy.conftest import Writer

TOKENISED = [
    "Das ist ein kleines Haus .",
    "&quot; Wo wohnst du ? &quot; , fragte er .",
    "Der Mann , den ich sah , ging fort .",
]
ANSWERS = [
    "Das ist ein kleines Haus .",
    "&quot; Wo lebst du ? &quot; , fragte sie .",
    "Der Mann , den ich sah , ging .",
]


def test_bleu_by_hand() -> None:
    """4/5, 3/4, 2/3 and 1/2 of the n-grams are right, no brevity penalty: 0.2 ** 0.25."""
    score = bleu.score_texts(["a b c d e"], ["a b c d f"], tokenize="none")
    assert score.bleu == pytest.approx(100 * 0.2**0.25, abs=1e-9)


def test_bleu_of_a_log_equals_sacrebleu(write_log: Writer) -> None:
    path = write_log([(at, text.encode()) for at, text in enumerate(ANSWERS)][::-1])
    score = bleu.score_log(path, TOKENISED)
    wanted = sacrebleu.corpus_bleu(
        ANSWERS, [TOKENISED], tokenize="none", smooth_method="none", force=True
    )
    assert score.bleu == wanted.score
    assert (score.tokenize, score.sentences, score.problems) == ("none", 3, [])
    assert "tok:none" in score.signature and "smooth:none" in score.signature
    assert score.line() == f"BLEU: {wanted.score:.3f}"


def test_bleu_of_plain_text_uses_13a(write_log: Writer) -> None:
    plain = ["Das ist ein Haus.", "Wo wohnst du?", "Er ging fort, weil es regnete."]
    found = ["Das ist ein Haus.", "Wo lebst du?", "Er ging fort, weil es schneite."]
    score = bleu.score_log(write_log([(at, t.encode()) for at, t in enumerate(found)]), plain)
    assert score.tokenize == "13a"
    assert score.bleu == sacrebleu.corpus_bleu(found, [plain]).score


def test_bleu_irregular(write_log: Writer, tmp_path: Path) -> None:
    path = write_log([(0, b"\xff\xfe"), (1, b"ein@@ fach"), (2, b"x" * 70_000)])
    score = bleu.score_log(path, [*TOKENISED, "."])
    assert {p.kind for p in score.problems} == {"not-utf-8", "bpe", "long-answer", "missing"}
    references = tmp_path / "references"
    references.write_text("Ein@@ fach so .\nB\n")
    assert bleu.read_references(references) == ["Einfach so .", "B"]
    for call in (
        lambda: bleu.score_texts(["a"], []),
        lambda: bleu.score_log(write_log([]), TOKENISED),
        lambda: bleu.score_log(write_log([]), []),
        lambda: bleu.read_references(tmp_path / "absent"),
    ):
        with pytest.raises(AccuracyError):
            call()


CONTEXT = "The quick brown fox jumps over the lazy dog in Paris."
SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        {"id": "q0", "question": "Who?", "answers": [{"text": "brown fox"}]},
                        {
                            "id": "q1",
                            "question": "Where?",
                            "answers": [{"text": "Paris"}, {"text": "in Paris"}],
                        },
                    ],
                }
            ]
        }
    ]
}


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "dev-v1.1.json"
    path.write_text(json.dumps(SQUAD))
    return path


def test_squad_by_hand(dataset: Path) -> None:
    """'the quick fox' shares 1 of 2 and 2 words with 'brown fox': F1 = 2 * 1 / 4."""
    questions = squad.read_dataset(dataset)
    score = squad.score_answers({"q0": "the quick fox", "q1": "Paris!"}, questions)
    assert score.f1 == pytest.approx(100 * (0.5 + 1) / 2)
    assert score.exact_match == 50.0
    assert squad.score_answers({}, questions).f1 == 0.0
    assert squad.normalise("The  Fox, a 'dog'") == "fox dog"


def test_squad_answers_in_the_log(dataset: Path, write_log: Writer) -> None:
    questions = squad.read_dataset(dataset)
    score = squad.score_log(write_log([(1, b"in Paris"), (0, b"brown fox")]), questions)
    assert (score.f1, score.exact_match, score.missing) == (100.0, 100.0, 0)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_squad_logits(
    dataset: Path, write_log: Writer, tmp_path: Path, transposed: bool, dtype: str
) -> None:
    words = [(0, 3), (4, 9), (10, 15), (16, 19), (20, 25), (26, 30), (31, 34), (35, 39)]
    words += [(40, 43), (44, 46), (47, 52)]
    offsets = [None, None, None, *words, None]
    windows = [{"id": "q0", "offsets": offsets}, {"id": "q1", "offsets": offsets}]
    windows.append({"id": "q1", "offsets": offsets, "context_max": [False] * len(offsets)})
    features = tmp_path / "features.jsonl"
    features.write_text("\n".join(map(json.dumps, windows)))

    def logits(start: int, end: int, high: float) -> bytes:
        pairs = np.zeros((len(offsets), 2), dtype)
        pairs[0] = high + 9  # a token that is not context never wins
        pairs[start, 0] = pairs[end, 1] = high
        return (pairs.T if transposed else pairs).tobytes()

    path = write_log([(0, logits(5, 6, 4)), (1, logits(13, 13, 4)), (2, logits(3, 4, 9))])
    score = squad.score_log(
        path,
        squad.read_dataset(dataset),
        squad.read_features(features),
        dtype=dtype,  # type: ignore[arg-type]
        transposed=transposed,
    )
    assert (score.f1, score.exact_match, score.problems) == (100.0, 100.0, [])


def test_squad_irregular(dataset: Path, write_log: Writer, tmp_path: Path) -> None:
    questions = squad.read_dataset(dataset)
    features = tmp_path / "features.jsonl"
    features.write_text(json.dumps({"id": "q0", "offsets": [[0, 3], [4, 9]]}))
    score = squad.score_log(write_log([(0, b"\x00" * 5)]), questions, squad.read_features(features))
    assert [p.kind for p in score.problems] == ["logits-size"]
    features.write_text('{"id": 1}')
    for call in (
        lambda: squad.read_features(features),
        lambda: squad.read_dataset(features),
        lambda: squad.score_answers({}, []),
    ):
        with pytest.raises(AccuracyError):
            call()


def test_wer_by_hand(write_log: Writer) -> None:
    """'the cat sat' for 'a cat sat down': one substitution, one deletion, of four words."""
    assert wer.word_errors(["the", "cat", "sat"], ["a", "cat", "sat", "down"]) == 2
    assert wer.word_errors([], ["a", "b"]) == 2 and wer.word_errors(["a"], []) == 1
    score = wer.score_texts(["the cat sat"], ["A cat sat down"])
    assert (score.wer, score.accuracy, score.errors, score.words) == (50.0, 50.0, 2, 4)
    assert wer.word_errors(["a"] * 12_000, ["a"]) == 11_999
    with pytest.raises(AccuracyError):
        wer.score_texts([""], [""])


@pytest.mark.parametrize("dtype", ["<i8", "<i4", "i1"])
def test_wer_of_a_log(write_log: Writer, dtype: str) -> None:
    said = ["the cat sat", "it's a dog"]
    records = [
        (at, np.array([wer.RNNT_ALPHABET.index(c) for c in text], dtype).tobytes())
        for at, text in enumerate(["the bat sat", "it's a dog"])
    ]
    score = wer.score_log(write_log(records), said)
    assert score.errors == 1 and score.words == 6
    assert score.dtype == np.dtype(dtype).name
    assert score.line().startswith("Word Error Rate: 16.66")


def test_wer_distance_equals_a_plain_table() -> None:
    random = np.random.default_rng(3)
    for _ in range(60):
        one = [str(x) for x in random.integers(0, 4, random.integers(0, 12))]
        two = [str(x) for x in random.integers(0, 4, random.integers(0, 12))]
        table = [[i + j for j in range(len(two) + 1)] for i in range(len(one) + 1)]
        for i in range(1, len(one) + 1):
            for j in range(1, len(two) + 1):
                table[i][j] = min(
                    table[i - 1][j] + 1,
                    table[i][j - 1] + 1,
                    table[i - 1][j - 1] + (one[i - 1] != two[j - 1]),
                )
        assert wer.word_errors(one, two) == table[-1][-1]


def test_transcripts(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"transcript": "a b"}, {"text": "c"}]))
    assert wer.read_transcripts(path) == ["a b", "c"]
    path.write_text("[1]")
    with pytest.raises(AccuracyError):
        wer.read_transcripts(path)


def test_rouge_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(AccuracyError, match=r'rouge-score: pip install "assay\[accuracy\]"'):
        rouge.score_texts(["a"], ["a"])


def test_rouge_of_token_ids(write_log: Writer) -> None:
    pytest.importorskip("rouge_score", reason="rouge-score is not installed")
    path = write_log([(0, struct.pack("<3q", 5, 6, 7)), (1, struct.pack("<2q", 8, 9))])
    text = {5: "the", 6: "cat", 7: "sat", 8: "a", 9: "dog"}

    def decode(ids: object) -> str:
        return " ".join(text[at] for at in ids)  # type: ignore[attr-defined]

    score = rouge.score_log(path, ["the cat sat", "a cat"], decode=decode)
    assert score.rouge1 == pytest.approx(75.0)
    assert score.tokens_per_sample == 2.5 and score.dtype == "int64"


def test_token_width() -> None:
    ids = [1, 128_000, 7, 9]
    assert rouge.token_width([struct.pack("<4q", *ids)]) == "int64"
    assert rouge.token_width([struct.pack("<4i", *ids)]) == "int32"
    assert rouge.tokens(struct.pack("<4i", *ids) + b"x", "int32").tolist() == ids
