"""TensorRT and a GPU, played by ONNX Runtime and this process's memory.

The module holds the names that the backend uses and no others; an engine is the ONNX file itself,
and executes on a stream of `HostMemory`, as late as that allows.  It refuses what TensorRT refuses:
asymmetric Q/DQ, batches outside the profile, engines of another version.
"""

from __future__ import annotations

import ctypes
import enum
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from runner.backends.trt.backend import TensorRT
from runner.backends.trt.memory import HostMemory, Memory

MAGIC = b"fake engine\n"
_TYPES = {"float32": "FLOAT", "float16": "HALF", "int64": "INT64", "int32": "INT32"}


class HostBytes(bytes):
    @property
    def nbytes(self) -> int:
        return len(self)


class ILogger:
    Severity = enum.Enum("Severity", "INTERNAL_ERROR ERROR WARNING INFO VERBOSE")


class IProgressMonitor:
    pass


class IOutputAllocator:
    pass


class Module:
    """One TensorRT, of one version, on one machine.

    Attributes:
        memory: the device that is current: what a new runtime works on.
        builds: engines built so far.
        phases: what the progress monitor was told.
    """

    def __init__(self, version: str = "11.4.0.106") -> None:
        self.__version__ = version
        self.memory: HostMemory | None = None
        self.builds = 0
        self.phases: list[str] = []
        self.timings: list[bytes] = []
        self.workspace = 0
        self.cleared: list[str] = []
        self.build_fails = False
        self.ILogger, self.IProgressMonitor = ILogger, IProgressMonitor
        self.IOutputAllocator = IOutputAllocator
        self.DataType = enum.Enum("DataType", "FLOAT HALF BF16 FP8 INT8 UINT8 INT32 INT64 BOOL")
        self.flags: list[str] = []
        self.BuilderFlag = enum.Enum("BuilderFlag", "TF32 SPARSE_WEIGHTS")
        self.ProfilingVerbosity = enum.Enum("ProfilingVerbosity", "LAYER_NAMES_ONLY DETAILED NONE")
        self.LayerInformationFormat = enum.Enum("LayerInformationFormat", "ONELINE JSON")
        self.MemoryPoolType = enum.Enum("MemoryPoolType", "WORKSPACE")
        self.NetworkDefinitionCreationFlag = enum.IntEnum(
            "NetworkDefinitionCreationFlag", {"STRONGLY_TYPED": 1}
        )
        self.TensorIOMode = enum.Enum("TensorIOMode", "INPUT OUTPUT")
        self.ExecutionContextAllocationStrategy = enum.Enum(
            "ExecutionContextAllocationStrategy", "STATIC ON_PROFILE_CHANGE USER_MANAGED"
        )

    def init_libnvinfer_plugins(self, logger: Any, namespace: str) -> bool:
        return True

    def Builder(self, logger: Any) -> Builder:
        return Builder(self, logger)

    def OnnxParser(self, network: Network, logger: Any) -> OnnxParser:
        return OnnxParser(network)

    def Runtime(self, logger: Any) -> Runtime:
        return Runtime(self, logger)


class Network:
    model: Any = None

    @property
    def num_inputs(self) -> int:
        return len(self.model.graph.input)

    def get_input(self, index: int) -> Any:
        return SimpleNamespace(name=self.model.graph.input[index].name)


class OnnxParser:
    def __init__(self, network: Network) -> None:
        self.network = network
        self.errors: list[str] = []

    @property
    def num_errors(self) -> int:
        return len(self.errors)

    def get_error(self, index: int) -> Any:
        return SimpleNamespace(desc=lambda: self.errors[index])

    def parse_from_file(self, path: str) -> bool:
        model = onnx.load(path)
        weights = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type in ("DynamicQuantizeLinear", "MatMulInteger"):
                self.errors.append(f"no importer for {node.op_type}")
            if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
                if weights[node.input[2]].astype(np.float32).any():
                    self.errors.append("only symmetric quantization is supported")
                if node.input[0] in weights and str(weights[node.input[0]].dtype) not in (
                    "int8",
                    "float8_e4m3fn",
                ):
                    self.errors.append("only INT8 can be dequantized")
        self.network.model = model
        return not self.errors


class Profile:
    def __init__(self) -> None:
        self.shapes: dict[str, list[list[int]]] = {}

    def set_shape(
        self, input: str, min: Sequence[int], opt: Sequence[int], max: Sequence[int]
    ) -> None:
        assert all(a <= b <= c for a, b, c in zip(min, opt, max, strict=True))
        self.shapes[input] = [list(min), list(opt), list(max)]


