"""What executes a model: a `Backend` has three methods and need have no more.

What it has besides, it is asked for: each of the other protocols here is one such ability, and
`runner.streaming` has those of backends that keep a device full.  A `StreamingBackend` answers token by
token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from runner.benchmarks.base import Benchmark
    from runner.datasets import Dataset


class Backend(Protocol):
    """A model made ready to run.

    `framework` says what executes, with versions and settings, for the system description; it is
    read after `load`.  Where a backend of your own has none, it is the name it was asked for by.
    """

    framework: str

    def load(self, benchmark: Benchmark, model: Path | None, dataset: Dataset) -> None:
        """Read the model and check its inputs and outputs against the benchmark's.

        Raises:
            BackendError: no such file, another signature, or the device asked for is not usable.
        """
        ...

    def infer(
        self, feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> Sequence[NDArray[Any]]:
        """Run one batch.

        Args:
            feed: input name to array, one row per sample.
            indices: the samples' places in the data set, for backends that look answers up and
                for messages; a model must not use them.

        Returns:
            The outputs in the order of `benchmark.outputs`, one row per sample.  Any exception
            ends the run as failed.
        """
        ...

    def close(self) -> None:
        """Release the model and its device memory."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer of a language model: the ids of its tokens, an end mark included."""

    tokens: Sequence[int]


class Listener(Protocol):
    """Who asked: hears of one answer, from the event loop."""

    def first(self, tokens: Sequence[int]) -> None:
        """The first token came; `tokens` is empty where its id is not known."""
        ...

    def last(self, answer: Answer) -> None:
        """The answer is whole; it has two tokens or more."""
        ...

    def lost(self, error: BaseException) -> None:
        """There will be no answer: InferenceError, or whatever `first` raised."""
        ...


class StreamingBackend(Protocol):
    """A language model that answers token by token (see `runner.tokens`).

    `load` and `close` are called as those of `Backend`; the rest, but for `ask_here`, from one event
    loop.
    """

    framework: str

    def load(self, benchmark: Benchmark, model: Path | None, dataset: Dataset) -> None:
        """Find the model and see that it answers.

        Raises:
            BackendError: no server, another model, or no usable answer.
        """
        ...

    def request(self, index: int) -> Any:
        """What `ask` takes for this sample; made before the timed part."""
        ...

    async def open(self, *, accuracy: bool = False) -> None:
        """Before the first answer of a run."""
        ...

    def ask(self, request: Any, index: int, listener: Listener) -> None:
        """Begin an answer; the listener hears of its first token, and then of its end or its failure."""
        ...

    def ask_here(self, request: Any, index: int, listener: Listener) -> bool:
        """`ask` from LoadGen's thread, without a detour through the event loop.

        False: nothing was begun, and `ask` has to be used.
        """
        ...

    async def shut(self) -> None:
        """After the last answer.

        Raises:
            InferenceError: the system is not the one that answered before.
        """
        ...

    def close(self) -> None:
        """Release the model."""
        ...


@runtime_checkable
class Binds(Protocol):
    """Gives samples the form that `infer` takes fastest."""

    def bind(self, feed: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """The same samples, for a feed that will come again and again.

        Called while LoadGen loads samples, by a SUT that infers in one thread alone.  It may do
        what a system does with samples that lie in its memory, and nothing that belongs to an
        inference.
        """
        ...


class Preflighted(Protocol):
    """Knows what it needs without being made."""

    @classmethod
    def preflight(cls, options: Mapping[str, Any]) -> None:
        """See that this machine has it, before anything is begun.

        Raises:
            BackendError: what is missing, and how to install it.
        """
        ...


@runtime_checkable
class Narrates(Protocol):
    """Says how far a long `load` is: it calls `on_progress` with a line, where that is set."""

    on_progress: Callable[[str], None] | None


@runtime_checkable
class Warns(Protocol):
    """Has something to say about the result, after the run; it goes into the README."""

    @property
    def warnings(self) -> Sequence[str]: ...


@runtime_checkable
class Profiles(Protocol):
    """Writes a profile of its inferences into a folder, where that is set before `load`."""

    profile_into: Path | None


@runtime_checkable
class AnswersWhole(Protocol):
    """Gives what the benchmark's encoding takes, so that its `execute` is not used, if true."""

    answers_whole: ClassVar[bool]
