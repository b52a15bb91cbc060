"""ONNX Runtime."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from runner.backends.onnx_session import (
    CPU,
    CUDA,
    TENSORRT,
    Options,
    SessionOptions,
    open_session,
    provider_name,
    statement,
    unverified,
    verify_available,
    verify_config,
)
from runner.errors import BackendError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from runner.benchmarks.base import Benchmark
    from runner.datasets import Dataset

_ON_CUDA = (CUDA, TENSORRT)  # providers whose memory OrtValue calls "cuda"
PROFILE = "onnxruntime_profile"


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
        io_binding: bind inputs and outputs by hand; with a device they lie in its memory, where one
            copy each way is all that an inference adds; on the CPU it seldom pays.
        provider_options: provider to option to value, under the names that `providers` takes.
        session_config: session config entries.
        inter_op_threads: more than one runs independent branches of the graph in parallel.
        devices: device numbers; one session on each, and threads that infer share them out.

    Attributes:
        profile_into: a folder to write ONNX Runtime's profile into, set before `load`; None: none.
    """

    def __init__(
        self,
        providers: Sequence[str] = (CPU,),
        threads: int = 0,
        spinning: bool = True,
        optimization: str = "all",
        io_binding: bool = False,
        *,
        provider_options: Options | None = None,
        session_config: Mapping[str, Any] | None = None,
        inter_op_threads: int = 1,
        devices: Sequence[int] = (),
    ) -> None:
        names = [providers] if isinstance(providers, str) else providers
        self._options = SessionOptions(
            providers=[provider_name(name) for name in names],
            provider_options={
                provider_name(name): dict(given) for name, given in (provider_options or {}).items()
            },
            config=dict(session_config or {}),
            threads=threads,
            inter_op_threads=inter_op_threads,
            spinning=spinning,
            optimization=optimization,
        )
        self._devices = list(devices)
        self._verify_devices()
        self._graphs = any(
            str(self._options.provider_options.get(name, {}).get(option, 0)).lower()
            in ("1", "true")
            for name, option in ((CUDA, "enable_cuda_graph"), (TENSORRT, "trt_cuda_graph_enable"))
        )
        # A captured graph reads and writes the same memory each time.
        self._io_binding = io_binding or self._graphs
        self._place: tuple[str, int] | None = None
        self._own = threading.local()
        self._taken = itertools.count()
        self._sessions: list[Any] = []
        self._run: Any = None
        self._run_bound: Any = None
        # Rows of a batch to the memory of its outputs; None where binding does not do.
        self._rooms: dict[int, list[NDArray[Any]] | None] = {}
        self.profile_into: Path | None = None
        self.warnings: list[str] = []
        self.framework = "ONNX Runtime"

    def _verify_devices(self) -> None:
        if not self._devices:
            return
        if len(set(self._devices)) != len(self._devices) or min(self._devices) < 0:
            raise BackendError(
                f"found devices {', '.join(map(str, self._devices))}; expected different numbers "
                "from 0."
            )
        if all(name == CPU for name in self._options.providers):
            raise BackendError(
                f"found devices {', '.join(map(str, self._devices))} with {CPU}, which has none; "
                "choose another provider, or --workers for several inferences at once."
            )
        for name, given in self._options.provider_options.items():
            if "device_id" in given:
                raise BackendError(
                    f"found device_id={given['device_id']} of {name} beside devices "
                    f"{', '.join(map(str, self._devices))}; expected one of them."
                )

    @classmethod
    def preflight(cls, options: Mapping[str, Any]) -> None:
        """See that the providers and config entries asked for exist, before anything is begun."""
        asked = cls(**options)._options
        verify_available(asked.providers)
        verify_config(asked.config)

    def load(self, benchmark: Benchmark, model: Path | None, dataset: Dataset) -> None:
        if model is None or not model.is_file():
            raise BackendError(
                f"found no model file at {model}; expected an ONNX model of {benchmark.name}. "
                "Name one with the model option."
            )
        options = self._options
        verify_available(options.providers)
        verify_config(options.config)
        numbers: list[int | None] = [*self._devices] or [None]
        for device in numbers:
            one = options if device is None else options.on_device(device)
            session = open_session(one, model, self._profile_prefix(model, device))
            _verify_signature(session, benchmark, model)
            self._sessions.append(session)
            self.warnings += [w for w in unverified(one, session) if w not in self.warnings]
            options_used = one
        self._outputs = [tensor.name for tensor in benchmark.outputs]
        self._place = self._memory()
        self._run = self._sessions[0].run
        self._run_bound = self._sessions[0].run_with_iobinding
        more = ["IO binding"] if self._io_binding else []
        if self._place and self._io_binding:
            more = ["IO binding in device memory"]
        if self.profile_into is not None:
            more.append("profiling")
            self.warnings.append(
                "ONNX Runtime's profiler was on, which takes time: without it the result would be better"
            )
        self.framework = statement(options_used, self._sessions, *more)

    def _profile_prefix(self, model: Path, device: int | None) -> Path | None:
        if self.profile_into is None:
            return None
        suffix = "" if device is None else f"_device{device}"
        return self.profile_into / f"{PROFILE}_{model.stem}{suffix}"

    def _memory(self) -> tuple[str, int] | None:
        """Where inputs and outputs lie for IO binding: OrtValue's device and number; None: the host."""
        first = self._options.providers[0]
        if first not in _ON_CUDA:
            return None
        number = self._sessions[0].get_provider_options().get(first, {}).get("device_id", "0")
        return "cuda", int(number)

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
        bound.binding = self._sessions[0].io_binding()
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
        if self._options.providers != [CPU] or rows == 0:
            return None
        session = self._sessions[0]
        declared = {tensor.name: tensor.shape for tensor in session.get_outputs()}
        batch = session.get_inputs()[0].shape[:1]
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
        if self._devices:
            outputs: Sequence[NDArray[Any]] = self._session()[0].run(self._outputs, feed)
            return outputs
        outputs = self._run(self._outputs, feed)
        return outputs

    def _session(self) -> tuple[Any, int]:
        """This thread's session, and its number: the first time, the next device's turn."""
        found = getattr(self._own, "session", None)
        if found is None:
            number = next(self._taken) % len(self._sessions)
            found = self._own.session = (self._sessions[number], number)
            self._own.bindings = {}
        return found

    def _infer_bound(self, feed: Mapping[str, NDArray[Any]]) -> Sequence[NDArray[Any]]:
        session, number = self._session()
        bindings = self._own.bindings  # of each thread: workers infer at the same time
        if self._place is not None:
            kind, first = self._place
            place = (kind, self._devices[number] if self._devices else first)
            rows = len(next(iter(feed.values())))
            if rows not in bindings:
                bindings[rows] = _OnDevice(
                    session=session,
                    outputs=self._outputs,
                    feed=feed,
                    place=place,
                    graphs=self._graphs,
                )
            on_device: _OnDevice = bindings[rows]
            return on_device.infer(feed)
        binding = bindings.get(0)
        if binding is None:
            binding = bindings[0] = session.io_binding()
            for name in self._outputs:
                binding.bind_output(name)
        for name, array in feed.items():
            binding.bind_cpu_input(name, array)
        session.run_with_iobinding(binding)
        outputs: Sequence[NDArray[Any]] = binding.copy_outputs_to_cpu()
        return outputs

    def close(self) -> None:
        if self.profile_into is not None:
            for session in self._sessions:
                session.end_profiling()
        self._sessions = []
        self._own = threading.local()
        self._run = self._run_bound = None
        self._rooms = {}


