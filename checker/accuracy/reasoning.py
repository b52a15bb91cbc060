"""Exact match of reasoning: multiple choice, mathematics, AIME's numbers, and code.

An answer's text is searched for what it settles on: a letter, the last ``\\boxed{…}``, a number, a
block of Python. Mathematics is compared as text after its LaTeX has been put into one form, and as
numbers; without computer algebra, so that ``x+1`` is not ``1+x``. Code is run by nothing here: a
grader of the caller's may do it, else those answers are not judged and count as wrong, and
``highest`` is what the score would be were all of them right.

Where a set is asked several times its answers weigh less: the score is the sum over the sets of
right answers / repeats, against the same sum of all answers.

Source: official scorers of DeepSeek-R1 (v5.1 on) and GPT-OSS-120B (v6.0 on).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, Final

from checker.accuracy import rouge
from checker.accuracy.log import Progress, read_samples
from checker.accuracy.problem import AccuracyError, Problems
from checker.accuracy.score import LogScore
from checker.accuracy.table import first_of, read_table
from checker.accuracy.tokenizer import Decode

REPEATS: Final[dict[str, int]] = {"aime25": 8, "gpqa_diamond": 5, "livecodebench_v6": 3}
"""How often GPT-OSS-120B's accuracy set asks each question; other sets ask once."""
ANSWERS: Final = ("ground_truth", "gt_output")
SET: Final = "dataset"
CODE: Final = "livecodebench"
MAX_TEXT: Final = 1 << 20

GradeCode = Callable[[Sequence[tuple[str, str]]], Sequence[bool]]
"""(question's id, code) of each answer to whether it passes all tests of the question."""


@dataclass(frozen=True, slots=True)
class Question:
    """A set's name, and its right answer: a letter, a number, LaTeX, or the id of a code question."""

    set: str
    answer: str


@dataclass(slots=True)
class Part:
    """Answers of one set, counted: those not judged are among the wrong ones."""

    right: int = 0
    total: int = 0
    not_judged: int = 0


@dataclass(frozen=True, slots=True)
class ReasoningScore(LogScore):
    """Exact match in percent, and the tokens of an answer in the mean; tokens as logged.

    ``parts`` are the counts by set; ``highest`` is the score were every answer that was not judged
    right.
    """

    exact_match: float
    highest: float
    tokens_per_sample: float
    samples: int
    parts: Mapping[str, Part] = field(default_factory=dict)

    @property
    def count(self) -> int | None:
        return self.samples

    @property
    def not_judged(self) -> int:
        """Answers with code that nobody ran."""
        return sum(part.not_judged for part in self.parts.values())

    @property
    def notes(self) -> list[str]:
        """How far the score may be from the right one because code was not run."""
        if not self.not_judged:
            return []
        return [
            f"{self.not_judged:,} of {self.samples:,} answers are code that was not run and count as "
            f"wrong: exact_match is between {self.exact_match:.4f} and {self.highest:.4f}; --grader COMMAND runs "
            "them"
        ]

    def line(self) -> str:
        """The line that rounds expect in accuracy.txt."""
        return (
            f"{{'exact_match': {self.exact_match:.4f}, 'tokens_per_sample': "
            f"{self.tokens_per_sample:.4f}, 'num-samples': {self.samples}}}"
        )


def read_questions(file: Path) -> list[Question]:
    """The questions of a table, in the order of its rows.

    Raises ``AccuracyError`` where one has no set or right answer, or a set is not known.
    """
    return [question_of(row, f"{file}: row {at}") for at, row in enumerate(read_table(file))]


def question_of(row: Mapping[str, object], where: str) -> Question:
    """The question of one row. Raises as ``read_questions`` does; ``where`` begins the message."""
    name, answer = first_of(row, (SET,)), first_of(row, ANSWERS)
    if not isinstance(name, str) or not isinstance(answer, (str, int)):
        raise AccuracyError(
            f"{where} has no {SET} and {' or '.join(ANSWERS)}; expected the name of its set and the "
            "right answer."
        )
    _matcher(name, where)
    return Question(name.lower(), str(answer))


