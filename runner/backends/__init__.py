"""Backends by name; only the chosen one is imported."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from runner.backends.base import AnswersWhole, Narrates
from runner.errors import BackendError
from runner.named import is_place, load, short

if TYPE_CHECKING:
    from runner.backends.base import Backend
    from runner.benchmarks.base import Benchmark

BACKENDS = {
    "onnxruntime": "runner.backends.onnxrt:OnnxRuntime",
    "tensorrt": "runner.backends.trt.backend:TensorRT",
    "kserve": "runner.backends.kserve:KServe",
    "openai": "runner.backends.openai:OpenAI",
    "dummy": "runner.backends.dummy:Dummy",
}


_METHODS = ("load", "infer", "close")
_STREAMING = ("load", "request", "open", "ask", "ask_here", "shut", "close")
NETWORKED = frozenset({"kserve", "openai"})
"""Backends whose model is on a server."""


def make_backend(name: str, options: Mapping[str, Any]) -> Backend:
    """Construct a backend: a name of `BACKENDS`, or one of your own (see `runner.named`).

    Raises:
        BackendError: no such backend, its library is absent, or it does not know an option.
    """
    return cast("Backend", _call(name, lambda made: made(**options), options))


def preflight(name: str, options: Mapping[str, Any]) -> None:
    """See that this machine has what a backend needs, before anything is begun.

    Raises:
        BackendError: what is missing, and how to install it; or a method that a backend of one's
            own lacks.
    """

    def look(made: Any) -> None:
        methods = _STREAMING if hasattr(made, "ask") and not hasattr(made, "infer") else _METHODS
        missing = [method for method in methods if not callable(getattr(made, method, None))]
        if missing:
            raise BackendError(
                f"found no {', '.join(missing)} in backend {name!r}; expected the methods "
                f"{', '.join(methods)} (see runner/backends/base.py)."
            )
        with contextlib.suppress(ValueError):  # a class written in C has no signature
            inspect.signature(made).bind(**options)
        getattr(made, "preflight", lambda _: None)(options)

    _call(name, look, options)


def chooses_batch(name: str, benchmark: Benchmark) -> bool:
    """Whether a backend chooses the batch by its device where the user gives none."""
    if benchmark.execute is not None:
        return False  # run by several calls, whose batch is the benchmark's
    return bool(_call(name, lambda made: getattr(made, "chooses_batch", False), {}))


def _call(name: str, use: Callable[[Any], Any], options: Mapping[str, Any]) -> Any:
    place = BACKENDS.get(name, name)
    if not is_place(place):
        raise BackendError(
            f"found backend {name!r}; expected one of {', '.join(BACKENDS)}, or one of your own as "
            "module:Class or folder/file.py:Class."
        )
    try:
        return use(load(place))
    except (ImportError, AttributeError) as error:
        raise BackendError(
            f"backend {name!r} cannot be imported ({error}); install the library that it needs, "
            f"name its file (folder/file.py:Class), or choose one of {', '.join(BACKENDS)}."
        ) from error
    except TypeError as error:
        raise BackendError(
            f"backend {name!r} does not take these options: {_listed(options)} ({error}); "
            f"{_known(place)}."
        ) from error


def _known(place: str) -> str:
    try:
        return f"it takes {', '.join(inspect.signature(load(place)).parameters) or 'none'}"
    except (ValueError, TypeError, ImportError, AttributeError):  # such as a class written in C
        return "see its documentation"


def _listed(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in options.items()) or "none"


def open_backend(
    benchmark: Benchmark,
    name: str,
    options: Mapping[str, Any],
    on_progress: Callable[[str], None] | None = None,
) -> Backend:
    """As `make_backend`; inside a `Pipeline` where the benchmark says how its model is run.

    A backend with a true `answers_whole` gives what the benchmark's encoding takes by itself.

    Args:
        on_progress: hears, a line at a time, what a backend does in `load` that takes long.
    """

    def make() -> Backend:
        made = make_backend(name, options)
        if not hasattr(made, "framework"):
            made.framework = short(name)  # at least whose code it was
        if on_progress is not None and isinstance(made, Narrates):
            made.on_progress = on_progress
        return made

    backend = make()
    whole = isinstance(backend, AnswersWhole) and backend.answers_whole
    if benchmark.execute is None or whole:
        return backend
    from runner.backends.pipeline import Pipeline

    return Pipeline(benchmark, make)
