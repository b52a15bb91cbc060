"""Train the phrasebook translator and write everything the phrasebook benchmark ships.

    pip install "assay[train]"
    python -m tools.train.phrasebook        # about two minutes on one core

writes `runner/datasets/data/phrasebook/` (`source.txt`, `references.txt`: 500 English sentences
and their German translations) and, into `runner/benchmarks/models/`, the folders
`phrasebook_fp32` and `phrasebook_int8` with `encoder.onnx`, `decoder.onnx` and the vocabularies
`vocabulary.en.txt` and `vocabulary.de.txt`; and says the BLEU of both.  The text is synthetic
(`runner/datasets/phrases.py`).  Every fifth pair of adjective and noun is kept out of training,
so the test asks for phrases that were never seen.  One thread and fixed seeds: the same machine
and the same versions give the same files.

The encoder is a GRU in both directions; the decoder, run once for every German word, a GRU that
looks back at the encoder's states with dot-product attention.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.benchmarks.graph import Graph
from runner.datasets.phrasebook import DATA
from runner.datasets.phrases import Pair, draw, join, split
from runner.datasets.text import PAD, START, Vocabulary
from tools.train import command
from tools.train.command import say

TRAIN, TEST = 9000, 500
WORD, STATE = 48, 96  # width of a word's vector and of the decoder's state
FAR = 1e4  # taken off the attention to padding

Array = NDArray[np.float32]
Weights = Mapping[str, Array]


def padded(rows: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    longest = max(map(len, rows))
    return np.array([[*row, *[PAD] * (longest - len(row))] for row in rows], np.int64)


def train(
    pairs: Sequence[Pair], english: Vocabulary, german: Vocabulary, epochs: int, seed: int
) -> Weights:
    """Weights by name, after `epochs` rounds with Adam and a falling rate."""
    torch: Any = import_module("torch")
    nn, f = torch.nn, torch.nn.functional
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    net = nn.ModuleDict(
        {
            "source": nn.Embedding(len(english), WORD),
            "encoder": nn.GRU(WORD, STATE // 2, batch_first=True, bidirectional=True),
            "target": nn.Embedding(len(german), WORD),
            "query": nn.Linear(STATE, STATE, bias=False),
            "cell": nn.GRUCell(WORD + STATE, STATE),
            "mix": nn.Linear(2 * STATE, STATE),
            "words": nn.Linear(STATE, len(german)),
        }
    )
    sources = torch.from_numpy(padded([english.encode(split(join(e))) for e, _ in pairs]))
    wanted = torch.from_numpy(padded([[START, *german.encode(g)] for _, g in pairs]))
    lengths = (sources != PAD).sum(1)
    size = 64
    steps = epochs * (len(pairs) // size)
    optimiser = torch.optim.Adam(net.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 5e-3, total_steps=steps)
    for epoch in range(epochs):
        total = 0.0
        order = torch.randperm(len(pairs))
        for start in range(0, len(pairs) - size + 1, size):
            chosen = order[start : start + size]
            length, truth = lengths[chosen], wanted[chosen]
            packed = nn.utils.rnn.pack_padded_sequence(
                net["source"](sources[chosen]), length, batch_first=True, enforce_sorted=False
            )
            memory, _ = nn.utils.rnn.pad_packed_sequence(net["encoder"](packed)[0], True)
            mask = (torch.arange(memory.shape[1]) < length[:, None]).float()
            state = (memory * mask[..., None]).sum(1) / length[:, None]
            outputs = []
            last = int((truth != PAD).sum(1).max())
            vectors = net["target"](truth)
            for place in range(last - 1):
                query = net["query"](state)
                weights = torch.bmm(memory, query[..., None])[..., 0] + (mask - 1) * FAR
                context = torch.bmm(weights.softmax(1)[:, None], memory)[:, 0]
                state = net["cell"](torch.cat([vectors[:, place], context], 1), state)
                outputs.append(torch.tanh(net["mix"](torch.cat([state, context], 1))))
            logits = net["words"](torch.stack(outputs, 1))
            loss = f.cross_entropy(
                logits.flatten(0, 1), truth[:, 1:last].flatten(), ignore_index=PAD
            )
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            total += loss.item()
        say(f"epoch {epoch + 1}/{epochs}: loss {total / (len(pairs) // size):.4f}")
    return {name: value.detach().numpy() for name, value in net.state_dict().items()}


def _onnx_gates(value: Array) -> Array:
    """ONNX orders a GRU's gates update, reset, new; PyTorch reset, update, new."""
    reset, update, new = np.split(value, 3)
    return np.concatenate([update, reset, new])


