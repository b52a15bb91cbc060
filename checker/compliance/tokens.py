"""TEST06, TEST07 and TEST09: what the token records of a run say about its outputs.

Source: the round's compliance tests TEST06 (first token, end-of-sequence token, sample length),
TEST07 (a whole set of questions) and TEST09 (mean output length); LoadGen's ``token_count`` and
``token_data``.
"""

from __future__ import annotations

import array
from pathlib import Path
from typing import BinaryIO

import msgspec

from checker.accuracy.log import LogReader, Progress, Record
from checker.accuracy.problem import Problem

_SHOWN = 10

END_TOKENS: dict[str, tuple[int, ...]] = {
    "gptj": (50256,),
    "llama2": (2,),
    "mixtral": (2,),
    "llama3": (128001, 128008, 128009),
    "deepseek": (1,),
    "gpt-oss": (200002,),
    "qwen3": (151643, 151645),
    "stories": (2,),
}
"""End-of-sequence tokens by the beginning of the benchmark's name, from the models' tokenizers."""


def end_tokens(benchmark: str | None) -> tuple[int, ...]:
    """The tokens that end an answer of a benchmark's model; () when they are not known."""
    for prefix, tokens in END_TOKENS.items():
        if benchmark is not None and benchmark.startswith(prefix):
            return tokens
    return ()


class Tokens(msgspec.Struct):
    """The token records of one accuracy log.

    samples: different samples; counted: records with a token count; length_differs: samples whose
    token count is not the number of tokens in their data; first_checked: records that also carry
    the token reported first, first_differs: those of them that begin with another one;
    end_repeated: answers of more than two tokens that repeat their end token; end_checked: whether the model's end
    token is known; shortest, longest, total: token counts; problems: what was wrong with the log's
    text.
    """

    records: int = 0
    samples: int = 0
    duplicates: int = 0
    truncated: bool = False
    counted: int = 0
    length_differs: list[int] = []
    length_failures: int = 0
    first_checked: int = 0
    first_differs: list[int] = []
    first_failures: int = 0
    end_checked: bool = False
    end_repeated: list[int] = []
    end_failures: int = 0
    empty: int = 0
    total: int = 0
    shortest: int | None = None
    longest: int | None = None
    problems: list[Problem] = []

    @property
    def mean(self) -> float | None:
        """Mean tokens of an answer over the records read; None without a record."""
        return self.total / self.records if self.records else None

    @property
    def passed(self) -> bool | None:
        """TEST06's verdict over the records read; None when there is none."""
        if not self.records:
            return None
        return not (self.length_failures or self.first_failures or self.end_failures)


def read_tokens(
    log: str | Path | BinaryIO,
    *,
    ends: tuple[int, ...] = (),
    progress: Progress | None = None,
) -> Tokens:
    """Read the token records of an accuracy log. Raises as ``LogReader`` does.

    Tokens are int64 where every upper half of every record is 0, else int32: one log has one width.
    """
    narrow, wide = Tokens(end_checked=bool(ends)), Tokens(end_checked=bool(ends))
    is_wide = True
    seen: set[int] = set()
    duplicates = 0
    reader = LogReader(log, progress=progress)
    for record in reader:
        duplicates += record.qsl_idx in seen
        seen.add(record.qsl_idx)
        is_wide = is_wide and not len(record.data) % 8 and not _has_upper_halves(record.data)
        _count(narrow, record, 4, ends)
        if is_wide:
            _count(wide, record, 8, ends)
    result = wide if is_wide else narrow
    result.samples, result.duplicates = len(seen), duplicates
    result.truncated = reader.truncated
    result.problems = reader.problems
    return result


def _count(result: Tokens, record: Record, width: int, ends: tuple[int, ...]) -> None:
    index, data = record.qsl_idx, record.data
    length = len(data) / width
    count = int(length)
    result.records += 1
    result.total += count
    if result.shortest is None or count < result.shortest:
        result.shortest = count
    if result.longest is None or count > result.longest:
        result.longest = count
    result.empty += not count
    if record.token_count is not None:
        result.counted += 1
        if record.token_count != length:
            result.length_failures += 1
            _note(result.length_differs, index)
    if record.token_data:
        result.first_checked += 1
        if record.token_data[:width] != data[:width]:
            result.first_failures += 1
            _note(result.first_differs, index)
    # An answer of two end tokens is allowed: the model said nothing, and the end was added.
    if ends and count > 2:
        at = (count - 1) * width
        last, before = data[at : at + 4], data[at - width : at - width + 4]
        if last == before and int.from_bytes(last, "little", signed=True) in ends:
            result.end_failures += 1
            _note(result.end_repeated, index)


def _note(into: list[int], index: int) -> None:
    if len(into) < _SHOWN:
        into.append(index)


def _has_upper_halves(data: bytes) -> bool:
    """Whether any upper half of int64 tokens is not 0."""
    words = array.array("i")
    words.frombytes(data)
    return bool(words[1::2].tobytes().strip(b"\0"))
