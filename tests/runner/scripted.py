"""A language benchmark for the scripted server: prompts that say how many tokens they want."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from runner.benchmarks import language
from runner.benchmarks.base import Benchmark, Tensor
from runner.benchmarks.generation import Generation, Tokenizer
from runner.datasets.prompts import Prompt, Prompts


class Wanted(Prompts):
    """Sample i asks for `least` + i % 5 tokens."""

    def __init__(self, path: Path | None = None, count: int = 40, least: int = 20) -> None:
        self._count, self._least = count, least

    def __len__(self) -> int:
        return self._count

    def prompt(self, index: int) -> Prompt:
        return Prompt(text=f"{self._least + index % 5} tokens of sample {index}")

    def reference(self, index: int) -> Sequence[int]:
        return [*range(10, 9 + self._least + index % 5), 2]


def tokenizer(path: Path | None) -> Tokenizer:
    """Text of the scripted server to its ids; it shows no end mark."""
    return lambda text: [int(word) for word in text.split()]


SCRIPTED = Benchmark(
    name="scripted",
    loadgen_model="scripted",
    title="tokens by the clock",
    metric="exact_match",
    inputs=(Tensor("tokens", (None, 4), "int64"),),
    outputs=(Tensor("answer", (None, None), "int32"),),
    models={},
    weights="none",
    data="prompts that say how many tokens they want",
    quantization="none",
    make_dataset=Wanted,
    encode=language.no_arrays,
    answer=language.no_arrays,
    score=language.score_exact,
    payload_bytes=100,
    performance_sample_count=40,
    generation=Generation(max_tokens=64, end_tokens=(2,), model_names=("scripted",)),
)
COUNTED = replace(
    SCRIPTED, generation=Generation(max_tokens=64, end_tokens=(2,), tokenizer=tokenizer)
)
LONG = replace(
    SCRIPTED, make_dataset=lambda path: Wanted(path, 1000), performance_sample_count=1000
)
SHORT = replace(SCRIPTED, make_dataset=lambda path: Wanted(path, least=3))
