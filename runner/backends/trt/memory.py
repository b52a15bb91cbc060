"""Device memory, streams and graphs behind one small interface, with three ways to have them.

`pycuda`: PyCUDA.  `cuda-bindings`: NVIDIA's prebuilt wheels, for machines without a CUDA toolkit.
`host`: this process's own memory, so that everything above can be tested without a GPU; its
streams do their work as late as they may.
"""

from __future__ import annotations

import contextlib
import ctypes
import random
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Protocol

from runner.errors import BackendError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CHOICES = ("auto", "pycuda", "cuda-bindings", "host")
DRIVER = (
    "Install NVIDIA's driver and see that nvidia-smi works; in a "
    "container, start it with --gpus all"
)


@dataclass(frozen=True)
class DeviceFacts:
    """What an engine and the default batch depend on.

    Attributes:
        capability: "9.0" for Hopper.
        cuda: newest CUDA version that the driver knows.
        multiprocessors: streaming multiprocessors (SMs); 0 where it is not known.
    """

    name: str
    capability: str
    memory_bytes: int
    cuda: str
    multiprocessors: int = 0


class Memory(Protocol):
    """One device.  Streams, events and graphs are opaque; addresses are plain numbers.

    `activate` must have been called in a thread before anything else is.  Everything that takes a
    stream returns at once; what it does happens in the order of the stream.
    """

    name: str
    facts: DeviceFacts

    def activate(self) -> None: ...
    def alloc(self, nbytes: int) -> int: ...
    def free(self, address: int) -> None: ...
    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        """Page-locked host memory, which alone can be copied while other things happen."""
        ...

    def unpin(self, array: NDArray[np.uint8]) -> None: ...
    def stream(self) -> Any: ...
    def handle(self, stream: Any) -> int:
        """The stream as TensorRT wants it."""
        ...

    def h2d(self, target: int, source: NDArray[np.uint8], stream: Any) -> None: ...
    def d2h(self, target: NDArray[np.uint8], source: int, stream: Any) -> None: ...
    def d2d(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Copy within the device."""
        ...

    def event(self) -> Any: ...
    def record(self, event: Any, stream: Any) -> None: ...
    def after(self, stream: Any, event: Any) -> None:
        """Let what comes next on the stream wait for what was recorded; this thread does not."""
        ...

    def wait(self, event: Any) -> None:
        """Block this thread until what was recorded has happened."""
        ...

    def synchronize(self, stream: Any) -> None: ...
    def free_bytes(self) -> int: ...
    def capture(self, stream: Any, work: Callable[[], None]) -> Any:
        """Record what `work` puts on the stream, without doing it, as a graph."""
        ...

    def launch(self, graph: Any, stream: Any) -> None: ...
    def close(self) -> None:
        """Release streams, events, graphs and the device; memory is the caller's to free."""
        ...


def device_count(choice: str = "auto") -> int:
    """Number of devices; makes no context, so it takes no device memory.

    Raises:
        BackendError: no library, no driver or no device, each with what to do.
    """
    name = resolve(choice)
    if name == "host":
        return 1
    count = _pycuda_count() if name == "pycuda" else _bindings_count()
    if not count:
        raise BackendError(
            "found a CUDA driver, but no GPU; expected an NVIDIA GPU. Look at nvidia-smi -L and "
            "at CUDA_VISIBLE_DEVICES; in a container, start it with --gpus all."
        )
    return count


def open_memory(choice: str, device: int) -> Memory:
    """The memory of one device."""
    name = resolve(choice)
    if name == "host":
        return HostMemory()
    count = device_count(name)
    if not 0 <= device < count:
        raise BackendError(f"found {count} GPUs; expected number {device} (the first is 0).")
    return PyCudaMemory(device) if name == "pycuda" else BindingsMemory(device)


def resolve(choice: str) -> str:
    """The library to use: the one asked for, or PyCUDA, else cuda-bindings.

    Raises:
        BackendError: it is not installed, or cannot be loaded.
    """
    if choice not in CHOICES:
        raise BackendError(f"found memory={choice!r}; expected one of {', '.join(CHOICES)}.")
    if choice == "host":
        return choice
    troubles = []
    for name in ("pycuda", "cuda-bindings") if choice == "auto" else (choice,):
        try:
            _import(name)
            return name
        except ModuleNotFoundError:
            troubles.append(f"{name} is not installed")
        except (ImportError, OSError) as error:
            if "libcuda" in str(error) or "undefined symbol: cu" in str(error):
                troubles.append(f"{name} is installed, but there is no CUDA driver ({error})")
            else:
                troubles.append(f"{name} cannot be loaded ({error})")
    if any("no CUDA driver" in text for text in troubles):
        raise BackendError(f"found no CUDA driver: {'; '.join(troubles)}. {DRIVER}.")
    raise BackendError(
        f"found no library for device memory: {'; '.join(troubles)}. Install one: pip install "
        "cuda-bindings (prebuilt), or pip install pycuda (needs a CUDA toolkit and a compiler)."
    )


def library_version(name: str) -> str:
    """Of "pycuda" or "cuda-bindings"; "" where it has none."""
    with contextlib.suppress(PackageNotFoundError):
        return version(name)
    return ""


def _import(name: str) -> Any:
    return import_module("pycuda.driver" if name == "pycuda" else "cuda.bindings.runtime")


# --- cuda-bindings -----------------------------------------------------------------------------


def _bindings_count() -> int:
    runtime = _import("cuda-bindings")
    status, count = runtime.cudaGetDeviceCount()
    name = status.name
    if name == "cudaErrorNoDevice":
        return 0
    if name in ("cudaErrorInsufficientDriver", "cudaErrorStubLibrary"):
        found, number = runtime.cudaDriverGetVersion()
        if found.name != "cudaSuccess" or not number:
            raise BackendError(f"found no CUDA driver. {DRIVER}.")
        raise BackendError(
            f"found a driver for CUDA {_dotted(number)}, older than cuda-bindings "
            f"{library_version('cuda-bindings')} wants. Update the driver, or install the "
            f"cuda-bindings of its version (pip install 'cuda-bindings=={number // 1000}.*')."
        )
    if name != "cudaSuccess":
        raise BackendError(f"the CUDA driver answers {name}. {DRIVER}.")
    return int(count)


def _dotted(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


class BindingsMemory:
    """Device memory through cuda-bindings: the CUDA runtime API and its primary context."""

    name = "cuda-bindings"

    def __init__(self, device: int) -> None:
        self._rt = _import("cuda-bindings")
        self._device = device
        self._streams: list[Any] = []
        self._events: list[Any] = []
        self._graphs: list[Any] = []
        rt = self._rt
        kinds = rt.cudaMemcpyKind
        self._up, self._down = kinds.cudaMemcpyHostToDevice, kinds.cudaMemcpyDeviceToHost
        self._within = kinds.cudaMemcpyDeviceToDevice
        # What a batch calls, looked up once.
        self._ok = rt.cudaError_t.cudaSuccess
        self._set, self._copy = rt.cudaSetDevice, rt.cudaMemcpyAsync
        self._record, self._wait, self._launch = (
            rt.cudaEventRecord,
            rt.cudaEventSynchronize,
            rt.cudaGraphLaunch,
        )
        self._after = rt.cudaStreamWaitEvent
        self.activate()
        properties = self._call("cudaGetDeviceProperties", device)
        raw = properties.name
        self.facts = DeviceFacts(
            name=(raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)).strip("\0"),
            capability=f"{properties.major}.{properties.minor}",
            memory_bytes=int(properties.totalGlobalMem),
            cuda=_dotted(self._call("cudaDriverGetVersion")),
            multiprocessors=int(properties.multiProcessorCount),
        )

    def _call(self, name: str, *arguments: Any) -> Any:
        status, *values = getattr(self._rt, name)(*arguments)
        if status.value:
            raise BackendError(_cuda_error(name, status.name))
        return values[0] if len(values) == 1 else values

    def _check(self, name: str, answer: tuple[Any]) -> None:
        if answer[0] != self._ok:
            raise BackendError(_cuda_error(name, answer[0].name))

    def activate(self) -> None:
        self._check("cudaSetDevice", self._set(self._device))

    def alloc(self, nbytes: int) -> int:
        return int(self._call("cudaMalloc", nbytes))

    def free(self, address: int) -> None:
        self._call("cudaFree", address)

    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        address = int(self._call("cudaHostAlloc", nbytes, self._rt.cudaHostAllocDefault))
        return _view(address, nbytes)

    def unpin(self, array: NDArray[np.uint8]) -> None:
        self._call("cudaFreeHost", array.ctypes.data)

    def stream(self) -> Any:
        stream = self._call("cudaStreamCreateWithFlags", self._rt.cudaStreamNonBlocking)
        self._streams.append(stream)
        return stream

    def handle(self, stream: Any) -> int:
        return int(stream)

    def h2d(self, target: int, source: NDArray[np.uint8], stream: Any) -> None:
        answer = self._copy(target, source.ctypes.data, source.nbytes, self._up, stream)
        self._check("cudaMemcpyAsync", answer)

    def d2h(self, target: NDArray[np.uint8], source: int, stream: Any) -> None:
        answer = self._copy(target.ctypes.data, source, target.nbytes, self._down, stream)
        self._check("cudaMemcpyAsync", answer)

    def d2d(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        answer = self._copy(target, source, nbytes, self._within, stream)
        self._check("cudaMemcpyAsync", answer)

    def event(self) -> Any:
        event = self._call("cudaEventCreateWithFlags", self._rt.cudaEventDisableTiming)
        self._events.append(event)
        return event

    def record(self, event: Any, stream: Any) -> None:
        self._check("cudaEventRecord", self._record(event, stream))

    def after(self, stream: Any, event: Any) -> None:
        self._check("cudaStreamWaitEvent", self._after(stream, event, 0))

    def wait(self, event: Any) -> None:
        self._check("cudaEventSynchronize", self._wait(event))

    def synchronize(self, stream: Any) -> None:
        self._call("cudaStreamSynchronize", stream)

    def free_bytes(self) -> int:
        free, _total = self._call("cudaMemGetInfo")
        return int(free)

    def capture(self, stream: Any, work: Callable[[], None]) -> Any:
        modes = self._rt.cudaStreamCaptureMode
        self._call("cudaStreamBeginCapture", stream, modes.cudaStreamCaptureModeThreadLocal)
        try:
            work()
        except BaseException:
            # Ends the capture, which the failed work has made invalid.
            with contextlib.suppress(BackendError):
                self._call("cudaStreamEndCapture", stream)
            raise
        graph = self._call("cudaStreamEndCapture", stream)
        ready = self._call("cudaGraphInstantiate", graph, 0)
        self._call("cudaGraphDestroy", graph)
        self._graphs.append(ready)
        return ready

    def launch(self, graph: Any, stream: Any) -> None:
        self._check("cudaGraphLaunch", self._launch(graph, stream))

    def close(self) -> None:
        with contextlib.suppress(BackendError):
            self.activate()
        for name, things in (
            ("cudaGraphExecDestroy", self._graphs),
            ("cudaEventDestroy", self._events),
            ("cudaStreamDestroy", self._streams),
        ):
            for thing in things:
                with contextlib.suppress(BackendError):
                    self._call(name, thing)
            things.clear()


def _cuda_error(call: str, status: str) -> str:
    hint = ""
    if "MemoryAllocation" in status or "OUT_OF_MEMORY" in status:
        hint = (
            " The GPU's memory is full: see nvidia-smi for who uses it, or choose fewer streams "
            "or a smaller max_batch."
        )
    return f"{call} failed with {status}.{hint}"


def _view(address: int, nbytes: int) -> NDArray[np.uint8]:
    import numpy as np

    raw: Any = (ctypes.c_ubyte * nbytes).from_address(address)
    return np.frombuffer(raw, np.uint8)


# --- PyCUDA ------------------------------------------------------------------------------------


def _pycuda_count() -> int:
    driver = _import("pycuda")
    try:
        driver.init()
        return int(driver.Device.count())
    except driver.Error as error:
        if "no CUDA-capable device" in str(error):
            return 0
        raise BackendError(f"the CUDA driver answers: {error}. {DRIVER}.") from error


class PyCudaMemory:
    """Device memory through PyCUDA, in the primary context, which TensorRT uses as well.

    PyCUDA keeps a stack of contexts for each thread and aborts the process when a thread ends
    with one on it.  So only the thread that opened the device, which also allocates and closes,
    has the context on PyCUDA's stack; the others get it from the driver.
    """

    name = "pycuda"
    _here = threading.local()

    def __init__(self, device: int) -> None:
        self._driver = _import("pycuda")
        self._driver.init()
        self._allocations: dict[int, Any] = {}
        self._pinned: dict[int, NDArray[np.uint8]] = {}
        self._events: list[Any] = []
        self._streams: list[Any] = []
        self._owner = threading.get_ident()
        self._cuda = _Driver()
        handle = self._driver.Device(device)
        try:
            self._context = handle.retain_primary_context()
        except self._driver.Error as error:
            raise BackendError(f"the GPU cannot be used: {error}. {DRIVER}.") from error
        self.activate()
        major, minor = handle.compute_capability()
        self.facts = DeviceFacts(
            name=str(handle.name()),
            capability=f"{major}.{minor}",
            memory_bytes=int(handle.total_memory()),
            cuda=_dotted(int(self._driver.get_driver_version())),
            multiprocessors=int(
                handle.get_attribute(self._driver.device_attribute.MULTIPROCESSOR_COUNT)
            ),
        )

    def activate(self) -> None:
        top = getattr(self._here, "top", None)
        if top is self:
            return
        if threading.get_ident() == self._owner:
            if top is not None:
                self._driver.Context.pop()
            self._context.push()
        else:
            self._cuda.call("cuCtxSetCurrent", ctypes.c_void_p(int(self._context.handle)))
        self._here.top = self

    def alloc(self, nbytes: int) -> int:
        try:
            allocation = self._driver.mem_alloc(nbytes)
        except self._driver.MemoryError as error:
            raise BackendError(_cuda_error("mem_alloc", "OUT_OF_MEMORY")) from error
        address = int(allocation)
        self._allocations[address] = allocation
        return address

    def free(self, address: int) -> None:
        self._allocations.pop(address).free()

    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        import numpy as np

        array: NDArray[np.uint8] = self._driver.pagelocked_empty(nbytes, np.uint8)
        self._pinned[array.ctypes.data] = array
        return array

    def unpin(self, array: NDArray[np.uint8]) -> None:
        self._pinned.pop(array.ctypes.data).base.free()  # type: ignore[union-attr]

    def stream(self) -> Any:
        # 1: does not wait for the default stream, which others may use.
        stream = self._driver.Stream(1)
        self._streams.append(stream)
        return stream

    def handle(self, stream: Any) -> int:
        return int(stream.handle)

    def h2d(self, target: int, source: NDArray[np.uint8], stream: Any) -> None:
        self._driver.memcpy_htod_async(target, source, stream)

    def d2h(self, target: NDArray[np.uint8], source: int, stream: Any) -> None:
        self._driver.memcpy_dtoh_async(target, source, stream)

    def d2d(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        self._driver.memcpy_dtod_async(target, source, nbytes, stream)

    def event(self) -> Any:
        event = self._driver.Event(self._driver.event_flags.DISABLE_TIMING)
        self._events.append(event)
        return event

    def record(self, event: Any, stream: Any) -> None:
        event.record(stream)

    def after(self, stream: Any, event: Any) -> None:
        stream.wait_for_event(event)

    def wait(self, event: Any) -> None:
        event.synchronize()

    def synchronize(self, stream: Any) -> None:
        stream.synchronize()

    def free_bytes(self) -> int:
        return int(self._driver.mem_get_info()[0])

    def capture(self, stream: Any, work: Callable[[], None]) -> Any:
        return self._cuda.capture(self.handle(stream), work)

    def launch(self, graph: Any, stream: Any) -> None:
        self._cuda.launch(graph, self.handle(stream))

    def close(self) -> None:
        self.activate()
        self._cuda.close()
        self._events.clear()
        self._streams.clear()
        self._driver.Context.pop()
        self._here.top = None
        self._context.detach()


class _Driver:
    """What PyCUDA lacks, from the driver itself: CUDA graphs, and contexts in other threads."""

    _THREAD_LOCAL = 1

    def __init__(self) -> None:
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise BackendError(f"found no CUDA driver ({error}). {DRIVER}.") from error
        self._made: list[ctypes.c_void_p] = []

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            raise BackendError(_cuda_error(name, f"CUresult {status}"))

    def capture(self, stream: int, work: Callable[[], None]) -> ctypes.c_void_p:
        handle, graph, ready = ctypes.c_void_p(stream), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamBeginCapture_v2", handle, self._THREAD_LOCAL)
        try:
            work()
        except BaseException:
            with contextlib.suppress(BackendError):
                self.call("cuStreamEndCapture", handle, ctypes.byref(graph))
            raise
        self.call("cuStreamEndCapture", handle, ctypes.byref(graph))
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_ulonglong(0))
        self.call("cuGraphDestroy", graph)
        self._made.append(ready)
        return ready

    def launch(self, graph: ctypes.c_void_p, stream: int) -> None:
        self.call("cuGraphLaunch", graph, ctypes.c_void_p(stream))

    def close(self) -> None:
        for graph in self._made:
            with contextlib.suppress(BackendError):
                self.call("cuGraphExecDestroy", graph)
        self._made.clear()


# --- this process's own memory -----------------------------------------------------------------


class HostStream:
    """Work that waits to be done, in order."""

    def __init__(self, number: int) -> None:
        self.number = number
        # An event: nothing behind it is done before it is reached.
        self.waiting: deque[Callable[[], None] | HostEvent] = deque()
        self.issued = self.finished = 0
        self.recording: list[Callable[[], None]] | None = None

    @property
    def can_go(self) -> bool:
        if not self.waiting:
            return False
        head = self.waiting[0]
        return not isinstance(head, HostEvent) or head.reached


class HostEvent:
    def __init__(self, stream: HostStream | None = None, position: int = 0) -> None:
        self.stream, self.position = stream, position

    @property
    def reached(self) -> bool:
        return self.stream is None or self.stream.finished >= self.position


class HostMemory:
    """A device that is this process's memory, for tests.

    Nothing is done before somebody waits for it, and other streams then advance by a random
    amount: whoever touches a buffer too early finds it out.

    Args:
        seed: of the streams' relative progress.

    Attributes:
        log: every call that concerns a stream or memory: its name, and what it was about.
    """

    name = "host"

    def __init__(self, seed: int = 0) -> None:
        self.facts = DeviceFacts(
            name="host memory",
            capability="0.0",
            memory_bytes=1 << 34,
            cuda="none",
            multiprocessors=4,
        )
        self.log: list[tuple[Any, ...]] = []
        self.live: dict[int, NDArray[np.uint8]] = {}
        self._random = random.Random(seed)
        self._streams: list[HostStream] = []
        self._lock = threading.RLock()

    def activate(self) -> None:
        return None

    def alloc(self, nbytes: int) -> int:
        array = self.pinned(nbytes)
        self.log.append(("alloc", nbytes))
        return int(array.ctypes.data)

    def free(self, address: int) -> None:
        if address not in self.live:
            raise BackendError(f"freed {address:#x}, which is not allocated")
        self.log.append(("free", address))
        del self.live[address]

    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        import numpy as np

        # Not zero: whoever reads what was never written shall see it.
        array = np.full(max(nbytes, 1), 0xA5, np.uint8)
        self.live[array.ctypes.data] = array
        return array[:nbytes]

    def unpin(self, array: NDArray[np.uint8]) -> None:
        self.free(array.ctypes.data)

    def stream(self) -> HostStream:
        stream = HostStream(len(self._streams) + 1)
        self._streams.append(stream)
        return stream

    def handle(self, stream: HostStream) -> int:
        return stream.number

    def stream_of(self, handle: int) -> HostStream:
        """The stream that `handle` names: for an engine that runs on this memory."""
        return self._streams[handle - 1]

    def put(self, stream: HostStream, what: str, work: Callable[[], None]) -> None:
        """Work of somebody else's (an engine's) on a stream."""
        with self._lock:
            if stream.recording is not None:
                stream.recording.append(work)
                return
            self.log.append((what, stream.number))
            stream.waiting.append(work)
            stream.issued += 1

    def h2d(self, target: int, source: NDArray[np.uint8], stream: HostStream) -> None:
        address, count = source.ctypes.data, source.nbytes
        self.put(stream, "h2d", lambda: _move(target, address, count))

    def d2h(self, target: NDArray[np.uint8], source: int, stream: HostStream) -> None:
        address, count = target.ctypes.data, target.nbytes
        self.put(stream, "d2h", lambda: _move(address, source, count))

    def d2d(self, target: int, source: int, nbytes: int, stream: HostStream) -> None:
        self.put(stream, "d2d", lambda: _move(target, source, nbytes))

    def event(self) -> HostEvent:
        return HostEvent()

    def record(self, event: HostEvent, stream: HostStream) -> None:
        with self._lock:
            event.stream, event.position = stream, stream.issued

    def after(self, stream: HostStream, event: HostEvent) -> None:
        with self._lock:
            stream.waiting.append(HostEvent(event.stream, event.position))
            stream.issued += 1

    def wait(self, event: HostEvent) -> None:
        if event.stream is not None:
            self._advance(event.stream, event.position)

    def synchronize(self, stream: HostStream) -> None:
        self._advance(stream, stream.issued)

    def free_bytes(self) -> int:
        return self.facts.memory_bytes - sum(array.nbytes for array in self.live.values())

    def capture(self, stream: HostStream, work: Callable[[], None]) -> list[Callable[[], None]]:
        steps: list[Callable[[], None]] = []
        stream.recording = steps
        try:
            work()
        finally:
            stream.recording = None
        return steps

    def launch(self, graph: list[Callable[[], None]], stream: HostStream) -> None:
        steps = list(graph)

        def work() -> None:
            for step in steps:
                step()

        self.put(stream, "graph", work)

    def close(self) -> None:
        self._streams.clear()

    def _advance(self, wanted: HostStream, position: int) -> None:
        with self._lock:
            while wanted.finished < position:
                # Streams are in no order among themselves.
                stream = self._random.choice([s for s in self._streams if s.can_go])
                work = stream.waiting.popleft()
                if not isinstance(work, HostEvent):
                    work()
                stream.finished += 1


def _move(target: int, source: int, count: int) -> None:
    ctypes.memmove(target, source, count)
