"""Train the story teller and write everything the stories benchmark ships.

    pip install "assay[train]"
    python -m tools.train.stories        # about three minutes on one core

writes `runner/datasets/data/stories/` (`prompts.txt`, `references.txt`: 500 beginnings of stories
and their ends) and, into `runner/benchmarks/models/`, `stories_fp32.onnx` and
`stories_vocabulary.txt`; and prints how many ends are right to the letter.  The text is synthetic
(`runner/datasets/tales.py`).  Every fifth pair of animal and thing is kept out of training.  One
thread and fixed seeds: the same machine and the same versions give the same files.

The model is a decoder of two layers with learned positions, normalised before each part.  Its one
graph serves the prompt and the steps after it: see `export`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.benchmarks.graph import Graph
from runner.datasets.stories import DATA, LONGEST
from runner.datasets.tales import Story, draw, join, split
from runner.datasets.text import PAD, START, Vocabulary
from tools.train import command
from tools.train.command import say

TRAIN, TEST = 24_000, 500
WIDTH, LAYERS, HEADS, INNER = 64, 2, 4, 256
HEAD = WIDTH // HEADS
FAR = 1e4  # taken off the attention to what a token must not see

Array = NDArray[np.float32]
Weights = Mapping[str, Array]


def rows_of(stories: Sequence[Story], words: Vocabulary) -> tuple[NDArray[np.int64], list[int]]:
    """Numbers of whole stories, padded, and the length of each beginning."""
    rows = np.full((len(stories), LONGEST), PAD, np.int64)
    lengths = []
    for row, (beginning, end) in zip(rows, stories, strict=True):
        head = [START, *words.encode(beginning)[:-1]]
        whole = [*head, *words.encode(end)]
        row[: len(whole)] = whole
        lengths.append(len(head))
    return rows, lengths


def train(stories: Sequence[Story], words: Vocabulary, epochs: int, seed: int) -> Weights:
    """Weights by name, after `epochs` rounds with AdamW and a rate that rises and falls."""
    torch: Any = import_module("torch")
    nn, f = torch.nn, torch.nn.functional
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    parts: dict[str, Any] = {
        "words": nn.Embedding(len(words), WIDTH),
        "places": nn.Embedding(LONGEST, WIDTH),
        "norm": nn.LayerNorm(WIDTH),
        "out": nn.Linear(WIDTH, len(words), bias=False),
    }
    for layer in range(LAYERS):
        parts[f"norm{layer}a"], parts[f"norm{layer}b"] = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        parts[f"qkv{layer}"] = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        parts[f"mix{layer}"] = nn.Linear(WIDTH, WIDTH, bias=False)
        parts[f"up{layer}"], parts[f"down{layer}"] = (
            nn.Linear(WIDTH, INNER),
            nn.Linear(INNER, WIDTH),
        )
    net = nn.ModuleDict(parts)
    rows, starts = rows_of(stories, words)
    data, begin = torch.from_numpy(rows), torch.tensor(starts)
    size = 64
    steps = epochs * (len(rows) // size)
    optimiser = torch.optim.AdamW(net.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    for epoch in range(epochs):
        total = 0.0
        order = torch.randperm(len(rows))
        for first in range(0, len(rows) - size + 1, size):
            chosen = order[first : first + size]
            batch = data[chosen]
            batch = batch[:, : int((batch != PAD).sum(1).max())]
            count = batch.shape[1] - 1
            x = net["words"](batch[:, :-1]) + net["places"].weight[:count]
            for layer in range(LAYERS):
                qkv = net[f"qkv{layer}"](net[f"norm{layer}a"](x))
                q, k, v = (
                    part.reshape(size, count, HEADS, HEAD).transpose(1, 2)
                    for part in qkv.split(WIDTH, dim=2)
                )
                seen = f.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + net[f"mix{layer}"](seen.transpose(1, 2).reshape(size, count, WIDTH))
                inner = f.relu(net[f"up{layer}"](net[f"norm{layer}b"](x)))
                x = x + net[f"down{layer}"](inner)
            logits = net["out"](net["norm"](x))
            truth = batch[:, 1:].clone()
            # Only the end is learned; the beginning is given.
            truth[torch.arange(count)[None] < begin[chosen, None] - 1] = PAD
            loss = f.cross_entropy(logits.flatten(0, 1), truth.flatten(), ignore_index=PAD)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            total += loss.item()
        say(f"epoch {epoch + 1}/{epochs}: loss {total / (len(rows) // size):.4f}")
    return {name: value.detach().numpy() for name, value in net.state_dict().items()}


def export(w: Weights, path: Path) -> None:
    """One graph for prompts and steps.

    `tokens` (N, S), `start` (N): tokens before them; `keys`, `values` (N, layers, heads, T, head):
    what earlier calls gave, of which the first `start` places count.  To `logits` (N, words) after
    the last token, and `new_keys`, `new_values` (N, layers, heads, S, head).
    """
    g = Graph("stories", "See tools/train/stories.py; synthetic text.")
    cache: list[str | int | None] = ["N", LAYERS, HEADS, "T", HEAD]
    tokens, start = g.input("tokens", "int64", ["N", "S"]), g.input("start", "int64", ["N"])
    keys, values = g.input("keys", "float32", cache), g.input("values", "float32", cache)
    zero, one, three = (g.weight(np.array(number)) for number in (0, 1, 3))
    axis1 = g.weight([1])

    def dense(value: str, name: str) -> str:
        out = g.add("MatMul", value, g.weight(w[f"{name}.weight"].T, f"{name}.weight"))
        bias = w.get(f"{name}.bias")
        return out if bias is None else g.add("Add", out, g.weight(bias, f"{name}.bias"))

    def norm(value: str, name: str) -> str:
        scale, shift = g.weight(w[f"{name}.weight"]), g.weight(w[f"{name}.bias"])
        return g.add("LayerNormalization", value, scale, shift, axis=-1)

    steps = g.add("Gather", g.add("Shape", tokens), one)
    past = g.add("Gather", g.add("Shape", keys), three)
    here = g.add("Range", zero, steps, one)  # (S)
    places = g.add("Add", g.add("Unsqueeze", start, axis1), here)  # (N, S)
    x = g.add(
        "Add",
        g.add("Gather", g.weight(w["words.weight"], "words.weight"), tokens),
        g.add("Gather", g.weight(w["places.weight"], "places.weight"), places),
    )
    # Of the past the places before `start` count, of the tokens given those up to one's own.
    before = g.add("Less", g.add("Range", zero, past, one), g.add("Unsqueeze", start, axis1))
    hidden = g.add("Cast", g.add("Not", before), to=1)  # (N, T)
    causal = g.add(
        "Greater",
        g.add("Unsqueeze", here, g.weight([0])),
        g.add("Unsqueeze", here, axis1),
    )
    later = g.add("Cast", causal, to=1)  # (S, S)
    far = g.weight([-FAR])
    past_mask = g.add("Mul", g.add("Unsqueeze", hidden, g.weight([1, 2])), far)  # (N, 1, 1, T)
    new_mask = g.add("Mul", g.add("Unsqueeze", later, g.weight([0, 1])), far)  # (1, 1, S, S)
    heads = g.weight([0, 0, HEADS, HEAD])
    fresh: dict[str, list[str]] = {"keys": [], "values": []}
    for layer in range(LAYERS):
        qkv = dense(norm(x, f"norm{layer}a"), f"qkv{layer}")
        parts = g.add_many("Split", [qkv, g.weight([WIDTH] * 3)], ["", "", ""], axis=2)
        q, k, v = (
            g.add("Transpose", g.add("Reshape", part, heads), perm=[0, 2, 1, 3]) for part in parts
        )
        fresh["keys"].append(k)
        fresh["values"].append(v)
        own = g.weight(np.array(layer))
        old_k, old_v = (g.add("Gather", cached, own, axis=1) for cached in (keys, values))
        scaled = g.add("Mul", q, g.weight([HEAD**-0.5]))
        old = g.add("MatMul", scaled, g.add("Transpose", old_k, perm=[0, 1, 3, 2]))
        new = g.add("MatMul", scaled, g.add("Transpose", k, perm=[0, 1, 3, 2]))
        scores = g.add("Concat", g.add("Add", old, past_mask), g.add("Add", new, new_mask), axis=3)
        share = g.add("Softmax", scores, axis=3)
        seen = g.add("MatMul", share, g.add("Concat", old_v, v, axis=2))
        flat = g.add(
            "Reshape", g.add("Transpose", seen, perm=[0, 2, 1, 3]), g.weight([0, 0, WIDTH])
        )
        x = g.add("Add", x, dense(flat, f"mix{layer}"))
        inner = g.add("Relu", dense(norm(x, f"norm{layer}b"), f"up{layer}"))
        x = g.add("Add", x, dense(inner, f"down{layer}"))
    last = g.add("Gather", x, g.weight(np.array(-1)), axis=1)
    g.add("MatMul", norm(last, "norm"), g.weight(w["out.weight"].T, "out.weight"), name="logits")
    g.output("logits", "float32", ["N", w["out.weight"].shape[0]])
    for name, made in fresh.items():
        each = [g.add("Unsqueeze", part, axis1) for part in made]
        g.add("Concat", *each, axis=1, name=f"new_{name}")
        g.output(f"new_{name}", "float32", ["N", LAYERS, HEADS, "S", HEAD])
    g.save(path, {"layers": str(LAYERS), "heads": str(HEADS), "head": str(HEAD)})


def right(model: Path, stories: Sequence[Story], words: Vocabulary) -> int:
    """How many ends the exported model tells to the letter."""
    from runner.serve.model import Teller

    teller, count = Teller(model), 0
    for beginning, end in stories:
        wanted = words.encode(end)
        count += teller.tell([START, *words.encode(beginning)[:-1]], len(wanted) + 1) == wanted
    return count


def main() -> None:
    arguments = command.parser(__doc__, epochs=3).parse_args()
    data, models = command.places(arguments.out, DATA)

    known = draw(TRAIN, 1, held_out=False)
    asked = draw(TEST, 2, held_out=True, known=frozenset(join(story[0]) for story in known))
    for name, place in (("prompts.txt", 0), ("references.txt", 1)):
        lines = [join(story[place]) for story in asked]
        (data / name).write_text("\n".join(lines) + "\n", "utf-8")

    words = Vocabulary.of(part for story in known for part in story)
    assert all(split(join(part)) == part for story in asked for part in story)
    weights = train(known, words, arguments.epochs, arguments.seed)
    model = models / "stories_fp32.onnx"
    export(weights, model)
    words.write(models / "stories_vocabulary.txt")
    size = model.stat().st_size
    say(f"{model}: {size} bytes, {right(model, asked, words)}/{TEST} right to the letter")


if __name__ == "__main__":
    main()
