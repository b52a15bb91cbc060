"""ONNX Runtime."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from runner.errors import BackendError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from runner.benchmarks.base import Benchmark
    from runner.datasets import Dataset

CPU = "CPUExecutionProvider"
_LEVELS = ("disable", "basic", "extended", "all")


def provider_name(short: str) -> str:
    """ONNX Runtime's name of a provider: "cpu" and "CPUExecutionProvider" are the same."""
    known = {"cpu": CPU, "cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}
    return known.get(short.lower(), short)


class _Bound(dict[str, Any]):
    """A feed whose memory the session knows already, and that of its outputs."""

    __slots__ = ("binding", "outputs")
    binding: Any
    outputs: list[NDArray[Any]]


class OnnxRuntime:
    """An ONNX model in ONNX Runtime.

    Args:
        providers: execution providers in order of preference, "cpu", "cuda", "tensorrt" or
            ONNX Runtime's names.  Each must be there and stay: nothing falls back to the CPU
            unsaid.
        threads: intra-op threads; 0 leaves the number to ONNX Runtime (all cores).
        spinning: whether idle threads wait actively; False where cores are shared.
        optimization: "disable", "basic", "extended" or "all".
        io_binding: bind inputs and outputs by hand; with a device it saves copies, on the CPU
            it seldom pays.
    """

    def __init__(
        self,
        providers: Sequence[str] = (CPU,),
        threads: int = 0,
        spinning: bool = True,
        optimization: str = "all",
        io_binding: bool = False,
    ) -> None:
        if threads < 0:
            raise BackendError(f"found threads={threads}; expected 0 (all cores) or more.")
        if optimization not in _LEVELS:
            raise BackendError(
                f"found optimization={optimization!r}; expected one of {', '.join(_LEVELS)}."
            )
        names = [providers] if isinstance(providers, str) else providers
        self._providers = [provider_name(name) for name in names]
        self._threads = threads
        self._spinning = spinning
        self._optimization = optimization
        self._io_binding = io_binding
        self._bindings = threading.local()
        self._session: Any = None
        # Rows of a batch to the memory of its outputs; None where binding does not do.
        self._rooms: dict[int, list[NDArray[Any]] | None] = {}
        self.framework = "ONNX Runtime"

    @classmethod
    def preflight(cls, options: Mapping[str, Any]) -> None:
        """See that the providers asked for are there, before anything is begun."""
        cls(**options)._verify_available()

    def _verify_available(self) -> None:
        import onnxruntime

        # get_all_providers() lists what could have been compiled in, not what is there.
        available = onnxruntime.get_available_providers()
        absent = [name for name in self._providers if name not in available]
        if absent or not self._providers:
            raise BackendError(
                f"found the execution providers {', '.join(available)}; expected "
                f"{', '.join(self._providers) or 'none'}. Install the ONNX Runtime build that "
                "has it (for CUDA: onnxruntime-gpu in place of onnxruntime), or choose one that "
                "is there."
            )

    def load(self, benchmark: Benchmark, model: Path | None, dataset: Dataset) -> None:
        import onnxruntime

        if model is None or not model.is_file():
            raise BackendError(
                f"found no model file at {model}; expected an ONNX model of {benchmark.name}. "
                "Name one with the model option."
            )
        self._verify_available()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        # Inference is one graph at a time; a second pool would only compete for the cores.
        options.inter_op_num_threads = 1
        options.graph_optimization_level = getattr(
            onnxruntime.GraphOptimizationLevel, f"ORT_{self._level()}"
        )
        options.add_session_config_entry(
            "session.intra_op.allow_spinning", "1" if self._spinning else "0"
        )
        if CPU not in self._providers:
            # Else nodes that the provider cannot run would go to the CPU without a word.
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        options.log_severity_level = 3
        try:
            session = onnxruntime.InferenceSession(
                str(model), options, providers=list(self._providers)
            )
        except Exception as error:
            raise BackendError(
                f"{model}: ONNX Runtime {onnxruntime.__version__} cannot load it: {error}"
                + (
                    f" Name cpu too, after {', '.join(self._providers)}, to let the CPU run what "
                    "that cannot; the system description then says so."
                    if "fallback" in str(error)
                    else ""
                )
            ) from error
        session.disable_fallback()
        self._verify_providers(session.get_providers())
        _verify_signature(session, benchmark, model)
        self._outputs = [tensor.name for tensor in benchmark.outputs]
        self._session = session
        self._run = session.run
        self._run_bound = session.run_with_iobinding
        self.framework = (
            f"ONNX Runtime {onnxruntime.__version__} ({', '.join(self._providers)}, "
            f"{self._threads or 'default'} intra-op threads, "
            f"{'spinning' if self._spinning else 'no spinning'}, "
            f"graph optimization {self._optimization}"
            f"{', IO binding' if self._io_binding else ''})"
        )

    def _level(self) -> str:
        return {
            "disable": "DISABLE_ALL",
            "basic": "ENABLE_BASIC",
            "extended": "ENABLE_EXTENDED",
            "all": "ENABLE_ALL",
        }[self._optimization]

    def _verify_providers(self, got: Sequence[str]) -> None:
        # The runtime appends the CPU for what others cannot do; a provider that failed to start
        # is simply gone from this list.
        if list(got[: len(self._providers)]) != self._providers:
            raise BackendError(
                f"found a session on {', '.join(got)}; expected {', '.join(self._providers)}. "
                "The provider did not start: look at its driver and libraries; a result must not "
                "come from another device than the one named."
            )

    def bind(self, feed: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """The same samples, made ready once: a call takes some 10 us less.

        The outputs of all bound feeds of one size lie in the same memory, so one thread at a time
        may infer with them.  With a device the feed is given back as it is: its copy to the device
        belongs to the inference.
        """
        import onnxruntime

        rows = len(next(iter(feed.values()), ()))
        if rows not in self._rooms:
            self._rooms[rows] = self._room(feed, rows)
        room = self._rooms[rows]
        if room is None:
            return feed
        bound = _Bound(feed)
        bound.binding = self._session.io_binding()
        for name, array in feed.items():
            # No copy: the arrays stay alive in `bound`.
            bound.binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        for name, array in zip(self._outputs, room, strict=True):
            bound.binding.bind_output(
                name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data
            )
        bound.outputs = room
        return bound

    def _room(self, feed: Mapping[str, NDArray[Any]], rows: int) -> list[NDArray[Any]] | None:
        """Memory for the outputs of such a feed, if the graph says how much that is."""
        if self._providers != [CPU] or rows == 0:
            return None
        declared = {tensor.name: tensor.shape for tensor in self._session.get_outputs()}
        batch = self._session.get_inputs()[0].shape[:1]
        if batch in ([], [None]):
            return None  # a size without a name may be any size
        for name in self._outputs:
            shape = declared[name]
            if shape[:1] != batch or not all(isinstance(size, int) for size in shape[1:]):
                return None  # what comes depends on the data, as with non-maximum suppression
        try:
            given = self._run(self._outputs, feed)
        except Exception:
            return None  # it raises again where an inference is asked for, and is said to be one
        # Graphs that declare other shapes than they give are about; the runtime lets them.
        fits = all(
            array.shape == (rows, *declared[name][1:]) and array.dtype.kind in "biuf"
            for name, array in zip(self._outputs, given, strict=True)
        )
        return [np.empty_like(array) for array in given] if fits else None

    def infer(
        self, feed: Mapping[str, NDArray[Any]], indices: Sequence[int]
    ) -> Sequence[NDArray[Any]]:
        if type(feed) is _Bound:
            self._run_bound(feed.binding)
            return feed.outputs
        if self._io_binding:
            return self._infer_bound(feed)
        outputs: Sequence[NDArray[Any]] = self._run(self._outputs, feed)
        return outputs

    def _infer_bound(self, feed: Mapping[str, NDArray[Any]]) -> Sequence[NDArray[Any]]:
        binding = getattr(self._bindings, "binding", None)
        if binding is None:  # one for each thread: workers infer at the same time
            binding = self._bindings.binding = self._session.io_binding()
            for name in self._outputs:
                binding.bind_output(name)
        for name, array in feed.items():
            binding.bind_cpu_input(name, array)
        self._run_bound(binding)
        outputs: Sequence[NDArray[Any]] = binding.copy_outputs_to_cpu()
        return outputs

    def close(self) -> None:
        self._session = None
        self._run = self._run_bound = None
        self._rooms = {}


def _verify_signature(session: Any, benchmark: Benchmark, model: Path) -> None:
    for what, tensors, asked in (
        ("inputs", session.get_inputs(), benchmark.inputs),
        ("outputs", session.get_outputs(), benchmark.outputs),
    ):
        found = {tensor.name: tensor.shape for tensor in tensors}
        for tensor in asked:
            shape = found.get(tensor.name)
            fits = shape is not None and len(shape) == len(tensor.shape)
            if shape is not None and fits:
                # A symbolic or unknown dimension of the graph takes any size.
                fits = all(
                    want is None or not isinstance(have, int) or have == want
                    for have, want in zip(shape, tensor.shape, strict=True)
                )
            if not fits:
                raise BackendError(
                    f"{model}: found {what} {found}; expected {tensor.name!r} of shape "
                    f"{list(tensor.shape)} (None: the batch). Use a model of {benchmark.name}'s "
                    "signature."
                )