def export_encoder(w: Weights, path: Path) -> None:
    """`source` (N, T) int64 to `memory` (N, T, 96), `mask` (N, T) and `state` (N, 96)."""
    g = Graph("phrasebook-encoder", "See tools/train/phrasebook.py; synthetic text.")
    source = g.input("source", "int64", ["N", "T"])
    real = g.add("Cast", g.add("Not", g.add("Equal", source, g.weight([PAD]))), to=6)
    axis = g.weight([1])
    length = g.add("ReduceSum", real, axis, keepdims=0)
    vectors = g.add("Gather", g.weight(w["source.weight"], "source.weight"), source)
    ends = ("l0", "l0_reverse")
    both = [
        g.weight(np.stack([_onnx_gates(w[f"encoder.{kind}_{end}"]) for end in ends]), kind)
        for kind in ("weight_ih", "weight_hh")
    ]
    biases = [
        np.concatenate([_onnx_gates(w[f"encoder.bias_{kind}_{end}"]) for kind in ("ih", "hh")])
        for end in ends
    ]
    out = g.add(
        "GRU",
        g.add("Transpose", vectors, perm=[1, 0, 2]),
        *both,
        g.weight(np.stack(biases), "bias"),
        length,
        hidden_size=STATE // 2,
        direction="bidirectional",
        linear_before_reset=1,
    )  # (T, 2, N, 48)
    ordered = g.add("Transpose", out, perm=[2, 0, 1, 3])
    memory = g.add("Reshape", ordered, g.weight([0, 0, STATE]), name="memory")
    mask = g.add("Cast", real, name="mask", to=1)
    total = g.add("ReduceSum", memory, axis, keepdims=0)  # states of padding are 0
    g.add("Div", total, g.add("ReduceSum", mask, axis, keepdims=1), name="state")
    g.output("memory", "float32", ["N", "T", STATE])
    g.output("mask", "float32", ["N", "T"])
    g.output("state", "float32", ["N", STATE])
    g.save(path)


def export_decoder(w: Weights, path: Path) -> None:
    """One step: `token` (N) and the encoder's outputs to `logits` (N, words) and `state_out`."""
    g = Graph("phrasebook-decoder", "See tools/train/phrasebook.py; synthetic text.")
    token = g.input("token", "int64", ["N"])
    state = g.input("state", "float32", ["N", STATE])
    memory = g.input("memory", "float32", ["N", "T", STATE])
    mask = g.input("mask", "float32", ["N", "T"])
    vector = g.add("Gather", g.weight(w["target.weight"], "target.weight"), token)
    last, middle = g.weight([2]), g.weight([1])

    def dense(value: str, name: str) -> str:
        """A matrix product; the bias, where there is one, in a node of its own."""
        out = g.add("MatMul", value, g.weight(w[f"{name}weight"].T, f"{name}weight"))
        bias = w.get(f"{name}bias")
        return out if bias is None else g.add("Add", out, g.weight(bias, f"{name}bias"))

    def gate(value: str, kind: str) -> list[str]:
        out = g.add("MatMul", value, g.weight(w[f"cell.weight_{kind}"].T, f"weight_{kind}"))
        out = g.add("Add", out, g.weight(w[f"cell.bias_{kind}"], f"bias_{kind}"))
        return g.add_many("Split", [out, g.weight([STATE] * 3)], ["", "", ""], axis=1)

    query = g.add("Unsqueeze", dense(state, "query."), last)
    near = g.add("Squeeze", g.add("MatMul", memory, query), last)
    far = g.add("Mul", g.add("Sub", mask, g.weight([1.0])), g.weight([FAR]))
    share = g.add("Softmax", g.add("Add", near, far), axis=1)
    seen = g.add("MatMul", g.add("Unsqueeze", share, middle), memory)
    context = g.add("Squeeze", seen, middle)

    ours = gate(g.add("Concat", vector, context, axis=1), "ih")
    theirs = gate(state, "hh")
    reset, update = (
        g.add("Sigmoid", g.add("Add", a, b)) for a, b in zip(ours[:2], theirs[:2], strict=True)
    )
    new = g.add("Tanh", g.add("Add", ours[2], g.add("Mul", reset, theirs[2])))
    kept = g.add("Mul", update, g.add("Sub", state, new))
    g.add("Add", new, kept, name="state_out")

    mixed = g.add("Tanh", dense(g.add("Concat", "state_out", context, axis=1), "mix."))
    logits = dense(mixed, "words.")
    g.add("Identity", logits, name="logits")
    g.output("logits", "float32", ["N", len(w["words.bias"])])
    g.output("state_out", "float32", ["N", STATE])
    g.save(path)