class _OnDevice:
    """Batches of one size in a device's memory: inputs that are written anew, outputs that stay.

    Args:
        feed: such a batch.
        place: OrtValue's device and its number.
        graphs: whether the provider captures a CUDA graph, which needs outputs at fixed addresses
            and a number of its own for each shape.
    """

    _numbers = itertools.count(1)
    _capturing = threading.Lock()  # ONNX Runtime replays captured graphs in one thread at a time

    def __init__(
        self,
        session: Any,
        outputs: Sequence[str],
        feed: Mapping[str, NDArray[Any]],
        place: tuple[str, int],
        graphs: bool,
    ) -> None:
        import onnxruntime

        self._session, self._graphs = session, graphs
        self._binding = session.io_binding()
        self._inputs = {
            name: onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                list(array.shape), array.dtype.type, *place
            )
            for name, array in feed.items()
        }
        for name, value in self._inputs.items():
            self._binding.bind_ortvalue_input(name, value)
        for name in outputs:
            self._binding.bind_output(name, *place)
        self._run_options = onnxruntime.RunOptions() if graphs else None
        if self._run_options is None:
            return
        self._run_options.add_run_config_entry("gpu_graph_id", "-1")  # this one is not captured
        self._write(feed)
        session.run_with_iobinding(self._binding, self._run_options)
        shapes = [(value.shape(), value.data_type()) for value in self._binding.get_outputs()]
        types = {f"tensor({kind})": np.dtype(name) for kind, name in _NAMES.items()}
        self._kept = [  # as long as the binding
            onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(shape), types[kind].type, *place)
            for shape, kind in shapes
        ]
        for name, value in zip(outputs, self._kept, strict=True):
            self._binding.bind_ortvalue_output(name, value)
        self._run_options = onnxruntime.RunOptions()
        self._run_options.add_run_config_entry("gpu_graph_id", str(next(self._numbers)))

    def _write(self, feed: Mapping[str, NDArray[Any]]) -> None:
        for name, array in feed.items():
            self._inputs[name].update_inplace(np.ascontiguousarray(array))

    def infer(self, feed: Mapping[str, NDArray[Any]]) -> Sequence[NDArray[Any]]:
        if self._graphs:
            with self._capturing:
                return self._infer(feed)
        return self._infer(feed)

    def _infer(self, feed: Mapping[str, NDArray[Any]]) -> Sequence[NDArray[Any]]:
        self._write(feed)
        self._session.run_with_iobinding(self._binding, self._run_options)
        outputs: Sequence[NDArray[Any]] = self._binding.copy_outputs_to_cpu()
        return outputs


_NAMES = {
    "float": "float32", "double": "float64", "float16": "float16", "int8": "int8", "uint8": "uint8",
    "int16": "int16", "uint16": "uint16", "int32": "int32", "uint32": "uint32", "int64": "int64",
    "uint64": "uint64", "bool": "bool",
}  # fmt: skip
"""NumPy's names of the element types in ONNX Runtime's."""


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
