"""The part of TensorRT that is used, written down once: what 10.x and 11.x have in common.

The backend sees TensorRT through these protocols only, so the type checker refuses any name that
does not stand here, and one test asks the bindings of both versions for every name that does.
A class `XApi` stands for TensorRT's `X`.  Precision lives in the ONNX file: there is no
calibrator, no precision flag and no per-layer precision here, because 11 has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from runner.errors import BackendError

OLDEST = (10, 1)

INSTALL = (
    "pip install 'assay[tensorrt]' (TensorRT's own libraries come from NVIDIA's package index: "
    "add it with --extra-index-url where pip cannot find them)"
)


class ILoggerApi(Protocol):
    Severity: Any

    def log(self, severity: Any, message: str, /) -> None: ...


class IProgressMonitorApi(Protocol):
    def phase_start(self, name: str, parent: str | None, steps: int, /) -> None: ...
    def step_complete(self, name: str, step: int, /) -> bool: ...
    def phase_finish(self, name: str, /) -> None: ...


class IHostMemoryApi(Protocol):
    @property
    def nbytes(self) -> int: ...


class ITimingCacheApi(Protocol):
    def serialize(self) -> IHostMemoryApi: ...


class IOptimizationProfileApi(Protocol):
    def set_shape(
        self, input: str, min: Sequence[int], opt: Sequence[int], max: Sequence[int]
    ) -> None: ...


class ITensorApi(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> Sequence[int]: ...


class INetworkDefinitionApi(Protocol):
    @property
    def num_inputs(self) -> int: ...
    def get_input(self, index: int, /) -> ITensorApi: ...


class IBuilderConfigApi(Protocol):
    builder_optimization_level: int
    progress_monitor: Any
    profiling_verbosity: Any

    def set_memory_pool_limit(self, pool: Any, bytes: int, /) -> None: ...
    def add_optimization_profile(self, profile: IOptimizationProfileApi, /) -> int: ...
    def create_timing_cache(self, data: bytes, /) -> ITimingCacheApi | None: ...
    def set_timing_cache(self, cache: ITimingCacheApi, ignore_mismatch: bool, /) -> bool: ...
    def get_timing_cache(self) -> ITimingCacheApi | None: ...
    def set_flag(self, flag: Any, /) -> None: ...
    def clear_flag(self, flag: Any, /) -> None: ...


class BuilderApi(Protocol):
    def create_network(self, flags: int, /) -> INetworkDefinitionApi: ...
    def create_builder_config(self) -> IBuilderConfigApi: ...
    def create_optimization_profile(self) -> IOptimizationProfileApi: ...
    def build_serialized_network(
        self, network: INetworkDefinitionApi, config: IBuilderConfigApi, /
    ) -> IHostMemoryApi | None: ...


class ParserErrorApi(Protocol):
    def desc(self) -> str: ...


class OnnxParserApi(Protocol):
    @property
    def num_errors(self) -> int: ...
    def get_error(self, index: int, /) -> ParserErrorApi: ...
    def parse_from_file(self, path: str, /) -> bool: ...


class IOutputAllocatorApi(Protocol):
    """TensorRT calls these three; in the bindings they are told of by the docstring alone."""

    def reallocate_output(self, name: str, memory: int, size: int, alignment: int, /) -> int: ...
    def reallocate_output_async(
        self, name: str, memory: int, size: int, alignment: int, stream: int, /
    ) -> int: ...
    def notify_shape(self, name: str, shape: Sequence[int], /) -> None: ...


class IExecutionContextApi(Protocol):
    def set_optimization_profile_async(self, index: int, stream: int, /) -> bool: ...
    def set_input_shape(self, name: str, shape: Sequence[int], /) -> bool: ...
    def infer_shapes(self) -> Sequence[str]: ...
    def get_tensor_shape(self, name: str, /) -> Sequence[int]: ...
    def get_max_output_size(self, name: str, /) -> int: ...
    def set_device_memory(self, memory: int, size: int, /) -> None: ...
    def set_tensor_address(self, name: str, address: int, /) -> bool: ...
    def set_output_allocator(self, name: str, allocator: Any, /) -> bool: ...
    def execute_async_v3(self, stream: int, /) -> bool: ...


class DimsApi(Protocol):
    """A shape; the bindings give one for each of a profile's least, best and greatest."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...


class EngineInspectorApi(Protocol):
    def get_engine_information(self, format: Any, /) -> str: ...


class ICudaEngineApi(Protocol):
    @property
    def num_io_tensors(self) -> int: ...
    @property
    def num_optimization_profiles(self) -> int: ...
    def get_tensor_name(self, index: int, /) -> str: ...
    def get_tensor_mode(self, name: str, /) -> Any: ...
    def get_tensor_dtype(self, name: str, /) -> Any: ...
    def get_tensor_shape(self, name: str, /) -> Sequence[int]: ...
    def get_tensor_profile_shape(self, name: str, profile: int, /) -> Sequence[DimsApi]: ...
    def create_engine_inspector(self) -> EngineInspectorApi: ...
    @property
    def device_memory_size_v2(self) -> int: ...
    def create_execution_context(self, strategy: Any, /) -> IExecutionContextApi | None: ...