def quantize(source: Path, target: Path) -> None:
    """Dynamic INT8: the matrices, ranges of what they are multiplied with found at run time.

    Weights of 7 bits, as in `train_digits`.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        quantize_dynamic(
            str(prepared),
            str(target),
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
        )


def bleu(folder: Path, data: Path) -> tuple[float, int]:
    """BLEU of a model, and the number of sentences that are right to the letter."""
    from checker.accuracy.bleu import score_texts
    from runner.backends.onnxrt import OnnxRuntime
    from runner.backends.pipeline import Pipeline
    from runner.benchmarks import open_benchmark

    benchmark = open_benchmark("phrasebook", folder, data)
    dataset = benchmark.make_dataset(data)
    backend = Pipeline(benchmark, lambda: OnnxRuntime(threads=1))
    backend.load(benchmark, folder, dataset)
    everything = range(len(dataset))
    texts = benchmark.encode(backend.infer(dataset.load(everything), everything), len(dataset))
    references = (data / "references.txt").read_text("utf-8").splitlines()
    found = [bytes(text).decode() for text in texts]
    right = sum(a == b for a, b in zip(found, references, strict=True))
    return score_texts(found, references, tokenize="13a").bleu, right


def main() -> None:
    arguments = command.parser(__doc__, epochs=6).parse_args()
    data, models = command.places(arguments.out, DATA)

    known = draw(TRAIN, 1, held_out=False)
    asked = draw(TEST, 2, held_out=True, known=frozenset(" ".join(e) for e, _ in known))
    for name, lines in (
        ("source.txt", [join(english) for english, _ in asked]),
        ("references.txt", [join(german) for _, german in asked]),
    ):
        (data / name).write_text("\n".join(lines) + "\n", "utf-8")

    english = Vocabulary.of(split(join(e)) for e, _ in known)
    german = Vocabulary.of(g for _, g in known)
    weights = train(known, english, german, arguments.epochs, arguments.seed)
    fp32, int8 = models / "phrasebook_fp32", models / "phrasebook_int8"
    export_encoder(weights, fp32 / "encoder.onnx")
    export_decoder(weights, fp32 / "decoder.onnx")
    english.write(fp32 / "vocabulary.en.txt")
    german.write(fp32 / "vocabulary.de.txt")
    int8.mkdir(parents=True, exist_ok=True)
    for name in ("encoder.onnx", "decoder.onnx"):
        quantize(fp32 / name, int8 / name)
    for name in ("vocabulary.en.txt", "vocabulary.de.txt"):
        shutil.copyfile(fp32 / name, int8 / name)
    for folder in (fp32, int8):
        size = sum(path.stat().st_size for path in folder.iterdir())
        value, right = bleu(folder, data)
        say(f"{folder}: {size} bytes, BLEU {value:.3f}, {right}/{TEST} right to the letter")


if __name__ == "__main__":
    main()
