"""DeepSeek-R1 and GPT-OSS-120B: questions that take thought, answered by a server of your own.

Parameters are those of rounds v6.0 and v6.1.  Answers with code are run by nothing here: see
`runner.grading`.
"""

from __future__ import annotations

from functools import partial

from runner.benchmarks import language
from runner.benchmarks.base import Benchmark, Tensor
from runner.benchmarks.generation import Generation
from runner.datasets.prompts import Questions

DEEPSEEK_R1 = Benchmark(
    name="deepseek-r1",
    title="questions of AIME, MATH-500, GPQA, MMLU-Pro and LiveCodeBench, answered by DeepSeek-R1",
    metric="exact_match",
    inputs=(Tensor("tokens", (None, 3136), "int32"),),
    outputs=(Tensor("answer", (None, None), "int32"),),
    weights="the model that the server has",
    data="4,388 questions of AIME, MATH-500, GPQA, MMLU-Pro and LiveCodeBench",
    quantization="The model was served as it is; how it was quantised, if it was, is to be added",
    make_dataset=partial(Questions, text=("text_input",), longest=131_072),
    encode=language.no_arrays,
    score=partial(language.score_reasoning, channels=False),
    verify_scoring=language.verify_reasoning,
    payload_bytes=16_000,
    performance_sample_count=4388,
    generation=Generation(
        api="chat",
        max_tokens=20_000,
        sampling={"temperature": 0, "top_p": 1, "seed": 42},
        end_tokens=(1,),
        model_names=("deepseek-r1",),
        tokenizer=language.tokenizer_beside,
    ),
)

# Three tables: short reasoning is asked for in the prompts of the performance set, long in the others.
_columns = partial(
    Questions, tokens=("input_tokens", "tok_input"), text=("text_input",), longest=131_072
)
GPT_OSS_120B = Benchmark(
    name="gpt-oss-120b",
    title="questions of AIME 2025, GPQA Diamond and LiveCodeBench v6, answered by GPT-OSS-120B",
    metric="exact_match",
    inputs=(Tensor("tokens", (None, 2048), "int32"),),
    outputs=(Tensor("answer", (None, None), "int32"),),
    weights="the model that the server has",
    data=(
        "6,396 prompts; for the accuracy 4,395: AIME 2025 eight times, GPQA Diamond five times, "
        "LiveCodeBench v6 three times"
    ),
    quantization="The model was served as it is; how it was quantised, if it was, is to be added",
    make_dataset=partial(_columns, part="perf"),
    other_datasets={
        "accuracy": partial(_columns, part="acc", without="compliance"),
        "TEST07": partial(_columns, part="compliance"),
    },
    encode=language.no_arrays,
    score=partial(language.score_reasoning, channels=True),
    verify_scoring=language.verify_reasoning,
    payload_bytes=60_000,
    performance_sample_count=6396,
    generation=Generation(
        max_tokens=10_240,
        sampling={"temperature": 1, "top_p": 1},
        more={"top_k": -1, "skip_special_tokens": False},
        accuracy={"max_tokens": 32_768},
        end_tokens=(200002,),
        model_names=("gpt-oss-120b",),
        tokenizer=language.tokenizer_beside,
    ),
)
