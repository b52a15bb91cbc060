"""GNMT on newstest2014, English to German.

No ONNX file of GNMT is generally known, so two forms are taken:

* a folder with `encoder.onnx` and `decoder.onnx`, tied by names as `runner.benchmarks.translation`
  says: the encoder takes numbers of words (n, t), perhaps their lengths (n); the decoder the last
  word (n) or (n, 1), what the encoder gave, its states; it gives scores of all words (n, words)
  or the chosen words first, and every state X again as `X_out`;
* one file that translates whole sentences: numbers (n, t), perhaps lengths, to numbers (n, any).

Options beside a model: `source`, `length`, `token` (names of inputs), `scores` (name of the
decoder's first output), `marks` (around a source sentence: "none", "end" or "both"), `beam` (10 in
the reference; 1, greedy, if not said), `length_penalty`.  The text is split into byte pairs
already, or by a SentencePiece model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.benchmarks import translation
from runner.benchmarks.base import Benchmark, Infer, Part, Tensor
from runner.benchmarks.signature import Signature, read_options, read_signature
from runner.benchmarks.translation import STATE_MARK, Decoding
from runner.datasets import Dataset
from runner.datasets.text import Translation
from runner.datasets.wmt import Corpus, Marks, find_corpus
from runner.errors import BackendError, SettingsError

OPTIONS = ("marks", "source", "length", "token", "scores", "beam", "length_penalty")
_SOURCE = Tensor("source", (None, None), "int64")


def fit(benchmark: Benchmark, model: Path | None, data: Path | None) -> Benchmark:
    """With the names of the model's graphs, and the vocabularies of the data or the model."""
    corpus = find_corpus(data, model)
    with_text = replace(
        benchmark,
        make_dataset=lambda _: corpus.open(_SOURCE.name, None),
        encode=partial(translation.encode, tokenizer=corpus.target),
        answer=partial(translation.answer, tokenizer=corpus.target),
        score=partial(translation.score, tokenize=corpus.tokenize),
    )
    if model is None:
        return with_text
    with_text = replace(with_text, weights=model.name)
    if model.is_dir():
        return _two_graphs(with_text, model, corpus)
    return _one_graph(with_text, model, corpus)


def _inputs(signature: Signature) -> tuple[Tensor, Tensor | None]:
    """The numbers and, if there is one, the input of their count."""
    source = signature.input(
        lambda t: len(t.shape) == 2 and t.dtype.startswith("int"),
        "one input of numbers of words, 2 axes",
        "source",
    )
    lengths = [t for t in signature.inputs if len(t.shape) == 1 and t.dtype.startswith("int")]
    named = signature.options.get("length")
    if named is not None:
        lengths = [t for t in signature.inputs if t.name == named]
    others = set(signature.inputs) - {source} - set(lengths[:1])
    if others:
        raise SettingsError(
            f"{signature.path}: found inputs {', '.join(sorted(t.name for t in others))} beside "
            f"{source.name}; expected the numbers of words and perhaps their count."
        )
    return source, lengths[0] if lengths else None


def _opener(corpus: Corpus, source: Tensor, length: Tensor | None, signature: Signature) -> Any:
    marks: Marks = signature.option("marks", ("none", "end", "both")) or "end"

    def make(_: Path | None) -> Dataset:
        dataset = corpus.open(source.name, length.name if length else None, marks)
        return _Typed(
            dataset, {source.name: source.dtype} | ({length.name: length.dtype} if length else {})
        )

    return make


class _Typed:
    """Sentences in the number format that the graph asks for."""

    def __init__(self, dataset: Translation, types: Mapping[str, str]) -> None:
        self._dataset, self._types = dataset, types
        self.references = dataset.references
        self.reference_file = dataset.reference_file

    def __len__(self) -> int:
        return len(self._dataset)

    def load(self, indices: Sequence[int]) -> dict[str, NDArray[Any]]:
        feed = self._dataset.load(indices)
        return {name: array.astype(self._types[name]) for name, array in feed.items()}

    def unload(self, indices: Sequence[int]) -> None:
        self._dataset.unload(indices)


