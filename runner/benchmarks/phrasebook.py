"""Translation of a synthetic phrasebook from English to German; needs no download.

A small encoder and a decoder with attention, run word by word by the host: what a translation
benchmark asks of a system, on text that a grammar made (`runner/datasets/phrases.py`).  Answers
are logged as UTF-8 text.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from runner.benchmarks import translation
from runner.benchmarks.base import Benchmark, Part, Tensor
from runner.benchmarks.translation import Decoding
from runner.datasets.phrasebook import open_phrasebook, target_vocabulary
from runner.datasets.text import END, PAD, START, Vocabulary

MODELS = Path(__file__).parent / "models"
FP32 = MODELS / "phrasebook_fp32"
STATE = 96

_STATE = Tensor("state", (None, STATE), "float32")
_MEMORY = Tensor("memory", (None, None, STATE), "float32")
_MASK = Tensor("mask", (None, None), "float32")
_SOURCE = Tensor("source", (None, None), "int64")
_LOGITS = Tensor("logits", (None, None), "float32")
PARTS = {
    "encoder": Part("encoder.onnx", (_SOURCE,), (_MEMORY, _MASK, _STATE)),
    "decoder": Part(
        "decoder.onnx",
        (Tensor("token", (None,), "int64"), _STATE, _MEMORY, _MASK),
        (_LOGITS, Tensor("state_out", (None, STATE), "float32")),
    ),
}
DECODING = Decoding(
    source="source",
    token="token",
    token_rank=1,
    encoder=translation.names(PARTS["encoder"].outputs),
    decoder_inputs=translation.names(PARTS["decoder"].inputs),
    decoder_outputs=translation.names(PARTS["decoder"].outputs),
    start=START,
    end=END,
    pad=PAD,
)


@cache
def _german() -> Vocabulary:
    return target_vocabulary(FP32)


def fit(benchmark: Benchmark, model: Path | None, data: Path | None) -> Benchmark:
    """With the vocabularies of the model's folder."""
    folder = model if model is not None and model.is_dir() else FP32
    german = target_vocabulary(folder)
    return replace(
        benchmark,
        make_dataset=partial(open_phrasebook, folder),
        encode=partial(translation.encode, tokenizer=german),
        answer=partial(translation.answer, tokenizer=german),
    )


PHRASEBOOK = Benchmark(
    name="phrasebook",
    loadgen_model="phrasebook",
    title="translation of synthetic phrasebook sentences from English to German",
    metric="bleu",
    inputs=(Tensor("source", (None, 17), "int64"),),
    outputs=(Tensor("words", (None, None), "int64"),),
    models={"fp32": FP32, "int8": MODELS / "phrasebook_int8"},
    weights="phrasebook_fp32, trained by tools/train/phrasebook.py",
    data=(
        "500 synthetic English sentences of a phrasebook's kind with German translations, both "
        "made from templates by runner/datasets/phrases.py; no text written by people"
    ),
    quantization=(
        "Dynamic post-training quantisation with onnxruntime.quantization: INT8 matrices of 7 bits "
        "(per channel), ranges of the activations found at run time; the encoder's recurrence stays FP32"
    ),
    make_dataset=partial(open_phrasebook, FP32),
    encode=lambda outputs, count: translation.encode(outputs, count, _german()),
    answer=lambda dataset, indices: translation.answer(dataset, indices, _german()),
    score=partial(translation.score, tokenize="13a"),
    payload_bytes=60,
    performance_sample_count=500,
    batch_size=32,
    backend_options={"onnxruntime": {"threads": 1}},
    parts=PARTS,
    execute=DECODING,
    fit=fit,
)
