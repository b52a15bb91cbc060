"""A built engine, ready to be put on streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from runner.backends.trt.api import (
    ICudaEngineApi,
    IExecutionContextApi,
    IOutputAllocatorApi,
    Messages,
    TensorRtApi,
)
from runner.backends.trt.memory import Memory
from runner.backends.trt.plan import EnginePlan, Port, Profile
from runner.errors import BackendError, InferenceError

Shapes = Mapping[str, tuple[int, ...]]


class Execution(Protocol):
    """What runs one batch at a time on one stream.

    `room` is what each output needs in bytes, at most; `capturable` is False where the engine
    waits for the device inside, which no graph can hold.
    """

    @property
    def room(self) -> Mapping[str, int]: ...
    @property
    def capturable(self) -> bool: ...
    def enqueue(self, shapes: Shapes, addresses: Mapping[str, int], stream: int) -> Shapes:
        """Put the work on the stream; the addresses are read now, the data later.

        Returns:
            The outputs' shapes.
        """
        ...


class Session(Protocol):
    """What the pipeline knows of an engine; `inputs` are those that the graph really reads."""

    plan: EnginePlan
    inputs: tuple[Port, ...]

    @property
    def scratch_bytes(self) -> int:
        """Working memory of one execution, at most; executions of one stream may share it."""
        ...

    def execution(self, profile: int, stream: Any, scratch: int) -> Execution:
        """A new execution that works in the memory at `scratch`."""
        ...

    def close(self) -> None: ...


def profiles_of(
    trt: TensorRtApi, messages: Messages, engine: bytes, inputs: Sequence[Port]
) -> tuple[tuple[Profile, ...], int | None, int]:
    """Batch sizes of a plan that was made elsewhere: profiles, fixed batch or None, longest.

    Raises:
        BackendError: TensorRT does not take the plan, or it lacks an input.
    """
    trt.init_libnvinfer_plugins(messages.logger, "")
    runtime = trt.Runtime(messages.logger)
    loaded = runtime.deserialize_cuda_engine(engine)
    if loaded is None:
        raise BackendError(
            f"TensorRT {trt.__version__} does not take the plan: {messages.last_errors()}. A plan "
            "runs with the TensorRT version and on the GPU that it was built with."
        )
    names = {loaded.get_tensor_name(index) for index in range(loaded.num_io_tensors)}
    ports = [port for port in inputs if port.name in names and port.batch_axis is not None]
    if not ports:
        raise BackendError(
            f"found a plan with the tensors {', '.join(sorted(names))}; expected the inputs "
            f"{', '.join(port.name for port in inputs)}."
        )
    profiles, fixed, longest = [], None, 1
    for port in ports:
        axis = port.batch_axis
        assert axis is not None
        shape = tuple(loaded.get_tensor_shape(port.name))
        if axis < len(shape) and shape[axis] != -1:
            fixed = int(shape[axis])
    if fixed is not None:
        return (Profile(fixed, fixed, fixed),), fixed, longest
    for index in range(loaded.num_optimization_profiles):
        bounds = []
        for port in ports:
            least, best, most = (
                tuple(dims) for dims in loaded.get_tensor_profile_shape(port.name, index)
            )
            axis = port.batch_axis
            assert axis is not None
            bounds.append((least[axis], best[axis], most[axis]))
            lengths = [n for k, n in enumerate(most) if port.shape[k] is None and k != axis]
            longest = max([longest, *lengths])
        low, high = max(b[0] for b in bounds), min(b[2] for b in bounds)
        profiles.append(Profile(low, min(max(bounds[0][1], low), high), high))
    return tuple(profiles), None, longest


class EngineSession:
    """A deserialised engine on the current device.

    Raises:
        BackendError: TensorRT does not take the engine, or its tensors are others than planned.
    """

    def __init__(
        self,
        trt: TensorRtApi,
        messages: Messages,
        memory: Memory,
        engine: bytes,
        plan: EnginePlan,
    ) -> None:
        self.plan = plan
        self.trt = trt
        self._messages = messages
        self._memory = memory
        trt.init_libnvinfer_plugins(messages.logger, "")
        # The runtime must outlive its engine.
        self._runtime: Any = trt.Runtime(messages.logger)
        loaded = self._runtime.deserialize_cuda_engine(engine)
        if loaded is None:
            raise BackendError(
                f"TensorRT {trt.__version__} does not take the engine: {messages.last_errors()}."
            )
        self._engine: ICudaEngineApi | None = loaded
        self.inputs = self._verify(loaded)

    def _verify(self, engine: ICudaEngineApi) -> tuple[Port, ...]:
        trt = self.trt
        types = {
            "float32": trt.DataType.FLOAT,
            "float16": trt.DataType.HALF,
            "bfloat16": trt.DataType.BF16,
            "int8": trt.DataType.INT8,
            "uint8": trt.DataType.UINT8,
            "int32": trt.DataType.INT32,
            "int64": trt.DataType.INT64,
            "bool": trt.DataType.BOOL,
        }
        found = {}
        for index in range(engine.num_io_tensors):
            name = engine.get_tensor_name(index)
            found[name] = (
                engine.get_tensor_mode(name),
                engine.get_tensor_dtype(name),
                tuple(engine.get_tensor_shape(name)),
            )
        used = []
        for mode, ports in (
            (trt.TensorIOMode.INPUT, self.plan.inputs),
            (trt.TensorIOMode.OUTPUT, self.plan.outputs),
        ):
            for port in ports:
                have = found.pop(port.name, None)
                if have is None and mode == trt.TensorIOMode.INPUT:
                    continue  # the graph does not use it
                fits = (
                    have is not None
                    and have[:2] == (mode, types[port.dtype])
                    and port.fits(have[2])
                )
                if not fits:
                    raise BackendError(
                        f"found the engine's tensor {port.name!r} as {have}; expected "
                        f"{port.dtype} {list(port.shape)} (None: any)."
                    )
                if mode == trt.TensorIOMode.INPUT:
                    used.append(port)
        if found:
            raise BackendError(
                f"found tensors in the engine that the benchmark does not have: "
                f"{', '.join(sorted(found))}."
            )
        wanted = len(self.plan.profiles)
        if engine.num_optimization_profiles != wanted:
            raise BackendError(
                f"found {engine.num_optimization_profiles} profiles in the engine; expected "
                f"{wanted}."
            )
        return tuple(used)

    @property
    def scratch_bytes(self) -> int:
        assert self._engine is not None
        return int(self._engine.device_memory_size_v2)

    def execution(self, profile: int, stream: Any, scratch: int) -> Execution:
        assert self._engine is not None
        context = self._engine.create_execution_context(
            self.trt.ExecutionContextAllocationStrategy.USER_MANAGED
        )
        if context is None:
            raise BackendError(
                f"TensorRT cannot make an execution context: {self._messages.last_errors()}. "
                "The GPU's memory may be full: choose fewer streams or a smaller max_batch."
            )
        context.set_device_memory(scratch, self.scratch_bytes)
        handle = self._memory.handle(stream)
        if not context.set_optimization_profile_async(profile, handle):
            raise BackendError(
                f"TensorRT cannot use profile {profile}: {self._messages.last_errors()}."
            )
        self._memory.synchronize(stream)
        return _Execution(self, context, self.plan.profiles[profile].most)

    def layers(self) -> str:
        """What TensorRT tells of the engine's layers, as JSON."""
        assert self._engine is not None
        inspector = self._engine.create_engine_inspector()
        return inspector.get_engine_information(self.trt.LayerInformationFormat.JSON)

    def failed(self, what: str) -> InferenceError:
        return InferenceError(f"TensorRT {what}: {self._messages.last_errors()}.")

    def close(self) -> None:
        self._engine = None
        self._runtime = None


