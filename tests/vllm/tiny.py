"""A tiny Llama of random weights, made here: config.json and a tokenizer trained in this process."""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

LONGEST = 256


def make_model(folder: Path) -> Path:
    """What `vllm serve FOLDER --load-format dummy` takes: no weights, they are random."""
    library: Any = import_module("tokenizers")
    folder.mkdir(parents=True)
    tokenizer = library.Tokenizer(library.models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=["<unk>", "<s>", "</s>"],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(
        (f"the {number} small stories of {number * 7}" for number in range(500)), trainer
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    size = tokenizer.get_vocab_size()
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": size,
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32,
        "max_position_embeddings": LONGEST, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "hidden_act": "silu", "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2,
        "tie_word_embeddings": False,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **special}), "utf-8"
    )
    return folder


def make_data(model: Path, folder: Path, count: int = 40) -> Path:
    """Prompts in the form of llama3.1-8b's data set, with the tokenizer beside them."""
    folder.mkdir()
    shutil.copy(model / "tokenizer.json", folder)
    tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))
    rows = []
    for number in range(count):
        text = f"the {number} small stories"
        rows.append({"tok_input": [1, *tokenizer.encode(text).ids], "output": text})
    (folder / "data.json").write_text(json.dumps(rows), "utf-8")
    return folder
