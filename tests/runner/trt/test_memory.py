"""Device memory: the two adapters over libraries that are played, and the choice between them."""

from __future__ import annotations

import ctypes
import re
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from runner.backends.trt import memory as trt_memory
from runner.backends.trt.memory import (
    BindingsMemory,
    HostMemory,
    Memory,
    PyCudaMemory,
    device_count,
    open_memory,
    resolve,
)
from runner.errors import BackendError


class Status:
    def __init__(self, name: str) -> None:
        self.name = name
        self.value = 0 if name == "cudaSuccess" else 1


OK = Status("cudaSuccess")


class Runtime(ModuleType):
    """cuda.bindings.runtime on host memory; every call is logged."""

    cudaHostAllocDefault, cudaStreamNonBlocking, cudaEventDisableTiming = 0, 1, 2
    cudaError_t = SimpleNamespace(cudaSuccess=OK)
    cudaMemcpyKind = SimpleNamespace(
        cudaMemcpyHostToDevice="up",
        cudaMemcpyDeviceToHost="down",
        cudaMemcpyDeviceToDevice="within",
    )
    cudaStreamCaptureMode = SimpleNamespace(cudaStreamCaptureModeThreadLocal="thread")

    def __init__(self) -> None:
        super().__init__("cuda.bindings.runtime")
        self.log: list[Any] = []
        self.kept: dict[int, Any] = {}
        self.devices = 2
        self.failing: dict[str, str] = {}
        self.number = 0

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cuda"):
            raise AttributeError(name)

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.log.append((name, *arguments))
            if name in self.failing:
                return (Status(self.failing[name]), None)
            return (OK, *self.answer(name, arguments))

        return call

    def answer(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        match name:
            case "cudaGetDeviceCount":
                return (self.devices,)
            case "cudaDriverGetVersion":
                return (13000,)
            case "cudaGetDeviceProperties":
                return (
                    SimpleNamespace(
                        name=b"NVIDIA H200\0\0",
                        major=9,
                        minor=0,
                        totalGlobalMem=1 << 37,
                        multiProcessorCount=132,
                    ),
                )
            case "cudaMalloc" | "cudaHostAlloc":
                block = np.zeros(arguments[0], np.uint8)
                self.kept[block.ctypes.data] = block
                return (block.ctypes.data,)
            case "cudaFree" | "cudaFreeHost":
                del self.kept[arguments[0]]
                return ()
            case "cudaMemcpyAsync":
                ctypes.memmove(*arguments[:3])
                return ()
            case "cudaMemGetInfo":
                return (1 << 36, 1 << 37)
            case (
                "cudaStreamCreateWithFlags"
                | "cudaEventCreateWithFlags"
                | "cudaStreamEndCapture"
                | "cudaGraphInstantiate"
            ):
                self.number += 1
                return (self.number,)
        return ()


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    made = Runtime()
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    monkeypatch.setitem(sys.modules, "pycuda", None)
    monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", ModuleType("cuda.bindings"))
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", made)
    return made


def test_bindings_move_data_and_give_everything_back(runtime: Runtime) -> None:
    memory = open_memory("auto", 1)
    assert isinstance(memory, BindingsMemory)
    assert memory.facts.name == "NVIDIA H200" and memory.facts.capability == "9.0"
    assert memory.facts.multiprocessors == 132
    assert memory.facts.cuda == "13.0" and memory.free_bytes() == 1 << 36
    assert ("cudaSetDevice", 1) in runtime.log
    stream, event = memory.stream(), memory.event()
    source, target = memory.pinned(16), memory.pinned(16)
    source[:] = np.arange(16)
    device = memory.alloc(16)
    memory.h2d(device, source[:8], stream)
    memory.d2h(target[:8], device, stream)
    memory.record(event, stream)
    memory.after(memory.stream(), event)
    memory.wait(event)
    assert target[:8].tolist() == list(range(8)) and not target[8:].any()
    memory.d2d(device + 8, device, 8, stream)
    memory.d2h(target, device, stream)
    assert target.tolist() == [*range(8), *range(8)]
    assert [entry[4] for entry in runtime.log if entry[0] == "cudaMemcpyAsync"] == [
        "up",
        "down",
        "within",
        "down",
    ]
    graph = memory.capture(stream, lambda: memory.h2d(device, source, stream))
    memory.launch(graph, stream)
    names = [entry[0] for entry in runtime.log]
    assert names[-5:] == [
        "cudaMemcpyAsync",
        "cudaStreamEndCapture",
        "cudaGraphInstantiate",
        "cudaGraphDestroy",
        "cudaGraphLaunch",
    ]
    memory.free(device)
    memory.unpin(source)
    memory.unpin(target)
    memory.close()
    memory.close()
    assert runtime.kept == {}
    names = [entry[0] for entry in runtime.log]
    for name in ("cudaGraphExecDestroy", "cudaEventDestroy", "cudaStreamDestroy"):
        assert names.count(name) == {"cudaStreamDestroy": 2}.get(name, 1)


def test_a_failed_capture_is_ended(runtime: Runtime) -> None:
    memory = open_memory("cuda-bindings", 0)
    stream = memory.stream()
    with pytest.raises(ValueError, match="mine"):
        memory.capture(stream, lambda: (_ for _ in ()).throw(ValueError("mine")))
    assert runtime.log[-1] == ("cudaStreamEndCapture", stream)


@pytest.mark.parametrize(
    ("failing", "text"),
    [
        ({"cudaGetDeviceCount": "cudaErrorNoDevice"}, "found a CUDA driver, but no GPU"),
        (
            {"cudaGetDeviceCount": "cudaErrorInsufficientDriver"},
            r"found a driver for CUDA 13\.0, older than cuda-bindings",
        ),
        (
            {
                "cudaGetDeviceCount": "cudaErrorInsufficientDriver",
                "cudaDriverGetVersion": "cudaErrorUnknown",
            },
            r"found no CUDA driver\. Install NVIDIA's driver",
        ),
        ({"cudaGetDeviceCount": "cudaErrorUnknown"}, "the CUDA driver answers cudaErrorUnknown"),
    ],
)
def test_what_is_missing_is_named(runtime: Runtime, failing: dict[str, str], text: str) -> None:
    runtime.failing = failing
    with pytest.raises(BackendError, match=text):
        device_count("auto")


def test_a_full_gpu_says_what_to_do(runtime: Runtime) -> None:
    memory = open_memory("auto", 0)
    runtime.failing = {"cudaMalloc": "cudaErrorMemoryAllocation"}
    with pytest.raises(BackendError, match=r"cudaMalloc failed.*fewer streams"):
        memory.alloc(1)
    for call in ("cudaMemcpyAsync", "cudaEventRecord", "cudaEventSynchronize", "cudaGraphLaunch"):
        runtime.failing = {call: "cudaErrorLaunchFailure"}
        with pytest.raises(BackendError, match=f"{call} failed with cudaErrorLaunchFailure"):
            {
                "cudaMemcpyAsync": lambda: memory.h2d(0, np.zeros(1, np.uint8), 1),
                "cudaEventRecord": lambda: memory.record(1, 1),
                "cudaEventSynchronize": lambda: memory.wait(1),
                "cudaGraphLaunch": lambda: memory.launch(1, 1),
            }[call]()


def test_a_gpu_that_is_not_there(runtime: Runtime) -> None:
    with pytest.raises(BackendError, match=r"found 2 GPUs; expected number 2"):
        open_memory("auto", 2)


# --- PyCUDA ------------------------------------------------------------------------------------


class Driver(ModuleType):
    """pycuda.driver on host memory, with its one trap: a context left on a thread's stack."""

    class Error(Exception):
        pass

    class MemoryError(Error):
        pass

    def __init__(self) -> None:
        super().__init__("pycuda.driver")
        self.stacks: dict[int, list[Any]] = {}
        self.kept: dict[int, Any] = {}
        self.event_flags = SimpleNamespace(DISABLE_TIMING=2)
        self.device_attribute = SimpleNamespace(MULTIPROCESSOR_COUNT="SMs")
        driver = self

        class Context:
            handle = 77
            detached = False

            def push(self) -> None:
                driver.stacks.setdefault(threading.get_ident(), []).append(self)

            @staticmethod
            def pop() -> None:
                driver.stacks[threading.get_ident()].pop()

            def detach(self) -> None:
                self.detached = True

        self.Context = Context
        self.made: list[Context] = []

        class Device:
            def __init__(self, number: int) -> None:
                self.number = number

            @staticmethod
            def count() -> int:
                return 2

            def retain_primary_context(self) -> Context:
                driver.made.append(Context())
                return driver.made[-1]

            def compute_capability(self) -> tuple[int, int]:
                return 8, 9

            def total_memory(self) -> int:
                return 1 << 34

            def name(self) -> str:
                return "NVIDIA L4"

            def get_attribute(self, which: str) -> int:
                return {"SMs": 58}[which]

        self.Device = Device
        self.waited: list[Any] = []
        self.Stream = lambda flags: SimpleNamespace(
            handle=5, synchronize=lambda: None, wait_for_event=self.waited.append
        )
        self.Event = lambda flags: SimpleNamespace(
            record=lambda stream: None, synchronize=lambda: None
        )

    def init(self) -> None:
        pass

    def get_driver_version(self) -> int:
        return 12080

    def mem_get_info(self) -> tuple[int, int]:
        return 1, 2

    def mem_alloc(self, nbytes: int) -> Any:
        assert self.stacks[threading.get_ident()], "no currently active context"
        block = np.zeros(nbytes, np.uint8)
        address = block.ctypes.data
        self.kept[address] = block
        driver = self

        class Allocation:
            def __int__(self) -> int:
                return int(address)

            def free(self) -> None:
                del driver.kept[address]

        return Allocation()

    def pagelocked_empty(self, nbytes: int, dtype: Any) -> Any:
        block = np.zeros(nbytes, np.uint8)
        self.kept[block.ctypes.data] = block
        driver = self

        class Pinned(np.ndarray[Any, Any]):
            @property
            def base(self) -> Any:
                place = self.ctypes.data
                return SimpleNamespace(free=lambda: driver.kept.pop(place))

        return block.view(Pinned)

    def memcpy_htod_async(self, target: int, source: Any, stream: Any) -> None:
        ctypes.memmove(target, source.ctypes.data, source.nbytes)

    def memcpy_dtoh_async(self, target: Any, source: int, stream: Any) -> None:
        ctypes.memmove(target.ctypes.data, source, target.nbytes)

    def memcpy_dtod_async(self, target: int, source: int, size: int, stream: Any) -> None:
        ctypes.memmove(target, source, size)


class Cuda:
    """libcuda: status 0 to everything but what is failing."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.failing: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.log.append(name)
            return 700 if name in self.failing else 0

        return call


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    parent = ModuleType("pycuda")
    monkeypatch.setitem(sys.modules, "pycuda", parent)
    monkeypatch.setitem(sys.modules, "pycuda.driver", made)
    made.cuda = Cuda()  # type: ignore[attr-defined]
    monkeypatch.setattr(trt_memory.ctypes, "CDLL", lambda name: made.cuda)  # type: ignore[attr-defined]
    monkeypatch.setattr(PyCudaMemory, "_here", threading.local())
    return made


def test_pycuda_is_preferred_and_moves_data(driver: Driver) -> None:
    assert resolve("auto") == "pycuda" and device_count("auto") == 2
    memory = open_memory("auto", 0)
    assert isinstance(memory, PyCudaMemory)
    assert memory.facts.multiprocessors == 58
    assert memory.facts.name == "NVIDIA L4" and memory.facts.cuda == "12.8"
    stream, event = memory.stream(), memory.event()
    assert memory.handle(stream) == 5 and memory.free_bytes() == 1
    source, target = memory.pinned(8), memory.pinned(8)
    source[:] = 7
    device = memory.alloc(8)
    memory.h2d(device, source[:4], stream)
    memory.d2h(target[:4], device, stream)
    memory.d2d(device + 4, device, 4, stream)
    memory.record(event, stream)
    memory.after(memory.stream(), event)
    assert driver.waited == [event]
    memory.wait(event)
    memory.synchronize(stream)
    assert target.tolist() == [7] * 4 + [0] * 4
    graph = memory.capture(stream, lambda: None)
    memory.launch(graph, stream)
    cuda: Any = driver.cuda
    assert cuda.log == [
        "cuStreamBeginCapture_v2",
        "cuStreamEndCapture",
        "cuGraphInstantiateWithFlags",
        "cuGraphDestroy",
        "cuGraphLaunch",
    ]
    memory.free(device)
    memory.unpin(source)
    memory.unpin(target)
    memory.close()
    assert driver.kept == {} and driver.made[0].detached
    assert driver.stacks == {threading.get_ident(): []}
    assert cuda.log[-1] == "cuGraphExecDestroy"


def test_other_threads_leave_nothing_on_pycudas_stack(driver: Driver) -> None:
    """PyCUDA aborts the process when a thread ends with a context on its stack."""
    first, second = open_memory("pycuda", 0), open_memory("pycuda", 1)
    for memory in (first, second, first):
        memory.activate()
        assert len(driver.stacks[threading.get_ident()]) == 1
    cuda: Any = driver.cuda

    def work() -> None:
        for memory in (first, first, second):
            memory.activate()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert cuda.log == ["cuCtxSetCurrent"] * 2
    assert list(driver.stacks) == [threading.get_ident()]
    second.close()
    first.close()
    assert driver.stacks[threading.get_ident()] == []


def test_pycuda_without_a_gpu(driver: Driver) -> None:
    def refuse() -> None:
        raise driver.Error("cuInit failed: no CUDA-capable device is detected")

    driver.init = refuse  # type: ignore[method-assign]
    with pytest.raises(BackendError, match="found a CUDA driver, but no GPU"):
        device_count("pycuda")
    driver.init = lambda: (_ for _ in ()).throw(driver.Error("cuInit failed: unknown"))  # type: ignore[method-assign]
    with pytest.raises(BackendError, match="the CUDA driver answers: cuInit failed: unknown"):
        device_count("pycuda")


def test_a_failed_driver_call_is_told(driver: Driver) -> None:
    memory = open_memory("pycuda", 0)
    cuda: Any = driver.cuda
    cuda.failing = {"cuGraphLaunch"}
    with pytest.raises(BackendError, match="cuGraphLaunch failed with CUresult 700"):
        memory.launch(ctypes.c_void_p(1), memory.stream())
    driver.mem_alloc = lambda nbytes: (_ for _ in ()).throw(driver.MemoryError("full"))  # type: ignore[method-assign]
    with pytest.raises(BackendError, match="The GPU's memory is full"):
        memory.alloc(1)


# --- what both must do -------------------------------------------------------------------------


@pytest.fixture(params=["cuda-bindings", "pycuda"])
def either(request: pytest.FixtureRequest) -> Any:
    """Each library, and whoever says what it still holds."""
    name = {"cuda-bindings": "runtime", "pycuda": "driver"}[request.param]
    made = request.getfixturevalue(name)
    return open_memory(request.param, 0), made


def test_both_libraries_keep_one_contract(either: Any) -> None:
    memory, made = either
    assert memory.name in ("cuda-bindings", "pycuda")
    wanted = {name for name in vars(Memory) if not name.startswith("_")} | {"name", "facts"}
    assert len(wanted) >= 18 and wanted <= set(dir(memory))
    memory.activate()
    stream, copies, event = memory.stream(), memory.stream(), memory.event()
    source, target = memory.pinned(64), memory.pinned(64)
    source[:] = np.arange(64)
    target[:] = 0
    first, second = memory.alloc(64), memory.alloc(64)
    memory.h2d(first, source, copies)
    memory.record(event, copies)
    memory.after(stream, event)
    memory.d2d(second + 16, first, 32, stream)
    memory.d2d(second, first + 32, 16, stream)
    memory.d2h(target[:48], second, stream)
    memory.record(event, stream)
    memory.wait(event)
    assert target.tolist() == [*range(32, 48), *range(32), *[0] * 16]
    graph = memory.capture(stream, lambda: memory.d2h(target, first, stream))
    memory.launch(graph, stream)
    memory.synchronize(stream)
    assert target.tolist() == list(range(64))
    assert isinstance(memory.handle(stream), int) and memory.free_bytes() > 0
    facts = memory.facts
    assert facts.name.startswith("NVIDIA") and facts.multiprocessors > 0
    assert facts.memory_bytes > 1 << 30 and re.fullmatch(r"\d+\.\d+", facts.capability)
    assert re.fullmatch(r"\d+\.\d+", facts.cuda)
    for address in (first, second):
        memory.free(address)
    memory.unpin(source)
    memory.unpin(target)
    memory.close()
    assert made.kept == {}


# --- the choice --------------------------------------------------------------------------------


def test_without_any_library_both_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pycuda", "pycuda.driver", "cuda", "cuda.bindings", "cuda.bindings.runtime"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        BackendError,
        match=r"pycuda is not installed; cuda-bindings is not installed\. Install one: pip install",
    ):
        resolve("auto")


def test_pycuda_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> Any:
        raise ImportError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(trt_memory, "import_module", broken)
    with pytest.raises(BackendError, match="found no CUDA driver: pycuda is installed, but"):
        resolve("pycuda")


def test_the_host_is_only_there_when_asked_for() -> None:
    assert isinstance(open_memory("host", 0), HostMemory)
    with pytest.raises(BackendError, match="found memory='rocm'; expected one of auto, pycuda"):
        resolve("rocm")
