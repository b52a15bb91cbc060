"""Llama 2 70B and Llama 3.1 8B: summaries and answers, from a server of your own.

Prompts are token ids of the data set, so that no chat template is applied; parameters are those of
rounds v6.0 and v6.1.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from runner.benchmarks import language
from runner.benchmarks.base import Benchmark, Tensor
from runner.benchmarks.generation import Generation
from runner.datasets.prompts import Table

LLAMA3_1_8B = Benchmark(
    name="llama3.1-8b",
    loadgen_model="llama3_1-8b",
    title="summaries of CNN/DailyMail articles by Llama 3.1 8B",
    metric="ROUGE1",
    inputs=(Tensor("tokens", (None, 1024), "int32"),),
    outputs=(Tensor("answer", (None, None), "int32"),),
    models={},
    weights="the model that the server has",
    data="CNN/DailyMail 3.0.0, validation set, tokenised",
    quantization="The model was served as it is; how it was quantised, if it was, is to be added",
    make_dataset=partial(Table, tokens=("tok_input",), reference="output", longest=128_000),
    encode=language.no_arrays,
    answer=language.no_arrays,
    score=language.score_rouge,
    verify_scoring=language.verify_rouge,
    payload_bytes=512,
    performance_sample_count=13_368,
    generation=Generation(
        max_tokens=128,
        sampling={"temperature": 0, "top_p": 1},
        more={"top_k": 1, "min_tokens": 1},
        end_tokens=(128001, 128008, 128009),
        model_names=("llama-3.1-8b", "llama3.1-8b", "llama-3_1-8b"),
        tokenizer=language.tokenizer_beside,
    ),
)
LLAMA3_1_8B_EDGE = replace(
    LLAMA3_1_8B,
    name="llama3.1-8b-edge",
    loadgen_model="llama3_1-8b-edge",
    data="CNN/DailyMail 3.0.0, 5,000 samples of the validation set, tokenised",
    performance_sample_count=5000,
)
LLAMA2_70B_99 = replace(
    LLAMA3_1_8B,
    name="llama2-70b-99",
    loadgen_model="llama2-70b",
    title="answers to OpenOrca questions by Llama 2 70B",
    data="OpenOrca, GPT-4 answers, 24,576 samples, tokenised",
    make_dataset=partial(Table, tokens=("tok_input",), reference="output", longest=4096),
    payload_bytes=4096,
    performance_sample_count=24_576,
    generation=Generation(
        max_tokens=1024,
        sampling={"temperature": 0, "top_p": 1},
        more={"top_k": 1, "min_tokens": 1},
        end_tokens=(2,),
        model_names=("llama-2-70b", "llama2-70b"),
        tokenizer=language.tokenizer_beside,
    ),
)
LLAMA2_70B_99_9 = replace(LLAMA2_70B_99, name="llama2-70b-99.9")