def score_log(
    source: str | Path | BinaryIO,
    questions: Sequence[Question],
    *,
    decode: Decode,
    grade_code: GradeCode | None = None,
    sha256: bool = False,
    progress: Progress | None = None,
) -> ReasoningScore:
    """Exact match of an accuracy log of token ids; ``questions[qsl_idx]`` is what was asked.

    Raises ``AccuracyError`` when the log is not a file or holds no answer.
    """
    samples = read_samples(source, expected=len(questions), progress=progress, sha256=sha256)
    problems = Problems()
    raw = {record.qsl_idx: record.data for record in samples}
    if not raw:
        raise AccuracyError("the log holds no answer to any of the questions")
    dtype = rouge.token_width([raw[index] for index in sorted(raw)[:1000]])
    parts: defaultdict[str, Part] = defaultdict(Part)
    code: list[tuple[Question, str]] = []
    count = 0
    for index in sorted(raw):
        ids, question = rouge.tokens(raw[index], dtype), questions[index]
        count += len(ids)
        text = decode(ids.tolist())
        if len(text) > MAX_TEXT:
            problems.add(
                "long-answer",
                f"an answer of {len(text)} characters was cut to its last {MAX_TEXT}",
                index=index,
            )
            text = text[-MAX_TEXT:]
        part = parts[question.set]
        part.total += 1
        if CODE not in question.set:
            part.right += _matcher(question.set)(text, question.answer)
        elif (found := code_of(text)) is not None:
            code.append((question, found))
    _grade(code, grade_code, parts)
    whole = sum(p.total / REPEATS.get(name, 1) for name, p in parts.items())
    right = sum(p.right / REPEATS.get(name, 1) for name, p in parts.items())
    unknown = sum(p.not_judged / REPEATS.get(name, 1) for name, p in parts.items())
    return ReasoningScore(
        exact_match=100.0 * right / whole,
        highest=100.0 * (right + unknown) / whole,
        tokens_per_sample=count / len(raw),
        samples=len(raw),
        parts=dict(parts),
    ).read_from(samples, problems)


def _grade(
    code: Sequence[tuple[Question, str]], grade: GradeCode | None, parts: Mapping[str, Part]
) -> None:
    if grade is None:
        for question, _ in code:
            parts[question.set].not_judged += 1
        return
    verdicts = grade([(question.answer, text) for question, text in code]) if code else []
    if len(verdicts) != len(code):
        raise AccuracyError(
            f"found {len(verdicts):,} verdicts from the grader of code; expected {len(code):,}"
        )
    for (question, _), passed in zip(code, verdicts, strict=True):
        parts[question.set].right += passed


# --- what an answer settles on ---

_FINAL = re.compile(
    r"<\|channel\|>\s{0,9}final[^<]{0,99}<\|message\|>(.*?)(?:<\|return\|>|\Z)", re.DOTALL
)
_BOLD = re.compile(r"\*\*([^*\n]{1,999})\*\*")
_NUMBER_BOXED = re.compile(r"\\boxed\{\s{0,9}(\d{1,9})\s{0,9}\}")
_NUMBER_SAID = re.compile(r"Answer:\s{0,9}(\d{1,9})\b(?!\.\d)", re.IGNORECASE)
_PYTHON = re.compile(r"```python(.*?)```", re.DOTALL)
_BLOCK = re.compile(r"```(?:py\b)?(.*?)```", re.DOTALL)


def final_of(text: str) -> str | None:
    """What follows the mark of the final channel, in answers of GPT-OSS; None in others."""
    found = _FINAL.search(text)
    return found[1].strip() if found else None


def letter_of(text: str, last: str) -> str | None:
    """The letter, A to ``last``, that an answer chooses."""
    final = final_of(text)
    letters = f"[A-{last}a-{last.lower()}]"
    if final is not None:
        final = _BOLD.sub(r"\1", final)
        for pattern in (
            rf"[^A-Za-z]{{0,99}}({letters})(?![A-Za-z])",
            rf".*?\banswer\b\s{{0,9}}[:.]?\s{{0,9}}({letters})\b",
        ):
            found = re.match(pattern, final, re.IGNORECASE | re.DOTALL)
            if found:
                return found[1].upper()
    said = re.findall(
        rf"\b(?i:answer)\b\s{{0,9}}[:=]?\s{{0,9}}\(?\s{{0,9}}({letters})(?![A-Za-z])", text
    )
    if not said and last == "J":
        said = re.findall(rf"\b({letters})\b", text if final is None else final)
    return said[-1].upper() if said else None


def boxed_of(text: str) -> str | None:
    """What is in the last ``\\boxed{…}``."""
    start = text.rfind("\\boxed{")
    depth = 0
    for at in range(start + 6, len(text)) if start >= 0 else ():
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if not depth:
            return text[start + 7 : at].strip()
    return None


