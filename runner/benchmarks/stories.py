"""Stories told to their end, token by token; needs no download and no server of yours.

A tiny language model answers through an OpenAI-compatible endpoint: what a benchmark of language
models asks of a system, on text that a grammar made (`runner/datasets/tales.py`).  Answers are
logged as int32 token ids, as in MLPerf's own language benchmarks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runner.benchmarks import language
from runner.benchmarks.base import Benchmark, Tensor
from runner.benchmarks.generation import Generation, Tokenizer
from runner.datasets.stories import Stories, vocabulary
from runner.datasets.text import END

MODELS = Path(__file__).parent / "models"
MODEL = MODELS / "stories_fp32.onnx"


def open_stories(path: Path | None) -> Any:
    """The stories, in the embedded model's words."""
    return Stories(vocabulary(MODEL), path)


def tokenizer(path: Path | None) -> Tokenizer:
    """The embedded model's words; the end mark is added, as the model gives it."""
    return vocabulary(MODEL).encode_text


STORIES = Benchmark(
    name="stories",
    loadgen_model="stories",
    title="ends of synthetic stories, generated token by token",
    metric="exact_match",
    inputs=(Tensor("tokens", (None, 40), "int64"),),
    outputs=(Tensor("answer", (None, None), "int32"),),
    models={"fp32": MODEL},
    weights="stories_fp32.onnx, trained by tools/train/stories.py",
    data=(
        "500 beginnings of synthetic stories, and their ends, made from templates by "
        "runner/datasets/tales.py; no text written by people"
    ),
    quantization="The embedded model comes as FP32 only",
    make_dataset=open_stories,
    encode=language.no_arrays,
    answer=language.no_arrays,
    score=language.score_exact,
    payload_bytes=200,
    performance_sample_count=500,
    generation=Generation(
        max_tokens=90,
        end_tokens=(END,),
        model_names=("stories",),
        tokenizer=tokenizer,
        server="stories",
    ),
)