class RuntimeApi(Protocol):
    def deserialize_cuda_engine(self, data: bytes, /) -> ICudaEngineApi | None: ...


class DataTypeApi(Protocol):
    FLOAT: Any
    HALF: Any
    BF16: Any
    FP8: Any
    INT8: Any
    INT32: Any
    INT64: Any
    BOOL: Any
    UINT8: Any


class BuilderFlagApi(Protocol):
    TF32: Any
    SPARSE_WEIGHTS: Any


class ProfilingVerbosityApi(Protocol):
    DETAILED: Any


class LayerInformationFormatApi(Protocol):
    JSON: Any


class MemoryPoolTypeApi(Protocol):
    WORKSPACE: Any


class NetworkDefinitionCreationFlagApi(Protocol):
    STRONGLY_TYPED: Any


class ExecutionContextAllocationStrategyApi(Protocol):
    USER_MANAGED: Any


class TensorIOModeApi(Protocol):
    INPUT: Any
    OUTPUT: Any


class TensorRtApi(Protocol):
    """The module itself."""

    __version__: str
    # To be subclassed, which the type checker cannot follow into a library that may be absent.
    ILogger: Any
    IProgressMonitor: Any
    IOutputAllocator: Any

    @property
    def DataType(self) -> DataTypeApi: ...
    @property
    def BuilderFlag(self) -> BuilderFlagApi: ...
    @property
    def MemoryPoolType(self) -> MemoryPoolTypeApi: ...
    @property
    def NetworkDefinitionCreationFlag(self) -> NetworkDefinitionCreationFlagApi: ...
    @property
    def ExecutionContextAllocationStrategy(self) -> ExecutionContextAllocationStrategyApi: ...
    @property
    def ProfilingVerbosity(self) -> ProfilingVerbosityApi: ...
    @property
    def LayerInformationFormat(self) -> LayerInformationFormatApi: ...
    @property
    def TensorIOMode(self) -> TensorIOModeApi: ...
    def Builder(self, logger: Any, /) -> BuilderApi: ...
    def OnnxParser(self, network: INetworkDefinitionApi, logger: Any, /) -> OnnxParserApi: ...
    def Runtime(self, logger: Any, /) -> RuntimeApi: ...
    def init_libnvinfer_plugins(self, logger: Any, namespace: str, /) -> bool: ...


def load_tensorrt() -> TensorRtApi:
    """Import TensorRT.

    Raises:
        BackendError: it is absent, its libraries are, or it is too old; says which.
    """
    try:
        module = import_module("tensorrt")
    except ModuleNotFoundError as error:
        raise BackendError(
            f"found no TensorRT (Python package {error.name!r} is absent). Install it with "
            f"{INSTALL}, or choose --backend onnxruntime."
        ) from error
    except (ImportError, OSError) as error:
        raise BackendError(
            f"found TensorRT's Python package, but its libraries cannot be loaded ({error}). "
            f"Install them with {INSTALL}, or choose --backend onnxruntime."
        ) from error
    version = str(getattr(module, "__version__", "unknown"))
    if version_tuple(version) < OLDEST:
        raise BackendError(
            f"found TensorRT {version}; expected 10.1 or newer, which has strongly "
            f"typed networks and contexts that share memory. Install it with {INSTALL}."
        )
    return cast(TensorRtApi, module)


def version_tuple(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: "10.16.1.11" and "10.13.3.9.post1" compare as meant."""
    numbers = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


class Messages:
    """What TensorRT logged, the last of it kept: an error of its own says less than these.

    Got through `messages_of`: TensorRT holds on to the first logger of a process, without owning
    it, so there is one, and it stays.
    """

    KEPT = 40

    def __init__(self, trt: TensorRtApi) -> None:
        self.lines: list[str] = []
        self.errors: list[str] = []
        self.logger = _logger(trt, self)

    def take(self, severity: str, text: str) -> None:
        kept = self.errors if "ERROR" in severity else self.lines
        kept.append(" ".join(text.split()))
        del kept[: -self.KEPT]

    def forget(self) -> None:
        """Begin anew: what was logged before does not explain what fails from now on."""
        self.lines.clear()
        self.errors.clear()

    def last_errors(self, count: int = 3) -> str:
        """The last errors in one line; says so if there was none."""
        return " | ".join(self.errors[-count:]) or "TensorRT logged no error"


_MESSAGES: dict[int, tuple[TensorRtApi, Messages]] = {}


def messages_of(trt: TensorRtApi) -> Messages:
    """The one logger of this process for this TensorRT."""
    # The module is kept with it, so that its id stays its own.
    return _MESSAGES.setdefault(id(trt), (trt, Messages(trt)))[1]


def _logger(trt: TensorRtApi, messages: Messages) -> ILoggerApi:
    base = trt.ILogger

    def begin(self: Any) -> None:
        base.__init__(self)

    def log(self: Any, severity: Any, message: str) -> None:
        name = getattr(severity, "name", str(severity))
        if name != "VERBOSE":
            messages.take(name, message)

    # Made with type(): the base is known when TensorRT is, not before.
    made = type("Logger", (base,), {"__init__": begin, "log": log})()
    return cast(ILoggerApi, made)