def _one_graph(benchmark: Benchmark, model: Path, corpus: Corpus) -> Benchmark:
    signature = read_signature(model, read_options(model, OPTIONS))
    source, length = _inputs(signature)
    words = signature.output(
        lambda t: t.dtype.startswith("int"), "an output of numbers of words", "scores"
    )
    pad = corpus.source.pad

    def execute(
        graphs: Mapping[str, Infer], feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> Sequence[NDArray[Any]]:
        numbers = feed[source.name]
        if length:
            longest = int(feed[length.name].max())
        else:
            longest = int((numbers != pad).sum(1).max()) + (pad == corpus.source.end)
        shorter = {**feed, source.name: np.ascontiguousarray(numbers[:, : max(1, longest)])}
        return graphs["model"](shorter, indices)

    return replace(
        benchmark,
        inputs=(source, length) if length else (source,),
        outputs=(words,),
        parts={},
        make_dataset=_opener(corpus, source, length, signature),
        execute=execute,
    )


def _two_graphs(benchmark: Benchmark, model: Path, corpus: Corpus) -> Benchmark:
    options = read_options(model, OPTIONS)
    for name in ("encoder.onnx", "decoder.onnx"):
        if not (model / name).is_file():
            raise BackendError(
                f"{model / name}: found no such file; expected a model of gnmt: a folder with "
                "encoder.onnx and decoder.onnx, or one file that translates whole sentences."
            )
    encoder = replace(read_signature(model / "encoder.onnx", options), path=model)
    decoder = replace(read_signature(model / "decoder.onnx", options), path=model)
    source, length = _inputs(encoder)
    given = {t.name for t in encoder.outputs} | {t.name for t in encoder.inputs}
    token = decoder.input(
        lambda t: t.name not in given and t.dtype.startswith("int") and len(t.shape) <= 2,
        "one input of the last word",
        "token",
    )
    lacking = [t.name for t in decoder.inputs if t.name not in given and t != token]
    if lacking:
        raise SettingsError(
            f"{model / 'decoder.onnx'}: found inputs {', '.join(lacking)} that encoder.onnx does "
            "not give; expected an output of the encoder of the same name for each, also for "
            "states that begin with zeros."
        )
    # Only what is a state of the decoder is wanted beside the scores.
    states = [
        t
        for t in decoder.outputs
        if t.name.endswith(STATE_MARK)
        and t.name.removesuffix(STATE_MARK) in {i.name for i in decoder.inputs}
    ]
    first = decoder.output(lambda t: t not in states, "scores of words", "scores")
    outputs = (first, *(t for t in states if t != first))
    beam, penalty = options.get("beam", 1), options.get("length_penalty", 0.0)
    if not isinstance(beam, int) or not 1 <= beam <= 100:
        raise SettingsError(f"{model}: found beam = {beam!r}; expected 1 to 100.")
    if not isinstance(penalty, (int, float)) or penalty < 0:
        raise SettingsError(f"{model}: found length_penalty = {penalty!r}; expected 0 or more.")
    decoding = Decoding(
        source=source.name,
        token=token.name,
        token_rank=len(token.shape),
        encoder=translation.names(encoder.outputs),
        decoder_inputs=translation.names(decoder.inputs),
        decoder_outputs=translation.names(outputs),
        start=corpus.target.start,
        end=corpus.target.end,
        pad=corpus.source.pad,
        length=length.name if length else None,
        beam=beam,
        penalty=float(penalty),
        axes=_batch_axes(encoder, source),
        token_type=token.dtype,
    )
    return replace(
        benchmark,
        inputs=(source, length) if length else (source,),
        make_dataset=_opener(corpus, source, length, encoder),
        parts={
            "encoder": Part("encoder.onnx", encoder.inputs, encoder.outputs),
            "decoder": Part("decoder.onnx", decoder.inputs, outputs),
        },
        execute=decoding,
    )


def _batch_axes(encoder: Signature, source: Tensor) -> dict[str, int]:
    """Which axis the batch is, by the name of the open size; the first where none is named so."""
    batch = encoder.symbols[source.name][0]
    axes = {}
    for tensor in encoder.outputs:
        names = encoder.symbols[tensor.name]
        axes[tensor.name] = names.index(batch) if batch and batch in names else 0
    return axes


def _no_text(*_: Any) -> Any:
    find_corpus(None)


GNMT = Benchmark(
    name="gnmt",
    loadgen_model="gnmt",
    title="translation of newstest2014 from English to German by GNMT",
    metric="bleu",
    inputs=(_SOURCE,),
    outputs=(Tensor("words", (None, None), "int64"),),
    models={},
    weights="the model that was named",
    data="WMT16 English-German, newstest2014, split into byte pairs",
    quantization="The model was run as given; how it was quantised, if it was, is to be added",
    make_dataset=lambda data: find_corpus(data).open(_SOURCE.name, None),
    encode=_no_text,
    answer=_no_text,
    score=partial(translation.score, tokenize="auto"),
    payload_bytes=300,
    performance_sample_count=3003,
    batch_size=32,
    parts={
        "encoder": Part("encoder.onnx", (_SOURCE,), ()),
        "decoder": Part("decoder.onnx", (Tensor("token", (None,), "int64"),), ()),
    },
    execute=_no_text,
    fit=fit,
)
