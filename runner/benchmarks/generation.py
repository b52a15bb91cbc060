"""What a benchmark of a language model asks of a server, beside its prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Api = Literal["completions", "chat"]
Tokenizer = Callable[[str], Sequence[int]]
"""Text of an answer to token ids, without marks for the beginning."""


@dataclass(frozen=True, kw_only=True)
class Generation:
    """How answers are generated: sampling parameters and limits, as the round prescribes them.

    Attributes:
        api: which endpoint prompts are for.
        max_tokens, min_tokens: bounds of an answer, in tokens; the end mark counts.
        sampling: parameters that every OpenAI-compatible server knows (temperature, top_p, seed).
        more: parameters of some servers only (top_k, min_tokens under another name); left out where
            the server refuses them, with a note.
        accuracy: what differs in an accuracy run: of `sampling`, and `max_tokens`.
        end_tokens: ids that end an answer; one of them last is part of the answer.
        model_names: parts of names under which the model is usually served, in lower case.
        tokenizer: opens the benchmark's tokenizer, given the data set's folder or file; None: token
            ids must come from the server.
        server: name of an embedded server that can stand in where no URL is given.
    """

    api: Api = "completions"
    max_tokens: int
    min_tokens: int = 1
    sampling: Mapping[str, Any] = field(default_factory=lambda: {"temperature": 0})
    more: Mapping[str, Any] = field(default_factory=dict)
    accuracy: Mapping[str, Any] = field(default_factory=dict)
    end_tokens: tuple[int, ...] = ()
    model_names: tuple[str, ...] = ()
    tokenizer: Callable[[Path | None], Tokenizer | None] | None = None
    server: str | None = None
