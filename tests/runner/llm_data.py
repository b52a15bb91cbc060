"""Small data sets of language benchmarks, the tokenizer beside them, and a server's answers.

A word is a token.  The prompt of sample k ends with k, and `answers.json` has its answer: what the
scripted server (`tests.runner.openai_server`) sends.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

WORDS = ["<unk>", "</s>", "so", "ANSWER:", "```python", "print(1)", "```", *"ABCDEFGHIJ"]
CHANNELS = ("<|channel|>", "<|message|>", "<|end|>", "<|return|>")
NUMBERS = 10_000  # the id of the word of a number is this higher
FIRST_CHANNEL = 200_000
SETS = ("gpqa", "mmlu_pro", "math500", "aime")


def words() -> dict[str, int]:
    """Every word and its id."""
    known = {word: number for number, word in enumerate(WORDS)}
    known |= {f"\\boxed{{{n}}}": NUMBERS + n for n in range(1000)}
    known |= {word: FIRST_CHANNEL + at for at, word in enumerate(CHANNELS)}
    return known | {"final": 100, "analysis": 101}


def ids(text: str) -> list[int]:
    known = words()
    return [known[word] for word in text.split()]


def write_tokenizer(folder: Path, special: Sequence[str] = CHANNELS) -> None:
    library: Any = import_module("tokenizers")
    made = library.Tokenizer(library.models.WordLevel(words(), unk_token="<unk>"))
    made.pre_tokenizer = library.pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(["</s>", *special])
    made.save(str(folder / "tokenizer.json"))


def question(number: int, code: bool = False) -> tuple[str, str, str]:
    """The set, the right answer, and a right answer's last words, of a sample."""
    if code:
        return "livecodebench", f"q{number}", "```python print(1) ```"
    kind = SETS[number % len(SETS)]
    if kind in ("gpqa", "mmlu_pro"):
        letter = "ABCD"[number % 4]
        return kind, letter, f"ANSWER: {letter}"
    return kind, str(number % 1000), f"\\boxed{{{number % 1000}}}"


def deepseek(folder: Path, count: int, length: int, code: int = 1) -> None:
    """Questions with answers of `length` tokens, the last `code` of them programs."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, answers = [], []
    for k in range(count):
        kind, right, said = question(k, code=k >= count - code)
        rows.append({"text_input": f"Question {k}", "dataset": kind, "ground_truth": right})
        end = [*ids(said), 1]
        answers.append([2] * (length - len(end)) + end)
    (folder / "data.json").write_text(json.dumps(rows), "utf-8")
    (folder / "answers.json.txt").write_text(json.dumps(answers), "utf-8")
    write_tokenizer(folder)


def gpt_oss(folder: Path, *, prompts: int, questions: int, compliance: int, length: int) -> None:
    """The three tables; the answer of a prompt has `length` tokens, a question's is short.

    Every third question is code.
    """
    folder.mkdir(parents=True, exist_ok=True)
    answers: list[list[int]] = []

    def rows(count: int, kinds: Sequence[str], size: int) -> list[dict[str, Any]]:
        made = []
        for k in range(count):
            kind = kinds[k % len(kinds)]
            right, said = {
                "aime25": (str(k % 1000), f"\\boxed{{{k % 1000}}}"),
                "gpqa_diamond": ("ABCD"[k % 4], "ABCD"[k % 4]),
                "livecodebench_v6": (f"q{k}", "```python print(1) ```"),
            }[kind]
            row = {"input_tokens": [7, 7, len(answers)]}
            made.append(row | {"dataset": kind, "ground_truth": right})
            start, end = "<|channel|> analysis <|message|> so", "<|channel|> final <|message|>"
            whole = [*ids(f"{end} {said}"), FIRST_CHANNEL + 3]
            answers.append([*ids(start), *[2] * (size - len(whole) - 4), *whole])
        return made

    for name, content in (
        ("perf/perf_eval_ref", rows(prompts, ("gpqa_diamond",), length)),
        ("acc/acc_eval_tokenized", rows(questions, ("aime25", "gpqa_diamond", "livecodebench_v6"), 40)),
        ("acc/acc_eval_compliance_gpqa", rows(compliance, ("gpqa_diamond",), 40)),
    ):  # fmt: skip
        path = folder / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content), "utf-8")
    (folder / "answers.json.txt").write_text(json.dumps(answers), "utf-8")
    write_tokenizer(folder)


def llama(folder: Path, count: int, length: int = 102) -> None:
    """Articles whose summaries are `length` words of five letters, as long as CNN/DailyMail's."""
    folder.mkdir(parents=True, exist_ok=True)
    library: Any = import_module("tokenizers")
    known = {"<unk>": 0} | {f"w{n:04}": n + 10 for n in range(2000)} | {"<|eot_id|>": 128009}
    made = library.Tokenizer(library.models.WordLevel(known, unk_token="<unk>"))
    made.pre_tokenizer = library.pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(["<|eot_id|>"])
    made.save(str(folder / "tokenizer.json"))
    rows, answers = [], []
    for k in range(count):
        numbers = [(k * 31 + at * 7) % 2000 for at in range(length)]
        rows.append({"tok_input": [7, 7, k], "output": " ".join(f"w{n:04}" for n in numbers)})
        answers.append([*(n + 10 for n in numbers), 128009])
    (folder / "data.json").write_text(json.dumps(rows), "utf-8")
    (folder / "answers.json.txt").write_text(json.dumps(answers), "utf-8")