def number_of(text: str) -> int | None:
    """AIME's answer, 0 to 999: the last boxed number, or the last after "Answer:"."""
    found = _NUMBER_BOXED.findall(text) or _NUMBER_SAID.findall(text)
    return int(found[-1]) if found and int(found[-1]) <= 999 else None


def code_of(text: str) -> str | None:
    """The program that an answer gives."""
    final = final_of(text)
    if final is not None:
        blocks = _PYTHON.findall(final) or _BLOCK.findall(final)
        if blocks:
            return str(blocks[-1]).strip()
    found = _PYTHON.search(text)
    return found[1].strip() if found else None


# --- whether it is right ---

Matcher = Callable[[str, str], bool]


def _is_letter(last: str) -> Matcher:
    return lambda text, answer: letter_of(text, last) == answer.strip().upper()


def _is_number(text: str, answer: str) -> bool:
    found = number_of(text)
    return found is not None and answer.strip().isdecimal() and found == int(answer)


def _is_boxed(text: str, answer: str) -> bool:
    found = boxed_of(text)
    return found is not None and same_mathematics(found, answer)


_MATCHERS: Final[dict[str, Matcher]] = {
    "gpqa": _is_letter("D"),
    "mmlu_pro": _is_letter("J"),
    "math500": _is_boxed,
    "aime": _is_number,
    CODE: lambda text, answer: False,
}


def _matcher(name: str, where: str = "") -> Matcher:
    found = next((match for key, match in _MATCHERS.items() if key in name.lower()), None)
    if found is None:
        raise AccuracyError(
            f"{where} is of set {name[:60]!r}; expected one of {', '.join(_MATCHERS)}."
        )
    return found


_SAME = (
    (re.compile(r"\\(?:left|right|displaystyle|,|;|!|:| |quad|qquad)(?![a-zA-Z])|[$~]"), ""),
    (re.compile(r"\\[dt]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\\frac\s?(\d)\s?(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\sqrt\s?(\w)"), r"\\sqrt{\1}"),
    (re.compile(r"\^\s?(?:\\circ|\{\\circ\})|\\degree|\\?%"), ""),
    (re.compile(r"\\(?:text|mathrm|textbf|mbox|mathbf)\{([^{}]{0,99})\}\Z"), r"\1"),
    (re.compile(r"\^\{(\w)\}"), r"^\1"),
    (re.compile(r"\s"), ""),
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_UNIT = re.compile(r"(?<=[\d}])\s*\\(?:text|mathrm|mbox)\{[^{}]{0,99}\}(?:\^\{?\d\}?)?\Z")
_NAMED = re.compile(r"[a-zA-Z]\s?=\s?")
_RATIO = re.compile(r"(-?)(?:\\frac\{(\d{1,18})\}\{(\d{1,18})\}|(\d{1,18})/(\d{1,18}))\Z")
_DECIMAL = re.compile(r"-?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})\Z")


def same_mathematics(found: str, right: str) -> bool:
    """Whether two answers in LaTeX are the same text in one form, or the same number.

    A fraction must be reduced, and a whole number must be given as one, as the official grader has
    it; lists in brackets are compared part by part.
    """
    one, two = _form(found), _form(right)
    if one == two:
        return bool(one)
    if one[:1] == two[:1] and one[:1] in ("(", "[") and one[-1:] == two[-1:]:
        ours, theirs = one[1:-1].split(","), two[1:-1].split(",")
        return len(ours) == len(theirs) > 1 and all(map(_same_number, ours, theirs))
    return _same_number(one, two)


def _form(text: str) -> str:
    text = _UNIT.sub("", text[:1000].strip().rstrip("."))
    for pattern, new in _SAME:
        text = pattern.sub(new, text)
    if not text.startswith(("(", "[")):  # "(1,234)" is a pair
        text = _THOUSANDS.sub("", text)
    return _NAMED.sub("", text, count=1).casefold() if _NAMED.match(text) else text.casefold()


def _same_number(one: str, two: str) -> bool:
    if one == two:
        return bool(one)
    ours, theirs = _value(one), _value(two)
    if ours is None or ours != theirs:
        return False
    both_ratios = _RATIO.match(one) and _RATIO.match(two)
    return not both_ratios and (theirs.denominator > 1 or bool(_DECIMAL.match(one)))


def _value(text: str) -> Fraction | None:
    if _DECIMAL.match(text):
        return Fraction(text)
    found = _RATIO.match(text)
    if not found:
        return None
    above, below = found[2] or found[4], found[3] or found[5]
    if not int(below):
        return None
    return Fraction(int(above), int(below)) * (-1 if found[1] else 1)