class _Execution:
    """One execution context.  Shapes are set when the batch changes, addresses when they do."""

    def __init__(self, session: EngineSession, context: IExecutionContextApi, most: int) -> None:
        self._session = session
        self._context = context
        self._shapes: Shapes = {}
        self._known: dict[str, tuple[int, ...]] = {}
        self._bound: dict[str, int] = {}
        self.room: dict[str, int] = {}
        self._allocators: dict[str, _Output] = {}
        plan = session.plan
        self._shape({port.name: port.at(most, plan.longest) for port in session.inputs})
        for port in plan.outputs:
            shape = tuple(context.get_tensor_shape(port.name))
            if -1 not in shape:
                self.room[port.name] = port.nbytes(shape)
                continue
            # Its size is known only when it has run, and TensorRT waits to know it.
            room = context.get_max_output_size(port.name)
            if room < 0:
                raise session.failed(f"knows no bound for the size of {port.name!r}")
            self.room[port.name] = room
            output = self._allocators[port.name] = _Output(room)
            output.keep = _allocator(session.trt, output)
            if not context.set_output_allocator(port.name, output.keep):
                raise session.failed(f"takes no allocator for {port.name!r}")

    @property
    def capturable(self) -> bool:
        return not self._allocators

    def _shape(self, shapes: Shapes) -> None:
        for port in self._session.inputs:
            if not self._context.set_input_shape(port.name, shapes[port.name]):
                raise self._session.failed(
                    f"refused {port.name!r} of shape {list(shapes[port.name])}"
                )
        if missing := self._context.infer_shapes():
            raise self._session.failed(f"knows no shape of {', '.join(missing)}")
        self._shapes = shapes
        self._known = {}
        for port in self._session.plan.outputs:
            self._known[port.name] = tuple(self._context.get_tensor_shape(port.name))

    def enqueue(self, shapes: Shapes, addresses: Mapping[str, int], stream: int) -> Shapes:
        context = self._context
        if shapes is not self._shapes and shapes != self._shapes:
            self._shape(shapes)
        bound = self._bound
        for name, address in addresses.items():
            if bound.get(name) != address:
                if name in self._allocators:
                    self._allocators[name].address = address
                elif not context.set_tensor_address(name, address):
                    raise self._session.failed(f"refused the address of {name!r}")
                bound[name] = address
        if not context.execute_async_v3(stream):
            for name, output in self._allocators.items():
                self._told(name, output)  # raises where room was the reason
            raise self._session.failed("could not put the batch on its stream")
        if not self._allocators:
            return self._known
        # Told by now: TensorRT has waited for them.
        return {**self._known, **{n: self._told(n, o) for n, o in self._allocators.items()}}

    def _told(self, name: str, output: _Output) -> tuple[int, ...]:
        if output.refused:
            raise self._session.failed(
                f"wants {output.refused} bytes for {name!r}, more than the {output.room} it "
                "expected before"
            )
        return output.shape


class _Output:
    """Where an output of unknown size goes: room for the greatest there can be."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.address = 0
        self.shape: tuple[int, ...] = ()
        self.refused = 0
        self.keep: Any = None

    def take(self, size: int) -> int:
        if size > self.room:
            self.refused = size
            return 0
        return self.address


def _allocator(trt: TensorRtApi, output: _Output) -> IOutputAllocatorApi:
    base = trt.IOutputAllocator

    def begin(self: Any) -> None:
        base.__init__(self)

    def reallocate_output(self: Any, name: str, memory: int, size: int, alignment: int) -> int:
        return output.take(size)

    def reallocate_output_async(
        self: Any, name: str, memory: int, size: int, alignment: int, stream: int
    ) -> int:
        return output.take(size)

    def notify_shape(self: Any, name: str, shape: Sequence[int]) -> None:
        output.shape = tuple(shape)

    methods = {
        "__init__": begin,
        "reallocate_output": reallocate_output,
        "reallocate_output_async": reallocate_output_async,
        "notify_shape": notify_shape,
    }
    made: IOutputAllocatorApi = type("Output", (base,), methods)()
    return made
