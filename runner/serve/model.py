"""The story teller: one ONNX graph, and a cache of keys and values for several stories at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.datasets.stories import LONGEST
from runner.datasets.text import END
from runner.errors import BackendError


class Teller:
    """Continues up to `slots` token sequences, one token each a step, greedily.

    Args:
        model: a graph as `tools.train.stories` exports it.
        slots: sequences at once.
        threads: of ONNX Runtime.

    Attributes:
        active: sequences in work; they have the numbers 0..active-1.

    Raises:
        BackendError: the model cannot be read.
    """

    def __init__(self, model: Path, slots: int = 1, threads: int = 1) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = ort.InferenceSession(
                str(model), options, providers=["CPUExecutionProvider"]
            )
            meta = self._session.get_modelmeta().custom_metadata_map
            layers, heads, head = (int(meta[name]) for name in ("layers", "heads", "head"))
        except Exception as error:  # ONNX Runtime's own, and KeyError
            raise BackendError(
                f"{model}: cannot be read as a model of stories ({error})."
            ) from error
        shape = (slots, layers, heads, LONGEST, head)
        self._keys, self._values = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self._nothing = np.zeros((1, layers, heads, 0, head), np.float32)
        self._start = np.zeros(slots, np.int64)
        self._last = np.zeros(slots, np.int64)
        self.slots = slots
        self.active = 0

    def begin(self, prompt: Sequence[int]) -> int:
        """Read a prompt into the next slot; returns the first token of its continuation."""
        slot, count = self.active, len(prompt)
        feed = {"tokens": np.asarray([prompt], np.int64), "start": np.zeros(1, np.int64)}
        logits, keys, values = self._run({**feed, "keys": self._nothing, "values": self._nothing})
        self._keys[slot, :, :, :count] = keys[0]
        self._values[slot, :, :, :count] = values[0]
        self._start[slot] = count
        self._last[slot] = token = int(logits[0].argmax())
        self.active += 1
        return token

    def step(self) -> list[int]:
        """The next token of every sequence in work."""
        n = self.active
        logits, keys, values = self._run(
            {
                "tokens": self._last[:n, None],
                "start": self._start[:n],
                "keys": self._keys[:n],
                "values": self._values[:n],
            }
        )
        every, places = np.arange(n), self._start[:n]
        self._keys[every, :, :, places] = keys[:, :, :, 0]
        self._values[every, :, :, places] = values[:, :, :, 0]
        self._start[:n] += 1
        self._last[:n] = logits.argmax(1)
        tokens: list[int] = self._last[:n].tolist()
        return tokens

    def end(self, slot: int) -> int:
        """Give a slot up; returns the number of the sequence that now has its number."""
        last = self.active - 1
        if slot != last:
            for array in (self._keys, self._values, self._start, self._last):
                array[slot] = array[last]
        self.active = last
        return last

    def tell(self, prompt: Sequence[int], most: int) -> list[int]:
        """One whole continuation of at most `most` tokens, the end mark included."""
        told = [self.begin(prompt)]
        while told[-1] != END and len(told) < most:
            told.append(self.step()[-1])
        self.end(self.active - 1)
        return told

    def _run(self, feed: dict[str, NDArray[Any]]) -> list[NDArray[np.float32]]:
        outputs: list[NDArray[np.float32]] = self._session.run(
            ("logits", "new_keys", "new_values"), feed
        )
        return outputs