class Config:
    builder_optimization_level = 3
    progress_monitor: Any = None
    profiling_verbosity: Any = None

    def __init__(self, module: Module) -> None:
        self.module = module
        self.profiles: list[Profile] = []
        self.cache: Any = None

    def set_memory_pool_limit(self, pool: Any, bytes: int) -> None:
        self.module.workspace = bytes

    def add_optimization_profile(self, profile: Profile) -> int:
        self.profiles.append(profile)
        return len(self.profiles) - 1

    def create_timing_cache(self, data: bytes) -> Any:
        self.module.timings.append(bytes(data))
        return SimpleNamespace(serialize=lambda: HostBytes(data + b"measured,"))

    def set_timing_cache(self, cache: Any, ignore_mismatch: bool) -> bool:
        self.cache = cache
        return True

    def set_flag(self, flag: Any) -> None:
        self.module.flags.append(flag.name)

    def clear_flag(self, flag: Any) -> None:
        self.module.cleared.append(flag.name)

    def get_timing_cache(self) -> Any:
        return self.cache


class Builder:
    def __init__(self, module: Module, logger: Any) -> None:
        self.module = module
        self.logger = logger

    def create_network(self, flags: int) -> Network:
        assert flags == 1 << 1, "strongly typed, and nothing else"
        return Network()

    def create_builder_config(self) -> Config:
        return Config(self.module)

    def create_optimization_profile(self) -> Profile:
        return Profile()

    def build_serialized_network(self, network: Network, config: Config) -> HostBytes | None:
        monitor = config.progress_monitor
        if monitor is not None:
            monitor.phase_start("Building", None, 2)
            for step in range(2):
                self.module.phases.append(f"step {step}")
                if not monitor.step_complete("Building", step):
                    return None
            monitor.phase_finish("Building")
        if self.module.build_fails:
            self.logger.log(ILogger.Severity.ERROR, "no implementation for node x")
            return None
        assert config.profiling_verbosity.name == "DETAILED"
        self.module.builds += 1
        header = {
            "version": self.module.__version__,
            "profiles": [profile.shapes for profile in config.profiles],
        }
        return HostBytes(
            MAGIC + json.dumps(header).encode() + b"\n" + network.model.SerializeToString()
        )


class Runtime:
    def __init__(self, module: Module, logger: Any) -> None:
        self.module = module
        self.logger = logger

    def deserialize_cuda_engine(self, data: bytes) -> Engine | None:
        if not data.startswith(MAGIC):
            self.logger.log(ILogger.Severity.ERROR, "magic tag does not match")
            return None
        header, _, model = data[len(MAGIC) :].partition(b"\n")
        facts = json.loads(header)
        if facts["version"] != self.module.__version__:
            self.logger.log(ILogger.Severity.ERROR, "built by another version")
            return None
        return Engine(self.module, facts["profiles"], model)


class Engine:
    def __init__(self, module: Module, profiles: list[Any], model: bytes) -> None:
        self.module = module
        assert module.memory is not None
        self.memory = module.memory
        self.profiles = profiles
        self.model = model
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(model, options)
        self.inputs = {i.name: i for i in self.session.get_inputs()}
        self.outputs = {o.name: o for o in self.session.get_outputs()}
        self.num_optimization_profiles = max(1, len(profiles))

    @property
    def num_io_tensors(self) -> int:
        return len(self.inputs) + len(self.outputs)

    def get_tensor_name(self, index: int) -> str:
        return [*self.inputs, *self.outputs][index]

    def get_tensor_mode(self, name: str) -> Any:
        modes = self.module.TensorIOMode
        return modes["INPUT" if name in self.inputs else "OUTPUT"]

    def get_tensor_dtype(self, name: str) -> Any:
        return self.module.DataType[_TYPES[self.numpy_type(name)]]

    def numpy_type(self, name: str) -> str:
        told = {**self.inputs, **self.outputs}[name].type
        types = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(float16)": "float16"}
        return types[told]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        shape = {**self.inputs, **self.outputs}[name].shape
        return tuple(n if isinstance(n, int) else -1 for n in shape)

    device_memory_size_v2 = 4096

    def get_tensor_profile_shape(self, name: str, profile: int) -> list[Any]:
        return list(self.profiles[profile][name])

    def create_engine_inspector(self) -> Any:
        """Layers in TensorRT's words, of the ONNX nodes that have weights."""
        words = {
            onnx.TensorProto.FLOAT: "Row major linear FP32 format",
            onnx.TensorProto.FLOAT16: "Two wide channel vectorized row major FP16 format",
            onnx.TensorProto.INT8: "Thirty-two wide channel vectorized row major Int8 format",
        }
        graph = onnx.load_from_string(self.model).graph
        types = {w.name: words.get(w.data_type, "") for w in graph.initializer}
        layers = [
            {
                "Name": node.output[0],
                "LayerType": node.op_type,
                "Inputs": [{"Name": n, "Format/Datatype": types.get(n, "")} for n in node.input],
                "Outputs": [],
            }
            for node in graph.node
            if node.op_type in ("Conv", "MatMul", "Gemm", "DequantizeLinear")
        ]
        return SimpleNamespace(get_engine_information=lambda form: json.dumps({"Layers": layers}))

    def create_execution_context(self, strategy: Any) -> Context:
        assert strategy.name == "USER_MANAGED"
        return Context(self)


