"""What an answer settles on, whether it is right, and the score of a log."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checker.accuracy.problem import AccuracyError
from checker.accuracy.reasoning import (
    Question,
    boxed_of,
    code_of,
    letter_of,
    number_of,
    question_of,
    same_mathematics,
    score_log,
)
from tests.checker.accuracy.conftest import log_bytes

FINAL = "<|channel|>analysis<|message|>Answer: A<|end|><|channel|>final<|message|>{}<|return|>"


@pytest.mark.parametrize(
    ("text", "last", "letter"),
    [
        ("<think>The answer is B.</think>\nANSWER: (C)", "D", "C"),
        ("Final answer = D.", "D", "D"),
        ("answer: A, no, Answer: B", "D", "B"),
        ("Answer: E", "D", None),
        ("Answer: Elephant", "J", None),
        ("I would take J here", "J", "J"),
        ("no letter at all", "D", None),
        (FINAL.format("**B**"), "D", "B"),
        (FINAL.format("It is clear.\n**Answer: C**"), "D", "C"),
        (FINAL.format("nothing"), "D", "A"),
        ("", "D", None),
    ],
)
def test_letters(text: str, last: str, letter: str | None) -> None:
    assert letter_of(text, last) == letter


def test_numbers_boxes_and_code() -> None:
    assert boxed_of(r"\boxed{1} so \boxed{\frac{1}{2}}.") == r"\frac{1}{2}"
    assert boxed_of(r"\boxed{1") is None
    assert boxed_of("none") is None
    assert number_of(r"\boxed{ 042 }") == 42
    assert number_of("Answer: 12\nanswer: 13") == 13
    assert number_of("Answer: 1000") is None
    assert number_of("Answer: 1.5") is None
    assert code_of("```python\nfirst\n``` ```python\nsecond\n```") == "first"
    assert code_of(FINAL.format("```py\nprint(1)\n```")) == "print(1)"
    assert code_of("print(1)") is None


@pytest.mark.parametrize(
    ("found", "right", "same"),
    [
        (r"\dfrac12", r"\frac{1}{2}", True),
        ("0.5", r"\frac{1}{2}", True),
        ("2/4", "1/2", False),  # not reduced
        ("10/2", "5", False),
        ("5.0", "5", True),
        ("1,000", "1000", True),
        ("(1,234)", "(1, 234)", True),
        ("(1,234)", "1234", False),
        ("[0.50, 1]", "[1/2,1]", True),
        ("(1,2)", "[1,2]", False),
        (r"90^\circ", "90", True),
        (r"12\text{ cm}", "12", True),
        (r"\text{Evelyn}", "evelyn", True),
        ("x = 5", "5", True),
        (r"\left(3, \frac{\pi}{2}\right)", r"(3,\frac{\pi}{2})", True),
        ("x+1", "1+x", False),  # no computer algebra
        ("1/0", "1/0", True),
        ("1/0", "0/0", False),
        ("", "", False),
    ],
)
def test_mathematics(found: str, right: str, same: bool) -> None:
    assert same_mathematics(found, right) is same


@pytest.mark.parametrize(
    "text",
    ["ANSWER" + " " * 300_000, "\\boxed{" * 60_000, "```python" * 50_000, "**a" * 150_000,
     "<|channel|>final<|message|>" * 20_000, "\\frac" * 80_000, "\\text{" * 80_000],
)  # fmt: skip
def test_hostile_answers_take_no_time(text: str) -> None:
    began = time.process_time()
    letter_of(text, "J")
    boxed_of(text)
    number_of(text)
    code_of(text)
    same_mathematics(text, text)
    assert time.process_time() - began < 3


PIECES = st.sampled_from(
    ["\\boxed{", "}", "{", "\\frac", "12", "/", ",", "(", ")", "Answer: ", "B", "**", "```python", "```",
     "<|channel|>final<|message|>", "<|return|>", " ", "\n", "-", ".", "\\text{", "x=", "\x00", "é"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join), st.lists(PIECES, max_size=12).map("".join))
def test_whatever_an_answer_is(text: str, right: str) -> None:
    """Every text is judged: a choice among the letters, a number in range, yes or no."""
    assert letter_of(text, "D") in (None, *"ABCD")
    assert letter_of(text, "J") in (None, *"ABCDEFGHIJ")
    assert number_of(text) in (None, *range(1000))
    for found in (boxed_of(text), code_of(text)):
        assert found is None or found in text
    assert same_mathematics(text, right) in (True, False)


QUESTIONS = [
    Question("aime25", "7"),
    Question("aime25", "8"),
    Question("gpqa_diamond", "B"),
    Question("livecodebench_v6", "q3"),
    Question("livecodebench_v6", "q4"),
]
WORDS = {
    0: "\\boxed{7}",
    1: "Answer: B",
    2: "```python\nprint(1)\n```",
    3: "no code",
    4: "\\boxed{9}",
}


def score(grade: object = None) -> object:
    answers = [0, 4, 1, 2, 3]
    raw = log_bytes([(k, v.to_bytes(4, "little") * 1) for k, v in enumerate(answers)])
    import io

    return score_log(
        io.BytesIO(raw),
        QUESTIONS,
        decode=lambda ids: WORDS[ids[0]],
        grade_code=grade,  # type: ignore[arg-type]
    )


def test_sets_weigh_by_their_repeats() -> None:
    """One of two of aime25 (each 1/8), gpqa right (1/5), one program (1/3) not run, one not there."""
    found = score()
    whole = 2 / 8 + 1 / 5 + 2 / 3
    assert found.exact_match == pytest.approx(100 * (1 / 8 + 1 / 5) / whole)  # type: ignore[attr-defined]
    assert found.highest == pytest.approx(100 * (1 / 8 + 1 / 5 + 1 / 3) / whole)  # type: ignore[attr-defined]
    assert found.notes == [  # type: ignore[attr-defined]
        "1 of 5 answers are code that was not run and count as wrong: exact_match is between 29.1045 "
        "and 58.9552; --grader COMMAND runs them"
    ]


def test_code_by_a_grader() -> None:
    asked: list[object] = []

    def grade(answers: object) -> list[bool]:
        asked.append(answers)
        return [True]

    found = score(grade)
    assert asked == [[("q3", "print(1)")]]
    assert found.exact_match == found.highest == pytest.approx(58.9552, abs=1e-4)  # type: ignore[attr-defined]
    assert found.notes == []  # type: ignore[attr-defined]
    with pytest.raises(AccuracyError, match="found 0 verdicts from the grader of code; expected 1"):
        score(lambda answers: [])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"dataset": "gpqa"}, "row 3 has no dataset and ground_truth or gt_output"),
        ({"ground_truth": "A"}, "row 3 has no dataset"),
        ({"dataset": "trivia", "ground_truth": "A"}, "is of set 'trivia'; expected one of gpqa"),
        ({"dataset": "gpqa", "ground_truth": 1.5}, "row 3 has no dataset"),
    ],
)
def test_rows_that_are_no_questions(row: dict[str, object], said: str) -> None:
    with pytest.raises(AccuracyError, match=said):
        question_of(row, "row 3")
    assert question_of({"dataset": "AIME", "gt_output": 5}, "") == Question("aime", "5")
