"""A backend around another: models of several graphs, and models that need a host's hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.backends.base import Backend, Profiles, Warns
from runner.errors import BackendError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from runner.benchmarks.base import Benchmark
    from runner.datasets import Dataset


class Pipeline:
    """Runs `benchmark.execute` over one inner backend per graph.

    Whatever executes a graph (ONNX Runtime, TensorRT, your own) thereby executes a translation
    model's encoder and decoder too, and knows nothing of decode loops.

    Args:
        benchmark: one with `execute`.
        make: makes one inner backend.
    """

    def __init__(self, benchmark: Benchmark, make: Callable[[], Backend]) -> None:
        if benchmark.execute is None:
            raise BackendError(f"{benchmark.name} is run by its graph alone.")
        self._execute = benchmark.execute
        self._inner = {name: make() for name in benchmark.parts or ("model",)}
        self._infer = {name: backend.infer for name, backend in self._inner.items()}
        self.framework = next(iter(self._inner.values())).framework

    @property
    def profile_into(self) -> Path | None:
        """Where the inner backends write their profiles, if they have any."""
        first = next(iter(self._inner.values()))
        # A backend without the attribute cannot profile.
        return first.profile_into  # type: ignore[attr-defined, no-any-return]

    @profile_into.setter
    def profile_into(self, folder: Path | None) -> None:
        for backend in self._inner.values():
            if isinstance(backend, Profiles):
                backend.profile_into = folder

    def load(self, benchmark: Benchmark, model: Path | None, dataset: Dataset) -> None:
        plain = replace(benchmark, parts={}, execute=None, fit=None)
        if not benchmark.parts:
            self._inner["model"].load(plain, model, dataset)
        elif model is None or not model.is_dir():
            files = ", ".join(part.file for part in benchmark.parts.values())
            raise BackendError(
                f"found no folder at {model}; expected a model of {benchmark.name}: a folder "
                f"with {files}. Name one with the model option."
            )
        else:
            for name, part in benchmark.parts.items():
                one = replace(plain, inputs=part.inputs, outputs=part.outputs)
                self._inner[name].load(one, model / part.file, dataset)
        self.framework = next(iter(self._inner.values())).framework
        # Looked up once more: a backend may have chosen another way to infer while loading.
        self._infer = {name: backend.infer for name, backend in self._inner.items()}

    def infer(
        self, feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> Sequence[NDArray[Any]]:
        return self._execute(self._infer, feed, indices)

    @property
    def sut_name(self) -> Callable[[], str]:
        """The inner backends' own, where they stand behind a network."""
        found: Callable[[], str] = next(iter(self._inner.values())).sut_name  # type: ignore[attr-defined]
        return found

    @property
    def warnings(self) -> list[str]:
        """What the inner backends have to say about the run."""
        return [
            w
            for backend in self._inner.values()
            if isinstance(backend, Warns)
            for w in backend.warnings
        ]

    def close(self) -> None:
        for backend in self._inner.values():
            backend.close()