class Context:
    """Counts its calls, since some of them are what a fast pipeline spares."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.profile: Any = None
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}
        self.allocators: dict[str, Any] = {}
        self.scratch = 0

    def set_device_memory(self, memory: int, size: int) -> None:
        assert memory in self.engine.memory.live and size == self.engine.device_memory_size_v2
        self.scratch = memory

    def set_optimization_profile_async(self, index: int, stream: int) -> bool:
        self.profile = self.engine.profiles[index] if self.engine.profiles else None
        return True

    def set_input_shape(self, name: str, shape: Sequence[int]) -> bool:
        if self.profile is not None:
            least, _best, most = self.profile[name]
            if not all(a <= b <= c for a, b, c in zip(least, shape, most, strict=True)):
                return False
        self.shapes[name] = tuple(shape)
        return True

    def infer_shapes(self) -> list[str]:
        return [name for name in self.engine.inputs if name not in self.shapes]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        symbols: dict[Any, int] = {}
        for key, value in self.engine.inputs.items():
            symbols.update(zip(value.shape, self.shapes[key], strict=True))
        shape = self.engine.outputs[name].shape
        return tuple(n if isinstance(n, int) else symbols.get(n, -1) for n in shape)

    def get_max_output_size(self, name: str) -> int:
        return 64 << 10

    def set_tensor_address(self, name: str, address: int) -> bool:
        assert address % 4 == 0
        self.addresses[name] = address
        return True

    def set_output_allocator(self, name: str, allocator: Any) -> bool:
        self.allocators[name] = allocator
        return True

    def execute_async_v3(self, stream: int) -> bool:
        memory, engine = self.engine.memory, self.engine
        if not self.scratch:
            return False
        shapes, addresses = dict(self.shapes), dict(self.addresses)
        if set(addresses) | set(self.allocators) != set(engine.inputs) | set(engine.outputs):
            return False
        lane = memory.stream_of(stream)

        def run() -> dict[str, np.ndarray[Any, Any]]:
            feed = {
                name: read(addresses[name], shapes[name], engine.numpy_type(name))
                for name in engine.inputs
            }
            return dict(zip(engine.outputs, engine.session.run(None, feed), strict=True))

        if self.allocators:
            assert lane.recording is None, "waits for the device: cannot be captured"
            memory.synchronize(lane)
            for name, value in run().items():
                allocator = self.allocators[name]
                place = allocator.reallocate_output_async(name, 0, value.nbytes, 256, stream)
                allocator.notify_shape(name, value.shape)
                if not place:
                    return False
                write(place, value)
            memory.log.append(("execute", lane.number))
            return True

        def work() -> None:
            for name, value in run().items():
                write(addresses[name], value)

        memory.put(lane, "execute", work)
        return True


def read(address: int, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw: Any = (ctypes.c_ubyte * count).from_address(address)
    return np.frombuffer(raw, dtype).reshape(shape).copy()


def write(address: int, value: np.ndarray[Any, Any]) -> None:
    whole = np.ascontiguousarray(value)
    ctypes.memmove(address, whole.ctypes.data, whole.nbytes)


class Device(HostMemory):
    """A GPU that TensorRT works on while it is the current one."""

    def __init__(self, module: Module, number: int) -> None:
        super().__init__(seed=number)
        self.module = module

    def activate(self) -> None:
        self.module.memory = self


class FakeTensorRT(TensorRT):
    """The real backend on the fake module; a test names it `tests.runner.trt.fake:FakeTensorRT`."""

    def __init__(self, gpus: int = 1, version: str = "11.4.0.106", **options: Any) -> None:
        super().__init__(**options)
        self.gpus = gpus
        self.driver = "570.86.15"
        self.module = Module(version)
        self.opened: list[HostMemory] = []

    def _library(self) -> Any:
        return self.module

    def _count(self) -> int:
        return self.gpus

    def _driver(self) -> str:
        return self.driver

    def _open(self, device: int) -> Memory:
        memory = Device(self.module, device)
        self.opened.append(memory)
        return memory
