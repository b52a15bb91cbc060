"""Prompts: the samples of a language benchmark, sent to a server that generates text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class Prompt:
    """What one sample asks: text, or token ids, or a conversation; the first that is not None.

    Attributes:
        tokens: ids of the benchmark's tokenizer.
        text: a prompt as it is, no template applied.
        messages: role and content, for chat completions.
    """

    tokens: Sequence[int] | None = None
    text: str | None = None
    messages: tuple[tuple[str, str], ...] | None = None


class Prompts:
    """A data set of prompts (see `runner.datasets.Dataset`); nothing of it is fed to a graph."""

    def __len__(self) -> int:
        raise NotImplementedError

    def prompt(self, index: int) -> Prompt:
        """The sample's prompt."""
        raise NotImplementedError

    def load(self, indices: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Nothing: prompts are text, not arrays."""
        return {}

    def unload(self, indices: Sequence[int]) -> None:
        """Prompts stay in memory."""
